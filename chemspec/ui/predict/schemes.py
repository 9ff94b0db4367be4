"""Reactions as pictures and tables that go into a notebook or a slide."""

from __future__ import annotations

import csv
import io
import re
import textwrap
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from rdkit.Chem import rdDepictor
from rdkit.Chem.Draw import rdMolDraw2D
from rdkit.Geometry import Point2D

from chemspec.chem import formats
from chemspec.chem.names.short_names import split_drawn_and_named
from chemspec.chem.parsing import mol_from_smiles
from chemspec.chem.strategy import Strategy
from chemspec.io import spreadsheets
from chemspec.io.writers import single_line
from chemspec.ui.common import draw, safe, scheme


def sides(reactants: str, product: str, change: Strategy | None) -> tuple[scheme.Side, scheme.Side]:
    """Return both sides of a reaction: atoms that change, bonds that are made, reactants laid out like the product."""
    if change is None:
        return scheme.Side(reactants), scheme.Side(product)
    pairs = tuple((origin, atom) for atom, origin in enumerate(change.origin) if origin >= 0)
    left = scheme.Side(reactants, change.before, like=(product, pairs))
    return left, scheme.Side(product, change.after, bold=change.made)


# --- pictures --------------------------------------------------------------------------------------

GAP, ARROW = 26, 110  # pixels between molecules, and of the arrow
WRAP = 18  # characters of a line over it


def _over(names: Sequence[str], over: str) -> list[str]:
    """Return what stands over an arrow, in lines."""
    return textwrap.wrap(", ".join(filter(None, (*names, over))), WRAP)


def to_svg(reactants: str, product: str, change: Strategy | None, over: str = "") -> str:
    """Return the scheme of a reaction, reagents over its arrow, as one SVG; empty where nothing can be drawn."""
    left, right = sides(reactants, product, change)
    drawn, names = split_drawn_and_named(reactants.split("."), scheme.reacting(left))
    pieces = [*scheme.drawings(left, drawn), None, *scheme.drawings(right)]
    if not all(svg for svg in pieces if svg is not None):
        return ""
    lines = _over(names, over)
    sizes = [(ARROW, 40 + 26 * len(lines)) if svg is None else _size(svg) for svg in pieces]
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


def _size(svg: str) -> tuple[float, float]:
    found = re.search(r"width='([\d.]+)px' height='([\d.]+)px'", svg)
    return (float(found[1]), float(found[2])) if found else (0.0, 0.0)


def to_cdxml(reactants: str, product: str, change: Strategy | None, over: str = "") -> str:
    """Return the scheme of a reaction as ChemDraw file, reagents over its arrow; empty where it cannot be drawn."""
    mols, target, names = _laid_out(reactants, product, change)
    return (
        formats.to_reaction_cdxml(mols, [target], ", ".join(filter(None, (*names, over)))) if target is not None else ""
    )


def _laid_out(reactants: str, product: str, change: Strategy | None) -> tuple[list[Any], Any, tuple[str, ...]]:
    """Return molecules with coordinates, and names of the reagents; no product where a SMILES cannot be read."""
    left, _ = sides(reactants, product, change)
    drawn, names = split_drawn_and_named(reactants.split("."), scheme.reacting(left))
    mols: list[Any] = []
    for _, part, how in scheme.pieces(left, drawn):
        mols.append(mol_from_smiles(part))
        if mols[-1] is None:
            return [], None, ()
        if how["like"]:
            draw.lay_out(mols[-1], *how["like"])
        if not mols[-1].GetNumConformers():
            rdDepictor.Compute2DCoords(mols[-1])
    target = mol_from_smiles(product)
    if target is not None:
        rdDepictor.Compute2DCoords(target)
    return mols, target, names


def to_png(reactants: str, product: str, change: Strategy | None, over: str = "") -> bytes:
    """Return the scheme of a reaction as PNG on white; empty where nothing can be drawn."""
    mols, target, names = _laid_out(reactants, product, change)
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
            for up, text in enumerate(reversed(_over(names, over))):
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


def to_csv(rows: Sequence[Mapping[str, object]]) -> str:
    """Return rows of the same keys as a table; no cell is taken for a formula or has line breaks."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\r\n")
    writer.writerow(rows[0] if rows else ())
    writer.writerows([safe.harmless(single_line(str(value))) for value in row.values()] for row in rows)
    return buffer.getvalue()


def to_xlsx(rows: Sequence[Mapping[str, object]]) -> bytes:
    """Return the same as a workbook, in which numbers are numbers."""
    return spreadsheets.write_workbook([*rows[0]] if rows else [], ([*map(_number, row.values())] for row in rows))


def _number(value: object) -> object:
    """Return a number that was written out as the number that it is."""
    return float(value) if isinstance(value, str) and re.fullmatch(r"-?\d+(\.\d+)?(e-?\d+)?", value) else value
