"""Validate ChemDraw files (untrusted XML) before anything else parses them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any
from xml.parsers import expat

from chemspec.chem import LONGEST
from chemspec.chem.smiles_syntax import Fault

_DEEPEST = 50  # nesting of elements; ChemDraw uses about ten
_MOST = 20_000  # elements
_DOCTYPE = re.compile(r"""<!DOCTYPE(?:"[^"]*"|'[^']*'|[^"'\[>])*>""")  # a quoted address may hold >


class _RefusedError(Exception):
    """Stops parsing at the first fault."""


@dataclass
class _CdxmlChecker:
    parser: Any
    depth: int = 0
    count: int = 0
    nodes: int = 0
    message: str = ""

    def stop(self, message: str) -> None:
        self.message = f"line {self.parser.CurrentLineNumber}: {message}"
        raise _RefusedError

    def doctype(self, name: str, system: str | None, public: str | None, internal: int) -> None:
        if internal:
            self.stop("document types with definitions are refused; save the file again in ChemDraw")

    def entity(self, *_: Any) -> None:
        self.stop("entities are refused; save the file again in ChemDraw")

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if not self.depth and name != "CDXML":
            what = {"html": "a web page", "svg": "a picture"}.get(name.lower(), f"XML of the kind {name[:40]}")
            self.stop(f"this is {what}, not CDXML; export the structure as molfile, RXN or SMILES")
        self.depth += 1
        self.count += 1
        if self.depth > _DEEPEST or self.count > _MOST:
            self.stop("this file is built too deep or too large for one query")
        self.nodes += name == "n"
        if self.nodes > LONGEST:
            self.stop(f"more than {LONGEST} atoms are too many")

    def end(self, _: str) -> None:
        self.depth -= 1


def check_cdxml(text: str) -> str | Fault:
    """Return a CDXML file without its document type, or its fault if it is hostile, too large or no XML."""
    parser = expat.ParserCreate()
    walk = _CdxmlChecker(parser)
    parser.StartDoctypeDeclHandler = walk.doctype
    parser.EntityDeclHandler = walk.entity
    parser.StartElementHandler = walk.start
    parser.EndElementHandler = walk.end
    # The text is decoded already, so its encoding declaration is ignored.
    whole = text.encode("utf-8", errors="replace").decode()  # half a surrogate pair is no text
    clean = re.sub(r"^\ufeff?\s*<\?xml.*?\?>", "", whole, count=1).strip()
    try:
        parser.Parse(clean.encode(), True)
    except _RefusedError:
        return Fault(walk.message, 0, len(text), "other")
    except expat.ExpatError as error:
        message = f"line {error.lineno}: this is not well-formed XML ({expat.ErrorString(error.code)})"
        return Fault(f"{message}; was the file cut off?", 0, len(text), "syntax")
    if not walk.nodes:
        return Fault("this ChemDraw file holds no atoms", 0, len(text), "empty")
    # ChemDraw refers to a document type on its server, which must not be loaded.
    return _DOCTYPE.sub("", clean, count=1)
