"""Training pairs of the task `reagents`: from core reactants and product to the other molecules of the mixture."""

from __future__ import annotations

from collections import Counter
from random import Random

from rdkit import rdBase

import chemspec.chem as chem
from chemspec.chem import ARROW
from chemspec.chem.atom_maps import guess_maps
from chemspec.chem.parsing import mol_from_smiles
from chemspec.chem.reagent_sets import other_reagents
from chemspec.chem.root_align import write_randomly
from chemspec.tasks import Pair, Row, WritePair


def reagents_pair(row: Row) -> Pair:
    """Return `reactants>>product` of a row and its other molecules in normal form (`chemspec.chem.reagent_sets`)."""
    core, product = row.get("core_reactants") or "", row.get("main_product") or ""
    return f"{core}{ARROW}{product}", other_reagents(row.get("reactants_and_reagents") or "", core)


def align_reagents_row(row: Row, guess: bool) -> WritePair | None:
    """Return a function that writes query and reagents of a row; None if there are no reagents.

    If the core reactants are unknown, they may be guessed: the molecules that contribute atoms to the product.
    """
    if guess and not row.get("core_reactants"):
        mixture, product = row.get("reactants_and_reagents") or "", row.get("main_product") or ""
        row = {**row, "core_reactants": _guess_core(mixture, product)}
    query, answer = reagents_pair(row)
    core, _, product = query.partition(ARROW)
    if not (core and product and answer):
        return None

    def write(start: Random | None, stereo: bool) -> Pair | None:
        texts = [side if stereo else chem.drop_stereo(side) for side in (core, product)]
        if start is not None:
            texts = [_write_randomly(side, start) if side else None for side in texts]
        return (ARROW.join(filter(None, texts)), answer) if all(texts) else None

    return write


def _guess_core(flask: str, product: str) -> str:
    """Return the molecules of a mixture that contribute atoms to the product, by guessed atom maps; else empty."""
    guessed = guess_maps(flask, product) if flask and product else None
    if guessed is None:
        return ""
    have, idle = (Counter(map(chem.canonical, parts)) for parts in (flask.split("."), guessed[1]))
    return ".".join(filter(None, (have - idle).elements()))


def _write_randomly(side: str, rng: Random) -> str | None:
    """Write a side with randomly rooted molecules in random order."""
    with rdBase.BlockLogs():
        mols = [mol_from_smiles(part) for part in side.split(".")]
        if any(mol is None for mol in mols):
            return None
        return write_randomly(mols, rng)
