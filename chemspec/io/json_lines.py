"""Lines of JSON objects as rows of a table: our own output, and those of other programs."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from chemspec.io import FileError


def read_json_lines(lines: Iterable[str], where: object) -> Iterator[list[str]]:
    """Yield the names of the columns, then the cells of each line: texts, numbers and truth values of an object.

    Of our own output these are `query` and the columns of its input. The first line says which columns there are;
    FileError for a line that is no object.
    """
    header: list[str] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = _cells(json.loads(line))
        except (ValueError, RecursionError, AttributeError) as error:
            raise FileError(f"{where}, line {number} is no JSON object: {str(error)[:100]}") from None
        if not header:
            header = [*row]
            yield header
        yield [row.get(name, "") for name in header]
    if not header:
        raise FileError(f"{where} has no lines of JSON objects")


def _cells(row: Mapping[str, Any]) -> dict[str, str]:
    if isinstance(row.get("hypotheses"), list) and isinstance(row.get("query"), str):
        given = row.get("columns")
        row = {"query": row["query"], **(given if isinstance(given, dict) else {})}
    plain = ((name, value) for name, value in row.items() if not isinstance(value, dict | list))
    texts = ((name, "" if value is None else value) for name, value in plain)
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in texts}
