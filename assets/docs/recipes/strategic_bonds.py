"""Write pairs of product and reactants with strategic bonds that a retro model misses, by rules, for its training.

    python assets/docs/recipes/strategic_bonds.py retro_extra_train.csv.gz OUT --exclude TEST_FILE ...

writes `strategic_bonds_train.csv.gz` and `strategic_bonds_test.csv` (columns as in the source file, the kind in `id`):
rings of heterocycles by their textbook syntheses, aza-Michael additions, and glycosides of oxygen, nitrogen and carbon.
Patents hold few of these steps, and the model rather takes off a protecting group. Reactants are recorded ones, some
with a group put on first (a bromide of a methyl ketone). One recorded molecule in twelve, chosen by its text, is for
the test alone, and no product is in a file of `--exclude` or, in the test, in the source file. Rules are in
`strategic_bonds.toml`, groups in `rare_kinds.toml`.
"""

from __future__ import annotations

import random
import tomllib
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import rare_kinds
from rare_kinds import is_held
from rdkit import Chem
from rdkit.Chem import AllChem
from textbook_reactions import derived, products, read_arguments, write_file

from chemspec import chem
from chemspec.data.shards import read_rows

TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
POOLS = {
    **rare_kinds.TABLES,
    "pools": {**rare_kinds.TABLES["pools"], **TABLES["pools"]},
    "common": {**rare_kinds.TABLES["common"], **TABLES["common"]},
}
TRAIN, TEST = 1000, 40  # pairs of each kind for training and test
TRIES = 10  # reactants drawn for each pair of a kind, at most
LARGEST = 40  # heavy atoms of a product
COLUMNS = ("product", "reactants", "mapped_rxn", "source", "id")
Made = tuple[tuple[str, ...], str, str]  # reactants, product, mapped reaction


@cache
def _reaction(smarts: str) -> Any:
    return AllChem.ReactionFromSmarts(smarts)


def outcomes(smarts: str, *reactants: str) -> dict[str, str]:
    """Return what a rule gives by canonical SMILES, each with the mapped reaction, for molecules without maps."""
    mols = [Chem.MolFromSmiles(smiles) for smiles in reactants]
    before = [sum(mol.GetNumAtoms() for mol in mols[:index]) for index in range(len(mols))]
    made = {}
    for outcome in _reaction(smarts).RunReactants(mols):
        whole, numbers = Chem.Mol(), set[int]()
        for part in outcome:
            whole = Chem.CombineMols(whole, part)
        for atom in whole.GetAtoms():
            if atom.HasProp("react_atom_idx"):
                atom.SetAtomMapNum(before[atom.GetIntProp("react_idx")] + atom.GetIntProp("react_atom_idx") + 1)
                numbers.add(atom.GetAtomMapNum())
        mapped = Chem.MolToSmiles(whole)
        text = _bare(mapped)
        if text:
            sides = [_with_numbers(mol, start, numbers) for mol, start in zip(mols, before, strict=True)]
            made[text] = f"{'.'.join(sides)}>>{mapped}"
    return made


def _bare(mapped: str) -> str | None:
    """Return the canonical SMILES of a mapped molecule, if it is one."""
    mol = Chem.MolFromSmiles(mapped)
    if mol is None:
        return None
    for atom in mol.GetAtoms():
        atom.SetAtomMapNum(0)
    return chem.canonical(Chem.MolToSmiles(mol))


def _with_numbers(mol: Any, before: int, numbers: set[int]) -> str:
    copy = Chem.Mol(mol)
    for atom in copy.GetAtoms():
        number = before + atom.GetIdx() + 1
        atom.SetAtomMapNum(number if number in numbers else 0)
    return str(Chem.MolToSmiles(copy))


