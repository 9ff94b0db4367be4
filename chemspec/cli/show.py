"""Print results and reports as lines, tables and JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec
from rich.console import Console, ConsoleDimensions
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from chemspec.io import tables
from chemspec.replay.savings import describe_savings, sum_savings, summary_line
from chemspec.types import DecodeResult, Hypothesis, Within

if TYPE_CHECKING:  # slow imports
    from chemspec.review import Review


class _Console(Console):
    @property  # type: ignore[misc]  # never set
    def size(self) -> ConsoleDimensions:
        """Width and height; in files and pipes rows are not folded."""
        return super().size if self.is_terminal else ConsoleDimensions(10_000, 25)

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError  # instead of Rich's exit code, see `base.GuardedGroup`


notes = Console(stderr=True)
answers = _Console()


@contextmanager
def progress_bar(what: str, *, quiet: bool = False) -> Iterator[Callable[..., None]]:
    """Show a progress bar on standard error, if that is a terminal.

    Yields a function of the number of items `done` and in `total`, which is None while it is unknown.
    """
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=notes, disable=quiet or not notes.is_terminal) as bar:
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


def print_results(items: Sequence[DecodeResult]) -> None:
    """Print queries with their predictions, and a summary of all."""
    for item in items:
        print_result(item)
    answered = [item for item in items if item.status == "ok"]
    if len(answered) > 1:
        print_line(f"{len(answered)} queries: {describe_savings(sum_savings(answered), queries='them')}", "dim")


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
    first: dict[str, int] = {}
    rows = [_answer_row(rank, answer, item, first) for rank, answer in enumerate(item.hypotheses, 1)]
    print_rows(rows, right=("#", "prob.", "log-prob", "confid.", "votes"))
    print_line(f"  {summary_line(item)}", "dim")


def _answer_row(rank: int, answer: Hypothesis, item: DecodeResult, first: dict[str, int]) -> dict[str, str | Text]:
    """Return a row of the table of predictions; `first` has the rank at which each molecule was first listed."""
    text = Text(answer.canonical or answer.smiles)
    if not answer.valid:
        text.append(f" ({'cut at the length limit' if answer.ended == 'length' else 'not valid'})", "red")
    # Two SMILES of one molecule are two outputs of the model, but one answer to a chemist.
    elif first.setdefault(answer.canonical, rank) != rank:
        text.append(f" (as {first[answer.canonical]}, written differently)", "dim")
    return {
        "#": str(rank),
        "answer": text,
        "prob.": f"{answer.probability:.3f}",
        "log-prob": f"{answer.log_prob:.3f}",
        "confid.": "" if answer.confidence is None else f"{answer.confidence:.3f}",
        "votes": f"{answer.vote.spellings}/{item.merged.spellings}" if answer.vote and item.merged else "",
    }


def print_review(review: Review) -> None:
    """Print the suggestions of a review."""
    from chemspec.chem.flask_check import hazards
    from chemspec.precedents import in_words
    from chemspec.review.suggestions import describe_check, format_percent

    if review.result.status != "ok":
        return
    print_line(f"{query_heading(review.result.query)}: {review.warning or 'review'}", "bold")
    print_rows(
        [
            {
                "#": suggestion.rank,
                "answer": suggestion.best.canonical or suggestion.best.smiles,
                "class": suggestion.name if suggestion.step else "",
                "prob.": format_percent(suggestion.probability),
                "forward model": describe_check(suggestion.check),
                "reagents": in_words(suggestion.reagents[0]),
                "patents": "" if suggestion.precedents is None else f"{suggestion.precedents.close:,}",
                "stock": "; ".join(filter(None, suggestion.stock)),
                "E/Z": suggestion.geometry,
                "problems": "; ".join(suggestion.problems),
                "notes": "; ".join(suggestion.notes),
                "hazards": "; ".join(hazards(*suggestion.sides)) if suggestion.best.valid else "",
            }
            for suggestion in review.suggestions
        ]
    )
    for choice in review.selectivity:
        print_line(f"  {choice.text}; {choice.meaning}", "dim")


def print_proportions(named: Mapping[str, Mapping[str, float]], title: str = "") -> None:
    """Print proportions with their 95 % intervals."""
    columns = {"": "{name}", "share": "{value:.1%}", "95 % interval": "{low:.1%} to {high:.1%}"}
    print_table(tables.terminal(columns, [{"name": name, **share} for name, share in named.items()], title=title))
