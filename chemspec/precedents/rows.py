"""Parse rows of reaction CSVs: product, reactants, other molecules of the mixture, and patent."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rdkit.Chem import rdFingerprintGenerator

import chemspec.chem as chem
from chemspec.chem.parsing import mol_from_smiles
from chemspec.precedents.change import Change, change_of, change_of_mapped

# Limit of processor time for guessing the maps of a row; never reached, so that the index does not depend on the
# machine.
SECONDS = 20.0
PATENT = re.compile(r"((?:US|EP|WO)[A-Z]*\d+[A-Z]?\d?)(?:\|(\d{4})(?=\||$))?")
PRODUCT = ("main_product", "product")
REACTANTS = ("core_reactants", "reactants", "reactants_and_reagents")
FLASK = ("reactants_and_reagents", "reactants")
MAPPED = ("mapped_core_rxn", "mapped_rxn")


@dataclass(frozen=True)
class Reaction:
    """A row of a CSV, before any chemistry."""

    product: str  # SMILES of one molecule, as written in the row
    reactants: str  # SMILES of the molecules that contribute atoms, or of all if the row does not separate them
    flask: str  # SMILES of the whole reaction mixture
    mapped: str  # the reaction with atom maps, or empty
    patent: str  # number of the patent, followed by a blank and its year if known; or empty


def read_row(row: Mapping[str, str]) -> Reaction | None:
    """Return the reaction of a row with any of the supported columns; None without product or reactants."""
    product, reactants, flask, mapped = (
        next((row[name] for name in names if row.get(name)), "") for names in (PRODUCT, REACTANTS, FLASK, MAPPED)
    )
    if not product or not reactants:
        return None
    match = PATENT.match(row.get("patent_id") or row.get("id") or "")
    return Reaction(product, reactants, flask, mapped, " ".join(filter(None, match.groups())) if match else "")


def change_of_reaction(reaction: Reaction, *, guess: bool) -> Change | None:
    """Return the change of a reaction by its atom maps, or by guessed ones if these are unusable and `guess` is set.

    None if it is invalid, has several products, or changes nothing.
    """
    if "." in reaction.product:
        return None
    result = change_of_mapped(reaction.mapped) if reaction.mapped else None
    if result is None and guess:
        result = change_of(reaction.reactants, reaction.product, seconds=SECONDS)
    return result


def other_molecules(flask: str, reactants: tuple[str, ...]) -> str:
    """Return the canonical SMILES of the other molecules of a mixture, joined and sorted; ions are separate."""
    parts = (cached_canonical(part) for part in flask.split(".") if part)
    return ".".join(sorted(part for part in parts if part not in reactants))


@lru_cache(maxsize=20_000)
def cached_canonical(part: str) -> str:
    """Return the canonical SMILES, or the text itself if it is invalid; cached, since reagents recur."""
    return chem.canonical(part) or part


def product_fingerprint(smiles: str, bits: int) -> NDArray[np.uint8]:
    """Return the packed circular fingerprint of a valid molecule (radius 2)."""
    return np.packbits(_fingerprint_generator(bits).GetFingerprintAsNumPy(mol_from_smiles(smiles)))


@cache
def _fingerprint_generator(bits: int) -> Any:
    return rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=bits)
