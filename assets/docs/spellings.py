"""How the spelling of a query changes the number of passes: `python assets/docs/spellings.py FOLDER 100`.

Greedy decoding of validation queries with the shipped models, each query written three ways: canonical; rooted at
random; and, for retro, aligned: rooted so that the true answer's canonical SMILES begins at the same atom, as far as
the maps tell. Prints one row a spelling: passes, tokens and accepted tokens a query, and how often the first answer is
right. Times are not measured.

Then the same for answers, without a model: the passes that the drafter `copy` would need to write the true answer,
spelled canonically, and spelled as training data are, in the order of the canonical query.
"""

from __future__ import annotations

import sys
from itertools import takewhile
from pathlib import Path
from random import Random

from rdkit import Chem

from chemspec import chem
from chemspec.chem.reactions.root_align import smiles_variants_of_query, write_from
from chemspec.data.reactions import Row, canonical_pair, smiles_variants
from chemspec.data.shards import read_rows
from chemspec.draft.copy import Copy, TokenClasses
from chemspec.engine.engine import Engine, PreparedQuery
from chemspec.metrics import speed_numbers
from chemspec.settings import DecodeSettings, Task
from chemspec.tokenizer import BOS, EOS, TokenError

DRAFTERS = ("none", "copy", "mixed")


def aligned(mapped: str, product: str) -> str:
    """The product rooted at the atom where the canonical SMILES of its main reactant begins; canonical where the maps
    fail."""
    sides = mapped.split(">>")
    target = Chem.MolFromSmiles(sides[-1])
    main = max((Chem.MolFromSmiles(part) for part in sides[0].split(".")), key=lambda mol: mol.GetNumAtoms())
    numbers_ = [atom.GetAtomMapNum() for atom in main.GetAtoms()]
    positions = {atom.GetAtomMapNum(): atom.GetIdx() for atom in target.GetAtoms()}
    for mol in (main, target):
        for atom in mol.GetAtoms():
            atom.SetAtomMapNum(0)
    _, order = write_from(main, -1)
    root = next((positions[numbers_[atom]] for atom in order if numbers_[atom] in positions), None)
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
            ways["random"].append((smiles_variants_of_query(query, 2, Random(query))[-1], truth))
            if task == "retro" and row["mapped_rxn"]:
                ways["aligned"].append((aligned(row["mapped_rxn"], query), truth))
        for spelling, pairs in ways.items():
            for drafter in DRAFTERS if pairs else ():
                print(line(engine, spelling, drafter, pairs), flush=True)
    print("\n| task | answer | reactions | passes | tokens | tokens a pass |\n|---|---|---|---|---|---|")
    for task in tasks:
        rows = Random(0).sample(list(read_rows(folder / f"{task}_val.csv.gz")), 5 * count)
        for row in answer_lines(task, Engine.load(task, threads=1), rows):
            print(row, flush=True)


def answer_lines(task: Task, engine: Engine, rows: list[Row]) -> list[str]:
    """Two rows of the second table."""
    tokenizer = engine.tokenizer
    copy = Copy(token_classes=TokenClasses.from_tokens(tokenizer.smiles_tokens, merges=tokenizer.merges))
    sums = {"canonical": [0, 0, 0], "aligned": [0, 0, 0]}
    for row in rows:
        made = smiles_variants(row, task, count=1, flat_share=0.0, rng=Random(0), guess=True)
        truth = chem.canonical(made[0][1]) if made else None
        if truth is None:
            continue
        try:
            source, *written = (engine.tokenizer.encode(text) for text in (made[0][0], truth, made[0][1]))
        except TokenError:
            continue
        for spelling, target in zip(sums, written, strict=True):
            counts = passes(copy, source, (*target, EOS)), len(target) + 1, 1
            sums[spelling] = [old + new for old, new in zip(sums[spelling], counts, strict=True)]
    return [
        f"| {task} | {spelling} | {count} | {steps / count:.1f} | {tokens / count:.1f} | {tokens / steps:.2f} |"
        for spelling, (steps, tokens, count) in sums.items()
    ]


def passes(drafter: Copy, source: tuple[int, ...], target: tuple[int, ...]) -> int:
    """Passes of a model that writes `target`, whatever it is."""
    count = done = 0
    while done < len(target):
        drafts = drafter.propose(source, (BOS, *target[:done]), len(target) - done)
        done += 1 + max((agreed(draft.tokens, target[done:]) for draft in drafts), default=0)
        count += 1
    return count


def agreed(first: tuple[int, ...], other: tuple[int, ...]) -> int:
    """How many tokens both begin with."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, other, strict=False)))


def line(engine: Engine, spelling: str, drafter: str, pairs: list[tuple[str, str]]) -> str:
    """One row of the table. Queries go to the model as they are spelled, which `Engine.predict` would not do."""
    settings = DecodeSettings(decoder="greedy", n=1, drafter=drafter)
    ready, truths = [], []
    for text, truth in pairs:
        ids = engine.tokenizer.encode_or_unk(text)
        if 1 not in ids and len(ids) <= engine.longest_query:
            ready.append(PreparedQuery(text, tuple(ids), tuple(engine.tokenizer.token_texts(ids))))
            truths.append(truth)
    results = [
        result for start in range(0, len(ready), 16) for result in engine.decode(ready[start : start + 16], settings)
    ]
    numbers = speed_numbers([result.trace for result in results])
    right = sum(result.hypotheses[0].canonical == truth for result, truth in zip(results, truths, strict=True))
    tokens = numbers.emitted / numbers.queries
    return (
        f"| {engine.name} | {spelling} | {drafter} | {numbers.passes_per_query:.1f} | {tokens:.1f} | "
        f"{numbers.tokens_per_pass:.2f} | {numbers.acceptance_rate:.2f} | {right / len(results):.2f} |"
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
