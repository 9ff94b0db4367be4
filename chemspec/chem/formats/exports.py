"""Molecules, reactions and answers in the formats that other programs read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any
from xml.etree import ElementTree

from rdkit import Chem, rdBase
from rdkit.Chem import rdChemReactions, rdDepictor
from rdkit.Chem.Draw import rdMolDraw2D

import chemspec.chem as chem
from chemspec.chem.formats.molfile import RDKIT_ERRORS
from chemspec.chem.parsing import mol_from_smiles

MOST_ATOMS = 999  # what a V2000 table can hold, and more than a drawing can show


def to_sdf(rows: Sequence[Mapping[str, object]]) -> str:
    """Return an SDF with 2-D coordinates: a record for each row.

    The structure comes from "smiles" (without atoms where it cannot be read), the title from "name" if there is one;
    all keys become properties, line breaks in them blanks.
    """
    return "".join(_record(row) for row in rows)


def _record(row: Mapping[str, object]) -> str:
    mol = _flat(str(row.get("smiles", "")))
    block = Chem.MolToMolBlock(Chem.Mol() if mol is None else mol)
    title = _line(row.get("name", ""))[:80]
    properties = "".join(f">  <{_field(key)}>\n{_line(value)}\n\n" for key, value in row.items())
    return f"{title}{block[block.index(chr(10)) :]}{properties}$$$$\n"


def _line(value: object) -> str:
    """Return a value on one line; a title or value that begins like a record's end would end it."""
    text = "" if value is None else re.sub(r"[\s\x00-\x1f]+", " ", str(value)).strip()
    return f" {text}" if text.startswith(("$$$$", ">")) else text


def _field(key: str) -> str:
    return re.sub(r"[^\w .()%/-]+", "_", key).strip()[:80] or "_"


def to_png(smiles: str, *, width: int = 800, height: int = 500) -> bytes:
    """Return a drawing on white as PNG; empty where the SMILES cannot be drawn.

    Sides are kept between 50 and 4000 pixels.
    """
    mol = _flat(smiles)
    if mol is None:
        return b""
    for atom in mol.GetAtoms():
        atom.SetAtomMapNum(0)  # not drawn: maps are not chemistry
    wide, high = (min(4000, max(50, side)) for side in (width, height))
    drawer = rdMolDraw2D.MolDraw2DCairo(wide, high)
    options: Any = drawer.drawOptions()
    options.bondLineWidth = 2.5
    options.padding = 0.06
    options.fixedBondLength = 60  # small molecules are not blown up
    rdMolDraw2D.PrepareAndDrawMolecule(drawer, mol)
    drawer.FinishDrawing()
    return bytes(drawer.GetDrawingText())


def to_rxn(reactants: str, product: str) -> str:
    """Return an RXN file with 2-D coordinates, molecules from left to right; empty where a SMILES cannot be read.

    Every component of the reactants is a molecule of its own.
    """
    sides = [chem.canonical_parts(smiles) for smiles in (reactants, product)]
    if None in sides:
        return ""
    reaction, right = rdChemReactions.ChemicalReaction(), 0.0
    adders = reaction.AddReactantTemplate, reaction.AddProductTemplate
    for parts, add in zip(sides, adders, strict=True):
        for part in parts or ():
            mol = _flat(part)
            if mol is None:
                return ""
            # The writer of reactions would leave aromatic bonds, and [nH] would lose its hydrogen.
            Chem.Kekulize(mol, clearAromaticFlags=True)
            right = _shift(mol, right)
            add(mol)
        right += 3.0  # room for the arrow
    with rdBase.BlockLogs():
        return str(rdChemReactions.ReactionToRxnBlock(reaction))


def _shift(mol: Any, left: float) -> float:
    """Move a molecule to begin at `left`; where the next may begin."""
    conformer = mol.GetConformer()
    places = conformer.GetPositions()  # (atoms, 3)
    places[:, 0] += left - places[:, 0].min()
    conformer.SetPositions(places)
    return float(places[:, 0].max()) + 1.5


def to_rdf(rows: Sequence[Mapping[str, object]], date: str) -> str:
    """Return an RDF: a reaction for each row, from its "reaction" (reaction SMILES); all other keys become data.

    Args:
        rows: those whose reaction cannot be written are left out.
        date: as "11/23/26 14:05".
    """
    records = []
    for row in rows:
        sides = str(row.get("reaction", "")).split(">>")
        if block := to_rxn(*sides) if len(sides) == 2 else "":
            data = (f"$DTYPE {_field(key)}\n$DATUM {_line(value)}\n" for key, value in row.items() if key != "reaction")
            records.append(f"$RFMT\n{block}{''.join(data)}")
    return f"$RDFILE 1\n$DATM {date}\n{''.join(records)}" if records else ""


