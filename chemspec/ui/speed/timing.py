"""What timed runs say, as plain tables. Nothing here runs a model or draws; times are milliseconds of wall clock."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

from chemspec.metrics import SpeedNumbers, Spread, speed_numbers
from chemspec.settings import DecodeSettings
from chemspec.types import DecodeResult, Trace

TIE = 1e-3  # log-prob gaps below this are within reach of rounding in fp32
END = "end"  # shown in place of the end-of-sequence token
FIRST_OF_BEAM = "first answer of the search"
SPREAD_EVENLY = f"{FIRST_OF_BEAM}, spread evenly over its passes: the record does not tell which wrote which token"

Rounds = Sequence[Sequence[DecodeResult]]  # of each setting its results, in order of the rounds


class PassBar(NamedTuple):
    """One pass on the time axis; `written` counts tokens (steps, for beams) up to and with it."""

    number: int
    start: float
    end: float
    drafting: float
    model: float
    emitted: int
    accepted: int
    computed: int
    written: int


class LaneFigures(NamedTuple):
    """One measured setting of a race.

    Attributes:
        time: of its runs, in ms.
        counts: of all its runs; tokens mean nothing for SBS, whose trace does not count them.
        speedup: against its standard; None where that was not measured.
        same: whether every run gave the standard's answers.
    """

    settings: DecodeSettings
    time: Spread
    counts: SpeedNumbers
    speedup: float | None
    same: bool | None

    @property
    def passes(self) -> float:
        """Passes of one run, on average."""
        return self.counts.passes_per_query


# --- settings ------------------------------------------------------------------------------------


def name(settings: DecodeSettings) -> str:
    """Return a setting in a few words."""
    way = {"greedy": "Greedy", "beam": f"Beam {settings.n}", "sbs": f"SBS {settings.n} (relaxed)"}
    drafted = "standard" if is_standard(settings) else drafts(settings)
    return f"{way.get(settings.decoder, settings.decoder)} · {drafted}"


def drafts(settings: DecodeSettings) -> str:
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


def standard(settings: DecodeSettings) -> DecodeSettings:
    """Return the standard decoder to which a setting is fairly compared: same search, same width, no drafts."""
    decoder = settings.decoder if settings.exact else "beam"
    return replace(settings, decoder=decoder, drafter="none", draft_length=0, draft_count=0)


def with_standards(lanes: Sequence[DecodeSettings]) -> tuple[DecodeSettings, ...]:
    """Return the lanes, and after them every standard decoder that is missing for a speed-up."""
    return (*lanes, *dict.fromkeys(base for base in map(standard, lanes) if base not in lanes))


# --- one result ----------------------------------------------------------------------------------


def milliseconds(results: Iterable[DecodeResult]) -> list[float]:
    """Return the time of each run, everything included."""
    return [1e3 * result.trace.seconds for result in results]


def typical(results: Sequence[DecodeResult]) -> DecodeResult:
    """Return the run whose time is the median; of an even number, the faster one of the two in the middle."""
    return sorted(results, key=lambda result: result.trace.seconds)[(len(results) - 1) // 2]


def timeline(trace: Trace) -> list[PassBar]:
    """Return the passes of one run on its time axis.

    The trace times drafting and the model pass by pass; the rest of the time (encoder, Python) is only known as a
    whole, and stands here as equal gaps before the passes, so that the last one ends when the run did.
    """
    timed = sum(step.draft_seconds + step.model_seconds for step in trace.passes)
    gap = 1e3 * max(0.0, trace.seconds - timed) / max(1, len(trace.passes))
    bars: list[PassBar] = []
    end, written = 0.0, 0
    for number, step in enumerate(trace.passes, 1):
        drafting, model = 1e3 * step.draft_seconds, 1e3 * step.model_seconds
        start = end + gap
        end = start + drafting + model
        written += step.emitted
        bars.append(PassBar(number, start, end, drafting, model, step.emitted, step.accepted, step.computed, written))
    return bars


def delivery(result: DecodeResult) -> list[int]:
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
        return [place * len(passes) // total for place in range(total)]
    writers = [number for number, step in enumerate(passes) for _ in range(step.emitted)]
    return (writers + [len(passes) - 1] * total)[:total]


def copied(result: DecodeResult) -> set[int]:
    """Places in the answer that had been drafted. Known for greedy only: a beam's leader changes under way."""
    if result.trace.settings.get("decoder") != "greedy":
        return set()
    spans = [span for step in result.trace.passes for span in step.spans]
    return {span.start + place for span in spans for place in range(span.length)}


# --- a race --------------------------------------------------------------------------------------


def rows(settings: Sequence[DecodeSettings], rounds: Rounds) -> list[LaneFigures]:
    """Return the table of a race; settings without a result are left out, and so are speed-ups without a standard."""
    measured = []
    for lane, results in zip(settings, rounds, strict=True):
        if results:
            base, time = _standard_of(lane, settings, rounds), Spread.from_values(milliseconds(results))
            measured.append(
                LaneFigures(
                    settings=lane,
                    time=time,
                    counts=speed_numbers([result.trace for result in results]),
                    speedup=Spread.from_values(milliseconds(base)).median / time.median if base else None,
                    same=all(same(result, base[0]) for result in results) if base else None,
                )
            )
    return measured


