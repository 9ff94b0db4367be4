"""Drawings of molecules, as SVG text that is safe to put into a page, and as PNG."""

import re
from base64 import b64encode
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from rdkit import Chem
from rdkit.Chem import rdDepictor, rdMolAlign
from rdkit.Chem.Draw import rdMolDraw2D
from rdkit.Geometry import Point2D

from chemspec.chem.molecules.layout import add_layout, place_ions
from chemspec.chem.molecules.parsing import mol_from_smiles
from chemspec.chem.molecules.rdkit_tasks import RDKIT_ERRORS

INK, DARK_INK = "#12201e", "#e6efed"  # lines and texts on a light and on a dark page
MAX_ATOMS = 300  # a drawing of more says nothing and takes long
MAX_SIDE = 4000  # pixels of a PNG
LENGTH = 22  # pixels of a bond

# Bonds drawn as wedges or waves are never thick: the strokes of a hashed wedge would merge into a solid one.
_DIRECTIONS = {Chem.BondDir.BEGINWEDGE, Chem.BondDir.BEGINDASH, Chem.BondDir.UNKNOWN}

Bonds = tuple[tuple[int, int], ...]
Alike = tuple[str, Bonds]  # a SMILES; pairs of an atom of the molecule drawn and one of that
Fills = tuple[tuple[int, str], ...]  # atoms, by index in the SMILES as written (`chem.atom_tokens`), and "#rrggbb"


@dataclass(frozen=True)
class Depiction:
    """A molecule and how it is drawn."""

    smiles: str
    width: int = -1  # pixels; -1 for as much as its bonds ask for
    height: int = -1  # likewise
    dark: bool = False  # colours for a dark page
    tags: bool = False  # mark every atom with the classes `atom-selector atom-<index>`, for scripts and styles to find
    bold: Bonds = ()  # bonds to draw thick, as pairs of atoms; wedges stay as they are
    notes: tuple[str, ...] = ()  # a letter for each of these, written next to the bond
    like: Alike | None = None  # another molecule, and which atom of this one is which of that: they are laid out alike
    fills: Fills = ()  # colours behind atoms, and bonds of equal ones
    labels: tuple[tuple[int, str], ...] = ()  # short texts next to atoms

    @property
    def svg(self) -> str:
        """The drawing as SVG; empty for what cannot be read or drawn, or has more than `MAX_ATOMS` atoms."""
        return draw_svg(self)

    @property
    def data_uri(self) -> str:
        """The drawing as a link target, for table cells and <img>; empty where there is none."""
        return svg_data_uri(self.svg) if self.svg else ""

    def png(self, scale: float = 1.0) -> bytes:
        """Return the drawing as PNG without background, `scale` times as large; empty where there is none."""
        size = (self.width, self.height) if min(self.width, self.height) > 0 else svg_size(self.svg)
        width, height = (min(MAX_SIDE, max(20, round(scale * side))) for side in size)
        drawer = rdMolDraw2D.MolDraw2DCairo(width, height)
        return bytes(drawer.GetDrawingText()) if _draw(drawer, self, scale) is not None else b""

    def molecule(self) -> Any | None:
        """Return the molecule with 2-D coordinates; None for what cannot be read or has too many atoms."""
        mol = mol_from_smiles(self.smiles)
        if mol is None or not 0 < mol.GetNumAtoms() <= MAX_ATOMS:
            return None
        for atom in mol.GetAtoms():
            atom.SetAtomMapNum(0)  # not drawn: maps are not chemistry
            if atom.GetFormalCharge() and not atom.GetDegree():
                atom.SetNumRadicalElectrons(0)  # RDKit would draw unpaired electrons of a metal's ion
        if self.like is not None:
            align_layout(mol, *self.like)
        add_layout(mol)
        place_ions(mol)
        return mol


