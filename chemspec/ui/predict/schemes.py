"""Reaction schemes as SVG, PNG and CDXML, and tables of predictions."""

from __future__ import annotations

import csv
import io
import re
import textwrap
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from rdkit.Chem.Draw import rdMolDraw2D
from rdkit.Geometry import Point2D

from chemspec.chem import formats
from chemspec.chem.layout import add_layout
from chemspec.chem.names.short_names import split_drawn_and_named
from chemspec.chem.parsing import mol_from_smiles
from chemspec.chem.strategy import Strategy
from chemspec.io import spreadsheets
from chemspec.io.writers import single_line
from chemspec.ui.common import draw, escaping, scheme


def scheme_sides(reactants: str, product: str, change: Strategy | None) -> tuple[scheme.Side, scheme.Side]:
    """Return both sides of a reaction: atoms that change, bonds that are made, reactants laid out like the product."""
    if change is None:
        return scheme.Side(reactants), scheme.Side(product)
    pairs = tuple((origin, atom) for atom, origin in enumerate(change.origin) if origin >= 0)
    left = scheme.Side(reactants, change.before, like=(product, pairs))
    return left, scheme.Side(product, change.after, bold=change.made)


# --- pictures --------------------------------------------------------------------------------------

GAP, ARROW = 26, 110  # pixels between molecules, and of the arrow
WRAP = 18  # characters of a line over it


def _arrow_lines(names: Sequence[str], over: str) -> list[str]:
    """Return the text over an arrow, in lines."""
    return textwrap.wrap(", ".join(filter(None, (*names, over))), WRAP)


def scheme_to_svg(reactants: str, product: str, change: Strategy | None, over: str = "") -> str:
    """Return the scheme of a reaction, reagents over its arrow, as one SVG; empty where nothing can be drawn."""
    left, right = scheme_sides(reactants, product, change)
    drawn, names = split_drawn_and_named(reactants.split("."), scheme.reacting_parts(left))
    pieces = [*scheme.side_drawings(left, drawn), None, *scheme.side_drawings(right)]
    if not all(svg for svg in pieces if svg is not None):
        return ""
    lines = _arrow_lines(names, over)
    sizes = [(ARROW, 40 + 26 * len(lines)) if svg is None else _svg_size(svg) for svg in pieces]
    high = max(height for _, height in sizes) + 8
    x, parts = 4.0, []
    for number, (svg, (wide, tall)) in enumerate(zip(pieces, sizes, strict=True)):
        if svg is None:
            middle = high / 2
            parts += [
                f'<text x="{x + ARROW / 2}" y="{middle - 8 - 13 * up}" text-anchor="middle" font-size="11">'
                f"{escape(text)}</text>"
                for up, text in enumerate(reversed(lines))
            ]
            parts.append(
                f'<path d="M{x + 4} {middle}h{ARROW - 16}" stroke="#000" stroke-width="1.6"/>'
                f'<path d="M{x + ARROW - 4} {middle}l-11 -4.5v9z"/>'
            )
        else:
            if number and pieces[number - 1] is not None:
                parts.append(f'<text x="{x - GAP / 2 - 5}" y="{high / 2 + 6}" font-size="18">+</text>')
            parts.append(re.sub("<svg", f'<svg x="{x}" y="{(high - tall) / 2}"', svg, count=1))
        x += wide + GAP
    font = 'font-family="sans-serif"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" width="{x:.0f}" height="{high:.0f}" {font}>{"".join(parts)}</svg>'


def _svg_size(svg: str) -> tuple[float, float]:
    size = re.search(r"width='([\d.]+)px' height='([\d.]+)px'", svg)
    return (float(size[1]), float(size[2])) if size else (0.0, 0.0)


