"""ChemDraw files (CDXML): their molecules, or the reaction in them."""

import re
from collections.abc import Sequence
from typing import Any
from xml.etree.ElementTree import Element

from rdkit import Chem, rdBase

import chemspec.chem.reading.chemdraw as chemdraw
import chemspec.chem.reading.molfile as molfile
import chemspec.chem.reading.names.lookup as lookup
import chemspec.chem.reading.names.spelling as spelling
from chemspec.chem.molecules import parsing
from chemspec.chem.molecules.rdkit_tasks import RDKIT_ERRORS
from chemspec.chem.molecules.smiles_syntax import Fault
from chemspec.chem.reading.values import DRAW, EXPORT, Molecules, Reaction, RefusedError

# ChemDraw node types of labels with several meanings.
_VAGUE = {
    "GenericNickname", "AnonymousAlternativeGroup", "NamedAlternativeGroup", "ElementList", "ElementListNickname",
    "Unspecified", "LinkNode",
}  # fmt: skip
_ATTACHED = {"MultiAttachment", "VariableAttachment"}
_LABELS = {"Nickname", "Fragment"}  # these contain the atoms that they abbreviate
_PLAIN_BRACKETS = {"Unspecified", "Unused1", "Unused2", "Component", ""}
_NO_NARROW_END = {"Bold", "Hash", "HollowWedgeBegin", "HollowWedgeEnd", "Dash", "DashBold"}


def read_cdxml(text: str) -> Molecules | Reaction | Fault:
    """Return the molecules of a ChemDraw file, or the first reaction in it."""
    whole = 0, len(text)
    root = chemdraw.parse_cdxml(text)
    if isinstance(root, Fault):
        return root
    drawing = chemdraw.Drawing(root)
    reaction = drawing.reaction()
    if isinstance(reaction, str):
        return Fault(reaction, *whole, "reaction")
    if reaction is None:
        return _read(drawing, drawing.items, "", whole)
    inside = {id(item) for role in reaction.items.values() for item in role}
    outside = [item for item in drawing.items if id(item) not in inside]
    sides = {role: _read(drawing, items, role, whole) for role, items in reaction.items.items() if items}
    return Reaction(sides, (*reaction.notes, *_left_out(outside)), whole)


def _read(drawing: chemdraw.Drawing, items: Sequence[Element], role: str, whole: tuple[int, int]) -> Molecules | Fault:
    try:
        return _molecules_of(drawing, items, role)
    except RefusedError as error:
        return Fault(str(error), *whole, error.kind)
    except RDKIT_ERRORS as error:
        reason = str(error).strip().split("\n")[0]
        return Fault(f"RDKit cannot read this ChemDraw file: {reason}; {EXPORT}", *whole, "other")


def _left_out(items: Sequence[Element]) -> list[str]:
    words = [" ".join(chemdraw.text_of(item).split()) for item in items if item.tag == "t"]
    labels = [_lone_label(item) for item in items if item.tag == "fragment"]
    words += filter(None, labels)
    drawn = sum(not label for label in labels)
    return text_note(words) + [f"{drawn} molecule{'s' * (drawn > 1)} outside the reaction left out"] * bool(drawn)


def _molecules_of(drawing: chemdraw.Drawing, items: Sequence[Element], role: str) -> Molecules:
    """Return the molecules of objects with a role in a reaction, if any; what is no name over an arrow is left out."""
    fragments = [item for item in items if item.tag == "fragment"]
    texts = [chemdraw.text_of(item) for item in items if item.tag == "t"]
    labels = [*filter(None, map(_lone_label, fragments))]
    drawn = [item for item in fragments if not _lone_label(item)]
    if refusal := parsing.cdxml_refusal(chemdraw.alone(drawing, drawn)) if drawn else "":
        raise RefusedError(refusal, "length")
    parts: list[Any] = []
    notes: list[str] = []
    rest: list[str] = []
    for item in drawn:
        parts += _molecules(drawing, item, notes)
    if role == "agent" or (role and not fragments):
        labels += texts
    else:
        rest += [" ".join(text.split()) for text in texts]
    for label in labels:
        unread: list[str] = []
        named = read_label(label, unread)
        if role != "agent" and label and (unread or not named.parts):
            raise RefusedError(f"the label {label[:30]!r} stands for no single group of atoms; {DRAW}", "atom")
        parts += named.parts
        notes += named.notes
        rest += unread
    if not parts and not role:
        raise RefusedError("there is no molecule here", "empty")
    return Molecules(parts, (*dict.fromkeys(notes), *text_note(rest)))


_LIST = re.compile(r"\s*[;\n]\s*|,\s+|,$|\s+[+&]\s+|\s+(?:and|then|with|in)\s+|\s*→\s*")
_CLOSE = re.compile(r"[,/]|\s+")  # parts names only where all pieces are names
_NUMBERING = re.compile(r"^(?:\(?(?:\d{1,2}|[a-h]|[ivx]+)[.)]\)?\s+|\d+\s*[x×]\s+)")
_ATMOSPHERE = {"n2", "ar", "nitrogen", "argon", "air"}  # above the flask, not in it
_MAX_CHARS = 500  # characters of a text; what stands over an arrow is shorter


def read_label(text: str, rest: list[str]) -> Molecules:
    """Return the molecules that a text names; words that name none, such as conditions, are added to `rest`."""
    if len(text) > _MAX_CHARS:
        rest.append(f"{text[:60]}...")
        return Molecules([])
    named: dict[str, lookup.Named] = {}
    for part in [text] if lookup.look_up(text) else filter(None, _LIST.split(text.strip())):
        part = _NUMBERING.sub("", " ".join(part.split()), count=1)
        pieces = [part] if lookup.look_up(part) else [*filter(None, _CLOSE.split(part))]
        by_name = {piece: lookup.look_up(piece) for piece in pieces if not spelling.is_condition(piece)}
        molecules = {name: read for name, read in by_name.items() if read and name.casefold() not in _ATMOSPHERE}
        if len(molecules) < len(by_name) or not by_name:
            rest.append(part)
        else:
            named |= molecules
    names = ((written, molecule.name) for written, molecule in named.items())
    notes = tuple(name if name.casefold() == written.casefold() else f"{written}: {name}" for written, name in names)
    return Molecules([molecule.smiles for molecule in named.values()], notes)


