"""Copied tokens as an atom map, beside recorded maps and our mapper: `python tests/benchmarks/copied_atoms.py`.

The retro model answers products of the USPTO-50K test part greedily, with the drafter `mixed` and a fixed number of
drafted nodes, so that nothing depends on the machine. Reactions count whose answer is the record, until there are
enough.

A map is compared with the recorded one by canonical ranks: of the pairs (rank of the atom in the product, rank of its
origin in the reactants), how many are the same. So atoms that are alike by symmetry may be exchanged. Stereo is left
out of the ranks.

Copying stops at the last atom of a copied run, unless query and answer end there, too. It agrees with the reaction
centre if this atom is at most so many bonds away from an atom of the product whose bonds, charge or hydrogens change.
"""

from __future__ import annotations

import math
import random
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from rdkit import Chem

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from scripts import option, script

import chemspec
from chemspec import chem
from chemspec.chem import atom_maps
from chemspec.chem.atom_maps import AtomMap, MolGraph, Similarity, graph_of
from chemspec.chem.copied_atoms import copied_atoms, copied_runs
from chemspec.cli import options as opt
from chemspec.cli import show
from chemspec.data.shards import read_rows
from chemspec.evaluation.accuracy import wilson_interval
from chemspec.settings import DecodeSettings
from chemspec.types import DecodeResult

SETTINGS = DecodeSettings(decoder="greedy", n=1, drafter="mixed", drafting="fixed", batch_size=1)
CHUNK = 100  # products at a time
DISTANCES = (0, 1, 2)  # bonds
Origins = Mapping[int, int]  # atom of the product -> atom of the reactants
Pairs = Counter[tuple[int, int]]


@dataclass(frozen=True)
class Side:
    """One side of a reaction: RDKit's molecule without maps, and the symmetry class of each atom."""

    mol: Any
    classes: tuple[int, ...]

    @classmethod
    def of(cls, mol: Any) -> Side:
        """Leave maps and stereo out, and rank the atoms in the order of the canonical SMILES."""
        bare = Chem.Mol(mol)
        for atom in bare.GetAtoms():
            atom.SetAtomMapNum(0)
        Chem.RemoveStereochemistry(bare)
        written = Chem.MolFromSmiles(Chem.MolToSmiles(bare))
        order = [int(atom) for atom in bare.GetProp("_smilesAtomOutputOrder").strip("[],").split(",")]
        ranks = Chem.CanonicalRankAtoms(written, breakTies=False)
        return cls(bare, tuple(rank for _, rank in sorted(zip(order, ranks, strict=True))))

    @property
    def smiles(self) -> str:
        """Canonical SMILES without stereo."""
        return str(Chem.MolToSmiles(self.mol))


class PreferCopied(Similarity):
    """Similarity with the copied pairs first among equals."""

    def __init__(self, left: MolGraph, right: MolGraph, copied: Origins) -> None:
        super().__init__(left, right)
        self.copied = copied

    def around(self, atom: int, origin: int) -> int:
        return 2 * super().around(atom, origin) + (self.copied.get(atom, -1) == origin)


def map_by(how: str, left: MolGraph, right: MolGraph, copied: Origins) -> AtomMap:
    """Map as `atom_maps.map_atoms` does, with copied pairs as a tie-breaker or as what the match starts from."""
    match = AtomMap(left, right)
    if how == "start":
        for atom, origin in copied.items():
            match.pair(atom, origin)
    atom_maps._grow(match, PreferCopied(left, right, copied if how == "tie-breaker" else {}), math.inf)
    atom_maps.improve(match, math.inf)
    if atom_maps._move_parts(match, math.inf):
        atom_maps.improve(match, math.inf)
    return match


def cheapest(first: AtomMap, second: AtomMap) -> AtomMap:
    """Return the second match if it makes the reaction cheaper, else the first."""
    costs = [match.cost_at(range(len(match.origin)), range(len(match.target))) for match in (first, second)]
    return second if costs[1] < costs[0] - 1e-6 else first


def pairs_of(origins: Origins, left: Side, right: Side) -> Pairs:
    """Return a map as pairs of symmetry classes."""
    return Counter((right.classes[atom], left.classes[origin]) for atom, origin in origins.items())


def recorded_map(mapped: str) -> tuple[Side, Side, Origins, AtomMap]:
    """Return both sides of a mapped reaction and its map."""
    left, right = map(Chem.MolFromSmiles, mapped.split(">>"))
    index_of_map = {atom.GetAtomMapNum(): atom.GetIdx() for atom in left.GetAtoms() if atom.GetAtomMapNum()}
    numbers = {atom.GetIdx(): atom.GetAtomMapNum() for atom in right.GetAtoms()}
    origins = {atom: index_of_map[number] for atom, number in numbers.items() if number in index_of_map}
    match = AtomMap(graph_of(left), graph_of(right))
    for atom, origin in origins.items():
        match.pair(atom, origin)
    return Side.of(left), Side.of(right), origins, match


def recorded_answers(engine: Any, source: Path | None, limit: int, seed: int, tally: Counter[str]) -> Iterator[Any]:
    """Yield mapped reactions and the model's results that equal them; `tally` counts the products."""
    rows = [row for row in read_rows(opt.find_test_file(source, "retro", "")) if row["mapped_rxn"]]
    random.Random(seed).shuffle(rows)
    for start in range(0, len(rows), CHUNK):
        chunk = rows[start : start + CHUNK]
        for row, result in zip(chunk, engine.predict([row["product"] for row in chunk], SETTINGS), strict=True):
            if tally["recorded"] == limit:
                return
            tally["products"] += 1
            if result.status == "ok" and result.hypotheses[0].canonical == chem.canonical(row["reactants"]):
                tally["recorded"] += 1
                yield row["mapped_rxn"], result


