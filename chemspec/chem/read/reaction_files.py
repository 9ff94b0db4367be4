"""RXN and RDF files: one side of their first reaction."""

from __future__ import annotations

import re
from collections.abc import Sequence

import chemspec.chem.read.molfile as molfile
from chemspec.chem import parsing
from chemspec.chem.read.molfile import NumberedLine
from chemspec.chem.read.values import Molecules, roles_of, side_note
from chemspec.chem.smiles_syntax import Fault


def read_rdf(text: str, side: str) -> Molecules | Fault:
    """Read the first reaction of an RDF, else its first molecule."""
    lines = molfile.split_lines(text)
    marks = [k for k, line in enumerate(lines) if line.text.startswith(("$RFMT", "$MFMT"))]
    starts = [k for k, line in enumerate(lines) if line.text.startswith("$RXN")]
    if not starts and not marks:
        return molfile.blame(lines[0], "this RDF holds no reaction; export one as RXN", "empty")
    first = starts[0] if starts else marks[0] + 1
    ends = (k for k, line in enumerate(lines) if k > first and re.match(r"\$(?:DTYPE|RFMT|MFMT|RIREG|RXN)", line.text))
    record = lines[first : next(ends, len(lines))]
    many = max(len(marks), len(starts))
    notes = (f"the first of {many} records; the Batch page takes many",) * (many > 1)
    if not starts:
        mol = molfile.read_molfile(record) if record else None
        if mol is None:
            return molfile.blame(lines[-1], "the file was cut off, copy it whole")
        return mol if isinstance(mol, Fault) else Molecules([mol], notes)
    return _reaction(record, side, notes)


def read_rxn(text: str, side: str) -> Molecules | Fault:
    """Read one side of an RXN file."""
    lines = molfile.split_lines(text)
    first = next(k for k, line in enumerate(lines) if line.text.strip("\ufeff \t"))
    return _reaction(lines[first:], side, ())


def _reaction(lines: Sequence[NumberedLine], side: str, notes: tuple[str, ...]) -> Molecules | Fault:
    """Return the side of an RXN record (its first line is $RXN) that is asked for."""
    sides = _sides_v3000(lines) if "V3000" in lines[0].text else _sides_v2000(lines)
    if isinstance(sides, Fault):
        return sides
    wanted = [blocks for name, blocks in sides.items() if name.lower() in roles_of(side)]
    # RDKit would take as long for many molecules of some rings as for one of many.
    if refusal := parsing.molblock_refusal(*(molfile.block_of(block) for blocks in wanted for block in blocks)):
        return Fault(refusal, lines[0].start, lines[-1].start + len(lines[-1].text), "length")
    mols = [molfile.read_molfile(block) for blocks in wanted for block in blocks]
    for mol in mols:
        if isinstance(mol, Fault):
            return mol
    if not mols:
        return molfile.blame(lines[0], f"the reaction has no {roles_of(side)[0]}", "reaction")
    return Molecules(mols, (*notes, side_note(side)))


Blocks = dict[str, list[Sequence[NumberedLine]]]


def _sides_v2000(lines: Sequence[NumberedLine]) -> Blocks | Fault:
    starts = [k for k, line in enumerate(lines) if line.text.strip() == "$MOL"]
    head = lines[1 : starts[0]] if starts else lines[1:]
    counts = next((_counts(line.text) for line in reversed(head) if line.text.strip()), None)
    if counts is None:
        place = head[-1] if head else lines[0]
        message = "this should be the line with the numbers of reactants and products"
        return molfile.blame(place, message, "reaction")
    if sum(counts) != len(starts):
        message = f"the file announces {sum(counts)} molecules but holds {len(starts)}"
        return molfile.blame(lines[0], f"{message}; was it cut off?", "reaction")
    ends = [*starts[1:], len(lines)]
    blocks = [lines[start + 1 : end] or lines[start:end] for start, end in zip(starts, ends, strict=True)]
    sides: Blocks = {}
    for name, count in zip(("REACTANT", "PRODUCT", "AGENT"), counts, strict=False):
        sides[name], blocks = blocks[:count], blocks[count:]
    return sides


def _counts(text: str) -> list[int] | None:
    """Return numbers of reactants, products and perhaps agents."""
    if not re.fullmatch(r"[ \d]+", text):
        return None
    wide = [text[k : k + 3].strip() for k in range(0, len(text.rstrip()), 3)]
    numbers = wide if all(word.isdigit() for word in wide) else text.split()
    return [int(word) for word in numbers[:3]] if len(numbers) >= 2 else None


def _sides_v3000(lines: Sequence[NumberedLine]) -> Blocks | Fault:
    sides: Blocks = {"REACTANT": [], "PRODUCT": [], "AGENT": []}
    side, begin = "", None
    for k, line in enumerate(lines):
        words = line.text.split()
        if words[:2] != ["M", "V30"] or len(words) < 4:
            continue
        if words[2] == "BEGIN" and words[3] in sides:
            side = words[3]
        elif words[2:4] == ["BEGIN", "CTAB"]:
            begin = k
        elif words[2:4] == ["END", "CTAB"] and begin is not None and side:
            # The counts line of a V3000 molfile always reads like this; and so it ends.
            top = NumberedLine(lines[begin].number, lines[begin].start, "  0  0  0  0  0  0            999 V3000")
            end = NumberedLine(line.number, line.start, "M  END")
            sides[side].append([top, *lines[begin : k + 1], end])
            begin = None
    if begin is not None or not any(line.text.startswith("M  END") for line in lines):
        return molfile.blame(lines[-1], "the file was cut off, copy it whole")
    return sides
