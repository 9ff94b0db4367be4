"""Show the three parts of the page Speed: a race, draft sizes, many queries. Each keeps its results for the visitor."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

import streamlit as st

from chemspec.engine.engine import Engine
from chemspec.metrics import Spread
from chemspec.settings import DecodeSettings
from chemspec.system import host
from chemspec.ui.common import draw, queued_engine, safe, theme
from chemspec.ui.speed import charts, race, race_settings, tables, timing, trials

# For `copy` more than a few places, and for `windows` fewer than a few, make no sense. Learned drafters write one
# draft.
SIZES = {
    "copy": ((2, 4, 8, 12, 16, 24), (1, 2, 3, 5)),
    "windows": ((2, 4, 6, 8, 10), (1, 5, 10, 25)),
    "ar": ((1, 2, 4, 8, 12, 16), (1,)),
    "spec_drafter": ((2, 5, 10, 15, 20), (1,)),
    "blockwise": ((1, 2, 4, 6, 9), (1,)),
}
BENCHED = ("auto", "mixed", "copy", "smart", "windows", "ar", "spec_drafter", "blockwise", "medusa")
RUNS = 3  # of each draft size
BUSY = 1.5  # programs at work for each core, above which times are doubted


def go(slot: Any, key: str, label: str) -> bool:
    """Draw a start button in `slot`; return True in the run of the script that has to do the work, while it says Stop.

    Any click ends that run, the one on Stop too: the next run finds what was kept.
    """
    running = bool(st.session_state.pop(f"{key}_go", False))
    # One button with two labels: of two buttons, the one not drawn would stay on the page, greyed, until the run ends.
    slot.button(
        "Stop" if running else label,
        key=key,
        type="secondary" if running else "primary",
        on_click=_flag,
        args=(f"{key}_go", not running),
        shortcut="Ctrl+Enter",
        width=240,
    )
    return running


def offered(model: Engine, names: Iterable[str]) -> tuple[str, ...]:
    """Return those of the drafters for which the model has all that they need."""
    can = queued_engine.drafters(model.name)[0]
    return tuple(name for name in names if name in can)


def _flag(name: str, value: bool) -> None:
    st.session_state[name] = value


# --- race ----------------------------------------------------------------------------------------


def race_part(model: Engine, query: str) -> None:
    """Choose lanes, run them, and show what was run."""
    chosen = race_settings.choose(queued_engine.drafters(model.name)[0])
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        slot = st.empty()
        repeats = st.segmented_control(
            "Repeats",
            (3, 5, 11),
            default=5,
            key="speed_repeats",
            persist_state="session",
            help="Runs of each lane after a warm-up; the median counts.",
        )
    pressed, spot = go(slot, "speed_race_start", "Start the race"), st.empty()
    if pressed:
        settings = timing.with_standards(chosen)
        trial = trials.start(model, query, settings, asked=len(chosen), repeats=repeats or 5)
        st.session_state.speed_race = trial
        trials.run(trial, model, spot.progress(0.0).progress)
        st.rerun()
    last: trials.Trial | None = st.session_state.get("speed_race")
    with spot.container():
        if last is None:
            st.caption(
                "Press the button: the query is answered the standard way, one token a pass, and with drafts. "
                "Then both runs are replayed side by side, slow enough to watch."
            )
        else:
            show_race(last, now=(model.name, query, chosen))


def show_race(trial: trials.Trial, *, now: tuple[str, str, tuple[DecodeSettings, ...]]) -> None:
    """Show everything about one race."""
    found = timing.rows(trial.settings, trial.good)
    about(trial, stale=now != (trial.model, trial.query, trial.settings[: trial.asked]))
    if not found:
        return
    answer = next(own for own in trial.good if own)[0].hypotheses[0]
    figures, drawing = st.columns([3, 1], vertical_alignment="center")
    figures.html(tables.headline(found))
    with drawing:
        svg = draw.molecule(answer.canonical, width=260, height=120, dark=theme.dark())
        draw.show(svg, f"The answer: {answer.smiles}")
    asked = list(zip(trial.settings, trial.good, strict=True))[: trial.asked]
    race.replay(
        [item for item, _ in asked], [own for _, own in asked], number=f"{id(trial)}-{trial.done}-{trial.where}"
    )
    told = f"Medians over {found[0].time.runs} runs each, quartiles below them. {tables.HINT}"
    extra = {timing.name(item) for item in trial.settings[trial.asked :]}
    st.html(tables.table(found, told, added=extra))
    for number in range(trial.asked):
        show_difference(trial, number)
    st.subheader("Every pass on the clock")
    charts.gantt([(timing.name(item), timing.typical(own)) for item, own in asked if own])
    rest = max(timing.untimed(timing.typical(own).trace) for _, own in asked if own)
    st.caption(
        "One bar is one pass: drafting and the model's run; a number in it is how many tokens it wrote. The gaps are "
        "the rest "
        f"of the time (encoder, Python; at most {timing.ms(rest)} in a run), which is measured as a whole and drawn "
        f"here in equal "
        "parts before the passes."
    )
    st.caption(trial.where)


def about(trial: trials.Trial, *, stale: bool) -> None:
    """Show what a visitor must know before believing the figures of a trial."""
    if trial.problem:
        what = "It cannot be run so" if trial.refusal else "Some runs gave no answer"
        st.error(f"{what}: {safe.plain(trial.problem)}")
        if trial.refusal:
            return
    if trial.done < trial.wanted:
        done = f"{trial.done} of {trial.wanted} runs were made"
        st.warning(f"Stopped: {done}. " + ("The figures are of those." if trial.done else "Start again."))
    doubts(trial.others, trial.load)
    if stale:
        st.info("These results are of an earlier query or choice; start again for the present one.")


def doubts(others: bool, load: float) -> None:
    """Show why the times of a run may be off."""
    if others:
        st.warning(
            "Other visitors or a batch job were using this server during the run, so these times may be off. Run it "
            "again for "
            "better ones."
        )
    elif load > BUSY * (os.cpu_count() or 1):
        st.warning(
            f"The server was busy when the run began ({load:.0f} programs for {os.cpu_count()} cores), so these "
            f"times may be off."
        )


def show_difference(trial: trials.Trial, number: int) -> None:
    """Show where a lane's answers are not the standard ones: both lists side by side, and why that can be."""
    pair = timing.differing(number, trial.settings, trial.good)
    if pair is None:
        return
    lane = trial.settings[number]
    with st.expander(f"{timing.name(lane)} gave other answers than the standard decoder"):
        gap = timing.closest(*pair)
        if not lane.exact:
            st.write("SBS is relaxed: its drafts can change which answers it finds.")
        elif gap < timing.TIE:
            st.write(
                f"A tie: the closest choice in these runs was decided by {gap:.1e} in log-probability, within "
                f"rounding of the "
                "arithmetic. Exact decoders can differ by ties only."
            )
        else:
            st.write(
                f"The closest choice in these runs was decided by {gap:.1e} in log-probability. That is too much for "
                f"rounding: please "
                "report this query as a bug."
            )
        st.html(tables.side_by_side(timing.side_by_side(*pair)))


