"""What timed runs say, as plain tables. Nothing here runs a model or draws; times are milliseconds of wall clock."""

from __future__ import annotations

import csv
import io
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

from chemspec.metrics import Spread, numbers
from chemspec.settings import DecodeSettings
from chemspec.types import DecodeResult, Trace

TIE = 1e-3  # log-prob gaps below this are within reach of rounding in fp32
END = "end"  # shown in place of the end-of-sequence token

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
    """One setting of a race or a draft size. Rates are None where the trace does not count tokens (SBS)."""

    name: str
    exact: bool
    standard: bool
    time: Spread
    speedup: float | None
    passes: float
    tokens_per_pass: float | None
    acceptance: float | None
    nodes_per_pass: float
    same: bool | None
    length: int = 0
    drafts: int = 0


class AnswerPair(NamedTuple):
    """The same place in two lists of answers; None where a list has ended. `fork` is where the texts part."""

    rank: int
    standard: str | None
    other: str | None
    fork: int


class QueryFigures(NamedTuple):
    """One query of the benchmark, answered the standard way and with drafts."""

    query: str
    answer: str
    standard_ms: float
    ms: float
    speedup: float
    standard_passes: int
    passes: int
    tokens_per_pass: float
    acceptance_rate: float
    nodes_per_pass: float
    same: bool


# --- settings ------------------------------------------------------------------------------------


def name(settings: DecodeSettings) -> str:
    """Return a setting in a few words."""
    way = {"greedy": "Greedy", "beam": f"Beam {settings.n}", "sbs": f"SBS {settings.n} (relaxed)"}
    parts = ["standard" if is_standard(settings) else drafts(settings)]
    return " · ".join([way.get(settings.decoder, settings.decoder), *parts])


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
    return (*lanes, *dict.fromkeys(_missing(lanes)))


def _missing(lanes: Sequence[DecodeSettings]) -> list[DecodeSettings]:
    return [standard(lane) for lane in lanes if standard(lane) not in lanes]


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
    timed = sum(one.draft_seconds + one.model_seconds for one in trace.passes)
    gap = max(0.0, trace.seconds - timed) / max(1, len(trace.passes))
    bars: list[PassBar] = []
    end, written = 0.0, 0
    for number, one in enumerate(trace.passes, 1):
        start = end + gap
        end = start + one.draft_seconds + one.model_seconds
        written += one.emitted
        bars.append(
            PassBar(
                number,
                1e3 * start,
                1e3 * end,
                1e3 * one.draft_seconds,
                1e3 * one.model_seconds,
                one.emitted,
                one.accepted,
                one.computed,
                written,
            )
        )
    return bars


def untimed(trace: Trace) -> float:
    """Milliseconds of a run that belong to no pass: encoder and Python."""
    bars = timeline(trace)
    return 1e3 * trace.seconds - sum(bar.drafting + bar.model for bar in bars)


