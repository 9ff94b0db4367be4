"""Scan the syntax of SMILES by RDKit's rules: text positions of atoms, and position of the first fault.

RDKit does not report the position of an open ring, and others only in its log, which is global to the process.
"""

import re
import unicodedata
from dataclasses import dataclass, field

from rdkit import Chem


@dataclass(frozen=True)
class Fault:
    """The reason why a text is not a usable SMILES, and the span [start, end) of the fault."""

    message: str
    start: int
    end: int
    kind: str  # empty, length, syntax, atom, bond, ring, valence, aromaticity, reaction, regulated or other

    def __str__(self) -> str:
        first, last = self.start + 1, self.end
        if last < first:
            return self.message
        position = f"characters {first}-{last}" if last > first else f"character {first}"
        return f"{self.message} ({position})"


_TOKEN = re.compile(
    r"(?P<atom>\[[^\[\]]*\]|Cl|Br|[BCNOPSFI]|[bcnops]|\*)|(?P<bond>->|<-|\\\\|[-=#$:~/\\])"
    r"|(?P<ring>%\(\d{1,5}\)|%[1-9]\d|\d)|(?P<open>\()|(?P<close>\))|(?P<dot>\.)"
)
_ELEMENTS = tuple(Chem.GetPeriodicTable().GetElementSymbol(n) for n in range(1, 119))
_TEMPORARY = ("Uun", "Uuu", "Uub", "Uut", "Uuq", "Uup", "Uuh", "Uus", "Uuo")  # still known to RDKit
_AROMATIC = ("b", "c", "n", "o", "p", "s", "as", "se", "si", "te")
_SYMBOL = "|".join(sorted(_ELEMENTS + _TEMPORARY + _AROMATIC, key=len, reverse=True))
_NUMBER = r"(?:0|[1-9]\d*)"
_GEOMETRY = {"TH": 2, "AL": 2, "SP": 3, "TB": 20, "OH": 30}
# The fields of a bracket atom in their order; each but the symbol may be missing.
_FIELDS = tuple(
    re.compile(pattern)
    for pattern in (
        rf"{_NUMBER}?",
        rf"{_SYMBOL}|\*|#{_NUMBER}",
        r"(?:@(?:TH|AL|SP|TB|OH)(?:[1-9]\d?)?|@@?)?",
        rf"(?:H{_NUMBER}?)?",
        rf"(?:[+-]{_NUMBER}|\+\+|--|[+-])?",
        rf"(?::{_NUMBER})?",
    )
)
_BARE = "B C N O P S F Cl Br I b c n o p s"
# Which token may follow which; "twig" is a bond that opens a branch.
_HELD = frozenset({"atom", "ring", "close"})
_AFTER = {
    "atom": _HELD | {"start", "open", "dot", "bond", "twig"},
    "bond": _HELD | {"open"},
    "ring": _HELD | {"bond"},
    "open": _HELD,
    "close": _HELD,
    "dot": _HELD,
    "end": _HELD,
}
_NAMES = {"bond": "bond", "ring": "ring label", "open": "branch", "dot": "dot"}


@dataclass
class Scan:
    """One reading of a SMILES, left to right, up to its first fault."""

    smiles: str
    atoms: list[tuple[int, int]] = field(default_factory=list)  # span of each atom, as RDKit counts
    fault: Fault | None = None
    before: str = "start"  # kind of the token read last, and its span
    last: tuple[int, int] = (0, 0)
    here: int | None = None  # the atom that the next one is bonded to
    branches: list[tuple[int | None, int]] = field(default_factory=list)  # atom, position of "("
    rings: dict[int, tuple[int, int, int]] = field(default_factory=dict)  # atom, span of label
    bonds: set[frozenset[int]] = field(default_factory=set)

    def set_fault(self, message: str, start: int, end: int, kind: str = "syntax") -> None:
        """Note a fault, unless there is one already."""
        self.fault = self.fault or Fault(message, start, end, kind)


def scan_smiles(smiles: str) -> Scan:
    """Scan a SMILES up to its first fault."""
    scan, position = Scan(smiles), 0
    while scan.fault is None and position < len(smiles):
        match = _TOKEN.match(smiles, position)
        if match is None or match.lastgroup is None:
            scan.fault = _stray_character(smiles, position)
            break
        _handle_token(scan, match.lastgroup, *match.span())
        position = match.end()
    if scan.fault is None:
        _check_end(scan)
    return scan


def _handle_token(scan: Scan, kind: str, start: int, end: int) -> None:
    if kind == "close" and not scan.branches:
        scan.set_fault("this ) closes no (", start, end)
        return
    if scan.before not in _AFTER[kind]:
        _misplaced_token(scan, kind, start, end)
        return
    if kind == "atom":
        _add_atom(scan, start, end)
    elif kind == "ring":
        _handle_ring(scan, start, end)
    elif kind == "open":
        scan.branches.append((scan.here, start))
    elif kind == "close":
        scan.here, _ = scan.branches.pop()
    elif kind == "dot":
        scan.here = None
    scan.before = "twig" if kind == "bond" and scan.before == "open" else kind
    scan.last = start, end


def _misplaced_token(scan: Scan, kind: str, start: int, end: int) -> None:
    first, last = scan.last
    if scan.before in ("bond", "twig") and kind == "bond":
        scan.set_fault("two bonds in a row", first, end)
    elif scan.before in ("bond", "twig"):
        scan.set_fault(f"the bond {scan.smiles[first:last]} leads to no atom", first, last)
    elif scan.before == "open" and kind == "close":
        scan.set_fault("this branch is empty", first, end)
    elif kind in ("end", "close"):
        scan.set_fault("nothing follows this dot", first, last)
    else:
        scan.set_fault(f"this {_NAMES[kind]} needs an atom before it", start, end)


