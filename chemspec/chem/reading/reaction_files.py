"""RXN and RDF files: the sides of their first reaction."""

import re
from collections.abc import Sequence
from dataclasses import replace

import chemspec.chem.reading.molfile as molfile
from chemspec.chem.molecules import parsing
from chemspec.chem.molecules.smiles_syntax import Fault
from chemspec.chem.reading.molfile import NumberedLine
from chemspec.chem.reading.values import Molecules, Reaction

RDF_STARTS = ("$RDFILE", "$RFMT", "$MFMT", "$RIREG", "$MIREG")  # of files
_MARK = re.compile(r"\$(?:RFMT|MFMT|[RM](?:I|E)REG)\b")  # what a record begins with
_HEAD = re.compile(r"\$(?:RDFILE|DATM)\b")


def is_rdf(text: str) -> bool:
    """Return whether a text is an RDF, also one without its first lines."""
    start = text.lstrip("\ufeff \t\r\n")
    return bool(_HEAD.match(start) or _MARK.match(start))


def split_records(lines: Sequence[NumberedLine]) -> list[list[NumberedLine]]:
    """Return the records of an RDF or of several RXN files after each other, from their reaction or molecule on."""
    records: list[list[NumberedLine]] = []
    marked = False  # whether only marks of the record were seen
    inside = False  # whether the record has its reaction
    before = ""
    for line in lines:
        text = line.text.lstrip("\ufeff \t")
        if _MARK.match(text):
            if not marked:
                records.append([])
            marked, inside = True, False
        elif text.startswith("$RXN") and not before.startswith("$DATUM"):  # a datum may hold a reaction, too
            if inside or not records or not marked:
                records.append([])
            records[-1].append(line)
            marked, inside = False, True
        elif records:
            records[-1].append(line)
            marked = marked and not text.strip() and inside
        before = text if text.strip() else before
    return [record for record in records if any(line.text.strip() for line in record)]


def structure_of(record: Sequence[NumberedLine]) -> Sequence[NumberedLine]:
    """Return the lines of a record without its data."""
    end = next((k for k, line in enumerate(record) if line.text.startswith("$DTYPE")), len(record))
    return record[:end]


def read_rdf(text: str) -> Molecules | Reaction | Fault:
    """Read the first reaction of an RDF, else its first molecule."""
    lines = molfile.split_lines(text)
    records = split_records(lines)
    if not records:
        cut_off = any(_MARK.match(line.text) for line in lines)
        message = "the file was cut off, copy it whole" if cut_off else "this RDF holds no reaction; export one as RXN"
        return molfile.blame(lines[-1] if cut_off else lines[0], message, "syntax" if cut_off else "empty")
    reactions = [record for record in records if record[0].text.startswith("$RXN")]
    return _first_of(reactions or records, len(records))


def read_rxn(text: str) -> Molecules | Reaction | Fault:
    """Read an RXN file, or the first of several."""
    records = split_records(molfile.split_lines(text))
    return _first_of(records, len(records))


def _first_of(records: Sequence[Sequence[NumberedLine]], many: int) -> Molecules | Reaction | Fault:
    record = structure_of(records[0])
    notes = (f"the first of {many} records; the Batch page takes many",) * (many > 1)
    if not record:
        return molfile.blame(records[0][0], "this record holds data, but no reaction", "empty")
    if record[0].text.lstrip("\ufeff \t").startswith("$RXN"):
        return _reaction(record, notes)
    molecules = molfile.read_molfile(record)
    return molecules if isinstance(molecules, Fault) else replace(molecules, notes=notes + molecules.notes)


def _reaction(lines: Sequence[NumberedLine], notes: tuple[str, ...]) -> Reaction | Fault:
    """Return the reaction of an RXN record; its first line is $RXN."""
    sides = _sides_v3000(lines) if "V3000" in lines[0].text else _sides_v2000(lines)
    if isinstance(sides, Fault):
        return sides
    whole = lines[0].start, lines[-1].start + len(lines[-1].text)
    return Reaction({name.lower(): _side(blocks, whole) for name, blocks in sides.items() if blocks}, notes, whole)


