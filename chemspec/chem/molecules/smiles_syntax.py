"""The syntax of SMILES by RDKit's rules: text positions of atoms, and the first fault.

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
    choices: tuple[str, ...] = ()  # texts one of which may be meant in place of the span

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
_BRACKET = re.compile(
    rf"\[(?P<isotope>{_NUMBER})?"
    rf"(?P<symbol>{_SYMBOL}|\*|#{_NUMBER})?"
    r"(?P<geometry>@(?:TH|AL|SP|TB|OH)(?:[1-9]\d?)?|@@?)?"
    rf"(?P<hydrogens>H{_NUMBER}?)?"
    rf"(?P<charge>[+-]{_NUMBER}|\+\+|--|[+-])?"
    rf"(?P<map>:{_NUMBER})?"
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
class _Scan:
    """A SMILES and what is open behind the tokens read so far."""

    smiles: str
    before: str = "start"  # kind of the token read last, and its span
    last: tuple[int, int] = (0, 0)
    atoms: int = 0
    here: int | None = None  # the atom that the next one is bonded to
    branches: list[tuple[int | None, int]] = field(default_factory=list)  # atom, position of "("
    rings: dict[int, tuple[int, int, int]] = field(default_factory=dict)  # atom, span of label
    bonds: set[frozenset[int]] = field(default_factory=set)


def atom_spans(smiles: str) -> list[tuple[int, int]]:
    """Return where the atoms of a valid SMILES stand in it, as RDKit counts them."""
    return [match.span() for match in _TOKEN.finditer(smiles) if match.lastgroup == "atom"]


def syntax_fault(smiles: str) -> Fault | None:
    """Return the first fault in the syntax of a SMILES."""
    scan, position = _Scan(smiles), 0
    while position < len(smiles):
        match = _TOKEN.match(smiles, position)
        if match is None or match.lastgroup is None:
            return _stray_character(smiles, position)
        if fault := _read_token(scan, match.lastgroup, *match.span()):
            return fault
        position = match.end()
    return _fault_at_end(scan)


def _read_token(scan: _Scan, kind: str, start: int, end: int) -> Fault | None:
    if kind == "close" and not scan.branches:
        return Fault("this ) closes no (", start, end, "syntax")
    if scan.before not in _AFTER[kind]:
        return _misplaced_token(scan, kind, start, end)
    fault = None
    if kind == "atom":
        fault = _read_atom(scan, start, end)
    elif kind == "ring":
        fault = _read_ring_label(scan, start, end)
    elif kind == "open":
        scan.branches.append((scan.here, start))
    elif kind == "close":
        scan.here, _ = scan.branches.pop()
    elif kind == "dot":
        scan.here = None
    scan.before = "twig" if kind == "bond" and scan.before == "open" else kind
    scan.last = start, end
    return fault


def _misplaced_token(scan: _Scan, kind: str, start: int, end: int) -> Fault:
    first, last = scan.last
    if scan.before in ("bond", "twig") and kind == "bond":
        return Fault("two bonds in a row", first, end, "syntax")
    if scan.before in ("bond", "twig"):
        return Fault(f"the bond {scan.smiles[first:last]} leads to no atom", first, last, "syntax")
    if scan.before == "open" and kind == "close":
        return Fault("this branch is empty", first, end, "syntax")
    if kind in ("end", "close"):
        return Fault("nothing follows this dot", first, last, "syntax")
    return Fault(f"this {_NAMES[kind]} needs an atom before it", start, end, "syntax")


def _read_atom(scan: _Scan, start: int, end: int) -> Fault | None:
    if scan.here is not None:
        scan.bonds.add(frozenset({scan.here, scan.atoms}))
    scan.here = scan.atoms
    scan.atoms += 1
    return _bracket_fault(scan.smiles[start:end], start) if scan.smiles[start] == "[" else None


def _read_ring_label(scan: _Scan, start: int, end: int) -> Fault | None:
    assert scan.here is not None  # _AFTER lets a label stand only behind an atom
    label = int(scan.smiles[start:end].strip("%()"))
    if label not in scan.rings:
        scan.rings[label] = scan.here, start, end
        return None
    atom, opened, _ = scan.rings.pop(label)
    if atom == scan.here:
        return Fault(f"ring {label} opens and closes on the same atom", opened, end, "ring")
    if frozenset({atom, scan.here}) in scan.bonds:
        return Fault(f"ring {label} closes between two atoms that are bonded already", start, end, "ring")
    scan.bonds.add(frozenset({atom, scan.here}))
    return None


def _fault_at_end(scan: _Scan) -> Fault | None:
    if scan.branches and scan.before not in ("bond", "twig", "dot"):
        position = scan.branches[-1][1]
        return Fault("this ( is never closed", position, position + 1, "syntax")
    if scan.before not in _AFTER["end"]:
        return _misplaced_token(scan, "end", len(scan.smiles), len(scan.smiles))
    for label, (_, start, end) in scan.rings.items():
        return Fault(f"ring {label} is opened here but never closed", start, end, "ring")
    return None


def _bracket_fault(atom: str, offset: int) -> Fault | None:
    match = _BRACKET.match(atom)
    assert match is not None  # every field may be missing
    for name, text in match.groupdict("").items():
        span = offset + match.start(name), offset + match.end(name)
        if len(re.sub(r"\D", "", text)) > 9:
            return Fault("this number is too large", *span, "syntax")
        if name == "symbol" and not text:
            return _unknown_symbol(atom, max(1, match.end("isotope")), offset)
        if text.startswith("#") and int(text[1:]) > len(_ELEMENTS):
            return Fault(f"there is no element {text[1:]}", *span, "atom")
        if name == "geometry" and text and match["symbol"] == "H":
            return Fault("a hydrogen atom cannot be a stereocentre", *span, "syntax")
        if name == "geometry" and text[3:] and int(text[3:]) > _GEOMETRY[text[1:3]]:
            return Fault(f"there is no arrangement {text}", *span, "syntax")
    position = match.end()
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
