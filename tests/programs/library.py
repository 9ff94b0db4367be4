"""A list of drug-like molecules and their analogues for `chemspec plan`, or the counts of its table of routes.

`python tests/programs/library.py --file retro_test.csv.gz --out targets.csv`: 500 products of test reactions that no
stock list has, each followed by an analogue. After `chemspec plan targets.csv --within 5s -o routes.csv`:
`python tests/programs/library.py --routes routes.csv`.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parent)]

import pandas as pd
from helpers.scripts import option, script
from rdkit import Chem
from rdkit.Chem.QED import qed
from rdkit.Chem.rdChemReactions import ReactionFromSmarts

from chemspec.chem import canonical
from chemspec.evaluation.accuracy import read_known_reactions
from chemspec.stock.lists import default_lists, load_stock
from chemspec.terminal import console

MIN_QED = 0.5  # quantitative estimate of drug-likeness (Bickerton et al., 2012)
CHANGES = [  # what a medicinal chemist tries next
    ReactionFromSmarts(smarts)
    for smarts in (
        "[cH1:1]>>[c:1]F", "[cH1:1]>>[c:1]Cl", "[cH1:1]>>[c:1]C", "[cH1:1]>>[c:1]OC", "[cH1:1]>>[n:1]",
        "[c:1]F>>[c:1]Cl", "[c:1]Cl>>[c:1]C#N", "[c:1][CH3]>>[c:1]C(F)(F)F", "[c:1]O[CH3]>>[c:1]OC(F)F",
        "[NX3:1][CH3]>>[N:1]CC", "[O:1][CH3]>>[O:1]C(C)C",
    )
]  # fmt: skip


def analogue(smiles: str, unwanted: set[str]) -> str:
    """Return a molecule that differs by one change, always the same; empty if no change applies."""
    molecule = Chem.MolFromSmiles(smiles)
    chosen = random.Random(smiles)
    for change in chosen.sample(CHANGES, len(CHANGES)):
        products = change.RunReactants((molecule,))
        for (product,) in chosen.sample(products, len(products)):
            if not Chem.SanitizeMol(product, catchErrors=True):
                new = canonical(Chem.MolToSmiles(product))
                if new and new not in unwanted:
                    return new
    return ""


def choose_targets(products: list[str], count: int) -> Iterator[tuple[str, str]]:
    """Yield the kind and the SMILES of drug-like products that no list has, each followed by its analogue."""
    stock, known, kept = load_stock(default_lists()), set(products), 0
    for smiles in dict.fromkeys(products):
        if kept == count:
            return
        if stock.source(smiles) or qed(Chem.MolFromSmiles(smiles)) < MIN_QED or not (new := analogue(smiles, known)):
            continue
        known.add(new)
        kept += 1
        yield "test data", smiles
        yield "analogue", new


@script
def main(
    file: Annotated[Path | None, option("Test reactions of `retro`.")] = None,
    out: Annotated[Path, option("List of targets to write.")] = Path("targets.csv"),
    count: Annotated[int, option("Molecules of the test data, with as many analogues.")] = 500,
    routes: Annotated[Path | None, option("Table of routes to count.")] = None,
) -> None:
    """Write the list, or count its table of routes."""
    if file:
        products = [item.query for item in read_known_reactions(file, "retro")]
        random.Random(1).shuffle(products)
        pd.DataFrame(choose_targets(products, count), columns=["kind", "smiles"]).to_csv(out, index=False)
    if routes:
        table = pd.read_csv(routes)
        for name, rows in (("all", table), ("test data", table[::2]), ("analogues", table[1::2])):
            shared = rows["shared_intermediates"].notna().sum()
            console.print_line(
                f"{name}: {len(rows)} targets, solved {(rows['status'] == 'solved').mean():.1%}, "
                f"median steps {rows['steps'].median():.0f}, {shared} with a shared intermediate"
            )


if __name__ == "__main__":
    main()
