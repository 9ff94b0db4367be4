"""Read the records of a structure file as rows of a table: molecule or reaction as SMILES, title, properties."""

from __future__ import annotations

import re
from collections.abc import Iterator

import chemspec.chem as chem
from chemspec.chem import formats
from chemspec.io.texts import FileError, split_lines
from chemspec.tasks import about_reactions

ENDINGS = (".sdf", ".sd", ".mol", ".rxn", ".rdf", ".cdxml")
_FIELD = re.compile(r">.*?<([^>]*)>")
_RECORD = re.compile(r"\$(?:RFMT|MFMT)\b")


def read_structure_rows(text: str, where: object) -> Iterator[list[str]]:
    """Yield the header (smiles, name, properties of any record), then one row per record.

    An invalid record keeps its text in place of the SMILES, so that parsing it later gives the error message.

    Args:
        text: content of the file.
        where: file name for messages.

    Raises:
        FileError: if there is no record.
    """
    start = text.lstrip()
    if start.startswith("<"):  # CDXML has no properties
        records = [(_block_to_smiles(text), "", dict[str, str]())]
    else:
        records = [
            _read_record(lines) for lines in (_split_rdf(text) if start.startswith("$RDFILE") else _split_sdf(text))
        ]
    if not records:
        raise FileError(f"{where} has no records")
    names = dict.fromkeys(name for _, _, fields in records for name in fields)
    yield ["smiles", "name", *(f"{name}_given" if name in ("smiles", "name") else name for name in names)]
    for smiles, title, fields in records:
        yield [smiles, title, *(fields.get(name, "") for name in names)]


def _split_sdf(text: str) -> Iterator[list[str]]:
    record: list[str] = []
    for line in [*split_lines(text), "$$$$"]:
        if not line.startswith("$$$$"):
            record.append(line)
        else:
            if any(map(str.strip, record)):
                yield record
            record = []


def _split_rdf(text: str) -> Iterator[list[str]]:
    record: list[str] | None = None
    for line in [*split_lines(text), "$RFMT"]:
        if _RECORD.match(line):
            if record:
                yield record
            record = []
        elif record is not None:
            record.append(line)


def _read_record(lines: list[str]) -> tuple[str, str, dict[str, str]]:
    """Return SMILES, title and properties of a record."""
    ends = [number for number, line in enumerate(lines) if line.startswith("M  END")]
    after = range(ends[-1] + 1 if ends else 0, len(lines))
    first = next((number for number in after if lines[number].startswith((">", "$DTYPE"))), len(lines))
    block = "\n".join(lines[:first]) + "\n"
    title = next((line.strip() for line in lines if not line.startswith("$RXN")), "")
    fields: dict[str, str] = {}
    name = ""
    for line in lines[first:]:
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
    return _block_to_smiles(block), title, fields


def _block_to_smiles(block: str) -> str:
    """Return the SMILES of a molecule, or of a reaction with agents; invalid blocks are returned unchanged."""
    drawn = block.lstrip().startswith(("$RXN", "<"))
    read = formats.read_any(block, task=about_reactions() if drawn else "forward")
    if drawn and isinstance(read, chem.Fault):  # may be a molecule, or an incomplete reaction
        read = formats.read_any(block, task="forward")
    return block if isinstance(read, chem.Fault) else read.reaction or read.ordered
