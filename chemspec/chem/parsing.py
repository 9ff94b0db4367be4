"""The only way from a text to one of RDKit's molecules: what RDKit would not survive is refused before it sees it.

RDKit's search for rings takes minutes and gigabytes on graphs with very many of them, or ends the process, and it walks
a molecule recursively. So rings and characters are counted first, from the text alone, and never too few.
A text of many rings, which is rare, is tried in a process of its own before this one reads it: fused rings or odd
cages within these limits may still take RDKit hours. `tests/test_architecture.py` sees to it that nothing else but
that process calls RDKit's parsers.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any
from xml.parsers import expat

from rdkit import Chem, rdBase
from rdkit.Chem import rdChemReactions, rdinchi

from chemspec.chem.trial import RDKIT_ERRORS, from_smiles
from chemspec.system.forked import Forked

# A chain of 20,000 atoms overflows an 8 MB stack and kills the process (2,000 atoms are too many for 512 KB).
# Nothing longer than this is ever handed to RDKit as SMILES, and no graph of more atoms in another format.
LONGEST = 3000
MOST_RINGS = 100  # independent ones; C60 has 31, and no side of a reaction in patents more than a few dozen
# The sum over atoms of the squares of how many ring labels each has: 4 of naphthalene, about 110 of ferrocene with ten
# bonds at its iron, 62 of C60, 900 of two times nine atoms each bonded to each. RDKit's time for 100 rings follows it.
MOST_CROWDED = 1000
TOO_CROWDED = "too many rings share their atoms"
TOO_MANY_RINGS = f"more than {MOST_RINGS} rings are too many"
TOO_MANY_ATOMS = f"more than {LONGEST} atoms are too many"
# Up to so many rings RDKit is quick whatever they are; among 11 fused rings of nitrogen some took it over a second, and
# 14 more than anybody waits for (found by fuzzing).
FEW_RINGS = 9
TOO_HARD = "RDKit takes too long over the rings of this"
APART = Forked("chemspec.chem.apart")
_PRINTED = re.compile(r"[!-~]+")
_BRACKETS = re.compile(r"\[[^\]]*\]")
_LABEL = re.compile(r"%\(\d+\)|%\d\d|\d")
_TOKEN = re.compile(rf"\[[^\]]*\]|{_LABEL.pattern}|[()A-Za-z*]")  # "Cl" may count as two atoms
# RDKit reads a number as far as it goes: 2x and 2.0 are 2.
_ROW = re.compile(r"\s*[+-]?\d\S*\s+[+-]?\d\S*\s+[+-]?(\d+)\S*\s+[+-]?(\d+)")


# --- SMILES and SMARTS ---------------------------------------------------------------------------


def mol_from_smiles(smiles: str, *, sanitize: bool = True) -> Any:
    """Return RDKit's molecule; None where it is empty, holds blanks, is beyond a limit, or RDKit refuses it.

    Args:
        smiles: without CXSMILES extension or name.
        sanitize: else every atom that is written is an atom of the molecule, and nothing is checked.
    """
    # RDKit itself takes "" for a molecule, and what follows a blank for its name.
    if not _PRINTED.fullmatch(smiles) or smiles_refusal(smiles):
        return None
    return from_smiles(smiles, sanitize)


def mol_from_smarts(smarts: str) -> Any:
    """Return RDKit's pattern; None where it is empty, beyond a limit, or RDKit refuses it."""
    # A pattern within brackets, $(...), has labels of its own.
    bare = _BRACKETS.sub(lambda atom: atom[0] if "$" in atom[0] else "", smarts)
    if not 0 < len(smarts) <= LONGEST or len(_LABEL.findall(bare)) > 2 * MOST_RINGS:
        return None
    with rdBase.BlockLogs():
        try:
            return Chem.MolFromSmarts(smarts)
        except RDKIT_ERRORS:
            return None


def smiles_refusal(smiles: str) -> str:
    """Return why a SMILES is not handed to RDKit; empty where it is."""
    if len(smiles) > LONGEST:
        return f"{len(smiles)} characters are too many; the limit is {LONGEST}"
    if not (labels := ring_labels(smiles)):
        return ""
    rings = sum(labels) // 2
    if rings > MOST_RINGS:
        return TOO_MANY_RINGS
    return _crowded(labels) or (trial("smiles", smiles) if rings > FEW_RINGS else "")


