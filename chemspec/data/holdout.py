"""Hold out products from training: those of other files, and random ones.

Products are compared by their keys (`reactions.product_key`), so that other reactions that form a held-out product are
excluded too, in any SMILES variant.
"""

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np

from chemspec.data.reactions import canonical_pair, product_key, product_of
from chemspec.data.settings import DataSettings
from chemspec.data.shards import is_used, read_rows
from chemspec.settings import Task
from chemspec.system.files import write_text_atomic
from chemspec.tasks import TASKS, Row

FILE = "heldout.csv"
SEED = 21  # seed of the random choice; not the recipe's, so that all stages of training hold out the same products
MIN_PRODUCTS_PER_HELD_OUT = 10  # one product in ten is held out at most, for trials with few rows


def draw_held_out(files: Sequence[Path], settings: DataSettings) -> list[Row]:
    """Return one reaction for each product to hold out, in random order."""
    rows = []
    for file in files:
        if file.name not in settings.hold_out:
            continue
        products = sorted({product_of(row, settings.task) for row in _candidates(file, settings)})
        count = min(settings.hold_out[file.name], len(products) // MIN_PRODUCTS_PER_HELD_OUT)
        chosen = np.random.default_rng(SEED).choice(len(products), count, replace=False)
        first: dict[str, Row | None] = dict.fromkeys(products[index] for index in chosen)
        for row in _candidates(file, settings):
            product = product_of(row, settings.task)
            if product in first and first[product] is None and canonical_pair(row, settings.task)[1]:
                first[product] = row
        rows += [row for row in first.values() if row is not None]
    return rows


def _candidates(file: Path, settings: DataSettings) -> Iterator[Row]:
    # Only rows with atom maps, even if others get guessed ones, so that all stages hold out the same products.
    columns = TASKS.lookup(settings.task).mapped
    for row in islice(read_rows(file), settings.limit or None):
        if is_used(row, settings) and all(row.get(column) for column in columns):
            yield row


def write_held_out(rows: Sequence[Row], path: Path) -> None:
    """Write held-out reactions as a CSV with the columns of their files, for validation and for `evaluate --file`."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_text_atomic(path, text.getvalue())


def product_keys(rows: Iterable[Row], task: Task) -> frozenset[str]:
    """Return the product keys of these reactions."""
    return frozenset(product_key(task, *canonical_pair(row, task)) for row in rows) - {""}
