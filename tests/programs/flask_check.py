"""Measure the flask check on recorded reactions: how often it warns, and how often once the reagents are taken out.

    python tests/programs/flask_check.py forward_test.csv.gz --rows 1000 [--show]

The file has columns `reactants_and_reagents` and `product`. A recorded flask may lack what the patent used: text mining
loses catalysts and activators. Flasks that hold nothing but reactants and solvents are therefore counted apart.
It also counts the reactions whose carbon skeleton would do what it seldom does (`StepClass.unlikely_change`).
Reagents are what gives no atom to the product (by atom map) and is no solvent, so their choice rests on no table of the
check.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from chemspec import chem
from chemspec.chem.checks.flask_check import missing_or_conflicting, needs_of
from chemspec.chem.checks.flask_parts import split_flask
from chemspec.chem.reactions.step_class import classify_step
from chemspec.chem.reactions.stoichiometry import classify_whole_step

COMMONEST = 10  # classes with a need, in which reagents are taken out
_SOLVENTS = """
O CO CCO CC(C)O CCCCO C1CCOC1 C1COCCO1 CC1CCCO1 CCOCC COC(C)(C)C CC(C)OC(C)C COCCOC CN(C)C=O CN(C)C(C)=O CS(C)=O
CN1CCCC1=O ClC(Cl)Cl ClCCCl c1ccccc1 Cc1ccccc1 Cc1ccccc1C Clc1ccccc1 CCOC(C)=O CC(C)=O CCC(C)=O CC#N CCCCC CCCCCC
C1CCCCC1 ClCCl CCCCCCC
"""
SOLVENTS = frozenset(_SOLVENTS.split())


def recorded_reactions(path: Path, rows: int, seed: int) -> Iterator[tuple[str, str]]:
    """Yield flask and main product of randomly chosen records that RDKit can read."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        records = list(csv.DictReader(file))
    random.Random(seed).shuffle(records)
    count = 0
    for record in records:
        flask, product = chem.canonical(record["reactants_and_reagents"]), chem.main_product(record["product"])
        if flask and product:
            yield flask, product
            count += 1
        if count == rows:
            return


def without_reagents(flask: str, product: str) -> str:
    """Return a flask without the molecules that give the product no atom and are no solvents."""
    step = classify_step(flask, product)
    given, agents = split_flask(flask, step) if step else (flask.split("."), [])
    return chem.canonical(".".join([*given, *(part for part in agents if part in SOLVENTS)])) or flask


def main() -> None:
    """Print the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--show", action="store_true", help="print every warning about a flask with reagents")
    args = parser.parse_args()
    reactions = list(recorded_reactions(args.file, args.rows, args.seed))
    steps = {pair: step for pair in reactions if (step := classify_step(*pair))}
    names = {pair: step.name for pair, step in steps.items()}
    start = time.process_time()
    warnings = {pair: missing_or_conflicting(*pair) for pair in reactions}
    seconds = time.process_time() - start
    bare = {pair for pair in reactions if without_reagents(*pair) == pair[0]}
    warned = [pair for pair in reactions if warnings[pair]]
    with_reagents = [pair for pair in warned if pair not in bare]
    print(f"{len(reactions)} reactions, {1000 * seconds / len(reactions):.2f} ms of processor time each")
    print(f"warnings: {len(warned)} ({len(warned) / len(reactions):.1%})")
    print(f"  of {len(bare)} flasks of reactants and solvents alone: {len(warned) - len(with_reagents)}")
    print(f"  of {len(reactions) - len(bare)} flasks with reagents: {len(with_reagents)}")
    unlikely = Counter(
        step.unlikely_change for pair in reactions if (step := classify_whole_step(*pair)) and step.unlikely_change
    )
    print(f"skeletons: {', '.join(f'{count} {what}' for what, count in unlikely.items())}")
    if args.show:
        for flask, product in with_reagents:
            print(f"    {names[flask, product]}: {' '.join(warnings[flask, product])}\n        {flask}>>{product}")
    quiet = [
        pair for pair, step in steps.items() if not warnings[pair] and pair not in bare and needs_of(pair[0], step)
    ]
    commonest = Counter(names[pair] for pair in quiet).most_common(COMMONEST)
    total = 0
    print("reagents taken out of flasks that gave no warning:")
    for name, count in commonest:
        noticed = sum(
            any(text.startswith("Missing") for text in missing_or_conflicting(without_reagents(*pair), pair[1]))
            for pair in quiet
            if names[pair] == name
        )
        total += noticed
        print(f"  {name}: {noticed} of {count}")
    count = sum(count for _, count in commonest)
    print(f"  together: {total} of {count} ({total / count:.0%})")


if __name__ == "__main__":
    main()
