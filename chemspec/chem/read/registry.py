"""Which format a text is in, and what reads it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import chemspec.chem.read.drawing as drawing
import chemspec.chem.read.foreign as foreign
import chemspec.chem.read.inchi as inchi
import chemspec.chem.read.ket as ket
import chemspec.chem.read.molfile as molfile
import chemspec.chem.read.reaction_files as reaction_files
import chemspec.chem.read.sdf as sdf
from chemspec.chem.read.values import Reader


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
    return molfile.has_counts(lines) or any(line.text.startswith("M  END") for line in lines)


# In this order; text of no format is what a user typed.
FORMATS = (
    Format("RDF", reaction_files.is_rdf, reaction_files.read_rdf),
    Format("RXN", _starts_with("$RXN"), reaction_files.read_rxn),
    Format("SDF", lambda text: "$$$$" in text and _is_molfile(text), sdf.read_sdf),
    Format("molfile", _is_molfile, sdf.read_sdf),
    Format("CDXML", _starts_with("<"), drawing.read_cdxml),
    Format("KET", ket.is_ket, ket.read_ket),
    Format("InChIKey", inchi.is_inchikey, inchi.refuse_inchikey),
    Format("", lambda text: bool(foreign.refusal_of(text)), foreign.refuse),
)
_MARKS = re.compile(r"\s|[<{_]|^[$@]|[A-Za-z]{14}-|(?:Branch|Ring)\d")
REACTION_FORMATS = ("RXN", "RDF", "CDXML", "KET")  # whose reactions have sides


def recognise(text: str) -> Format | None:
    """Return the format of a text; None for what a user typed."""
    if not _MARKS.search(text):  # quicker than to try each
        return None
    return next((file_format for file_format in FORMATS if file_format.recognise(text)), None)
