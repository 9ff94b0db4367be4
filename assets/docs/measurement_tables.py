"""Write the tables of measurements.md from raw/tables/NAME.csv: `python assets/docs/measurement_tables.py`.

A table stands behind a line `<!-- table NAME -->`. The last four columns of its CSV are the weights, the machine, the
date and the command of each row; on the page such a cell is empty where it is that of the row above.
"""

from __future__ import annotations

import csv
import re
from pathlib import Path

DOCS = Path(__file__).resolve().parent
PAGE, TABLES = DOCS / "measurements.md", DOCS / "raw" / "tables"
FACTS = ["weights", "machine", "date", "command"]
SLOT = re.compile(r"^(<!-- table ([\w-]+) -->\n)(?:\n(?:\|.*\n)+)?", re.MULTILINE)


def read_table(name: str) -> list[list[str]]:
    """Return the header and the rows of a table; raises ValueError where a row lacks a fact."""
    with (TABLES / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    if header[-len(FACTS) :] != FACTS:
        raise ValueError(f"{name}.csv: the last columns are {', '.join(header[-4:])}, not {', '.join(FACTS)}")
    for number, row in enumerate(rows, 2):
        if len(row) != len(header) or not all(row[-len(FACTS) :]):
            raise ValueError(f"{name}.csv, line {number}: a cell is missing, or a fact is empty")
    return [header, *rows]


def write_table(name: str) -> str:
    """Return a table as Markdown."""
    header, *rows = read_table(name)
    first = len(header) - len(FACTS)
    lines, above = [header, ["---"] * len(header)], [""] * len(header)
    for row in rows:
        facts = ["" if cell == last else cell for cell, last in zip(row[first:], above[first:], strict=True)]
        lines.append([*row[:first], *facts])
        above = row
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def write_page(text: str) -> str:
    """Return the page with the tables of today's CSV files."""
    return SLOT.sub(lambda slot: f"{slot[1]}\n{write_table(slot[2])}", text)


if __name__ == "__main__":
    PAGE.write_text(write_page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