def delivery(result: DecodeResult) -> list[int]:
    """Return for each token of the first answer, eos included, the index of the pass that wrote it.

    The k-th step of a search writes the k-th token of every live hypothesis, so the steps of a beam tell when the
    ancestors of its first answer had grown to k tokens. A step of SBS may write several tokens, which the trace does
    not tell: there they are spread evenly.
    """
    passes = result.trace.passes
    if not passes or not result.hypotheses:
        return []
    total = len(result.hypotheses[0].token_log_probs)
    if not result.trace.settings.get("exact", True):
        return [place * len(passes) // total for place in range(total)]
    writers = [number for number, one in enumerate(passes) for _ in range(one.emitted)]
    return (writers + [len(passes) - 1] * total)[:total]


def copied(result: DecodeResult) -> set[int]:
    """Places in the answer that had been drafted. Known for greedy only: a beam's leader changes under way."""
    if result.trace.settings.get("decoder") != "greedy":
        return set()
    spans = [span for one in result.trace.passes for span in one.spans]
    return {span.start + place for span in spans for place in range(span.length)}


# --- a race --------------------------------------------------------------------------------------


def rows(settings: Sequence[DecodeSettings], rounds: Rounds) -> list[LaneFigures]:
    """Return the table of a race; settings without a result are left out, and so are speed-ups without a standard."""
    return [
        _row(item, own, _standard_of(item, settings, rounds)) for item, own in zip(settings, rounds, strict=True) if own
    ]


def _row(settings: DecodeSettings, own: Sequence[DecodeResult], base: Sequence[DecodeResult]) -> LaneFigures:
    counted, time = numbers([result.trace for result in own]), Spread.of(milliseconds(own))
    tokens = settings.exact
    return LaneFigures(
        name=name(settings),
        exact=settings.exact,
        standard=is_standard(settings),
        time=time,
        speedup=Spread.of(milliseconds(base)).median / time.median if base else None,
        passes=counted.passes_per_query,
        tokens_per_pass=counted.tokens_per_pass if tokens else None,
        acceptance=counted.acceptance_rate if tokens else None,
        nodes_per_pass=counted.nodes_per_pass,
        same=all(same(result, base[0]) for result in own) if base else None,
        length=settings.draft_length,
        drafts=settings.draft_count,
    )


def _standard_of(item: DecodeSettings, settings: Sequence[DecodeSettings], rounds: Rounds) -> Sequence[DecodeResult]:
    wanted = standard(item)
    return rounds[settings.index(wanted)] if wanted in settings else ()


def same(one: DecodeResult, other: DecodeResult) -> bool:
    """Return whether two lists of answers are equal, token by token and in order."""
    return _answers(one) == _answers(other)


def _answers(result: DecodeResult) -> list[tuple[tuple[str, ...], str]]:
    return [(item.tokens, item.ended) for item in result.hypotheses]


def differing(
    number: int, settings: Sequence[DecodeSettings], rounds: Rounds
) -> tuple[DecodeResult, DecodeResult] | None:
    """Return the standard result and the first one of the number-th setting that is not the same; None if all are."""
    base = _standard_of(settings[number], settings, rounds)
    other = next((item for item in rounds[number] if base and not same(item, base[0])), None)
    return (base[0], other) if other else None


def side_by_side(standard: DecodeResult, other: DecodeResult) -> list[AnswerPair]:
    """Return two lists of answers, place by place."""
    left, right = ([item.smiles for item in result.hypotheses] for result in (standard, other))
    pairs = []
    for place in range(max(len(left), len(right))):
        one = left[place] if place < len(left) else None
        two = right[place] if place < len(right) else None
        pairs.append(AnswerPair(place + 1, one, two, _fork(one or "", two or "")))
    return pairs


def _fork(one: str, other: str) -> int:
    """Return how many characters two texts have in common at their beginnings."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))


def closest(one: DecodeResult, other: DecodeResult) -> float:
    """Return the narrowest choice in two runs, in log-prob: between two next tokens, or between two ranked answers."""
    gaps = [numbers([one.trace, other.trace]).margin]
    for result in (one, other):
        scores = [item.log_prob for item in result.hypotheses]
        gaps += [abs(a - b) for a, b in pairwise(scores)]
    return min(gaps)


def lanes(settings: Sequence[DecodeSettings], rounds: Rounds) -> list[dict[str, Any]]:
    """Return what the replay shows: of each setting its typical run, as JSON values.

    Each lane has `name`, `note`, `ms` (when it was done), `ends` (of each pass, ms) and `tokens`: pairs of text and
    kind ("copied", "own", "end"), with `by`, the index of the pass that wrote each.
    """
    shown = []
    for item, own in zip(settings, rounds, strict=True):
        if own:
            result = typical(own)
            first, drafted = result.hypotheses[0], copied(result)
            tokens = [(text, "copied" if place in drafted else "own") for place, text in enumerate(first.tokens)]
            shown.append(
                {
                    "name": name(item),
                    "note": _note(item),
                    "ms": 1e3 * result.trace.seconds,
                    "ends": [bar.end for bar in timeline(result.trace)],
                    "tokens": tokens + [(END, "end")] * (first.ended == "eos"),
                    "by": delivery(result),
                }
            )
    return shown


def _note(settings: DecodeSettings) -> str:
    if not settings.exact:
        unknown = "the record does not tell which pass wrote which token"
        return f"first answer of the search, spread evenly over its passes: {unknown}"
    return "first answer of the search" if settings.decoder == "beam" else ""


# --- draft sizes ---------------------------------------------------------------------------------


def grid(
    base: DecodeSettings, drafter: str, lengths: Sequence[int], counts: Sequence[int]
) -> tuple[DecodeSettings, ...]:
    """Return the standard decoder, then every draft length with every number of drafts."""
    sizes = [(length, count) for count in counts for length in lengths]
    return (
        standard(base),
        *(replace(standard(base), drafter=drafter, draft_length=length, draft_count=count) for length, count in sizes),
    )


def cells(settings: Sequence[DecodeSettings], rounds: Rounds) -> list[LaneFigures]:
    """Return the measured draft sizes; empty before the standard decoder, which is the first setting, was measured."""
    return rows(settings, rounds)[1:] if rounds and rounds[0] else []


def pass_costs(rounds: Rounds) -> list[tuple[int, float, int]]:
    """Return what a pass cost by its size: (nodes, median ms in the model, how many passes), smallest first."""
    costs: dict[int, list[float]] = {}
    for own in rounds:
        for result in own:
            for one in result.trace.passes:
                costs.setdefault(one.computed, []).append(1e3 * one.model_seconds)
    return [(nodes, statistics.median(own), len(own)) for nodes, own in sorted(costs.items())]


def lesson(found: Sequence[LaneFigures]) -> str:
    """Return what a grid says in plain words; empty without one."""
    if not found:
        return ""
    fastest = min(found, key=lambda cell: cell.time.median)
    fewest = min(found, key=lambda cell: (cell.passes, cell.time.median))
    best = f"Fastest here: {_size(fastest)}, {ms(fastest.time.median)} in {passes(fastest.passes)}"
    if fewest.passes >= fastest.passes:
        return best + ", which are also the fewest passes."
    return (
        f"{best}. Fewest passes: {_size(fewest)}, {passes(fewest.passes)}, yet {ms(fewest.time.median)}: "
        f"each of its passes runs {fewest.nodes_per_pass:.0f} nodes through the model instead of "
        f"{fastest.nodes_per_pass:.0f}."
    )


def _size(cell: LaneFigures) -> str:
    return f"{cell.drafts} draft{'s' * (cell.drafts > 1)} of {cell.length} tokens"


# --- many queries --------------------------------------------------------------------------------


def case(query: str, plain: DecodeResult, drafted: DecodeResult) -> QueryFigures:
    """Return one line of the benchmark from the two results of a query."""
    (base,), (time,) = milliseconds([plain]), milliseconds([drafted])
    counted = numbers([drafted.trace])
    return QueryFigures(
        query=query,
        answer=drafted.hypotheses[0].smiles,
        standard_ms=base,
        ms=time,
        speedup=base / time,
        standard_passes=len(plain.trace.passes),
        passes=counted.passes,
        tokens_per_pass=counted.tokens_per_pass,
        acceptance_rate=counted.acceptance_rate,
        nodes_per_pass=counted.nodes_per_pass,
        same=same(plain, drafted),
    )


def table_csv(cases: Sequence[QueryFigures]) -> str:
    """Return the benchmark as CSV with a header; figures rounded to what a clock can tell."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(QueryFigures._fields)
    for item in cases:
        writer.writerow([round(v, 4) if isinstance(v, float) else v for v in item])
    return out.getvalue()


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
