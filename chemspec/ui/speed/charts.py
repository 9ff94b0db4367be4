"""The charts of the page Speed. Numbers stand beside colours, and every chart says in words what it shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt
import streamlit as st

from chemspec.metrics import Spread
from chemspec.types import DecodeResult
from chemspec.ui.common import theme
from chemspec.ui.speed import timing


def _ramp() -> list[str]:
    """Return colours for little and much, on both of which text can be read."""
    return ["#1c302d", "#14766c"] if theme.dark() else ["#e3f1ee", "#58b3a6"]


def gantt(runs: Sequence[tuple[str, DecodeResult]]) -> None:
    """Show one bar a pass, with its tokens; the runs stand one above the other on one axis of milliseconds."""
    longest = max(1e3 * result.trace.seconds for _, result in runs)
    lanes = [f"{number}  {name}" for number, (name, _) in enumerate(runs, 1)]
    bars = [
        {"lane": lane, **bar._asdict(), "shown": _inside(bar, longest)}
        for lane, (_, result) in zip(lanes, runs, strict=True)
        for bar in timing.timeline(result.trace)
    ]
    most = max(bar["accepted"] for bar in bars)
    labels = alt.Axis(labelAlign="left", labelOffset=-26, labelPadding=-2, labelLimit=400, ticks=False, domain=False)
    y = alt.Y("lane:N", sort=lanes, title=None, scale=alt.Scale(paddingInner=0.55, paddingOuter=0.5), axis=labels)
    scale = alt.Scale(nice=False, domain=[0, longest])
    x = alt.X("start:Q", title="milliseconds since the start of the run", scale=scale)
    steps = alt.Legend(orient="top", type="symbol", format="d", values=sorted({0, most // 2, most}))
    color = alt.Color(
        "accepted:Q",
        title="tokens accepted from drafts",
        scale=alt.Scale(domain=[0, max(1, most)], range=_ramp()),
        legend=steps if most else None,
    )
    tips = [
        alt.Tooltip("number:Q", title="pass"),
        alt.Tooltip("emitted:Q", title="tokens written"),
        alt.Tooltip("accepted:Q", title="accepted from drafts"),
        alt.Tooltip("computed:Q", title="nodes computed"),
        alt.Tooltip("model:Q", title="ms in the model", format=".2f"),
        alt.Tooltip("drafting:Q", title="ms drafting", format=".2f"),
    ]
    base = alt.Chart(alt.Data(values=bars)).encode(y=y)
    marks = base.mark_bar(stroke=theme.accent(), strokeWidth=0.5, cornerRadius=1).encode(
        x=x, x2="end:Q", color=color, tooltip=tips
    )
    middle = base.transform_calculate(middle="(datum.start + datum.end) / 2")
    text = middle.mark_text(fontSize=11, color=theme.ink()).encode(x="middle:Q", text="shown:N")
    words = "; ".join(
        f"{name}: {len(result.trace.passes)} passes in {timing.ms(1e3 * result.trace.seconds)}" for name, result in runs
    )
    _show(
        (marks + text).properties(height=(130 if most else 90) + 62 * len(runs)),
        f"Bars of forward passes on one time axis. {words}.",
    )


def _inside(bar: timing.PassBar, longest: float) -> str:
    """Return how many tokens the pass wrote, where the bar is wide enough to hold the figure."""
    return str(bar.emitted) if bar.emitted > 1 and (bar.end - bar.start) / longest > 0.018 else ""


def histogram(values: Sequence[float], title: str, *, start: float, rule: str = "") -> None:
    """Show how often each value came; a line at the median, and one at 1 if `rule` says what that means."""
    spread = Spread.from_values(values)
    highest = max([*values, start + 1.0])
    step = next(width for width in (0.1, 0.25, 0.5, 1, 2, 5, 10, 1e9) if (highest - start) / width <= 24)
    scale, axis = alt.Scale(domainMin=start), alt.Axis(format=".2~f")
    queries = alt.Y("count():Q", title="queries", axis=alt.Axis(tickMinStep=1))
    bars = (
        alt.Chart(alt.Data(values=[{"value": value} for value in values]))
        .mark_bar(color=_ramp()[1], stroke=theme.accent(), strokeWidth=0.8)
        .encode(x=alt.X("value:Q", title=title, bin=alt.Bin(step=step), scale=scale, axis=axis), y=queries)
    )
    lines = [{"value": spread.median, "text": f"median {spread.median:.2f}", "y": 0}]
    lines += [{"value": 1.0, "text": rule, "y": 15}] * bool(rule)  # lower: the two may stand side by side
    marks = alt.Chart(alt.Data(values=lines)).encode(x="value:Q")
    drawn = marks.mark_rule(color=theme.ink(), strokeWidth=1.5)
    words = marks.mark_text(align="left", dx=5, dy=-4, baseline="bottom", fontSize=12, color=theme.ink())
    _show(
        (bars + drawn + words.encode(text="text:N", y=alt.Y("y:Q", scale=None, axis=None))).properties(
            height=240, padding={"top": 22}
        ),
        f"Histogram of {title} over {len(values)} queries: median {spread.median:.2f}, quartiles {spread.low:.2f} and "
        f"{spread.high:.2f}, from {min(values):.2f} to {max(values):.2f}.",
    )


def _show(chart: Any, words: str) -> None:
    st.altair_chart(chart, width="stretch", alt=words)
