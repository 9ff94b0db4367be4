"""Molfiles (V2000 and V3000): the molecule, or the line that is wrong and what to do about it.

RDKit names faults through its log, which belongs to the whole process, and reads query features as if they were atoms.
So the lines of a molfile are looked through here before RDKit gets them.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from rdkit import Chem, rdBase

from chemspec.chem import parsing
from chemspec.chem.query import LONGEST, bonds_of
from chemspec.chem.read.labels import expand_groups, group_smiles, only_numbers
from chemspec.chem.read.values import DRAW, Molecules
from chemspec.chem.smiles_syntax import Fault, describe_character
from chemspec.chem.trial import RDKIT_ERRORS


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
_QUERY_BONDS = {
    "5": "single or double", "6": "single or aromatic", "7": "double or aromatic", "8": "any bond",
    "10": "hydrogen bond",
}  # fmt: skip
_TABLE = Chem.GetPeriodicTable()
_ELEMENTS = {_TABLE.GetElementSymbol(number) for number in range(1, 119)} | {"D", "T"}
_COUNTS = re.compile(r"\s*\d[\d\s]*\bV([23])000\s*$", re.IGNORECASE)
_NO_VERSION = re.compile(r"[ \d]{2}\d[ \d]{2}\d(?:[ \d]{3})*\s*$")
# Old programs write these so, and RDKit reads them; CO, NO, OS and the like could be groups, too.
_CAPITALS = {
    "CL", "BR", "SI", "SE", "NA", "LI", "MG", "AL", "CA", "ZN", "FE", "CU", "AG", "AU", "PD", "PT", "MN", "TI", "CR",
    "RU", "RH", "HG",
}  # fmt: skip
_REPEATS = {"SRU", "MON", "MER", "COP", "CRO", "MOD", "GRA", "COM", "MIX", "FOR", "ANY", "GEN"}
_HOLDERS = {"R", "R#", "A", "*", "Q", "X"}  # symbols under the label of a group
# RDKit fills them up to a hydride, as the rule of molfiles says; what a chemist draws as Na is sodium.
_METALS = {
    "Li", "Na", "K", "Rb", "Cs", "Be", "Mg", "Ca", "Sr", "Ba", "Ra", "Al", "Ga", "In", "Tl", "Sn", "Pb", "Ge", "Sb",
    "Bi", "Po",
}  # fmt: skip


def read_molfile(lines: Sequence[NumberedLine], aliases: Mapping[int, str] | None = None) -> Molecules | Fault:
    """Return RDKit's molecule, sanitized, or the fault of the molfile in these lines (empty where there are no atoms).

    Lines lost or added above the counts line, as by copying, do not matter. `aliases` are labels by number of their
    atom, besides those in the lines.
    """
    at = find_counts(lines)
    if at is None:
        line = lines[min(3, len(lines) - 1)]
        return blame(line, "this should be the counts line of a molfile, which ends in V2000")
    body = lines[at:]
    version3 = body[0].text.rstrip().upper().endswith("V3000")
    labels = {number: (body[0], label) for number, label in (aliases or {}).items()}
    labels |= {} if version3 else _aliases(body)
    scan = _scan_v3000(body, labels) if version3 else _scan_v2000(body, labels)
    if isinstance(scan, Fault):
        return scan
    return _read(block_of(lines), scan, lines, labels)


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


Labels = dict[int, tuple[NumberedLine, str]]  # by number of an atom: where it stands, and what it says


def _aliases(body: Sequence[NumberedLine]) -> Labels:
    """Return the labels that old programs put on atoms: a line `A  nnn` and one with the text."""
    aliases: Labels = {}
    lines = iter(body)
    for line in lines:
        if line.text.startswith("M  END"):
            break
        if match := re.fullmatch(r"A  ([ \d]{2}\d)\s*", line.text):
            label = next(lines, None)
            if label is not None and label.text.strip():
                aliases[int(match[1])] = label, label.text.strip()
    return aliases


def _scan_v2000(body: Sequence[NumberedLine], labels: Labels) -> list[NumberedLine] | Fault:
    counts = body[0]
    atoms, bonds = _whole(counts.text[:3]), _whole(counts.text[3:6])
    if atoms is None or bonds is None:
        # Columns are fixed; a blank lost or gained at the start of the line moves them all.
        numbers = counts.text.split()
        atoms, bonds = _whole(numbers[0]), _whole(numbers[1]) if len(numbers) > 1 else None
    if atoms is None or bonds is None:
        return blame(counts, "the counts of atoms and bonds cannot be read")
    rows = body[1 : 1 + atoms]
    for number, line in enumerate(rows, 1):
        if line.text.startswith("M  "):
            return blame(line, f"only {number - 1} of {atoms} atoms are here; {_WHOLE}")
        symbol = line.text[31:34].strip()
        if not symbol or any(_float(line.text[k : k + 10]) is None for k in (0, 10, 20)):
            return blame(line, f"atom {number} cannot be read; {_COLUMNS}")
        if fault := _atom_fault(line, symbol, labels.get(number)):
            return fault
    if len(rows) < atoms:
        return blame(body[-1], f"only {len(rows)} of {atoms} atoms are here; {_WHOLE}")
    return _bonds_v2000(body[1 + atoms :], atoms, bonds) or list(rows)


_WHOLE = "the file was cut off, copy it whole"
_COLUMNS = "its columns are out of place, copy the file as it is"


def _bonds_v2000(rest: Sequence[NumberedLine], atoms: int, bonds: int) -> Fault | None:
    for number, line in enumerate(rest[:bonds], 1):
        if line.text.startswith("M  "):
            return blame(line, f"only {number - 1} of {bonds} bonds are here; {_WHOLE}")
        ends = [_whole(line.text[k : k + 3]) for k in (0, 3)]
        kind = line.text[6:9].strip()
        if None in ends or not kind.isdigit():
            return blame(line, f"bond {number} cannot be read; {_COLUMNS}")
        for end in ends:
            if not 1 <= (end or 0) <= atoms:
                return blame(line, f"bond {number} ends at atom {end}, but there are only {atoms}", "bond")
        if kind in _QUERY_BONDS:
            return blame(line, f"bond {number} means {_QUERY_BONDS[kind]}; {DRAW}", "bond")
    if len(rest) < bonds:
        return Fault(f"only {len(rest)} of {bonds} bonds are here; {_WHOLE}", 0, 0, "syntax")
    texts = iter(rest[bonds:])
    for line in texts:
        if line.text.startswith("M  END"):
            return None
        if line.text.startswith(("A  ", "G  ")):
            next(texts, None)  # its text
        elif fault := _property(line):
            return fault
    message = f"there is no line M  END; {_WHOLE}"
    return blame(rest[-1], message) if rest else Fault(message, 0, 0, "syntax")


def _property(line: NumberedLine) -> Fault | None:
    """Return the fault of a line between the bonds and the end, where it says that this is a pattern."""
    word = line.text[:6]
    if word in ("M  ALS", "M  RGP", "M  LOG"):
        what = "a list of atoms" if word == "M  ALS" else "an R group"
        return blame(line, f"{what} stands for more than one molecule; {DRAW}", "atom")
    if word in ("M  SUB", "M  UNS", "M  RBC"):
        return blame(line, "this is a query for a search, not a molecule; remove the query", "atom")
    if word == "M  STY" and (kinds := _REPEATS & set(line.text.split()[2:])):
        return blame(line, _polymer(kinds), "other")
    return None


def _polymer(kinds: set[str]) -> str:
    return f"brackets of the kind {min(kinds)} (polymer, mixture) are not understood; remove them"


def _scan_v3000(body: Sequence[NumberedLine], labels: Labels) -> list[NumberedLine] | Fault:
    """Return the lines of the atoms, or the first fault; leaves syntax to RDKit."""
    rows, inside, continued = [], "", False
    for line in body:
        words = line.text.split(maxsplit=6)
        first, continued = not continued, line.text.rstrip().endswith("-")
        if words[:2] != ["M", "V30"] or not first:
            continue
        if words[2:3] in (["BEGIN"], ["END"]):
            inside = words[3] if words[2] == "BEGIN" and len(words) > 3 else ""
        elif words[2:3] == ["COUNTS"]:
            if any((_whole(word) or 0) > LONGEST for word in words[3:5]):
                return blame(line, f"more than {LONGEST} atoms or bonds are too many", "length")
        elif inside == "ATOM" and len(words) > 3:
            rows.append(line)
            if words[3].strip('"').upper().startswith(("[", "NOT")):
                return blame(line, f"a list of atoms stands for more than one; {DRAW}", "atom")
            if fault := _atom_fault(line, words[3], labels.get(_whole(words[2]) or 0)):
                return fault
        elif inside == "BOND" and len(words) > 3 and words[3] in _QUERY_BONDS:
            return blame(line, f"this bond means {_QUERY_BONDS[words[3]]}; {DRAW}", "bond")
        elif inside == "SGROUP" and len(words) > 3 and words[3] in _REPEATS:
            return blame(line, _polymer({words[3]}), "other")
        if "ATTACH=ANY" in line.text:
            return blame(line, f"a bond that may end at any of several atoms is not understood; {DRAW}", "bond")
    if not any(line.text.startswith("M  END") for line in body):
        return blame(body[-1], f"there is no line M  END; {_WHOLE}")
    return rows


def _atom_fault(line: NumberedLine, symbol: str, label: tuple[NumberedLine, str] | None) -> Fault | None:
    """Return the fault of an atom that is no element, or whose label stands for no group that is known."""
    if label is not None and not only_numbers(label[1], symbol) and not group_smiles(label[1]):
        message = f"the label {label[1][:20]!r} stands on an atom {symbol}, but is no group that is known"
        return blame(label[0], f"{message}; draw its atoms", "atom")
    if symbol in _ELEMENTS or symbol in _CAPITALS or (label is not None and symbol in _HOLDERS):
        return None
    meaning = "an R group" if re.fullmatch(r"R\d+", symbol) else _QUERIES.get(symbol)
    if meaning:
        return blame(line, f"{symbol} stands for {meaning}; {DRAW}", "atom")
    shown = "".join(describe_character(char).strip("'") for char in symbol)
    if symbol.capitalize() in _ELEMENTS:
        return blame(line, f"{shown} should be written {symbol.capitalize()}", "atom")
    return blame(line, f"{shown} is no element; if it is an abbreviation, expand it before you export", "atom")


def _whole(text: str) -> int | None:
    text = text.strip()
    return int(text) if text.isascii() and text.isdigit() else None


def _float(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _read(
    block: str, atoms: Sequence[NumberedLine], lines: Sequence[NumberedLine], labels: Labels
) -> Molecules | Fault:
    whole = lines[0].start, lines[-1].start + len(lines[-1].text)
    lost = next((number for number in labels if not 1 <= number <= len(atoms)), None)
    if lost is not None:
        return blame(labels[lost][0], f"this is the label of atom {lost}, but there are only {len(atoms)}", "atom")
    if refusal := parsing.molblock_refusal(block):
        return Fault(refusal, *whole, "length")
    with rdBase.BlockLogs():
        try:
            raw = parsing.mol_from_molblock(block, sanitize=False)
        except RDKIT_ERRORS:
            raw = None
        if raw is None:
            return Fault(f"this molfile cannot be read: {_reason(block)}", *whole, "syntax")
        if raw.GetNumAtoms() == 0:
            return Fault("this molfile holds no atoms; draw a molecule first", *whole, "empty")
        named = _groups(raw, labels)
        if isinstance(named, Fault):
            return named
        if fault := _no_molecule(raw, named):
            return Fault(fault.message, *whole, fault.kind)
        try:
            mol = expand_groups(raw, named) if named else parsing.mol_from_molblock(block)
        except RDKIT_ERRORS:
            mol = None
        if mol is None:
            fault = _chemistry(raw, atoms) or Fault("RDKit cannot make a molecule of this", 0, 0, "other")
            return fault if fault.end else Fault(fault.message, *whole, fault.kind)
    expanded = (f"label read as its group: {', '.join(dict.fromkeys(named.values()))}",) * bool(named)
    return Molecules([mol], expanded + as_drawn(mol))


def _groups(raw: Any, labels: Labels) -> dict[int, str] | Fault:
    group_labels: dict[int, str] = {}
    for number, (line, label) in labels.items():
        atom = raw.GetAtomWithIdx(number - 1)
        if only_numbers(label, atom.GetSymbol()):
            continue
        if atom.GetDegree() != 1 or atom.GetBonds()[0].GetBondType() != Chem.BondType.SINGLE:
            return blame(line, f"the label {label!r} needs exactly one single bond; draw its atoms", "atom")
        group_labels[number - 1] = label
    ends = [raw.GetAtomWithIdx(index).GetNeighbors()[0].GetIdx() for index in group_labels]
    if len(group_labels) > 1 and set(ends) & set(group_labels):
        return blame(next(iter(labels.values()))[0], "two labels are bonded to each other; draw their atoms", "atom")
    return group_labels


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


def _reason(block: str) -> str:
    """Return RDKit's objection to a molfile. Only its reader of reactions tells it without going through the log."""
    try:
        parsing.reaction_from_rxnblock(f"$RXN\n\n\n\n  1  0\n$MOL\n{block}")
    except RDKIT_ERRORS as error:
        text = str(error).rpartition("The error was:")[2].strip().split("\n")[0]
        # Its line numbers count the lines put above the block.
        text = re.sub(r"\s*(?:around|at|on)? ?[Ll]ine:? \d+", "", text)
        return text or "RDKit does not say why"
    return "RDKit does not say why"


