"""File formats: `read_any` parses a query in any format, and `to_*` write molecules, reactions and predictions."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import count
from typing import Any
from xml.etree import ElementTree

from rdkit import Chem, rdBase
from rdkit.Chem import rdChemReactions

import chemspec.chem as chem
from chemspec.chem.checks.weapons_convention import refusal
from chemspec.chem.molecules.layout import add_layout
from chemspec.chem.molecules.parsing import mol_from_smiles
from chemspec.chem.molecules.trial import RDKIT_ERRORS
from chemspec.chem.reading.reader import LARGEST as LARGEST
from chemspec.chem.reading.reader import read_text
from chemspec.chem.reading.values import OTHER_SIDE as OTHER_SIDE
from chemspec.chem.reading.values import Input as Input
from chemspec.settings import Task

MOST_ATOMS = 999  # limit of the V2000 format, and more than a drawing can show


def read_any(text: str | bytes, *, task: Task, max_chars: int = 1000) -> Input | chem.Fault:
    """Read the query in a text or file of any known format, or say why it is refused; never raises.

    Of a reaction the forward task takes reactants and agents, the retro task the product, a task about whole reactions
    both sides without agents. Of its canonical SMILES at most `max_chars` are accepted. A fault points into the text
    (of bytes, into the decoded text). Chemicals of the Chemical Weapons Convention are refused
    (`chem.checks.weapons_convention`), whatever the format.
    """
    query = read_text(text, task, max_chars)
    if isinstance(query, Input) and (reason := _regulation(query, task)):
        return chem.Fault(reason, 0, len(text), "regulated")
    return query


def _regulation(query: Input, task: Task) -> str:
    """Return why no prediction is made about a query or the other side of its reaction; empty if there is no reason."""
    left, _, right = query.smiles.partition(chem.ARROW)
    targets, flasks = (left, query.other) if task == "retro" else (right or query.other, left)
    agents = ".".join(filter(None, (flasks, query.agents)))
    return refusal(agents) or refusal(targets, target=True)


def to_sdf(rows: Sequence[Mapping[str, object]]) -> str:
    """Return an SDF with 2-D coordinates: one record per row.

    The structure is taken from "smiles" (no atoms if it is invalid), the title from "name" if there is one; all keys
    become properties, with blanks for line breaks.
    """
    records = []
    for row in rows:
        block = Chem.MolToMolBlock(_with_coordinates(str(row.get("smiles", ""))) or Chem.Mol())
        title = _single_line(row.get("name", ""))[:80]
        properties = "".join(f">  <{_field_name(key)}>\n{_single_line(value)}\n\n" for key, value in row.items())
        records.append(f"{title}{block[block.index(chr(10)) :]}{properties}$$$$\n")
    return "".join(records)


def _single_line(value: object) -> str:
    """Return a value on one line, indented if it would be read as the end of a record."""
    text = "" if value is None else re.sub(r"[\s\x00-\x1f]+", " ", str(value)).strip()
    return f" {text}" if text.startswith(("$$$$", ">")) else text


def _field_name(key: str) -> str:
    return re.sub(r"[^\w .()%/-]+", "_", key).strip()[:80] or "_"


def to_rxn(reactants: str, product: str) -> str:
    """Return an RXN file with 2-D coordinates, components from left to right; empty for an invalid SMILES."""
    sides = [chem.canonical_parts(smiles) for smiles in (reactants, product)]
    if None in sides:
        return ""
    reaction = rdChemReactions.ChemicalReaction()
    adders = reaction.AddReactantTemplate, reaction.AddProductTemplate
    with rdBase.BlockLogs(), suppress(*RDKIT_ERRORS):
        for parts, add in zip(sides, adders, strict=True):
            for mol in map(mol_from_smiles, parts or ()):
                if mol is None or mol.GetNumAtoms() > MOST_ATOMS:
                    return ""
                # The reaction writer would keep aromatic bonds, and [nH] would lose its hydrogen.
                Chem.Kekulize(mol, clearAromaticFlags=True)
                add(mol)
        rdChemReactions.Compute2DCoordsForReaction(reaction, spacing=1.5, updateProps=False)
        return str(rdChemReactions.ReactionToRxnBlock(reaction))
    return ""


_BOND = 14.4  # bond length in points in a ChemDraw file


def to_reaction_cdxml(left: Sequence[Any], right: Sequence[Any], above: str) -> str:
    """Return a ChemDraw file of molecules with coordinates and an arrow; empty if this RDKit version cannot."""
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
                position = f"{x + long / 2:.2f} -8"
                written = ElementTree.SubElement(page, "t", id=text, p=position, CaptionJustification="Center")
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
    """Add RDKit's drawing of a molecule to a page, starting at `left`; returns its right end."""
    flat = Chem.Mol(mol)
    with rdBase.BlockLogs():
        Chem.Kekulize(flat)
        drawing = ElementTree.fromstring(str(Chem.MolToCDXMLBlock(flat)).split(">", 2)[2])
    nodes = [*drawing.iter("n")]
    coordinates = [(float(x), float(y)) for x, y in (node.get("p", "0 0").split() for node in nodes)]
    first, last = min(x for x, _ in coordinates), max(x for x, _ in coordinates)
    middle = (min(y for _, y in coordinates) + max(y for _, y in coordinates)) / 2
    for node, (x, y) in zip(nodes, coordinates, strict=True):
        node.set("p", f"{x - first + left:.2f} {y - middle:.2f}")
    new = {element.get("id"): str(next(ids)) for element in drawing.iter() if element.get("id")}
    for element in drawing.iter():
        for name in ("id", "B", "E"):
            if element.get(name) in new:
                element.set(name, new[element.get(name)])
    for fragment in drawing.iter("fragment"):
        page.append(fragment)
        fragments.append(fragment.get("id", ""))
    return left + last - first


def _with_coordinates(smiles: str) -> Any | None:
    """Return the molecule with 2-D coordinates and wedges; None if it is invalid or too large."""
    mol = mol_from_smiles(smiles)
    if mol is None or mol.GetNumAtoms() > MOST_ATOMS:
        return None
    with rdBase.BlockLogs(), suppress(*RDKIT_ERRORS):
        add_layout(mol)
        return mol
    return None
