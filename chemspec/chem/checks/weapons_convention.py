"""Chemicals of the Chemical Weapons Convention's schedules, by structure, and where they are refused.

Schedule 1, the agents of Schedule 2 and its phosphorus precursors are refused in every question; the other precursors
of Schedule 2 and all of Schedule 3, everyday reagents such as thionyl chloride, as a target only.
"""

import re
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from rdkit import Chem, rdBase

from chemspec.asset_files import read_asset_table
from chemspec.chem.molecules.parsing import mol_from_smarts, mol_from_smiles

MAX_CHARS = 70  # characters, bracket atoms counted as one: of entries without phosphorus saxitoxin has 54
_BRACKETS = re.compile(r"\[[^\]]*\]")
_DEUTERIUM = re.compile(r"\(?\[[23]H\]\)?")
TABLE = Path(__file__).with_name("weapons_convention.tsv")


@dataclass(frozen=True)
class Entry:
    """A line of the table: entry of the annex, where it is refused, what it is, whether its pattern has phosphorus."""

    number: str
    where: str
    what: str
    phosphorus: bool


def refusal(smiles: str, *, target: bool = False) -> str:
    """Return why no prediction is made about molecules (canonical SMILES), in words; empty if none is refused.

    `target`: they are to be made.
    """
    for part in dict.fromkeys(smiles.split(".")):
        entry = scheduled_entry(part)
        if entry is not None and (target or entry.where == "always"):
            return (
                f"{entry.what}: entry {entry.number} of the schedules of the Chemical Weapons Convention; no "
                f"prediction is made{'' if entry.where == 'always' else ' of how to make it'}"
            )
    return ""


@lru_cache(maxsize=20_000)
def scheduled_entry(part: str) -> Entry | None:
    """Return the entry for a molecule, whatever its stereo, isotopes and charges; None if exempt or in no schedule."""
    phosphorus = "P" in part or "p" in part
    size = len(_BRACKETS.sub("C", _DEUTERIUM.sub("", part)))
    if size > MAX_CHARS and not phosphorus and "+" not in part:
        return None  # most molecules of a query: they need not be parsed
    with rdBase.BlockLogs():
        mol = _plain(part) if "[" in part or "/" in part else mol_from_smiles(part)
        if mol is None:
            return None
        exact, patterns = _entries()
        entry = exact.get(Chem.MolToSmiles(mol)) if size <= MAX_CHARS else None
        for pattern, other in () if entry else patterns:
            if (phosphorus or not other.phosphorus) and mol.HasSubstructMatch(pattern):
                entry = other
                break
    return None if entry is None or entry.where == "never" else entry


def _plain(part: str) -> Any | None:
    """Return a molecule without stereo, isotopes, atom maps and charges that a proton explains."""
    mol = mol_from_smiles(part)
    if mol is None:
        return None
    Chem.RemoveStereochemistry(mol)
    for atom in mol.GetAtoms():
        atom.SetIsotope(0)
        atom.SetAtomMapNum(0)
        charge = atom.GetFormalCharge()
        if (charge > 0 and atom.GetTotalNumHs() >= charge) or (charge < 0 and atom.GetSymbol() in ("O", "S")):
            if any(near.GetFormalCharge() * charge < 0 for near in atom.GetNeighbors()):
                continue  # a nitro group or an ylide
            atom.SetFormalCharge(0)
            atom.SetNumExplicitHs(max(0, atom.GetNumExplicitHs() - charge))
            atom.SetNoImplicit(charge > 0 and atom.GetNumExplicitHs() > 0)
    return mol_from_smiles(Chem.MolToSmiles(mol)) or mol


@cache
def _entries() -> tuple[dict[str, Entry], tuple[tuple[Any, Entry], ...]]:
    """Return the entries of one molecule by its SMILES, and the others with their patterns."""
    exact: dict[str, Entry] = {}
    patterns = []
    for number, where, what, structure in read_asset_table(TABLE):
        entry = Entry(number, where, what, structure.startswith("[#15"))
        if structure.startswith("="):
            exact[Chem.MolToSmiles(mol_from_smiles(structure[1:]))] = entry
        else:
            patterns.append((mol_from_smarts(structure), entry))
    return exact, tuple(patterns)
