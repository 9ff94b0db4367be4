"""Standard InChIKeys, by which molecules of a stock list are known."""

from __future__ import annotations

import re
from functools import lru_cache

from rdkit import Chem, rdBase

from chemspec.chem.parsing import mol_from_smiles

KEY = re.compile(r"[A-Z]{14}-[A-Z]{10}-[A-Z]")
COLUMNS = ("inchikey", "inchi_key", "inchi key")  # of a table, what the column with InChIKeys may be called


@lru_cache(maxsize=100_000)
def inchikey(smiles: str) -> str:
    """Return a molecule's standard InChIKey; empty where there is none."""
    with rdBase.BlockLogs():
        mol = mol_from_smiles(smiles)
        return "" if mol is None else str(Chem.MolToInchiKey(mol))  # type: ignore[no-untyped-call]
