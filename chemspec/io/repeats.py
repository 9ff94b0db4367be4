"""Rows of queries that a file repeats: predicted once, and written again from memory."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from sys import getsizeof

MAX_BYTES = 64_000_000  # bytes of rows in memory; the oldest are dropped, and predicted again if they return
SPREAD = 8  # rows of one write for each query that is predicted in it


@dataclass(frozen=True)
class Row:
    """An output row without the other columns of its input."""

    status: str
    parts: tuple[str, ...]  # cells of a `.csv`; what comes before and after the other columns in a `.jsonl`


class RepeatedRows:
    """The last rows by query, limited in memory."""

    def __init__(self, most_bytes: int = MAX_BYTES) -> None:
        self._rows: OrderedDict[str, Row] = OrderedDict()
        self._most, self._bytes = most_bytes, 0

    def __contains__(self, query: str) -> bool:
        return query in self._rows

    def __getitem__(self, query: str) -> Row:
        self._rows.move_to_end(query)
        return self._rows[query]

    def add(self, query: str, row: Row) -> None:
        """Add the row of a query, unless its prediction failed: another time it may not."""
        if row.status == "failed" or query in self._rows:
            return
        self._rows[query] = row
        self._bytes += _size(query, row)
        while self._bytes > self._most:
            self._bytes -= _size(*self._rows.popitem(last=False))

    def add_all(self, rows: Mapping[str, Row]) -> None:
        """Add rows by query."""
        for query, row in rows.items():
            self.add(query, row)

    def next_part(self, queries: Sequence[str], first: int, size: int) -> Sequence[str]:
        """Return the queries from the first one on that are written together, at most `size` of them unknown."""
        if size == 1:
            return queries[first : first + 1]
        unknown: set[str] = set()
        last = first
        for query in queries[first : first + SPREAD * size]:
            if query not in self._rows and query not in unknown:
                if len(unknown) == size:
                    break
                unknown.add(query)
            last += 1
        return queries[first:last]


def _size(query: str, row: Row) -> int:
    return getsizeof(query) + sum(map(getsizeof, row.parts)) + 200
