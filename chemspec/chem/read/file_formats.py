"""Which format a file is in, and what reads it; some are recognised only to be refused with a remedy."""

import codecs
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import chemspec.chem.read.drawing as drawing
import chemspec.chem.read.molfile as molfile
import chemspec.chem.read.reaction_files as reaction_files
from chemspec.asset_files import read_asset_table
from chemspec.chem.read.values import EXPORT, Molecules, Reader
from chemspec.chem.smiles_syntax import Fault

TABLE = Path(__file__).with_name("refused.tsv")
_ROWS = [(kind, start, message.format(export=EXPORT)) for kind, start, message in read_asset_table(TABLE)]
_BINARY = [(bytes.fromhex(start), message) for kind, start, message in _ROWS if kind == "binary"]
_REFUSED = [(re.compile(start), message) for kind, start, message in _ROWS if kind == "text"]


def decode(raw: bytes) -> str | Fault:
    """Decode text of unknown encoding: by its byte order mark, else UTF-8, else Latin-1."""
    for magic, message in _BINARY:
        if raw.startswith(magic):
            return Fault(message, 0, 0, "other")
    if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        text = raw.decode("utf-16", errors="replace")
    else:
        try:
            text = raw.removeprefix(codecs.BOM_UTF8).decode("utf-8")
        except UnicodeDecodeError:
            text = raw.decode("latin-1")
    if "\0" in text:
        return Fault(f"this is no text file; {EXPORT}", 0, 0, "other")
    return text


def refusal_of(text: str) -> str:
    """Return why a text of some other format is refused; empty if it is of none known."""
    start = text.lstrip("\ufeff \t\r\n")
    return next((message for pattern, message in _REFUSED if pattern.match(start)), "")


def refuse(text: str, _: str) -> Fault:
    """Refuse a text of some other format."""
    return Fault(refusal_of(text), 0, len(text), "other")


def read_sdf(text: str, _: str) -> Molecules | Fault:
    """Read a molfile, or the first record of an SDF."""
    lines = molfile.split_lines(text)
    ends = [number for number, line in enumerate(lines) if line.text.startswith("$$$$")]
    others = len(ends) - 1 + bool("".join(line.text for line in lines[ends[-1] + 1 :]).strip()) if ends else 0
    note = f"the first of {others + 1} records; the Batch page takes many"
    molecules = molfile.read_molfile(lines[: ends[0]] if ends and ends[0] else lines)
    if isinstance(molecules, Fault):
        return molecules
    return replace(molecules, notes=(note,) * bool(others) + molecules.notes)


@dataclass(frozen=True)
class Format:
    """A format: its name, how a text of it is recognised, and what reads it."""

    name: str
    recognise: Callable[[str], bool]
    read: Reader


def _starts_with(mark: str) -> Callable[[str], bool]:
    return lambda text: text.lstrip("\ufeff \t\r\n").startswith(mark)


def _is_molfile(text: str) -> bool:
    if "\n" not in text and "\r" not in text:
        return False
    lines = molfile.split_lines(text)
    return molfile.find_counts(lines) is not None or any(line.text.startswith("M  END") for line in lines)


# In this order; text of no format is what a user typed.
FORMATS = (
    Format("RDF", reaction_files.is_rdf, reaction_files.read_rdf),
    Format("RXN", _starts_with("$RXN"), reaction_files.read_rxn),
    Format("SDF", lambda text: "$$$$" in text and _is_molfile(text), read_sdf),
    Format("molfile", _is_molfile, read_sdf),
    Format("CDXML", _starts_with("<"), drawing.read_cdxml),
    Format("", lambda text: bool(refusal_of(text)), refuse),
)
_MARKS = re.compile(r"\s|[<{_]|^[$@]|[A-Za-z]{14}-|(?:Branch|Ring)\d")
REACTION_FORMATS = ("RXN", "RDF", "CDXML")  # whose reactions have sides


def recognise(text: str) -> Format | None:
    """Return the format of a text; None for what a user typed."""
    if not _MARKS.search(text):  # quicker than to try each
        return None
    return next((file_format for file_format in FORMATS if file_format.recognise(text)), None)
