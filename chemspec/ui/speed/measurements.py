"""Show the two parts of the page Speed: a race, many queries. Each keeps its results for the visitor."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from itertools import zip_longest
from typing import Any, TypeVar

import pandas as pd
import streamlit as st

from chemspec.engine.engine import Engine
from chemspec.metrics import SpeedNumbers, Spread
from chemspec.settings import DecodeSettings
from chemspec.system import host
from chemspec.system.threads import usable_cores
from chemspec.types import DecodeResult
from chemspec.ui.common import draw, queued_engine, safe, theme, widgets
from chemspec.ui.speed import charts, race, race_settings, timing, trials
from chemspec.ui.speed.timing import LaneFigures

BENCHED = ("auto", "mixed", "copy", "smart", "windows", "ar", "spec_drafter", "blockwise", "medusa")
STALE = "These results are of an earlier query or choice; start again for the present one."
R = TypeVar("R", trials.Trial, trials.BenchRun)


def measure(
    name: str,
    label: str,
    *,
    start: Callable[[], R],
    run: Callable[[R, trials.Say], None],
    intro: str,
    show: Callable[[R], None],
) -> None:
    """Draw a start button, measure when it is pressed, and show what was measured last.

    Any click ends a run, the one on Stop too: the next run of the script finds what was kept.

    Args:
        name: of the measurement, under which the session keeps it.
        label: of the button.
        start: makes an empty measurement.
        run: fills it, reporting progress.
        intro: what to read before the first one.
        show: draws one.
    """
    state, flag = st.session_state, f"{name}_start_go"
    running = bool(state.pop(flag, False))
    # At one place, so that the other goes at once, but under two keys: a click on Stop when the run has just ended must
    # not start another.
    if running:
        st.button("Stop", key=f"{name}_stop", shortcut="Ctrl+Enter", width=240)
    else:
        go = partial(state.update, {flag: True})
        st.button(label, key=f"{name}_start", type="primary", on_click=go, shortcut="Ctrl+Enter", width=240)
    place = st.empty()
    if running:
        state[name] = start()
        run(state[name], place.progress(0.0).progress)
        st.rerun()
    with place.container():
        if name in state:
            show(state[name])
        else:
            st.caption(intro)


def offered(model: Engine, names: Iterable[str]) -> tuple[str, ...]:
    """Return those of the drafters for which the model has all that they need."""
    can = queued_engine.drafters(model.name, here=True)[0]
    return tuple(name for name in names if name in can)


# --- race ----------------------------------------------------------------------------------------


def race_part(model: Engine, query: str) -> None:
    """Run the lanes and show what was run, at first by itself; below it choose other lanes."""
    results = st.container()
    with st.container(key="speed_lanes"):
        chosen = race_settings.choose(queued_engine.drafters(model.name, here=True)[0])
        about = "Runs of each lane after a warm-up; the median counts."
        keeping: Any = {"default": 5, "persist_state": "session", "help": about}
        repeats = widgets.choice("Repeats", (3, 5, 11), key="speed_repeats", **keeping)
    if "speed_race" not in st.session_state:
        st.session_state.setdefault("speed_race_start_go", True)
    with results:
        measure(
            "speed_race",
            "Start the race",
            start=lambda: trials.start(model, query, timing.with_standards(chosen), asked=len(chosen), repeats=repeats),
            run=lambda trial, say: trials.run(trial, model, say),
            intro="The query is answered the standard way, one token a pass, and with drafts. Then both runs are "
            "replayed side by side, slow enough to watch.",
            show=lambda trial: show_race(trial, now=(model.name, query, chosen)),
        )


def show_race(trial: trials.Trial, *, now: tuple[str, str, tuple[DecodeSettings, ...]]) -> None:
    """Show everything about one race."""
    lanes = timing.rows(trial.settings, trial.good)
    about(trial)
    if now != (trial.model, trial.query, trial.settings[: trial.asked]):
        st.info(STALE)
    if not lanes:
        return
    answer = next(results for results in trial.good if results)[0].hypotheses[0]
    asked, rounds = trial.settings[: trial.asked], trial.good[: trial.asked]
    race.replay(asked, rounds, number=f"{id(trial)}-{trial.done}-{trial.where}", clock=trial.quiet)
    left, right = st.columns([3, 1], vertical_alignment="center")
    with left:
        widgets.figures(headline(lanes, quiet=trial.quiet))
    with right:
        svg = draw.molecule(answer.canonical, width=260, height=120, dark=theme.dark())
        draw.show(svg, f"The answer: {answer.smiles}")
    doubts(trial, stale=False)
    added = trial.settings[trial.asked :]
    table(lanes, added=added, times=trial.quiet)
    for number in range(trial.asked):
        show_difference(trial, number)
    if trial.quiet:
        on_the_clock(trial)
    else:
        with st.expander("Times all the same, of a busy machine"):
            table(lanes, added=added, times=True)
            on_the_clock(trial)


def on_the_clock(trial: trials.Trial) -> None:
    """Show every pass of the visitor's lanes on one axis of time."""
    st.subheader("Every pass on the clock")
    asked, rounds = trial.settings[: trial.asked], trial.good[: trial.asked]
    charts.gantt([(timing.name(lane), timing.typical(own)) for lane, own in zip(asked, rounds, strict=True) if own])
    st.caption(
        "One bar is one pass: drafting and the model's run; a number in it is how many tokens it wrote. The gaps are "
        "the rest of the time (encoder, Python), which is measured as a whole and drawn here in equal parts before the "
        "passes."
    )
    st.caption(trial.where)


