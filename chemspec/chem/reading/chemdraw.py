"""ChemDraw files (untrusted XML): a check before they are parsed, molecules, texts, arrows, and roles of a step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from io import StringIO
from xml.etree import ElementTree
from xml.etree.ElementTree import Element
from xml.parsers import expat

from chemspec.chem import MAX_LENGTH
from chemspec.chem.molecules.parsing import TOO_MANY_ATOMS
from chemspec.chem.molecules.smiles_syntax import Fault
from chemspec.chem.reading.values import EXPORT

_MAX_DEPTH = 50  # nesting of elements; ChemDraw uses about ten
_MAX_ELEMENTS = 20_000  # elements


def parse_cdxml(text: str) -> Element | Fault:
    """Return the root of a CDXML file, or its fault if it is hostile, too large or no XML."""
    if "<!ENTITY" in text or "<!ATTLIST" in text:  # a small file could repeat it until the memory is full
        message = "document types with definitions are refused; save the file again in ChemDraw"
        return Fault(message, 0, len(text), "other")
    whole = text.encode("utf-8", errors="replace").decode().strip("\ufeff \t\r\n")  # half a surrogate pair is no text
    root: Element | None = None
    depth = elements = nodes = 0
    try:
        for event, element in ElementTree.iterparse(StringIO(whole), ("start", "end")):
            if event == "end":
                depth -= 1
                continue
            if not depth and element.tag != "CDXML":
                name = element.tag.rpartition("}")[2]
                what = {"html": "a web page", "svg": "a picture"}.get(name.lower(), f"XML of the kind {name[:40]}")
                return Fault(f"this is {what}, not CDXML; {EXPORT}", 0, len(text), "other")
            root = element if root is None else root
            depth, elements, nodes = depth + 1, elements + 1, nodes + (element.tag == "n")
            if depth > _MAX_DEPTH or elements > _MAX_ELEMENTS:
                return Fault("this file is built too deep or too large for one query", 0, len(text), "other")
            if nodes > MAX_LENGTH:
                return Fault(TOO_MANY_ATOMS, 0, len(text), "other")
    except ElementTree.ParseError as error:
        message = f"line {error.position[0]}: this is not well-formed XML ({expat.ErrorString(error.code)})"
        return Fault(f"{message}; was the file cut off?", 0, len(text), "syntax")
    if root is None or not nodes:
        return Fault("this ChemDraw file holds no atoms", 0, len(text), "empty")
    return root


_ROLES = {
    "reactant": ("ReactionStepReactants",),
    "product": ("ReactionStepProducts",),
    "agent": ("ReactionStepObjectsAboveArrow", "ReactionStepObjectsBelowArrow"),
}
_HIDDEN = {"objecttag", "altgroup", "templategrid", "chemicalproperty", "represent"}  # hold no molecules of their own
Item = Element  # a fragment, or a text next to the fragments
Point = tuple[float, float]
_REACH = 1.5  # reach of an arrow to each side, in its lengths
CROSSED_OUT = "the arrow is crossed out: the drawing says that this does not happen"
_OPPOSITE = {"reactant": "product", "product": "reactant", "agent": "agent"}


@dataclass(frozen=True)
class Arrow:
    """A reaction arrow."""

    tail: Point  # where it begins
    head: Point  # where it points to
    retro: bool = False  # whether it stands for "is made from"
    note: str = ""  # what else its shape says

    def _along(self, point: Point) -> tuple[float, float]:
        """Return how far along the arrow a point lies (0: tail, 1: head), and how far to its side, in arrow lengths."""
        tail = complex(*self.tail)
        position = (complex(*point) - tail) / (complex(*self.head) - tail or 1)
        return position.real, abs(position.imag)

    def role(self, point: Point) -> str:
        """Return what stands there: a reactant, a product, or between them an agent."""
        along, _ = self._along(point)
        role = "reactant" if along < 0 else "product" if along > 1 else "agent"
        return _OPPOSITE[role] if self.retro else role

    def reaches(self, box: Sequence[Point]) -> bool:
        """Return whether an object stands in line with the arrow, or over or under it."""
        return min(self._along(point)[1] for point in box) <= _REACH

    def holds(self, box: Sequence[Point]) -> bool:
        """Return whether a text stands over or under the arrow."""
        positions = [self._along(point) for point in box]
        middle = sum(along for along, _ in positions) / len(positions)
        nearest = min(offset for _, offset in positions)
        return 0 <= middle <= 1 and nearest <= _REACH


def middle_of(points: Sequence[Point]) -> Point:
    """Return the middle of the box around points."""
    xs, ys = zip(*points, strict=True)
    return (min(xs) + max(xs)) / 2, (min(ys) + max(ys)) / 2


@dataclass
class Reaction:
    """A step: what has which role."""

    items: dict[str, list[Item]]
    notes: tuple[str, ...] = ()


@dataclass
class Drawing:
    """The objects of a ChemDraw file."""

    root: Element
    items: list[Item] = field(default_factory=list)
    members: dict[str, list[Item]] = field(default_factory=dict)  # members of an object or group, by its id
    elements: dict[str, Element] = field(default_factory=dict)  # elements by id

    def __post_init__(self) -> None:
        self._walk(self.root, ())

    def _walk(self, element: Element, groups: tuple[str, ...]) -> None:
        for child in element:
            name = child.get("id", "")
            self.elements.setdefault(name, child)
            if child.tag in ("fragment", "t"):
                self.items.append(child)
                for holder in (*groups, name):
                    self.members.setdefault(holder, []).append(child)
            elif child.tag not in _HIDDEN:
                self._walk(child, (*groups, name) if child.tag == "group" else groups)

    def steps(self) -> list[Element]:
        """Return the reaction steps that say something."""
        names = (*_ROLES["reactant"], *_ROLES["product"])
        return [step for step in self.root.iter("step") if any(step.get(name, "").split() for name in names)]

    def reaction(self) -> Reaction | str | None:
        """Return the first reaction, what is wrong with it, or None if there is none."""
        arrows = [*self._arrows()]
        if steps := self.steps():
            several = (f"the first of {len(steps)} reaction steps",) * (len(steps) > 1)
            return self._of_step(steps[0], arrows, several)
        straight = {name: arrow for name, arrow, curved in arrows if not curved}
        if not straight:
            return None
        if len(straight) > 1:
            return f"there are {len(straight)} arrows but no reaction scheme; save one reaction alone"
        return self._by_place(next(iter(straight.values())))

    def _of_step(self, step: Element, arrows: Sequence[tuple[str, Arrow, bool]], notes: tuple[str, ...]) -> Reaction:
        named = set(step.get("ReactionStepArrows", "").split())
        named |= {self.elements[name].get("SupersededBy", "") for name in named if name in self.elements}
        arrow = next((arrow for name, arrow, _ in arrows if name in named), None)
        if arrow is None and len(arrows) == 1:
            arrow = arrows[0][1]
        items: dict[str, list[Item]] = {}
        for role, attributes in _ROLES.items():
            ids = [name for attribute in attributes for name in step.get(attribute, "").split()]
            unique = {id(item): item for name in ids for item in self.members.get(name, ())}
            items[role] = [*unique.values()]
            lost = [name for name in ids if name not in self.elements]
            if lost:
                notes += (f"the reaction step names objects that the file does not hold ({', '.join(lost)[:40]})",)
        if arrow is not None and arrow.retro:
            items["reactant"], items["product"] = items["product"], items["reactant"]
            notes += ("a retrosynthetic arrow: its target is the product",)
        return Reaction(items, notes + ((arrow.note,) if arrow is not None and arrow.note else ()))

    def _by_place(self, arrow: Arrow) -> Reaction | str:
        items: dict[str, list[Item]] = {role: [] for role in _ROLES}
        for item in self.items:
            box = corners(item)
            if item.tag == "t":
                if box and arrow.holds(box):
                    items["agent"].append(item)
            elif not box:
                return "a molecule has no place on the page; mark the reaction in ChemDraw"
            elif not arrow.reaches(box):
                return "a molecule stands away from the arrow; mark the reaction in ChemDraw, or save it alone"
            else:
                items[arrow.role(middle_of(box))].append(item)
        note = "no reaction scheme in the file: sides are taken from the place of the arrow"
        return Reaction(items, (note, *filter(None, [arrow.note])))

    def _arrows(self) -> Iterator[tuple[str, Arrow, bool]]:
        """Yield id, arrow and whether it is curved, of what has a head."""
        superseding = {graphic.get("SupersededBy", ""): graphic for graphic in self.root.iter("graphic")}
        for element in self.root.iter():
            arrow: Arrow | None = None
            if element.tag == "arrow":
                older = superseding.get(element.get("id", ""))
                arrow = _new_arrow(element, "" if older is None else older.get("ArrowType", ""))
            elif element.tag == "graphic" and not element.get("SupersededBy"):
                arrow = _old_arrow(element)
            if arrow is not None:
                curved = element.get("AngularSize", "0") not in ("0", "") or element.get("GraphicType") == "Arc"
                yield element.get("id", ""), arrow, curved


def _new_arrow(element: Element, older: str) -> Arrow | None:
    heads = element.get("ArrowheadHead", "None"), element.get("ArrowheadTail", "None")
    if heads == ("None", "None") and "ArrowheadType" in element.attrib:
        return None  # a line, as ChemDraw writes it; other programs may leave the head to the reader
    box = _numbers(element.get("BoundingBox", ""))
    tail = _numbers(element.get("Tail3D", ""))[:2] or box[:2]
    head = _numbers(element.get("Head3D", ""))[:2] or box[2:4]
    if len(tail) < 2 or len(head) < 2:
        tail, head = [0.0, 0.0], [1.0, 0.0]
    if heads[0] == "None" and heads[1] != "None":
        tail, head = head, tail
    retro = older == "RetroSynthetic" or (
        element.get("ArrowheadType") == "Angle" and _numbers(element.get("ArrowShaftSpacing", "0"))[:1] > [0.0]
    )
    note = ""
    if element.get("NoGo", "None") != "None" or "NoGo" in older:
        note = CROSSED_OUT
    elif "None" not in heads and not retro:
        note = "an arrow with two heads, read from left to right"
    return Arrow((tail[0], tail[1]), (head[0], head[1]), retro, note)


def _old_arrow(element: Element) -> Arrow | None:
    kind = element.get("ArrowType", "")
    if "NoHead" in kind or not kind:
        return None
    ends = _numbers(element.get("BoundingBox", ""))  # first its head, then its tail
    ends = ends if len(ends) == 4 else [1.0, 0.0, 0.0, 0.0]
    note = CROSSED_OUT if "NoGo" in kind else ""
    if kind in ("Resonance", "Equilibrium"):
        note = "an arrow with two heads, read from left to right"
    return Arrow((ends[2], ends[3]), (ends[0], ends[1]), kind == "RetroSynthetic", note)


def _numbers(text: str) -> list[float]:
    try:
        return [float(word) for word in text.split()]
    except ValueError:
        return []


def corners(item: Item) -> list[Point]:
    """Return points around an object: its atoms, or the corners of a text."""
    if item.tag == "fragment":
        positions = [_numbers(node.get("p", "")) for node in item.findall("n")]
        if points := [(position[0], position[1]) for position in positions if len(position) >= 2]:
            return points
    box = _numbers(item.get("BoundingBox", ""))
    if len(box) == 4:
        return [(box[0], box[1]), (box[2], box[3])]
    position = _numbers(item.get("p", ""))
    return [(position[0], position[1])] if len(position) >= 2 else []


def text_of(element: Element) -> str:
    """Return the words of a text, or of the label of a node."""
    labels = [element] if element.tag == "t" else element.findall("t")
    return "\n".join("".join(label.itertext()) for label in labels).strip()


def alone(drawing: Drawing, fragments: Iterable[Item]) -> Element:
    """Return the root of a file that holds only these fragments, not in groups, as RDKit reads it best."""
    root = Element("CDXML", drawing.root.attrib)
    ElementTree.SubElement(root, "page", id="1").extend(fragments)
    return root


def split_steps(root: Element, most: int) -> list[str]:
    """Return a file for each reaction step, at most `most`; the file itself if it has but one."""
    count = len(Drawing(root).steps())
    files = []
    for number in range(min(max(count, 1), most)):
        drawing = Drawing(deepcopy(root))
        others = {id(step) for at, step in enumerate(drawing.steps()) if at != number}
        for scheme in [*drawing.root.iter("scheme")]:
            for step in [step for step in scheme if id(step) in others]:
                scheme.remove(step)
        files.append(ElementTree.tostring(drawing.root, encoding="unicode"))
    return files
