"""Charts as SVG text for documents: readable on light and dark pages, drawn without any library.

altair would need vl-convert-python (a wheel of 33 MB) to write SVG; these few kinds of chart do not pay for it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import NamedTuple

INK = "#6f7781"  # contrast above 4 on white and on near-black
COLORS = ("#2f8fd0", "#d9682a", "#2fa36b", "#a56bd1", "#a07d1f", "#d05a8a")  # above 3
WIDTH, HEIGHT = 720, 380
LEFT, RIGHT, TOP, BOTTOM = 70, 20, 58, 52


class Dot(NamedTuple):
    """A value with its quartiles, and words beside it."""

    name: str
    value: float
    low: float
    high: float
    words: str


class Labels(NamedTuple):
    title: str
    x: str
    y: str


def lines(labels: Labels, series: Mapping[str, Sequence[tuple[float, float, str]]], *, log: bool = False) -> str:
    """Points (x, y, words) joined by lines, one colour a series; both axes logarithmic if `log`.

    Raises:
        ValueError: if there is no point.
    """
    points = [point for own in series.values() for point in own]
    if not points:
        raise ValueError("a chart needs at least one point")
    across = _Axis.over([x for x, _, _ in points], LEFT, WIDTH - RIGHT, log)
    upward = _Axis.over([y for _, y, _ in points], HEIGHT - BOTTOM, TOP, log)
    parts = [*_frame(labels, across, upward), *_legend(list(series))]
    for color, own in zip(_colors(len(series)), series.values(), strict=True):
        places = [(across.at(x), upward.at(y)) for x, y, _ in own]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"/>')
        for (x, y), (_, _, words) in zip(places, own, strict=True):
            parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{color}"/>')
            parts.append(_text(x + 6, y - 6, words, size=11, fill=color))
    return _svg(labels.title, parts, HEIGHT)


def histogram(labels: Labels, series: Mapping[str, Sequence[float]], *, bins: int = 20) -> str:
    """Shares of each series that fall into bins of equal width, side by side.

    Raises:
        ValueError: if there is no value.
    """
    values = [value for own in series.values() for value in own]
    if not values:
        raise ValueError("a chart needs at least one value")
    step = _nice((max(values) - min(0.0, min(values))) / bins or 1.0)
    first = math.floor(min(values) / step)
    count = math.floor(max(values) / step) - first + 1
    shares = {}
    for name, own in series.items():
        counts = [0] * count
        for value in own:
            counts[math.floor(value / step) - first] += 1
        shares[name] = [100 * n / max(1, len(own)) for n in counts]
    across = _Axis(first * step, (first + count) * step, LEFT, WIDTH - RIGHT, False)
    top = max(max(own) for own in shares.values())
    upward = _Axis.over([0, top], HEIGHT - BOTTOM, TOP, False)
    parts = [*_frame(labels, across, upward), *_legend(list(series))]
    width = (across.at(step) - across.at(0)) * 0.86 / len(shares)
    for index, (color, own) in enumerate(zip(_colors(len(shares)), shares.values(), strict=True)):
        for place, share in enumerate(own):
            x = across.at((first + place + 0.07) * step) + index * width
            y = upward.at(share)
            parts.append(_rect(x, y, width, HEIGHT - BOTTOM - y, color))
    return _svg(labels.title, parts, HEIGHT)


def dots(title: str, groups: Mapping[str, Sequence[Dot]]) -> str:
    """One line a value, with its quartiles; groups share a logarithmic scale, since the slowest may take a hundred
    times as long.

    Raises:
        ValueError: if there is no value.
    """
    every = [dot for own in groups.values() for dot in own]
    if not every:
        raise ValueError("a chart needs at least one value")
    left, right, line = 230, 130, 22
    ends = [end for dot in every for end in (dot.low, dot.high)]
    axis = _Axis.over(ends, left, WIDTH - right, True)
    parts, y = [_text(LEFT // 4, 24, title, size=15, weight="600")], 40.0
    for color, (group, own) in zip(_colors(len(groups)), groups.items(), strict=True):
        y += line
        parts.append(_text(LEFT // 4, y, group, size=13, weight="600", fill=color))
        for dot in own:
            y += line
            parts.append(_text(left - 8, y, dot.name, size=12, anchor="end"))
            parts.append(_line(left, y - 4, WIDTH - right, y - 4, INK, 0.25))
            low, high, x = axis.at(dot.low), axis.at(dot.high), axis.at(dot.value)
            parts.append(_rect(low, y - 6, high - low, 4, color))
            parts.append(f'<circle cx="{x:.1f}" cy="{y - 4:.1f}" r="5" fill="{color}"/>')
            parts.append(_text(WIDTH - right + 8, y, dot.words, size=12))
        y += line / 3
    y += line
    for tick in axis.ticks():
        parts.append(_line(axis.at(tick), y - 14, axis.at(tick), y - 9, INK))
        parts.append(_text(axis.at(tick), y + 4, f"{tick:g}", anchor="middle"))
    return _svg(title, parts, y + line)


class _Axis(NamedTuple):
    """From values to places."""

    least: float
    most: float
    start: float
    end: float
    log: bool

    @classmethod
    def over(cls, values: Sequence[float], start: float, end: float, log: bool) -> _Axis:
        """An axis that holds all values with some air; a linear one begins at 0."""
        if log:
            return cls(min(values) / 1.25, max(values) * 1.6, start, end, True)
        return cls(0.0, max(values) * 1.1 or 1.0, start, end, False)

    def at(self, value: float) -> float:
        least, most = self.least, self.most
        if self.log:
            least, most, value = math.log(least), math.log(most), math.log(value)
        return self.start + (self.end - self.start) * (value - least) / (most - least)

    def ticks(self) -> list[float]:
        if not self.log:
            step = _nice((self.most - self.least) / 6)
            first = math.ceil(self.least / step - 1e-9)
            return [step * n for n in range(first, math.floor(self.most / step + 1e-9) + 1)]
        powers = range(math.floor(math.log10(self.least)), math.ceil(math.log10(self.most)) + 1)
        every = [digit * 10.0**power for power in powers for digit in (1, 2, 5)]
        return [tick for tick in every if self.least <= tick <= self.most]


def _nice(step: float) -> float:
    """The next larger of 1, 2, 2.5 and 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(step))
    return next(digit * power for digit in (1, 2, 2.5, 5, 10) if digit * power >= step * 0.999)