def ring_labels(smiles: str) -> list[int]:
    """Return how many ring labels each atom has that has any; none of a SMILES of at most `FEW_RINGS`.

    Two labels make a ring, or join two molecules that a dot parts.
    """
    raw = smiles.encode("ascii", "replace")
    if len(raw) - len(raw.translate(None, b"0123456789")) <= 2 * FEW_RINGS:
        return []  # nearly all
    if len(_LABEL.findall(_BRACKETS.sub("", smiles))) <= 2 * FEW_RINGS:
        return []
    labels: Counter[int] = Counter()
    branches: list[int] = []
    atom = 0
    for number, token in enumerate(_TOKEN.findall(smiles)):
        if token == "(":
            branches.append(atom)
        elif token == ")":
            atom = branches.pop() if branches else atom
        elif token[0] in "%0123456789":
            labels[atom] += 1
        else:
            atom = number
    return list(labels.values())


# --- graphs bond by bond -------------------------------------------------------------------------


def _refusal(bonds: Iterable[tuple[int | None, int | None]], hard: Callable[[], str] = str) -> str:
    """Return why a graph of bonds between these atoms is too large; nothing where it is not.

    Where it has more than `FEW_RINGS`, `hard` has a say too.

    A bond whose ends cannot be read (None) is taken for one that closes a ring.
    """
    parents: dict[int, int] = {}  # union-find
    closing: Counter[int | None] = Counter()  # what ring labels are in a SMILES
    rings = 0

    def root(atom: int) -> int:
        while (above := parents.get(atom, atom)) != atom:
            parents[atom] = parents.get(above, above)
            atom = above
        return atom

    for many, (one, other) in enumerate(bonds, 1):
        if many > LONGEST + MOST_RINGS:
            return TOO_MANY_ATOMS
        first, second = (None if end is None else root(end) for end in (one, other))
        if first is None or second is None or first == second:
            rings += 1
            closing.update((one, other))
            if rings > MOST_RINGS:
                return TOO_MANY_RINGS
        else:
            parents[first] = second
    return _crowded(closing.values()) or (hard() if rings > FEW_RINGS else "")


def _crowded(labels: Iterable[int]) -> str:
    return TOO_CROWDED if sum(many * many for many in labels) > MOST_CROWDED else ""


def _whole(text: str) -> int | None:
    text = text.strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else None


# --- molfiles and reactions ----------------------------------------------------------------------


def mol_from_molblock(block: str, *, sanitize: bool = True) -> Any:
    """Return RDKit's molecule; None where it is beyond a limit or RDKit cannot read it. May raise `RDKIT_ERRORS`.

    Args:
        block: V2000 or V3000; its fourth line is the counts line.
        sanitize: else nothing is checked and hydrogens stay.
    """
    if molblock_refusal(block):
        return None
    return Chem.MolFromMolBlock(block, sanitize=sanitize, removeHs=sanitize)


@lru_cache(maxsize=8)  # asked several times while a file is read
def molblock_refusal(*blocks: str) -> str:
    """Return why molfiles are not handed to RDKit, all of them together; empty where they are.

    Which version RDKit will take one for is not decided here: bonds are counted by the rules of both.
    """
    # RDKit's columns are bytes.
    plain = (block if block.isascii() else block.encode("utf-8", "replace").decode("latin-1") for block in blocks)
    lines = [block.split("\n") for block in plain]
    counts = next(filter(None, map(_counts_v3000, lines)), "")

    def hard() -> str:
        return trial("molblock", blocks[0]) if len(blocks) == 1 else ""  # else each is looked at by itself

    return counts or _refusal(_all(_bonds_v2000, lines), hard) or _refusal(_all(_bonds_v3000, lines), hard)


def reaction_from_rxnblock(block: str) -> Any | None:
    """Return RDKit's reaction; None where its molecules are beyond a limit. May raise `RDKIT_ERRORS`."""
    if molblock_refusal(*(part.partition("\n")[2] for part in block.split("$MOL"))):
        return None
    return rdChemReactions.ReactionFromRxnBlock(block)


Bonds = Iterator[tuple[int | None, int | None]]


def _all(read: Callable[[list[str]], Bonds], blocks: list[list[str]]) -> Bonds:
    """Yield the bonds of all molfiles, no two of which have an atom in common."""
    for number, lines in enumerate(blocks):
        for ends in read(lines):
            one, other = (None if end is None else end + number * 10**9 for end in ends)
            yield one, other


