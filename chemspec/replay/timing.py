"""Figures and tables of timed runs, as plain values; times are milliseconds of wall clock."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Literal, NamedTuple

from chemspec.metrics import SpeedNumbers, Spread, speed_numbers
from chemspec.plugins import DECODERS
from chemspec.settings import DecodeSettings
from chemspec.types import DecodeResult, Trace

END = "end"  # shown in place of the end-of-sequence token

Rounds = Sequence[Sequence[DecodeResult]]  # of each setting its results, in order of the rounds


class PassEnd(NamedTuple):
    """When a pass ended, in ms since the start, and the tokens (steps, for beams) written up to and with it."""

    end: float
    written: int


class LaneFigures(NamedTuple):
    """One measured setting of a race."""

    settings: DecodeSettings
    time: Spread  # of its runs, in ms
    counts: SpeedNumbers  # of all its runs; tokens mean nothing for SBS, whose trace does not count them
    speedup: float | None  # against its standard; None where that was not measured
    same: bool | None  # whether every run gave the standard's answers

    @property
    def passes(self) -> float:
        """Passes of one run, on average."""
        return self.counts.passes_per_query


def setting_name(settings: DecodeSettings) -> str:
    """Return a setting in a few words."""
    searches = {"greedy": "Greedy", "beam": f"Beam {settings.n}", "sbs": f"SBS {settings.n} (relaxed)"}
    drafted = "standard" if is_standard(settings) else drafts_text(settings)
    return f"{searches.get(settings.decoder, settings.decoder)} · {drafted}"


def drafts_text(settings: DecodeSettings) -> str:
    """Return the drafter of a setting and what of it was chosen by hand."""
    parts = ["no drafts" if settings.drafts_by == "none" else settings.drafts_by]
    if settings.drafts_by != "none":
        parts += [f"length {settings.draft_length}"] * bool(settings.draft_length)
        count = settings.draft_count
        parts += [f"{count} draft{'s' * (count > 1)}"] * bool(count)
    return ", ".join(parts)


def is_standard(settings: DecodeSettings) -> bool:
    """Return whether this is a textbook decoder without drafts: what speed-ups are taken against."""
    return settings.exact and settings.drafts_by == "none"


def standard_of(settings: DecodeSettings) -> DecodeSettings:
    """Return the standard decoder to which a setting is fairly compared: same search, same width, no drafts."""
    decoder = "beam" if DECODERS.lookup(settings.decoder).guarantee == "relaxed" else settings.decoder
    return replace(settings, decoder=decoder, drafter="none", draft_length=0, draft_count=0, beta=1)


def run_milliseconds(results: Iterable[DecodeResult]) -> list[float]:
    """Return the time of each run, everything included."""
    return [1e3 * result.trace.seconds for result in results]


def median_run(results: Sequence[DecodeResult]) -> DecodeResult:
    """Return the run whose time is the median; of an even number, the faster one of the two in the middle."""
    return sorted(results, key=lambda result: result.trace.seconds)[(len(results) - 1) // 2]


def pass_timeline(trace: Trace) -> list[PassEnd]:
    """Return the end of every pass of one run.

    The trace times drafting and the model pass by pass; the rest of the time (encoder, Python) is only known as a
    whole, and stands here as equal gaps before the passes, so that the last one ends when the run did.
    """
    timed = sum(step.draft_seconds + step.model_seconds for step in trace.passes)
    gap = max(0.0, trace.seconds - timed) / max(1, len(trace.passes))
    ends = accumulate(1e3 * (gap + step.draft_seconds + step.model_seconds) for step in trace.passes)
    return list(map(PassEnd, ends, accumulate(step.emitted for step in trace.passes)))


def token_passes(result: DecodeResult) -> list[int]:
    """Return for each token of the first answer, eos included, the index of the pass that wrote it.

    The k-th step of a search writes the k-th token of every live hypothesis, so the steps of a beam tell when the
    ancestors of its first answer had grown to k tokens. The hypotheses of SBS grow apart, so that nothing tells when
    the first one had: there the tokens are spread evenly.
    """
    passes = result.trace.passes
    if not passes or not result.hypotheses:
        return []
    total = len(result.hypotheses[0].token_log_probs)
    if not result.trace.settings.get("exact", True):
        return [position * len(passes) // total for position in range(total)]
    writers = [number for number, step in enumerate(passes) for _ in range(step.emitted)]
    return (writers + [len(passes) - 1] * total)[:total]


def drafted_positions(result: DecodeResult) -> dict[int, Literal["copied", "drafted"]]:
    """Return the positions in the answer that were drafted, and whether they were copied from the query.

    They are known for greedy decoding only: the leading hypothesis of a beam changes during the search.
    """
    if result.trace.settings.get("decoder") != "greedy":
        return {}
    return {
        span.start + offset: "drafted" if span.span is None else "copied"
        for step in result.trace.passes
        for span in step.spans
        for offset in range(span.length)
    }


def lane_figures(settings: Sequence[DecodeSettings], rounds: Rounds) -> list[LaneFigures]:
    """Return the table of a race; settings without a result are left out, and so are speed-ups without a standard."""
    measured = []
    for lane, results in zip(settings, rounds, strict=True):
        if results:
            standard, time = standard_of(lane), Spread.from_values(run_milliseconds(results))
            base = rounds[settings.index(standard)] if standard in settings else ()
            speedup = Spread.from_values(run_milliseconds(base)).median / time.median if base else None
            same = all(same_answers(result, base[0]) for result in results) if base else None
            counts = speed_numbers([result.trace for result in results])
            measured.append(LaneFigures(settings=lane, time=time, counts=counts, speedup=speedup, same=same))
    return measured


def same_answers(first: DecodeResult, other: DecodeResult) -> bool:
    """Return whether two lists of answers are equal, token by token and in order."""
    answers, others = ([(answer.tokens, answer.ended) for answer in result.hypotheses] for result in (first, other))
    return answers == others


def format_ms(value: float) -> str:
    """Return a time with three figures: 9.84 ms, 12.3 ms, 1.20 s."""
    if value >= 999.5:
        return f"{value / 1e3:.2f} s"
    return f"{value:.0f} ms" if value >= 99.95 else f"{value:.{1 if value >= 9.995 else 2}f} ms"


def format_count(value: float) -> str:
    """Return a mean count, without decimals where it is whole."""
    return f"{value:.0f}" if abs(value - round(value)) < 0.05 else f"{value:.1f}"


def format_passes(value: float) -> str:
    """Return a number of passes in words."""
    return "1 pass" if format_count(value) == "1" else f"{format_count(value)} passes"


def format_speedup(value: float) -> str:
    """Return a speed-up in words that also hold where there is none."""
    if value >= 1.05:
        return f"{value:.2f} times faster"
    return "about as fast" if value > 0.95 else f"{1 / value:.2f} times slower"


Kind = Literal["own", "copied", "drafted"]
LEGEND: dict[Kind, str] = {
    "own": "the model's own token",
    "copied": "copied from the query",
    "drafted": "drafted otherwise",
}


class Token(NamedTuple):
    """The text of a token, its origin, and the number (from 0) of the pass that emitted it."""

    text: str
    kind: Kind
    written_by: int


@dataclass(frozen=True)
class Lane:
    """A recorded run."""

    name: str  # name of the decoding mode
    tokens: tuple[Token, ...]  # tokens of the first prediction; the end of the sequence is "end"
    ends: tuple[float, ...]  # of every pass, in milliseconds from the start or, if not `timed`, in passes
    timed: bool = True

    @classmethod
    def from_result(cls, name: str, result: DecodeResult) -> Lane:
        """Build the lane of a prediction; drafted tokens are known for greedy decoding only."""
        kinds = drafted_positions(result)
        first = result.hypotheses[0]
        texts = [*first.tokens, *[END] * (first.ended == "eos")]
        written_by = token_passes(result)
        tokens = (Token(text, kinds.get(at, "own"), written_by[at]) for at, text in enumerate(texts))
        return cls(name, tuple(tokens), tuple(bar.end for bar in pass_timeline(result.trace)))

    def without_times(self) -> Lane:
        """Return the lane with passes of equal length, for runs on a busy machine."""
        return replace(self, ends=tuple(map(float, range(1, len(self.ends) + 1))), timed=False)

    @property
    def milliseconds(self) -> float:
        """End of the last pass."""
        return self.ends[-1]
