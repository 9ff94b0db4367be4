"""Texts cut into lines, and lists of SMILES, one per line, as .smi and .txt files hold them."""

import re
from collections.abc import Iterable, Iterator
from itertools import chain, islice

import chemspec.chem as chem
from chemspec.chem.read.flask import JOINED, read_flask
from chemspec.chem.read.values import Molecules
from chemspec.chem.traced_text import TracedText
from chemspec.io import columns


class FileError(ValueError):
    """A file that cannot be read or written as asked; the message says which and what to do."""


def split_lines(text: str) -> list[str]:
    """Lines, however they end; blank ones keep their place, but not at the end of the text."""
    # Not str.splitlines, which takes a good dozen other characters for line ends.
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    while lines and not lines[-1].strip():
        lines.pop()
    return lines


HEAD = 12  # lines that tell a structure file from a list
_COUNTS = re.compile(r"\s*\d[\d\s]*\bV[23]000\s*$", re.IGNORECASE)
# What catalogues and programs number molecules with. A word without digits may be the name of a second molecule.
_IDENTIFIER = re.compile(
    r"\d+|[A-Za-z]{1,12}[-_:]?\d{2,}[\w-]*|\w*?(?:mol|cpd|cmpd|compound|molecule|ligand|entry|id|no)[-_.:#]?\d+",
    re.IGNORECASE,
)


def is_structure_file(head: Iterable[str]) -> bool:
    """Return whether a text with these first lines is a molfile, SDF, RXN, RDF, CDXML or KET, whatever its name."""
    lines = [line.strip("\ufeff \t\r\n") for line in head]
    first = next(filter(None, lines), "")
    if first.startswith(("$RXN", "$RDFILE", "$RFMT", "$MFMT", "$RIREG", "$MIREG", "<?xml", "<!DOCTYPE", "<CDXML", "{")):
        return True
    return any(map(_COUNTS.match, lines))


def read_list(lines: Iterable[str], *, titled: bool = False) -> Iterator[str]:
    """Yield the queries of a list without comments and heading, a SMILES before its identifier; blank lines stay.

    Those at the end do not. In a `titled` list what follows a SMILES is its title, whatever molecule that names.
    """
    blank: list[str] = []
    is_first = True
    for line in lines:
        if not line.strip():
            blank.append(line)
        elif not columns.is_comment(line):
            yield from blank
            blank.clear()
            if not (is_first and _is_heading(line)):
                yield _without_reactant(_smiles_first(line)) if titled else _smiles_first(line)
            is_first = False


def _is_heading(line: str) -> bool:
    words = re.split(r"[\s,;]+", line.strip())
    return bool(columns.find_query_columns(words)) and not any(chem.is_valid(word) for word in words[:2])


def _smiles_first(line: str) -> str:
    """Return a line that begins with an identifier with its SMILES in front."""
    words = line.split()
    if len(words) < 2 or not _IDENTIFIER.fullmatch(words[0]) or chem.is_valid(words[0]) or not chem.is_valid(words[1]):
        return line
    return " ".join((words[1], words[0], *words[2:]))


def _without_reactant(line: str) -> str:
    """Return a line without its title if that would be read as a further reactant, such as the name of the product."""
    smiles, *title = line.split(maxsplit=1)
    if not title or title[0][0] in "|,;+&" or not chem.is_valid(smiles) or any(map(chem.is_valid, title[0].split())):
        return line
    read = read_flask(TracedText.of(line), is_target=False)
    return line if isinstance(read, Molecules) and JOINED not in read.notes else smiles


def look_ahead(lines: Iterable[str], count: int = HEAD) -> tuple[list[str], Iterator[str]]:
    """Return the first lines, and all of them to read."""
    rest = iter(lines)
    head = list(islice(rest, count))
    return head, chain(head, rest)
