"""Find test reactions and test products among what a model is trained on, by canonical keys and not as texts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from chemspec.data.arrays import Pairs
from chemspec.data.reactions import canonical_pair, others_key, product_key
from chemspec.data.shards import read_rows
from chemspec.settings import Task
from chemspec.tasks import Row
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
    task: Task,
    *,
    leave_out: Sequence[str] = (),
    every: int = 1,
    limit: int = 0,
    progress: Callable[[int], None] = lambda _: None,
) -> LeakReport:
    """Compare the rows of training files that a recipe uses with the rows of a test file.

    Args:
        files: training files.
        tests: the test file.
        task: which columns to read, and which side is the product.
        leave_out: rows with "1" in one of these columns are not trained on.
        every: look at every so many-th of those rows only.
        limit: read only so many rows of each file; 0 means all.
        progress: called with the number of rows compared.
    """
    rows = (
        canonical_pair(row, task) for file in files for row in islice(_used(file, leave_out, limit), 0, None, every)
    )
    return compare(rows, (canonical_pair(row, task) for row in read_rows(tests)), task, progress)


def _used(file: Path, leave_out: Sequence[str], limit: int) -> Iterator[Row]:
    for row in islice(read_rows(file), limit or None):
        if not any(row.get(column) == "1" for column in leave_out):
            yield row


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
