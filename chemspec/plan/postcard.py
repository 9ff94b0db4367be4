"""A route on a page of A5 to print or to send: SVG, PNG or PDF with text to select, fonts and all in one file.

Above a scheme that is read like text, from left to right and line by line: what a step needs stands over its arrow,
class and conditions below it. Then a table with probabilities and patents, and the question as a `chemspec:` text and
QR code. All is scaled so that it fits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from chemspec.chem.reading.names.reagents import name_of
from chemspec.depict import canvas
from chemspec.depict.canvas import Item, Picture
from chemspec.depict.font import sans
from chemspec.depict.molecules import Depiction, svg_size
from chemspec.depict.qr_code import MAX_CHARS, QrCode
from chemspec.plan import routes as values
from chemspec.plan.depict import LIGHT
from chemspec.plan.routes import Evidence, Node, Route
from chemspec.precedents import Found
from chemspec.version import __version__

WIDTH, HEIGHT = 595.28, 419.53  # of A5 in points
EDGE, GAP, ARROW = 22.0, 9.0, 86.0  # margin of the page; between parts of the scheme; least length of an arrow
COMFORTABLE = 0.55  # scale down to which molecules shrink so that the scheme has even lines
TINY, SMALL, PLAIN, TITLE = 5.0, 6.4, 7.2, 14.0  # sizes of the font
LINE = 1.25  # height of a line, in sizes
SCALES = tuple(0.95 * 0.95**power for power in range(34))  # of molecules, tried until all fits; 0.65: as in a journal
QR_SQUARE, QR_MIN, QR_MAX, QR_MARGIN = 1.9, 56.0, 92.0, 8.0  # of a square and of the code; white around it
MAX_TABLE = 0.42 * HEIGHT  # of the table, which is squeezed where it is higher
DPI = 300
GREY = "#5b6663"
COLUMNS = {
    "step": 20.0,
    "probability": 92.0,
    "patent reactions": 78.0,
    "nearest patents": 0.0,
}  # widths; 0: what is left
NOTE = (
    "Percent: how often predictions with this score were the recorded step; no yield. Patents: recorded reactions with "
    "the same change, of other molecules. Proposed by a model: a draft to check, not a procedure."
)


def to_postcard(route: Route, title: str, evidence: Evidence = MappingProxyType({}), question: str = "") -> Picture:
    """Return the page of a route.

    Args:
        route: the route.
        title: its title, such as "Route 1".
        evidence: precedents of its steps.
        question: `chemspec:` text that rebuilds the question; empty for a page without it.
    """
    heading = _Column(EDGE, WIDTH - 2 * EDGE)
    heading.write(": ".join(filter(None, (title, name_of(route.root.smiles)))), TITLE, bold=True, most=1)
    heading.write(f"{route.summary}.", PLAIN, fill=GREY, most=2)
    aside = _question_items(question) if question else []
    side = aside[0].width + 2 * QR_MARGIN if aside else 0.0
    table = _Column(EDGE, WIDTH - 2 * EDGE - side)
    _write_table(table, route, evidence)
    table.write(f"{NOTE} chemspec {__version__}", SMALL, fill=GREY, most=3)
    squeezed = min(1.0, MAX_TABLE / table.bottom)
    start = HEIGHT - EDGE - squeezed * table.bottom
    low = min([start, *(item.top - QR_MARGIN for item in aside)])
    scheme = _fit_scheme(route, evidence, EDGE + heading.bottom + GAP, low - GAP)
    moved = [_moved(item, 0, EDGE) for item in heading.items]
    moved += [_moved(item, EDGE * (1 - squeezed), start, squeezed) for item in table.items]
    description = sans().writable(f"{title} to {values.leaf_name(route.root)}: {route.summary}. {question}")
    items = (*moved, *scheme, *aside)
    return Picture(WIDTH, HEIGHT, items, page="#ffffff", description=description, has_font=True, unit="pt")


def postcard_file(
    ending: str, route: Route, title: str, evidence: Evidence = MappingProxyType({}), question: str = ""
) -> bytes:
    """Return the page of a route as a file: "pdf", "svg" or "png"."""
    picture = to_postcard(route, title, evidence, question)
    if ending == "pdf":
        from chemspec.depict.pdf import to_pdf

        return to_pdf(picture)
    return canvas.to_png(picture, scale=DPI / 72) if ending == "png" else canvas.to_svg(picture).encode()


# --- texts ----------------------------------------------------------------------------------------


class _Column:
    """Texts below each other, from 0 downward."""

    def __init__(self, left: float, width: float) -> None:
        self.left, self.width, self.bottom = left, width, 0.0
        self.items: list[Item] = []

    def write(self, text: str, size: float, *, fill: str = LIGHT.text, bold: bool = False, most: int = 3) -> None:
        """Add a text in at most `most` lines."""
        for line in wrap(text, self.width, size, most):
            self.items.append(_text_item(line, self.left, self.bottom, self.width, size, fill=fill, bold=bold))
            self.bottom += LINE * size


def _text_item(
    text: str, left: float, top: float, width: float, size: float, *, fill: str = LIGHT.text, bold: bool = False
) -> Item:
    return Item(left, top, width, LINE * size, text=text, size=size, fill=fill, bold=bold)


def wrap(text: str, width: float, size: float, most: int = 3) -> list[str]:
    """Return a text in lines of a width, words broken where they are longer; what is left over ends in "…"."""
    font = sans()
    lines: list[str] = []
    line, used = "", 0.0
    for word in font.writable(text).split():
        blank = " " if line else ""
        if used + (long := font.width(blank + word, size)) <= width:
            line, used = line + blank + word, used + long
            continue
        if line:
            lines.append(line)
        line, used = "", 0.0
        for letter in word:
            if line and used + font.width(letter, size) > width:
                cut = max(line.rfind(sign) for sign in "-)]") + 1  # where names may be broken
                cut = cut if 2 * cut > len(line) else len(line)
                lines.append(line[:cut])
                line, used = line[cut:], font.width(line[cut:], size)
            line, used = line + letter, used + font.width(letter, size)
        if len(lines) > most:
            break
    lines += [line] if line else []
    if len(lines) > most:
        last = lines[most - 1]
        while last and font.width(f"{last} …", size) > width:
            last = last[:-1]
        lines = [*lines[: most - 1], f"{last.rstrip()} …"]
    return lines


def _write_table(column: _Column, route: Route, evidence: Evidence) -> None:
    """Write a row for each step: probability, patent reactions, the nearest patents; its problems below it."""
    left_over = column.width - sum(COLUMNS.values())
    widths = [width or left_over for width in COLUMNS.values()]
    rows: list[tuple[list[str], str, bool]] = [([*COLUMNS], GREY, False)]
    for number, node in enumerate(route.steps, 1):
        assert node.step
        precedents = evidence.get(node.step.reaction(node.smiles), Found())
        sources = dict.fromkeys(entry.source for entry in precedents.nearest if entry.close and entry.patent)
        cells = [str(number), values.step_percent(node.step), precedents.count_text if evidence else "–"]
        rows.append(([*cells, ", ".join(list(sources)[:3]) or "–"], LIGHT.text, False))
        rows += [(["", f"⚠ {problem}"], LIGHT.unlisted, True) for problem in _problems(node, evidence, route)]
    for cells, fill, wide in rows:
        left, bottoms = column.left, [0.0]
        for cell, width in zip(cells, widths, strict=False):
            part = _Column(left, column.width - widths[0] if wide and cell else width - 4)
            part.write(cell, SMALL, fill=fill, most=2)
            column.items += [replace(item, top=item.top + column.bottom) for item in part.items]
            bottoms.append(part.bottom)
            left += width
        column.bottom += max(bottoms)
    column.bottom += 2


def _problems(node: Node, evidence: Evidence, route: Route) -> Sequence[str]:
    return values.node_problems(node, evidence, route.avoid)[:1]


def _question_items(question: str) -> list[Item]:
    """Return the text at the lower right, and over it its QR code, unless it is too long for one."""
    fits = len(question) <= MAX_CHARS
    code = QrCode(question)
    side = min(QR_MAX, max(QR_MIN, QR_SQUARE * code.modules)) if fits else QR_MAX
    column = _Column(WIDTH - EDGE - side, side)
    column.write("Asks again in any chemspec:" if fits else "Too long for a QR code:", TINY, fill=GREY, most=2)
    column.write(question, TINY, fill=GREY, most=5)
    top = HEIGHT - EDGE - column.bottom
    items = [_moved(item, 0, top) for item in column.items]
    if fits:
        items.append(Item(column.left, top - QR_MARGIN - side, side, side, molecule=code))
    return items


# --- the scheme -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Unit:
    """A part of a line: its items around (0, 0), how far it reaches, and whether a line begins with it."""

    items: tuple[Item, ...]
    width: float
    above: float
    below: float
    starts_line: bool = False


def _fit_scheme(route: Route, evidence: Evidence, top: float, bottom: float) -> list[Item]:
    """Return the scheme in the largest scale that fits between two heights, or squeezed where none does."""
    for scale in SCALES:
        lines = _break_lines(_units(route, evidence, scale))
        items, width, height = _place_lines(lines)
        squeezed = min(1.0, (bottom - top) / height, (WIDTH - 2 * EDGE) / width)
        alone = len(lines) > 1 and min(map(len, lines)) == 1  # a molecule in a line of its own
        if squeezed == 1.0 and not (alone and scale > COMFORTABLE):
            break
    down = top + (bottom - top - squeezed * height) / 2
    return [_moved(item, EDGE + (WIDTH - 2 * EDGE - squeezed * width) / 2, down, squeezed) for item in items]


def _moved(item: Item, left: float, top: float, scale: float = 1.0) -> Item:
    """Return an item scaled around (0, 0), then moved."""
    corners = tuple((left + scale * x, top + scale * y) for x, y in item.corners)
    sides = {name: scale * getattr(item, name) for name in ("width", "height", "size")}
    return replace(item, left=left + scale * item.left, top=top + scale * item.top, corners=corners, **sides)


def _units(route: Route, evidence: Evidence, scale: float) -> Iterator[_Unit]:
    """Yield molecules and arrows in the order of the steps; a step that goes on with another product starts a line."""
    numbers = route.numbers
    before = None
    for node in route.steps:
        children = list({child.smiles: child for child in node.children}.values())
        main = next((child for child in children if child.smiles == before), None)
        if main is None:
            main = max(children, key=lambda child: (child.smiles in numbers, len(child.smiles)))
            yield replace(_molecule(main, numbers, scale), starts_line=True)
        yield _arrow(node, [child for child in children if child is not main], route, evidence, scale)
        yield _molecule(node, {}, scale)
        before = node.smiles


def _molecule(node: Node, numbers: dict[str, int], scale: float) -> _Unit:
    """Return a molecule with its caption: its name, and where it is from."""
    drawing = Depiction(node.smiles)
    width, height = (scale * side for side in svg_size(drawing.svg))
    size = _text_size(scale)
    name = name_of(node.smiles) if width else node.smiles
    words = max((sans().width(word, size) for word in name.split()), default=0.0)
    room = max(width, 9 * size, min(words + 1, 13 * size))
    texts = [(name, LIGHT.text)]
    if node.smiles in numbers:
        texts += [(f"from step {numbers[node.smiles]}", GREY)]
    elif not node.step:
        listed = node.stock and not node.intermediate
        texts += [(values.stock_text(node), LIGHT.listed if listed else LIGHT.unlisted)]
    items = [Item(-width / 2, -height / 2, width, height, molecule=drawing)] if width else []
    below = height / 2
    for text, fill in texts:
        for line in wrap(text, room, size, 3):
            at = _text_item(line, -room / 2, below, room, size, fill=fill)
            items.append(replace(at, anchor="middle"))
            below += LINE * size
    return _Unit(tuple(items), max(width, room), height / 2, below)


def _text_size(scale: float) -> float:
    """Return the size of texts in the scheme, which shrink less than molecules."""
    return PLAIN * max(0.75, min(1.1, 0.7 + scale / 2))


def _arrow(node: Node, needed: Sequence[Node], route: Route, evidence: Evidence, scale: float) -> _Unit:
    """Return the arrow to a product: over it what else the step needs, below it class, conditions and probability."""
    assert node.step
    size = _text_size(scale)
    over = [_molecule(child, route.numbers, scale) for child in needed]
    long = max(ARROW * size / PLAIN, sum(unit.width for unit in over) + GAP * len(over) + 12)
    items = list(canvas.arrow(-long / 2, long / 2, 0.0, LIGHT.text, 0.5))
    left, lowest = (
        -(sum(unit.width for unit in over) + GAP * (len(over) - 1)) / 2,
        max((unit.below for unit in over), default=0.0),
    )
    for unit in over:
        items += [_moved(item, left + unit.width / 2, -lowest - 5) for item in unit.items]
        left += unit.width + GAP
    text = f"{route.numbers[node.smiles]}. {values.step_class(node)}".rstrip(". ")
    doubtful = node.step.round_trip == 0
    texts = [(text, True, LIGHT.text, 2), (values.step_conditions(node, evidence, route.avoid), False, LIGHT.text, 3)]
    texts += [(values.step_percent(node.step), False, LIGHT.unlisted if doubtful else GREY, 2)]
    below = 4.0
    for words, bold, fill, most in texts:
        for line in wrap(words, long - 8, size, most):
            at = _text_item(line, -long / 2, below, long - 8, size, fill=fill, bold=bold)
            items.append(replace(at, anchor="middle"))
            below += LINE * size
    above = lowest + 5 + max((unit.above for unit in over), default=0.0)
    return _Unit(tuple(items), long, above, below)


def _break_lines(units: Iterator[_Unit]) -> list[list[_Unit]]:
    """Return the units in lines that fit the page."""
    lines: list[list[_Unit]] = [[]]
    right = 0.0
    for unit in units:
        if lines[-1] and (unit.starts_line or right + unit.width > WIDTH - 2 * EDGE):
            lines.append([])
            right = 0.0
        lines[-1].append(unit)
        right += unit.width + GAP
    return lines


def _place_lines(lines: Sequence[Sequence[_Unit]]) -> tuple[list[Item], float, float]:
    """Return the items of lines below each other from (0, 0), and their width and height."""
    items: list[Item] = []
    top = widest = 0.0
    for line in lines:
        middle = top + max(unit.above for unit in line)
        left = 0.0
        for unit in line:
            items += [_moved(item, left + unit.width / 2, middle) for item in unit.items]
            left += unit.width + GAP
        widest = max(widest, left - GAP)
        top = middle + max(unit.below for unit in line) + GAP
    return items, widest, top - GAP
