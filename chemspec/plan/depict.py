"""Draw routes as schemes, SVG or PNG: building blocks on the left, the target on the right, a step on each arrow.

Over an arrow stand the number and the class of the step; below it, its conditions and probability. A building block has
its name and its list, green for those in a list and amber for others.
"""

from __future__ import annotations

import math
import textwrap
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from chemspec.chem.names.reagents import name_of
from chemspec.depict import canvas
from chemspec.depict.canvas import Item, Picture
from chemspec.depict.molecules import DARK_INK, INK, Depiction, svg_size
from chemspec.plan import routes as values
from chemspec.plan.routes import Evidence, Node, Route

MARGIN, ROW, STUB, ARROW = 6, 14, 10, 136  # around all; between rows; from a molecule to the arrow; of the arrow
MAX_WIDTH, MAX_HEIGHT = 158, 140  # of a molecule: three steps are as wide as the page
SIZE, LINE, MAX_LINES = 12, 15, 3  # of a text
WRAP_ARROW, WRAP_CAPTION = 16, 23  # characters of a line


@dataclass(frozen=True)
class _Colours:
    text: str
    listed: str
    unlisted: str


LIGHT, DARK = _Colours(INK, "#0a6b42", "#9a5200"), _Colours(DARK_INK, "#5fd0a0", "#f0a94a")
Text = tuple[str, str, bool]  # a line, its colour, whether it is bold


@dataclass(frozen=True)
class _Block:
    """A molecule with all that leads to it."""

    molecule: Depiction
    size: tuple[float, float]
    over: tuple[Text, ...]  # lines over the arrow that leads to it; empty for a building block
    under: tuple[Text, ...]  # lines below this arrow
    caption: tuple[Text, ...]  # lines below the molecule
    children: tuple[_Block, ...]
    tops: tuple[float, ...]  # vertical distance of each child's middle from that of the molecule
    # by column, what the block takes above (negative) and below the middle of the molecule; columns of molecules have
    # even numbers, arrows odd ones
    spans: dict[int, tuple[float, float]]


def to_svg(route: Route, title: str = "", evidence: Evidence = MappingProxyType({}), *, dark: bool = False) -> str:
    """Return a route as SVG, without a ground; a title is written above it, with the summary."""
    return canvas.to_svg(_draw_route(route, title, evidence, dark=dark)).strip()


def to_png(route: Route, title: str = "", evidence: Evidence = MappingProxyType({})) -> bytes:
    """Return a route as PNG, on white; a title is written above it, with the summary."""
    return canvas.to_png(_draw_route(route, title, evidence, dark=False))


def _draw_route(route: Route, title: str, evidence: Evidence, *, dark: bool) -> Picture:
    """Lay out a tree: the longest branch is a straight line, others join it from below."""
    colours = DARK if dark else LIGHT
    root = _block(route.root, 0, route.numbers, evidence, colours, dark=dark)
    widths: dict[int, float] = defaultdict(float)
    _measure_columns(root, 0, widths)
    lefts = {
        column: MARGIN + sum(width + STUB + ARROW for other, width in widths.items() if other > column)
        for column in widths
    }
    heading = LINE + ROW if title else 0
    items: list[Item] = []

    def write(lines: tuple[Text, ...], left: float, top: float, width: float) -> None:
        for number, (text, fill, bold) in enumerate(lines):
            at = top + number * LINE
            items.append(Item(left, at, width, LINE, text=text, size=SIZE, bold=bold, anchor="middle", fill=fill))

    def draw(block: _Block, column: int, middle: float) -> None:
        width, height = block.size
        centre = lefts[column] + widths[column] / 2
        items.append(Item(centre - width / 2, middle - height / 2, width, height, molecule=block.molecule))
        write(block.caption, lefts[column], middle + height / 2, widths[column])
        if not block.children:
            return
        end, bar = centre - width / 2 - 6, lefts[column] - ARROW
        items.extend(canvas.arrow(bar, end, middle, colours.text))
        items.append(
            Item(bar - 0.8, middle + block.tops[0] - 0.8, 1.6, block.tops[-1] - block.tops[0] + 1.6, fill=colours.text)
        )
        write(block.over, bar + 3, middle - 4 - LINE * len(block.over), ARROW - 15)
        write(block.under, bar + 3, middle + 4, ARROW - 15)
        for child, top in zip(block.children, block.tops, strict=True):
            start = lefts[column + 1] + (widths[column + 1] + child.size[0]) / 2 + 6
            items.append(Item(start, middle + top - 0.8, bar - start, 1.6, fill=colours.text))
            draw(child, column + 1, middle + top)

    up, down = (pick(ends) for pick, ends in zip((min, max), zip(*root.spans.values(), strict=True), strict=True))
    draw(root, 0, MARGIN + heading - up)
    wide, high = lefts[0] + widths[0] + MARGIN, heading + down - up + 2 * MARGIN
    description = f"{title}: {route.summary}" if title else route.summary
    if title:
        items.append(Item(MARGIN, MARGIN, wide, LINE, text=description, size=14, bold=True, fill=colours.text))
        wide = max(wide, 2 * MARGIN + 8 * len(description))
    return Picture(round(wide), round(high), tuple(items), description=description)


