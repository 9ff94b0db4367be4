"""Drawings of molecules, as SVG text that is safe to put into a page."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from html import escape
from typing import Any

import numpy as np
import streamlit as st
from rdkit import rdBase
from rdkit.Chem import rdDepictor
from rdkit.Chem.Draw import rdMolDraw2D
from rdkit.Geometry import Point2D

from chemspec.chem.layout import add_layout
from chemspec.chem.parsing import mol_from_smiles
from chemspec.chem.trial import RDKIT_ERRORS

MAX_ATOMS = 300  # a drawing of more says nothing and takes long
LENGTH = 22  # pixels of a bond

RING = 9.5  # pixels: radius of the ring around an atom

Bonds = tuple[tuple[int, int], ...]
Alike = tuple[str, Bonds]  # a SMILES; pairs of an atom of the molecule drawn and one of that


@dataclass(frozen=True)
class Colouring:
    """Marks on atoms, by index in the SMILES as written (`chem.atom_tokens`).

    Attributes:
        fills: colours ("#rrggbb") behind atoms; a bond between two atoms of one colour takes it too.
        ringed: atoms in a dashed ring.
        notes: short texts next to atoms.
    """

    fills: tuple[tuple[int, str], ...] = ()
    ringed: tuple[int, ...] = ()
    notes: tuple[tuple[int, str], ...] = ()

    def renumbered(self, numbers: Mapping[int, int]) -> Colouring:
        """Return the marks of the atoms that `numbers` has, under their numbers there."""
        return Colouring(
            tuple((numbers[atom], color) for atom, color in self.fills if atom in numbers),
            tuple(numbers[atom] for atom in self.ringed if atom in numbers),
            tuple((numbers[atom], text) for atom, text in self.notes if atom in numbers),
        )


NO_COLOURS = Colouring()


def molecule_svg(
    smiles: str,
    *,
    width: int = 320,
    height: int = 220,
    dark: bool = False,
    fills: Mapping[int, str] = {},
    tags: bool = False,
    bold: Bonds = (),
    notes: tuple[str, ...] = (),
    like: Alike | None = None,
    colouring: Colouring = NO_COLOURS,
) -> str:
    """Return a molecule as SVG; empty if it cannot be read or drawn, or has more than `MAX_ATOMS` atoms.

    Args:
        smiles: the molecule.
        width: in pixels; -1 for as much as its bonds ask for.
        height: likewise.
        dark: for a dark page.
        fills: colours ("#rrggbb") behind atoms, by index in the SMILES as written (`chem.atom_tokens`); a bond between
            two atoms of one colour takes it too.
        tags: mark every atom with the classes `atom-selector atom-<index>`, for scripts and styles to find.
        bold: bonds to draw thick, as pairs of atoms.
        notes: a letter for each of these, written next to the bond.
        like: another molecule, and which atom of this one is which of that: they are laid out alike.
        colouring: more marks on atoms; its colours take the place of `fills`.
    """
    colored = colouring.fills or tuple(sorted(fills.items()))
    return _draw_molecule(smiles, width, height, dark, replace(colouring, fills=colored), tags, bold, notes, like)


@lru_cache(maxsize=2000)
def _draw_molecule(
    smiles: str,
    width: int,
    height: int,
    dark: bool,
    colouring: Colouring,
    tags: bool,
    bold: Bonds,
    notes: tuple[str, ...],
    like: Alike | None,
) -> str:
    with rdBase.BlockLogs():
        mol = mol_from_smiles(smiles)
    if mol is None or not 0 < mol.GetNumAtoms() <= MAX_ATOMS:
        return ""
    for atom in mol.GetAtoms():
        atom.SetAtomMapNum(0)  # not drawn: maps are not chemistry
        if atom.GetFormalCharge() and not atom.GetDegree():
            atom.SetNumRadicalElectrons(0)  # of a metal's ion RDKit would draw its unpaired electrons
    if like is not None:
        align_layout(mol, *like)
    add_layout(mol)
    count = mol.GetNumAtoms()
    for number, note in colouring.notes:
        if number < count:
            mol.GetAtomWithIdx(number).SetProp("atomNote", note)
    thick = [bond for bond in (mol.GetBondBetweenAtoms(*pair) for pair in bold) if bond is not None]
    for bond, note in zip(thick, notes, strict=False):
        bond.SetProp("bondNote", note)
    drawer = rdMolDraw2D.MolDraw2DSVG(width, height)
    options: Any = drawer.drawOptions()
    options.clearBackground = False
    options.bondLineWidth = 1.6
    options.padding = 0.07
    options.fixedBondLength = LENGTH  # small molecules are not blown up, and all schemes have one scale
    options.maxFontSize = 15
    options.annotationFontScale = 0.8
    options.setBondNoteColour((0.37, 0.83, 0.77) if dark else (0.04, 0.42, 0.39))
    options.setAtomNoteColour((0.9, 0.94, 0.93) if dark else (0.07, 0.13, 0.12))
    if dark:
        rdMolDraw2D.SetDarkMode(drawer)
        options.clearBackground = False
        options.updateAtomPalette({7: (0.56, 0.64, 1.0), 8: (1.0, 0.5, 0.47), 53: (0.8, 0.55, 0.95)})
    colors = {atom: _rgba_color(color) for atom, color in colouring.fills if atom < count}
    bonds = {
        bond.GetIdx(): colors[bond.GetBeginAtomIdx()]
        for bond in mol.GetBonds()
        if colors.get(bond.GetBeginAtomIdx(), 0) == colors.get(bond.GetEndAtomIdx(), 1)
    }
    try:
        rdMolDraw2D.PrepareAndDrawMolecule(
            drawer,
            mol,
            highlightAtoms=list(colors),
            highlightAtomColors=colors,
            highlightBonds=list(bonds),
            highlightBondColors=bonds,
        )
    except RDKIT_ERRORS:  # its layout of strange graphs may break its own rules
        return ""
    if tags:
        drawer.TagAtoms(mol)
    centres = [drawer.GetDrawCoords(number) for number in colouring.ringed if number < count]
    drawer.FinishDrawing()
    text = str(drawer.GetDrawingText())
    rings = "".join(
        f"<circle class='ring' cx='{at.x:.1f}' cy='{at.y:.1f}' r='{RING}' fill='none' "
        f"stroke='{'#e6efed' if dark else '#12201e'}' stroke-width='1.6' stroke-dasharray='3 2'/>"
        for at in centres
    )
    text = text.replace("</svg>", f"{rings}</svg>")
    for bond in thick:
        text = re.sub(rf"(class='bond-{bond.GetIdx()} [^>]*stroke-width:)[\d.]+", r"\g<1>4", text)
    return re.sub(r"<\?xml.*?\?>", "", text).replace("\n", " ").strip()


def align_layout(mol: Any, model: str, pairs: Bonds) -> None:
    """Lay out a molecule on the coordinates of another one; where that distorts it, only rotate it to match."""
    other = mol_from_smiles(model)
    if other is None or len(pairs) < 3:
        return
    add_layout(other)
    coordinates = other.GetConformer()
    fixed = {atom: Point2D(coordinates.GetAtomPosition(there)) for atom, there in pairs}
    if not _fits_coordinates(mol, fixed):
        mol.RemoveAllConformers()
        add_layout(mol)
        _rotate_onto(
            mol.GetConformer(), np.array([atom for atom, _ in pairs]), np.array([[*xy] for xy in fixed.values()])
        )


def _fits_coordinates(mol: Any, fixed: dict[int, Point2D]) -> bool:
    """Lay out a molecule with fixed coordinates of some atoms; returns whether that is possible without distortion."""
    try:
        rdDepictor.Compute2DCoords(mol, canonOrient=False, coordMap=fixed)
    except RDKIT_ERRORS:  # RDKit fails on some molecules
        return False
    positions = mol.GetConformer().GetPositions()[:, :2]
    lengths = [
        np.linalg.norm(positions[bond.GetBeginAtomIdx()] - positions[bond.GetEndAtomIdx()]) for bond in mol.GetBonds()
    ]
    gaps = np.linalg.norm(positions[:, None] - positions[None], axis=-1) + 9 * np.eye(len(positions))
    return bool(max(lengths, default=1.5) <= 2.4 and min(lengths, default=1.5) >= 0.9 and gaps.min() >= 0.5)


def _rotate_onto(conformer: Any, atoms: Any, targets: Any) -> None:
    """Rotate or reflect a flat molecule so that some of its atoms match target coordinates (n, 2)."""
    flat = conformer.GetPositions()
    middle = flat[atoms, :2].mean(axis=0)
    left, _, right = np.linalg.svd((flat[atoms, :2] - middle).T @ (targets - targets.mean(axis=0)))
    flat[:, :2] = (flat[:, :2] - middle) @ left @ right
    conformer.SetPositions(flat)


def _rgba_color(color: str) -> tuple[float, float, float, float]:
    red, green, blue = (int(color[k : k + 2], 16) / 255 for k in (1, 3, 5))
    return red, green, blue, 0.45


def labelled_html(svg: str, alt: str) -> str:
    """Return an SVG as HTML that a screen reader announces as one picture; `st.html` would drop bare SVG."""
    return f'<div class="cs-svg"><img src="{svg_data_uri(svg)}" alt="{escape(alt, quote=True)}"></div>'


def svg_data_uri(svg: str) -> str:
    """Return an SVG as a link target, for table cells and <img>."""
    return "data:image/svg+xml;base64," + b64encode(svg.encode()).decode()


def show_svg(svg: str, alt: str) -> None:
    """Show a drawing, or a line that says why there is none."""
    if svg:
        st.html(labelled_html(svg, alt))
    else:
        st.caption("no drawing: the text is no molecule that can be drawn")
