"""Read the records of a structure file as rows of a table: molecule or reaction as SMILES, title, properties."""

import re
from collections.abc import Callable, Iterator

import chemspec.chem as chem
from chemspec.chem import formats
from chemspec.chem.reading import chemdraw, reaction_files
from chemspec.chem.reading.chemdraw import parse_cdxml
from chemspec.chem.reading.molfile import split_lines
from chemspec.chem.reading.reader import ENDINGS as ENDINGS
from chemspec.chem.reading.reader import STARTS as STARTS
from chemspec.chem.reading.values import side_note
from chemspec.io import FileError
from chemspec.tasks import about_reactions

MAX_STEPS = 100  # steps of a drawn scheme
_FIELD = re.compile(r">.*?<([^>]*)>")
_EXPECTED = {side_note(side) for side in ("forward", "retro")} | {chem.LEFT_OUT}
Fields = dict[str, str]


def read_structure_rows(text: str, where: object, note: Callable[[str], None] = lambda _: None) -> Iterator[list[str]]:
    """Yield the header (smiles, name, properties of any record), then one row per record; FileError if there is none.

    A record that cannot be read as a whole keeps its text in place of the SMILES, so that parsing it later for a task
    gives the side that can be read, or the error message.
    """
    records = [*_records(text)]
    if not records:
        raise FileError(f"{where} has no records")
    names = dict.fromkeys(name for _, _, fields in records for name in fields)
    yield ["smiles", "name", *(f"{name}_given" if name in ("smiles", "name") else name for name in names)]
    for number, (block, title, fields) in enumerate(records, 1):
        smiles, notes = _block_to_smiles(block)
        if notes:
            note(f"{where}{f', record {number}' if len(records) > 1 else ''}: {'; '.join(notes)}")
        yield [smiles, title, *(fields.get(name, "") for name in names)]


def _records(text: str) -> Iterator[tuple[str, str, Fields]]:
    start = text.lstrip("\ufeff \t\r\n")
    if start.startswith("<"):  # CDXML has no properties
        root = parse_cdxml(text)
        for part in [text] if isinstance(root, chem.Fault) else chemdraw.split_steps(root, MAX_STEPS):
            yield part, "", {}
    elif start.startswith("$RXN") or reaction_files.is_rdf(start):
        for record in reaction_files.split_records(split_lines(text)):
            lines = [line.text for line in record]
            yield _record(lines, len(reaction_files.structure_of(record)))
    elif start.startswith(STARTS):  # a file of one record
        yield text, "", {}
    else:
        for part in re.split(r"(?m)^\$\$\$\$.*\n?", text.replace("\r\n", "\n").replace("\r", "\n")):
            if not part.strip():
                continue
            lines = part.rstrip("\n").split("\n")
            ends = next((number for number, line in enumerate(lines) if line.startswith("M  END")), -1)
            data = range(ends + 1 if ends >= 0 else 4, len(lines))
            yield _record(lines, next((number for number in data if lines[number].startswith(">")), len(lines)))


def _record(lines: list[str], structure: int) -> tuple[str, str, Fields]:
    fields: Fields = {}
    name = ""
    for line in lines[structure:]:
        if match := _FIELD.match(line):
            name = match[1].strip()
            fields[name] = ""
        elif line.startswith("$DTYPE"):
            name = line[6:].strip()
        elif name and line.strip():
            value = line.removeprefix("$DATUM").strip()
            fields[name] = f"{fields[name]} {value}" if fields.get(name) else value
        elif not line.strip():
            name = ""
    title = next((line.strip() for line in lines[:structure] if not line.startswith("$RXN")), "")
    return "\n".join(lines[:structure]) + "\n", title, fields


def _block_to_smiles(block: str) -> tuple[str, tuple[str, ...]]:
    """Return a molecule, or a whole reaction with agents, as SMILES, and notes; else the block as it is."""
    read = formats.read_input(block, task="forward")
    is_reaction = isinstance(read, chem.Fault) or side_note("forward") in read.notes
    if is_reaction and block.lstrip("\ufeff \t\r\n").startswith(("$RXN", "<", "{")):
        read = formats.read_input(block, task=about_reactions())
    if isinstance(read, chem.Fault):
        return block, ()
    return read.reaction or read.ordered, tuple(note for note in read.notes if note not in _EXPECTED)
