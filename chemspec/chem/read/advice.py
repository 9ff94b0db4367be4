"""What to add to the fault of a text that was probably never meant as SMILES."""

from __future__ import annotations

import re

import chemspec.chem.names.reagents as reagents
import chemspec.chem.names.spelling as spelling
from chemspec.chem.smiles_syntax import Fault

LONGEST = 300  # characters of a text that is worth it
UNKNOWN_NAME = "this name is not in the built-in list and not a simple systematic one: enter the SMILES"
_RESIDUES = "Ala|Arg|Asn|Asp|Cys|Gln|Glu|Gly|His|Ile|Leu|Lys|Met|Phe|Pro|Ser|Thr|Trp|Tyr|Val|Aib|Orn|Nle|Nva"
_PEPTIDE = re.compile(
    rf"(?:(?:H|Ac|Boc|Fmoc|Cbz|Z|[DL])-)*\(?(?:[DL]-)?(?:{_RESIDUES})\)?(?:\([^()]*\))?(?:-(?:[DL]-)?(?:{_RESIDUES})(?:\([^()]*\))?)*(?:-[A-Za-z0-9]+)?"
)
_SEQUENCE = re.compile("[ACDEFGHIKLMNPQRSTVWY]{6,}")
_HELM = re.compile(r"(?:PEPTIDE|RNA|CHEM|BLOB)\d+\{")


def on(text: str, fault: Fault) -> str:
    """Return advice on a text that cannot be read; empty if there is none."""
    if fault.kind in ("empty", "length", "reaction") or len(text) > LONGEST:
        return ""
    if _HELM.match(text):
        return "; this is HELM (a peptide or nucleic acid), enter its SMILES"
    if _PEPTIDE.fullmatch(text) and re.search(rf"(?:{_RESIDUES})", text):
        return "; this looks like a peptide in three-letter code, enter its SMILES"
    if _SEQUENCE.fullmatch(text):
        return "; perhaps this is the sequence of a peptide, enter its SMILES"
    bare = spelling.plain_name(re.sub(r"^\W*cas[^\d]*", "", text, flags=re.IGNORECASE)).strip("[]()")
    if re.fullmatch(r"\d{2,7}-\d\d-\d", bare):
        is_valid = reagents.is_cas(bare)
        reason = "this CAS number is not in the built-in list" if is_valid else "no CAS number has these digits"
        return f"; {reason}: enter the SMILES"
    if re.search(r"\[[A-Za-z@\d]*[A-Za-z@] (?:\d*)\]?", text):
        return "; perhaps a plus sign became a blank in a link: write %2B for it, as in [N+]"
    if re.search(r"@", text) and "[" not in text:
        return "; perhaps the square brackets were lost, as in Markdown: [C@@H]"
    if re.fullmatch(r"(?:[A-Z][a-z]?\d*){2,}", text) and re.search(r"H\d", text):
        return "; a formula fits many molecules, enter the SMILES of the one you mean"
    letters = re.sub(r"[bcnops]{4,}", "", text)
    if re.search(r"[a-z]{4}", letters) and re.fullmatch(r"[\w\s,()'\-\[\].:+\u2019\u2032\u00b7]+", text):
        return f"; {UNKNOWN_NAME}"
    return ""