def headline(lanes: Sequence[LaneFigures], *, quiet: bool) -> list[tuple[str, str]]:
    """Return the figures of the fastest lane with drafts, an exact one if there is one, against its standard.

    Passes come first: they are exact on any machine. Times follow only where the machine was quiet and the spread of
    the runs carries the difference; equal work is told as equal.
    """
    drafted = [lane for lane in lanes if lane.speedup is not None and not timing.is_standard(lane.settings)]
    if not drafted:
        return []
    best = min(drafted, key=lambda lane: (not lane.settings.exact, lane.time.median))
    base = next(lane for lane in lanes if lane.settings == timing.standard(best.settings))
    same = ("yes" if best.same else "no", "same answer")
    if best.passes == base.passes and not best.counts.accepted:
        why = "no draft was accepted" if best.counts.drafted else "this search was not drafted"
        return [(timing.passes(best.passes), f"{timing.name(best.settings)}, as without drafts: {why}"), same]
    about = f"{timing.name(best.settings)}, instead of {timing.count(base.passes)}"
    shown = [(timing.passes(best.passes), about)]
    if best.settings.exact:
        shown.append((f"{best.counts.tokens_per_pass:.1f}", "tokens per pass"))
    if quiet and timing.gain(best, lanes):
        shown.append((timing.ms(best.time.median), f"instead of {timing.ms(base.time.median)}"))
        shown.append((timing.times(best.speedup or 1.0), "by the medians of the runs"))
    return [*shown, same]


COLUMNS = {
    "setting": st.column_config.TextColumn("setting", width="medium"),
    "time": st.column_config.NumberColumn(
        "time, ms",
        format="%.2f",
        help="Wall clock from the start of decoding to the last pass, everything included; the median of the runs",
    ),
    "quartiles": st.column_config.TextColumn("quartiles"),
    "speed-up": st.column_config.NumberColumn(
        format="%.2f ×",
        help="Median time of the cached standard decoder of the same search, over the median time of this setting, in "
        "the same run",
    ),
    "passes": st.column_config.NumberColumn(format="%.4g", help="Runs of the model's decoder for one answer"),
    "tokens per pass": st.column_config.NumberColumn(format="%.2f", help=SpeedNumbers.tokens_per_pass.__doc__),
    "acceptance rate": st.column_config.NumberColumn(format="percent", help=SpeedNumbers.acceptance_rate.__doc__),
    "nodes per pass": st.column_config.NumberColumn(format="%.1f", help=SpeedNumbers.nodes_per_pass.__doc__),
    "same answer": st.column_config.TextColumn(
        help="Whether all answers are those of the standard decoder, token by token and in order"
    ),
}


def table(lanes: Sequence[LaneFigures], *, added: Collection[DecodeSettings], times: bool) -> None:
    """Show the measured settings as a table, with `times` or without; those that nobody chose are marked."""
    st.caption(f"Medians over {lanes[0].time.runs} runs each. Point at a heading for its definition.")
    rows = [
        {
            "setting": timing.name(lane.settings) + " (for comparison)" * (lane.settings in added),
            **(_times(lane) if times else {}),
            "passes": lane.passes,
            "tokens per pass": lane.counts.tokens_per_pass if lane.settings.exact else None,
            "acceptance rate": lane.counts.acceptance_rate if lane.settings.exact else None,
            "nodes per pass": lane.counts.nodes_per_pass,
            "same answer": "reference" if timing.is_standard(lane.settings) else _yes(lane.same),
        }
        for lane in lanes
    ]
    st.dataframe(rows, hide_index=True, column_config=COLUMNS, placeholder="–", alt="Results")


def _times(lane: LaneFigures) -> dict[str, Any]:
    return {
        "time": lane.time.median,
        "quartiles": f"{timing.ms(lane.time.low)} to {timing.ms(lane.time.high)}",
        "speed-up": lane.speedup,
    }


def _yes(same: bool | None) -> str:
    return "" if same is None else "yes" if same else "no, see below"


def about(trial: trials.Trial) -> None:
    """Show what a visitor must know before believing the figures of a trial."""
    if trial.problem:
        what = "It cannot be run so" if trial.refusal else "Some runs gave no answer"
        st.error(f"{what}: {safe.plain(trial.problem)}")
        if trial.refusal:
            return
    if trial.done < trial.wanted:
        done = f"{trial.done} of {trial.wanted} runs were made"
        st.warning(f"Stopped: {done}. " + ("The figures are of those." if trial.done else "Start again."))