_BOND = 14.4  # points of a bond in a ChemDraw file


def to_reaction_cdxml(left: Sequence[Any], right: Sequence[Any], above: str) -> str:
    """Return a ChemDraw file of a reaction with its arrow; empty where this RDKit cannot write CDXML.

    Args:
        left: molecules with 2-D coordinates.
        right: likewise.
        above: text over the arrow.
    """
    if not hasattr(Chem, "MolToCDXMLBlock"):
        return ""
    document = ElementTree.Element("CDXML", id="1", BondLength=f"{_BOND}")
    page = ElementTree.SubElement(document, "page", id="2")
    sides: list[list[str]] = []
    x, ids = 0.0, count(3)
    for mols in (left, right):
        sides.append([])
        for mol in mols:
            x = _add_molecule(page, sides[-1], mol, x, ids) + 2 * _BOND
        if mols is left:
            long = max(6 * _BOND, 6.0 * len(above))
            arrow, text = str(next(ids)), str(next(ids))
            ends = {"Tail3D": f"{x:.2f} 0 0", "Head3D": f"{x + long:.2f} 0 0"}
            box = f"{x:.2f} -6 {x + long:.2f} 6"
            head = {"ArrowheadHead": "Full", "ArrowheadType": "Solid", "BoundingBox": box}
            ElementTree.SubElement(page, "arrow", {"id": arrow, **ends, **head})
            if above:
                place = f"{x + long / 2:.2f} -8"
                written = ElementTree.SubElement(page, "t", id=text, p=place, CaptionJustification="Center")
                ElementTree.SubElement(written, "s", size="10").text = above
            x += long + 2 * _BOND
    scheme = ElementTree.SubElement(page, "scheme", id=str(next(ids)))
    step = {"ReactionStepReactants": sides[0], "ReactionStepProducts": sides[1], "ReactionStepArrows": [arrow]}
    step |= {"ReactionStepObjectsAboveArrow": [text]} if above else {}
    named = {name: " ".join(members) for name, members in step.items()}
    ElementTree.SubElement(scheme, "step", {"id": str(next(ids)), **named})
    body = ElementTree.tostring(document, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8" ?>\n<!DOCTYPE CDXML SYSTEM "{_DTD}" >\n{body}\n'


_DTD = "http://www.cambridgesoft.com/xml/cdxml.dtd"


def _add_molecule(page: Any, fragments: list[str], mol: Any, left: float, ids: Iterator[int]) -> float:
    """Put RDKit's own drawing of a molecule on a page, beginning at `left`; return where it ends."""
    flat = Chem.Mol(mol)
    with rdBase.BlockLogs():
        Chem.Kekulize(flat)
        found = ElementTree.fromstring(str(Chem.MolToCDXMLBlock(flat)).split(">", 2)[2])
    nodes = [*found.iter("n")]
    places = [(float(x), float(y)) for x, y in (node.get("p", "0 0").split() for node in nodes)]
    first, last = min(x for x, _ in places), max(x for x, _ in places)
    middle = (min(y for _, y in places) + max(y for _, y in places)) / 2
    for node, (x, y) in zip(nodes, places, strict=True):
        node.set("p", f"{x - first + left:.2f} {y - middle:.2f}")
    new = {element.get("id"): str(next(ids)) for element in found.iter() if element.get("id")}
    for element in found.iter():
        for name in ("id", "B", "E"):
            if element.get(name) in new:
                element.set(name, new[element.get(name)])
    for fragment in found.iter("fragment"):
        page.append(fragment)
        fragments.append(fragment.get("id", ""))
    return left + last - first


def to_cdxml(smiles: str) -> str:
    """Return a ChemDraw file with 2-D coordinates.

    It is empty where the SMILES cannot be read, or this RDKit cannot write CDXML.
    """
    mol = _flat(smiles)
    if mol is None or not hasattr(Chem, "MolToCDXMLBlock"):
        return ""
    with rdBase.BlockLogs():
        Chem.Kekulize(mol)
        try:
            return str(Chem.MolToCDXMLBlock(mol))
        except RDKIT_ERRORS:
            return ""


def _flat(smiles: str) -> Any | None:
    """Return the molecule with 2-D coordinates and wedges; None where it cannot be read or is too large."""
    if not chem.is_valid(smiles):
        return None
    with rdBase.BlockLogs():
        mol = mol_from_smiles(smiles)
        if mol is None or mol.GetNumAtoms() > MOST_ATOMS:
            return None
        try:
            rdDepictor.Compute2DCoords(mol)
        except RDKIT_ERRORS:
            return None
    return mol
