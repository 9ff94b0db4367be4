"""Charts of the papers' tables, drawn with Altair: readable on light and dark pages, written as SVG by vl-convert."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

INK = "#6f7781"  # contrast above 4 on white and on near-black
COLORS = ("#2f8fd0", "#d9682a", "#2fa36b", "#a56bd1", "#a07d1f", "#d05a8a")  # above 3
FONT = "system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif"
BINS = 40  # at most

Row = Mapping[str, Any]


def charts(report: Mapping[str, Any]) -> dict[str, tuple[alt.TopLevelMixin, str]]:
    """Return the charts of a report of `papers.run`, by file name, each with what it shows in words."""
    drawn = {"latency": (latency(report["curve"]), "Throughput against latency for batches of growing size")}
    for what, place in (("time", 0), ("passes", 1)):
        speedups = {
            name: [pair[place] for pair in pairs]
            for name, pairs in report["speedups"].items()
            if name.split(", ")[1] == "auto" or ", greedy, auto" in name
        }
        words = f"Distribution of single queries' speed-ups in {what}"
        drawn[f"speedups-{what}"] = (distribution(speedups, what), words)
    for table, title in (("forward", "Forward, greedy"), ("retro", "Retro"), ("learned", "Learned drafters")):
        words = f"{title}: milliseconds a query, median and quartiles"
        drawn[f"{table}-times"] = (times(report[table], words), words)
    return {name: (_themed(chart), words) for name, (chart, words) in drawn.items()}


def svg(chart: alt.TopLevelMixin) -> str:
    """Return a chart as SVG text."""
    import vl_convert

    return str(vl_convert.vegalite_to_svg(chart.to_dict())) + "\n"


def latency(rows: Sequence[Row]) -> alt.LayerChart:
    """Draw queries a second against milliseconds until a batch is answered, one line a drafter, both axes logarithmic.

    Raises:
        ValueError: if there is no row.
    """
    values: list[dict[str, Any]] = [
        {
            "drafter": "standard" if row["drafter"] == "none" else row["drafter"],
            "latency": row["latency_ms"],
            "throughput": row["queries_per_second"],
            "batch": f"B={row['batch']}",
        }
        for row in _some(rows)
    ]
    points = alt.Chart(alt.Data(values=values)).encode(
        x=alt.X("latency:Q", title="milliseconds until a batch is answered, median").scale(_log(values, "latency")),
        y=alt.Y("throughput:Q", title="queries a second").scale(_log(values, "throughput")),
        color=_color("drafter", [value["drafter"] for value in values]),
    )
    layers = (
        points.mark_line(),
        points.mark_point(filled=True, opacity=1, size=45),
        _words(points, "batch", dx=6, dy=-7),
    )
    title = "Forward, greedy: latency against throughput by batch size"
    return alt.layer(*layers).properties(title=title, width=620, height=280)


def distribution(series: Mapping[str, Sequence[float]], what: str) -> alt.Chart:
    """Draw the share of queries by speed-up, in bins of equal width, the series over each other.

    Args:
        series: speed-ups of single queries, by name.
        what: is saved, "time" or "passes".

    Raises:
        ValueError: if there is no value.
    """
    values = [
        {"series": name, "speedup": value, "share": 100 / len(every)}
        for name, every in series.items()
        for value in every
    ]
    few = "less" if what == "time" else "fewer"
    return (
        alt.Chart(alt.Data(values=_some(values)))
        .mark_bar(opacity=0.6)
        .encode(
            x=alt.X("speedup:Q", title=f"times {few} {what}").bin(maxbins=BINS),
            y=alt.Y("sum(share):Q", title="% of queries").stack(None),
            color=_color("series", list(series)),
        )
        .properties(title=f"Speed-up of single queries in {what}: greedy, auto against standard", width=620, height=260)
    )


def times(rows: Sequence[Row], title: str) -> alt.VConcatChart:
    """Draw medians and quartiles, one line a row, groups below each other on one logarithmic scale.

    Args:
        rows: timed rows of the report.
        title: of the chart.

    Raises:
        ValueError: if there is no row.
    """
    groups = list(dict.fromkeys(row["group"] for row in _some(rows)))
    scale = _log(rows, "q1_ms", "q3_ms")
    parts = []
    for place, group in enumerate(groups):
        values = [{**row, "words": _milliseconds(row)} for row in rows if row["group"] == group]
        color = COLORS[place % len(COLORS)]
        axis = alt.Axis(title=None) if group == groups[-1] else None
        base = alt.Chart(alt.Data(values=values)).encode(
            y=alt.Y("label:N", sort=None, title=None).axis(minExtent=190, maxExtent=190, domain=False, grid=True)
        )
        bar = base.mark_bar(color=color, size=4).encode(alt.X("q1_ms:Q", axis=axis, scale=scale), alt.X2("q3_ms:Q"))
        point = base.mark_point(color=color, filled=True, opacity=1, size=75).encode(alt.X("median_ms:Q"))
        words = base.mark_text(align="left", color=INK).encode(x=alt.value(428), text="words:N")
        heading = alt.Title(group, color=color, fontSize=13, offset=4)
        parts.append(alt.layer(bar, point, words).properties(width=420, height=alt.Step(21), title=heading))
    return alt.vconcat(*parts, spacing=6, title=title)


def _milliseconds(row: Row) -> str:
    speedup = "" if row["speedup"] is None else f" ({row['speedup']:.2f}x)"
    return f"{row['median_ms']:.1f} ms{speedup}"


def _some(values: Sequence[Row]) -> list[Any]:
    if not values:
        raise ValueError("a chart needs at least one value")
    return list(values)


def _log(values: Sequence[Row], *fields: str) -> alt.Scale:
    """Return a logarithmic scale that holds these fields with some air."""
    ends = [value[field] for value in values for field in fields]
    return alt.Scale(type="log", domain=[min(ends) / 1.2, max(ends) * 1.2], nice=False)


def _color(field: str, names: Sequence[str]) -> alt.Color:
    """Return the colour of each name, in the order given."""
    every = list(dict.fromkeys(names))
    scale = alt.Scale(domain=every, range=[COLORS[place % len(COLORS)] for place in range(len(every))])
    return alt.Color(f"{field}:N", title=None, scale=scale)


def _words(chart: alt.Chart, field: str, **offset: float) -> alt.Chart:
    return chart.mark_text(align="left", fontSize=11, **offset).encode(text=f"{field}:N")


def _themed(chart: alt.TopLevelMixin) -> alt.TopLevelMixin:
    """Return the chart without a ground, in an ink that shows on light and dark pages."""
    ink = {"labelColor": INK, "titleColor": INK, "labelFont": FONT, "titleFont": FONT, "labelFontSize": 12}
    axis = {**ink, "domainColor": INK, "tickColor": INK, "gridColor": INK, "gridOpacity": 0.25, "titleFontWeight": 400}
    return (
        chart.configure(background="transparent", font=FONT, padding={"left": 5, "top": 5, "right": 40, "bottom": 5})  # type: ignore[attr-defined]
        .configure_axis(**axis, titleFontSize=12, labelLimit=220)
        .configure_axisX(grid=False, labelSeparation=8)
        .configure_legend(**ink, orient="top", columnPadding=40)
        .configure_title(color=INK, font=FONT, fontSize=15, anchor="start")
        .configure_view(stroke=None)
    )
