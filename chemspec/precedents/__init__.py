"""Reactions from patents that do what a proposed one does: how many, the nearest, their reagents.

    from chemspec.precedents import installed

    index = installed()                                   # None where there is none
    found = index.find("CC(=O)Cl.Nc1ccccc1", "CC(=O)Nc1ccccc1")
    found.close, found.nearest[0].patent, found.conditions[0].text

An index is one file, made by `chemspec precedents build`. It needs RDKit and numpy, no model and no streamlit.
"""

from chemspec.precedents.default import HOW, installed, own_place
from chemspec.precedents.search import POOL, Conditions, Found, Precedent, Precedents, in_words

__all__ = ["HOW", "POOL", "Conditions", "Found", "Precedent", "Precedents", "in_words", "installed", "own_place"]