# --- what if -------------------------------------------------------------------------------------


def sizes_part(model: Engine, query: str) -> None:
    """Measure a grid of draft sizes on the query."""
    chosen = race_settings.drafted("speed_sizes", offered(model, SIZES))
    slot, spot = st.empty(), st.empty()
    grid = timing.grid(chosen, chosen.drafter, *SIZES[chosen.drafter])
    if go(slot, "speed_sizes_start", f"Try {len(grid) - 1} draft sizes"):
        trial = trials.start(model, query, grid, asked=len(grid), repeats=RUNS)
        st.session_state.speed_sizes = trial
        trials.run(trial, model, spot.progress(0.0).progress, patient=True)
        st.rerun()
    last: trials.Trial | None = st.session_state.get("speed_sizes")
    with spot.container():
        if last is None:
            st.caption(
                "What if drafts were longer, or more of them were tried at once? Every combination is measured on "
                "the query above, "
                f"{RUNS} times after a warm-up."
            )
        else:
            show_sizes(last, now=(model.name, query, grid))


def show_sizes(trial: trials.Trial, *, now: tuple[str, str, tuple[DecodeSettings, ...]]) -> None:
    """Time, passes and nodes of every draft size, and what a pass costs."""
    found = timing.cells(trial.settings, trial.good)
    about(trial, stale=now != (trial.model, trial.query, trial.settings))
    if not found:
        return
    base = timing.rows(trial.settings[:1], trial.good[:1])[0]
    st.write(f"Standard: {timing.ms(base.time.median)} in {timing.passes(base.passes)}. {timing.lesson(found)}")
    fastest = min(found, key=lambda cell: cell.time.median)
    fewest = min(found, key=lambda cell: cell.passes)
    most = max(found, key=lambda cell: cell.nodes_per_pass)
    time, passes, nodes = st.columns(3)
    with time:
        charts.heat(found, lambda cell: cell.time.median, "ms an answer", form=".1f", mark=fastest, told="the fastest")
    with passes:
        charts.heat(found, lambda cell: cell.passes, "passes", form=".0f", mark=fewest, told="the fewest")
    with nodes:
        charts.heat(
            found,
            lambda cell: cell.nodes_per_pass,
            "nodes per pass",
            form=".0f",
            mark=most,
            told="the most work in a pass",
        )
    st.subheader("Why more is not better")
    charts.costs(timing.pass_costs(trial.good))
    st.caption(
        "Every drafted token is a node that the model has to compute, right or wrong. Longer and more drafts save "
        "passes, but the "
        "passes get dearer; past some size they cost more than they save. "
        + (
            "All draft sizes gave the standard answer."
            if all(cell.same for cell in found)
            else "Some draft sizes gave other answers than the standard decoder: a tie in the arithmetic."
        )
    )
    st.caption(trial.where)


