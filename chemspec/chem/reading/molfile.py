"""Molfiles (V2000 and V3000): the molecule, or the line that is wrong and what to do about it.

RDKit reads some patterns as if they were molecules, and guesses at elements (OS is osmium), so what it has read is
compared with the lines of the file.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from rdkit import Chem, rdBase

from chemspec.chem.molecules import parsing
from chemspec.chem.molecules.query import describe_bad_atom
from chemspec.chem.molecules.rdkit_tasks import RDKIT_ERRORS
from chemspec.chem.molecules.smiles_syntax import Fault, describe_character
from chemspec.chem.reading.values import DRAW, Molecules


class NumberedLine(NamedTuple):
    """A line of a file: its number from 1, its position in the whole text, its characters without line end."""

    number: int
    start: int
    text: str


def split_lines(text: str) -> list[NumberedLine]:
    """Return lines that end by line feed, carriage return or both, as all systems write them."""
    lines: list[NumberedLine] = []
    start = 0
    for match in re.finditer(r"\r\n|\r|\n|$", text):
        lines.append(NumberedLine(len(lines) + 1, start, text[start : match.start()]))
        start = match.end()
    return lines


def blame(line: NumberedLine, message: str, kind: str = "syntax") -> Fault:
    """Return a fault in one line."""
    return Fault(f"line {line.number}: {message}", line.start, line.start + len(line.text), kind)


# Words in the place of an element that stand for something else. R groups also come with numbers.
_QUERIES = {
    "A": "any atom", "AH": "any atom", "Q": "any atom but carbon", "QH": "any atom but carbon", "*": "any atom",
    "X": "any halogen", "XH": "any halogen", "M": "any metal", "MH": "any metal", "L": "a list of atoms",
    "LP": "a lone pair", "R": "an R group", "R#": "an R group", "Pol": "a polymer bead", "Mod": "a modified residue",
}  # fmt: skip
_QUERY_BONDS = {5: "single or double", 6: "single or aromatic", 7: "double or aromatic", 8: "any bond"}
_QUERY_BONDS |= {10: "a hydrogen bond"}
_COUNTS = re.compile(r"\s*\d[\d\s]*\bV([23])000\s*$", re.IGNORECASE)
_NO_VERSION = re.compile(r"[ \d]{2}\d[ \d]{2}\d(?:[ \d]{3})*\s*$")
# Old programs write these so, and RDKit reads them; CO, NO, OS and the like could be groups, too.
_CAPITALS = {
    "CL", "BR", "SI", "SE", "NA", "LI", "MG", "AL", "CA", "ZN", "FE", "CU", "AG", "AU", "PD", "PT", "MN", "TI", "CR",
    "RU", "RH", "HG",
}  # fmt: skip
_REPEATS = {"SRU", "MON", "MER", "COP", "CRO", "MOD", "GRA", "COM", "MIX", "FOR", "ANY", "GEN"}
# RDKit fills them up to a hydride, as the rule of molfiles says; what a chemist draws as Na is sodium.
_METALS = {
    "Li", "Na", "K", "Rb", "Cs", "Be", "Mg", "Ca", "Sr", "Ba", "Ra", "Al", "Ga", "In", "Tl", "Sn", "Pb", "Ge", "Sb",
    "Bi", "Po",
}  # fmt: skip


def read_molfile(lines: Sequence[NumberedLine]) -> Molecules | Fault:
    """Return RDKit's molecule, sanitized, or the fault of the molfile in these lines (empty where there are no atoms).

    Lines lost or added above the counts line, as by copying, do not matter.
    """
    at = find_counts(lines)
    if at is None:
        line = lines[min(3, len(lines) - 1)]
        return blame(line, "this should be the counts line of a molfile, which ends in V2000")
    if not any(line.text.startswith("M  END") for line in lines):
        return blame(lines[-1], "there is no line M  END; the file was cut off, copy it whole")
    block = block_of(lines)
    whole = lines[0].start, lines[-1].start + len(lines[-1].text)
    if refusal := parsing.molblock_refusal(block):
        return Fault(refusal, *whole, "length")
    with rdBase.BlockLogs():
        raw = _parse(block, sanitize=False)
        if raw is None:
            return _unreadable(block, lines, at)
        if raw.GetNumAtoms() == 0:
            return Fault("this molfile holds no atoms; draw a molecule first", *whole, "empty")
        rows = [row for row in _rows(lines[at:]) if row.text.split()[2:3] not in (["BEGIN"], ["END"], ["COUNTS"])]
        fault = _pattern(raw, rows) or _incomplete(raw, lines[at])
        mol = None if fault else _parse(block)
        if mol is None:
            fault = fault or _chemistry(raw, rows) or Fault("RDKit cannot make a molecule of this", 0, 0, "other")
            return fault if fault.end else Fault(fault.message, *whole, fault.kind)
    return Molecules([mol], as_drawn(mol))


def read_molfiles(blocks: Iterable[Sequence[NumberedLine]]) -> Molecules | Fault:
    """Return the molecules of several molfiles together, or the first fault."""
    parts: list[Any] = []
    notes: list[str] = []
    for block in blocks:
        read = read_molfile(block)
        if isinstance(read, Fault):
            return read
        parts += read.parts
        notes += read.notes
    return Molecules(parts, tuple(notes))


def _parse(block: str, *, sanitize: bool = True) -> Any | None:
    try:
        return parsing.mol_from_molblock(block, sanitize=sanitize)
    except RDKIT_ERRORS:
        return None


def _rows(body: Sequence[NumberedLine]) -> list[NumberedLine]:
    """Return the lines below the counts line, without those that continue the one before."""
    return [line for before, line in pairwise(body) if not before.text.rstrip().endswith("-")]


def block_of(lines: Sequence[NumberedLine]) -> str:
    """Return these lines as RDKit wants a molfile, the counts line its fourth; without one nothing."""
    at = find_counts(lines)
    if at is None:
        return ""
    # The second line says whether flat coordinates are those of a flat molecule.
    second = lines[at - 2].text if at >= 2 and lines[at - 2].text[20:22] in ("2D", "3D") else ""
    counts = lines[at].text.rstrip()
    counts = counts[:-5] + counts[-5:].upper() if _COUNTS.match(counts) else counts[:33].rstrip()
    return "\n".join(["", second, "", counts, *(line.text for line in lines[at + 1 :])])


def find_counts(lines: Sequence[NumberedLine]) -> int | None:
    """Return which of the first lines is the counts line of a molfile; None if none is."""
    for at, line in enumerate(lines[:12]):
        if _COUNTS.match(line.text):
            return at
    # Old programs leave the version out.
    return 3 if len(lines) > 4 and _NO_VERSION.match(lines[3].text) else None


def as_drawn(mol: Any, hydrides: Collection[str] = ()) -> tuple[str, ...]:
    """Take off a drawn molecule the hydrogens that RDKit gave to bare metals, but for `hydrides`, and return notes."""
    bare: list[str] = []
    filled: list[str] = []
    for atom in mol.GetAtoms():
        symbol = atom.GetSymbol()
        if symbol not in _METALS or atom.GetNoImplicit() or not atom.GetTotalNumHs() or symbol in hydrides:
            continue
        if atom.GetDegree():
            filled.append(f"{symbol}H{atom.GetTotalNumHs()}".removesuffix("1"))
        elif atom.GetFormalCharge() >= 0:
            bare.append(symbol)
            atom.SetNoImplicit(True)
            atom.SetNumExplicitHs(0)
            atom.UpdatePropertyCache()
    notes = [f"{', '.join(dict.fromkeys(bare))} without bonds: read as the metal, not as a hydride"] * bool(bare)
    notes += [f"hydrogens added to a metal: {', '.join(dict.fromkeys(filled))}"] * bool(filled)
    return tuple(notes)


def _pattern(raw: Any, rows: Sequence[NumberedLine]) -> Fault | None:
    """Return the fault of something that is a pattern, or holds labels; `rows` are the lines of atoms, then bonds."""
    for atom, row in zip(raw.GetAtoms(), rows, strict=False):
        if fault := _atom_fault(atom, row):
            return fault
    for bond, row in zip(raw.GetBonds(), rows[raw.GetNumAtoms() :], strict=False):
        if bond.HasProp("_MolFileBondAttach") and bond.GetProp("_MolFileBondAttach") == "ANY":
            return blame(row, f"a bond that may end at any of several atoms is not understood; {DRAW}", "bond")
        if bond.HasQuery():
            kind = _QUERY_BONDS.get(bond.GetPropsAsDict(True).get("_MolFileBondType"), "more than one kind")
            return blame(row, f"bond {bond.GetIdx() + 1} means {kind}; {DRAW}", "bond")
    kinds = {group.GetProp("TYPE") for group in Chem.GetMolSubstanceGroups(raw)} & _REPEATS
    if kinds:
        message = f"brackets of the kind {min(kinds)} (polymer, mixture) are not understood; remove them"
        return Fault(message, 0, 0, "other")
    return None


def _atom_fault(atom: Any, row: NumberedLine) -> Fault | None:
    words = row.text.split()
    if words[:2] == ["M", "V30"]:
        symbol = "".join(words[3:4]).strip('"')
    elif all(re.fullmatch(r" *[-+.\deE]+ *", row.text[start : start + 10]) for start in (0, 10, 20)):
        symbol = row.text[31:34].strip()
    else:
        return blame(row, "its columns are out of place, copy the file as it is")
    if not atom.GetAtomicNum() or atom.HasQuery():
        is_group = re.fullmatch(r"R\d+", symbol) or atom.HasProp("_MolFileRLabel")
        word = "R" if is_group else "L" if symbol.startswith(("[", "NOT")) else symbol
        meaning = _QUERIES.get(word, "more than one kind of atom, as in a search")
        return blame(row, f"{symbol} stands for {meaning}; {DRAW}", "atom")
    if symbol not in (atom.GetSymbol(), "D", "T") and symbol not in _CAPITALS:
        return blame(row, f"{symbol} should be written {symbol.capitalize()}", "atom")
    label = atom.GetProp("molFileAlias").strip() if atom.HasProp("molFileAlias") else ""
    refusal = label_refusal(label, symbol)
    return blame(row, refusal, "atom") if refusal else None


_EXPAND = "if it is an abbreviation, expand it before you export"


def label_refusal(label: str, symbol: str) -> str:
    """Return why a label on an atom is refused; empty if it says no more than its element: C7, CH3, H2N, 12."""
    element = re.escape(symbol)
    plain = rf"\d{{1,4}}[a-z]?'?|(?i:{element})(?:\d{{1,4}}[a-z]?'*|H\d?)?|H\d?{element}"
    if not label or re.fullmatch(plain, label):
        return ""
    return f"the label {label[:20]!r} stands on an atom {symbol}; {_EXPAND}"


def _incomplete(raw: Any, counts: NumberedLine) -> Fault | None:
    """Return the fault of a file that has lost bonds, or all of them."""
    announced = counts.text[3:6].strip()
    bonds = raw.GetNumBonds()
    if announced.isdecimal() and bonds < int(announced):
        return blame(counts, f"only {bonds} of {announced} bonds are here; the file was cut off, copy it whole")
    carbons = sum(atom.GetAtomicNum() == 6 for atom in raw.GetAtoms())
    if carbons > 1 and bonds == 0:
        return Fault("there are coordinates but no bonds; export the structure with its bonds", 0, 0, "bond")
    return None


def _unreadable(block: str, lines: Sequence[NumberedLine], at: int) -> Fault:
    """Return RDKit's objection to a molfile. Only its reader of reactions tells it without going through the log."""
    head = "$RXN\n\n\n\n  1  0\n$MOL\n"
    try:
        parsing.reaction_from_rxnblock(head + block)
    except RDKIT_ERRORS as error:
        objection = str(error).partition("The error was:")[2].strip().split("\n")[0]
        reason = objection or "a bond or a label is of an atom that is not there"
    else:
        reason = "RDKit does not say why"
    if match := re.fullmatch(r"Element '(.*)' not found", reason):
        shown = "".join(describe_character(char).strip("'") for char in match[1])
        row = next((row for row in lines[at + 1 :] if match[1] in row.text.split()), lines[at])
        return blame(row, f"{shown} is no element; {_EXPAND}", "atom")
    message = f"this molfile cannot be read: {reason}; was it cut off, or are its columns out of place?"
    if match := re.search(r"\s*(?:around|at|on)? ?[Ll]ine:? (\d+)", reason):
        index = at + int(match[1]) - head.count("\n") - 4  # the counts line is the fourth of the block
        return blame(lines[min(index, len(lines) - 1)], message.replace(match[0], ""))
    return Fault(message, lines[0].start, lines[-1].start + len(lines[-1].text), "syntax")


def _chemistry(raw: Any, lines: Sequence[NumberedLine]) -> Fault | None:
    for problem in Chem.DetectChemistryProblems(raw):
        if hasattr(problem, "GetAtomIdx"):
            index = problem.GetAtomIdx()
            message, kind = describe_bad_atom(problem, f"{raw.GetAtomWithIdx(index).GetSymbol()} (atom {index + 1})")
            return blame(lines[index], message, kind) if index < len(lines) else None
        if problem.GetType() == "KekulizeException":
            indices = [index + 1 for index in problem.GetAtomIndices()]
            message = f"no pattern of single and double bonds fits the aromatic atoms {indices}"
            message += "; draw the ring with single and double bonds"
            return Fault(message, 0, 0, "aromaticity")
    return None
