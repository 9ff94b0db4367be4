"""Advice on texts that cannot be read: what they are, near names, and what to do."""

import re
from pathlib import Path

import chemspec.chem.reading.names.near_names as near_names
import chemspec.chem.reading.names.reagents as reagents
import chemspec.chem.reading.names.spelling as spelling
from chemspec.asset_files import read_asset_table
from chemspec.chem.reading.names.opsin import opsin_command
from chemspec.system import extras

MAX_ADVISED_CHARS = 300  # characters of a text that is worth it
UNKNOWN_NAME = "this name is not in the built-in list"
UNKNOWN_CAS = "this CAS number is not in the built-in list"
NO_CAS = "no CAS number has these digits"
STANDS_ALONE = (UNKNOWN_NAME, UNKNOWN_CAS, NO_CAS)  # beginnings of advice that replaces a fault of SMILES
_ADVICE = [(re.compile(row[0]), row[1]) for row in read_asset_table(Path(__file__).with_name("advice.tsv"))]


def unknown_name(name: str) -> str:
    """Return a message on a name that is not known, with near names, or how names of its kind can be read."""
    if near := near_names.near_names(name):
        return f"{UNKNOWN_NAME}; did you mean {' or '.join(near)}?"  # of a systematic name, too: it may be another's
    systematic = "" if opsin_command() else f"; systematic names need OPSIN ({extras.install_command('names')})"
    return f"{UNKNOWN_NAME}{systematic}: enter the SMILES, or draw it"


def advice_on(text: str, kind: str = "other") -> str:
    """Return advice on a text that cannot be read for a fault of this kind; empty if there is none."""
    if kind in ("empty", "length", "reaction") or len(text) > MAX_ADVISED_CHARS:
        return ""
    bare = spelling.plain_name(re.sub(r"^\W*cas[^\d]*", "", text, flags=re.IGNORECASE)).strip("[]()")
    if re.fullmatch(r"\d{2,7}-\d\d-\d", bare):
        return f"{UNKNOWN_CAS if reagents.is_cas(bare) else NO_CAS}: enter the name or the SMILES"
    if advice := next((words for pattern, words in _ADVICE if pattern.fullmatch(text)), ""):
        return advice
    letters = re.sub(r"[bcnops]{4,}", "", text)
    if re.search(r"[a-z]{4}", letters) and re.fullmatch(r"[\w\s,()'\-\[\].:+\u2019\u2032\u00b7]+", text):
        return unknown_name(text)
    if kind == "atom" and re.fullmatch(r"[A-Za-z][A-Za-z0-9-]{1,11}", text):
        return "as an abbreviation it is not in the built-in list"
    return ""