def scheme_to_cdxml(reactants: str, product: str, change: Strategy | None, over: str = "") -> str:
    """Return the scheme of a reaction as ChemDraw file, reagents over its arrow; empty where it cannot be drawn."""
    mols, target, names = _scheme_molecules(reactants, product, change)
    return (
        formats.to_reaction_cdxml(mols, [target], ", ".join(filter(None, (*names, over)))) if target is not None else ""
    )


def _scheme_molecules(reactants: str, product: str, change: Strategy | None) -> tuple[list[Any], Any, tuple[str, ...]]:
    """Return molecules with coordinates, and names of the reagents; no product where a SMILES cannot be read."""
    left, _ = scheme_sides(reactants, product, change)
    drawn, names = split_drawn_and_named(reactants.split("."), scheme.reacting_parts(left))
    mols: list[Any] = []
    for _, part, options in scheme.side_molecules(left, drawn):
        mols.append(mol_from_smiles(part))
        if mols[-1] is None:
            return [], None, ()
        if options["like"]:
            draw.align_layout(mols[-1], *options["like"])
        if not mols[-1].GetNumConformers():
            add_layout(mols[-1])
    target = mol_from_smiles(product)
    if target is not None:
        add_layout(target)
    return mols, target, names


def scheme_to_png(reactants: str, product: str, change: Strategy | None, over: str = "") -> bytes:
    """Return the scheme of a reaction as PNG on white; empty where nothing can be drawn."""
    mols, target, names = _scheme_molecules(reactants, product, change)
    if target is None:
        return b""
    panels = [*mols, None, target]
    wide, high = 420, 300
    drawer = rdMolDraw2D.MolDraw2DCairo(wide * len(mols) + 240 + wide, high, wide, high)
    options: Any = drawer.drawOptions()
    options.bondLineWidth, options.fixedBondLength, options.padding = 2, 40, 0.04
    drawer.ClearDrawing()
    options.clearBackground = False
    x = 0
    for number, mol in enumerate(panels):
        drawer.SetOffset(0, 0)
        if mol is None:
            drawer.SetColour((0, 0, 0))
            for start, end in (((10, 150), (220, 150)), ((220, 150), (206, 143)), ((220, 150), (206, 157))):
                drawer.DrawLine(Point2D(x + start[0], start[1]), Point2D(x + end[0], end[1]), True)
            drawer.SetFontSize(16)
            for up, text in enumerate(reversed(_arrow_lines(names, over))):
                lowered = re.sub("[₀-₉]", lambda digit: f"<sub>{ord(digit[0]) - ord('₀')}</sub>", text)
                drawer.DrawString(lowered, Point2D(x + 115, 130 - 20 * up), 0, True)  # it cannot draw ₂ itself
            x += 240
            continue
        if number and panels[number - 1] is not None:
            drawer.SetColour((0, 0, 0))
            drawer.SetFontSize(22)
            drawer.DrawString("+", Point2D(x, 150), 0, True)
        drawer.SetOffset(x, 0)
        drawer.DrawMolecule(rdMolDraw2D.PrepareMolForDrawing(mol))
        x += wide
    drawer.FinishDrawing()
    return bytes(drawer.GetDrawingText())


# --- tables ----------------------------------------------------------------------------------------


def rows_to_csv(rows: Sequence[Mapping[str, object]]) -> str:
    """Return rows of the same keys as a table; no cell is taken for a formula or has line breaks."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\r\n")
    writer.writerow(rows[0] if rows else ())
    writer.writerows([escaping.escape_formula(single_line(str(value))) for value in row.values()] for row in rows)
    return buffer.getvalue()


def rows_to_xlsx(rows: Sequence[Mapping[str, object]]) -> bytes:
    """Return the same as a workbook, in which numbers are numbers."""
    number = re.compile(r"-?\d+(\.\d+)?(e-?\d+)?")
    cells = (
        [float(cell) if isinstance(cell, str) and number.fullmatch(cell) else cell for cell in row.values()]
        for row in rows
    )
    return spreadsheets.write_workbook([*rows[0]] if rows else [], cells)
