"""Speed metrics derived from traces, and what is said of them; every rate is defined here."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from chemspec.types import Continued, DecodeResult, Pass, Trace


class Spread(NamedTuple):
    """Median and quartiles (inclusive method, within the measured range) of `runs` values."""

    median: float
    low: float
    high: float
    runs: int

    @classmethod
    def from_values(cls, values: Iterable[float]) -> Spread:
        """Return median and quartiles; raises ValueError without values."""
        listed = list(values)
        if not listed:
            raise ValueError("no values, hence no median")
        low, median, high = statistics.quantiles(listed, n=4, method="inclusive") if len(listed) > 1 else listed * 3
        return cls(median, low, high, len(listed))


def _ratio_or_zero(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


@dataclass(frozen=True)
class SpeedNumbers:
    """Counts over one or more traces, and the rates that follow from them.

    The page How it works shows these lines and the docstrings below to the public.

    Attributes:
        queries: Number of queries.
        passes: Forward passes of the decoder; a pass shared by several queries counts once for each.
        emitted: Generated tokens, end-of-sequence included; for a beam, tokens by which it grew.
        computed: Nodes computed by the decoder: requested and drafted ones.
        drafted: Nodes among them that were not requested yet: added by a drafter or a look-ahead.
        accepted: Drafted tokens that the model accepted; the last token of a pass, which in greedy decoding is not
            drafted, does not count.
        refused: Passes in which a drafted token was rejected.
        draft_calls: Forward passes of the drafter's own models; one shared by several queries counts once for each.
        draft_seconds: Time spent drafting; a batch's time is divided evenly among its queries.
        model_seconds: Time spent in the decoder, divided likewise.
        seconds: Time from the start of decoding to the last pass, everything included.
        margin: Smallest log-prob gap between the best and the second-best token: rounding below it cannot change a
            greedy output; beams and samples have other ties, too.
    """

    queries: int
    passes: int
    emitted: int
    computed: int
    drafted: int
    accepted: int
    refused: int
    draft_calls: int
    draft_seconds: float
    model_seconds: float
    seconds: float
    margin: float

    @property
    def passes_per_query(self) -> float:
        """Passes / queries."""
        return _ratio_or_zero(self.passes, self.queries)

    @property
    def nodes_per_pass(self) -> float:
        """Computed / passes: average number of nodes per pass; 1 for standard greedy decoding."""
        return _ratio_or_zero(self.computed, self.passes)

    @property
    def tokens_per_pass(self) -> float:
        """Emitted tokens / passes; 1 for standard decoding."""
        return _ratio_or_zero(self.emitted, self.passes)

    @property
    def acceptance_rate(self) -> float:
        """Accepted draft tokens / emitted tokens: the acceptance rate of Andronov et al."""
        return _ratio_or_zero(self.accepted, self.emitted)

    @property
    def draft_hit_rate(self) -> float:
        """Accepted / drafted: the acceptance rate of vLLM and others."""
        return _ratio_or_zero(self.accepted, self.drafted)

    @property
    def acceptance_length(self) -> float:
        """Accepted + 1 per pass: the "Tok." of Xia et al."""
        return _ratio_or_zero(self.accepted, self.passes) + 1 if self.passes else 0.0

    @property
    def alpha(self) -> float:
        """Accepted / (accepted + refused): acceptance probability given that earlier tokens were (Leviathan et al.)."""
        return _ratio_or_zero(self.accepted, self.accepted + self.refused)


def _rejects_draft(item: Pass) -> bool:
    """Return whether every draft was rejected before its end (in the last pass, eos may have cut it)."""
    return item.accepted < max((len(draft.tokens) for draft in item.drafts), default=0)


def speed_numbers(traces: Sequence[Trace]) -> SpeedNumbers:
    """Return the metrics of several traces together.

    In a batch, the seconds of a pass are divided evenly among its queries (`model_seconds`), while every query waits
    for the whole pass (`seconds`).
    """
    passes = [item for trace in traces for item in trace.passes]
    return SpeedNumbers(
        queries=len(traces),
        passes=len(passes),
        emitted=sum(item.emitted for item in passes),
        computed=sum(item.computed for item in passes),
        drafted=sum(item.drafted for item in passes),
        accepted=sum(item.accepted for item in passes),
        refused=sum(_rejects_draft(item) for trace in traces for item in trace.passes[:-1]),
        draft_calls=sum(item.draft_calls for item in passes),
        draft_seconds=sum(item.draft_seconds / item.width for item in passes),
        model_seconds=sum(item.model_seconds / item.width for item in passes),
        seconds=sum(trace.seconds for trace in traces),
        margin=min((item.margin for item in passes), default=float("inf")),
    )


@dataclass(frozen=True)
class Savings:
    """Forward passes saved by drafts for one or more queries, all searches together; can be added."""

    tokens: int  # number of tokens by which the hypotheses of all searches grew, end-of-sequence included
    passes: int  # forward passes of the decoder
    standard: int | None  # forward passes of the same searches without drafts; None if unknown
    copied: int  # accepted drafted tokens that were copied from the query; for a beam those of its best hypothesis
    drafted: int  # nodes that were computed before the decoder requested them

    def __add__(self, other: Savings) -> Savings:
        return Savings(
            self.tokens + other.tokens,
            self.passes + other.passes,
            None if self.standard is None or other.standard is None else self.standard + other.standard,
            self.copied + other.copied,
            self.drafted + other.drafted,
        )


def count_savings(result: DecodeResult) -> Savings:
    """Return the savings of a result, in all its searches."""
    first, *others = map(_savings_of_search, searches_behind(result))
    return sum(others, first)


def sum_savings(results: Iterable[DecodeResult]) -> Savings:
    """Return the summed savings of all successful results."""
    return sum((count_savings(result) for result in results if result.status == "ok"), Savings(0, 0, 0, 0, 0))


def searches_behind(result: DecodeResult) -> tuple[DecodeResult, ...]:
    """Return the searches of a result: with `distinct` the narrower ones first."""
    return (*(result.distinct.earlier if result.distinct else ()), result)


def _savings_of_search(result: DecodeResult) -> Savings:
    traces = [spelling.trace for spelling in result.spellings] or [result.trace]
    emitted = [sum(item.emitted for item in trace.passes) for trace in traces]
    steps = [trace.continued or Continued(tokens, tokens) for trace, tokens in zip(traces, emitted, strict=True)]
    settings = result.trace.settings
    exactness = str(settings.get("exactness", ""))  # "exact bit for bit" and the like
    comparable = exactness.startswith("exact ") and not exactness.startswith("exact in distribution")
    passes = [item for trace in traces for item in trace.passes]
    return Savings(
        tokens=sum(step.tokens for step in steps),
        passes=len(result.trace.passes),
        # All variants of a query share the passes until the last one is finished.
        standard=max(step.standard for step in steps) if comparable else None,
        copied=sum(span.length for item in passes for span in item.spans if span.span is not None),
        drafted=sum(item.drafted for item in passes),
    )


class PassCounts(NamedTuple):
    """Forward passes of searches, with and without drafts; for a relaxed search its own passes on both sides."""

    taken: int = 0
    standard: int = 0

    @classmethod
    def of_result(cls, result: DecodeResult) -> PassCounts:
        """Count the passes of all searches of a result, see `count_savings`."""
        saved = count_savings(result)
        return cls(saved.passes, saved.passes if saved.standard is None else saved.standard)

    @classmethod
    def total_passes(cls, counts: Iterable[PassCounts]) -> PassCounts:
        """Add up counts."""
        listed = list(counts)
        return cls(sum(count.taken for count in listed), sum(count.standard for count in listed))


# --- sentences -----------------------------------------------------------------------------------

PRECISIONS = {"up to ties": "up to ties in the arithmetic", "up to rounding": "up to rounding in half precision"}


def summary_line(result: DecodeResult) -> str:
    """Return the summary of a prediction: tokens, passes, milliseconds of decoding, and exactness."""
    saved, milliseconds, settings = count_savings(result), 1e3 * result.trace.seconds, result.trace.settings
    time = f"{milliseconds:.{1 if milliseconds < 10 else 0}f} ms"
    batch = max((item.width for item in result.trace.passes), default=1)
    reason = no_savings_reason(saved, settings, batch)
    parts = (f"{describe_savings(saved)}, {time}", reason, _describe_exactness(settings))
    return "; ".join(filter(None, parts))


def describe_savings(saved: Savings, *, queries: str = "your query") -> str:
    """Describe tokens and passes, with the passes of decoding without drafts if these are more."""
    text = f"{saved.tokens:,} token{'s' * (saved.tokens != 1)} in {saved.passes:,} pass{'es' * (saved.passes != 1)}"
    if saved.standard is not None and saved.standard > saved.passes:
        text += f" instead of {saved.standard:,}"
    return text + (f" ({saved.copied:,} copied from {queries})" if saved.copied else "")


def no_savings_reason(saved: Savings, settings: dict[str, Any], batch: int) -> str:
    """Return why drafts saved no pass, as far as one run shows; empty if some were saved or it is unknown."""
    drafter = settings.get("drafter")
    if drafter == "none" or saved.standard is None or saved.passes < saved.standard:
        return ""
    if saved.drafted:
        return "drafts saved no pass"
    if settings.get("node_budget") == 0:
        return "no drafts: --node-budget is 0"
    if drafter != "auto" and settings.get("drafting") == "fixed":
        return f"no drafts: {drafter} proposed none"
    width = f" with a beam of {settings['n']}" if settings.get("decoder") == "beam" else ""
    in_batch = f" in a batch of {batch} (--batch-size 1 decodes queries one by one)" if batch > 1 and not width else ""
    hint = "" if drafter == "auto" else " (--drafting fixed drafts anyway)"
    return f"no drafts: on this machine they would not pay{width}{in_batch}{hint}"


def _describe_exactness(settings: dict[str, Any]) -> str:
    """Describe what drafts leave unchanged, and to which arithmetic precision."""
    exactness = str(settings.get("exactness", ""))
    if exactness == "relaxed":
        return "relaxed: drafts can change the answers"
    if settings.get("drafter") == "none":
        return "standard decoding, without drafts"
    guarantee, same = "exact ", "same answers as without drafts"
    if exactness.startswith("exact in distribution "):
        guarantee, same = "exact in distribution ", "each answer as probable as without drafts"
    arithmetic = exactness.removeprefix(guarantee)
    return f"{same}, {PRECISIONS.get(arithmetic, arithmetic)}" if exactness.startswith("exact ") else exactness
