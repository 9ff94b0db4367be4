"""Graphs that no molecule is, as molecules in every format: what RDKit's searches for rings and symmetry may die of."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import combinations, pairwise, product
from random import Random

from programs.fuzzing.tools import Tools

from chemspec.tasks import TASKS

Bond = tuple[int, int]


@dataclass(frozen=True)
class Graph:
    """Atoms and bonds.

    Attributes:
        atoms: an element each, or "*".
        bonds: pairs of places in `atoms`, each pair once.
    """

    atoms: tuple[str, ...]
    bonds: tuple[Bond, ...]


def complete(size: int, element: str = "U") -> Graph:
    """Return every atom bonded to every other."""
    return Graph((element,) * size, tuple(combinations(range(size), 2)))


def multipartite(*sizes: int, element: str = "U") -> Graph:
    """Return groups of atoms, each bonded to all atoms of the other groups."""
    group = [number for number, size in enumerate(sizes) for _ in range(size)]
    pairs = combinations(range(len(group)), 2)
    return Graph((element,) * len(group), tuple((a, b) for a, b in pairs if group[a] != group[b]))


def chain(size: int, element: str = "C") -> Graph:
    """Return atoms in a row."""
    return Graph((element,) * size, tuple((atom, atom + 1) for atom in range(size - 1)))


def regular(size: int, degree: int, random: Random, element: str = "C") -> Graph:
    """Return atoms of about equal degree, bonded by chance."""
    ends = [atom for atom in range(size) for _ in range(degree)]
    random.shuffle(ends)
    pairs = {(min(a, b), max(a, b)) for a, b in zip(ends[::2], ends[1::2], strict=False) if a != b}
    return Graph((element,) * size, tuple(sorted(pairs)))


def grid(wide: int, high: int, element: str = "C", *, wrap: bool = False, bricks: bool = False) -> Graph:
    """Return a grid; wrapped into a torus if asked, as bricks (fused six-membered rings) if asked."""
    bonds = set()
    for x, y in product(range(wide), range(high)):
        here = y * wide + x
        if x + 1 < wide or (wrap and wide > 2):
            bonds.add((here, y * wide + (x + 1) % wide))
        if (y + 1 < high or (wrap and high > 2)) and not (bricks and (x + y) % 2):
            bonds.add((here, (y + 1) % high * wide + x))
    return Graph((element,) * (wide * high), tuple(sorted({(min(pair), max(pair)) for pair in bonds})))


def spiders(legs: int, length: int, element: str = "C") -> Graph:
    """Return two centres joined by many chains."""
    bonds = []
    for leg in range(legs):
        way = [0, *range(2 + leg * length, 2 + (leg + 1) * length), 1]
        bonds += list(pairwise(way))
    return Graph((element,) * (2 + legs * length), tuple(bonds))


def tree(size: int, random: Random, element: str = "C") -> Graph:
    """Return a tree that branches by chance."""
    reach = random.choice((2, 5, size))
    return Graph(
        (element,) * size, tuple((random.randrange(max(0, atom - reach), atom), atom) for atom in range(1, size))
    )


def several(graph: Graph, times: int) -> Graph:
    """Return a graph so many times side by side."""
    size = len(graph.atoms)
    bonds = tuple((a + k * size, b + k * size) for k in range(times) for a, b in graph.bonds)
    return Graph(graph.atoms * times, bonds)


def drawn(random: Random) -> Graph:
    """Return a graph of any of these kinds and of any size, and now and then changed a little."""
    small = random.random() < 0.7  # so that most pass the limits on what is handed to RDKit
    most = random.choice((4, 8, 12)) if small else random.choice((25, 60))
    size = random.randint(1, most)
    element = random.choice(("C", "C", "C", "N", "*", "U", "Pt", "S", "P", "B", "Si", "O"))
    kinds: tuple[Callable[[], Graph], ...] = (
        lambda: complete(min(size, 60), element),
        lambda: multipartite(size, random.randint(1, most), element=element),
        lambda: multipartite(*[random.randint(1, 4)] * random.randint(2, 6), element=element),
        lambda: chain(random.choice((size, 30 * size, size, 300 * size if random.random() < 0.1 else 8)), element),
        lambda: regular(random.choice((size, 8 * size)), random.randint(1, 6), random, element),
        lambda: grid(size, random.randint(1, most), element, wrap=random.random() < 0.3, bricks=random.random() < 0.6),
        lambda: spiders(size, random.randint(1, 8), element),
        lambda: tree(8 * size, random, element),
        lambda: several(grid(2, 3, element), size),
    )
    graph = random.choice(kinds)()
    atoms, bonds = list(graph.atoms), list(graph.bonds)
    for _ in range(random.choice((0, 0, 1, 3, 10))):
        atoms[random.randrange(len(atoms))] = random.choice(("C", "N", "O", "Cl", "*", "Fe", "H", "S"))
    if random.random() < 0.3:
        random.shuffle(bonds)
    for _ in range(random.choice((0, 0, 0, 2, 9))):  # bonds across
        pair = random.randrange(len(atoms)), random.randrange(len(atoms))
        if pair[0] != pair[1] and pair not in bonds and pair[::-1] not in bonds:
            bonds.append(pair)
    return Graph(tuple(atoms), tuple(bonds))


# --- the same in every format ----------------------------------------------------------------------


@dataclass(frozen=True)
class Style:
    """How a graph is written.

    Attributes:
        orders: bond orders to draw from, as in molfiles (9 is dative).
        stereo: how many of ten atoms and bonds get a mark of stereo.
        extra: lines of S-groups, attachment points and the like.
    """

    orders: tuple[int, ...] = (1,)
    stereo: int = 0
    extra: bool = False


PLAIN = Style()


def smiles(graph: Graph, style: Style = PLAIN, random: Random | None = None) -> str:
    """Return a SMILES of a graph, however large."""
    random = random or Random(0)
    near: list[list[int]] = [[] for _ in graph.atoms]
    for a, b in graph.bonds:
        near[a].append(b)
        near[b].append(a)
    seen = [False] * len(near)
    labels: list[list[str]] = [[] for _ in near]
    texts = []
    children: list[list[int]] = [[] for _ in near]
    number = 0
    for root in range(len(near)):
        if seen[root]:
            continue
        above, stack, order = {root: -1}, [(root, -1)], []
        while stack:
            atom, parent = stack.pop()
            if seen[atom]:
                continue
            seen[atom], above[atom] = True, parent
            if parent >= 0:
                children[parent].append(atom)
            order.append(atom)
            stack += [(other, atom) for other in near[atom] if not seen[other]]
        place = {atom: k for k, atom in enumerate(order)}
        for atom in order:
            for other in near[atom]:
                if place[other] < place[atom] and above[atom] != other:
                    number += 1
                    label = str(number) if number < 10 else f"%{number}" if number < 100 else f"%({number})"
                    labels[other].append(_BONDS[random.choice(style.orders)] + label)
                    labels[atom].append(label)
        texts.append(_branches(root, graph, labels, children, style, random))
    return ".".join(texts)


_BONDS = {1: "", 2: "=", 3: "#", 4: ":", 9: "->"}
_PLAIN = {"B", "C", "N", "O", "P", "S", "F", "Cl", "Br", "I", "*"}


def _branches(
    root: int, graph: Graph, labels: list[list[str]], children: list[list[int]], style: Style, random: Random
) -> str:
    out: list[str] = []
    todo: list[int | str] = [root]
    while todo:
        step = todo.pop()
        if isinstance(step, str):
            out.append(step)
            continue
        element = graph.atoms[step]
        if random.randrange(10) < style.stereo and element != "*":
            element = f"[{element}{random.choice(('@', '@@'))}{random.choice(('', 'H'))}]"
        out.append((element if element in _PLAIN or element[0] == "[" else f"[{element}]") + "".join(labels[step]))
        *branches, last = children[step] or [-1]
        after: list[int | str] = []
        for child in branches:
            after += ["(" + _BONDS[random.choice(style.orders)], child, ")"]
        if last >= 0:
            after += [random.choice(("/", "\\")) if random.randrange(10) < style.stereo else "", last]
        todo += reversed(after)
    return "".join(out)


def v2000(graph: Graph, style: Style = PLAIN, random: Random | None = None) -> str:
    """Return a molfile; of graphs too large for its columns a V3000 one."""
    random = random or Random(0)
    if max(len(graph.atoms), len(graph.bonds)) > 999:
        return v3000(graph, style, random)
    rows = [f"{random.uniform(0, 9):10.4f}{random.uniform(0, 9):10.4f}{0:10.4f} {one:<3s} 0  0" for one in graph.atoms]
    for a, b in graph.bonds:
        wedge = random.choice((1, 6)) if random.randrange(10) < style.stereo else 0
        rows.append(f"{a + 1:3d}{b + 1:3d}{random.choice(style.orders):3d}{wedge:3d}")
    if style.extra:
        atom = random.randrange(len(graph.atoms)) + 1
        rows += [f"M  STY  1   1 {random.choice(('SUP', 'DAT', 'MUL', 'GEN'))}", f"M  SAL   1  1{atom:4d}"]
        rows += random.sample(
            ["M  SMT   1 x", f"M  APO  1{atom:4d}   3", f"M  CHG  1{atom:4d}   1", "M  SPL  1   1   1"], 2
        )
    head = f"{len(graph.atoms):3d}{len(graph.bonds):3d}  0  0  1  0  0  0  0  0999 V2000"
    return "\n".join(["", "", "", head, *rows, "M  END", ""])


def v3000(graph: Graph, style: Style = PLAIN, random: Random | None = None) -> str:
    """Return a molfile of the newer version."""
    return "\n".join(
        ["", "", "", "  0  0  0     0  0            999 V3000", *_table(graph, style, random), "M  END", ""]
    )


def _table(graph: Graph, style: Style, random: Random | None) -> list[str]:
    random = random or Random(0)
    rows = ["BEGIN CTAB", f"COUNTS {len(graph.atoms)} {len(graph.bonds)} {int(style.extra)} 0 0", "BEGIN ATOM"]
    for number, element in enumerate(graph.atoms, 1):
        point = f" ATTCHPT={random.randint(1, 3)}" if style.extra and random.random() < 0.1 else ""
        rows.append(f"{number} {element} {random.uniform(0, 9):.3f} {random.uniform(0, 9):.3f} 0 0{point}")
    rows += ["END ATOM", "BEGIN BOND"]
    for number, (a, b) in enumerate(graph.bonds, 1):
        wedge = f" CFG={random.choice((1, 3))}" if random.randrange(10) < style.stereo else ""
        rows.append(f"{number} {random.choice(style.orders)} {a + 1} {b + 1}{wedge}")
    rows.append("END BOND")
    if style.extra:
        atom = random.randrange(len(graph.atoms)) + 1
        rows += ["BEGIN SGROUP", f"1 {random.choice(('SUP', 'DAT', 'MUL'))} 0 ATOMS=(1 {atom}) LABEL=x", "END SGROUP"]
        if style.stereo:
            rows += ["BEGIN COLLECTION", f"MDLV30/STEREL1 ATOMS=(1 {atom})", "END COLLECTION"]
    return [f"M  V30 {row}" for row in [*rows, "END CTAB"]]


def rxn(graph: Graph, style: Style = PLAIN, random: Random | None = None) -> str:
    """Return a reaction of a graph to itself."""
    mol = v2000(graph, style, random)
    return f"$RXN\n\n\n\n  1  1\n$MOL\n{mol}$MOL\n{mol}"


def rxn_v3000(graph: Graph, style: Style = PLAIN, random: Random | None = None) -> str:
    """Return a reaction of a graph to itself, of the newer version."""
    table = _table(graph, style, random)
    sides = [f"M  V30 {row} {side}" for side in ("REACTANT", "PRODUCT") for row in ("BEGIN", "END")]
    rows = [sides[0], *table, sides[1], sides[2], *table, sides[3]]
    return "\n".join(["$RXN V3000", "", "", "", "M  V30 COUNTS 1 1", *rows, "M  END", ""])


def rdf(graph: Graph, style: Style = PLAIN, random: Random | None = None) -> str:
    """Return a file of one reaction."""
    return f"$RDFILE 1\n$DATM 01/01/01\n$RFMT\n{rxn(graph, style, random)}$DTYPE note\n$DATUM x\n"


def cdxml(graph: Graph, style: Style = PLAIN, random: Random | None = None) -> str:
    """Return a ChemDraw file."""
    random = random or Random(0)
    numbers = {"N": 7, "O": 8, "U": 92, "S": 16, "P": 15, "B": 5, "Fe": 26, "Pt": 78, "Cl": 17, "Si": 14, "H": 1}
    nodes = []
    for number, name in enumerate(graph.atoms, 1):
        place = f"{random.uniform(0, 99):.1f} {random.uniform(0, 99):.1f}"
        nodes.append(f'<n id="{number}" p="{place}" Element="{numbers.get(name, 6)}"/>')
    wedges = (' Display="WedgeBegin"', "") if style.stereo else ("",)
    bonds = [
        f'<b id="{len(nodes) + k}" B="{a + 1}" E="{b + 1}" Order="{random.choice(style.orders) % 4 or 1}"'
        f"{random.choice(wedges)}/>"
        for k, (a, b) in enumerate(graph.bonds, 1)
    ]
    return (
        f'<?xml version="1.0"?><CDXML><page><fragment id="0">{"".join(nodes)}{"".join(bonds)}</fragment></page></CDXML>'
    )


def inchi(graph: Graph, *_: object) -> str:
    """Return a text in the way of InChI, of which the hydrogens are left out."""
    near: list[list[int]] = [[] for _ in graph.atoms]
    for a, b in graph.bonds:
        near[max(a, b)].append(min(a, b) + 1)
    rows = [
        str(k) + (f"({','.join(map(str, others))})" if k > 1 and others else "") for k, others in enumerate(near, 1)
    ]
    return f"InChI=1S/C{len(graph.atoms)}/c{'-'.join(rows)}"


def ket(graph: Graph, style: Style = PLAIN, random: Random | None = None) -> str:
    """Return a file of Ketcher."""
    random = random or Random(0)
    atoms = [
        {"label": name, "location": [random.uniform(0, 99), random.uniform(0, 99), 0]} | _unusual(style, random)
        for name in graph.atoms
    ]
    bonds = [
        {"type": random.choice(style.orders), "atoms": [a, b], "stereo": random.choice((0, 1, 6)) * bool(style.stereo)}
        for a, b in graph.bonds
    ]
    molecule = {"type": "molecule", "atoms": atoms, "bonds": bonds}
    return json.dumps({"root": {"nodes": [{"$ref": "mol0"}]}, "mol0": molecule})


def _unusual(style: Style, random: Random) -> dict[str, object]:
    fields = {"charge": -1, "isotope": 13, "radical": 2, "stereoLabel": "&1", "explicitValence": 0, "alias": "Boc"}
    return dict([random.choice([*fields.items()])]) if style.extra and random.random() < 0.1 else {}


FORMATS: dict[str, Callable[[Graph, Style, Random], str]] = {
    "smi": smiles, "mol": v2000, "sdf": v3000, "rxn": rxn, "rxn3": rxn_v3000, "rdf": rdf, "cdxml": cdxml,
    "inchi": inchi, "ket": ket,
}  # fmt: skip


# --- as cases ---------------------------------------------------------------------------------------


def case(random: Random) -> bytes:
    """Return the name of a format, what asks, a line end, and a graph written in that format."""
    orders = random.choice(((1,), (1,), (1, 1, 2), (4,), (1, 2, 3), (9, 1)))
    style = Style(orders, random.choice((0, 0, 2, 8)), random.random() < 0.2)
    name, door = random.choice([*FORMATS]), random.choice([*TASKS, "file", "stock"])
    return f"{name} {door}\n{FORMATS[name](drawn(random), style, random)}".encode()


def read(content: bytes, _: Tools) -> None:
    """Read a structure as a query of a task, which is drawn then; from a file; or from a list of what can be bought."""
    from chemspec import chem
    from chemspec.chem import formats
    from chemspec.depict.molecules import Depiction
    from chemspec.io import structures
    from chemspec.stock import lists, offers

    head, text = content.decode().split("\n", 1)
    name, door = head.split()
    if door in TASKS:
        found = formats.read_input(text, task=TASKS[door].name)
        if isinstance(found, formats.Input):
            for smiles in found.smiles.split(chem.ARROW):
                _ = Depiction(smiles).svg
    elif door == "stock" or name in ("smi", "inchi"):
        for reading in (lambda: lists.parse_stock(text.encode(), "x.smi"), lambda: offers.inchikey(text)):
            with suppress(ValueError):
                reading()
        offers.price_list_from_rows([["smiles", "price"], [text, "1"]], "x.csv")
    else:
        for row in structures.read_structure_rows(text, "the file"):
            json.dumps(row)
