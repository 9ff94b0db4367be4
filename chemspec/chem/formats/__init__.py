"""File formats: `read_any` parses a query in any format, and `to_*` write predictions."""

from chemspec.chem.formats.exports import to_cdxml, to_rdf, to_reaction_cdxml, to_rxn, to_sdf
from chemspec.chem.read import LARGEST, OTHER_SIDE, Input, read_any

__all__ = ["LARGEST", "OTHER_SIDE", "Input", "read_any", "to_cdxml", "to_rdf", "to_reaction_cdxml", "to_rxn", "to_sdf"]