def _side(blocks: Sequence[Sequence[NumberedLine]], whole: tuple[int, int]) -> Molecules | Fault:
    # RDKit would take as long for many molecules of some rings as for one of many.
    if refusal := parsing.molblock_refusal(*map(molfile.block_of, blocks)):
        return Fault(refusal, *whole, "length")
    return molfile.read_molfiles(blocks)


Blocks = dict[str, list[Sequence[NumberedLine]]]


def _sides_v2000(lines: Sequence[NumberedLine]) -> Blocks | Fault:
    starts = [k for k, line in enumerate(lines) if line.text.strip() == "$MOL"]
    head = lines[1 : starts[0]] if starts else lines[1:]
    counts = next((_counts(line.text) for line in reversed(head) if line.text.strip()), None)
    if counts is None:
        line = head[-1] if head else lines[0]
        return molfile.blame(line, "this should be the line with the numbers of reactants and products", "reaction")
    if fault := _miscounted(lines[0], counts, len(starts)):
        return fault
    ends = [*starts[1:], len(lines)][: len(starts)]
    blocks = [lines[start + 1 : end] or lines[start:end] for start, end in zip(starts, ends, strict=True)]
    sides: Blocks = {}
    for name, count in zip(("REACTANT", "PRODUCT", "AGENT"), counts, strict=False):
        sides[name], blocks = blocks[:count], blocks[count:]
    return sides


def _miscounted(line: NumberedLine, counts: Sequence[int], held: int) -> Fault | None:
    if sum(counts) > held:
        message = f"the file announces {sum(counts)} molecules but holds {held}"
        return molfile.blame(line, f"{message}; was it cut off?", "reaction")
    if sum(counts) < held:
        message = f"there are {held} molecules, more than the counts line says ({' + '.join(map(str, counts))})"
        remedy = f"if the rest are agents, write {' '.join(map(str, (*counts[:2], held - sum(counts[:2]))))}"
        return molfile.blame(line, f"{message}; {remedy}", "reaction")
    return None


def _counts(text: str) -> list[int] | None:
    if not re.fullmatch(r"[ \d]+", text):
        return None
    wide = [text[k : k + 3].strip() for k in range(0, len(text.rstrip()), 3)]
    numbers = wide if all(word.isdigit() for word in wide) else text.split()
    return [int(word) for word in numbers[:3]] if len(numbers) >= 2 else None


def _sides_v3000(lines: Sequence[NumberedLine]) -> Blocks | Fault:
    sides: Blocks = {"REACTANT": [], "PRODUCT": [], "AGENT": []}
    side, begin = "", None
    counts: list[int] | None = None
    for k, line in enumerate(lines):
        words = line.text.split()
        if words[:2] != ["M", "V30"] or len(words) < 4:
            continue
        if words[2] == "COUNTS" and counts is None and begin is None:
            counts = [int(word) for word in words[3:6] if word.isdecimal()]
        elif words[2] == "BEGIN" and words[3] in sides:
            side = words[3]
        elif words[2:4] == ["BEGIN", "CTAB"]:
            begin = k
        elif words[2:4] == ["END", "CTAB"] and begin is not None and side:
            # The counts line of a V3000 molfile always reads like this; and so it ends.
            top = NumberedLine(lines[begin].number, lines[begin].start, "  0  0  0  0  0  0            999 V3000")
            sides[side].append([top, *lines[begin : k + 1], NumberedLine(line.number, line.start, "M  END")])
            begin = None
    if begin is not None or not any(line.text.startswith("M  END") for line in lines):
        return molfile.blame(lines[-1], "the file was cut off, copy it whole")
    return (counts and _miscounted(lines[0], counts, sum(map(len, sides.values())))) or sides
