"""Print for people: results and reports as lines and tables."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import msgspec
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from chemspec.cli import saved
from chemspec.io import tables
from chemspec.types import DecodeResult


class _Console(Console):
    def on_broken_pipe(self) -> None:
        raise BrokenPipeError  # and no exit code of Rich's own: see `base.GuardedGroup`


notes = Console(stderr=True)
answers = _Console()
wide = _Console(width=10_000)  # for files and pipes, where nobody wants a row folded


class ProgressReport(Protocol):
    """Tells how many of how many are done; None: nobody knows yet of how many."""

    def __call__(self, done: int, total: int | None) -> None:
        """Show the progress."""


@contextmanager
def progress(what: str, *, quiet: bool = False) -> Iterator[ProgressReport]:
    """A progress bar on standard error, if that is a terminal."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    hidden = quiet or not notes.is_terminal
    with Progress(*columns, TimeRemainingColumn(), console=notes, disable=hidden) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def document(content: Any) -> None:
    """A JSON document for scripts, on one line; numbers that are none become null, as JSON knows no others."""
    print(json.dumps(json.loads(msgspec.json.encode(content, enc_hook=str))))


def note(text: str) -> None:
    """A line on standard error, whole and as it is."""
    notes.print(text, markup=False, highlight=False, soft_wrap=True)


def line(text: str, style: str = "") -> None:
    """A line on standard output, whole and as it is."""
    answers.print(text, markup=False, highlight=False, soft_wrap=True, style=style)


def sentence(text: str, style: str = "bold") -> None:
    """A line on standard output that a terminal folds between words."""
    (answers if answers.is_terminal else wide).print(text, markup=False, highlight=False, style=style)


def table(content: Table) -> None:
    """On a terminal cells are folded; in a file or pipe every row stays one line."""
    (answers if answers.is_terminal else wide).print(content)


def results(items: Sequence[DecodeResult]) -> None:
    """Queries with their answers, and what drafts saved all of them."""
    for item in items:
        result(item)
    answered = [item for item in items if item.status == "ok"]
    if len(answered) > 1:
        line(f"{len(answered)} queries: {saved.counts(saved.total(answered), queries='them')}", "dim")


def name_of(text: str) -> str:
    """A query as a heading: of a structure file its kind and its first words, not hundreds of lines."""
    lines = text.strip().splitlines()
    if len(lines) < 2 and len(text) <= MOST_NAMED:
        return text
    first = next((row.strip() for row in lines if row.strip()), "")[:MOST_NAMED].rstrip()
    return f"{first} ... ({len(lines):,} lines)" if len(lines) > 1 else f"{first} ... ({len(text):,} characters)"


MOST_NAMED = 400  # characters; the longest query that the models take is about as long


def result(item: DecodeResult) -> None:
    """One query and its answers."""
    line(name_of(item.query), "bold")
    for text in item.notes:
        line(f"  note: {text}", "yellow")
    if item.status != "ok":
        line(f"  {item.status}: {item.message}", "red")
        return
    answers_table = Table(box=None, pad_edge=True, header_style="dim")
    answers_table.add_column("#", justify="right")
    answers_table.add_column("answer", overflow="fold")
    answers_table.add_column("prob.", justify="right")
    answers_table.add_column("log-prob", justify="right")
    sure = any(answer.confidence is not None for answer in item.hypotheses)
    if sure:
        answers_table.add_column("confid.", justify="right")
    if item.merged:
        answers_table.add_column("votes", justify="right")
    first: dict[str, int] = {}
    for rank, answer in enumerate(item.hypotheses, 1):
        why = "cut at the length limit" if answer.ended == "length" else "not valid"
        text = escape(answer.canonical or answer.smiles) + ("" if answer.valid else f" [red]({why})[/]")
        # Two ways to write one molecule are two answers of the model, but one to a chemist.
        if answer.valid and first.setdefault(answer.canonical, rank) != rank:
            text += f" [dim](as {first[answer.canonical]}, written differently)[/]"
        cells = [str(rank), text, f"{answer.probability:.3f}", f"{answer.log_prob:.3f}"]
        if sure:
            cells.append("" if answer.confidence is None else f"{answer.confidence:.3f}")
        if item.merged:
            cells.append(f"{answer.vote.spellings}/{item.merged.spellings}" if answer.vote else "")
        answers_table.add_row(*cells)
    table(answers_table)
    line(f"  {saved.line(item)}", "dim")


def models(rows: Sequence[Mapping[str, Any]]) -> None:
    """The installed models."""
    table(
        tables.terminal(
            {"name": "{name}", "task": "{task}", "MB": "{mb}", "edits": "{edits}", "folder": "{folder}"}, rows
        )
    )


def accuracy(report: Mapping[str, Any]) -> None:
    """What `evaluate` found."""
    title = f"{report['model']} on {report['reactions']} reactions of {report['file']}"
    named = {f"top-{k}": value for k, value in report["top"].items()}
    named |= {"invalid": report["invalid"], "invalid first": report["invalid_first"]}
    named |= {"repeated": report["repeated"]}
    shares({**named, **{f"each reagent, first {k}": value for k, value in report.get("recall", {}).items()}}, title)
    if slow := report.get("standard"):
        named = {f"top-{k}": value for k, value in slow["top"].items()}
        shares(named, f"standard decoding: {slow['differing']} of {slow['answers']} answers differ")


def shares(named: Mapping[str, Mapping[str, float]], title: str = "") -> None:
    """Proportions with their intervals."""
    columns = {"": "{name}", "share": "{value:.1%}", "95 % interval": "{low:.1%} to {high:.1%}"}
    table(tables.terminal(columns, [{"name": name, **share} for name, share in named.items()], title=title))


def reliability(rows: Sequence[Sequence[str]], names: Sequence[str]) -> None:
    """What `reliability` found: held-out losses (nats) and expected calibration errors."""
    content = Table("probability", "used", *names, box=None)
    for row in rows:
        content.add_row(*row)
    table(content)
