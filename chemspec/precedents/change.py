"""What a reaction changes, as two numbers: equal numbers mean the same change.

The atoms that take part are those of the product that are new or have other bonds, charge or hydrogens than before,
those that they come from, and the atoms that leave, where they were bonded to those. `wide` looks at these alone
(radius 0), `close` also at what each is bonded to (radius 1), and at what leaves to `LEAVING` bonds: tert-butyl and
benzyl carbamates are cleaved under other conditions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from rdkit import Chem, rdBase

from chemspec.chem.atom_maps import MOST_ATOMS, AtomMap, MolGraph, graph_of, improve, map_atoms
from chemspec.chem.parsing import mol_from_smiles

LEAVING = 3  # bonds into what leaves
ROUNDS = 3  # bonds over which atoms that take part see each other
LONGEST = 6000  # characters of one side with its maps
MOST = 60  # atoms that take part; more are no change but a wrong map


@dataclass(frozen=True)
class Change:
    """What a reaction does, and which molecules of the flask do it.

    Attributes:
        wide: of the atoms that take part.
        close: of these and their neighbours.
        givers: canonical SMILES of the molecules that give atoms to the product, sorted.
        others: of everything else in the flask, sorted.
    """

    wide: int
    close: int
    givers: tuple[str, ...]
    others: tuple[str, ...]


def change_of(reactants: str, product: str, *, seconds: float = 2.0) -> Change | None:
    """Return what a reaction does, by guessed atom maps; None where it cannot be read, or nothing changes.

    Args:
        reactants: SMILES of what is in the flask, with or without agents.
        product: SMILES of one molecule.
        seconds: of processor time for the maps.
    """
    match = map_atoms(reactants, product, seconds=seconds)
    return None if match is None else _change(match, _read(reactants))


def change_of_mapped(mapped: str) -> Change | None:
    """Return what a reaction with atom maps does; None where they cannot be used."""
    source, target = map(_read, mapped.split(">>")) if mapped.count(">>") == 1 else (None, None)
    if source is None or target is None:
        return None
    match = AtomMap(graph_of(source), graph_of(target))
    places = {atom.GetAtomMapNum(): atom.GetIdx() for atom in source.GetAtoms()}
    for atom in target.GetAtoms():
        here, origin = atom.GetIdx(), places.get(atom.GetAtomMapNum() or -1, -1)
        if origin >= 0 and match.target[origin] < 0 and match.left.kinds[origin][0] == atom.GetAtomicNum():
            match.pair(here, origin)
    # Makers of maps keep now one oxygen of an acid, now the other; here it is the cheapest, as in guessed maps.
    improve(match, math.inf)
    return _change(match, source)


def _read(smiles: str) -> Any | None:
    with rdBase.BlockLogs():
        mol = mol_from_smiles(smiles)
    return mol if mol is not None and 0 < mol.GetNumAtoms() <= MOST_ATOMS else None


def _change(match: AtomMap, source: Any) -> Change | None:
    keys = _keys(match)
    if keys is None:
        return None
    givers: list[str] = []
    others: list[str] = []
    for atom in source.GetAtoms():
        atom.SetAtomMapNum(0)
    for number, part in enumerate(Chem.GetMolFrags(source, asMols=True, sanitizeFrags=False)):
        (givers if match.given[number] else others).append(_written(part))
    return Change(*keys, tuple(sorted(givers)), tuple(sorted(others)))


def _written(part: Any) -> str:
    # Read again, because what is a stereocentre by its maps alone is none without them.
    with rdBase.BlockLogs():
        text = str(Chem.MolToSmiles(part))
        mol = mol_from_smiles(text)
        return text if mol is None else str(Chem.MolToSmiles(mol))


# --- the two numbers -------------------------------------------------------------------------------

Place = tuple[int, int]  # an atom that takes part: its number in the precursors and in the product, or -1


def _keys(match: AtomMap) -> tuple[int, int] | None:
    touched = [atom for atom in range(len(match.origin)) if match.changes(atom)]
    places: list[Place] = [(match.origin[atom], atom) for atom in touched]
    leaving = {
        near
        for origin, _ in places
        if origin >= 0
        for near in match.left.bonds[origin]
        if match.target[near] < 0 and match.given[match.left.molecules[near]]
    }
    places += [(origin, -1) for origin in sorted(leaving)]
    if not touched or len(places) > MOST or not any(match.given):
        return None
    links = [list(_links(match, place, places)) for place in places]
    wide = [_wide(match, place) for place in places]
    close = [
        (label, _around(match.left, origin), _around(match.right, atom) or _piece(match, origin, LEAVING))
        for label, (origin, atom) in zip(wide, places, strict=True)
    ]
    return _digest(wide, links), _digest(close, links)


def _links(match: AtomMap, place: Place, places: list[Place]) -> Iterator[tuple[int, float, float]]:
    """Yield the other atoms that one is bonded to, before or after, with both orders."""
    for number, (origin, atom) in enumerate(places):
        before = match.left.bonds[place[0]].get(origin, 0.0) if place[0] >= 0 and origin >= 0 else 0.0
        after = match.right.bonds[place[1]].get(atom, 0.0) if place[1] >= 0 and atom >= 0 else 0.0
        if before or after:
            yield number, before, after


def _wide(match: AtomMap, place: Place) -> tuple[Any, ...]:
    origin, atom = place
    before, after = _own(match.left, origin), _own(match.right, atom)
    # How many hydrogens there are is a matter of neighbours; here counts how many come or go.
    gained = match.right.kinds[atom][4] - match.left.kinds[origin][4] if origin >= 0 and atom >= 0 else 0
    return before, after, gained


def _own(graph: MolGraph, atom: int) -> tuple[Any, ...]:
    """Return element, aromaticity, charge and multiple bonds of an atom; nothing for none."""
    if atom < 0:
        return ()
    number, aromatic, _, charge, _ = graph.kinds[atom]
    return number, aromatic, charge, sum(order - 1 for order in graph.bonds[atom].values() if order >= 2)


def _around(graph: MolGraph, atom: int) -> tuple[Any, ...]:
    """Return the hydrogens of an atom and, for each of its neighbours, element, aromaticity and the bond to it."""
    if atom < 0:
        return ()
    near = sorted((*graph.kinds[far][:2], order) for far, order in graph.bonds[atom].items())
    return graph.kinds[atom][4], *near


def _piece(match: AtomMap, atom: int, depth: int, behind: int = -1) -> tuple[Any, ...]:
    """Return what leaves with an atom as a tree, to some depth."""
    graph = match.left
    more = (
        (order, *_piece(match, near, depth - 1, atom))
        for near, order in graph.bonds[atom].items()
        if depth and near != behind and match.target[near] < 0
    )
    return *graph.kinds[atom][:2], graph.kinds[atom][4], *sorted(more, key=repr)


def _digest(labels: list[Any], links: list[list[tuple[int, float, float]]]) -> int:
    """Return a number for a graph that does not depend on the order of its atoms, nor on the process."""
    now = [_number(label) for label in labels]
    for _ in range(ROUNDS):
        now = [
            _number((here, sorted((before, after, now[far]) for far, before, after in near)))
            for here, near in zip(now, links, strict=True)
        ]
    return _number(sorted(now))


def _number(what: Any) -> int:
    return int.from_bytes(blake2b(repr(what).encode(), digest_size=8).digest(), "little")
