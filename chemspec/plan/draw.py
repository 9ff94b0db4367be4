"""Pictures of routes, as SVG or PNG from the same drawing: the target on the left, what is bought on the right.

A frame is green for what is in stock and amber for what is not; the words below say it too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from rdkit import rdBase
from rdkit.Chem.Draw import rdMolDraw2D
from rdkit.Geometry import Point2D

from chemspec.chem.parsing import mol_from_smiles
from chemspec.plan.routes import Node, Route

WIDTH, HEIGHT, GAP, ROW = 230, 180, 60, 20  # of a molecule with its words; between columns; between rows
GREY, GREEN, AMBER = (0.6, 0.66, 0.65), (0.04, 0.5, 0.3), (0.75, 0.42, 0.0)

Places = list[tuple[Node, int, float, float | None]]  # node, column, row of its middle, row of its parent


def to_svg(route: Route, *, dark: bool = False) -> str:
    """Return a route as SVG, without background on a dark page."""
    columns, rows, places = _layout(route.root)
    drawer = rdMolDraw2D.MolDraw2DSVG(*_size(columns, rows), WIDTH, HEIGHT)
    text = str(_draw(drawer, places, dark=dark))
    return re.sub(r"<\?xml.*?\?>", "", text).strip()


def to_png(route: Route) -> bytes:
    """Return a route as PNG, on white."""
    columns, rows, places = _layout(route.root)
    return bytes(_draw(rdMolDraw2D.MolDraw2DCairo(*_size(columns, rows), WIDTH, HEIGHT), places))


def _size(columns: int, rows: float) -> tuple[int, int]:
    return columns * (WIDTH + GAP) - GAP + 2 * ROW, int(rows * (HEIGHT + ROW)) + ROW


def _layout(root: Node) -> tuple[int, int, Places]:
    """Leaves take a row each, what is made stands in the middle of what it is made from."""
    places: Places = []
    leaves = 0

    def put(node: Node, column: int) -> tuple[float, int]:
        nonlocal leaves
        if not node.children:
            leaves += 1
            middle, deepest = float(leaves - 1), column
        else:
            below = [put(child, column + 1) for child in node.children]
            middle, deepest = (below[0][0] + below[-1][0]) / 2, max(one[1] for one in below)
            for child in node.children:
                place = next(k for k, one in enumerate(places) if one[0] is child and one[3] is None)
                places[place] = (*places[place][:3], middle)
        places.append((node, column, middle, None))
        return middle, deepest

    _, deepest = put(root, 0)
    return deepest + 1, leaves, places


def _draw(drawer: Any, places: Places, *, dark: bool = False) -> Any:
    options = drawer.drawOptions()
    options.bondLineWidth = 1.6
    options.padding = 0.08
    options.fixedBondLength = 26  # small molecules are not blown up
    options.legendFontSize = 14
    options.legendFraction = 0.17
    if dark:
        rdMolDraw2D.SetDarkMode(drawer)
        options.legendColour = (0.9, 0.93, 0.93)
    else:
        drawer.ClearDrawing()  # on a dark page the page shows through
    options.clearBackground = False  # of each molecule, which would wipe its neighbours' frames
    drawer.SetLineWidth(2)
    for node, column, row, parent in places:
        left, top = ROW + column * (WIDTH + GAP), ROW + row * (HEIGHT + ROW)
        with rdBase.BlockLogs():
            mol = rdMolDraw2D.PrepareMolForDrawing(mol_from_smiles(node.smiles))
        drawer.SetOffset(int(left), int(top))
        drawer.DrawMolecule(mol, legend=caption(node))
        drawer.SetOffset(0, 0)
        right, bottom, middle = left + WIDTH, top + HEIGHT, top + HEIGHT / 2
        corners = [(left, top), (right, top), (right, bottom), (left, bottom), (left, top)]
        _line(drawer, GREEN if node.stock else GREY if node.step else AMBER, corners)
        if parent is not None:
            above, turn = ROW + parent * (HEIGHT + ROW) + HEIGHT / 2, left - GAP / 2
            _line(drawer, GREY, [(left - GAP, above), (turn, above), (turn, middle), (left, middle)])
    drawer.FinishDrawing()
    return drawer.GetDrawingText()


def caption(node: Node) -> str:
    """Return where a molecule is bought, or what speaks for the step that makes it."""
    if node.step is None:
        return f"in stock: {node.stock}" if node.stock else "not in stock"
    opinion = node.step.opinion
    return f"chance {node.step.chance:.2f}" + (f", forward {opinion}" if opinion else "")


def _line(drawer: Any, colour: tuple[float, float, float], points: Sequence[tuple[float, float]]) -> None:
    drawer.SetColour(colour)
    for start, end in pairwise(points):
        drawer.DrawLine(Point2D(*start), Point2D(*end), True)