def gain(lane: LaneFigures, lanes: Sequence[LaneFigures]) -> tuple[float, float] | None:
    """Return the median milliseconds of a drafted lane and of its standard; None where their quartiles overlap."""
    base = next((one for one in lanes if one.settings == standard(lane.settings) and one is not lane), None)
    if base is None or not (lane.time.high < base.time.low or base.time.high < lane.time.low):
        return None
    return lane.time.median, base.time.median


def same_way(lane: LaneFigures, way: DecodeSettings) -> bool:
    """Return whether a lane is a search: same decoder, width and drafter."""
    mine, other = lane.settings, way
    return (mine.decoder, mine.n, mine.drafts_by) == (other.decoder, other.n, other.drafts_by)


def _standard_of(item: DecodeSettings, settings: Sequence[DecodeSettings], rounds: Rounds) -> Sequence[DecodeResult]:
    wanted = standard(item)
    return rounds[settings.index(wanted)] if wanted in settings else ()


def same(one: DecodeResult, other: DecodeResult) -> bool:
    """Return whether two lists of answers are equal, token by token and in order."""
    answers, others = ([(answer.tokens, answer.ended) for answer in result.hypotheses] for result in (one, other))
    return answers == others


def differing(
    number: int, settings: Sequence[DecodeSettings], rounds: Rounds
) -> tuple[DecodeResult, DecodeResult] | None:
    """Return the standard result and the first one of the number-th setting that is not the same; None if all are."""
    base = _standard_of(settings[number], settings, rounds)
    other = next((item for item in rounds[number] if base and not same(item, base[0])), None)
    return (base[0], other) if other else None


def closest(one: DecodeResult, other: DecodeResult) -> float:
    """Return the narrowest choice in two runs, in log-prob: between two next tokens, or between two ranked answers."""
    gaps = [speed_numbers([one.trace, other.trace]).margin]
    for result in (one, other):
        scores = [item.log_prob for item in result.hypotheses]
        gaps += [abs(a - b) for a, b in pairwise(scores)]
    return min(gaps)


def lanes(settings: Sequence[DecodeSettings], rounds: Rounds, *, clock: bool = True) -> list[dict[str, Any]]:
    """Return what the replay shows: of each setting its typical run, as JSON values.

    Each lane has `name`, `note`, `ms` (when it was done), `ends` (of each pass, ms) and `tokens`: pairs of text and
    kind ("copied", "own", "end"), with `by`, the index of the pass that wrote each. Without a `clock` every pass lasts
    one unit.
    """
    shown = []
    for lane, results in zip(settings, rounds, strict=True):
        if not results:
            continue
        result = typical(results)
        first, drafted = result.hypotheses[0], copied(result)
        tokens = [(text, "copied" if place in drafted else "own") for place, text in enumerate(first.tokens)]
        bars = timeline(result.trace)
        shown.append(
            {
                "name": name(lane),
                "note": SPREAD_EVENLY if not lane.exact else FIRST_OF_BEAM if lane.decoder == "beam" else "",
                "ms": 1e3 * result.trace.seconds if clock else float(len(bars)),
                "ends": [bar.end if clock else float(bar.number) for bar in bars],
                "tokens": tokens + [(END, "end")] * (first.ended == "eos"),
                "by": delivery(result),
            }
        )
    return shown


# --- many queries --------------------------------------------------------------------------------


def case(query: str, plain: DecodeResult, drafted: DecodeResult) -> dict[str, Any]:
    """Return one line of the benchmark from the two results of a query."""
    (base,), (time,) = milliseconds([plain]), milliseconds([drafted])
    counted = speed_numbers([drafted.trace])
    return {
        "query": query,
        "answer": drafted.hypotheses[0].smiles,
        "standard_ms": base,
        "ms": time,
        "speedup": base / time,
        "standard_passes": len(plain.trace.passes),
        "passes": counted.passes,
        "tokens_per_pass": counted.tokens_per_pass,
        "acceptance_rate": counted.acceptance_rate,
        "nodes_per_pass": counted.nodes_per_pass,
        "same": same(plain, drafted),
    }


# --- figures for people --------------------------------------------------------------------------


def ms(value: float) -> str:
    """Return a time with three figures: 9.84 ms, 12.3 ms, 1.20 s."""
    if value >= 999.5:
        return f"{value / 1e3:.2f} s"
    return f"{value:.0f} ms" if value >= 99.95 else f"{value:.{1 if value >= 9.995 else 2}f} ms"


def count(value: float) -> str:
    """Return a mean count, without decimals where it is whole."""
    return f"{value:.0f}" if abs(value - round(value)) < 0.05 else f"{value:.1f}"


def passes(value: float) -> str:
    """Return a number of passes in words."""
    return "1 pass" if count(value) == "1" else f"{count(value)} passes"


def times(value: float) -> str:
    """Return a speed-up in words that also hold where there is none."""
    if value >= 1.05:
        return f"{value:.2f} times faster"
    return "about as fast" if value > 0.95 else f"{1 / value:.2f} times slower"
