"""Measure a forward model on textbook reactions and on flasks without what their reaction needs.

    python tests/programs/textbook.py textbook_test.csv [--model FOLDER]
    python tests/programs/textbook.py rare_kinds_test.csv --stereo

The files are written by `textbook_reactions.py` and `rare_kinds.py` of `assets/docs/recipes`, with products that their
training files lack. Right is a first answer equal to the product, or to one of several parted by `|`, of a flask
without reagents one that returns the largest molecule unchanged. Without `--stereo` configurations do not count; with
it they do where the product has them.
"""

from __future__ import annotations

import argparse
import csv
from collections import defaultdict
from pathlib import Path

from chemspec import Engine
from chemspec.chem import canonical, drop_stereo
from chemspec.settings import DecodeSettings


def main() -> None:
    """Print the share of right first answers and their mean probability, by kind of reaction."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--model", default="forward")
    parser.add_argument("--stereo", action="store_true", help="configurations count where the product has them")
    parser.add_argument("--show", action="store_true", help="print wrong first answers")
    args = parser.parse_args()
    with args.file.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    engine = Engine.load(args.model)
    results = engine.predict([row["reactants_and_reagents"] for row in rows], DecodeSettings(n=5))
    kinds: dict[str, list[tuple[bool, bool, float]]] = defaultdict(list)
    for row, result in zip(rows, results, strict=True):
        truth = row["main_product"]
        normal = canonical if args.stereo and set("@/") & set(truth) else drop_stereo
        truths = [normal(text) for text in truth.split("|")]
        answers = [normal(canonical(answer.smiles) or "") for answer in result.hypotheses]
        hits = [answer in truths for answer in answers]
        probability = sum(answer.model_probability for answer, hit in zip(result.hypotheses, hits, strict=True) if hit)
        kinds[row["id"].rsplit("-", 1)[0]].append((hits[:1] == [True], any(hits), probability))
        if args.show and hits[:1] != [True]:
            print(f"{row['id']}: {row['reactants_and_reagents']}>>{answers[0] if answers else ''} instead of {truth}")
    for kind, outcomes in kinds.items():
        count = len(outcomes)
        first, five, odds = (sum(column) for column in zip(*outcomes, strict=True))
        print(f"{kind}: {first} of {count} first, {five} among five, mean probability {odds / count:.2f}")


if __name__ == "__main__":
    main()
