"""Read a table of own reactions for the commands that take one."""

from pathlib import Path
from typing import Any

from chemspec.terminal import console


def read_table(table: Path, column: str = "") -> Any:
    """Read a table of own reactions, and print each fault with its row."""
    from chemspec.io.readers import read_queries
    from chemspec.precedents.own import find_labels, read_reactions
    from chemspec.tasks import about_reactions

    queries = read_queries(table, column, about_reactions(), console.print_note)
    with console.progress_bar("reactions") as report:
        read = read_reactions(queries, find_labels(queries.columns, queries.cells), progress=report)
    for row, fault in read.faults:
        console.print_note(f"{table.name}, row {row}: {fault}")
    console.print_note(f"{len(read.reactions):,} of {len(queries):,} reactions can be used")
    return read
