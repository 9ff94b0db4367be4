"""Decode the bytes of a file, or say what kind of file it is that holds no text."""

from __future__ import annotations

import codecs

from chemspec.chem.read.values import EXPORT
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
