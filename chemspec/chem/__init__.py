"""Chemistry as plain values: queries and molecules, reactions, file formats."""

from chemspec.chem.query import (
    LONGEST,
    Fault,
    Query,
    atom_tokens,
    canonical,
    canonical_parts,
    drop_stereo,
    explain,
    formula_balance,
    is_valid,
    main_product,
    pointer,
    read_query,
    same_molecules,
)

__all__ = [
    "LONGEST",
    "Fault",
    "Query",
    "atom_tokens",
    "canonical",
    "canonical_parts",
    "drop_stereo",
    "explain",
    "formula_balance",
    "is_valid",
    "main_product",
    "pointer",
    "read_query",
    "same_molecules",
]