def _block(
    node: Node, column: int, numbers: Mapping[str, int], evidence: Evidence, colours: _Colours, *, dark: bool
) -> _Block:
    """Build a molecule with all that leads to it; each branch is as high as those above it let it."""
    children = tuple(_block(child, column + 2, numbers, evidence, colours, dark=dark) for child in node.branches)
    tops: list[float] = []
    spans: dict[int, tuple[float, float]] = {}
    for child in children:
        shared = [spans[at][1] + ROW - top for at, (top, _) in child.spans.items() if at in spans]
        tops.append(max(shared, default=0.0))
        _add_spans(spans, child.spans, tops[-1])
    molecule, size = _drawing(node.smiles, dark=dark)
    over: tuple[Text, ...] = ()
    under: tuple[Text, ...] = ()
    caption = _lines(name_of(node.smiles) if molecule.svg else node.smiles, colours.text)
    if node.step:
        over = _lines(
            f"{numbers[node.smiles]}. {values.step_class(node)}".rstrip(". "), colours.text, WRAP_ARROW, bold=True
        )
        under = _lines(values.step_conditions(node, evidence), colours.text, WRAP_ARROW)
        doubtful = node.step.round_trip == 0
        fill = colours.unlisted if doubtful else colours.text
        under += tuple((line, fill, doubtful) for line in values.step_percent(node.step).split(", "))
        _add_spans(spans, {column + 1: (-LINE * len(over) - 4, max(LINE * len(under) + 4, tops[-1]))})
    else:
        caption += _lines(values.stock_text(node.stock), colours.listed if node.stock else colours.unlisted)
    _add_spans(spans, {column: (-size[1] / 2, size[1] / 2 + LINE * len(caption))})
    return _Block(molecule, size, over, under, caption, children, tuple(tops), spans)


def _add_spans(spans: dict[int, tuple[float, float]], others: Mapping[int, tuple[float, float]], by: float = 0) -> None:
    for column, (top, bottom) in others.items():
        now = spans.get(column, (math.inf, -math.inf))
        spans[column] = min(now[0], top + by), max(now[1], bottom + by)


def _drawing(smiles: str, *, dark: bool) -> tuple[Depiction, tuple[float, float]]:
    """Return a molecule in the scale of all schemes, or smaller where it would be too large."""
    molecule = Depiction(smiles, dark=dark)
    width, height = svg_size(molecule.svg)
    if (scale := min(MAX_WIDTH / max(width, 1), MAX_HEIGHT / max(height, 1))) < 1:
        width, height = round(scale * width), round(scale * height)
        molecule = Depiction(smiles, width, height, dark=dark)
    return molecule, (width, height)


def _measure_columns(block: _Block, column: int, widths: dict[int, float]) -> None:
    texts = max((len(text) for text, *_ in block.caption), default=0)
    widths[column] = max(widths[column], block.size[0], 6.9 * texts)
    for child in block.children:
        _measure_columns(child, column + 1, widths)


def _lines(text: str, fill: str, width: int = WRAP_CAPTION, *, bold: bool = False) -> tuple[Text, ...]:
    return tuple((line, fill, bold) for line in textwrap.wrap(text, width, max_lines=MAX_LINES, placeholder=" …"))
