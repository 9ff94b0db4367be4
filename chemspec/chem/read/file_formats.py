"""Which format a file is in, and what reads it; some are recognised only to be refused with a remedy."""

import codecs
import re
from collections.abc import Callable
from dataclasses import dataclass, replace

import chemspec.chem.read.drawing as drawing
import chemspec.chem.read.ket as ket
import chemspec.chem.read.molfile as molfile
import chemspec.chem.read.reaction_files as reaction_files
from chemspec.chem.read.values import EXPORT, Molecules, Reader
from chemspec.chem.smiles_syntax import Fault

_UNPACK = "unpack it and choose one file, or use the Batch page for tables"
_BINARY = (
    (b"\x1f\x8b", "a gzip archive", _UNPACK),
    (b"PK\x03\x04", "a zip archive or an Office document", _UNPACK),
    (b"PK\x05\x06", "an empty zip archive", _UNPACK),
    (b"BZh", "a bzip2 archive", _UNPACK),
    (b"\xfd7zXZ", "an xz archive", _UNPACK),
    (b"7z\xbc\xaf", "a 7z archive", _UNPACK),
    (b"VjCD0100", "a binary ChemDraw file (CDX)", "save it as CDXML"),
    (b"\xd0\xcf\x11\xe0", "an old Office document or ISIS sketch", EXPORT),
    (b"%PDF", "a PDF", EXPORT),
    (b"\x89PNG", "a picture", EXPORT),
    (b"\xff\xd8\xff", "a picture", EXPORT),
    (b"GIF8", "a picture", EXPORT),
)


def decode(raw: bytes) -> str | Fault:
    """Decode text of unknown encoding: by its byte order mark, else UTF-8, else Latin-1."""
    for magic, what, advice in _BINARY:
        if raw.startswith(magic):
            return Fault(f"this is {what}, not text; {advice}", 0, 0, "other")
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


_REFUSED = (
    (r"\{", f"this is JSON (perhaps Ketcher's KET); {EXPORT}"),
    (r"@<TRIPOS>", f"this is a mol2 file, which is not read; {EXPORT}"),
    (r"(?:HEADER|CRYST1|COMPND|HETATM|ATOM  )[ \d]", f"this is a PDB file: coordinates without bond orders; {EXPORT}"),
    (r"data_\S*\s|loop_\s", f"this is a CIF file: coordinates without bond orders; {EXPORT}"),
    (
        r"\d+[ \t]*\r?\n.*\r?\n\s*[A-Z][a-z]?(?:\s+-?\d*\.\d+){3}",
        f"this is an XYZ file: coordinates without bonds; {EXPORT}",
    ),
    (r"(?:\[[^\[\]]+\])*\[=?(?:Branch|Ring)\d\]", "this is SELFIES; write it as SMILES"),
    (
        r"(?i:(?:InChIKey\s*[=:]\s*)?[A-Z]{14}-[A-Z]{10}-[A-Z]\s*$)",
        "an InChIKey is a fingerprint that cannot be turned back into a molecule; "
        "look it up (PubChem) and enter its SMILES",
    ),
)


def refusal_of(text: str) -> str:
    """Return why a text of some other format is refused; empty if it is of none known."""
    start = text.lstrip("\ufeff \t\r\n")
    return next((message for pattern, message in _REFUSED if re.match(pattern, start)), "")


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
    Format("KET", ket.is_ket, ket.read_ket),
    Format("", lambda text: bool(refusal_of(text)), refuse),
)
_MARKS = re.compile(r"\s|[<{_]|^[$@]|[A-Za-z]{14}-|(?:Branch|Ring)\d")
REACTION_FORMATS = ("RXN", "RDF", "CDXML", "KET")  # whose reactions have sides


def recognise(text: str) -> Format | None:
    """Return the format of a text; None for what a user typed."""
    if not _MARKS.search(text):  # quicker than to try each
        return None
    return next((file_format for file_format in FORMATS if file_format.recognise(text)), None)
