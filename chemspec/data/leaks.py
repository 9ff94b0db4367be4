"""Find test reactions and test products among what a model is trained on, by canonical keys and not as texts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from chemspec.data.arrays import Pairs
from chemspec.data.reactions import canonical_pair, others_key, product_key
from chemspec.data.settings import DataSettings
from chemspec.data.shards import is_used, read_rows
from chemspec.settings import Task
from chemspec.tokenizer import Tokenizer

SHOWN = 5  # leaks told in full


@dataclass(frozen=True)
class LeakReport:
    """What was compared and found.

    Attributes:
        tests: test reactions whose product could be read.
        checked: training reactions compared.
        reactions, products: those among them whose reaction, whose product, is in the test set.
        examples: a few of them, as texts.
    """

    tests: int
    checked: int
    reactions: int
    products: int
    examples: tuple[str, ...] = ()


def check_rows(
    files: Sequence[Path],
    tests: Path,
    settings: DataSettings,
    *,
    every: int = 1,
    progress: Callable[[int], None] = lambda _: None,
) -> LeakReport:
    """Compare the rows of training files that a recipe uses with the rows of a test file.

    Args:
        files: training files.
        tests: the test file.
        settings: which rows are used, by their columns, and for which task. Products held out, or to be kept apart, are
            not known here; `check_arrays` looks at what is left after them.
        every: look at every so many-th of those rows only.
        progress: called with the number of rows compared.
    """
    task = settings.task
    read = (islice(read_rows(file), settings.limit or None) for file in files)
    used = ((row for row in rows if is_used(row, settings)) for rows in read)
    rows = (canonical_pair(row, task) for file in used for row in islice(file, 0, None, every))
    return compare(rows, (canonical_pair(row, task) for row in read_rows(tests)), task, progress)


def check_arrays(
    data: Path, tests: Path, task: Task, *, name: str = "train", progress: Callable[[int], None] = lambda _: None
) -> LeakReport:
    """Compare what a training really reads, `<name>.npz` in its data folder, with the rows of a test file."""
    pairs, tokenizer = Pairs.load(data / f"{name}.npz"), Tokenizer.load(data / "vocab.json")
    texts = (
        (tokenizer.decode(pairs.sources[i].tolist()), tokenizer.decode(pairs.targets[i].tolist()))
        for i in range(len(pairs))
    )
    return compare(texts, (canonical_pair(row, task) for row in read_rows(tests)), task, progress)


def compare(
    training: Iterator[tuple[str, str]],
    tests: Iterator[tuple[str, str]],
    task: Task,
    progress: Callable[[int], None] = lambda _: None,
) -> LeakReport:
    """Compare two streams of (source, target)."""
    known: dict[str, list[tuple[str, str]]] = {}  # product -> test reactions that make it
    for pair in tests:
        if product := product_key(task, *pair):
            known.setdefault(product, []).append(pair)
    if not known:
        raise ValueError("no test reaction can be read; there is nothing to compare with")
    checked = same = shared = 0
    examples: list[str] = []
    for number, (source, target) in enumerate(training, 1):
        progress(number)
        product = product_key(task, source or "", target or "")
        checked += bool(product)
        if product not in known:
            continue
        shared += 1
        # The rest of a reaction matters only now, and costs more than the product.
        others = others_key(task, source, target)
        same += any(others and others == others_key(task, *pair) for pair in known[product])
        if len(examples) < SHOWN:
            examples.append(f"{source} -> {target}")
    return LeakReport(sum(map(len, known.values())), checked, same, shared, tuple(examples))
