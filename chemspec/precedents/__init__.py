"""Precedents: patent reactions with the same change as a proposed one, the most similar ones and their reagents.

    from chemspec.precedents import installed

    index = installed()                                   # None if there is none
    found = index.find("CC(=O)Cl.Nc1ccccc1", "CC(=O)Nc1ccccc1")
    found.close, found.nearest[0].patent, found.conditions[0].text

An index is one file, built by `chemspec precedents build`; own reactions (`own`) have further ones. It needs RDKit and
numpy, no model and no streamlit.
"""

from chemspec.precedents.installation import BUILD_COMMAND, installed, installed_if_usable, user_index_path
from chemspec.precedents.search import POOL, Conditions, Found, Precedent, Precedents, in_words

__all__ = [
    "BUILD_COMMAND", "POOL", "Conditions", "Found", "Precedent", "Precedents", "in_words", "installed",
    "installed_if_usable", "user_index_path",
]  # fmt: skip
