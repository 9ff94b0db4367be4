"""Rows of reaction CSVs as reactions: what gives the product atoms, what else was in the flask, and who patented it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rdkit import rdBase
from rdkit.Chem import rdFingerprintGenerator

import chemspec.chem as chem
from chemspec.chem.parsing import mol_from_smiles
from chemspec.precedents.change import Change, change_of, change_of_mapped

# Of processor time to guess the maps of a row; out of reach, lest the index depend on the machine.
SECONDS = 20.0
PATENT = re.compile(r"((?:US|EP|WO)[A-Z]*\d+[A-Z]?\d?)(?:\|(\d{4})(?=\||$))?")
PRODUCT = ("main_product", "product")
REACTANTS = ("core_reactants", "reactants", "reactants_and_reagents")
FLASK = ("reactants_and_reagents", "reactants")
MAPPED = ("mapped_core_rxn", "mapped_rxn")


@dataclass(frozen=True)
class Reaction:
    """A row, as far as it can be told without chemistry.

    Attributes:
        product: SMILES of one molecule, as the row has it.
        reactants: of what gives atoms to it, or of the whole flask where the row does not tell.
        flask: of everything.
        mapped: the reaction with atom maps; empty if there are none.
        patent: number of the patent, its year behind a blank where that is known; or nothing.
    """

    product: str
    reactants: str
    flask: str
    mapped: str
    patent: str


def read_row(row: Mapping[str, str]) -> Reaction | None:
    """Return the reaction of a row, whatever its columns are called; None where it has no product or no reactants."""
    product, reactants, flask, mapped = (
        next((row[name] for name in names if row.get(name)), "") for names in (PRODUCT, REACTANTS, FLASK, MAPPED)
    )
    if not product or not reactants:
        return None
    found = PATENT.match(row.get("patent_id") or row.get("id") or "")
    return Reaction(product, reactants, flask, mapped, " ".join(filter(None, found.groups())) if found else "")


def change(reaction: Reaction, *, guess: bool) -> Change | None:
    """Return what a reaction does, by its atom maps; where it has none that can be used, and `guess`, by guessed ones.

    None where it cannot be read, or makes several molecules, or changes nothing.
    """
    if "." in reaction.product:
        return None
    found = change_of_mapped(reaction.mapped) if reaction.mapped else None
    if found is None and guess:
        found = change_of(reaction.reactants, reaction.product, seconds=SECONDS)
    return found


def without(flask: str, reactants: tuple[str, ...]) -> str:
    """Return the canonical SMILES of what else is in a flask, joined and sorted; ions stay apart."""
    parts = (canonical(part) for part in flask.split(".") if part)
    return ".".join(sorted(part for part in parts if part not in reactants))


@lru_cache(maxsize=20_000)
def canonical(part: str) -> str:
    """Return the canonical SMILES; the text itself where it is invalid. Reagents come again and again."""
    return chem.canonical(part) or part


def fingerprint(smiles: str, bits: int) -> NDArray[np.uint8]:
    """Return the packed circular fingerprint of a valid molecule (radius 2)."""
    with rdBase.BlockLogs():
        found = _generator(bits).GetFingerprintAsNumPy(mol_from_smiles(smiles))
    return np.packbits(found)


@cache
def _generator(bits: int) -> Any:
    return rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=bits)
