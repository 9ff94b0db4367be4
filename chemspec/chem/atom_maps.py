"""Which atom of the precursors does each atom of the product come from? A guess from the atoms' surroundings.

Two atoms are the more alike, the more shells of neighbours around them are the same (the refinement of Morgan, 1965).
The most
alike are paired first, and pairs grow along bonds, so that symmetric or repeated parts keep together. What remains is
the
reaction centre, where only the elements agree. This is no atom mapper of a mechanism: it serves to write a product in
the order
of its precursors (`align.py`), where a wrong pair costs one unnatural spelling.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterator

from rdkit import Chem, rdBase

from chemspec.chem import LONGEST

Mol = Chem.Mol
SHELLS = 6  # alike within six bonds is as good as the same: more shells decide nothing


def guess_maps(precursors: str, product: str) -> tuple[str, list[str]] | None:
    """An atom-mapped reaction, and the molecules that give the product nothing.

    Args:
        precursors: SMILES of everything in the flask.
        product: SMILES of one molecule.

    Returns:
        (`reactants>>product` with atom maps, the other molecules' SMILES), or None where RDKit cannot read a side, the
        product is several molecules, or nothing of it is found among the precursors.
    """
    if max(len(precursors), len(product)) > LONGEST or "." in product:
        return None
    with rdBase.BlockLogs():
        source, target = Chem.MolFromSmiles(precursors), Chem.MolFromSmiles(product)
        if source is None or target is None:
            return None
        pairs = correspondence(source, target)
        for number, (here, there) in enumerate(sorted(pairs.items()), 1):
            target.GetAtomWithIdx(here).SetAtomMapNum(number)
            source.GetAtomWithIdx(there).SetAtomMapNum(number)
        givers: list[str] = []
        others: list[str] = []
        for part in Chem.GetMolFrags(source, asMols=True, sanitizeFrags=False):
            mapped = any(atom.GetAtomMapNum() for atom in part.GetAtoms())
            (givers if mapped else others).append(Chem.MolToSmiles(part))
        return (f"{'.'.join(givers)}>>{Chem.MolToSmiles(target)}", others) if givers else None


def correspondence(source: Mol, target: Mol) -> dict[int, int]:
    """Atoms of `target` -> atoms of `source`, each used once; atoms that seem to be new are absent."""
    ours, theirs = _shells(target), _shells(source)
    parts = _parts(source)
    pairs: dict[int, int] = {}
    used: set[int] = set()
    taken: Counter[int] = Counter()  # atoms paired so far, by the precursor that gives them
    edge: list[tuple[int, int, int]] = []  # pairs next to a pair: (-shells alike, target, source)

    def take(here: int, there: int) -> None:
        pairs[here] = there
        used.add(there)
        taken[parts[there]] += 1
        for one in _neighbours(target, here):
            for other in _neighbours(source, there):
                if one not in pairs and other not in used:
                    alike = _alike(ours[one], theirs[other])
                    if alike:
                        heapq.heappush(edge, (-alike, one, other))

    def grow(least: int) -> None:
        while edge and -edge[0][0] >= least:
            _, here, there = heapq.heappop(edge)
            if here not in pairs and there not in used:
                take(here, there)

    for least in range(SHELLS + 1, 1, -1):
        grow(least)
        places = defaultdict(list)
        for there, shells in enumerate(theirs):
            places[shells[least - 1]].append(there)
        for here, shells in enumerate(ours):
            free = [there for there in places.get(shells[least - 1], ()) if there not in used]
            if here not in pairs and free:
                take(here, max(free, key=lambda there: (taken[parts[there]], -there)))
                grow(least)
    grow(1)  # at the reaction centre the element is all that agrees
    return pairs


def _shells(mol: Mol) -> list[list[int]]:
    """For each atom, a hash of what lies within 0, 1, ..., `SHELLS` bonds."""
    now = [atom.GetAtomicNum() for atom in mol.GetAtoms()]
    found = [[value] for value in now]
    around: list[list[tuple[int, int]]] = [[] for _ in now]
    for bond in mol.GetBonds():
        one, other, kind = bond.GetBeginAtomIdx(), bond.GetEndAtomIdx(), int(bond.GetBondType())
        around[one].append((kind, other))
        around[other].append((kind, one))
    for _ in range(SHELLS):
        now = [
            hash((value, *sorted((kind, now[other]) for kind, other in near)))
            for value, near in zip(now, around, strict=True)
        ]
        for shells, value in zip(found, now, strict=True):
            shells.append(value)
    return found


def _alike(ours: list[int], theirs: list[int]) -> int:
    """How many shells agree, from the innermost."""
    count = 0
    for one, other in zip(ours, theirs, strict=True):
        if one != other:
            break
        count += 1
    return count


def _parts(mol: Mol) -> dict[int, int]:
    """Atom -> number of the molecule that it belongs to."""
    return {atom: number for number, atoms in enumerate(Chem.GetMolFrags(mol)) for atom in atoms}


def _neighbours(mol: Mol, atom: int) -> Iterator[int]:
    return (near.GetIdx() for near in mol.GetAtomWithIdx(atom).GetNeighbors())
