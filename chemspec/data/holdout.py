"""Keep products apart from training: those of other files, and those drawn at random to be held out.

Products are compared by their keys (`reactions.product_key`), so that another reaction that makes a held-out product,
or another spelling of it, is not trained on either.
"""

from __future__ import annotations

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
from chemspec.system.files import write_whole
from chemspec.tasks import TASKS, Row

FILE = "heldout.csv"
SEED = 21  # of the draw; not the recipe's, so that a stage with other spellings holds out the same products
MOST = 10  # at most one product in so many is held out, however few a trial reads


def draw(files: Sequence[Path], settings: DataSettings) -> list[Row]:
    """Return one reaction of each product to hold out, in the order in which they were drawn."""
    return [row for file in files if file.name in settings.hold_out for row in _draw(file, settings)]


def _draw(file: Path, settings: DataSettings) -> list[Row]:
    products = sorted({product_of(row, settings.task) for row in _candidates(file, settings)})
    count = min(settings.hold_out[file.name], len(products) // MOST)
    drawn = [products[index] for index in np.random.default_rng(SEED).choice(len(products), count, replace=False)]
    wanted, first = set(drawn), dict[str, Row]()
    for row in _candidates(file, settings):
        product = product_of(row, settings.task)
        if product in wanted and product not in first and canonical_pair(row, settings.task)[1]:
            first[product] = row
    return [first[product] for product in drawn if product in first]


def _candidates(file: Path, settings: DataSettings) -> Iterator[Row]:
    # Rows with maps, whether or not others get guessed ones, so that such a stage holds out the same products, too.
    columns = TASKS.lookup(settings.task).mapped
    for row in islice(read_rows(file), settings.limit or None):
        if is_used(row, settings) and all(row.get(column) for column in columns):
            yield row


def write(rows: Sequence[Row], path: Path) -> None:
    """Write held-out reactions as a CSV with the columns of their files, for validation and for `evaluate --file`."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_whole(path, text.getvalue())


def keys(rows: Iterable[Row], task: Task) -> frozenset[str]:
    """Return the keys of the products that these reactions make."""
    return frozenset(product_key(task, *canonical_pair(row, task)) for row in rows) - {""}
