"""Chemistry in any file format: `read_any` makes a query of it, and `to_*` write answers."""

from chemspec.chem.formats.exports import to_cdxml, to_png, to_rdf, to_reaction_cdxml, to_rxn, to_sdf
from chemspec.chem.formats.read import LARGEST, OTHER_SIDE, Input, read_any

__all__ = [
    "LARGEST",
    "OTHER_SIDE",
    "Input",
    "read_any",
    "to_cdxml",
    "to_png",
    "to_rdf",
    "to_reaction_cdxml",
    "to_rxn",
    "to_sdf",
]
