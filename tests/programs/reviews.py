"""Processor time of predictions and their reviews, row by row of Batch, and whether the documents stay the same.

    python tests/programs/reviews.py --out before.json
    python tests/programs/reviews.py --golden before.json

Built-in queries of both tasks, ten distinct answers each, int8, one thread; the first rows only warm the caches of
tables and patterns. With `--golden` the documents are compared, byte by byte, with those of another version. With
`--profile` the costliest functions are printed as well (cProfile, which favours compiled code).
"""

from __future__ import annotations

import argparse
import cProfile
import hashlib
import json
import pstats
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import chemspec
from chemspec.asset_files import assets_folder
from chemspec.evaluation.loading import COMPANIONS
from chemspec.precedents import installed_if_usable
from chemspec.review import StepChecker, load_engines, review_document, review_results
from chemspec.review.review import DEFAULT_SETTINGS, MAX_CHECKED
from chemspec.settings import Task

WARM, EACH = 16, 16  # rows that are not counted; rows of a block, as in a job
CARDS = 5  # of a row, as in a job


def review_block(task: Task, results: list[Any], checker: StepChecker, cards: int | None) -> list[str]:
    heads = None if cards is None else MAX_CHECKED
    reviews = review_results(task, results, checker, heads=heads, described=cards)
    shown = [replace(review, suggestions=review.suggestions[:cards]) for review in reviews]
    return [json.dumps(review_document(review), sort_keys=True) for review in shown]


def measure(
    task: Task, limit: int, cards: int | None, profile: cProfile.Profile | None
) -> tuple[list[str], float, float]:
    engine = chemspec.load(task, dtype="int8", threads=1)
    companions = load_engines(COMPANIONS, threads=1) if task == "retro" else {}
    checker = StepChecker(companions.get("forward"), companions.get("reagents"), installed_if_usable())
    queries = (assets_folder() / "examples" / f"bench_{task}.smi").read_text().split()[: WARM + limit]
    documents, predicting, reviewing = [], 0.0, 0.0
    for first in range(0, len(queries), EACH):
        began = time.process_time()
        results = engine.predict(queries[first : first + EACH], DEFAULT_SETTINGS)
        predicted = time.process_time()
        if profile and first >= WARM:
            profile.enable()
        documents += review_block(task, results, checker, cards)
        if profile:
            profile.disable()
        if first >= WARM:
            predicting += predicted - began
            reviewing += time.process_time() - predicted
    counted = len(queries) - WARM
    return documents, 1000 * predicting / counted, 1000 * reviewing / counted


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", default=["forward", "retro"])
    parser.add_argument("--limit", type=int, default=32)
    parser.add_argument("--whole", action="store_true", help="check and describe all answers, not as Batch five cards")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--golden", type=Path)
    parser.add_argument("--profile", type=int, default=0, metavar="LINES")
    given = parser.parse_args()
    golden = json.loads(given.golden.read_text()) if given.golden else {}
    made = {}
    for task in given.tasks:
        profile = cProfile.Profile(time.thread_time) if given.profile else None
        made[task], predicting, reviewing = measure(task, given.limit, None if given.whole else CARDS, profile)
        digest = hashlib.sha256("\n".join(made[task]).encode()).hexdigest()[:12]
        print(
            f"{task}: prediction {predicting:.1f} ms a row, review {reviewing:.1f} ms; documents {digest}", flush=True
        )
        if task in golden:
            pairs = list(zip(made[task], golden[task], strict=False))
            differ = [row for row, (ours, theirs) in enumerate(pairs) if ours != theirs]
            print(f"  {len(pairs) - len(differ)} of {len(pairs)} documents equal; others: {differ}")
        if profile:
            pstats.Stats(profile).sort_stats("tottime").print_stats(given.profile)
    if given.out:
        given.out.write_text(json.dumps(made))


if __name__ == "__main__":
    main()
