"""Charts of the pages Learn and Models: plain values in, Altair charts out. Each says in `alt`-like text what it
shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from chemspec.model.cost import CostCurve
from chemspec.ui.common import look
from chemspec.ui.learn.walltime import MOST, Cost, best_gamma, flat, improvement

# What the papers report, as multiples of their own standard decoding: (who, what, speed-up). Other models, other
# machines, other baselines: not to be compared with each other.
PUBLISHED = (
    ("Andronov", "products, greedy, drafts of 4", 61.8 / 26.04),
    ("Andronov", "products, greedy, drafts of 10", 61.8 / 17.06),
    ("Andronov", "retro, 5 answers (relaxed)", 36.7 / 9.9),
    ("Andronov", "retro, 10 answers (relaxed)", 39.9 / 15.4),
    ("Andronov", "retro, 25 answers (relaxed)", 46.2 / 28.1),
    ("Xia", "translation, 25 at once (relaxed)", 5.1),
    ("Tulsian", "translation, drafts of 3", 2.68),
    ("Tulsian", "the same with 3 beams", 0.79),
    ("Tulsian", "the same with 5 beams", 0.45),
)


def _ink(dark: bool) -> str:
    return "#e6efed" if dark else "#14211f"


def _accent(dark: bool) -> str:
    return "#2dd4bf" if dark else look.ACCENT


def gain(alpha: float, gamma: int, c: float, pass_cost: Cost = flat, *, dark: bool = False) -> Any:
    """Expected speed-up against draft length: the curve, its best point, the chosen one, and the line of no gain."""
    points: list[dict[str, Any]] = [{"gamma": g, "gain": improvement(alpha, g, c, pass_cost)} for g in range(MOST + 1)]
    for point in points:
        point["side"] = "slower than standard" if point["gain"] < 1 else "faster"
    best = best_gamma(alpha, c, pass_cost)
    top = max(2.0, 1.12 * max(point["gain"] for point in points))
    x = alt.X("gamma:Q", title="draft length γ", scale=alt.Scale(domain=[0, MOST]), axis=alt.Axis(tickMinStep=1))
    y = alt.Y("gain:Q", title="times as fast as standard", scale=alt.Scale(domain=[0, top]))
    tip = [alt.Tooltip("gamma:Q", title="draft length"), alt.Tooltip("gain:Q", title="times as fast", format=".2f")]
    band = (
        alt.Chart(alt.Data(values=[{"low": 0, "high": 1, "from": 0, "to": MOST}]))
        .mark_rect(color="#D55E00", opacity=0.09)
        .encode(
            x=alt.X("from:Q", title="draft length γ"),
            x2="to:Q",
            y=alt.Y("low:Q", title="times as fast as standard"),
            y2="high:Q",
        )
    )
    none = (
        alt.Chart(alt.Data(values=[{"gain": 1}]))
        .mark_rule(strokeDash=[5, 4], color=_ink(dark), opacity=0.7)
        .encode(y=y)
    )
    word = (
        alt.Chart(alt.Data(values=[{"gamma": MOST, "gain": 0, "text": "slower than standard"}]))
        .mark_text(align="right", dx=-6, dy=-10, color=_ink(dark), opacity=0.75)
        .encode(x=x, y=y, text="text:N")
    )
    data = alt.Data(values=points)
    line = alt.Chart(data).mark_line(color=_accent(dark), strokeWidth=2.5).encode(x=x, y=y, tooltip=tip)
    dots = (
        alt.Chart(data)
        .mark_point(filled=True, size=34, color=_accent(dark), opacity=1)
        .encode(
            x=x,
            y=y,
            tooltip=tip,
            shape=alt.Shape(
                "side:N",
                legend=None,
                scale=alt.Scale(domain=["faster", "slower than standard"], range=["circle", "cross"]),
            ),
        )
    )
    mark: list[dict[str, Any]] = [{"gamma": best, "gain": improvement(alpha, best, c, pass_cost)}]
    mark[0]["text"] = f"best: γ = {best}" if best else "best: no drafts"
    star = (
        alt.Chart(alt.Data(values=mark))
        .mark_point(shape="diamond", filled=True, size=170, color=_ink(dark), opacity=1)
        .encode(x=x, y=y, tooltip=tip)
    )
    name = (
        alt.Chart(alt.Data(values=mark))
        .mark_text(
            align="left" if best < 0.7 * MOST else "right",
            dx=4 if best < 0.7 * MOST else -4,
            dy=-15,
            fontWeight="bold",
            color=_ink(dark),
        )
        .encode(x=x, y=y, text="text:N")
    )
    chosen = (
        alt.Chart(alt.Data(values=[{"gamma": gamma, "gain": improvement(alpha, gamma, c, pass_cost)}]))
        .mark_point(shape="circle", size=230, strokeWidth=2.5, color="#D55E00", opacity=1)
        .encode(x=x, y=y, tooltip=tip)
    )
    return (band + none + word + line + dots + star + name + chosen).properties(height=340)


def optimum(c: float, pass_cost: Cost = flat) -> Any:
    """The best draft length against alpha, for some costs of drafting and the chosen one (Tulsian et al., figure 2)."""
    costs = sorted({0.02, 0.1, 0.3, round(c, 3)})
    points = [
        {
            "alpha": a / 50,
            "gamma": best_gamma(a / 50, cost, pass_cost),
            "c": f"c = {cost:g}" + (" (chosen)" if cost == round(c, 3) else ""),
        }
        for cost in costs
        for a in range(50)
    ]
    names = list(dict.fromkeys(str(point["c"]) for point in points))
    return (
        alt.Chart(alt.Data(values=points))
        .mark_line(interpolate="step-after", strokeWidth=2)
        .encode(
            x=alt.X("alpha:Q", title="acceptance probability α", scale=alt.Scale(domain=[0, 1])),
            y=alt.Y("gamma:Q", title="best draft length", scale=alt.Scale(domain=[0, MOST])),
            color=alt.Color(
                "c:N",
                title=None,
                sort=names,
                scale=alt.Scale(domain=names, range=list(look.SPANS)),
                legend=alt.Legend(orient="top", columns=2),
            ),
            strokeDash=alt.StrokeDash("c:N", sort=names, scale=alt.Scale(domain=names), legend=None),
            tooltip=[
                alt.Tooltip("alpha:Q", title="α"),
                alt.Tooltip("gamma:Q", title="best γ"),
                alt.Tooltip("c:N", title="drafting"),
            ],
        )
        .properties(height=340)
    )


def published(*, dark: bool = False) -> Any:
    """The speed-ups that the papers report, one dot each, beside the line of no gain."""
    points = [
        {"who": who, "what": f"{who}: {what}", "gain": gain, "text": f"{gain:.2g}×"} for who, what, gain in PUBLISHED
    ]
    y = alt.Y("what:N", title=None, sort=None, axis=alt.Axis(labelLimit=300))
    x = alt.X(
        "gain:Q", title="times as fast as their standard", scale=alt.Scale(domain=[0, 6]), axis=alt.Axis(tickCount=6)
    )
    rule = (
        alt.Chart(alt.Data(values=[{"gain": 1}]))
        .mark_rule(strokeDash=[5, 4], color=_ink(dark), opacity=0.7)
        .encode(x=x)
    )
    data = alt.Data(values=points)
    dots = (
        alt.Chart(data)
        .mark_point(filled=True, size=110, opacity=1)
        .encode(
            x=x,
            y=y,
            color=alt.Color("who:N", legend=None, scale=alt.Scale(range=list(look.SPANS))),
            shape=alt.Shape("who:N", legend=None),
        )
    )
    text = alt.Chart(data).mark_text(align="left", dx=9, color=_ink(dark)).encode(x=x, y=y, text="text:N")
    return (rule + dots + text).properties(height=290)


def drafters(rows: Sequence[dict[str, Any]], *, dark: bool = False) -> Any:
    """Milliseconds a query of every drafter, median and quartiles, with its passes beside; the standard decoder's as a
    line."""
    points = [
        {
            "who": row["drafter"],
            "ms": row["median_ms"],
            "low": row["q1_ms"],
            "high": row["q3_ms"],
            "text": f"{row['median_ms']:.1f} ms, {row['passes_per_query']:.1f} passes",
            "kind": "standard" if row["drafter"] == "standard" else "own model" if row["weights_mb"] else "no model",
        }
        for row in rows
    ]
    most = 1.45 * max(point["high"] for point in points)
    data = alt.Data(values=points)
    y = alt.Y("who:N", title=None, sort=[point["who"] for point in points], axis=alt.Axis(labelOverlap=False))
    x = alt.X("ms:Q", title="milliseconds a query", scale=alt.Scale(domain=[0, most]))
    kinds = ["standard", "no model", "own model"]
    spans = (
        alt.Chart(data)
        .mark_rule(color=_ink(dark), opacity=0.5)
        .encode(x=alt.X("low:Q", title="milliseconds a query"), x2="high:Q", y=y)
    )
    dots = (
        alt.Chart(data)
        .mark_point(filled=True, size=110, opacity=1)
        .encode(
            x=x,
            y=y,
            color=alt.Color(
                "kind:N",
                title=None,
                scale=alt.Scale(domain=kinds, range=[_ink(dark), look.SPANS[0], look.SPANS[1]]),
                legend=alt.Legend(orient="top"),
            ),
            shape=alt.Shape("kind:N", scale=alt.Scale(domain=kinds), legend=None),
        )
    )
    text = (
        alt.Chart(data)
        .mark_text(align="left", dx=6, color=_ink(dark))
        .encode(x=alt.X("high:Q", title="milliseconds a query"), y=y, text="text:N")
    )
    standard = [point for point in points if point["kind"] == "standard"]
    rule = alt.Chart(alt.Data(values=standard)).mark_rule(strokeDash=[5, 4], color=_ink(dark), opacity=0.7).encode(x=x)
    return (rule + spans + dots + text).properties(height=32 * len(points) + 110)


def cost(curve: CostCurve, *, dark: bool = False) -> Any:
    """Milliseconds of a pass by the number of new tokens in it, as measured on this machine."""
    points = [
        {"nodes": nodes, "ms": 1000 * seconds, "text": f"{1000 * seconds:.2g}"}
        for nodes, seconds in zip(curve.nodes, curve.seconds, strict=True)
    ]
    data = alt.Data(values=points)
    x = alt.X(
        "nodes:Q",
        title="new tokens in the pass",
        scale=alt.Scale(type="log", base=2),
        axis=alt.Axis(values=list(curve.nodes)),
    )
    y = alt.Y("ms:Q", title="milliseconds", scale=alt.Scale(domainMin=0))
    tip = [alt.Tooltip("nodes:Q", title="new tokens"), alt.Tooltip("ms:Q", title="milliseconds", format=".2f")]
    line = alt.Chart(data).mark_line(color=_accent(dark)).encode(x=x, y=y)
    dots = (
        alt.Chart(data).mark_point(filled=True, size=55, color=_accent(dark), opacity=1).encode(x=x, y=y, tooltip=tip)
    )
    text = alt.Chart(data).mark_text(dy=-11, color=_ink(dark)).encode(x=x, y=y, text="text:N")
    return (line + dots + text).properties(height=250)


def accuracy(rows: Sequence[tuple[str, float, float, float]], *, dark: bool = False) -> Any:
    """Bars of (name, share, low, high), all in percent, with their intervals."""
    points = [
        {"name": name, "share": share, "low": low, "high": high, "text": f"{share:.1f}%"}
        for name, share, low, high in rows
    ]
    data = alt.Data(values=points)
    y = alt.Y("name:N", title=None, sort=None)
    x = alt.X(
        "share:Q",
        title="right, in % of test reactions",
        scale=alt.Scale(domain=[0, 118]),  # room for a number after a bar of 100 %
        axis=alt.Axis(values=list(range(0, 101, 20))),
    )
    bars = alt.Chart(data).mark_bar(color=_accent(dark), height=15, opacity=0.55).encode(x=x, y=y)
    spread = (
        alt.Chart(data)
        .mark_rule(color=_ink(dark), strokeWidth=1.6)
        .encode(x=alt.X("low:Q", title="right, in % of test reactions"), x2="high:Q", y=y)
    )
    text = (
        alt.Chart(data)
        .mark_text(align="left", dx=4, color=_ink(dark))
        .encode(x=alt.X("high:Q", title="right, in % of test reactions"), y=y, text="text:N")
    )
    return (bars + spread + text).properties(height=36 * max(1, len(points)) + 46)
