"""All options of decoding, for the command `predict`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from chemspec.cli import options as opt
from chemspec.cli.options import DEFAULT, option
from chemspec.settings import RULES, DecodeSettings

ONE_DRAFT = ("ar", "hierarchy", "spec_drafter", "blockwise")  # drafters that propose one continuation of a prefix
BUILT_IN = ("auto", "mixed", "copy", "smart", "windows", *ONE_DRAFT, "medusa", "none")
AUTO = 1 << 30  # batch size that stands for "auto"; larger than any real one


def _parse_batch_size(given: str | int) -> int:
    try:
        return AUTO if given == "auto" else int(given)
    except ValueError:
        raise typer.BadParameter(f"{given!r} is neither a number of queries nor auto") from None


@dataclass(frozen=True, kw_only=True)
class AllDecoding(opt.Decoding):
    """All options of decoding, named like the fields of `DecodeSettings`.

    Attributes:
        draft_length: maximum tokens per draft; 0: the drafter decides.
        draft_count: maximum drafts per prefix; 0: the drafter decides; drafters with a network of their own make one.
        dilation: with --drafter windows: query tokens skipped between two tokens of a draft.
        node_budget: maximum drafted nodes per query in a forward pass.
        drafting: number of drafted nodes: planned, as many as pay off on this machine, or fixed, up to --node-budget.
        length_penalty: rank beam answers by log-prob / length ** penalty.
        temperature: with --decoder sample: sampling temperature.
        top_p: with --decoder sample: nucleus probability (top-p).
        seed: random seed of --decoder sample and --augment.
        beta: relaxed greedy: accept a drafted token among the beta best ones (1: exact).
        tau: with --beta: maximum log-probability gap between an accepted token and the best one.
        guide: constraints on a retro step, such as "break C1-N3; keep C5-C6; only amide": atoms are numbered from 0 in
            the canonical SMILES; a wrong name lists the valid ones. Implies --distinct.
    """

    batch_size: Annotated[
        int,
        option(
            "Queries decoded together; auto: the fastest number on this machine.",
            parser=_parse_batch_size,
            metavar="INTEGER|auto",
        ),
    ] = DEFAULT.batch_size
    distinct: Annotated[
        bool | None,
        option(
            "List distinct valid molecules other than the query, and widen the search until there are -n; "
            "--no-distinct lists the plain beam. Default: --distinct for beams without --rules and --length-penalty.",
            "--distinct/--no-distinct",
        ),
    ] = None  # type: ignore[assignment]
    draft_length: int = DEFAULT.draft_length
    draft_count: int = DEFAULT.draft_count
    dilation: int = DEFAULT.dilation
    node_budget: int = DEFAULT.node_budget
    drafting: str = DEFAULT.drafting
    length_penalty: float = DEFAULT.length_penalty
    rules: Annotated[
        str, option(f"Beam search with ranking and stopping rules of another program: {', '.join(RULES[1:])}.")
    ] = DEFAULT.rules
    temperature: float = DEFAULT.temperature
    top_p: float = DEFAULT.top_p
    seed: int = DEFAULT.seed
    beta: int = DEFAULT.beta
    tau: float = DEFAULT.tau
    guide: str = DEFAULT.guide

    @property
    def batch_is_auto(self) -> bool:
        """Whether the fastest batch size is to be found."""
        return self.batch_size == AUTO

    @property
    def lists_distinct(self) -> bool:
        """Whether to list distinct molecules only; by default for a beam whose ranking merging would not undo."""
        if self.distinct is not None:
            return self.distinct
        beam = self.decoder == "beam" or (self.decoder == "auto" and self.n > 1)
        plain = self.rules != DEFAULT.rules or self.length_penalty != 0
        return bool(self.guide) or (beam and not plain)

    def settings(self) -> DecodeSettings:  # type: ignore[override]
        """Return the settings, with defaults that depend on other options."""
        size = DEFAULT.batch_size if self.batch_is_auto else self.batch_size
        return super().settings(batch_size=size, distinct=self.lists_distinct)


def ignored_draft_options(settings: DecodeSettings) -> list[str]:
    """Return a sentence on every draft option that the chosen built-in drafter ignores."""
    drafter, heeded = settings.drafts_by, {"draft_length": True, "draft_count": True, "dilation": False}
    if drafter in ONE_DRAFT:
        heeded["draft_count"] = False
    elif drafter == "none":
        heeded = dict.fromkeys(heeded, False)
    elif drafter == "windows" or drafter not in BUILT_IN:
        return []
    chosen = [name for name, heeds in heeded.items() if getattr(settings, name) and not heeds]
    return [f"--{name.replace('_', '-')} has no effect with the drafter {drafter}" for name in chosen]
