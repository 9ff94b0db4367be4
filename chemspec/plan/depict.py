"""Draw routes as schemes in SVG, PNG or CDXML: building blocks left, the target right, a step on each arrow.

Over an arrow stand the number and the class of the step; below it, its conditions and probability. A building block has
its name and its list, green for those in a list and amber for patent intermediates and others.
"""

from __future__ import annotations

import textwrap
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from types import MappingProxyType

from chemspec.chem.formats import DrawnStep, to_reaction_cdxml
from chemspec.chem.molecules.parsing import mol_from_smiles
from chemspec.chem.reading.names.reagents import name_of
from chemspec.depict import canvas
from chemspec.depict.canvas import Item, Picture
from chemspec.depict.molecules import DARK_INK, INK, MAX_ATOMS, Depiction, svg_size
from chemspec.plan import routes as values
from chemspec.plan.routes import Evidence, Node, Route

MARGIN, ROW, STUB, ARROW = 6, 14, 10, 136  # around all; between rows; from a molecule to the arrow; of the arrow
MAX_WIDTH, MAX_HEIGHT = 158, 140  # size of a molecule: three steps are as wide as the page
MIN_SCALE = 0.75  # scale of a larger molecule, which makes the picture larger: atoms stay readable
SIZE, LINE, MAX_LINES = 12, 15, 3  # size, line and lines of a text
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

    @property
    def tops(self) -> Iterator[float]:
        """How far the straight line that ends in this molecule reaches up, by column: molecules and arrows in turn."""
        yield -self.size[1] / 2
        if self.children:
            yield -LINE * len(self.over) - 4
            yield from self.children[0].tops


def to_svg(route: Route, title: str = "", evidence: Evidence = MappingProxyType({}), *, dark: bool = False) -> str:
    """Return a route as SVG, without a ground; a title is written above it, with the summary."""
    return canvas.to_svg(draw_route(route, title, evidence, dark=dark)).strip()


def to_png(route: Route, title: str = "", evidence: Evidence = MappingProxyType({})) -> bytes:
    """Return a route as PNG, on white; a title is written above it, with the summary."""
    return canvas.to_png(draw_route(route, title, evidence, dark=False))


def to_cdxml(route: Route, evidence: Evidence = MappingProxyType({})) -> str:
    """Return a route as ChemDraw file, a reaction for each step in the order of the steps; empty if it is too large.

    Over the arrow stand the conditions, over the reaction its number, class and probability.
    """
    steps = []
    for number, node in enumerate(route.steps, 1):
        assert node.step
        mols = [Depiction(smiles).molecule() for smiles in (*node.step.reactants, node.smiles)]
        if None in mols:
            return ""
        words = (values.step_class(node), values.step_percent(node.step))
        title = f"Step {number}: {', '.join(filter(None, words))}"
        conditions = values.step_conditions(node, evidence, route.avoid)
        steps.append(DrawnStep(mols[:-1], mols[-1:], conditions, title))
    return to_reaction_cdxml(steps)


def has_large_molecule(route: Route) -> bool:
    """Whether a molecule of a route is too large for `to_cdxml`."""
    shown = {smiles for node in route.steps if node.step for smiles in (*node.step.reactants, node.smiles)}
    return any(mol_from_smiles(smiles).GetNumAtoms() > MAX_ATOMS for smiles in shown)


