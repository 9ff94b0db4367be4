"""Print lines, tables, progress and JSON on a terminal, or into a file or pipe."""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
from rich.console import Console, ConsoleDimensions
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from chemspec.io import tables


class _Console(Console):
    @property  # type: ignore[misc]  # never set
    def size(self) -> ConsoleDimensions:
        """Width and height; in files and pipes rows are not folded."""
        return super().size if self.is_terminal else ConsoleDimensions(10_000, 25)

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError  # instead of Rich's exit code, see `base.GuardedGroup`


notes = Console(stderr=True)
answers = _Console()
LOG_SECONDS = 60.0  # between two lines of progress in a log


@contextmanager
def progress_bar(what: str, *, quiet: bool = False) -> Iterator[Callable[..., None]]:
    """Show a progress bar on standard error, or a line each minute if that is no terminal.

    Yields a function of the number of items `done` and in `total`, which is None while it is unknown.
    """
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    if not quiet and not notes.is_terminal:
        yield _print_each_minute(what)
        return
    with Progress(*columns, console=notes, disable=quiet) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _print_each_minute(what: str) -> Callable[..., None]:
    last = time.monotonic()

    def report(done: int, total: int | None) -> None:
        nonlocal last
        if time.monotonic() - last >= LOG_SECONDS:
            last = time.monotonic()
            print_note(f"{what}: {done:,} of {total:,}" if total else f"{what}: {done:,}")

    return report


def print_json(content: Any) -> None:
    """Print a JSON document on one line; NaN and infinities become null."""
    print(json.dumps(json.loads(msgspec.json.encode(content, enc_hook=str))), flush=True)


def print_note(text: str) -> None:
    """Print a line on standard error, unfolded and without markup."""
    notes.print(text, markup=False, highlight=False, soft_wrap=True)


def print_line(text: str, style: str = "") -> None:
    """Print a line on standard output, unfolded and without markup."""
    answers.print(text, markup=False, highlight=False, soft_wrap=True, style=style)


def print_sentence(text: str, style: str = "bold") -> None:
    """Print a line on standard output, folded between words on a terminal."""
    answers.print(text, markup=False, highlight=False, style=style)


def print_table(content: Table) -> None:
    """Print a table: cells are folded on a terminal, while each row stays one line in a file or pipe."""
    answers.print(content)


def print_rows(rows: Sequence[Mapping[str, Any]], title: str = "", right: Sequence[str] = ()) -> None:
    """Print rows as a table with folded cells, without the columns that are empty in every row.

    Columns named in `right` are aligned to the right.
    """
    names = [name for name in (rows[0] if rows else ()) if any(row[name] != "" for row in rows)]
    table = Table(box=None, header_style="dim", title=escape(title) or None, title_justify="left", title_style="")
    for name in names:
        table.add_column(name, overflow="fold", justify="right" if name in right else "left")
    for row in rows:
        table.add_row(*(row[name] if isinstance(row[name], Text) else escape(str(row[name])) for name in names))
    if rows:
        print_table(table)


def print_proportions(named: Mapping[str, Mapping[str, float]], title: str = "") -> None:
    """Print proportions with their 95 % intervals."""
    columns = {"": "{name}", "share": "{value:.1%}", "95 % interval": "{low:.1%} to {high:.1%}"}
    if title:  # as a line, because a table folds its title to its width
        print_line(title)
    print_table(tables.terminal(columns, [{"name": name, **share} for name, share in named.items()]))