# --- benchmark -----------------------------------------------------------------------------------


def bench_part(model: Engine) -> None:
    """Answer many built-in queries with and without drafts."""
    chosen = race_settings.drafted("speed_bench", offered(model, BENCHED))
    wanted = st.segmented_control(
        "Queries",
        (10, 25, 50, 100),
        default=25,
        key="speed_bench_count",
        persist_state="session",
        help=f"The first so many of the 200 built-in test queries for {model.task}.",
    )
    slot, spot = st.empty(), st.empty()
    if go(slot, "speed_bench_start", "Start the benchmark"):
        kept = trials.BenchRun(model.name, chosen, wanted or 25, trials.where(model), host.load())
        st.session_state.speed_bench = kept
        trials.bench(kept, model, spot.progress(0.0).progress)
        st.rerun()
    last: trials.BenchRun | None = st.session_state.get("speed_bench")
    with spot.container():
        if last is None:
            st.caption(
                "One query may be lucky. The benchmark answers many, each the standard way and with drafts, one "
                "after the other, "
                "and shows how the speed-ups spread."
            )
        else:
            show_bench(last, stale=(last.model, last.settings) != (model.name, chosen))


def show_bench(kept: trials.BenchRun, *, stale: bool) -> None:
    """Show how speed-ups and tokens per pass are spread over the queries."""
    if kept.refusal:
        st.error(f"It cannot be run so: {safe.plain(kept.refusal)}")
        return
    if kept.wanted == 0:
        st.info("This model can read none of the built-in queries.")
    if len(kept.cases) < kept.wanted:
        st.warning(
            f"Stopped: {len(kept.cases)} of {kept.wanted} queries were measured."
            + (" The figures are of those." if kept.cases else " Start again.")
        )
    doubts(kept.others, kept.load)
    if stale:
        st.info("These results are of an earlier choice; start again for the present one.")
    if not kept.cases:
        return
    ups = [case.speedup for case in kept.cases]
    rates = [case.tokens_per_pass for case in kept.cases]
    agreed, found = sum(case.same for case in kept.cases), Spread.of(ups)
    figures = [
        (timing.times(found.median), f"median; quartiles {found.low:.2f} and {found.high:.2f}"),
        (f"{Spread.of(rates).median:.2f}", "tokens per pass, median"),
        (f"{sum(up > 1 for up in ups)} of {len(ups)}", "queries faster than standard"),
        (f"{agreed} of {len(ups)}", "same answers"),
    ]
    st.html(tables.figures(figures))
    left, right = st.columns(2)
    with left:
        charts.histogram(ups, "speed-up against standard", start=0.0, rule="no gain")
    with right:
        charts.histogram(rates, "tokens per pass", start=1.0)
    st.caption(
        f"{timing.name(kept.settings)} on the first built-in test queries for {kept.model}, each run once."
        + f" {kept.unread} of them hold tokens that this model does not know and were left out." * bool(kept.unread)
    )
    st.caption(kept.where)
    st.download_button(
        "Download as CSV",
        timing.table_csv(kept.cases),
        f"chemspec-speed-{kept.model}.csv",
        "text/csv",
        on_click="ignore",
    )


PARTS: dict[str, Callable[[Engine, str], None]] = {
    "Race": race_part,
    "Draft sizes": sizes_part,
    "Benchmark": lambda model, _: bench_part(model),
}
ON_A_QUERY = ("Race", "Draft sizes")  # the benchmark brings its own
