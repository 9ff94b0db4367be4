"""Molecules as plain numbers for atom maps: atoms, bonds, what breaking them costs, and labels of surroundings."""

from __future__ import annotations

from array import array
from collections.abc import Set
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rdkit import Chem

from chemspec.chem.molecules.parsing import shared_mol
from chemspec.chem.molecules.pattern_screen import AROMATIC
from chemspec.chem.reactions.compiled_maps import GraphArrays

MAX_ATOMS = 500  # atoms of one side; more would take too long
RADIUS = 8  # bonds around an atom that are compared
CACHED_GRAPHS = 256  # each about 20 kB: the sides of the reactions of a few queries


@dataclass(frozen=True)
class MolGraph:
    """One side of a reaction as plain numbers, not to be changed; atoms are numbered as the SMILES writes them."""

    kinds: list[tuple[int, bool, bool, int, int]]  # each atom's atomic number, aromatic, in a ring, charge, hydrogens
    bonds: list[dict[int, float]]  # each atom's neighbours -> order (1.5 if aromatic)
    molecules: list[int]  # the number of each atom's molecule
    ranks: list[int]  # each atom's canonical rank

    @cached_property
    def by_element(self) -> dict[int, list[int]]:
        """The atoms by atomic number."""
        atoms: dict[int, list[int]] = {}
        for atom, kind in enumerate(self.kinds):
            atoms.setdefault(kind[0], []).append(atom)
        return atoms

    @cached_property
    def atom_types(self) -> list[int]:
        """Of each atom its type, as `pattern_screen` has it."""
        return [kind[0] + AROMATIC * kind[1] for kind in self.kinds]

    @cached_property
    def break_costs(self) -> dict[tuple[int, int], int]:
        """What breaking each bond costs, in both directions."""
        return _break_costs(self)

    @cached_property
    def break_array(self) -> array[int]:
        """The same for compiled code, bond by bond as `bonds` has them."""
        costs = self.break_costs
        return array("i", [costs[atom, near] for atom, bonds in enumerate(self.bonds) for near in bonds])

    @cached_property
    def steps(self) -> dict[tuple[int, int], int]:
        """Numbers of the steps (atom, neighbour), after those of the atoms."""
        steps = [(atom, near) for atom, bonds in enumerate(self.bonds) for near in bonds]
        return {step: number for number, step in enumerate(steps, len(self.kinds))}

    @cached_property
    def arrays(self) -> GraphArrays:
        """The graph for compiled code."""
        return GraphArrays(self.kinds, self.bonds, self.molecules, self.ranks)

    @cached_property
    def labels(self) -> NDArray[np.uint64]:
        """Labels of the surroundings of each atom, and of what lies beyond each step: kind, radius, atom or step.

        Equal labels mean equal surroundings within that radius: of the first kind on elements alone, of the second on
        aromaticity, rings and bond orders as well.
        """
        return _make_labels(self)

    @cached_property
    def step_labels(self) -> list[list[list[int]]]:
        """The labels of the steps by kind, step and radius, as lists: single ones are compared faster."""
        return np.swapaxes(self.labels[:, :, len(self.kinds) :], 1, 2).tolist()  # type: ignore[no-any-return]


@lru_cache(maxsize=CACHED_GRAPHS)
def read_graph(smiles: str) -> MolGraph | None:
    """Return the graph of a SMILES; None if RDKit cannot read it or it has too many atoms."""
    mol = shared_mol(smiles)
    return graph_of(mol) if mol is not None and mol.GetNumAtoms() <= MAX_ATOMS else None


def graph_of(mol: Any) -> MolGraph:
    """Return the graph of one of RDKit's molecules."""
    kinds = [
        (atom.GetAtomicNum(), atom.GetIsAromatic(), atom.IsInRing(), atom.GetFormalCharge(), atom.GetTotalNumHs(True))
        for atom in map(mol.GetAtomWithIdx, range(mol.GetNumAtoms()))  # several times as fast as RDKit's own loop
    ]
    bonds: list[dict[int, float]] = [{} for _ in kinds]
    for bond in map(mol.GetBondWithIdx, range(mol.GetNumBonds())):
        begin, end = bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()
        bonds[begin][end] = bonds[end][begin] = bond.GetBondTypeAsDouble()
    molecules = [0] * len(kinds)
    for number, atoms in enumerate(Chem.GetMolFrags(mol)):
        for atom in atoms:
            molecules[atom] = number
    return MolGraph(kinds, bonds, molecules, list(Chem.CanonicalRankAtoms(mol)))


