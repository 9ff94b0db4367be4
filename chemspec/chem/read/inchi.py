"""InChI and InChIKey."""

from __future__ import annotations

import re

import chemspec.chem.read.tautomer as tautomer
from chemspec.chem import parsing
from chemspec.chem.read.values import Molecules
from chemspec.chem.smiles_syntax import Fault

_INCHI = re.compile(r"\s*[\"']?(?:InChI\s*=\s*)?(1S?/\S+)")
_KEY = re.compile(r"\s*(?:InChIKey\s*=\s*)?[A-Z]{14}-[A-Z]{10}-[A-Z]\s*$", re.IGNORECASE)
_LONGEST_INCHI = 5000


def is_inchi(text: str) -> bool:
    """Return whether a text begins as an InChI."""
    start = text.lstrip("\ufeff \t\r\n")
    return start.startswith("InChI=") or _INCHI.match(start) is not None


def is_inchikey(text: str) -> bool:
    """Return whether a text is an InChIKey."""
    return _KEY.match(text) is not None


def read_inchi(text: str, _: str) -> Molecules | Fault:
    """Read the first InChI of a text."""
    start = next(k for k, char in enumerate(text) if not char.isspace() and char != "\ufeff")
    line = text[start:].split("\n")[0].strip().strip("\"'")
    match = _INCHI.match(line)
    whole = start, start + len(line)
    if match is None:
        return Fault("an InChI begins with InChI=1S/ or InChI=1/", *whole, "syntax")
    if len(line) > _LONGEST_INCHI:
        return Fault(f"this InChI is longer than {_LONGEST_INCHI} characters", *whole, "length")
    # RDKit takes seconds to see that 99999 molecules are too many.
    if re.search(r"\d{4}", match[1].split("/")[1]):
        return Fault("the formula in this InChI is too large", *whole, "length")
    if refusal := parsing.inchi_refusal(f"InChI={match[1]}"):
        return Fault(refusal, *whole, "length")
    mol, code, reason = parsing.mol_from_inchi(f"InChI={match[1]}")
    if mol is None or mol.GetNumAtoms() == 0 or code:
        reason = reason.strip().rstrip(".")
        message = "this InChI cannot be turned into a molecule; is it complete?"
        return Fault(f"{message} ({reason})" if reason else message, *whole, "syntax")
    others = sum(piece.strip().startswith("InChI=") for piece in text.split("\n")) - 1
    notes = ("InChI names no tautomer: this is one of perhaps several",) * ("/h" in line and "(H" in line)
    notes += (f"the first of {others + 1} InChIs",) * (others > 0)
    return Molecules([tautomer.usual_form(mol, f"InChI={match[1]}")], notes)


def refuse_inchikey(text: str, _: str) -> Fault:
    """Refuse an InChIKey."""
    message = "an InChIKey is a fingerprint that cannot be turned back into a molecule"
    return Fault(f"{message}; look it up (PubChem) and enter its SMILES", 0, len(text), "other")
