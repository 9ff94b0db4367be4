"""Formats that are recognised only to be refused with a remedy."""

from __future__ import annotations

import re

from chemspec.chem.read.values import EXPORT
from chemspec.chem.smiles_syntax import Fault

_REFUSED = (
    (r"\{", f"this is JSON (perhaps Ketcher's KET); {EXPORT}"),
    (r"@<TRIPOS>", f"this is a mol2 file, which is not read; {EXPORT}"),
    (r"(?:HEADER|CRYST1|COMPND|HETATM|ATOM  )[ \d]", f"this is a PDB file: coordinates without bond orders; {EXPORT}"),
    (r"data_\S*\s|loop_\s", f"this is a CIF file: coordinates without bond orders; {EXPORT}"),
    (
        r"\d+[ \t]*\r?\n.*\r?\n\s*[A-Z][a-z]?(?:\s+-?\d*\.\d+){3}",
        f"this is an XYZ file: coordinates without bonds; {EXPORT}",
    ),
    (r"(?:\[[^\[\]]+\])*\[=?(?:Branch|Ring)\d\]", "this is SELFIES; write it as SMILES"),
)


def refusal_of(text: str) -> str:
    """Return why a text of some other format is refused; empty if it is of none known."""
    start = text.lstrip("\ufeff \t\r\n")
    return next((message for pattern, message in _REFUSED if re.match(pattern, start)), "")


def refuse(text: str, _: str) -> Fault:
    """Refuse a text of some other format."""
    return Fault(refusal_of(text), 0, len(text), "other")
