"""Keep the ions of a salt together where a SMILES is taken apart; needs RDKit alone."""

from __future__ import annotations

from rdkit import Chem

from chemspec.chem.query import canonical


def split(smiles: str) -> tuple[str, ...]:
    """Return the molecules of a canonical SMILES, sorted; its ions together are one, as they are bought."""
    parts = smiles.split(".")
    if len(parts) == 1 or not any(sign in smiles for sign in "+-"):
        return tuple(sorted(parts))
    ions = [part for part in parts if Chem.GetFormalCharge(Chem.MolFromSmiles(part))]
    salt = canonical(".".join(ions)) if ions else None
    return tuple(sorted([part for part in parts if part not in ions] + ([salt] if salt else [])))
