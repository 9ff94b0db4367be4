"""What is typed: names, SMILES, and lists of them."""

from __future__ import annotations

import re

import chemspec.chem as chem
import chemspec.chem.names.name_list as name_list
import chemspec.chem.names.reagents as reagents
import chemspec.chem.read.molfile as molfile
from chemspec.chem import parsing, salts
from chemspec.chem.read.molfile import NumberedLine
from chemspec.chem.read.values import Input, Molecules
from chemspec.chem.smiles_syntax import Fault
from chemspec.settings import Task

REACTION = re.compile(
    "(?P<reactant>.*?)(?:(?<!-)>(?P<agent>.*?)(?<!-)>|[\u2192\u21d2\u27f6\u27f9\u279c\u2794])(?P<product>.*)", re.DOTALL
)
LONGEST_LIST = 20_000  # characters; a query has far fewer
_SEPARATOR = re.compile(r"\s*;\s*|,(?:\s+|$)|\s+\+\s+|\s*\n\s*")
_FILLER = re.compile(
    r"(?:^|\s+)(?:(?:in|with|and|plus|\+)(?:\s+|$))+", re.IGNORECASE
)  # between molecules, and means none
_DOT = re.compile(r"\.(?![^\[]*\])")  # not within brackets


def read_names(text: str, side: str) -> Molecules | Fault | None:
    """Read names, alone or in a list with SMILES; None where the text should be read as one SMILES.

    Commas, semicolons, plus signs and lines part the molecules of a list, for the forward task blanks as well, and dots
    where a part is a name. What follows the target of a retro question is taken for its name, as in .smi files.
    """
    if ">" in text or REACTION.fullmatch(text) or len(text) > LONGEST_LIST or chem.is_valid(text.strip()):
        return None
    listed = _listed(text, side)
    if len(listed) == 1 and (found := reagents.find_by_name(listed[0])):
        return Molecules([found[0]], _meaning(listed[0], found[1]))
    named = {part: reagents.find_by_name(part) for part in listed}
    smiles = {part: found[0] if found else part for part, found in named.items()}
    if sum(sum(parsing.ring_labels(written)) for written in smiles.values()) > 2 * parsing.MOST_RINGS:
        return Fault(parsing.TOO_MANY_RINGS, 0, len(text), "length")
    unread = [part for part, written in smiles.items() if not chem.is_valid(written)]
    if len(listed) < 2 or (side == "retro" and not any(named.values())) or (unread and len(unread) == len(listed)):
        return None
    if unread and not any(named.values()):
        return None
    for part in unread:
        at = text.index(part)
        message = f"{part!r} is neither a SMILES nor a name in the built-in list"
        return Fault(message, at, at + len(part), "other")
    notes = [note for part, found in named.items() if found for note in _meaning(part, found[1])]
    different = {chem.canonical(written): written for written in smiles.values()}
    return Molecules(list(different.values()), (*notes, "a list, joined"))


def _listed(text: str, side: str) -> list[str]:
    """Return the parts of a list as they stand in the text."""
    found: list[str] = []
    parts = _SEPARATOR.split(text.strip())
    if side != "retro":  # whose target may have its name behind it
        parts = [piece for part in parts for piece in ([part] if reagents.find_by_name(part) else _FILLER.split(part))]
    for part in filter(None, map(str.strip, parts)):
        pieces = [piece.strip() for piece in _DOT.split(part) if piece.strip()]
        whole = len(pieces) < 2 or reagents.find_by_name(part) or chem.is_valid(part)
        if not whole and any(map(reagents.find_by_name, pieces)):
            found += [word for piece in pieces for word in _words(piece, side)]
        else:
            found += _words(part, side)
    return found


def _words(part: str, side: str) -> list[str]:
    """Return what blanks part, where they part molecules."""
    if side == "retro" or " " not in part or reagents.find_by_name(part):
        return [part]
    return part.split()


def _meaning(name: str, full: str) -> tuple[str, ...]:
    return (f"{name}: {full}",) if name.casefold() != full.casefold() else ()


def read_smiles(text: str, task: Task, max_chars: int) -> Input | Fault:
    """Read a SMILES or reaction SMILES, the first of several lines."""
    lines = [line for line in molfile.split_lines(text) if line.text.strip("\ufeff \t")]
    # A reaction may be broken at its arrow.
    whole = len(lines) < 2 or any(
        line.text.strip().startswith(">") or line.text.rstrip().endswith(">") for line in lines
    )
    first = NumberedLine(1, 0, text) if whole else lines[0]
    read = chem.read_query(first.text, task, max_chars=max_chars)
    if isinstance(read, Fault) and not whole:
        joined = chem.read_query("".join(line.text.strip() for line in lines), task, max_chars=max_chars)
        if not isinstance(joined, Fault):
            notes = (*joined.notes, "line breaks removed")
            return Input(joined.smiles, _kind(text), notes, salts.in_typed_order(joined.typed, joined.smiles))
    if isinstance(read, Fault):
        message = read.message + _advice(first.text.strip(), read)
        return Fault(message, first.start + read.start, first.start + read.end, read.kind)
    notes = read.notes
    if not whole:
        notes += (f"the first of {len(lines)} lines; the Batch page takes many",)
    if found := reagents.find_by_name(first.text):
        notes += (f"read as SMILES; {found[1]} is {found[0]}",)
    return Input(read.smiles, _kind(first.text), notes, salts.in_typed_order(read.typed, read.smiles))


def _kind(text: str) -> str:
    return "reaction SMILES" if re.search("(?<!-)>", text) or "\N{RIGHTWARDS ARROW}" in text else "SMILES"


def _advice(text: str, fault: Fault) -> str:
    """Return what to add to a fault in a text that was probably never meant as SMILES."""
    if fault.kind in ("empty", "length", "reaction"):
        return ""
    if re.fullmatch(r"\d{2,7}-\d\d-\d", text):
        known = name_list.is_cas(text)
        told = "this CAS number is not in the built-in list" if known else "no CAS number has these digits"
        return f"; {told}: enter the SMILES"
    if re.fullmatch(r"(?:[A-Z][a-z]?\d*){2,}", text) and re.search(r"H\d", text):
        return "; a formula fits many molecules, enter the SMILES of the one you mean"
    if re.search(r"[a-z]{4}", re.sub(r"[bcnops]{4,}", "", text)) and re.fullmatch(r"[\w\s,()'\-\[\]]+", text):
        return "; this name is not in the built-in list and no simple systematic one: enter the SMILES"
    return ""
