"""The most frequent reagents of a reaction's change as a baseline: `python tests/programs/reagent_baseline.py`."""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from helpers.scripts import option, script

from chemspec.cli import options as opt
from chemspec.data.holdout import product_keys
from chemspec.data.reactions import canonical_pair, product_key
from chemspec.data.settings import DataSettings, require_data_folder
from chemspec.data.shards import is_used, read_rows
from chemspec.evaluation.accuracy import RANKS, reagent_recall, wilson_interval
from chemspec.precedents.change import change_of, change_of_mapped
from chemspec.tasks import Row
from chemspec.terminal import console
from chemspec.train.recipe import model_recipe

SECONDS = 2.0  # of processor time to guess the maps of a row
Key = tuple[Any, ...]  # what a reaction does, the closest description first; () is any reaction


class FrequentSets:
    """The baseline: the sets of reagents that were recorded most often with a reaction's change."""

    def __init__(self) -> None:
        self._counts: dict[Key, Counter[str]] = defaultdict(Counter)

    def add(self, descriptions: Sequence[Key], reagents: str) -> None:
        """Count a reaction: descriptions of its change, and its reagents in normal form."""
        for key in (*descriptions, ()):
            self._counts[key][reagents] += 1

    def propose(self, descriptions: Sequence[Key], n: int = 10) -> list[str]:
        """Return `n` different sets: the most frequent ones of the closest description, then those of wider ones."""
        found: dict[str, None] = {}
        for key in (*descriptions, ()):
            # Equally frequent ones in alphabetical order, not in that of the file.
            counted = sorted(self._counts.get(key, {}).items(), key=lambda item: (-item[1], item[0]))
            found.update(dict.fromkeys(reagents for reagents, _ in counted[: n + len(found)]))
        return list(found)[:n]


def baseline(
    training: Path,
    heldout: Path,
    settings: DataSettings,
    *,
    every: int = 10,
    limit: int = 0,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> dict[str, Any]:
    """Return top-k and recall of the most frequent sets of reagents, for held-out reactions.

    Args:
        training: the file from which sets are counted.
        heldout: reactions to propose them for; none that makes one of their products is counted.
        settings: which rows of the training file are used.
        every: count every so many-th of them; to find what a reaction does takes milliseconds.
        limit: propose for so many reactions; 0 means all.
        progress: is told how many rows of how many are done.

    Returns:
        How many reactions were counted and asked, and `top` and `recall` by k, as for a model.
    """
    asked = list(islice(read_rows(heldout), limit or None))
    apart = product_keys(asked, settings.task)
    rows = [row for row in islice(read_rows(training), 0, None, every) if is_used(row, settings)]
    frequent, counted = FrequentSets(), 0
    for number, row in enumerate(rows, 1):
        query, reagents = canonical_pair(row, settings.task)
        if reagents and product_key(settings.task, query, reagents) not in apart:
            frequent.add(_descriptions(row), reagents)
            counted += 1
        progress(number, len(rows) + len(asked))
    lists, truths = [], []
    for number, row in enumerate(asked, 1):
        lists.append(frequent.propose(_descriptions(row)))
        truths.append(canonical_pair(row, settings.task)[1])
        progress(len(rows) + number, len(rows) + len(asked))
    right = {k: sum(truth in found[:k] for truth, found in zip(truths, lists, strict=True)) for k in RANKS}
    top = {str(k): wilson_interval(count, len(truths)) for k, count in right.items()}
    return {"counted": counted, "reactions": len(asked), "top": top, "recall": reagent_recall(truths, lists)}


def _descriptions(row: Row) -> list[Key]:
    """Return what a row's reaction does, closest first; nothing where that cannot be told."""
    mapped = row.get("mapped_core_rxn")
    change = change_of_mapped(mapped) if mapped else None
    change = change or change_of(row["core_reactants"], row["main_product"], seconds=SECONDS)
    return [("close", change.close), ("wide", change.wide)] if change else []


def main(
    heldout: Annotated[Path, typer.Argument(help="Held-out reactions: what `chemspec data --recipe reagents` wrote.")],
    source: opt.Source = None,
    recipe: Annotated[str, option("Recipe whose training rows are counted.")] = "reagents",
    every: Annotated[int, option("Count every so many-th row.")] = 10,
    limit: Annotated[int, option("Ask about so many reactions; 0: all.")] = 0,
    as_json: bool = False,
) -> None:
    """Score the most frequent reagents of a reaction's change, which a model has to be better than."""
    chosen = model_recipe(recipe)
    training = require_data_folder(source) / chosen.train_files[0]
    with console.progress_bar("counting") as report:
        told = baseline(training, heldout, chosen.data, every=every, limit=limit, progress=report)
    named = {f"the exact set, first {k}": value for k, value in told["top"].items()}
    console.print_proportions({**named, **{f"each reagent, first {k}": value for k, value in told["recall"].items()}})
    if as_json:
        console.print_json(told)


app = script(main)
if __name__ == "__main__":
    app()
