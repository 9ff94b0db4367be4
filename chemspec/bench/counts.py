"""Count what drafters, their draft lengths and Spec-Verification save and cost. No clock is read.

All answer the same queries; `progress` is told how many rows of how many are done.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

from chemspec.bench.sweep import Progress, Setting, sweep
from chemspec.draft.registry import DRAFTERS
from chemspec.engine.engine import Engine
from chemspec.engine.registry import drafter_megabytes
from chemspec.evaluation.accuracy import KnownReaction, share
from chemspec.io import tables
from chemspec.metrics import numbers
from chemspec.model import checkpoint
from chemspec.model.checkpoint import stored_tensors
from chemspec.settings import DecodeSettings


def drafters(
    engine: Engine,
    queries: Sequence[str],
    names: Sequence[str],
    *,
    widths: Sequence[int] = (1,),
    batch_size: int = 1,
    progress: Progress = lambda *_: None,
) -> list[dict[str, Any]]:
    """Answer queries with every drafter; width 1 is greedy.

    Returns:
        A row for every width and drafter. `megabytes` are those of the drafter's own weights in fp32 (tables 8 and 9 of
        Xia et al.), 0 where it has none. `same` says whether all answers were those of the first drafter.
    """
    settings = []
    for width in widths:
        plain = DecodeSettings(
            decoder="greedy" if width == 1 else "beam", n=width, batch_size=batch_size, drafting="fixed"
        )
        settings += [
            Setting(f"{name}, {width}", replace(plain, drafter=name), f"{names[0]}, {width}") for name in names
        ]
    return [
        {
            "task": engine.task,
            **row.pick("decoder", "n", "drafter"),
            "queries": len(queries),
            **row.pick("passes_per_query", "tokens_per_pass", "acceptance_rate", "draft_hit_rate", "nodes_per_pass"),
            "megabytes": drafter_megabytes(engine.folder, row.setting.settings.drafter),
            "same": all(row.same()),
        }
        for row in sweep(engine, queries, settings, progress=progress)
    ]


def draft_lengths(
    engine: Engine,
    queries: Sequence[str],
    settings: DecodeSettings,
    *,
    names: Sequence[str],
    lengths: Sequence[int],
    progress: Progress = lambda *_: None,
) -> list[dict[str, Any]]:
    """Answer queries with every drafter and draft length, after Tulsian et al.; length 0 adapts to the drafts' fate.

    Returns:
        One row for every drafter with a model and length, and one for every other drafter. `same` is the share of
        queries with the answers of the standard decoder; draws of speculative sampling are others by nature, so that it
        says nothing there.
    """
    work = [Setting("standard", replace(settings, drafter="none"))]
    for name in names:
        for length in lengths if DRAFTERS.lookup(name).companions else (0,):
            work.append(
                Setting(
                    f"{name} {length}",
                    replace(settings, drafter=name, draft_length=length, drafting="fixed"),
                    "standard",
                )
            )
    rows = []
    for row in sweep(engine, queries, work, progress=progress)[1:]:
        how, counted = row.setting.settings, row.counted
        learned = bool(DRAFTERS.lookup(how.drafter).companions)
        rows.append(
            {
                **row.pick("decoder", "n", "drafter"),
                "gamma": str(how.draft_length or "adaptive") if learned else "",
                **row.pick("passes", "passes_per_query", "draft_calls"),
                "calls_per_query": counted.draft_calls / counted.queries,
                "calls_per_pass": counted.draft_calls / max(1, counted.passes),
                **row.pick("nodes_per_pass", "tokens_per_pass", "acceptance_rate", "draft_hit_rate", "alpha"),
                "same": fmean(row.same()),
            }
        )
    return rows


def spec_verification(
    engine: Engine,
    asked: Sequence[KnownReaction],
    names: Sequence[str],
    *,
    betas: Sequence[int],
    taus: Sequence[float],
    batch_size: int = 1,
    progress: Progress = lambda *_: None,
) -> list[dict[str, Any]]:
    """Answer greedily under every rule of Xia et al. (2023, tables 4 and 6), exactly first; beta = 1 is always exact.

    Args:
        engine: of the target.
        asked: queries with their true answers.
        names: of drafters.
        betas: how many of the best tokens may be drafted.
        taus: the most log-prob in nats that a drafted token may lack.
        batch_size: queries a model call.
        progress: see above.

    Returns:
        A row for every drafter and rule: `tokens_per_pass`, `acceptance_length` ("Tok." in the paper), `agreement` with
        the target's own answers (the same tokens), and `accuracy` (exact match after canonicalisation), both with 95 %
        intervals.
    """
    plain = DecodeSettings(decoder="greedy", n=1, batch_size=batch_size, drafting="fixed")
    rules = [(1, 0.0)] + [(beta, tau) for beta in betas if beta > 1 for tau in taus]
    settings = [
        Setting(f"{name}, {beta}, {tau}", replace(plain, drafter=name, beta=beta, tau=tau), f"{name}, 1, 0.0")
        for name in names
        for beta, tau in rules
    ]
    rows = []
    for row in sweep(engine, [question.query for question in asked], settings, progress=progress):
        same = row.same(first=True)
        right = sum(
            any(answer.canonical == question.answer for answer in result.hypotheses[:1])
            for question, result in zip(asked, row.results, strict=True)
        )
        rows.append(
            {
                **row.pick("drafter", "beta", "tau", "exact"),
                "queries": len(asked),
                **row.pick("passes_per_query", "tokens_per_pass", "acceptance_length"),
                "agreement": share(sum(same), len(same)),
                "accuracy": share(right, len(asked)),
            }
        )
    return rows


def alpha(engine: Engine, queries: Sequence[str], drafter: str, *, length: int = 8) -> float:
    """Return the share of a small model's tokens that the target accepts, greedily (alpha of Leviathan et al. 2023).

    Args:
        engine: of the target.
        queries: SMILES.
        drafter: of the small model.
        length: tokens drafted at once.
    """
    settings = DecodeSettings(
        decoder="greedy", n=1, batch_size=1, drafter=drafter, draft_length=length, drafting="fixed"
    )
    rate = numbers([result.trace for result in engine.predict(queries, settings)]).alpha
    return min(max(round(rate, 3), 0.001), 0.999)  # a rate of one would draft without end


def target_megabytes(engine: Engine) -> float:
    """Return the size of the target's weights in fp32."""
    model = checkpoint.load(engine.folder).model
    return 4 * sum(tensor.numel() for tensor in stored_tensors(model).values()) / 1e6