def _add_atom(scan: Scan, start: int, end: int) -> None:
    if scan.smiles[start] == "[":
        scan.fault = _bracket_fault(scan.smiles[start:end], start)
    atom = len(scan.atoms)
    scan.atoms.append((start, end))
    if scan.here is not None:
        scan.bonds.add(frozenset({scan.here, atom}))
    scan.here = atom


def _handle_ring(scan: Scan, start: int, end: int) -> None:
    assert scan.here is not None  # _AFTER lets a label stand only behind an atom
    label = int(scan.smiles[start:end].strip("%()"))
    if label not in scan.rings:
        scan.rings[label] = scan.here, start, end
        return
    atom, opened, _ = scan.rings.pop(label)
    if atom == scan.here:
        scan.set_fault(f"ring {label} opens and closes on the same atom", opened, end, "ring")
    elif frozenset({atom, scan.here}) in scan.bonds:
        scan.set_fault(f"ring {label} closes between two atoms that are bonded already", start, end, "ring")
    scan.bonds.add(frozenset({atom, scan.here}))


def _check_end(scan: Scan) -> None:
    if scan.branches and scan.before not in ("bond", "twig", "dot"):
        position = scan.branches[-1][1]
        scan.set_fault("this ( is never closed", position, position + 1)
    elif scan.before not in _AFTER["end"]:
        _misplaced_token(scan, "end", len(scan.smiles), len(scan.smiles))
    for label, (_, start, end) in scan.rings.items():
        scan.set_fault(f"ring {label} is opened here but never closed", start, end, "ring")


def _bracket_fault(atom: str, offset: int) -> Fault | None:
    position, symbol = 1, ""
    for number, pattern in enumerate(_FIELDS):
        match = pattern.match(atom, position)
        if match is None:
            return _unknown_symbol(atom, position, offset)
        text, span = match.group(), (offset + position, offset + match.end())
        position = match.end()
        if len(re.sub(r"\D", "", text)) > 9:
            return Fault("this number is too large", *span, "syntax")
        symbol = text if number == 1 else symbol
        if number == 2 and text and symbol == "H":
            return Fault("a hydrogen atom cannot be a stereocentre", *span, "syntax")
        if text.startswith("#") and int(text[1:]) > len(_ELEMENTS):
            return Fault(f"there is no element {text[1:]}", *span, "atom")
        if number == 2 and text[3:] and int(text[3:]) > _GEOMETRY[text[1:3]]:
            return Fault(f"there is no arrangement {text}", *span, "syntax")
    if position == len(atom) - 1:
        return None
    pair = atom[position - 1 : position + 1]
    if atom[position].isupper() and pair.capitalize() in _ELEMENTS:
        message = f"{pair} should be written {pair.capitalize()}: {atom.replace(pair, pair.capitalize())}"
        return Fault(message, offset + position - 1, offset + position + 1, "atom")
    message = f"{describe_character(atom[position])} cannot stand here in {atom}"
    return Fault(message, offset + position, offset + position + 1, "syntax")


def _unknown_symbol(atom: str, position: int, offset: int) -> Fault:
    letters = re.compile(r"[A-Za-z]*").match(atom, position)
    end = max(position + 1, letters.end() if letters else 0)
    if end - position > 1 or atom[position].isalpha():
        word = atom[position:end]
        hint = f"; {_ISOTOPES[word]}" if word in _ISOTOPES else ""
        return Fault(f"{word} is no element{hint}", offset + position, offset + end, "atom")
    if atom[position] == "]":
        return Fault(f"the brackets {atom} hold no element", offset, offset + len(atom), "atom")
    return Fault(f"{describe_character(atom[position])} is no element", offset + position, offset + end, "syntax")


_ISOTOPES = {"D": "deuterium is [2H]", "T": "tritium is [3H]"}
_STRAY = {
    "[": ("this [ is never closed", "syntax"),
    "]": ("this ] closes no [", "syntax"),
    "%": ("% needs two digits, as in %10", "ring"),
    ">": ("a reaction arrow cannot stand in a molecule", "reaction"),
}


def _stray_character(smiles: str, position: int) -> Fault:
    char, here = smiles[position], (position, position + 1)
    if char in _STRAY:
        message, kind = _STRAY[char]
        return Fault(message, *here, kind)
    if not (char.isascii() and char.isalpha()):
        return Fault(f"{describe_character(char)} is not part of SMILES", *here, "syntax")
    for start in (position - 1, position):
        pair = smiles[max(0, start) : start + 2]
        if pair.capitalize() in ("Cl", "Br"):
            return Fault(f"{pair} should be written {pair.capitalize()}", start, start + 2, "atom")
        if pair in _ELEMENTS and len(pair) == 2:
            return Fault(f"{pair} needs brackets: [{pair}]", start, start + 2, "atom")
    if char in _ISOTOPES:
        return Fault(f"{char} is not an atom; {_ISOTOPES[char]}", *here, "atom")
    if char in _ELEMENTS:
        hint = "; hydrogens are mostly left out" if char == "H" else ""
        return Fault(f"{char} needs brackets: [{char}]{hint}", *here, "atom")
    return Fault(f"{char} is not an atom; without brackets there are only {_BARE}", *here, "atom")


def describe_character(char: str) -> str:
    """Return a character for a message, by name if it is invisible or confusing."""
    name = unicodedata.name(char, "a control character").lower()
    return repr(char) if char.isascii() and char.isprintable() else f"U+{ord(char):04X} ({name})"
