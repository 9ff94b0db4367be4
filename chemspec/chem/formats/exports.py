"""Molecules, reactions and answers in the formats that other programs read."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from typing import Any

from rdkit import Chem, rdBase
from rdkit.Chem import rdChemReactions, rdDepictor
from rdkit.Chem.Draw import rdMolDraw2D

from chemspec import chem
from chemspec.chem.formats.molfile import RDKIT_ERRORS
from chemspec.types import DecodeResult

MOST_ATOMS = 999  # what a V2000 table can hold, and more than a drawing can show
CSV_COLUMNS = ("query", "rank", "smiles", "canonical", "valid", "log_prob", "probability", "status", "message")


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


def to_csv(results: Sequence[DecodeResult]) -> str:
    """Return a table, one line for each answer, and one for each query without answers. Columns: `CSV_COLUMNS`.

    A cell of text that a spreadsheet would take for a formula (it begins with = + - @ or a tab) gets an apostrophe in
    front, unless it is a number; line breaks become blanks.
    """
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\r\n")
    writer.writerow(CSV_COLUMNS)
    for result in results:
        for line in _answers(result):
            writer.writerow([cell(value) for value in line])
    return buffer.getvalue()


def _answers(result: DecodeResult) -> list[list[object]]:
    tail = [result.status, "; ".join(filter(None, [result.message, *result.notes]))]
    if not result.hypotheses:
        return [[result.query, "", "", "", "", "", "", *tail]]
    return [
        [
            result.query,
            rank,
            found.smiles,
            found.canonical,
            "yes" if found.valid else "no",
            f"{found.log_prob:.6f}",
            f"{found.probability:.6g}",
            *tail,
        ]
        for rank, found in enumerate(result.hypotheses, 1)
    ]


_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
# The full-width forms count as well: some spreadsheets turn them into the plain ones.
_FORMULA = re.compile(r"\s*[=+\-@\uff1d\uff0b\uff0d\uff20\t]")


def cell(value: object) -> str:
    """Return a value as text that no spreadsheet takes for a formula, without line breaks."""
    raw = str(value)
    text = re.sub(r"[\r\n\v\f\x1c-\x1e\x85\u2028\u2029]+", " ", raw).replace("\0", "\N{REPLACEMENT CHARACTER}")
    text = text.encode("utf-8", errors="backslashreplace").decode("utf-8")
    return f"'{text}" if _FORMULA.match(raw) and not _NUMBER.fullmatch(text) else text


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
        mol = Chem.MolFromSmiles(smiles)
        if mol is None or mol.GetNumAtoms() > MOST_ATOMS:
            return None
        try:
            rdDepictor.Compute2DCoords(mol)
        except RDKIT_ERRORS:
            return None
    return mol