def _no_molecule(raw: Any, named: Collection[int] = ()) -> Fault | None:
    """Return the fault of something that can be read but is a pattern, or a heap of atoms; without a position."""
    if raw.GetNumAtoms() > LONGEST:
        return Fault(f"{raw.GetNumAtoms()} atoms are too many; the limit is {LONGEST}", 0, 0, "length")
    for atom in raw.GetAtoms():
        if (atom.GetAtomicNum() == 0 or atom.HasQuery()) and atom.GetIdx() not in named:
            return Fault(f"atom {atom.GetIdx() + 1} stands for more than one element; {DRAW}", 0, 0, "atom")
    for bond in raw.GetBonds():
        if bond.HasQuery():
            return Fault(f"bond {bond.GetIdx() + 1} stands for more than one kind; {DRAW}", 0, 0, "bond")
    carbons = sum(atom.GetAtomicNum() == 6 for atom in raw.GetAtoms())
    if carbons > 1 and raw.GetNumBonds() == 0:
        return Fault("there are coordinates but no bonds; export the structure with its bonds", 0, 0, "bond")
    return None


def _chemistry(raw: Any, lines: Sequence[NumberedLine]) -> Fault | None:
    for problem in Chem.DetectChemistryProblems(raw):
        if hasattr(problem, "GetAtomIdx"):
            index = problem.GetAtomIdx()
            atom = raw.GetAtomWithIdx(index)
            message = f"{atom.GetSymbol()} (atom {index + 1}) has {bonds_of(problem)}, more than it can form"
            if problem.GetType() != "AtomValenceException":
                message = f"{atom.GetSymbol()} (atom {index + 1}): {problem.Message()}"
            return blame(lines[index], message, "valence") if index < len(lines) else None
        if problem.GetType() == "KekulizeException":
            indices = [index + 1 for index in problem.GetAtomIndices()]
            message = f"no pattern of single and double bonds fits the aromatic atoms {indices}"
            message += "; draw the ring with single and double bonds"
            return Fault(message, 0, 0, "aromaticity")
    return None
