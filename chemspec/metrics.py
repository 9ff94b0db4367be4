"""Numbers from traces: the only place where a rate is defined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from chemspec.types import Trace


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


@dataclass(frozen=True)
class Numbers:
    """Counts over one or more traces, and the rates that follow from them."""

    queries: int
    passes: int
    emitted: int
    computed: int
    drafted: int
    accepted: int
    draft_seconds: float
    model_seconds: float
    waited_seconds: float
    seconds: float
    margin: float

    @property
    def passes_per_query(self) -> float:
        return _share(self.passes, self.queries)

    @property
    def nodes_per_pass(self) -> float:
        return _share(self.computed, self.passes)

    @property
    def tokens_per_pass(self) -> float:
        """Emitted tokens / passes; 1 for standard decoding."""
        return _share(self.emitted, self.passes)

    @property
    def acceptance_rate(self) -> float:
        """Accepted draft tokens / emitted tokens: the meaning of Andronov et al."""
        return _share(self.accepted, self.emitted)

    @property
    def draft_hit_rate(self) -> float:
        """Accepted / drafted."""
        return _share(self.accepted, self.drafted)

    @property
    def acceptance_length(self) -> float:
        """Accepted + 1 per pass: the "Tok." of Xia et al."""
        return _share(self.accepted, self.passes) + 1 if self.passes else 0.0

    @property
    def host_share(self) -> float:
        """Share of the waiting time spent outside the model: bookkeeping in Python."""
        return _share(self.seconds - self.waited_seconds, self.seconds)


def numbers(traces: Sequence[Trace]) -> Numbers:
    """Sum up traces.

    In a batch, a call's seconds are shared out evenly among its queries (`model_seconds`), while every one of them waited
    for the whole call (`waited_seconds`, `seconds`).
    """
    passes = [item for trace in traces for item in trace.passes]
    return Numbers(
        queries=len(traces),
        passes=len(passes),
        emitted=sum(item.emitted for item in passes),
        computed=sum(item.computed for item in passes),
        drafted=sum(item.drafted for item in passes),
        accepted=sum(item.accepted for item in passes),
        draft_seconds=sum(item.draft_seconds / item.width for item in passes),
        model_seconds=sum(item.model_seconds / item.width for item in passes),
        waited_seconds=sum(item.model_seconds for item in passes),
        seconds=sum(trace.seconds for trace in traces),
        margin=min((item.margin for item in passes), default=float("inf")),
    )
