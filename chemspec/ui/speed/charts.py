"""The charts of the page Speed. Numbers stand beside colours, and every chart says in words what it shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import altair as alt
import streamlit as st

from chemspec.metrics import Spread
from chemspec.types import DecodeResult
from chemspec.ui.common import theme
from chemspec.ui.speed import timing
from chemspec.ui.speed.timing import LaneFigures


class Paint(NamedTuple):
    """Colours for one ground: text, a ramp from little to much on which the text can be read, and its edges."""

    text: str
    ramp: tuple[str, str]
    accent: str


LIGHT = Paint("#14211f", ("#e3f1ee", "#58b3a6"), "#0f766e")
DARK = Paint("#e6efed", ("#1c302d", "#14766c"), "#2dd4bf")


def paint() -> Paint:
    """Return the colours for the visitor's page."""
    return DARK if theme.dark() else LIGHT


def gantt(runs: Sequence[tuple[str, DecodeResult]]) -> None:
    """Show one bar a pass, with its tokens; the runs stand one above the other on one axis of milliseconds."""
    colors = paint()
    longest = max(1e3 * result.trace.seconds for _, result in runs)
    lanes = [f"{number}  {name}" for number, (name, _) in enumerate(runs, 1)]
    bars = [
        {"lane": lane, **bar._asdict(), "shown": _inside(bar, longest)}
        for lane, (_, result) in zip(lanes, runs, strict=True)
        for bar in timing.timeline(result.trace)
    ]
    base = alt.Chart(alt.Data(values=bars)).encode(
        y=alt.Y(
            "lane:N",
            sort=lanes,
            title=None,
            scale=alt.Scale(paddingInner=0.55, paddingOuter=0.5),
            axis=alt.Axis(
                labelAlign="left",
                labelOffset=-26,
                labelPadding=-2,
                labelLimit=400,
                ticks=False,
                domain=False,
                labelFontSize=13,
                labelColor=colors.text,
            ),
        )
    )
    x = alt.X(
        "start:Q", title="milliseconds since the start of the run", scale=alt.Scale(nice=False, domain=[0, longest])
    )
    most = max(bar["accepted"] for bar in bars)
    color = alt.Color(
        "accepted:Q",
        title="tokens accepted from drafts",
        scale=alt.Scale(domain=[0, max(1, most)], range=list(colors.ramp)),
        legend=alt.Legend(
            orient="top",
            type="symbol",
            symbolType="square",
            symbolSize=160,
            symbolStrokeWidth=0.5,
            format="d",
            values=sorted({0, most // 2, most}),
        )
        if most
        else None,
    )
    tips = [
        alt.Tooltip("number:Q", title="pass"),
        alt.Tooltip("emitted:Q", title="tokens written"),
        alt.Tooltip("accepted:Q", title="accepted from drafts"),
        alt.Tooltip("computed:Q", title="nodes computed"),
        alt.Tooltip("model:Q", title="ms in the model", format=".2f"),
        alt.Tooltip("drafting:Q", title="ms drafting", format=".2f"),
    ]
    marks = base.mark_bar(stroke=colors.accent, strokeWidth=0.5, cornerRadius=1).encode(
        x=x, x2="end:Q", color=color, tooltip=tips
    )
    middle = "(datum.start + datum.end) / 2"
    text = base.transform_calculate(middle=middle).mark_text(fontSize=11, color=colors.text)
    words = "; ".join(
        f"{name}: {len(result.trace.passes)} passes in {timing.ms(1e3 * result.trace.seconds)}" for name, result in runs
    )
    _show(
        (marks + text.encode(x="middle:Q", text="shown:N")).properties(height=(130 if most else 90) + 62 * len(runs)),
        f"Bars of forward passes on one time axis. {words}.",
    )


def _inside(bar: timing.PassBar, longest: float) -> str:
    """Return how many tokens the pass wrote, where the bar is wide enough to hold the figure."""
    return str(bar.emitted) if bar.emitted > 1 and (bar.end - bar.start) / longest > 0.018 else ""


def heat(
    cells: Sequence[LaneFigures],
    value: Callable[[LaneFigures], float],
    title: str,
    *,
    form: str,
    mark: LaneFigures,
    told: str,
) -> None:
    """Show one figure for every draft length and number of drafts.

    Args:
        cells: the measured draft sizes.
        value: gives the figure.
        title: says what the figure is.
        form: its format.
        mark: the size to outline.
        told: says why it is outlined.
    """
    colors = paint()
    data = [{"length": cell.length, "count": cell.drafts, "value": value(cell), "best": cell is mark} for cell in cells]
    base = alt.Chart(alt.Data(values=data), title=alt.TitleParams(title, subtitle=f"outlined: {told}")).encode(
        x=alt.X("length:O", title="draft length", axis=alt.Axis(labelAngle=0)),
        y=alt.Y("count:O", title="number of drafts", sort="descending"),
        tooltip=[
            alt.Tooltip("length:O", title="draft length"),
            alt.Tooltip("count:O", title="drafts"),
            alt.Tooltip("value:Q", title=title, format=form),
        ],
    )
    ramp = alt.Scale(range=list(colors.ramp), zero=False)
    tiles = base.mark_rect(cornerRadius=3).encode(color=alt.Color("value:Q", scale=ramp, legend=None))
    frame = base.transform_filter("datum.best").mark_rect(
        filled=False, stroke=colors.text, strokeWidth=2, cornerRadius=3
    )
    figures = base.mark_text(fontSize=12, color=colors.text).encode(text=alt.Text("value:Q", format=form))
    low, high = min(data, key=_value), max(data, key=_value)
    rows = len({cell.drafts for cell in cells})
    _show(
        (tiles + frame + figures).properties(height=88 + 38 * rows),
        f"{title} by draft length and number of drafts: from {low['value']:{form}} (length {low['length']}, "
        f"{low['count']} drafts) "
        f"to {high['value']:{form}} (length {high['length']}, {high['count']} drafts).",
    )


def _value(item: dict[str, Any]) -> float:
    return float(item["value"])


def costs(points: Sequence[tuple[int, float, int]]) -> None:
    """Show what a pass cost by the number of nodes it computed: why more drafts are not always faster."""
    colors = paint()
    data = [{"nodes": nodes, "ms": ms, "passes": passes} for nodes, ms, passes in points]
    chart = (
        alt.Chart(alt.Data(values=data))
        .mark_point(filled=True, opacity=0.75, color=colors.accent)
        .encode(
            x=alt.X("nodes:Q", title="nodes in a pass"),
            y=alt.Y("ms:Q", title="ms in the model (median)"),
            size=alt.Size("passes:Q", title="passes", scale=alt.Scale(range=[25, 260])),
            tooltip=[alt.Tooltip("nodes:Q"), alt.Tooltip("ms:Q", format=".2f"), alt.Tooltip("passes:Q")],
        )
        .properties(height=250)
    )
    first, last = points[0], points[-1]
    _show(chart, f"Time of a pass by its nodes: {first[1]:.2f} ms with {first[0]}, {last[1]:.2f} ms with {last[0]}.")


def histogram(values: Sequence[float], title: str, *, start: float, rule: str = "") -> None:
    """Show how often each value came; a line at the median, and one at 1 if `rule` says what that means."""
    colors, found = paint(), Spread.of(values)
    highest = max([*values, start + 1.0])
    step = next(one for one in (0.1, 0.25, 0.5, 1, 2, 5, 10, 1e9) if (highest - start) / one <= 24)
    x = alt.X(
        "value:Q", title=title, bin=alt.Bin(step=step), scale=alt.Scale(domainMin=start), axis=alt.Axis(format=".2~f")
    )
    bars = (
        alt.Chart(alt.Data(values=[{"value": value} for value in values]))
        .mark_bar(color=colors.ramp[1], stroke=colors.accent, strokeWidth=0.8)
        .encode(
            x=x,
            y=alt.Y("count():Q", title="queries", axis=alt.Axis(tickMinStep=1)),
            tooltip=[alt.Tooltip("count():Q", title="queries")],
        )
    )
    lines = [{"value": found.median, "text": f"median {found.median:.2f}", "kind": "median"}]
    if rule:
        lines.append({"value": 1.0, "text": rule, "kind": "one"})
    marks = alt.Chart(alt.Data(values=lines)).encode(x="value:Q")
    drawn = marks.mark_rule(color=colors.text, strokeWidth=1.5).encode(
        strokeDash=alt.StrokeDash(
            "kind:N", legend=None, scale=alt.Scale(domain=["median", "one"], range=[[1, 0], [4, 4]])
        )
    )
    words = marks.mark_text(align="left", dx=5, dy=-4, baseline="bottom", fontSize=12, color=colors.text).encode(
        text="text:N", y=alt.value(0)
    )
    _show(
        (bars + drawn + words).properties(height=240, padding={"top": 22, "left": 5, "right": 5, "bottom": 5}),
        f"Histogram of {title} over {len(values)} queries: median {found.median:.2f}, quartiles {found.low:.2f} and "
        f"{found.high:.2f}, "
        f"from {min(values):.2f} to {max(values):.2f}.",
    )


def _show(chart: Any, words: str) -> None:
    st.altair_chart(chart, width="stretch", alt=words)
