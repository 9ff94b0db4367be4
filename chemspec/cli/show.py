"""Print for people: results and reports as lines and tables."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from chemspec.types import DecodeResult

notes = Console(stderr=True)
answers = Console()
wide = Console(width=10_000)  # for files and pipes, where nobody wants a row folded


class ProgressReport(Protocol):
    """Tells how many of how many are done."""

    def __call__(self, done: int, total: int) -> None:
        """Show the progress."""


@contextmanager
def progress(what: str, *, quiet: bool = False) -> Iterator[ProgressReport]:
    """A progress bar on standard error, if that is a terminal."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    hidden = quiet or not notes.is_terminal
    with Progress(*columns, TimeRemainingColumn(), console=notes, disable=hidden) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def document(found: Any) -> None:
    """A JSON document for scripts, on one line."""
    print(json.dumps(found))


def note(text: str) -> None:
    """A line on standard error, whole and as it is."""
    notes.print(text, markup=False, highlight=False, soft_wrap=True)


def line(text: str, style: str = "") -> None:
    """A line on standard output, whole and as it is."""
    answers.print(text, markup=False, highlight=False, soft_wrap=True, style=style)


def table(content: Table) -> None:
    """On a terminal cells are folded; in a file or pipe every row stays one line."""
    (answers if answers.is_terminal else wide).print(content)


def result(item: DecodeResult) -> None:
    """One query and its answers."""
    line(item.query, "bold")
    for text in item.notes:
        line(f"  note: {text}", "yellow")
    if item.status != "ok":
        line(f"  {item.status}: {item.message}", "red")
        return
    found = Table(box=None, pad_edge=True, header_style="dim")
    found.add_column("#", justify="right")
    found.add_column("answer", overflow="fold")
    found.add_column("prob.", justify="right")
    found.add_column("log-prob", justify="right")
    sure = any(one.confidence is not None for one in item.hypotheses)
    if sure:
        found.add_column("confid.", justify="right")
    if item.merged:
        found.add_column("votes", justify="right")
    first: dict[str, int] = {}
    for rank, one in enumerate(item.hypotheses, 1):
        why = "cut at the length limit" if one.ended == "length" else "not valid"
        text = escape(one.canonical or one.smiles) + ("" if one.valid else f" [red]({why})[/]")
        # Two ways to write one molecule are two answers of the model, but one to a chemist.
        if one.valid and first.setdefault(one.canonical, rank) != rank:
            text += f" [dim](as {first[one.canonical]}, written differently)[/]"
        cells = [str(rank), text, f"{one.probability:.3f}", f"{one.log_prob:.3f}"]
        if sure:
            cells.append("" if one.confidence is None else f"{one.confidence:.3f}")
        if item.merged:
            cells.append(f"{one.vote.spellings}/{item.merged.spellings}" if one.vote else "")
        found.add_row(*cells)
    table(found)
    passes = item.trace.passes
    tokens = sum(one.emitted for one in passes)
    line(f"  {tokens} tokens in {len(passes)} passes, {item.trace.seconds * 1e3:.0f} ms", "dim")


def models(rows: Sequence[Mapping[str, Any]]) -> None:
    """The installed models."""
    content = Table("name", "task", "MB", "folder", box=None)
    for row in rows:
        content.add_row(*(escape(str(row[name])) for name in ("name", "task", "mb", "folder")))
    table(content)


def accuracy(report: Mapping[str, Any]) -> None:
    """What `evaluate` found."""
    title = f"{report['model']} on {report['reactions']} reactions of {report['file']}"
    named = {f"top-{k}": value for k, value in report["top"].items()}
    named |= {"invalid": report["invalid"], "invalid first": report["invalid_first"]}
    shares({**named, "repeated": report["repeated"]}, title)
    if slow := report.get("standard"):
        named = {f"top-{k}": value for k, value in slow["top"].items()}
        shares(named, f"standard decoding: {slow['differing']} of {slow['answers']} answers differ")


def shares(named: Mapping[str, Mapping[str, float]], title: str = "") -> None:
    """Proportions with their intervals."""
    content = Table("", "share", "95 % interval", box=None, title=title or None)
    for name, one in named.items():
        content.add_row(name, f"{one['value']:.1%}", f"{one['low']:.1%} to {one['high']:.1%}")
    table(content)


def reliability(rows: Sequence[Sequence[str]], names: Sequence[str]) -> None:
    """What `reliability` found: held-out losses (nats) and expected calibration errors."""
    content = Table("probability", "used", *names, box=None)
    for row in rows:
        content.add_row(*row)
    table(content)