def stops_of_copying(result: DecodeResult) -> set[int]:
    """Return the atoms of the query at which copying stops."""
    query, answer = result.trace.query, result.hypotheses[0].tokens
    atoms, stops = chem.atom_tokens(query), set()
    for run in copied_runs(result):
        written = [atom for source, _ in run if (atom := atoms[source]) is not None]
        if written and run[-1] != (len(query) - 1, len(answer) - 1):
            stops.add(written[-1])
    return stops


def count_reaction(mapped: str, result: DecodeResult, tally: Counter[str]) -> None:
    """Add what the maps of a reaction, and the stops of copying, have in common with its record."""
    texts = "".join(result.hypotheses[0].tokens), "".join(result.trace.query)
    mols = [Chem.MolFromSmiles(text) for text in texts]
    left, right = map(Side.of, mols)
    left_record, right_record, origins, record = recorded_map(mapped)
    if (left.smiles, right.smiles) != (left_record.smiles, right_record.smiles):
        tally["of other structures"] += 1
        return
    copied, (before, after) = copied_atoms(result), map(graph_of, mols)
    plain = map_by("alone", before, after, {})
    started, preferred = (map_by(how, before, after, copied) for how in ("start", "tie-breaker"))
    matches = {
        "mapper": plain,
        "start from copied": started,
        "copied breaks ties": preferred,
        "cheapest": cheapest(cheapest(plain, preferred), started),
    }
    maps: dict[str, Origins] = {"copied": copied}
    maps |= {name: {atom: at for atom, at in enumerate(match.origin) if at >= 0} for name, match in matches.items()}
    recorded, size = pairs_of(origins, left_record, right_record), len(after.kinds)
    agreeing = {name: (pairs_of(pairs, left, right) & recorded).total() for name, pairs in maps.items()}
    tally["reactions"] += 1
    tally["atoms"] += size
    changed = {right_record.classes[atom] for atom in range(size) if record.changes(atom)}
    for name, pairs in maps.items():
        tally[f"{name}: mapped"] += len(pairs)
        tally[f"{name}: as recorded"] += agreeing[name]
        tally[f"{name}: all as recorded"] += agreeing[name] == size
        tally[f"{name}: more than the mapper"] += agreeing[name] > agreeing["mapper"]
        tally[f"{name}: fewer than the mapper"] += agreeing[name] < agreeing["mapper"]
    centre = [atom for atom in range(size) if right.classes[atom] in changed]
    bonds, stops = Chem.GetDistanceMatrix(right.mol), stops_of_copying(result)
    tally["stops"] += len(stops)
    tally["centre"] += len(centre)
    for most in DISTANCES:
        near = {atom for atom in range(size) if any(bonds[atom][other] <= most for other in centre)}
        tally[f"stops within {most}"] += len(stops & near)
        tally[f"atoms within {most}"] += len(near)
        tally[f"stopped within {most}"] += any(atom in near for atom in stops)
        tally[f"centre within {most}"] += sum(any(bonds[atom][stop] <= most for stop in stops) for atom in centre)


def report(tally: Mapping[str, int]) -> dict[str, dict[str, Any]]:
    """Return shares with their intervals."""
    rows: dict[str, dict[str, Any]] = {}
    for name in ("copied", "mapper", "start from copied", "copied breaks ties", "cheapest"):
        mapped, agreeing = tally[f"{name}: mapped"], tally[f"{name}: as recorded"]
        rows[name] = {
            "atoms mapped": wilson_interval(mapped, tally["atoms"]),
            "mapped atoms as recorded": wilson_interval(agreeing, mapped),
            "reactions all as recorded": wilson_interval(tally[f"{name}: all as recorded"], tally["reactions"]),
            "reactions with more atoms as recorded than the mapper": tally[f"{name}: more than the mapper"],
            "with fewer": tally[f"{name}: fewer than the mapper"],
        }
    for most in DISTANCES:
        rows[f"copying stops, within {most} bonds of the centre"] = {
            "of the stops": wilson_interval(tally[f"stops within {most}"], tally["stops"]),
            "of all atoms": wilson_interval(tally[f"atoms within {most}"], tally["atoms"]),
            "reactions with such a stop": wilson_interval(tally[f"stopped within {most}"], tally["reactions"]),
            "centre atoms with such a stop": wilson_interval(tally[f"centre within {most}"], tally["centre"]),
        }
    return rows


def main(
    model: str = "retro",
    source: opt.Source = None,
    limit: Annotated[int, option("Number of reactions whose answer is the record.")] = 2000,
    seed: int = 0,
    threads: int = 1,
    as_json: bool = False,
) -> None:
    """Print which atoms copied tokens map, how often as recorded, and how near copying stops to the reaction centre."""
    engine = chemspec.load(model, threads=threads)
    tally: Counter[str] = Counter()
    for mapped, result in recorded_answers(engine, source, limit, seed, tally):
        count_reaction(mapped, result, tally)
    if as_json:
        show.print_json({"counts": dict(tally), "shares": report(tally)})
        return
    print(f"{tally['reactions']} reactions, of {tally['products']} products, with {tally['atoms']} atoms")
    for name, row in report(tally).items():
        print(f"{name}:")
        for label, value in row.items():
            text = value if isinstance(value, int) else "{value:.1%} ({low:.1%} to {high:.1%})".format(**value)
            print(f"  {label}: {text}")


app = script(main)
if __name__ == "__main__":
    app()
