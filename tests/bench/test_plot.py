"""Charts are well-formed, to scale, and readable on both grounds."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from chemspec.bench import plot
from chemspec.bench.plot import COLORS, INK, Dot, Labels

SVG = "{http://www.w3.org/2000/svg}"
LABELS = Labels("A & B", "x <ms>", "y")


def test_lines_are_to_scale() -> None:
    root = ElementTree.fromstring(plot.lines(LABELS, {"one": [(0, 0, "a"), (1, 2, "b"), (2, 4, "<c>")]}))
    (path,) = root.iter(f"{SVG}polyline")
    places = [tuple(map(float, pair.split(","))) for pair in path.attrib["points"].split()]
    (x0, y0), (x1, y1), (x2, y2) = places
    assert x1 - x0 == pytest.approx(x2 - x1, abs=0.2)
    assert y0 - y1 == pytest.approx(y1 - y2, abs=0.2)
    words = [item.text for item in root.iter(f"{SVG}text")]
    assert {"A & B", "x <ms>", "one", "<c>"} <= set(words)


def test_logarithmic_axes_keep_ratios() -> None:
    root = ElementTree.fromstring(plot.lines(LABELS, {"one": [(1, 1, ""), (10, 10, ""), (100, 100, "")]}, log=True))
    xs = [float(item.attrib["cx"]) for item in root.iter(f"{SVG}circle")]
    assert xs[1] - xs[0] == pytest.approx(xs[2] - xs[1], abs=0.2)


def test_a_histogram_shares_out_all_values() -> None:
    root = ElementTree.fromstring(plot.histogram(LABELS, {"a": [1.0, 1.0, 1.0, 3.0], "b": [2.0]}))
    shapes = [item for item in root.iter(f"{SVG}rect") if item.attrib["width"] != "12.0"]
    heights = {color: [float(i.attrib["height"]) for i in shapes if i.attrib["fill"] == color] for color in COLORS[:2]}
    a, b = (sorted(height for height in own if height) for own in heights.values())
    assert a[1] == pytest.approx(3 * a[0], abs=0.3)
    assert b[0] == pytest.approx(4 * a[0], abs=0.4)


def test_equal_values_make_a_histogram_too() -> None:
    ElementTree.fromstring(plot.histogram(LABELS, {"a": [2.0, 2.0]}))


def test_dots_stand_where_their_values_are() -> None:
    groups = {"g": [Dot("a", 1, 1, 1, ""), Dot("b", 10, 5, 20, ""), Dot("c", 100, 90, 110, "w")]}
    root = ElementTree.fromstring(plot.dots("t", groups))
    xs = [float(item.attrib["cx"]) for item in root.iter(f"{SVG}circle")]
    assert xs[1] - xs[0] == pytest.approx(xs[2] - xs[1], abs=0.2)


@pytest.mark.parametrize("draw", [plot.lines, plot.histogram])
def test_nothing_is_no_chart(draw: object) -> None:
    with pytest.raises(ValueError, match="at least one"):
        draw(LABELS, {})  # type: ignore[operator]
    with pytest.raises(ValueError, match="at least one"):
        plot.dots("t", {})


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
