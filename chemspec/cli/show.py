"""Print results and reports as lines, tables and JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from chemspec.cli import saved
from chemspec.io import tables
from chemspec.types import DecodeResult, Within

if TYPE_CHECKING:  # slow imports
    from chemspec.review import Review


class _Console(Console):
    def on_broken_pipe(self) -> None:
        raise BrokenPipeError  # instead of Rich's exit code, see `base.GuardedGroup`


notes = Console(stderr=True)
answers = _Console()
wide = _Console(width=10_000)  # for files and pipes, where rows are not folded


class ProgressReport(Protocol):
    """Reports how many items of a total are done; the total is None while it is unknown."""

    def __call__(self, done: int, total: int | None) -> None:
        """Show the progress."""


@contextmanager
def progress_bar(what: str, *, quiet: bool = False) -> Iterator[ProgressReport]:
    """Show a progress bar on standard error, if that is a terminal."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    hidden = quiet or not notes.is_terminal
    with Progress(*columns, TimeRemainingColumn(), console=notes, disable=hidden) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def print_json(content: Any) -> None:
    """Print a JSON document on one line; NaN and infinities become null."""
    print(json.dumps(json.loads(msgspec.json.encode(content, enc_hook=str))))


def print_note(text: str) -> None:
    """Print a line on standard error, unfolded and without markup."""
    notes.print(text, markup=False, highlight=False, soft_wrap=True)


def print_line(text: str, style: str = "") -> None:
    """Print a line on standard output, unfolded and without markup."""
    answers.print(text, markup=False, highlight=False, soft_wrap=True, style=style)


def print_sentence(text: str, style: str = "bold") -> None:
    """Print a line on standard output, folded between words on a terminal."""
    (answers if answers.is_terminal else wide).print(text, markup=False, highlight=False, style=style)


def print_table(content: Table) -> None:
    """Print a table: cells are folded on a terminal, while each row stays one line in a file or pipe."""
    (answers if answers.is_terminal else wide).print(content)


def print_rows(rows: Sequence[Mapping[str, Any]], title: str = "") -> None:
    """Print rows as a table with folded cells, without the columns that are empty in every row."""
    names = [name for name in (rows[0] if rows else ()) if any(row[name] != "" for row in rows)]
    table = Table(box=None, header_style="dim", title=escape(title) or None, title_justify="left", title_style="")
    for name in names:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(escape(str(row[name])) for name in names))
    if rows:
        print_table(table)


def print_results(items: Sequence[DecodeResult]) -> None:
    """Print queries with their predictions, and a summary of all."""
    for item in items:
        print_result(item)
    answered = [item for item in items if item.status == "ok"]
    if len(answered) > 1:
        print_line(
            f"{len(answered)} queries: {saved.describe_savings(saved.sum_savings(answered), queries='them')}", "dim"
        )


MAX_HEADING = 400  # characters; the longest query that the models take is about as long


def query_heading(text: str) -> str:
    """Return a query as a heading: of a structure file its first line, not hundreds of lines."""
    lines = text.strip().splitlines()
    if len(lines) < 2 and len(text) <= MAX_HEADING:
        return text
    first = next((row.strip() for row in lines if row.strip()), "")[:MAX_HEADING].rstrip()
    return f"{first} ... ({len(lines):,} lines)" if len(lines) > 1 else f"{first} ... ({len(text):,} characters)"


def describe_width(within: Within) -> str:
    """Return the width of a list with a deadline as text."""
    width = "greedy answer" if within.width == 1 else f"beam of width {within.width}"
    abandoned = f"; a beam of width {within.abandoned} was abandoned" if within.abandoned else ""
    return f"{width} within {1000 * within.seconds:g} ms{abandoned}"


def print_result(item: DecodeResult) -> None:
    """Print a query and its predictions."""
    print_line(query_heading(item.query), "bold")
    for text in item.notes:
        print_line(f"  note: {text}", "yellow")
    if item.status != "ok":
        print_line(f"  {item.status}: {item.message}", "red")
        return
    if item.within:
        print_line(f"  {describe_width(item.within)}")
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
        # Two SMILES of one molecule are two outputs of the model, but one answer to a chemist.
        if answer.valid and first.setdefault(answer.canonical, rank) != rank:
            text += f" [dim](as {first[answer.canonical]}, written differently)[/]"
        cells = [str(rank), text, f"{answer.probability:.3f}", f"{answer.log_prob:.3f}"]
        if sure:
            cells.append("" if answer.confidence is None else f"{answer.confidence:.3f}")
        if item.merged:
            cells.append(f"{answer.vote.spellings}/{item.merged.spellings}" if answer.vote else "")
        answers_table.add_row(*cells)
    print_table(answers_table)
    print_line(f"  {saved.summary_line(item)}", "dim")


def print_review(review: Review) -> None:
    """Print the suggestions of a review."""
    from chemspec.precedents import in_words
    from chemspec.review.suggestions import describe_check, format_percent

    if review.result.status != "ok":
        return
    print_line(f"{query_heading(review.result.query)}: {review.warning or 'review'}", "bold")
    rows = []
    for suggestion in review.suggestions:
        matches = suggestion.precedents
        rows.append(
            {
                "#": suggestion.rank,
                "answer": suggestion.best.canonical or suggestion.best.smiles,
                "class": suggestion.name if suggestion.step else "",
                "prob.": format_percent(suggestion.probability),
                "forward model": describe_check(suggestion.check),
                "reagents": in_words(suggestion.reagents[0]),
                "patents": "" if matches is None else f"{matches.close:,}",
                "stock": "; ".join(filter(None, suggestion.stock)),
                "E/Z": suggestion.geometry,
                "problems": "; ".join(suggestion.problems),
                "notes": "; ".join(suggestion.notes),
            }
        )
    print_rows(rows)
    for choice in review.selectivity:
        print_line(f"  {choice.text}; {choice.meaning}", "dim")


def print_accuracy(report: Mapping[str, Any]) -> None:
    """Print the report of `evaluate`."""
    title = f"{report['model']} on {report['reactions']} reactions of {report['file']}"
    named = {f"top-{k}": value for k, value in report["top"].items()}
    named |= {"invalid": report["invalid"], "invalid first": report["invalid_first"]}
    named |= {"repeated": report["repeated"]}
    print_proportions(
        {**named, **{f"each reagent, first {k}": value for k, value in report.get("recall", {}).items()}}, title
    )
    if slow := report.get("standard"):
        named = {f"top-{k}": value for k, value in slow["top"].items()}
        print_proportions(named, f"standard decoding: {slow['differing']} of {slow['answers']} answers differ")


def print_proportions(named: Mapping[str, Mapping[str, float]], title: str = "") -> None:
    """Print proportions with their 95 % intervals."""
    columns = {"": "{name}", "share": "{value:.1%}", "95 % interval": "{low:.1%} to {high:.1%}"}
    print_table(tables.terminal(columns, [{"name": name, **share} for name, share in named.items()], title=title))
