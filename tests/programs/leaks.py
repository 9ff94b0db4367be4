"""Find test reactions and test products in training data, by canonical keys: `python tests/programs/leaks.py --help`.

Both `chemspec data` and the flags of the CSVs leave them out; this compares them independently of either.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from helpers.scripts import option, script

from chemspec.cli import options as opt
from chemspec.data.arrays import Pairs
from chemspec.data.reactions import canonical_for_task, canonical_pair, product_key
from chemspec.data.settings import DataSettings, find_test_file, require_data_folder
from chemspec.data.shards import is_used, read_rows
from chemspec.settings import Task
from chemspec.tasks import TASKS, Pair
from chemspec.terminal import console
from chemspec.tokenizer import Tokenizer
from chemspec.train.recipe import model_recipe

SHOWN = 5  # number of leaks listed
Progress = Callable[[int], None]  # called with the number of reactions compared


@dataclass(frozen=True)
class LeakReport:
    """Result of a comparison."""

    tests: int  # test reactions with a valid product
    checked: int  # training reactions compared
    reactions: int  # training reactions that are in the test set
    products: int  # training reactions whose product is in the test set
    examples: tuple[str, ...] = ()  # a few of these, as text


def check_rows(
    files: Sequence[Path], tests: Path, settings: DataSettings, *, every: int = 1, progress: Progress = lambda _: None
) -> LeakReport:
    """Compare the rows of training files that a recipe uses, or every n-th of them, with the rows of a test file.

    Held-out products are not excluded here; `check_arrays` checks the resulting arrays. `progress` is called with the
    number of rows compared.
    """
    task = settings.task
    read = (islice(read_rows(file), settings.limit or None) for file in files)
    used = ((row for row in rows if is_used(row, settings)) for rows in read)
    rows = (canonical_pair(row, task) for file in used for row in islice(file, 0, None, every))
    return compare_reactions(rows, (canonical_pair(row, task) for row in read_rows(tests)), task, progress)


def check_arrays(
    data: Path, tests: Path, task: Task, *, name: str = "train", progress: Progress = lambda _: None
) -> LeakReport:
    """Compare the arrays used in training, `<name>.npz` in a data folder, with the rows of a test file."""
    pairs, tokenizer = Pairs.load(data / f"{name}.npz"), Tokenizer.load(data / "vocab.json")
    texts = (
        (tokenizer.decode(pairs.sources[i].tolist()), tokenizer.decode(pairs.targets[i].tolist()))
        for i in range(len(pairs))
    )
    return compare_reactions(texts, (canonical_pair(row, task) for row in read_rows(tests)), task, progress)


def others_key(task: Task, source: str, target: str) -> str:
    """Return the key of the other molecules: canonical and sorted; empty if they are invalid."""
    plain = canonical_for_task(task, TASKS.lookup(task).sides(source, target)[0])
    return ".".join(sorted(plain.split("."))) if plain else ""


def compare_reactions(
    training: Iterator[Pair], tests: Iterator[Pair], task: Task, progress: Progress = lambda _: None
) -> LeakReport:
    """Compare two streams of (source, target)."""
    tests_by_product: dict[str, list[Pair]] = {}  # test reactions by product
    for pair in tests:
        if product := product_key(task, *pair):
            tests_by_product.setdefault(product, []).append(pair)
    if not tests_by_product:
        raise ValueError("no test reaction is valid, so there is nothing to compare with")
    checked = same = shared = 0
    examples: list[str] = []
    for number, (source, target) in enumerate(training, 1):
        progress(number)
        product = product_key(task, source or "", target or "")
        checked += bool(product)
        if product not in tests_by_product:
            continue
        shared += 1
        # The reactants are compared last, because their key is slower to compute.
        others = others_key(task, source, target)
        same += any(others and others == others_key(task, *pair) for pair in tests_by_product[product])
        if len(examples) < SHOWN:
            examples.append(f"{source} -> {target}")
    return LeakReport(sum(map(len, tests_by_product.values())), checked, same, shared, tuple(examples))


def main(
    recipe: str,
    source: opt.Source = None,
    data_dir: Annotated[Path | None, option("Check arrays that `chemspec data` wrote, not the CSVs.", "--data")] = None,
    every: Annotated[int, option("Check only every n-th training row.")] = 1,
) -> None:
    """Compare a recipe's training data with the task's test set; exit code 1 if they have a product in common."""
    chosen = model_recipe(recipe)
    folder = require_data_folder(source)
    tests = find_test_file(source, chosen.task)
    with console.progress_bar("training reactions") as report:
        count_rows = partial(report, total=0)
        if data_dir is not None:
            compared = check_arrays(data_dir, tests, chosen.task, progress=count_rows)
        else:
            files = [folder / file for file in chosen.train_files]
            compared = check_rows(files, tests, chosen.data, every=every, progress=count_rows)
    console.print_json(asdict(compared))
    raise typer.Exit(1 if compared.reactions or compared.products else 0)


app = script(main)
if __name__ == "__main__":
    app()
