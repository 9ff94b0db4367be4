"""The chart of the page How it works: expected speed-up against draft length."""

from __future__ import annotations

from typing import Any

import altair as alt

from chemspec.ui.common import theme
from chemspec.ui.learn.walltime import MAX_GAMMA, Cost, best_gamma, expected_speedup, flat_cost

ORANGE = theme.SPANS[5]


def _data_chart(*rows: dict[str, Any]) -> Any:
    return alt.Chart(alt.Data(values=list(rows)))


def _point_marks(chart: Any, **options: Any) -> Any:
    return chart.mark_point(**{"filled": True, "size": 110, "opacity": 1, "color": theme.accent_color(), **options})


def _text_marks(chart: Any, **options: Any) -> Any:
    return chart.mark_text(**{"align": "left", "dx": 6, "color": theme.text_color(), **options}).encode(text="text:N")


def _no_gain_rule(chart: Any) -> Any:
    return chart.mark_rule(strokeDash=[5, 4], color=theme.text_color(), opacity=0.7)


def speedup_chart(alpha: float, gamma: int, c: float, pass_cost: Cost = flat_cost) -> Any:
    """Return expected speed-up against draft length: the curve, its best point, the chosen one, the line of no gain."""

    def point(length: int, **more: Any) -> dict[str, Any]:
        return {"gamma": length, "gain": expected_speedup(alpha, length, c, pass_cost), **more}

    points = [point(length) for length in range(MAX_GAMMA + 1)]
    for row in points:
        row["side"] = "slower than standard" if row["gain"] < 1 else "faster"
    best = best_gamma(alpha, c, pass_cost)
    top = max(2.0, 1.12 * max(row["gain"] for row in points))
    axes = {
        "x": alt.X(
            "gamma:Q", title="draft length γ", scale=alt.Scale(domain=[0, MAX_GAMMA]), axis=alt.Axis(tickMinStep=1)
        ),
        "y": alt.Y("gain:Q", title="times as fast as standard", scale=alt.Scale(domain=[0, top])),
        "tooltip": [
            alt.Tooltip("gamma:Q", title="draft length"),
            alt.Tooltip("gain:Q", title="times as fast", format=".2f"),
        ],
    }
    sides = alt.Scale(domain=["faster", "slower than standard"], range=["circle", "cross"])
    band = _data_chart({"gamma": 0, "to": MAX_GAMMA, "gain": 0, "high": 1}).mark_rect(color=ORANGE, opacity=0.09)
    warning = _data_chart({"gamma": MAX_GAMMA, "gain": 0, "text": "slower than standard"})
    optimum = _data_chart(point(best, text=f"best: γ = {best}" if best else "best: no drafts"))
    left = best < 0.7 * MAX_GAMMA
    label = _text_marks(optimum, align="left" if left else "right", dx=4 if left else -4, dy=-15, fontWeight="bold")
    return alt.layer(
        band.encode(x=axes["x"], y=axes["y"], x2="to:Q", y2="high:Q"),
        _no_gain_rule(_data_chart({"gain": 1})).encode(y=axes["y"]),
        _text_marks(warning, align="right", dx=-6, dy=-10, opacity=0.75).encode(x=axes["x"], y=axes["y"]),
        _data_chart(*points).mark_line(color=theme.accent_color(), strokeWidth=2.5).encode(**axes),
        _point_marks(_data_chart(*points), size=34).encode(**axes, shape=alt.Shape("side:N", legend=None, scale=sides)),
        _point_marks(optimum, shape="diamond", size=170, color=theme.text_color()).encode(**axes),
        label.encode(x=axes["x"], y=axes["y"]),
        _point_marks(_data_chart(point(gamma)), filled=False, size=230, strokeWidth=2.5, color=ORANGE).encode(**axes),
    ).properties(height=340)
