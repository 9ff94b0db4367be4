"""How the spelling of a query changes the number of passes: `python assets/docs/spellings.py ../shared/data 100`.

Greedy decoding of validation queries with the shipped models, each query written three ways: canonical; rooted at random; and,
for retro, aligned: rooted so that the true answer's canonical SMILES begins at the same atom, as far as the maps tell. Prints one
row a spelling: passes, tokens and accepted tokens a query, and how often the first answer is right. Times are not measured.
"""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random

from rdkit import Chem

from chemspec import chem
from chemspec.align import spellings, write_from
from chemspec.data.reactions import canonical_pair
from chemspec.data.shards import read_rows
from chemspec.engine import Engine, Ready
from chemspec.metrics import numbers
from chemspec.settings import DecodeSettings, Task

DRAFTERS = ("none", "copy", "mixed")


def aligned(mapped: str, product: str) -> str:
    """The product rooted at the atom where the canonical SMILES of its main reactant begins; canonical where the maps fail."""
    sides = mapped.split(">>")
    target = Chem.MolFromSmiles(sides[-1])
    main = max((Chem.MolFromSmiles(part) for part in sides[0].split(".")), key=lambda mol: mol.GetNumAtoms())  # fmt: skip
    numbers_ = [atom.GetAtomMapNum() for atom in main.GetAtoms()]
    places = {atom.GetAtomMapNum(): atom.GetIdx() for atom in target.GetAtoms()}
    for mol in (main, target):
        for atom in mol.GetAtoms():
            atom.SetAtomMapNum(0)
    _, order = write_from(main, -1)
    root = next((places[numbers_[atom]] for atom in order if numbers_[atom] in places), None)
    text = product if root is None else write_from(target, root)[0]
    return text if chem.canonical(text) == chem.canonical(product) else product


def main(folder: Path, count: int) -> None:
    print("| model | spelling | drafter | passes | tokens | tokens a pass | acceptance | right |")
    print("|---|---|---|---|---|---|---|---|")
    tasks: tuple[Task, ...] = ("retro", "forward")
    for task in tasks:
        engine = Engine.load(task, threads=1)
        rows = Random(0).sample(list(read_rows(folder / f"{task}_val.csv.gz")), count)
        ways: dict[str, list[tuple[str, str]]] = {"canonical": [], "random": [], "aligned": []}
        for row in rows:
            query, answer = canonical_pair(row, task)
            query, truth = chem.canonical(query) or query, chem.canonical(answer) or answer
            ways["canonical"].append((query, truth))
            ways["random"].append((spellings(query, 2, Random(query))[-1], truth))
            if task == "retro" and row["mapped_rxn"]:
                ways["aligned"].append((aligned(row["mapped_rxn"], query), truth))
        for way, asked in ways.items():
            for drafter in DRAFTERS if asked else ():
                print(line(engine, way, drafter, asked), flush=True)


def line(engine: Engine, way: str, drafter: str, asked: list[tuple[str, str]]) -> str:
    """One row of the table. Queries go to the model as they are spelled, which `Engine.predict` would not do."""
    how = DecodeSettings(decoder="greedy", n=1, drafter=drafter)
    ready, truths = [], []
    for text, truth in asked:
        ids = engine.tokenizer.encode_or_unk(text)
        if 1 not in ids and len(ids) <= engine.longest_query:
            ready.append(Ready(text, tuple(ids), tuple(engine.tokenizer.pieces(ids))))
            truths.append(truth)
    results = [result for start in range(0, len(ready), 16) for result in engine._decode(ready[start : start + 16], how)]  # fmt: skip
    found = numbers([result.trace for result in results])
    right = sum(result.hypotheses[0].canonical == truth for result, truth in zip(results, truths, strict=True))  # fmt: skip
    return (
        f"| {engine.name} | {way} | {drafter} | {found.passes_per_query:.1f} | {found.emitted / found.queries:.1f} | "
        f"{found.tokens_per_pass:.2f} | {found.acceptance_rate:.2f} | {right / len(results):.2f} |"
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