def _bonds_v2000(lines: list[str]) -> Bonds:
    counts = lines[3] if len(lines) > 3 else ""
    first = 4 + (_whole(counts[:3]) or 0)
    for line in lines[first : first + (_whole(counts[3:6]) or 0)]:
        yield _whole(line[:3]), _whole(line[3:6])


def _bonds_v3000(lines: list[str]) -> Bonds:
    """Yield the ends of every row that may be a bond (number, kind and two atoms), wherever it stands."""
    before = ""  # of a row that goes on in the next line
    for line in lines:
        if not line.startswith("M  V30"):
            before = ""
        elif line.endswith("--"):
            yield None, None
        elif line.endswith("-"):
            before += line[7:-1]
        elif match := _ROW.match(before + line[7:]):
            before = ""
            yield _whole(match[1]), _whole(match[2])
        else:
            before = ""


def _counts_v3000(lines: list[str]) -> str:
    for line in lines:
        words = line.upper().split(maxsplit=5)
        if words[:3] == ["M", "V30", "COUNTS"] and any((_whole(word) or 0) > LONGEST for word in words[3:5]):
            return TOO_MANY_ATOMS
    return ""


# --- ChemDraw and InChI --------------------------------------------------------------------------


def mols_from_cdxml(text: str) -> list[Any]:
    """Return RDKit's molecules of a CDXML file; none where it is beyond a limit. May raise `RDKIT_ERRORS`."""
    return [] if cdxml_refusal(text) else list(Chem.MolsFromCDXML(text))


def cdxml_refusal(text: str) -> str:
    """Return why a CDXML file is not handed to RDKit; empty where it is."""
    bonds: list[tuple[int | None, int | None]] = []
    nodes = 0

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal nodes
        nodes += name == "n"
        if name == "b":
            bonds.append((_whole(attributes.get("B", "")), _whole(attributes.get("E", ""))))

    parser = expat.ParserCreate()
    parser.StartElementHandler = start
    try:
        parser.Parse(text.encode("utf-8", errors="replace"), True)
    except expat.ExpatError as error:
        return f"this is not well-formed XML ({expat.ErrorString(error.code)})"
    return TOO_MANY_ATOMS if nodes > LONGEST else _refusal(bonds, lambda: trial("cdxml", text))


def mol_from_inchi(inchi: str) -> tuple[Any | None, int, str]:
    """Return RDKit's molecule of an InChI (or None), a code that is 0 where all is well, and what is said about it."""
    if refusal := inchi_refusal(inchi):
        return None, 2, refusal
    with rdBase.BlockLogs():
        try:
            mol, code, message, _log = rdinchi.InchiToMol(inchi)
        except RDKIT_ERRORS as error:
            return None, 2, str(error)
    return mol, code, message


def inchi_refusal(inchi: str) -> str:
    """Return why an InChI is not handed to RDKit; empty where it is."""
    layers = inchi.split("/")
    formula = layers[1] if len(layers) > 1 else ""
    atoms = 0
    for part in formula.split("."):
        times = part[: len(part) - len(part.lstrip("0123456789"))]
        counted = re.findall(r"([A-Z][a-z]?)(\d*)", part)
        many = sum(_number(count) for symbol, count in counted if symbol != "H")
        atoms += _number(times) * many
    if atoms > LONGEST:
        return TOO_MANY_ATOMS
    # An atom that is named again closes a ring.
    rings = 0
    for part in (part for layer in layers[2:] if layer.startswith("c") for part in layer[1:].split(";")):
        times, star, rest = part.rpartition("*")
        atoms_named = re.findall(r"\d+", rest)
        rings += _number(times if star else "") * (len(atoms_named) - len(set(atoms_named)))
    if rings > MOST_RINGS:
        return TOO_MANY_RINGS
    return trial("inchi", inchi) if rings > FEW_RINGS else ""


def _number(text: str) -> int:
    """Return a count as InChI writes it: nothing is one."""
    return min(int(text[:9]), 10**6) if text.isascii() and text.isdigit() else 1


# --- a text of many rings --------------------------------------------------------------------------


@lru_cache(maxsize=1000)
def trial(kind: str, text: str) -> str:
    """Read a text in a process with limits of time and memory; return `TOO_HARD` where that ended it, or nothing.

    Args:
        kind: a key of `trial.READERS`.
        text: what is read.
    """
    return TOO_HARD if APART.ask(kind, text) is None else ""
