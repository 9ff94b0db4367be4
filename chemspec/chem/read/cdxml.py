"""Validate ChemDraw files (untrusted XML) before RDKit parses them, and reject what it would misread."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any
from xml.parsers import expat

from chemspec.chem import LONGEST
from chemspec.chem.parsing import cdxml_refusal
from chemspec.chem.smiles_syntax import Fault

_DEEPEST = 50  # nesting of elements; ChemDraw uses about ten
_MOST = 20_000  # elements
_DOCTYPE = re.compile(r"<!DOCTYPE[^\[>]*>")
# ChemDraw node types of labels with several meanings.
_VAGUE = {
    "GenericNickname",
    "AnonymousAlternativeGroup",
    "NamedAlternativeGroup",
    "ElementList",
    "ElementListNickname",
    "Unspecified",
    "LinkNode",
    "VariableAttachment",
}
_LABELS = {"Nickname", "Fragment"}  # these contain the atoms that they abbreviate


@dataclass(frozen=True)
class CdxmlFile:
    """A valid file: text without document type, number of reaction steps, notes."""

    clean: str
    steps: int
    notes: tuple[str, ...]


class _RefusedError(Exception):
    """Stops parsing at the first fault."""


@dataclass
class _CdxmlChecker:
    parser: Any
    open: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)  # of open nodes
    filled: list[bool] = field(default_factory=list)  # whether open nodes contain a fragment
    count: int = 0
    nodes: int = 0
    steps: int = 0
    arrows: int = 0
    captions: list[str] = field(default_factory=list)
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
        if not self.open and name != "CDXML":
            what = {"html": "a web page", "svg": "a picture"}.get(name.lower(), f"XML of the kind {name[:40]}")
            self.stop(f"this is {what}, not CDXML; export the structure as molfile, RXN or SMILES")
        self.open.append((name, attributes))
        self.count += 1
        if len(self.open) > _DEEPEST or self.count > _MOST:
            self.stop("this file is built too deep or too large for one query")
        if name == "fragment" and self.filled:
            self.filled[-1] = True
        if name == "n":
            self.nodes += 1
            self.labels.append("")
            self.filled.append(False)
            if self.nodes > LONGEST:
                self.stop(f"more than {LONGEST} atoms are too many")
        self.steps += name == "step"
        self.arrows += name == "arrow" or "ArrowType" in attributes

    def text(self, data: str) -> None:
        if not any(name == "t" for name, _ in self.open):
            return
        inside = [name for name, _ in self.open]
        if "n" in inside:
            self.labels[-1] += data
        elif "objecttag" not in inside and data.strip():
            self.captions.append(data.strip())

    def end(self, name: str) -> None:
        _, attributes = self.open.pop()
        if name != "n":
            return
        label, filled = " ".join(self.labels.pop().split())[:30] or "?", self.filled.pop()
        kind = attributes.get("NodeType", "")
        if kind in _VAGUE or attributes.get("ElementList"):
            self.stop(f"the label {label!r} stands for no single group of atoms; draw the one that is meant")
        if kind in _LABELS and not filled:
            self.stop(f"the label {label!r} is not expanded; in ChemDraw: Structure, Expand Label")


def check_cdxml(text: str) -> CdxmlFile | Fault:
    """Check a CDXML file; returns a fault if it is hostile, too large, or has ambiguous labels."""
    parser = expat.ParserCreate()
    walk = _CdxmlChecker(parser)
    parser.StartDoctypeDeclHandler = walk.doctype
    parser.EntityDeclHandler = walk.entity
    parser.StartElementHandler = walk.start
    parser.EndElementHandler = walk.end
    parser.CharacterDataHandler = walk.text
    # The text is decoded already, so its encoding declaration is ignored.
    clean = re.sub(r"^\ufeff?\s*<\?xml.*?\?>", "", text, count=1)
    try:
        parser.Parse(clean.strip().encode("utf-8", errors="replace"), True)
    except _RefusedError:
        return Fault(walk.message, 0, len(text), "other")
    except expat.ExpatError as error:
        message = f"line {error.lineno}: this is not well-formed XML ({expat.ErrorString(error.code)})"
        return Fault(f"{message}; was the file cut off?", 0, len(text), "syntax")
    # ChemDraw refers to a document type on its server, which must not be loaded.
    clean = _DOCTYPE.sub("", clean.strip(), count=1)
    if refusal := cdxml_refusal(clean):
        return Fault(refusal, 0, len(text), "length")
    if not walk.nodes:
        return Fault("this ChemDraw file holds no atoms", 0, len(text), "empty")
    if walk.arrows and not walk.steps:
        message = "there is an arrow but no reaction scheme; save only the molecules you mean"
        return Fault(message, 0, len(text), "reaction")
    notes = []
    if walk.steps > 1:
        notes.append(f"the first of {walk.steps} reaction steps")
    if walk.captions:
        shown = " ".join(walk.captions)
        notes.append(f"text in the drawing left out: {shown[:60]!r}")
    return CdxmlFile(clean, walk.steps, tuple(notes))


def query_fault(mol: Any) -> Fault | None:
    """Return the fault of a molecule with query atoms or bonds."""
    if any(atom.GetAtomicNum() == 0 or atom.HasQuery() for atom in mol.GetAtoms()):
        message = "a label or an open end stands for no certain atom; draw the one that is meant"
        return Fault(message, 0, 0, "atom")
    if any(bond.HasQuery() for bond in mol.GetBonds()):
        return Fault("a bond stands for more than one kind; draw the one that is meant", 0, 0, "bond")
    return None
