"""File formats: `read_input` parses a query in any format, and `to_*` write molecules, reactions and predictions."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import count
from typing import Any, NamedTuple
from xml.etree import ElementTree

from rdkit import Chem, rdBase
from rdkit.Chem import rdChemReactions

import chemspec.chem as chem
from chemspec.chem.checks.weapons_convention import refusal
from chemspec.chem.molecules.layout import add_layout
from chemspec.chem.molecules.parsing import mol_from_smiles
from chemspec.chem.molecules.rdkit_tasks import RDKIT_ERRORS
from chemspec.chem.reading.reader import MAX_TEXT as MAX_TEXT
from chemspec.chem.reading.reader import read_text
from chemspec.chem.reading.values import OTHER_SIDE as OTHER_SIDE
from chemspec.chem.reading.values import Input as Input
from chemspec.settings import Task

MAX_ATOMS = 999  # limit of the V2000 format, and more than a drawing can show


def read_input(text: str | bytes, *, task: Task, max_chars: int = 1000) -> Input | chem.Fault:
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
                if mol is None or mol.GetNumAtoms() > MAX_ATOMS:
                    return ""
                # The reaction writer would keep aromatic bonds, and [nH] would lose its hydrogen.
                Chem.Kekulize(mol, clearAromaticFlags=True)
                add(mol)
        rdChemReactions.Compute2DCoordsForReaction(reaction, spacing=1.5, updateProps=False)
        return str(rdChemReactions.ReactionToRxnBlock(reaction))
    return ""


_BOND = 14.4  # bond length in points in a ChemDraw file


class DrawnStep(NamedTuple):
    """A reaction as it is drawn: molecules with coordinates, the text over the arrow, and a title."""

    left: Sequence[Any]
    right: Sequence[Any]
    above: str
    title: str = ""


def to_reaction_cdxml(steps: Sequence[DrawnStep]) -> str:
    """Return a ChemDraw file of reactions below each other; empty if this RDKit version cannot, or one is too large."""
    mols = [mol for step in steps for mol in (*step.left, *step.right)]
    if not hasattr(Chem, "MolToCDXMLBlock") or any(mol.GetNumAtoms() > MAX_ATOMS for mol in mols):
        return ""
    document = ElementTree.Element("CDXML", id="1", BondLength=f"{_BOND}")
    page = ElementTree.SubElement(document, "page", id="2")
    ids, top = count(3), 0.0
    schemes: list[Any] = []
    for step in steps:
        top = _add_step(page, schemes, step, top, ids) + 3 * _BOND
    page.extend(schemes)  # behind what they name
    body = ElementTree.tostring(document, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8" ?>\n<!DOCTYPE CDXML SYSTEM "{_DTD}" >\n{body}\n'


_DTD = "http://www.cambridgesoft.com/xml/cdxml.dtd"


def _add_step(page: Any, schemes: list[Any], step: DrawnStep, top: float, ids: Iterator[int]) -> float:
    """Add a reaction to a page, and to the schemes what stands for what; returns its lower end."""
    sides = [[_cdxml_drawing(mol) for mol in mols] for mols in (step.left, step.right)]
    height = max((drawing.height for side in sides for drawing in side), default=0.0)
    if step.title:
        _add_text(page, step.title, 0.0, top + 10, "Left", ids)
        top += 2 * _BOND
    middle, x = top + height / 2, 0.0
    roles: dict[str, list[str]] = {}
    for number, side in enumerate(sides):
        if number:
            long = max(6 * _BOND, 6.0 * len(step.above))
            ends = {"Tail3D": f"{x:.2f} {middle:.2f} 0", "Head3D": f"{x + long:.2f} {middle:.2f} 0"}
            box = f"{x:.2f} {middle - 6:.2f} {x + long:.2f} {middle + 6:.2f}"
            head = {"ArrowheadHead": "Full", "ArrowheadType": "Solid", "BoundingBox": box}
            roles["Arrows"] = [str(next(ids))]
            ElementTree.SubElement(page, "arrow", {"id": roles["Arrows"][0], **ends, **head})
            if step.above:
                roles["ObjectsAboveArrow"] = [_add_text(page, step.above, x + long / 2, middle - 8, "Center", ids)]
            x += long + 2 * _BOND
        fragments = roles["Products" if number else "Reactants"] = []
        for drawing in side:
            fragments += drawing.place(page, x, middle, ids)
            x += drawing.width + 2 * _BOND
    scheme = ElementTree.Element("scheme", id=str(next(ids)))
    named = {f"ReactionStep{role}": " ".join(members) for role, members in roles.items()}
    ElementTree.SubElement(scheme, "step", {"id": str(next(ids)), **named})
    schemes.append(scheme)
    return top + height


def _add_text(page: Any, text: str, x: float, y: float, justified: str, ids: Iterator[int]) -> str:
    """Add a text without control characters, which XML cannot hold, to a page; returns its number."""
    number = str(next(ids))
    written = ElementTree.SubElement(page, "t", id=number, p=f"{x:.2f} {y:.2f}", CaptionJustification=justified)
    ElementTree.SubElement(written, "s", size="10").text = re.sub(r"[\x00-\x1f\ud800-\udfff\ufffe\uffff]+", " ", text)
    return number


class _Drawing(NamedTuple):
    """RDKit's drawing of a molecule as XML, its extent, and its upper left corner."""

    tree: Any
    width: float
    height: float
    left: float
    top: float

    def place(self, page: Any, left: float, middle: float, ids: Iterator[int]) -> list[str]:
        """Add it to a page from `left`, around a height; returns the numbers of its fragments."""
        for node in self.tree.iter("n"):
            x, y = map(float, node.get("p", "0 0").split())
            node.set("p", f"{x - self.left + left:.2f} {y - self.top - self.height / 2 + middle:.2f}")
        new = {element.get("id"): str(next(ids)) for element in self.tree.iter() if element.get("id")}
        for element in self.tree.iter():
            for name in ("id", "B", "E"):
                if element.get(name) in new:
                    element.set(name, new[element.get(name)])
        fragments = [*self.tree.iter("fragment")]
        page.extend(fragments)
        return [fragment.get("id", "") for fragment in fragments]


def _cdxml_drawing(mol: Any) -> _Drawing:
    """Return RDKit's drawing of a molecule with coordinates."""
    flat = Chem.Mol(mol)
    with rdBase.BlockLogs():
        Chem.Kekulize(flat)
        tree = ElementTree.fromstring(str(Chem.MolToCDXMLBlock(flat)).split(">", 2)[2])
    coordinates = [tuple(map(float, node.get("p", "0 0").split())) for node in tree.iter("n")]
    left, top = (min(values) for values in zip(*coordinates, strict=True))
    right, low = (max(values) for values in zip(*coordinates, strict=True))
    return _Drawing(tree, right - left, low - top, left, top)


def _with_coordinates(smiles: str) -> Any | None:
    """Return the molecule with 2-D coordinates and wedges; None if it is invalid or too large."""
    mol = mol_from_smiles(smiles)
    if mol is None or mol.GetNumAtoms() > MAX_ATOMS:
        return None
    with rdBase.BlockLogs(), suppress(*RDKIT_ERRORS):
        add_layout(mol)
        return mol
    return None
