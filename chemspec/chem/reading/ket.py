"""Drawings of Ketcher (KET): their molecules, as V3000 molfiles for RDKit, or the reaction around their arrow."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import chemspec.chem.reading.molfile as molfile
from chemspec.chem.molecules import parsing
from chemspec.chem.molecules.parsing import MAX_LENGTH, TOO_MANY_ATOMS
from chemspec.chem.molecules.smiles_syntax import Fault
from chemspec.chem.reading.chemdraw import CROSSED_OUT, Arrow, Point, middle_of
from chemspec.chem.reading.drawing import read_label, text_note
from chemspec.chem.reading.values import DRAW, EXPORT, Molecules, Reaction, RefusedError
from chemspec.system.untrusted import parse_untrusted_json

_QUERY = ("ringBondCount", "substitutionCount", "unsaturatedAtom", "hCount", "queryProperties", "attachmentPoints")
_STEREO = {1: 1, 4: 2, 6: 3, 3: 2}  # stereo of bonds in V3000
_ORDERS = range(1, 11)
_MAX_ITEMS = 5000  # objects of a drawing


@dataclass
class _Drawing:
    blocks: list[tuple[str, Point]] = field(default_factory=list)  # molfiles, positions
    texts: list[tuple[str, list[Point]]] = field(default_factory=list)
    arrows: list[Arrow] = field(default_factory=list)
    pictures: int = 0


def is_ket(text: str) -> bool:
    """Return whether a text is a Ketcher file; it is not parsed."""
    return text.lstrip("\ufeff \t\r\n").startswith("{") and '"root"' in text and '"nodes"' in text


def read_ket(text: str) -> Molecules | Reaction | Fault:
    """Return the molecules of a Ketcher file, or the reaction in it."""
    whole = 0, len(text)
    try:
        document = parse_untrusted_json(text.lstrip("\ufeff"))
    except ValueError as error:
        return Fault(f"this is no complete KET file ({error}); was it cut off?", *whole, "syntax")
    try:
        return _read(_read_drawing(document), whole)
    except RefusedError as error:
        return Fault(str(error), *whole, error.kind)
    except (TypeError, KeyError, IndexError, AttributeError, ValueError, OverflowError):
        return Fault(f"this KET file is damaged; {EXPORT}", *whole, "syntax")


def _read(drawing: _Drawing, whole: tuple[int, int]) -> Molecules | Reaction | Fault:
    if not drawing.blocks and not (drawing.texts and drawing.arrows):
        raise RefusedError("this KET file holds no molecule; draw one first", "empty")
    if refusal := parsing.molblock_refusal(*(block for block, _ in drawing.blocks)):
        raise RefusedError(refusal, "length")
    if len(drawing.arrows) > 1:
        message = f"there are {len(drawing.arrows)} arrows; keep one reaction, and save each in a file of its own"
        raise RefusedError(message, "reaction")
    notes = ["pictures in the drawing left out"] * bool(drawing.pictures)
    if not drawing.arrows:
        notes = [*text_note([" ".join(text.split()) for text, _ in drawing.texts]), *notes]
        read = _molecules([block for block, _ in drawing.blocks], whole)
        return read if isinstance(read, Fault) else replace(read, notes=(*read.notes, *notes))
    arrow = drawing.arrows[0]
    named, rest = Molecules([]), list[str]()
    for text, box in drawing.texts:
        if arrow.holds(box):
            label = read_label(text, rest)
            named = Molecules([*named.parts, *label.parts], named.notes + label.notes)
        else:
            rest.append(" ".join(text.split()))
    sides: dict[str, Molecules | Fault] = {}
    for role in ("reactant", "product", "agent"):
        side = _molecules([block for block, at in drawing.blocks if arrow.role(at) == role], whole)
        if role == "agent" and isinstance(side, Molecules):
            side = Molecules([*side.parts, *named.parts], side.notes + named.notes)
        if isinstance(side, Fault) or side.parts:
            sides[role] = side
    return Reaction(sides, (*filter(None, [arrow.note]), *text_note(rest), *notes), whole)


def _molecules(blocks: Sequence[str], whole: tuple[int, int]) -> Molecules | Fault:
    read = molfile.read_molfiles(map(molfile.split_lines, blocks))
    if isinstance(read, Fault):  # its lines are not those of the file
        return Fault(re.sub(r"^line \d+: ", "", read.message), *whole, read.kind)
    return read


def _read_drawing(document: Any) -> _Drawing:
    drawing = _Drawing()
    root = document["root"]
    if root.get("connections"):
        raise RefusedError(f"bonds between groups or monomers are not understood; {DRAW}")
    nodes = root["nodes"]
    if len(nodes) > _MAX_ITEMS:
        raise RefusedError("this drawing has too many objects for one query")
    for node in nodes:
        item = document[node["$ref"]] if "$ref" in node else node
        kind = item.get("type", "")
        if kind == "molecule":
            if item.get("atoms"):
                drawing.blocks.append(_molblock(item))
        elif kind in ("monomer", "ambiguousMonomer"):
            raise RefusedError(f"monomers of sequences are not understood; {EXPORT}")
        elif kind == "rgroup":
            raise RefusedError(f"an R group stands for more than one molecule; {DRAW}")
        elif kind == "arrow":
            drawing.arrows.append(_arrow(item["data"]))
        elif kind == "multi-tailed-arrow":
            drawing.arrows.append(_multi_tailed(item["data"]))
        elif kind == "text":
            drawing.texts.append(_text(item))
        elif kind in ("image", "rasterImage"):
            drawing.pictures += 1
    return drawing


def _point(position: Any) -> Point:
    x, y = (position["x"], position["y"]) if isinstance(position, Mapping) else position[:2]
    return float(x), float(y)


def _arrow(data: Mapping[str, Any]) -> Arrow:
    mode = str(data.get("mode", ""))
    tail, head = map(_point, data["pos"])
    note = ""
    if "equilibrium" in mode:
        note = "an equilibrium arrow, read from left to right"
    elif "both-ends" in mode:
        raise RefusedError("an arrow with two heads is no reaction; draw one head, or remove the arrow")
    elif "failed" in mode:
        note = CROSSED_OUT
    return Arrow(tail, head, "retro" in mode, note)


def _multi_tailed(data: Mapping[str, Any]) -> Arrow:
    head = _point(data["head"]["position"])
    tails = [_point(position) for position in data["tails"]["pos"]]
    left = min(x for x, _ in tails)
    return Arrow((left, head[1]), head)


def _text(item: Mapping[str, Any]) -> tuple[str, list[Point]]:
    """Return a text and its corners; the newer version has paragraphs, the older an editor's blocks as JSON."""
    if "paragraphs" in item:
        lines = ["".join(str(part.get("text", "")) for part in lines["parts"]) for lines in item["paragraphs"]]
        box = item["boundingBox"]
        x, y = _point(box)
        return "\n".join(lines), [(x, y), (x + float(box["width"]), y - float(box["height"]))]
    data = item["data"]
    content = parse_untrusted_json(data["content"]) if data.get("content") else {"blocks": []}
    words = "\n".join(str(block.get("text", "")) for block in content["blocks"])
    corners = [_point(position) for position in data.get("pos") or []]
    return words, corners or [_point(data["position"])]