def doubts(trial: trials.Trial | trials.BenchRun, *, stale: bool) -> None:
    """Show why the times of a run may be off, and whether they are of another choice than the present one."""
    if trial.others:
        st.warning(
            "Other visitors or a batch job were using this server during the run, so these times may be off. Run it "
            "again for better ones."
        )
    elif not trials.quiet(trial.load):
        st.warning(
            f"The server was busy when the run began ({trial.load:.0f} programs for {usable_cores()} cores), so these "
            "times may be off."
        )
    if stale:
        st.info(STALE)


def show_difference(trial: trials.Trial, number: int) -> None:
    """Show where a lane's answers are not the standard ones: both lists side by side, and why that can be."""
    pair = timing.differing(number, trial.settings, trial.good)
    if pair is None:
        return
    lane = trial.settings[number]
    with st.expander(f"{timing.name(lane)} gave other answers than the standard decoder"):
        gap = timing.closest(*pair)
        close = f"the closest choice in these runs was decided by {gap:.1e} in log-probability"
        if not lane.exact:
            st.write("SBS is relaxed: its drafts can change which answers it finds.")
        elif gap < timing.TIE:
            st.write(f"A tie: {close}, within rounding of the arithmetic. Exact decoders can differ by ties only.")
        else:
            st.write(f"No tie: {close}. That is too much for rounding: please report this query as a bug.")
        st.dataframe(side_by_side(*pair), hide_index=True, placeholder="–")


def side_by_side(standard: DecodeResult, other: DecodeResult) -> list[dict[str, Any]]:
    """Return two lists of answers, place by place."""
    lists = ([answer.smiles for answer in result.hypotheses] for result in (standard, other))
    return [
        {"rank": rank, "standard": left, "this lane": right, "same": "yes" if left == right else "no"}
        for rank, (left, right) in enumerate(zip_longest(*lists), 1)
    ]


# --- benchmark -----------------------------------------------------------------------------------


def bench_part(model: Engine, _: str) -> None:
    """Answer many built-in queries with and without drafts."""
    chosen = race_settings.drafted("speed_bench", offered(model, BENCHED))
    about = f"The first so many of the 200 built-in test queries for {model.task}."
    keeping: Any = {"default": 25, "persist_state": "session", "help": about}
    wanted = widgets.choice("Queries", (10, 25, 50, 100), key="speed_bench_count", **keeping)
    measure(
        "speed_bench",
        "Start the benchmark",
        start=lambda: trials.BenchRun(model.name, chosen, wanted, trials.where(model), host.load()),
        run=lambda kept, say: trials.bench(kept, model, say),
        intro="One query may be lucky. The benchmark answers many, each the standard way and with drafts, one after "
        "the other, and shows how the speed-ups spread.",
        show=lambda kept: show_bench(kept, stale=(kept.model, kept.settings) != (model.name, chosen)),
    )


def show_bench(kept: trials.BenchRun, *, stale: bool) -> None:
    """Show how speed-ups and tokens per pass are spread over the queries."""
    if kept.refusal:
        st.error(f"It cannot be run so: {safe.plain(kept.refusal)}")
        return
    cases = kept.cases
    if kept.wanted == 0:
        st.info("This model can read none of the built-in queries.")
    if len(cases) < kept.wanted:
        end = "The figures are of those." if cases else "Start again."
        st.warning(f"Stopped: {len(cases)} of {kept.wanted} queries were measured. {end}")
    doubts(kept, stale=stale)
    if not cases:
        return
    gains, rates = [case["speedup"] for case in cases], [case["tokens_per_pass"] for case in cases]
    spread = Spread.from_values(gains)
    widgets.figures(
        [
            (
                "no clear gain" if spread.low <= 1 <= spread.high else timing.times(spread.median),
                f"median {spread.median:.2f}; quartiles {spread.low:.2f} and {spread.high:.2f}",
            ),
            (f"{Spread.from_values(rates).median:.2f}", "tokens per pass, median"),
            (f"{sum(gain > 1 for gain in gains)} of {len(cases)}", "queries faster than standard"),
            (f"{sum(case['same'] for case in cases)} of {len(cases)}", "same answers"),
        ]
    )
    left, right = st.columns(2)
    with left:
        charts.histogram(gains, "speed-up against standard", start=0.0, rule="no gain")
    with right:
        charts.histogram(rates, "tokens per pass", start=1.0)
    unread = f" {kept.unread} of all built-in queries were left out, which this model cannot read." * bool(kept.unread)
    st.caption(f"{timing.name(kept.settings)} on the first built-in test queries for {kept.model}, once each.{unread}")
    st.caption(kept.where)
    text, name = pd.DataFrame(cases).round(4).to_csv(index=False), f"chemspec-speed-{kept.model}.csv"
    st.download_button("Download as CSV", text, name, "text/csv", on_click="ignore")


PARTS: dict[str, Callable[[Engine, str], None]] = {"Race": race_part, "Benchmark": bench_part}
ON_A_QUERY = ("Race",)  # the benchmark brings its own
