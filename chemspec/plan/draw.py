"""Draw routes as SVG or PNG: target on the left, building blocks on the right.

Frames are green for molecules in stock and amber for others, as their captions state too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from rdkit import rdBase
from rdkit.Chem.Draw import rdMolDraw2D
from rdkit.Geometry import Point2D

from chemspec.chem.layout import add_layout
from chemspec.chem.parsing import mol_from_smiles
from chemspec.plan.routes import Node, Route

WIDTH, HEIGHT, GAP, ROW = 230, 180, 60, 20  # size of a molecule with its caption; gap between columns; gap between rows
GREY, GREEN, AMBER = (0.6, 0.66, 0.65), (0.04, 0.5, 0.3), (0.75, 0.42, 0.0)

Positions = list[tuple[Node, int, float, float | None]]  # node, column, row of its centre, row of its parent


def to_svg(route: Route, *, dark: bool = False) -> str:
    """Return a route as SVG, without background on a dark page."""
    columns, rows, positions = _layout_tree(route.root)
    drawer = rdMolDraw2D.MolDraw2DSVG(*_canvas_size(columns, rows), WIDTH, HEIGHT)
    text = str(_draw_route(drawer, positions, dark=dark))
    return re.sub(r"<\?xml.*?\?>", "", text).strip()


def to_png(route: Route) -> bytes:
    """Return a route as PNG, on white."""
    columns, rows, positions = _layout_tree(route.root)
    return bytes(_draw_route(rdMolDraw2D.MolDraw2DCairo(*_canvas_size(columns, rows), WIDTH, HEIGHT), positions))


def _canvas_size(columns: int, rows: float) -> tuple[int, int]:
    return columns * (WIDTH + GAP) - GAP + 2 * ROW, int(rows * (HEIGHT + ROW)) + ROW


def _layout_tree(root: Node) -> tuple[int, int, Positions]:
    """Lay out a tree: one row per leaf, other molecules centred on their precursors."""
    positions: Positions = []
    leaves = 0

    def place_node(node: Node, column: int) -> tuple[float, int]:
        nonlocal leaves
        if not node.children:
            leaves += 1
            middle, deepest = float(leaves - 1), column
        else:
            below = [place_node(child, column + 1) for child in node.children]
            middle, deepest = (below[0][0] + below[-1][0]) / 2, max(entry[1] for entry in below)
            for child in node.children:
                index = next(k for k, entry in enumerate(positions) if entry[0] is child and entry[3] is None)
                positions[index] = (*positions[index][:3], middle)
        positions.append((node, column, middle, None))
        return middle, deepest

    _, deepest = place_node(root, 0)
    return deepest + 1, leaves, positions


def _draw_route(drawer: Any, positions: Positions, *, dark: bool = False) -> Any:
    options = drawer.drawOptions()
    options.bondLineWidth = 1.6
    options.padding = 0.08
    options.fixedBondLength = 26  # small molecules are not enlarged
    options.legendFontSize = 14
    options.legendFraction = 0.17
    if dark:
        rdMolDraw2D.SetDarkMode(drawer)
        options.legendColour = (0.9, 0.93, 0.93)
    else:
        drawer.ClearDrawing()  # transparent on a dark page
    options.clearBackground = False  # would erase the frames of neighbours
    drawer.SetLineWidth(2)
    for node, column, row, parent in positions:
        left, top = ROW + column * (WIDTH + GAP), ROW + row * (HEIGHT + ROW)
        with rdBase.BlockLogs():
            mol = mol_from_smiles(node.smiles)
            add_layout(mol)
            mol = rdMolDraw2D.PrepareMolForDrawing(mol)
        drawer.SetOffset(int(left), int(top))
        drawer.DrawMolecule(mol, legend=caption(node))
        drawer.SetOffset(0, 0)
        right, bottom, middle = left + WIDTH, top + HEIGHT, top + HEIGHT / 2
        corners = [(left, top), (right, top), (right, bottom), (left, bottom), (left, top)]
        _draw_line(drawer, GREEN if node.stock else GREY if node.step else AMBER, corners)
        if parent is not None:
            above, turn = ROW + parent * (HEIGHT + ROW) + HEIGHT / 2, left - GAP / 2
            _draw_line(drawer, GREY, [(left - GAP, above), (turn, above), (turn, middle), (left, middle)])
    drawer.FinishDrawing()
    return drawer.GetDrawingText()


def caption(node: Node) -> str:
    """Return the stock of a molecule, or the probability of the step that forms it."""
    if node.step is None:
        return f"in stock: {node.stock}" if node.stock else "not in stock"
    opinion = node.step.opinion
    return f"probability {node.step.chance:.2f}" + (f", forward {opinion}" if opinion else "")


def _draw_line(drawer: Any, colour: tuple[float, float, float], points: Sequence[tuple[float, float]]) -> None:
    drawer.SetColour(colour)
    for start, end in pairwise(points):
        drawer.DrawLine(Point2D(*start), Point2D(*end), True)
