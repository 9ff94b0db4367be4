"""Drawings of molecules, as SVG text that is safe to put into a page."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Collection, Mapping
from functools import lru_cache
from html import escape
from typing import Any

import streamlit as st
from rdkit import Chem, rdBase
from rdkit.Chem.Draw import rdMolDraw2D

MOST_ATOMS = 300  # a drawing of more says nothing and takes long


def molecule(
    smiles: str,
    *,
    width: int = 320,
    height: int = 220,
    dark: bool = False,
    fills: Mapping[int, str] = {},
    tags: bool = False,
) -> str:
    """Return a molecule as SVG; empty where the SMILES cannot be read or has more than `MOST_ATOMS` atoms.

    Args:
        smiles: the molecule.
        width: in pixels; -1 for as much as its bonds ask for.
        height: likewise.
        dark: for a dark page.
        fills: colours ("#rrggbb") behind atoms, by index in the SMILES as written (`chem.atom_tokens`); a bond between
            two atoms of one colour takes it too.
        tags: mark every atom with the classes `atom-selector atom-<index>`, for scripts and styles to find.
    """
    return _molecule(smiles, width, height, dark, tuple(sorted(fills.items())), tags)


@lru_cache(maxsize=2000)
def _molecule(smiles: str, width: int, height: int, dark: bool, fills: tuple[tuple[int, str], ...], tags: bool) -> str:
    with rdBase.BlockLogs():
        mol = Chem.MolFromSmiles(smiles) if 0 < len(smiles) <= 3000 else None
    if mol is None or not 0 < mol.GetNumAtoms() <= MOST_ATOMS:
        return ""
    for atom in mol.GetAtoms():
        atom.SetAtomMapNum(0)  # not drawn: maps are not chemistry
    drawer = rdMolDraw2D.MolDraw2DSVG(width, height)
    options: Any = drawer.drawOptions()
    options.clearBackground = False
    options.bondLineWidth = 1.6
    options.padding = 0.07
    options.fixedBondLength = 28  # small molecules are not blown up
    if dark:
        rdMolDraw2D.SetDarkMode(drawer)
        options.clearBackground = False
    colors = {atom: _rgba(color) for atom, color in fills if atom < mol.GetNumAtoms()}
    bonds = {
        bond.GetIdx(): colors[bond.GetBeginAtomIdx()]
        for bond in mol.GetBonds()
        if colors.get(bond.GetBeginAtomIdx(), 0) == colors.get(bond.GetEndAtomIdx(), 1)
    }
    rdMolDraw2D.PrepareAndDrawMolecule(
        drawer,
        mol,
        highlightAtoms=list(colors),
        highlightAtomColors=colors,
        highlightBonds=list(bonds),
        highlightBondColors=bonds,
    )
    if tags:
        drawer.TagAtoms(mol)
    drawer.FinishDrawing()
    text = str(drawer.GetDrawingText())
    return re.sub(r"<\?xml.*?\?>", "", text).replace("\n", " ").strip()


def _rgba(color: str) -> tuple[float, float, float, float]:
    red, green, blue = (int(color[k : k + 2], 16) / 255 for k in (1, 3, 5))
    return red, green, blue, 0.45


def labelled(svg: str, alt: str) -> str:
    """Return an SVG as HTML that a screen reader announces as one picture; `st.html` would drop bare SVG."""
    return f'<div class="cs-svg"><img src="{data_uri(svg)}" alt="{escape(alt, quote=True)}"></div>'


def data_uri(svg: str) -> str:
    """Return an SVG as a link target, for table cells and <img>."""
    return "data:image/svg+xml;base64," + b64encode(svg.encode()).decode()


def show(svg: str, alt: str, *, missing: Collection[str] = ()) -> None:
    """Put a drawing on the page, or a line that says why there is none."""
    if svg:
        st.html(labelled(svg, alt))
    else:
        st.caption("no drawing: " + (" ".join(missing) or "the text is no molecule that can be drawn"))
