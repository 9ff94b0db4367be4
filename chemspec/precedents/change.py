"""Hashes of a reaction's change: equal hashes mean the same change.

The reaction centre are the atoms of the product that are new or differ in bonds, charge or hydrogens, their origins,
and leaving neighbours of these. `wide` describes only them (radius 0), `close` also their neighbours (radius 1), and
leaving groups up to `LEAVING` bonds: tert-butyl and benzyl carbamates are cleaved under different conditions.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from rdkit import Chem, rdBase

from chemspec.chem.molecules.parsing import mol_from_smiles
from chemspec.chem.reactions.atom_maps import AtomMap, improve_map, map_atoms, split_precursors
from chemspec.chem.reactions.mol_graph import MAX_ATOMS, MolGraph, graph_of

LEAVING = 3  # radius in bonds of leaving groups
ROUNDS = 3  # radius in bonds within the reaction centre
MAX_CENTRE_ATOMS = 60  # atoms of a reaction centre; more mean a wrong map


@dataclass(frozen=True)
class Change:
    """Change of a reaction, and the molecules that take part."""

    wide: int  # hash of the reaction centre
    close: int  # hash of the reaction centre and its neighbours
    givers: tuple[str, ...]  # canonical SMILES of the molecules that contribute atoms to the product, sorted


def change_of(reactants: str, product: str, *, seconds: float = 2.0) -> Change | None:
    """Return the change of a reaction to one molecule by guessed atom maps; None if it is invalid, or nothing changes.

    `seconds` limit the processor time for the maps.
    """
    match = map_atoms(reactants, product, seconds=seconds)
    return None if match is None else _build_change(match, _parse_limited(reactants))


def change_of_mapped(mapped: str) -> Change | None:
    """Return the change of a reaction with atom maps; None if they are unusable."""
    source, target = map(_parse_limited, mapped.split(">>")) if mapped.count(">>") == 1 else (None, None)
    if source is None or target is None:
        return None
    match = AtomMap(graph_of(source), graph_of(target))
    index_of_map = {atom.GetAtomMapNum(): atom.GetIdx() for atom in source.GetAtoms()}
    for atom in target.GetAtoms():
        here, origin = atom.GetIdx(), index_of_map.get(atom.GetAtomMapNum() or -1, -1)
        if origin >= 0 and match.target[origin] < 0 and match.left.kinds[origin][0] == atom.GetAtomicNum():
            match.pair(here, origin)
    # Data sources differ in which oxygen of an acid remains; choose the cheapest, as in guessed maps.
    improve_map(match)
    return _build_change(match, source)


def _parse_limited(smiles: str) -> Any | None:
    mol = mol_from_smiles(smiles)
    return mol if mol is not None and 0 < mol.GetNumAtoms() <= MAX_ATOMS else None


def _build_change(match: AtomMap, source: Any) -> Change | None:
    keys = _change_hashes(match)
    if keys is None:
        return None
    for atom in source.GetAtoms():
        atom.SetAtomMapNum(0)
    givers, _ = split_precursors(match, source, _canonical_part)
    return Change(*keys, tuple(sorted(givers)))


def _canonical_part(part: Any) -> str:
    # Parse again, because stereocentres may have existed due to atom maps only.
    with rdBase.BlockLogs():
        text = str(Chem.MolToSmiles(part))
        mol = mol_from_smiles(text)
        return text if mol is None else str(Chem.MolToSmiles(mol))


CentreAtom = tuple[int, int]  # an atom of the reaction centre: its index in the precursors and in the product, or -1


def _change_hashes(match: AtomMap) -> tuple[int, int] | None:
    touched = [atom for atom in range(len(match.origin)) if match.changes(atom)]
    centre: list[CentreAtom] = [(match.origin[atom], atom) for atom in touched]
    leaving = {
        neighbour
        for origin, _ in centre
        if origin >= 0
        for neighbour in match.left.bonds[origin]
        if match.target[neighbour] < 0 and match.given[match.left.molecules[neighbour]]
    }
    centre += [(origin, -1) for origin in sorted(leaving)]
    if not touched or len(centre) > MAX_CENTRE_ATOMS or not any(match.given):
        return None
    links = [list(_iterate_links(match, centre_atom, centre)) for centre_atom in centre]
    wide = [_wide_label(match, centre_atom) for centre_atom in centre]
    close = [
        (
            label,
            _neighbourhood(match.left, origin),
            _neighbourhood(match.right, atom) or _leaving_group(match, origin, LEAVING),
        )
        for label, (origin, atom) in zip(wide, centre, strict=True)
    ]
    return _hash_graph(wide, links), _hash_graph(close, links)


def _iterate_links(
    match: AtomMap, centre_atom: CentreAtom, centre: list[CentreAtom]
) -> Iterator[tuple[int, float, float]]:
    """Yield the atoms bonded to a centre atom before or after, with both bond orders."""
    for number, (origin, atom) in enumerate(centre):
        before = match.left.bonds[centre_atom[0]].get(origin, 0.0) if centre_atom[0] >= 0 and origin >= 0 else 0.0
        after = match.right.bonds[centre_atom[1]].get(atom, 0.0) if centre_atom[1] >= 0 and atom >= 0 else 0.0
        if before or after:
            yield number, before, after


def _wide_label(match: AtomMap, centre_atom: CentreAtom) -> tuple[Any, ...]:
    origin, atom = centre_atom
    before, after = _atom_label(match.left, origin), _atom_label(match.right, atom)
    # The number of hydrogens depends on neighbours; only its change counts here.
    gained = match.right.kinds[atom][4] - match.left.kinds[origin][4] if origin >= 0 and atom >= 0 else 0
    return before, after, gained


def _atom_label(graph: MolGraph, atom: int) -> tuple[Any, ...]:
    """Return element, aromaticity, charge and multiple bonds of an atom; empty for -1."""
    if atom < 0:
        return ()
    number, aromatic, _, charge, _ = graph.kinds[atom]
    return number, aromatic, charge, sum(order - 1 for order in graph.bonds[atom].values() if order >= 2)


def _neighbourhood(graph: MolGraph, atom: int) -> tuple[Any, ...]:
    """Return the hydrogens of an atom, and element, aromaticity and bond order of each neighbour."""
    if atom < 0:
        return ()
    near = sorted((*graph.kinds[far][:2], order) for far, order in graph.bonds[atom].items())
    return graph.kinds[atom][4], *near


def _leaving_group(match: AtomMap, atom: int, depth: int, behind: int = -1) -> tuple[Any, ...]:
    graph = match.left
    more = (
        (order, *_leaving_group(match, near, depth - 1, atom))
        for near, order in graph.bonds[atom].items()
        if depth and near != behind and match.target[near] < 0
    )
    return *graph.kinds[atom][:2], graph.kinds[atom][4], *sorted(more, key=repr)


def _hash_graph(labels: list[Any], links: list[list[tuple[int, float, float]]]) -> int:
    """Return a hash of a graph that does not depend on the order of its atoms, nor on the process."""
    hashes = [_hash_value(label) for label in labels]
    for _ in range(ROUNDS):
        hashes = [
            _hash_value((value, sorted((before, after, hashes[other]) for other, before, after in neighbours)))
            for value, neighbours in zip(hashes, links, strict=True)
        ]
    return _hash_value(sorted(hashes))


def _hash_value(value: Any) -> int:
    return int.from_bytes(blake2b(repr(value).encode(), digest_size=8).digest(), "little")