def _molblock(item: Mapping[str, Any]) -> tuple[str, Point]:
    """Return a molecule as V3000 molfile, and its position."""
    atoms, bonds = item["atoms"], item.get("bonds") or []
    if len(atoms) > MAX_LENGTH or len(bonds) > MAX_LENGTH + parsing.MAX_RINGS:
        raise RefusedError(TOO_MANY_ATOMS)
    for group in item.get("sgroups") or []:
        if group["type"] not in ("SUP", "DAT", "GEN"):
            message = f"brackets of the kind {group['type']} (polymer, repeated unit) are not understood"
            raise RefusedError(f"{message}; draw it in full")
    points = [_point(atom.get("location") or (0, 0)) for atom in atoms]
    rows = [_atom_row(at, atom, point) for at, (atom, point) in enumerate(zip(atoms, points, strict=True), 1)]
    lines = [
        *("", "", "", "  0  0  0     0  0            999 V3000", "M  V30 BEGIN CTAB"),
        f"M  V30 COUNTS {len(atoms)} {len(bonds)} 0 0 0",
        *("M  V30 BEGIN ATOM", *rows, "M  V30 END ATOM", "M  V30 BEGIN BOND"),
        *(_bond_row(at, bond, len(atoms)) for at, bond in enumerate(bonds, 1)),
        *("M  V30 END BOND", *_stereo_groups(atoms), "M  V30 END CTAB", "M  END"),
    ]
    return "\n".join(lines), middle_of(points)


