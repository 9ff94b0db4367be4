"""The records of a structure file as rows of a table: the molecule or reaction as SMILES, its title, its properties."""

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


def rows(text: str, where: object) -> Iterator[list[str]]:
    """Yield the header (smiles, name, the properties of any record), then a row a record.

    A record that cannot be read keeps its text in place of the SMILES, so that whoever reads it says what is wrong.

    Args:
        text: the content of the file.
        where: what messages call it.

    Raises:
        FileError: if it holds no record.
    """
    start = text.lstrip()
    if start.startswith("<"):  # of CDXML, which has no properties
        found = [(_smiles(text), "", dict[str, str]())]
    else:
        found = [_record(lines) for lines in (_rdf(text) if start.startswith("$RDFILE") else _sdf(text))]
    if not found:
        raise FileError(f"{where} holds no records")
    names = dict.fromkeys(name for _, _, fields in found for name in fields)
    yield ["smiles", "name", *(f"{name}_given" if name in ("smiles", "name") else name for name in names)]
    for smiles, title, fields in found:
        yield [smiles, title, *(fields.get(name, "") for name in names)]


def _sdf(text: str) -> Iterator[list[str]]:
    record: list[str] = []
    for line in [*split_lines(text), "$$$$"]:
        if not line.startswith("$$$$"):
            record.append(line)
        else:
            if any(map(str.strip, record)):
                yield record
            record = []


def _rdf(text: str) -> Iterator[list[str]]:
    record: list[str] | None = None
    for line in [*split_lines(text), "$RFMT"]:
        if _RECORD.match(line):
            if record:
                yield record
            record = []
        elif record is not None:
            record.append(line)


def _record(lines: list[str]) -> tuple[str, str, dict[str, str]]:
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
    return _smiles(block), title, fields


def _smiles(block: str) -> str:
    """Return a molecule, or a reaction with its agents between the arrows; what cannot be read stays as it is."""
    drawn = block.lstrip().startswith(("$RXN", "<"))
    read = formats.read_any(block, task=about_reactions() if drawn else "forward")
    if drawn and isinstance(read, chem.Fault):  # perhaps a molecule, or half a reaction
        read = formats.read_any(block, task="forward")
    return block if isinstance(read, chem.Fault) else read.reaction or read.ordered
