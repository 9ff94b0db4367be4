"""Names that a lab gave its molecules, in tables of its own."""

from functools import cache

from chemspec.chem.molecules.query import canonical
from chemspec.system.lab_files import read_lab_table


@cache
def lab_names() -> dict[str, tuple[str, str]]:
    """Return SMILES and first name by each name in the lab's tables: SMILES, then its names, parted by |."""
    table: dict[str, tuple[str, str]] = {}
    for smiles, names in read_lab_table("names", range(2, 3), lambda row: _check_molecule(row[0])):
        each = [name.strip() for name in names.split("|") if name.strip()]
        table |= {" ".join(name.split()).casefold(): (smiles, each[0]) for name in each}
    return table


def _check_molecule(smiles: str) -> None:
    if not canonical(smiles):
        raise ValueError(f"{smiles!r} is no SMILES of a molecule")
