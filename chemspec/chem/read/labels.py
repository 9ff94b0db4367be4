"""Texts in drawings: words that name molecules, as over an arrow."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from chemspec.chem.names import reagents

LONGEST = 500  # characters; what stands over an arrow is shorter
_NUMBER = r"(?:ca\.?|~|<|>|≥|≤)?\s*\d+(?:[.,]\d+)?(?:\s*(?:-|–|to|:)\s*\d+(?:[.,]\d+)?)?"
_UNIT = (
    r"(?:mol\s?-?%|(?:wt|w/w|v/v|vol)\.?\s?-?%|%|equiv(?:alents?|s)?\.?|eqs?\.?|mmol|µmol|umol|mol|mM|M|N|mL|ml|µL|uL|L"
    r"|mg|g|kg|vols?\.?|x|×|Å|A|°\s?C|°|C|K|h|hrs?\.?|hours?|min\.?|minutes?|s|d|days?|bar|atm|psi|W|nm)"
)
_AMOUNT = rf"{_NUMBER}\s*{_UNIT}(?![A-Za-z(])"
_STATE = (
    r"(?:aq(?:ueous)?|sat(?:urated|d|'d)?|conc(?:entrated)?|dil(?:ute)?|cat(?:alytic)?|anh(?:yd(?:rous)?)?|abs(?:olute)?"
    r"|dry|excess|xs|glacial|neat|fuming|solid|powder(?:ed)?)\b\.?"
)
_LEFT = re.compile(rf"^(?:\(?(?:\d{{1,2}}|[a-h]|[ivx]+)[.)]\)?\s+|{_AMOUNT}\s*(?:of\s+)?|{_STATE}\s*)", re.IGNORECASE)
_RIGHT = re.compile(
    rf"\s*(?:\(\s*(?:{_AMOUNT}|{_STATE}|g|s|l|aq)(?:[,;\s]+(?:{_AMOUNT}|{_STATE}))*\s*\)|\b{_AMOUNT}|\b{_STATE})$",
    re.IGNORECASE,
)
_LIST = re.compile(r"\s*[;\n]\s*|,\s+|,$|\s+[+&]\s+|\s+(?:and|then|with|in)\s+|\s*→\s*")
_CLOSE = re.compile(r"[,/]|\s+")  # parts names only where all pieces are names
_ATMOSPHERE = {"n2", "ar", "nitrogen", "argon", "air"}  # above the flask, not in it


@dataclass(frozen=True)
class Label:
    """What a text in a drawing says."""

    smiles: tuple[str, ...] = ()  # of the molecules that are named
    notes: tuple[str, ...] = ()  # what the names stand for
    rest: tuple[str, ...] = ()  # words that name no molecule, such as conditions


def read_label(text: str) -> Label:
    """Read the names in a text; amounts, states and conditions are no molecules."""
    text = text.strip()
    if len(text) > LONGEST:
        return Label(rest=(f"{text[:60]}...",))
    if whole := _name(" ".join(text.split())):
        return _label([whole], [])
    entries: list[tuple[str, str, str]] = []
    rest: list[str] = []
    for part in filter(None, _LIST.split(text)):
        part = " ".join(part.split())
        named = _name(part)
        several = [] if named else [_name(piece) for piece in filter(None, _CLOSE.split(part))]
        if named:
            entries.append(named)
        elif several and None not in several:
            entries += [entry for entry in several if entry]
        else:
            rest.append(part)
    return _label(entries, rest)


def _label(entries: list[tuple[str, str, str]], rest: list[str]) -> Label:
    in_flask = [entry for entry in entries if entry[0].casefold() not in _ATMOSPHERE]
    above = [name for name, _, _ in entries if name.casefold() in _ATMOSPHERE]
    notes = [name if name.casefold() == full.casefold() else f"{name}: {full}" for name, full, _ in in_flask]
    return Label(tuple(smiles for _, _, smiles in in_flask), tuple(notes), (*rest, *above))


def _name(text: str) -> tuple[str, str, str] | None:
    """Return the name in a text, its full name and its SMILES."""
    while text:
        if reagent := reagents.find_by_name(text):
            return text, reagent[1], reagent[0]
        bare = _RIGHT.sub("", _LEFT.sub("", text, count=1), count=1).strip()
        if bare == text:
            return None
        text = bare
    return None


def text_note(words: Sequence[str]) -> list[str]:
    """Return a note on texts of a drawing that name no molecule; empty if there is none."""
    return [f"text in the drawing left out: {', '.join(filter(None, words))[:60]!r}"] * any(words)