def _colors(count: int) -> list[str]:
    return [COLORS[place % len(COLORS)] for place in range(count)]


def _frame(labels: Labels, across: _Axis, upward: _Axis) -> list[str]:
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    parts = [_text(LEFT // 4, 24, labels.title, size=15, weight="600")]
    for tick in across.ticks():
        x = across.at(tick)
        parts += [_line(x, bottom, x, bottom + 5, INK), _text(x, bottom + 19, f"{tick:g}", anchor="middle")]
    for tick in upward.ticks():
        y = upward.at(tick)
        parts += [_line(LEFT, y, right, y, INK, 0.25), _text(LEFT - 8, y + 4, f"{tick:g}", anchor="end")]
    parts.append(_line(LEFT, bottom, right, bottom, INK))
    parts.append(_text((LEFT + right) / 2, HEIGHT - 12, labels.x, anchor="middle"))
    middle = (TOP + bottom) / 2
    turned = f'<g transform="rotate(-90 18 {middle:.1f})">'
    parts.append(f"{turned}{_text(18, middle, labels.y, anchor='middle')}</g>")
    return parts


def _legend(names: Sequence[str]) -> list[str]:
    parts, x = [], float(LEFT)
    for color, name in zip(_colors(len(names)), names, strict=True):
        parts += [_rect(x, 36, 12, 12, color), _text(x + 17, 46, name)]
        x += 34 + 7.2 * len(name)
    return parts


def _line(x1: float, y1: float, x2: float, y2: float, color: str, opacity: float = 1.0) -> str:
    ends = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line {ends} stroke="{color}" stroke-opacity="{opacity:g}"/>'


def _rect(x: float, y: float, width: float, height: float, color: str) -> str:
    size = f'width="{max(0.0, width):.1f}" height="{max(0.0, height):.1f}"'
    return f'<rect x="{x:.1f}" y="{y:.1f}" {size} fill="{color}"/>'


def _text(
    x: float, y: float, words: str, *, size: int = 12, anchor: str = "start", weight: str = "400", fill: str = INK
) -> str:
    style = f'font-size="{size}" font-weight="{weight}" text-anchor="{anchor}" fill="{fill}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{escape(words)}</text>'


def _svg(title: str, parts: Sequence[str], height: float) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}" height="{height:.0f}"'
    style = 'font-family="system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif" role="img"'
    name = f"<title>{escape(title)}</title>"
    return "\n".join([f"{head} {style}>", name, *parts, "</svg>", ""])
