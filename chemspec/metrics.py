"""Derive numbers from traces: the only place where a rate is defined."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from chemspec.types import Continued, DecodeResult, Pass, Trace

# Decoders whose every step asks for scores of prefixes that are one token longer than those of the step before: without
# drafts each step takes one pass.
ONE_PASS_A_STEP = ("greedy", "beam", "sample")


class Spread(NamedTuple):
    """Median and quartiles (the inclusive kind: they never leave the measured range) of `runs` values."""

    median: float
    low: float
    high: float
    runs: int

    @classmethod
    def from_values(cls, values: Iterable[float]) -> Spread:
        """Raises ValueError where there is no value."""
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
        queries: Questions answered.
        passes: Runs of the model's decoder; what several queries share in one run counts once for each.
        emitted: Tokens written into the answer, end-of-sequence included; for a beam, tokens by which it grew.
        computed: Places (nodes) that were run through the decoder: those asked for and those drafted.
        drafted: Places among them that nobody had asked for yet: added by a drafter or a look-ahead.
        accepted: Drafted tokens that the model confirmed, so that they stand in the answer; the last token of a pass,
            which in greedy decoding was not itself computed, is not counted.
        refused: Passes in which a draft was left before its end: one drafted token was looked at and was wrong.
        draft_calls: Runs of the drafter's own models, if it has any; what several queries share counts once for each.
        draft_seconds: Time spent drafting; a batch's time is shared out evenly among its queries.
        model_seconds: Time spent in the decoder, shared out likewise.
        waited_seconds: Time for which queries waited on the decoder; in a batch every query waits for the whole run.
        seconds: Time from the start of decoding to the last pass, everything included.
        margin: Smallest log-prob gap between the first and the second choice: what rounding would have to bridge to
            change a greedy answer; a beam or a sample may change by other ties, too.
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
    waited_seconds: float
    seconds: float
    margin: float

    @property
    def passes_per_query(self) -> float:
        """Passes / queries."""
        return _ratio_or_zero(self.passes, self.queries)

    @property
    def nodes_per_pass(self) -> float:
        """Computed / passes: how wide a pass is; 1 for standard greedy decoding."""
        return _ratio_or_zero(self.computed, self.passes)

    @property
    def tokens_per_pass(self) -> float:
        """Emitted tokens / passes; 1 for standard decoding."""
        return _ratio_or_zero(self.emitted, self.passes)

    @property
    def acceptance_rate(self) -> float:
        """Accepted draft tokens / emitted tokens: the meaning of Andronov et al."""
        return _ratio_or_zero(self.accepted, self.emitted)

    @property
    def draft_hit_rate(self) -> float:
        """Accepted / drafted; what others, vLLM among them, call the acceptance rate."""
        return _ratio_or_zero(self.accepted, self.drafted)

    @property
    def acceptance_length(self) -> float:
        """Accepted + 1 per pass: the "Tok." of Xia et al."""
        return _ratio_or_zero(self.accepted, self.passes) + 1 if self.passes else 0.0

    @property
    def alpha(self) -> float:
        """Accepted / (accepted + refused): how likely a token is right if those before it were (Leviathan et al.)."""
        return _ratio_or_zero(self.accepted, self.accepted + self.refused)

    @property
    def host_share(self) -> float:
        """Share of the waiting time spent outside the model: bookkeeping in Python."""
        return _ratio_or_zero(self.seconds - self.waited_seconds, self.seconds)


def _rejects_draft(item: Pass) -> bool:
    """Return whether the text left every draft before its end; in an answer's last pass, eos may have cut it."""
    return item.accepted < max((len(draft.tokens) for draft in item.drafts), default=0)


def speed_numbers(traces: Sequence[Trace]) -> SpeedNumbers:
    """Sum up traces.

    In a batch, a call's seconds are shared out evenly among its queries (`model_seconds`), while every one of them
    waited for the whole call (`waited_seconds`, `seconds`).
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
        waited_seconds=sum(item.model_seconds for item in passes),
        seconds=sum(trace.seconds for trace in traces),
        margin=min((item.margin for item in passes), default=float("inf")),
    )


@dataclass(frozen=True)
class Savings:
    """What drafts saved one or more queries, all their searches together; sums of these are sums of their counts.

    Attributes:
        tokens: by which the hypotheses of all searches grew, end-of-sequence included.
        passes: runs of the model's decoder.
        standard: runs that the same searches take without drafts; None where they are not known.
        copied: accepted drafted tokens that stand in the query, of a beam those of its leading hypothesis.
        drafted: nodes that were computed before the decoder asked for them.
    """

    tokens: int
    passes: int
    standard: int | None
    copied: int
    drafted: int

    def __add__(self, other: Savings) -> Savings:
        return Savings(
            self.tokens + other.tokens,
            self.passes + other.passes,
            None if self.standard is None or other.standard is None else self.standard + other.standard,
            self.copied + other.copied,
            self.drafted + other.drafted,
        )


def count_savings(result: DecodeResult) -> Savings:
    """Return what drafts saved in answering a query, in all its `searches`."""
    first, *others = map(_savings_of_search, searches_behind(result))
    return sum(others, first)


def searches_behind(result: DecodeResult) -> tuple[DecodeResult, ...]:
    """Return the searches behind a result: of a list of different answers first those that were too narrow."""
    return (*(result.distinct.earlier if result.distinct else ()), result)


def _savings_of_search(result: DecodeResult) -> Savings:
    traces = [spelling.trace for spelling in result.spellings] or [result.trace]
    steps = [trace.continued or _from_scratch(trace) for trace in traces]
    settings = result.trace.settings
    comparable = settings.get("decoder") in ONE_PASS_A_STEP and settings.get("beta", 1) == 1
    passes = [item for trace in traces for item in trace.passes]
    return Savings(
        tokens=sum(step.tokens for step in steps),
        passes=len(result.trace.passes),
        # All spellings of a query share the passes until the last of them is done.
        standard=max(step.standard for step in steps) if comparable else None,
        copied=sum(span.length for item in passes for span in item.spans if span.span is not None),
        drafted=sum(item.drafted for item in passes),
    )


def _from_scratch(trace: Trace) -> Continued:
    tokens = sum(item.emitted for item in trace.passes)
    return Continued(tokens, tokens)


class PassCounts(NamedTuple):
    """Passes of the model that some searches took, and those that they take without drafts.

    A relaxed search has no counterpart without drafts: its own passes count on both sides.
    """

    taken: int = 0
    standard: int = 0

    @classmethod
    def of_result(cls, result: DecodeResult) -> PassCounts:
        """Count all searches behind a result, see `savings`."""
        saved = count_savings(result)
        return cls(saved.passes, saved.passes if saved.standard is None else saved.standard)

    @classmethod
    def total_passes(cls, counts: Iterable[PassCounts]) -> PassCounts:
        """Add up counts."""
        listed = list(counts)
        return cls(sum(count.taken for count in listed), sum(count.standard for count in listed))