class Parts(rare_kinds.Recorded):
    """Recorded molecules by pool, with those that rules make of them, apart for training and test."""

    def __init__(self, molecules: Sequence[str], rng: random.Random) -> None:
        """Sort molecules into pools and these into parts: `parts[True]` is the test's."""
        super().__init__(molecules, frozenset(), rng, POOLS)
        for name, sources in TABLES["derived"].items():
            for pool, rule in sources:
                self.pools[name] += derived(rule, self.pools[pool])
        self.common = {name: text.split() for name, text in POOLS["common"].items()}
        self.parts: dict[bool, dict[str, list[str]]] = {True: {}, False: {}}
        for name, texts in self.pools.items():
            for held, part in self.parts.items():
                part[name] = [text for text in texts if is_held(text) == held and text not in self.common.get(name, ())]

    def draw(self, pool: str, held: bool) -> str:
        """Return a random molecule of a part of a pool, or "" if it has none; one in four is a common one."""
        common, rest = self.common.get(pool, []), self.parts[held][pool]
        chosen = common if common and (not rest or self.rng.random() < 0.25) else rest
        return self.rng.choice(chosen) if chosen else ""


def _by_rules(kind: str, recorded: Parts, held: bool) -> Iterator[Made]:
    """Yield reactions of a kind; where two positions may react one is drawn, as the reactants are the same."""
    for _ in range(TRIES * TRAIN):
        rule, *pools = recorded.rng.choice(TABLES["kinds"][kind])
        reactants = tuple(recorded.draw(pool, held) for pool in pools)
        is_common = all(text in recorded.common.get(pool, ()) for text, pool in zip(reactants, pools, strict=True))
        made = outcomes(rule, *reactants) if all(reactants) and not is_common else {}
        if made:
            yield (reactants, *recorded.rng.choice(sorted(made.items())))


def _glycosylations(_kind: str, recorded: Parts, held: bool) -> Iterator[Made]:
    """Yield glycosides of bromides and imidates, whose atom maps are left to be guessed."""
    for acceptor, flask, product in rare_kinds.glycosides(recorded):
        donor = flask.split(".")[0]
        if is_held(acceptor) == held and ("Br" in donor or "Cl" in donor):
            yield (donor, acceptor), product, ""


KINDS: dict[str, Callable[[str, Parts, bool], Iterator[Made]]] = {
    **dict.fromkeys(TABLES["kinds"], _by_rules),
    "glycosylations": _glycosylations,
}


def draw(kind: str, recorded: Parts, count: int, *, held: bool, excluded: frozenset[str]) -> list[Made]:
    """Return reactions of a kind with different products for training, or for the test (`held`)."""
    chosen: dict[str, Made] = {}
    for reactants, product, mapped in KINDS[kind](kind, recorded, held):
        if len(chosen) == count:
            break
        small = "." not in product and Chem.MolFromSmiles(product).GetNumHeavyAtoms() <= LARGEST
        if small and product not in excluded and product not in reactants:
            chosen.setdefault(product, (reactants, product, mapped))
    return list(chosen.values())


def main() -> None:
    """Write both files."""
    args, rng = read_arguments(__doc__, "retro_extra_train.csv.gz", "products", most=60_000)
    excluded = frozenset(text for file in args.exclude for text in products(file))
    rows = list(read_rows(args.source))
    every = sorted({part for row in rows for part in row["reactants"].split(".")} - {""})
    recorded = Parts(rng.sample(every, min(args.most, len(every))), rng)
    recorded_too = excluded.union(row["product"] for row in rows)
    train, test = [], []
    for kind in KINDS:
        test += [(kind, *made) for made in draw(kind, recorded, TEST, held=True, excluded=recorded_too)]
        train += [(kind, *made) for made in draw(kind, recorded, TRAIN, held=False, excluded=excluded)]
        print(f"{kind}: {len(train)} and {len(test)} so far", flush=True)
    write_file(args.out / "strategic_bonds_train.csv.gz", write, train)
    write_file(args.out / "strategic_bonds_test.csv", write, test)


def write(writer: Any, pairs: Sequence[tuple[str, tuple[str, ...], str, str]]) -> None:
    """Write rows in the columns of the recorded reactions, and the kind."""
    writer.writerow(COLUMNS)
    for number, (kind, reactants, product, mapped) in enumerate(pairs):
        writer.writerow((product, chem.canonical(".".join(reactants)), mapped, "rule", f"{kind}-{number}"))


if __name__ == "__main__":
    main()