# Costs of bonds: what is broken and made in most reactions of a kind comes out cheapest. They are whole numbers, of
# which 20 are what making a bond costs, so that sums are exact.
_HALOGENS = {9: 16, 17: 10, 35: 9, 53: 8}
_METALS = {3, 5, 11, 12, 13, 14, 19, 25, 29, 30, 50}  # and half-metals: boron, silicon


def _break_costs(graph: MolGraph) -> dict[tuple[int, int], int]:
    kinds, costs = graph.kinds, {}
    acyl = {atom for atom in range(len(kinds)) if is_acyl(graph, atom)}
    esters = {atom for atom, kind in enumerate(kinds) if kind[0] == 8 and not acyl.isdisjoint(graph.bonds[atom])}
    # The first atoms of the alkyl groups of esters, which leave whole rather than break.
    holders = {near for atom in esters for near, order in graph.bonds[atom].items() if order == 1} - acyl
    for low, bonds in enumerate(graph.bonds):
        for high, order in bonds.items():
            if low < high:
                atom, near = (high, low) if kinds[high][0] == 6 else (low, high)
                costs[low, high] = costs[high, low] = _break_cost(graph, atom, near, order, acyl, holders)
    return costs


def _break_cost(graph: MolGraph, atom: int, near: int, order: float, acyl: Set[int], holders: Set[int]) -> int:
    first, second = graph.kinds[atom][0], graph.kinds[near][0]
    if first == 1 or second == 1:
        return 0  # deuterium and tritium, the hydrogens that are atoms here
    if first in _METALS or second in _METALS:
        return 10
    if second in _HALOGENS:
        return _HALOGENS[second] - 2 * (atom in acyl)
    cost = 12 + int(8 * order)
    if first != 6:
        return cost
    if second == 6:
        return cost + 10 + 20 * (atom in holders or near in holders)
    if any(graph.kinds[far][0] in (15, 16) for far in graph.bonds[near] if far != atom):
        return 12  # sulfonates and phosphates leave easily
    if graph.kinds[atom][1]:
        return cost + 10
    return cost - 4 * (order == 1 and atom in acyl)


def is_acyl(graph: MolGraph, atom: int) -> bool:
    """Return whether an atom has a double bond to oxygen or sulfur, as in an ester or anhydride."""
    bonds = graph.bonds[atom]
    return 2.0 in bonds.values() and any(order == 2 and graph.kinds[far][0] in (8, 16) for far, order in bonds.items())


# Odd constants of 64 bits, with which integers are mixed; sums of mixed ones are hashes of multisets.
_HERE, _MIX = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)
_HIGH, _LOW = np.uint64(32), np.uint64(29)


def _make_labels(graph: MolGraph) -> NDArray[np.uint64]:
    count = len(graph.kinds)
    near = np.array([near for bonds in graph.bonds for near in bonds], np.int64)
    back = np.array([graph.steps[step[::-1]] for step in graph.steps], np.int64) - count
    orders = np.array([4 * order for bonds in graph.bonds for order in bonds.values()], np.uint64)
    elements = np.array([kind[0] for kind in graph.kinds], np.uint64)
    detailed = np.array([4 * kind[0] + 2 * kind[1] + kind[2] for kind in graph.kinds], np.uint64)
    # The graph twice, one for each kind of labels.
    ends, back = np.concatenate([near, near + count]), np.concatenate([back, back + len(near)])
    edges = np.cumsum([0, *map(len, graph.bonds), *map(len, graph.bonds)])  # ends of the steps that begin at each atom
    atoms = np.concatenate([elements, detailed]) + _HERE
    steps = np.concatenate([elements[near], detailed[near] + (orders << np.uint64(16))]) + _HERE
    first, last = edges[:-1], edges[1:]
    sums = np.zeros(len(ends) + 1, np.uint64)
    rounds = []
    for radius in range(RADIUS + 1):
        if radius:
            np.cumsum(steps, out=sums[1:])
            around = sums[last] - sums[first]  # sums over all steps that begin at an atom
            steps = _mix(steps * _HERE + around[ends] - steps[back])
            atoms = _mix(atoms * _HERE + around)
        else:
            atoms, steps = _mix(atoms), _mix(steps)
        rounds.append(np.concatenate([atoms.reshape(2, -1), steps.reshape(2, -1)], axis=1))
    return np.stack(rounds, axis=1)


def _mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    values = (values ^ (values >> _HIGH)) * _MIX
    return values ^ (values >> _LOW)