def draw_route(route: Route, title: str, evidence: Evidence, *, dark: bool) -> Picture:
    """Lay out a tree: the longest branch is a straight line, others join it from below."""
    colours = DARK if dark else LIGHT
    root = _block(route.root, route, evidence, colours, dark=dark)
    widths: dict[int, float] = defaultdict(float)  # widths of columns of molecules, which have even numbers
    _measure_columns(root, 0, widths)
    long = max(ARROW, 15 + 7.2 * _longest_line(root))
    lefts = {
        column: MARGIN + sum(width + STUB + long for other, width in widths.items() if other > column)
        for column in widths
    }
    heading = LINE + ROW if title else 0
    items: list[Item] = []
    bottoms: dict[int, float] = {}  # where what is drawn ends, by column

    def write(lines: tuple[Text, ...], left: float, top: float, width: float) -> None:
        for number, (text, fill, bold) in enumerate(lines):
            at = top + number * LINE
            items.append(Item(left, at, width, LINE, text=text, size=SIZE, bold=bold, anchor="middle", fill=fill))

    def draw(block: _Block, column: int, middle: float) -> None:
        width, height = block.size
        centre = lefts[column] + widths[column] / 2
        items.append(Item(centre - width / 2, middle - height / 2, width, height, molecule=block.molecule))
        write(block.caption, lefts[column], middle + height / 2, widths[column])
        bottoms[column] = middle + height / 2 + LINE * len(block.caption)
        if not block.children:
            return
        end, bar, last = centre - width / 2 - 6, lefts[column] - long, middle
        items.extend(canvas.arrow(bar, end, middle, colours.text))
        write(block.over, bar + 3, middle - 4 - LINE * len(block.over), long - 15)
        write(block.under, bar + 3, middle + 4, long - 15)
        for child in block.children:
            if child is not block.children[0]:  # as high as those above it let it
                tops = enumerate(child.tops, column + 2)
                last = max(bottoms[at] + ROW - top for at, top in tops if at in bottoms)
            start = lefts[column + 2] + (widths[column + 2] + child.size[0]) / 2 + 6
            items.append(Item(start, last - 0.8, bar - start, 1.6, fill=colours.text))
            draw(child, column + 2, last)
        items.append(Item(bar - 0.8, middle - 0.8, 1.6, last - middle + 1.6, fill=colours.text))
        bottoms[column + 1] = max(middle + LINE * len(block.under) + 4, last)

    draw(root, 0, MARGIN + heading - min(root.tops))
    wide, high = lefts[0] + widths[0] + MARGIN, max(bottoms.values()) + MARGIN
    description = f"{title}: {route.summary}" if title else route.summary
    if title:
        items.append(Item(MARGIN, MARGIN, wide, LINE, text=description, size=14, bold=True, fill=colours.text))
        wide = max(wide, 2 * MARGIN + 8 * len(description))
    return Picture(round(wide), round(high), tuple(items), description=description)


def _block(node: Node, route: Route, evidence: Evidence, colours: _Colours, *, dark: bool) -> _Block:
    """Build a molecule with all that leads to it."""
    children = tuple(_block(child, route, evidence, colours, dark=dark) for child in node.branches)
    molecule, size = _drawing(node.smiles, dark=dark)
    over: tuple[Text, ...] = ()
    under: tuple[Text, ...] = ()
    caption = _lines(name_of(node.smiles) if molecule.svg else node.smiles, colours.text)
    if node.step:
        over = _lines(
            f"{route.numbers[node.smiles]}. {values.step_class(node)}".rstrip(". "), colours.text, WRAP_ARROW, bold=True
        )
        under = _lines(values.step_conditions(node, evidence, route.avoid), colours.text, WRAP_ARROW)
        doubtful = node.step.round_trip == 0
        fill = colours.unlisted if doubtful else colours.text
        under += tuple((line, fill, doubtful) for line in values.step_percent(node.step).split(", "))
        for problem in values.node_problems(node, evidence, route.avoid)[:1]:
            under += _lines(f"⚠ {problem}", colours.unlisted, WRAP_ARROW, bold=True)
    else:
        caption += _lines(
            values.stock_text(node), colours.listed if node.stock and not node.intermediate else colours.unlisted
        )
    return _Block(molecule, size, over, under, caption, children)


def _drawing(smiles: str, *, dark: bool) -> tuple[Depiction, tuple[float, float]]:
    """Return a molecule in the scale of all schemes, or smaller where it would be too large."""
    molecule = Depiction(smiles, dark=dark)
    width, height = svg_size(molecule.svg)
    if (scale := max(MIN_SCALE, min(MAX_WIDTH / max(width, 1), MAX_HEIGHT / max(height, 1)))) < 1:
        width, height = round(scale * width), round(scale * height)
        molecule = Depiction(smiles, width, height, dark=dark)
    return molecule, (width, height)


def _measure_columns(block: _Block, column: int, widths: dict[int, float]) -> None:
    texts = max((len(text) for text, *_ in block.caption), default=0)
    widths[column] = max(widths[column], block.size[0], 6.9 * texts)
    for child in block.children:
        _measure_columns(child, column + 2, widths)


def _longest_line(block: _Block) -> int:
    """Return the number of characters of the longest line at an arrow."""
    lines = (len(text) for text, *_ in (*block.over, *block.under))
    return max((*lines, *map(_longest_line, block.children)), default=0)


def _lines(text: str, fill: str, width: int = WRAP_CAPTION, *, bold: bool = False) -> tuple[Text, ...]:
    lines = textwrap.wrap(text, width, max_lines=MAX_LINES, placeholder=" …", break_long_words=False)
    return tuple((line, fill, bold) for line in lines)
