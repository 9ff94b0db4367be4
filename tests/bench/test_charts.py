"""Charts hold the right data, and are readable on both grounds."""

from __future__ import annotations

import json
import re
from typing import Any
from xml.etree import ElementTree

import pytest
from paths import ROOT

pytest.importorskip("altair")

from chemspec.bench import charts
from chemspec.bench.charts import COLORS, INK

SVG = "{http://www.w3.org/2000/svg}"
REPORT = json.loads((ROOT / "assets" / "docs" / "charts" / "papers.json").read_text(encoding="utf-8"))


def point(drafter: str, batch: int, latency: float, throughput: float) -> dict[str, Any]:
    return {"drafter": drafter, "batch": batch, "latency_ms": latency, "queries_per_second": throughput}


def values(spec: dict[str, Any]) -> list[dict[str, Any]]:
    """All data of a chart, its parts included."""
    found = list(spec.get("data", {}).get("values", []))
    for name, rows in spec.get("datasets", {}).items():
        found += rows if name else []
    for part in (*spec.get("layer", []), *spec.get("vconcat", [])):
        found += values(part)
    return [value for place, value in enumerate(found) if value not in found[:place]]


def test_latency_is_drawn_on_logarithmic_axes_one_colour_a_drafter() -> None:
    spec = charts.latency([point("none", 1, 10, 100), point("none", 2, 20, 100), point("copy", 1, 5, 200)]).to_dict()
    found = {(one["drafter"], one["batch"]): (one["latency"], one["throughput"]) for one in values(spec)}
    assert found == {("standard", "B=1"): (10, 100), ("standard", "B=2"): (20, 100), ("copy", "B=1"): (5, 200)}
    for layer in spec["layer"]:
        axes = layer["encoding"]
        assert (axes["x"]["field"], axes["y"]["field"]) == ("latency", "throughput")
        assert axes["x"]["scale"]["type"] == axes["y"]["scale"]["type"] == "log"
        low, high = axes["x"]["scale"]["domain"]
        assert low < 5 and high > 20
        assert axes["color"]["scale"] == {"domain": ["standard", "copy"], "range": list(COLORS[:2])}


def test_a_distribution_shares_out_all_values() -> None:
    spec = charts.distribution({"a": [1.0, 1.0, 1.0, 3.0], "b": [2.0]}, "passes").to_dict()
    found = values({"data": spec["data"]} if "values" in spec["data"] else spec)
    assert {(one["series"], one["speedup"], one["share"]) for one in found} == {
        ("a", 1, 25),
        ("a", 3, 25),
        ("b", 2, 100),
    }
    assert spec["encoding"]["y"]["aggregate"] == "sum" and spec["encoding"]["y"]["stack"] is None
    assert spec["encoding"]["x"]["bin"] and spec["encoding"]["x"]["title"] == "times fewer passes"


def test_medians_and_quartiles_stand_in_their_groups_on_one_scale() -> None:
    rows = [
        {"group": group, "name": name, "median": median, "low": median / 2, "high": median * 2, "words": f"{median} ms"}
        for group, name, median in (("g", "x", 1), ("g", "y", 10), ("h", "x", 100))
    ]
    spec = charts.times(rows, "t").to_dict()
    assert [part["title"]["text"] for part in spec["vconcat"]] == ["g", "h"]
    assert values(spec) == rows
    scales = {json.dumps(part["layer"][0]["encoding"]["x"]["scale"]) for part in spec["vconcat"]}
    (scale,) = map(json.loads, scales)
    assert scale["type"] == "log" and scale["domain"][0] < 0.5 and scale["domain"][1] > 200
    bar, dot, words = (layer["encoding"] for layer in spec["vconcat"][0]["layer"])
    assert (bar["x"]["field"], bar["x2"]["field"], dot["x"]["field"]) == ("low", "high", "median")
    assert words["text"]["field"] == "words"


@pytest.mark.parametrize(
    ("table", "name", "group", "shown"),
    [
        ("forward", "windows DL=4, B=1", "batch 1", "windows DL=4"),
        ("retro", "n=5, exact, auto", "n=5", "exact, auto"),
        ("learned", "retro, greedy B=1, ar", "retro, greedy B=1", "ar"),
        ("learned", "retro, speculative sampling, ar", "retro, sampling", "speculative, ar"),
    ],
)
def test_rows_are_grouped_by_what_they_are_compared_with(table: str, name: str, group: str, shown: str) -> None:
    row = {"name": name, "batch": 1, "speedup": 2.0, "median_ms": 3.0, "q1_ms": 2.0, "q3_ms": 4.0}
    found = charts.grouped(row, table)
    assert (found["group"], found["name"], found["words"]) == (group, shown, "3.0 ms (2.00x)")
    assert charts.grouped({**row, "speedup": None}, table)["words"] == "3.0 ms"


def test_nothing_is_no_chart() -> None:
    for draw in (lambda: charts.latency([]), lambda: charts.distribution({}, "time"), lambda: charts.times([], "t")):
        with pytest.raises(ValueError, match="at least one"):
            draw()


def test_every_chart_of_the_report_is_a_picture_with_its_words() -> None:
    pytest.importorskip("vl_convert")
    drawn = charts.charts(REPORT)
    assert set(drawn) == {f"{name}-times" for name in ("forward", "retro", "learned")} | {
        "latency",
        "speedups-time",
        "speedups-passes",
    }
    root = ElementTree.fromstring(charts.svg(drawn["forward-times"][0]))
    words = {item.text for item in root.iter(f"{SVG}text")}
    assert {"Forward, greedy: milliseconds a query, median and quartiles", "batch 1", "batch 32"} <= words
    assert {row["name"].rpartition(", B=")[0] for row in REPORT["forward"]} <= words
    for name in drawn:
        stored = (ROOT / "assets" / "docs" / "charts" / f"{name}.svg").read_text(encoding="utf-8")
        assert ElementTree.fromstring(stored).attrib["class"] == "marks"  # drawn by Vega


def light(color: str) -> float:
    """Relative luminance as the WCAG defines it."""
    parts = [int(color[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("color", [INK, *COLORS])
@pytest.mark.parametrize("ground", ["#ffffff", "#0d1117"])
def test_colours_can_be_read_on_light_and_dark_pages(color: str, ground: str) -> None:
    bright, dark = sorted((light(color), light(ground)), reverse=True)
    least = 4.0 if color == INK else 3.0  # of text, and of shapes and large text
    assert (bright + 0.05) / (dark + 0.05) >= least
    assert re.fullmatch("#[0-9a-f]{6}", color)


def test_charts_have_no_ground_of_their_own() -> None:
    chart, _ = charts.charts(REPORT)["latency"]
    config = chart.to_dict()["config"]
    assert config["background"] == "transparent"
    assert {config["axis"]["labelColor"], config["title"]["color"], config["legend"]["labelColor"]} == {INK}
