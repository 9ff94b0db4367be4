"""Read derivatives named by a parent that OPSIN does not know: estrone methyl ether, cholesterol benzoate."""

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from rdkit import Chem

from chemspec.asset_files import read_asset_table
from chemspec.chem.molecules.parsing import fixed_reaction, mol_from_smiles
from chemspec.chem.molecules.query import canonical


@cache
def _table() -> list[tuple[re.Pattern[str], str, Any]]:
    rows = read_asset_table(Path(__file__).with_name("derivatives.tsv"))
    return [(re.compile(pattern, re.IGNORECASE), other, fixed_reaction(smarts)) for pattern, other, smarts in rows]


def read(name: str, molecule: Callable[[str], str | None]) -> str | None:
    """Return the SMILES of a derivative; None unless the parent is known and has one place for it."""
    for pattern, partner, reaction in _table():
        match = pattern.fullmatch(name)
        if match is None or not (parent := molecule(match[1])):
            continue
        other = molecule(partner.format(*match.groups()[1:]))
        made = reaction.RunReactants((mol_from_smiles(parent), mol_from_smiles(other))) if other else ()
        products = {canonical(Chem.MolToSmiles(product)) or "" for (product,) in made}
        rest = (mol_from_smiles(product) for product in products)
        is_whole = "mono" in name or not any(mol.HasSubstructMatch(reaction.GetReactantTemplate(0)) for mol in rest)
        if len(products) == 1 and is_whole:
            return next(iter(products))
    return None