DRAFTER_COLUMNS = {
    "decoder": "{decoder}{width}",
    "drafter": "{drafter}",
    "queries": "{queries}",
    "passes": "{passes_per_query:.2f}",
    "tokens/pass": "{tokens_per_pass:.2f}",
    "accepted": "{acceptance_rate:.0%}",
    "hits": "{draft_hit_rate:.0%}",
    "nodes/pass": "{nodes_per_pass:.1f}",
    "weights MB": "{megabytes:.1f}",
    "same": "{same}",
}
LENGTH_COLUMNS = {
    "decoder": "{decoder}",
    "drafter": "{drafter}",
    "gamma": "{gamma}",
    "passes": "{passes_per_query:.1f}",
    "calls": "{calls_per_query:.1f}",
    "nodes/pass": "{nodes_per_pass:.1f}",
    "tokens/pass": "{tokens_per_pass:.2f}",
    "hits": "{draft_hit_rate:.0%}",
    "alpha": "{alpha:.3f}",
    "same": "{same:.0%}",
}
RULE_COLUMNS = {
    "drafter": "{drafter}",
    "beta": "{beta}",
    "tau": "{tau:g}",
    "": "{kind}",
    "passes per query": "{passes_per_query:.2f}",
    "tokens per pass": "{tokens_per_pass:.2f}",
    "agreement": "{agreement[value]:.1%} ({agreement[low]:.1%} to {agreement[high]:.1%})",
    "accuracy": "{accuracy[value]:.1%} ({accuracy[low]:.1%} to {accuracy[high]:.1%})",
}


def shown(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row of `drafters` with what `DRAFTER_COLUMNS` needs besides."""
    return {**row, "width": row["n"] if row["n"] > 1 else None, "same": "yes" if row["same"] else "no"}


def rule_table(rows: Sequence[dict[str, Any]]) -> str:
    """Return what `spec_verification` counted as Markdown."""
    return tables.markdown(RULE_COLUMNS, [{**row, "kind": "exact" if row["exact"] else "relaxed"} for row in rows])
