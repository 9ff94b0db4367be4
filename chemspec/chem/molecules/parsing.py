"""Safe parsing with RDKit: texts on which it would hang or crash are refused first.

RDKit's ring search takes minutes and gigabytes on graphs with very many rings, or crashes, and it traverses molecules
recursively. So rings and characters are counted in the text first, never underestimating. A text with many rings, which
is rare, is parsed in a separate process before: fused rings or unusual cages within the limits may still take RDKit
hours. `tests/test_architecture.py` checks that nothing but that process calls RDKit's parsers.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any
from xml.etree import ElementTree

from rdkit import Chem, rdBase
from rdkit.Chem import rdChemReactions, rdinchi

from chemspec.chem.molecules.rdkit_tasks import RDKIT_ERRORS, from_smiles
from chemspec.system.forked import Forked

# A chain of 20,000 atoms overflows an 8 MB stack and kills the process (2,000 atoms are too many for 512 KB).
# RDKit never gets a longer SMILES, or a graph of more atoms in another format.
MAX_LENGTH = 3000
MAX_RINGS = 100  # independent rings; C60 has 31, and sides of patent reactions at most a few dozen
# Sum over atoms of the squared number of ring labels: naphthalene 4, ferrocene with ten bonds at its iron about 110,
# C60 62, a complete bipartite graph of nine and nine atoms 900. RDKit's time for 100 rings grows with it.
MAX_CROWDED = 1000
TOO_CROWDED = "too many rings share their atoms"
TOO_MANY_RINGS = f"more than {MAX_RINGS} rings are too many"
TOO_MANY_ATOMS = f"more than {MAX_LENGTH} atoms are too many"
# Up to this number of rings RDKit is quick whatever they are; among 11 fused rings of nitrogen some took it over a
# second, and among 14 more than nine (found by fuzzing).
FEW_RINGS = 9
# Molecules of more rings that are in our own tables: Pd(PPh3)4 as drawn and canonical, 4CzIPN.
QUICK = frozenset(
    (
        "c1ccc([PH](c2ccccc2)(c2ccccc2)[Pd]([PH](c2ccccc2)(c2ccccc2)c2ccccc2)([PH](c2ccccc2)(c2ccccc2)c2ccccc2)"
        "[PH](c2ccccc2)(c2ccccc2)c2ccccc2)cc1",
        "c1ccc([P](c2ccccc2)(c2ccccc2)[Pd]([P](c2ccccc2)(c2ccccc2)c2ccccc2)([P](c2ccccc2)(c2ccccc2)c2ccccc2)"
        "[P](c2ccccc2)(c2ccccc2)c2ccccc2)cc1",
        "N#Cc1c(-n2c3ccccc3c3ccccc32)c(C#N)c(-n2c3ccccc3c3ccccc32)c(-n2c3ccccc3c3ccccc32)c1-n1c2ccccc2c2ccccc21",
    )
)
CACHED_MOLECULES = 1000  # each about 20 kB; a review parses the same query and answers some twenty times
TOO_HARD = "RDKit takes too long over the rings of this"
SANDBOX = Forked("chemspec.chem.molecules.sandbox", most=4)
_PRINTED = re.compile(r"[!-~]+")
_BRACKETS = re.compile(r"\[[^\]]*\]")
_LABEL = re.compile(r"%\(\d+\)|%\d\d|\d")
_TOKEN = re.compile(rf"\[[^\]]*\]|{_LABEL.pattern}|[()A-Za-z*]")  # "Cl" may count as two atoms
# RDKit parses the leading digits of a number: 2x and 2.0 are 2.
# A residue is a letter, or a name in brackets.
_SEQUENCE = re.compile(r"[ACDEFGHIKLMNPQRSTVWY]{1,100}")
_HELM = re.compile(
    r"PEPTIDE1\{(?:(?:[A-Z]|\[[A-Za-z_]{1,12}\])\.?){1,100}\}\$[^$]{0,99}\$[^$]{0,9}\$[^$]{0,9}\$(?:V2\.0)?"
)
_ROW = re.compile(r"\s*[+-]?\d\S*\s+[+-]?\d\S*\s+[+-]?(\d+)\S*\s+[+-]?(\d+)")


def mol_from_smiles(smiles: str, *, sanitize: bool = True) -> Any:
    """Parse a SMILES, with checks if `sanitize`; None if empty, with blanks, over a limit, or RDKit refuses it."""
    mol = shared_mol(smiles, sanitize=sanitize)
    return None if mol is None else Chem.Mol(mol)  # callers may change it; a copy takes a twentieth of the time


def shared_mol(smiles: str, *, sanitize: bool = True) -> Any:
    """Return what `mol_from_smiles` does, not to be changed: others get the same molecule."""
    return _parsed(smiles, sanitize) if len(smiles) <= MAX_LENGTH else None


@lru_cache(maxsize=CACHED_MOLECULES)
def _parsed(smiles: str, sanitize: bool) -> Any:
    # RDKit accepts "" as a molecule, and text after a blank as its name.
    return from_smiles(smiles, sanitize) if _PRINTED.fullmatch(smiles) and not smiles_refusal(smiles) else None


def mol_from_smarts(smarts: str) -> Any:
    """Parse a SMARTS; None if it is empty, exceeds a limit, or RDKit refuses it."""
    # A recursive pattern, $(...), has separate ring labels.
    bare = _BRACKETS.sub(lambda atom: atom[0] if "$" in atom[0] else "", smarts)
    if not 0 < len(smarts) <= MAX_LENGTH or len(_LABEL.findall(bare)) > 2 * MAX_RINGS:
        return None
    with rdBase.BlockLogs(), suppress(*RDKIT_ERRORS):
        return Chem.MolFromSmarts(smarts)
    return None


fixed_pattern = cache(mol_from_smarts)  # our own patterns, of which there are few


def check_smarts(*patterns: str) -> None:
    """Raise ValueError for the first of some patterns that is no SMARTS."""
    for pattern in patterns or ("",):
        if mol_from_smarts(pattern) is None:
            raise ValueError(f"{pattern!r} is no SMARTS")


def smiles_refusal(smiles: str) -> str:
    """Return why a SMILES is refused; empty if it is not."""
    if len(smiles) > MAX_LENGTH:
        return f"{len(smiles)} characters are too many; the limit is {MAX_LENGTH}"
    if not (labels := ring_labels(smiles)):
        return ""
    rings = sum(labels) // 2
    if rings > MAX_RINGS:
        return TOO_MANY_RINGS
    return _crowding_refusal(labels) or (_try_large_molecules(smiles) if rings > FEW_RINGS else "")


def _try_large_molecules(smiles: str) -> str:
    """Return why a SMILES is refused after a trial of its molecules of more than `FEW_RINGS` rings."""
    parts = smiles.split(".")
    counts = (Counter(_LABEL.findall(_BRACKETS.sub("", part))) for part in parts)
    if any(number % 2 for each in counts for number in each.values()):  # a label may join two of them
        return try_in_process("smiles", smiles)
    large = [part for part in dict.fromkeys(parts) if part not in QUICK and sum(ring_labels(part)) > 2 * FEW_RINGS]
    return try_in_process("smiles", ".".join(large)) if large else ""


def ring_labels(smiles: str) -> list[int]:
    """Return the number of ring labels of each atom with labels; empty for a SMILES of at most `FEW_RINGS` rings.

    Two labels form a ring, or connect two molecules separated by a dot.
    """
    raw = smiles.encode("ascii", "replace")
    if len(raw) - len(raw.translate(None, b"0123456789")) <= 2 * FEW_RINGS:
        return []  # the common case
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


def _graph_refusal(bonds: Iterable[tuple[int | None, int | None]], hard: Callable[[], str] = str) -> str:
    """Return why a graph given by bonds is too large; empty if it is not.

    With more than `FEW_RINGS` rings, `hard` is called as well. A bond with unreadable ends (None) counts as closing a
    ring.
    """
    parents: dict[int, int] = {}  # union-find
    closing: Counter[int | None] = Counter()  # like ring labels of a SMILES
    rings = 0

    def root(atom: int) -> int:
        while (above := parents.get(atom, atom)) != atom:
            parents[atom] = parents.get(above, above)
            atom = above
        return atom

    for count, (first_end, second_end) in enumerate(bonds, 1):
        if count > MAX_LENGTH + MAX_RINGS:
            return TOO_MANY_ATOMS
        first, second = (None if end is None else root(end) for end in (first_end, second_end))
        if first is None or second is None or first == second:
            rings += 1
            closing.update((first_end, second_end))
            if rings > MAX_RINGS:
                return TOO_MANY_RINGS
        else:
            parents[first] = second
    return _crowding_refusal(closing.values()) or (hard() if rings > FEW_RINGS else "")


def _crowding_refusal(labels: Iterable[int]) -> str:
    return TOO_CROWDED if sum(count * count for count in labels) > MAX_CROWDED else ""


def _parse_integer(text: str) -> int | None:
    text = text.strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else None


def mol_from_molblock(block: str, *, sanitize: bool = True) -> Any:
    """Parse a V2000 or V3000 block; None if it exceeds a limit or RDKit refuses it. May raise `RDKIT_ERRORS`.

    Its fourth line is the counts line. Without `sanitize` nothing is checked and hydrogens are kept.
    """
    if molblock_refusal(block):
        return None
    return Chem.MolFromMolBlock(block, sanitize=sanitize, removeHs=sanitize)


@lru_cache(maxsize=8)  # called several times for a file
def molblock_refusal(*blocks: str) -> str:
    """Return why molfiles are refused, by the rules of both versions as RDKit may read them; empty if not."""
    # RDKit counts columns in bytes.
    plain = (block if block.isascii() else block.encode("utf-8", "replace").decode("latin-1") for block in blocks)
    lines = [block.split("\n") for block in plain]
    counts = next(filter(None, map(_counts_v3000, lines)), "")

    def hard() -> str:
        return try_in_process("molblock", blocks[0]) if len(blocks) == 1 else ""  # otherwise each is checked separately

    return (
        counts
        or _graph_refusal(_all_bonds(_bonds_v2000, lines), hard)
        or _graph_refusal(_all_bonds(_bonds_v3000, lines), hard)
    )


def reaction_from_rxnblock(block: str) -> Any | None:
    """Parse an RXN block; None if its molecules exceed a limit. May raise `RDKIT_ERRORS`."""
    if molblock_refusal(*(part.partition("\n")[2] for part in block.split("$MOL"))):
        return None
    return rdChemReactions.ReactionFromRxnBlock(block)


@cache
def fixed_reaction(smarts: str) -> Any:
    """Return a reaction of a table of ours."""
    return rdChemReactions.ReactionFromSmarts(smarts)


Bonds = Iterator[tuple[int | None, int | None]]


def _all_bonds(read: Callable[[list[str]], Bonds], blocks: list[list[str]]) -> Bonds:
    """Yield the bonds of all molfiles, with disjoint atom numbers."""
    for number, lines in enumerate(blocks):
        for ends in read(lines):
            first, second = (None if end is None else end + number * 10**9 for end in ends)
            yield first, second


def _bonds_v2000(lines: list[str]) -> Bonds:
    counts = lines[3] if len(lines) > 3 else ""
    first = 4 + (_parse_integer(counts[:3]) or 0)
    for line in lines[first : first + (_parse_integer(counts[3:6]) or 0)]:
        yield _parse_integer(line[:3]), _parse_integer(line[3:6])


def _bonds_v3000(lines: list[str]) -> Bonds:
    """Yield the ends of every row that may be a bond (number, kind and two atoms), in any section."""
    before = ""  # start of a continued row
    for line in lines:
        if not line.startswith("M  V30"):
            before = ""
        elif line.endswith("--"):
            yield None, None
        elif line.endswith("-"):
            before += line[7:-1]
        elif match := _ROW.match(before + line[7:]):
            before = ""
            yield _parse_integer(match[1]), _parse_integer(match[2])
        else:
            before = ""


def _counts_v3000(lines: list[str]) -> str:
    for line in lines:
        words = line.upper().split(maxsplit=5)
        if words[:3] == ["M", "V30", "COUNTS"] and any((_parse_integer(word) or 0) > MAX_LENGTH for word in words[3:5]):
            return TOO_MANY_ATOMS
    return ""


def mols_from_cdxml(root: ElementTree.Element) -> list[Any]:
    """Return the molecules of a CDXML file; empty if it exceeds a limit. May raise `RDKIT_ERRORS`."""
    return [] if cdxml_refusal(root) else list(Chem.MolsFromCDXML(ElementTree.tostring(root, encoding="unicode")))


def cdxml_refusal(root: ElementTree.Element) -> str:
    """Return why a CDXML file is refused; empty if it is not."""
    if sum(1 for _ in root.iter("n")) > MAX_LENGTH:
        return TOO_MANY_ATOMS
    bonds = ((_parse_integer(bond.get("B", "")), _parse_integer(bond.get("E", ""))) for bond in root.iter("b"))
    return _graph_refusal(bonds, lambda: try_in_process("cdxml", ElementTree.tostring(root, encoding="unicode")))


def mol_from_sequence(text: str) -> Any | None:
    """Return the peptide of a sequence of one-letter codes, or of HELM of the kind PEPTIDE; None if it is neither."""
    if _SEQUENCE.fullmatch(text):
        return Chem.MolFromSequence(text)
    return Chem.MolFromHELM(text) if _HELM.fullmatch(text) else None


def mol_from_inchi(inchi: str) -> tuple[Any | None, str]:
    """Parse an InChI; returns the molecule, or None where there is any objection, and the objection."""
    if refusal := inchi_refusal(inchi):
        return None, refusal
    with rdBase.BlockLogs():
        try:
            mol, code, message, _log = rdinchi.InchiToMol(inchi)
        except RDKIT_ERRORS as error:
            return None, str(error)
    return None if code else mol, message


def inchi_refusal(inchi: str) -> str:
    """Return why an InChI is refused; empty if it is not."""
    layers = inchi.split("/")
    formula = layers[1] if len(layers) > 1 else ""
    atoms = 0
    for part in formula.split("."):
        times = part[: len(part) - len(part.lstrip("0123456789"))]
        counted = re.findall(r"([A-Z][a-z]?)(\d*)", part)
        heavy = sum(_parse_count(count) for symbol, count in counted if symbol != "H")
        atoms += _parse_count(times) * heavy
    if atoms > MAX_LENGTH:
        return TOO_MANY_ATOMS
    # A repeated atom number closes a ring.
    rings = 0
    for part in (part for layer in layers[2:] if layer.startswith("c") for part in layer[1:].split(";")):
        times, star, rest = part.rpartition("*")
        atoms_named = re.findall(r"\d+", rest)
        rings += _parse_count(times if star else "") * (len(atoms_named) - len(set(atoms_named)))
    if rings > MAX_RINGS:
        return TOO_MANY_RINGS
    return try_in_process("inchi", inchi) if rings > FEW_RINGS else ""


def _parse_count(text: str) -> int:
    """Parse a count of an InChI formula; empty means 1."""
    return min(int(text[:9]), 10**6) if text.isascii() and text.isdigit() else 1


class TooManyTrialsError(BaseException):
    """`TRIALS` are used up: no fault of the text, so no `except Exception` may take it for one."""


@dataclass
class Trials:
    """How many texts may still be parsed in a separate process."""

    left: int

    def use(self) -> None:
        """Count a trial; raises TooManyTrialsError if none is left."""
        if not self.left:
            raise TooManyTrialsError
        self.left -= 1


TRIALS: ContextVar[Trials | None] = ContextVar("trials", default=None)  # None: there is no limit


@lru_cache(maxsize=1000)
def try_in_process(kind: str, text: str) -> str:
    """Parse a text (`kind` of `rdkit_tasks.READERS`) with limits of time and memory; `TOO_HARD` if it was ended.

    Raises TooManyTrialsError where `TRIALS` are set and used up.
    """
    if (trials := TRIALS.get()) is not None:
        trials.use()
    return TOO_HARD if SANDBOX.ask(kind, text) is None else ""