def _atom_row(at: int, atom: Mapping[str, Any], point: Point) -> str:
    if atom.get("type", "atom") == "atom-list":
        raise RefusedError(f"a list of atoms stands for more than one; {DRAW}")
    if atom.get("type", "atom") == "rg-label":
        raise RefusedError(f"an R group stands for more than one molecule; {DRAW}")
    if any(atom.get(name) for name in _QUERY):
        raise RefusedError(f"atom {at} has conditions of a search; remove them, or {DRAW}")
    label = str(atom["label"])
    if not re.fullmatch(r"[A-Za-z#*]{1,20}", label):
        raise RefusedError(f"{json.dumps(label)[:40]} is no element; {DRAW}")
    if refusal := molfile.label_refusal(str(atom.get("alias") or "").strip(), label):
        raise RefusedError(refusal, "atom")
    if not all(math.isfinite(number) and abs(number) <= 1e6 for number in point):
        raise RefusedError("a coordinate is out of bounds")
    words = [str(at), label, *(f"{number:.4f}" for number in point), "0", "0"]
    fields = {"CHG": atom.get("charge"), "RAD": atom.get("radical"), "MASS": atom.get("isotope")}
    words += [f"{name}={int(value)}" for name, value in fields.items() if value]
    valence = atom.get("explicitValence")
    if valence is not None and int(valence) >= 0:
        words.append(f"VAL={int(valence) or -1}")
    return "M  V30 " + " ".join(words)


def _bond_row(at: int, bond: Mapping[str, Any], atoms: int) -> str:
    first, second = (int(end) for end in bond["atoms"])
    order = int(bond["type"])
    if order not in _ORDERS or not (0 <= first < atoms and 0 <= second < atoms):
        raise RefusedError(f"bond {at} cannot be read; {EXPORT}")
    if bond.get("topology") or bond.get("customQuery"):
        raise RefusedError(f"bond {at} has conditions of a search; remove them")
    stereo = _STEREO.get(int(bond.get("stereo") or 0))
    return f"M  V30 {at} {order} {first + 1} {second + 1}" + (f" CFG={stereo}" if stereo else "")


def _stereo_groups(atoms: Sequence[Mapping[str, Any]]) -> list[str]:
    groups: dict[str, list[int]] = {}
    for at, atom in enumerate(atoms, 1):
        if match := re.fullmatch(r"(&|or)(\d{1,3})", str(atom.get("stereoLabel") or "")):
            groups.setdefault(f"STE{'RAC' if match[1] == '&' else 'REL'}{match[2]}", []).append(at)
    if not groups:
        return []
    lines = [
        f"M  V30 MDLV30/{name} ATOMS=({len(members)} {' '.join(map(str, members))})" for name, members in groups.items()
    ]
    return ["M  V30 BEGIN COLLECTION", *lines, "M  V30 END COLLECTION"]