def text_note(words: Sequence[str]) -> list[str]:
    """Return a note on texts of a drawing that name no molecule; empty if there is none."""
    return [f"text in the drawing left out: {', '.join(filter(None, words))[:60]!r}"] * any(words)


def _lone_label(fragment: Element) -> str:
    """Return the words of a fragment that is one label without bonds and without atoms of its own; else nothing."""
    nodes = fragment.findall("n")
    if len(nodes) != 1 or fragment.tag != "fragment":
        return ""
    (node,) = nodes
    kind = node.get("NodeType", "")
    empty = kind in _LABELS and node.find("fragment") is None
    return (chemdraw.text_of(node) or "?") if kind in _VAGUE or empty or _is_strange_element(node) else ""


def _is_strange_element(node: Element) -> bool:
    """Return whether the label of an atom says something else than its element, hydrogens, charge and isotope."""
    label = re.sub(r"[^A-Za-z]", "", chemdraw.text_of(node))
    number = node.get("Element", "6")
    plain = node.get("NodeType", "") in ("", "Element")
    if not plain or not label or not number.isdecimal() or not 0 < int(number) < 119:
        return False
    symbol = Chem.GetPeriodicTable().GetElementSymbol(int(number))
    return label.replace(symbol, "", 1).strip("H") != "" and label not in ("D", "T", "Me")


def _molecules(drawing: chemdraw.Drawing, fragment: Element, notes: list[str]) -> list[Any]:
    _refuse_brackets(drawing, fragment)
    bonds = [end for bond in fragment.iter("b") for end in (bond.get("B", ""), bond.get("E", ""))]
    for node in fragment.iter("n"):
        _check_node(node)
    plain = _spliced(fragment, set(bonds))
    with rdBase.BlockLogs():
        mols = [mol for mol in parsing.mols_from_cdxml(chemdraw.alone(drawing, [plain])) if mol.GetNumAtoms()]
        if not mols:
            raise RefusedError(f"RDKit cannot read a molecule of this ChemDraw file; {EXPORT}")
        hydrides = [
            Chem.GetPeriodicTable().GetElementSymbol(int(node.get("Element", "6")))
            for node in fragment.iter("n")
            if node.get("NumHydrogens", "0") not in ("", "0") and node.get("Element", "6").isdecimal()
        ]
        for mol in mols:
            if any(atom.GetAtomicNum() == 0 or atom.HasQuery() for atom in mol.GetAtoms()):
                raise RefusedError(f"a label or an open end stands for no certain atom; {DRAW}", "atom")
            if any(bond.HasQuery() for bond in mol.GetBonds()):
                raise RefusedError(f"a bond stands for more than one kind; {DRAW}", "bond")
            notes += molfile.as_drawn(mol, hydrides)
            if any(bond.get("Display") in _NO_NARROW_END for bond in plain.iter("b")) and _is_unsure(mol):
                notes.append("a bold, hashed or hollow bond without a narrow end shows no configuration; draw a wedge")
    return mols


def _check_node(node: Element) -> None:
    kind = node.get("NodeType", "")
    label = " ".join(chemdraw.text_of(node).split())[:30] or "?"
    if kind in _ATTACHED:
        raise RefusedError(f"a bond that ends at several atoms is not understood; {DRAW}", "bond")
    if kind in _VAGUE or node.get("ElementList") or node.get("GenericList") or _is_strange_element(node):
        raise RefusedError(f"the label {label!r} stands for no single group of atoms; {DRAW}", "atom")
    if kind in _LABELS and node.find("fragment") is None:
        raise RefusedError(f"the label {label!r} is not expanded; in ChemDraw: Structure, Expand Label", "atom")


def _refuse_brackets(drawing: chemdraw.Drawing, fragment: Element) -> None:
    inside = {element.get("id", "") for element in fragment.iter()} - {""}
    for group in drawing.root.iter("bracketedgroup"):
        usage = group.get("BracketUsage", "")
        once = usage == "MultipleGroup" and group.get("RepeatCount", "1") in ("1", "1.0")
        if usage in _PLAIN_BRACKETS or once or not inside & set(group.get("BracketedObjectIDs", "").split()):
            continue
        what = "repeated" if usage == "MultipleGroup" else "polymer, mixture"
        raise RefusedError(f"brackets of the kind {usage} ({what}) are not understood; draw all atoms")


def _spliced(fragment: Element, bonded: set[str]) -> Element:
    """Return a fragment in which a label without bonds, such as THF, is replaced by the atoms that it holds."""
    plain = Element("fragment", fragment.attrib)
    for child in fragment:
        held = child.find("fragment") if child.tag == "n" and child.get("NodeType") in _LABELS else None
        whole = held is not None and not any(
            node.get("NodeType") == "ExternalConnectionPoint" for node in held.iter("n")
        )
        if held is not None and whole and child.get("id", "") not in bonded:
            plain.extend(part for part in held if part.tag in ("n", "b"))
        else:
            plain.append(child)
    return plain


def _is_unsure(mol: Any) -> bool:
    return any(
        info.type == Chem.StereoType.Atom_Tetrahedral and info.specified == Chem.StereoSpecified.Unspecified
        for info in Chem.FindPotentialStereo(mol)
    )
