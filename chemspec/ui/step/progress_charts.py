"""Charts below the trace player: tokens written against time, and how far drafts hold."""

from dataclasses import replace

import altair as alt
import pandas as pd
import streamlit as st

from chemspec.engine.engine import Engine
from chemspec.replay.timing import median_run, pass_timeline, standard_of
from chemspec.replay.trace_view import TraceView, acceptance_by_offset
from chemspec.settings import DecodeSettings
from chemspec.types import DecodeResult
from chemspec.ui.common import queued_engine, theme
from chemspec.ui.speed import trials

STANDARD, FAST = "standard", "with drafts"
GREY = "#8a9391"


def measure_runs(model: Engine, query: str, settings: DecodeSettings) -> list[DecodeResult]:
    """Return the run under these settings and the standard one, medians of three by time, both not recorded.

    The list is empty where one of them failed, as where a service is full.
    """
    plain, line = replace(settings, record=False), st.empty()

    def compare() -> list[DecodeResult]:
        pair = [plain, standard_of(plain)]
        rounds = queued_engine.compare_settings(model, query, pair, repeats=3, report=line.caption)
        if failed := [result.message for results in rounds for result in results if result.status != "ok"]:
            raise ValueError(failed[0])
        return [median_run(results) for results in rounds]

    try:
        return queued_engine.session_cached("step_measured", (model.digest, model.dtype, query, plain), compare)
    except ValueError:
        return []
    finally:
        line.empty()


def believable_times(fast: DecodeResult | None, slow: DecodeResult | None) -> tuple[float, float] | None:
    """Return milliseconds with and without drafts; None where they were not measured, or the machine was busy."""
    if fast is None or slow is None or not trials.is_quiet_now():
        return None
    return 1e3 * fast.trace.seconds, 1e3 * slow.trace.seconds


def draw_against_time(view: TraceView, result: DecodeResult, slow: DecodeResult | None) -> None:
    """Draw tokens written against milliseconds; each line ends when its run had ended."""
    traces = {FAST: result.trace} | ({STANDARD: slow.trace} if slow else {})
    rows = [(name, 0.0, 0) for name in traces]
    rows += [(name, bar.end, bar.written) for name, trace in traces.items() for bar in pass_timeline(trace)]
    ends = ", ".join(f"{name} {trace.seconds * 1e3:.0f} ms" for name, trace in traces.items())
    y = "tokens of the longest text" if view.uneven else "steps of the beam" if view.several else "tokens written"
    kinds = [FAST, STANDARD]
    colors = alt.Scale(domain=kinds, range=[theme.accent_color(), GREY])
    chart = alt.Chart(pd.DataFrame(rows, columns=["way", "x", "y"]), height=230).encode(
        x=alt.X("x:Q", title="milliseconds", axis=alt.Axis(grid=False)),
        y=alt.Y("y:Q", title=y, axis=alt.Axis(tickCount=5)),
        color=alt.Color("way:N", title=None, scale=colors, legend=alt.Legend(orient="top")),
        strokeDash=alt.StrokeDash("way:N", title=None, scale=alt.Scale(domain=kinds, range=[[1, 0], [5, 4]])),
        tooltip=["way:N", alt.Tooltip("x:Q", title="milliseconds", format=".4~r"), alt.Tooltip("y:Q", title=y)],
    )
    line = chart.mark_line(interpolate="step-after", strokeWidth=2.2)
    st.altair_chart(line, alt=f"Staircase of {y} over time: {ends}.")
    if slow:
        note = " Fewer but more expensive passes: standard decoding is faster with this drafter."
        slower = len(result.trace.passes) < len(slow.trace.passes)
        slower = slower and result.trace.seconds > 1.05 * slow.trace.seconds
        remark = note * slower if trials.is_quiet_now() else " The machine was busy, so these times may be off."
        st.caption(f"Measured here, one after the other, median of three runs: {ends}.{remark}")
    else:
        st.caption(f"As measured when the trace was recorded: {ends}.")


def draw_acceptance_by_offset(view: TraceView) -> None:
    """Draw how often the k-th token of a draft was accepted."""
    offsets = acceptance_by_offset(view)
    if not offsets:
        st.caption("Nothing was drafted, so there is nothing to accept.")
        return
    frame = pd.DataFrame(offsets, columns=["offset", "passes", "accepted"])
    frame["share"] = frame["accepted"] / frame["passes"]
    base = alt.Chart(frame).encode(
        x=alt.X("offset:O", title="token of the draft", axis=alt.Axis(labelAngle=0, labelOverlap=True)),
        y=alt.Y(
            "share:Q", title="share of passes", axis=alt.Axis(format="%", tickCount=4), scale=alt.Scale(domain=[0, 1])
        ),
        tooltip=[
            alt.Tooltip("offset", title="token of the draft"),
            alt.Tooltip("passes", title="passes with one"),
            alt.Tooltip("accepted", title="accepted"),
        ],
    )
    chart = base.mark_bar(color=theme.accent_color(), cornerRadiusEnd=2).properties(height=230)
    right = f"the first token was right in {frame.accepted[0]} of {frame.passes[0]} passes"
    st.altair_chart(chart, alt=f"Acceptance by place in the draft: {right}.")
    st.caption(
        "Of the passes in which some draft had a token at this place, the share in which a draft was right up to it."
    )
