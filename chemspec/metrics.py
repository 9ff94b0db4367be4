"""Speed metrics derived from traces, and what is said of them; every rate is defined here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from chemspec.types import DecodeResult, Pass, StandardCost, Trace


class Spread(NamedTuple):
    """Median and quartiles (inclusive method, within the measured range) of `runs` values."""

    median: float
    low: float
    high: float
    runs: int

    @classmethod
    def from_values(cls, values: Iterable[float]) -> Spread:
        """Return median and quartiles; raises ValueError without values."""
        import statistics  # loads `fractions` and `decimal`; --help does without

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


NO_SAVINGS = Savings(0, 0, 0, 0, 0)


def count_savings(result: DecodeResult) -> Savings:
    """Return the savings of a result, in all its searches."""
    first, *others = map(_savings_of_search, searches_behind(result))
    return sum(others, first)


def searches_behind(result: DecodeResult) -> tuple[DecodeResult, ...]:
    """Return the searches of a result: with `distinct` the narrower ones first."""
    return (*(result.distinct.earlier if result.distinct else ()), result)


def _savings_of_search(result: DecodeResult) -> Savings:
    traces = [variant.trace for variant in result.variants] or [result.trace]
    emitted = [sum(item.emitted for item in trace.passes) for trace in traces]
    steps = [trace.standard_cost or StandardCost(tokens, tokens) for trace, tokens in zip(traces, emitted, strict=True)]
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