def _draw(drawer: Any, depiction: Depiction, scale: float = 1.0) -> Any | None:
    """Draw a molecule and finish the drawing; return it with its wedges, or None where it cannot be drawn."""
    mol = depiction.molecule()
    if mol is None:
        return None
    count = mol.GetNumAtoms()
    for number, text in depiction.labels:
        mol.GetAtomWithIdx(number).SetProp("atomNote", text)
    for bond, note in zip(_thick_bonds(mol, depiction), depiction.notes, strict=False):
        bond.SetProp("bondNote", note)
    options = drawer.drawOptions()
    options.bondLineWidth = 1.6 * scale
    options.padding = 0.07
    options.fixedBondLength = LENGTH * scale  # small molecules are not blown up, and all schemes have one scale
    options.maxFontSize = round(15 * scale)
    options.annotationFontScale = 0.8
    options.setBondNoteColour((0.37, 0.83, 0.77) if depiction.dark else (0.04, 0.42, 0.39))
    options.setAtomNoteColour((0.9, 0.94, 0.93) if depiction.dark else (0.07, 0.13, 0.12))
    if depiction.dark:
        rdMolDraw2D.SetDarkMode(drawer)
        options.updateAtomPalette({7: (0.56, 0.64, 1.0), 8: (1.0, 0.5, 0.47), 53: (0.8, 0.55, 0.95)})
    options.clearBackground = False
    colors = {atom: _rgba_color(color) for atom, color in depiction.fills if atom < count}
    bonds = {
        bond.GetIdx(): colors[bond.GetBeginAtomIdx()]
        for bond in mol.GetBonds()
        if colors.get(bond.GetBeginAtomIdx(), 0) == colors.get(bond.GetEndAtomIdx(), 1)
    }
    options.prepareMolsBeforeDrawing = False  # done here, for the wedges
    try:
        prepared = rdMolDraw2D.PrepareMolForDrawing(mol)
        drawer.DrawMolecule(
            prepared,
            highlightAtoms=list(colors),
            highlightAtomColors=colors,
            highlightBonds=list(bonds),
            highlightBondColors=bonds,
        )
    except RDKIT_ERRORS:  # its layout of strange graphs may break its own rules
        return None
    if depiction.tags:
        drawer.TagAtoms(mol)
    drawer.FinishDrawing()
    return prepared


@lru_cache(maxsize=2000)
def draw_svg(depiction: Depiction) -> str:
    """Draw a molecule as SVG."""
    drawer = rdMolDraw2D.MolDraw2DSVG(depiction.width, depiction.height)
    if (mol := _draw(drawer, depiction)) is None:
        return ""
    text = str(drawer.GetDrawingText())
    for bond in _thick_bonds(mol, depiction):
        if bond.GetBondDir() in _DIRECTIONS:
            continue
        text = re.sub(rf"(class='bond-{bond.GetIdx()} [^>]*stroke-width:)[\d.]+", r"\g<1>4", text)
    return re.sub(r"<\?xml.*?\?>", "", text).replace("\n", " ").strip()


def _thick_bonds(mol: Any, depiction: Depiction) -> list[Any]:
    return [bond for bond in (mol.GetBondBetweenAtoms(*pair) for pair in depiction.bold) if bond is not None]


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
        rdMolAlign.AlignMol(mol, other, atomMap=list(pairs))


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


def _rgba_color(color: str) -> tuple[float, float, float, float]:
    red, green, blue = (int(color[k : k + 2], 16) / 255 for k in (1, 3, 5))
    return red, green, blue, 0.45


def svg_data_uri(svg: str) -> str:
    """Return an SVG as a link target, for table cells and <img>."""
    return "data:image/svg+xml;base64," + b64encode(svg.encode()).decode()


def svg_size(svg: str) -> tuple[float, float]:
    """Return width and height of an SVG in pixels; zeros where it does not have them."""
    size = re.search(r"width='([\d.]+)px' height='([\d.]+)px'", svg)
    return (float(size[1]), float(size[2])) if size else (0.0, 0.0)
