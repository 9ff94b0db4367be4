"""Whether a molecule that a patent started from is likely sold as a building block, or rather an intermediate."""

from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from chemspec.asset_files import read_asset_table
from chemspec.chem.molecules.parsing import mol_from_smarts, mol_from_smiles

FOLDER = Path(__file__).parent
MAX_ATOMS = 21  # heavy atoms up to which a molecule of a patent counts as sold


@lru_cache(maxsize=50_000)
def why_intermediate(smiles: str) -> str:
    """Return why a molecule is rather an intermediate of a patent than a building block that is sold; empty if not.

    The law: more than `MAX_ATOMS` heavy atoms in its largest part (counterions are not counted), or a group of
    `protecting_groups.tsv` in a molecule above the size that is sold with it.
    """
    parts = filter(None, map(mol_from_smiles, smiles.split(".")))
    mol = max(parts, key=lambda part: int(part.GetNumHeavyAtoms()), default=None)
    if mol is None:
        return ""
    if (atoms := mol.GetNumHeavyAtoms()) > MAX_ATOMS:
        return f"{atoms} heavy atoms"
    return next((name for name, pattern, most in _groups() if atoms > most and mol.HasSubstructMatch(pattern)), "")


@cache
def _groups() -> tuple[tuple[str, Any, int], ...]:
    rows = read_asset_table(FOLDER / "protecting_groups.tsv")
    return tuple((name, mol_from_smarts(smarts), int(most)) for name, smarts, most in rows)
