"""Timed runs and races as plain values; times are milliseconds of wall clock."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from chemspec.metrics import Spread, count_savings, speed_numbers
from chemspec.plugins import DECODERS
from chemspec.replay.savings import no_savings_reason
from chemspec.settings import DecodeSettings
from chemspec.types import DecodeResult, Trace

if TYPE_CHECKING:  # it imports RDKit, which `chemspec --help` must not
    from chemspec.replay.trace_view import Origin, TokenView

NAMES = ("standard", "speculative")  # decoding modes of a race
REPEATS = 5  # timed runs of each setting

Rounds = Sequence[Sequence[DecodeResult]]  # results of each setting, in order of the rounds


def setting_name(settings: DecodeSettings) -> str:
    """Return a setting in a few words."""
    searches = {"greedy": "Greedy", "beam": f"Beam {settings.n}", "sbs": f"SBS {settings.n} (relaxed)"}
    drafted = "without drafts" if settings.drafts_by == "none" else f"with drafts ({settings.drafts_by})"
    return f"{searches.get(settings.decoder, settings.decoder)}, {drafted}"


def standard_of(settings: DecodeSettings) -> DecodeSettings:
    """Return the standard decoder to which a setting is fairly compared: same search, same width, no drafts."""
    decoder = "beam" if DECODERS.lookup(settings.decoder).guarantee == "relaxed" else settings.decoder
    return replace(settings, decoder=decoder, drafter="none", draft_length=0, draft_count=0, draft_nodes=0, beta=1)


def alternate_runs(
    settings: Sequence[DecodeSettings], decode: Callable[[DecodeSettings, int], DecodeResult]
) -> list[list[DecodeResult]]:
    """Decode by turns under several settings, so that a disturbance hits all alike; returns the runs of each.

    `decode` gets a setting and the number of the run, from 1. It is 0 for a first run of each, which is not returned.
    """
    runs: list[list[DecodeResult]] = [[] for _ in settings]
    for setting in settings:
        decode(setting, 0)
    for number in range(1, len(settings) * REPEATS + 1):
        turn, lane = divmod(number - 1, len(settings))
        lane = -1 - lane if turn % 2 else lane  # the order changes every turn
        runs[lane].append(decode(settings[lane], number))
    return runs


def median_run(results: Sequence[DecodeResult]) -> DecodeResult:
    """Return the run whose time is the median; of an even number, the faster one of the two in the middle."""
    return sorted(results, key=lambda result: result.trace.seconds)[(len(results) - 1) // 2]


def pass_ends(trace: Trace) -> list[float]:
    """Return when each pass of one run ended, in ms since the start.

    The trace times drafting and the model pass by pass; the rest of the time (encoder, Python) is only known as a
    whole, and is returned as equal gaps before the passes, so that the last one ends when the run did.
    """
    timed = sum(step.draft_seconds + step.model_seconds for step in trace.passes)
    gap = max(0.0, trace.seconds - timed) / max(1, len(trace.passes))
    return list(accumulate(1e3 * (gap + step.draft_seconds + step.model_seconds) for step in trace.passes))


def race_statistics(rounds: Rounds, names: Sequence[str] = NAMES) -> list[dict[str, Any]]:
    """Return passes, tokens (beam: steps) and nodes per pass, and quartiles of milliseconds for each decoding mode.

    Drafts are planned by the times of passes, so runs may differ in their number; counted is the run that
    `median_lanes` shows.
    """
    rows = []
    for name, results in zip(names, rounds, strict=True):
        counted = speed_numbers([median_run(results).trace])
        times = Spread.from_values(1e3 * result.trace.seconds for result in results)
        row = {"name": name, "passes": counted.passes, "tokens": counted.emitted}
        row |= {"tokens_per_pass": counted.tokens_per_pass, "nodes_per_pass": counted.nodes_per_pass}
        row |= {"acceptance_rate": counted.acceptance_rate, "runs": times.runs}
        rows.append({**row, "median_ms": times.median, "q1_ms": times.low, "q3_ms": times.high})
    return rows


def compare_answers(rounds: Rounds) -> str:
    """Compare the answers of all runs: by tokens, and by the bits of their log-probs."""
    runs = [result.hypotheses for results in rounds for result in results]
    if len({tuple((answer.tokens, answer.ended) for answer in run) for run in runs}) > 1:
        return "no"
    scores = {tuple(answer.token_log_probs for answer in run) for run in runs}
    return "yes, to the last bit" if len(scores) == 1 else "yes, with scores that differ in their last digits"


def race_conclusion(rounds: Rounds, *, timed: bool = True, terminal: bool = False) -> str:
    """Return what a race showed as one sentence, with the speed-up if the runs are `timed`.

    Where drafts saved no pass both runs do the same work and their times differ randomly; the reason is named, for a
    `terminal` with options that may help.
    """
    standard, drafted = race_statistics(rounds)
    text = f"identical: {compare_answers(rounds)}; {drafted['passes']} pass{'es' * (drafted['passes'] != 1)}"
    if drafted["passes"] == standard["passes"]:
        run = median_run(rounds[-1])
        reason = no_savings_reason(count_savings(run), run.trace.settings, batch=1, terminal=terminal)
        return f"{text}; {reason}" if reason else f"{text} with and without drafts"
    text += f" instead of {standard['passes']}"
    if not timed:
        return text
    gain = format_speedup(standard["median_ms"] / drafted["median_ms"])
    return f"{text}; {gain} (medians of {standard['runs']} warm runs by turns)"


def format_speedup(value: float) -> str:
    """Return a speed-up in words that also hold where there is none."""
    if value >= 1.05:
        return f"{value:.2f} times faster"
    return "about as fast" if value > 0.95 else f"{1 / value:.2f} times slower"


LEGEND: dict[Origin, str] = {
    "own": "the model's own token",
    "copied": "copied from the query",
    "ahead": "drafted otherwise",
}


@dataclass(frozen=True)
class Lane:
    """A recorded run."""

    name: str  # name of the decoding mode
    tokens: tuple[TokenView, ...]  # tokens of the first prediction; the end of the sequence is "end"
    ends: tuple[float, ...]  # end of every pass, in milliseconds from the start or, if not `timed`, in passes
    timed: bool = True

    @classmethod
    def from_result(cls, name: str, result: DecodeResult) -> Lane:
        """Build the lane of a prediction; drafted tokens are known for greedy decoding only."""
        from chemspec.replay.trace_view import view_trace  # imported late, as above

        view = view_trace(result)
        tokens = view.answers[0].tokens
        if view.relaxed:  # hypotheses of SBS differ in length: when the first one had grown so far is not known
            passes = (1 + position * len(view.passes) // len(tokens) for position in range(len(tokens)))
            tokens = tuple(replace(token, pass_number=number) for token, number in zip(tokens, passes, strict=True))
        return cls(name, tokens, tuple(pass_ends(result.trace)))

    def without_times(self) -> Lane:
        """Return the lane with passes of equal length, for runs on a busy machine."""
        return replace(self, ends=tuple(map(float, range(1, len(self.ends) + 1))), timed=False)

    @property
    def milliseconds(self) -> float:
        """End of the last pass."""
        return self.ends[-1]


def median_lanes(rounds: Rounds, names: Sequence[str] = NAMES) -> list[Lane]:
    """Return one lane per decoding mode: the run with the median time."""
    return [Lane.from_result(name, median_run(results)) for name, results in zip(names, rounds, strict=True)]
