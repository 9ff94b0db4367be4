"""Print predictions, reviews and accuracies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from chemspec.replay.savings import describe_savings, sum_savings, summary_line
from chemspec.terminal import console
from chemspec.types import DecodeResult, Hypothesis

if TYPE_CHECKING:  # slow imports
    from chemspec.review import Review


def print_results(items: Sequence[DecodeResult]) -> None:
    """Print queries with their predictions, and a summary of all."""
    for item in items:
        print_result(item)
    answered = [item for item in items if item.status == "ok"]
    if len(answered) > 1:
        console.print_line(f"{len(answered)} queries: {describe_savings(sum_savings(answered), queries='them')}", "dim")


MAX_HEADING = 400  # characters; the longest query that the models take is about as long


def query_heading(text: str) -> str:
    """Return a query as a heading: of a structure file its first line, not hundreds of lines."""
    lines = text.strip().splitlines()
    if len(lines) < 2 and len(text) <= MAX_HEADING:
        return text
    first = next((row.strip() for row in lines if row.strip()), "")[:MAX_HEADING].rstrip()
    return f"{first} ... ({len(lines):,} lines)" if len(lines) > 1 else f"{first} ... ({len(text):,} characters)"


def print_result(item: DecodeResult) -> None:
    """Print a query and its predictions."""
    console.print_line(query_heading(item.query), "bold")
    for text in item.notes:
        console.print_line(f"  note: {text}", "yellow")
    if item.status != "ok":
        console.print_line(f"  {item.status}: {item.message}", "red")
        return
    if item.within:
        console.print_line(f"  {item.within.text}")
    first: dict[str, int] = {}
    rows = [_answer_row(rank, answer, item, first) for rank, answer in enumerate(item.hypotheses, 1)]
    console.print_rows(rows, right=("#", "prob.", "log-prob", "confid.", "votes"))
    console.print_line(f"  {summary_line(item)}", "dim")


def _answer_row(rank: int, answer: Hypothesis, item: DecodeResult, first: dict[str, int]) -> dict[str, str | Text]:
    """Return a row of the table of predictions; `first` has the rank at which each molecule was first listed."""
    text = Text(answer.canonical or answer.smiles)
    if not answer.valid:
        text.append(f" ({'cut at the length limit' if answer.ended == 'length' else 'not valid'})", "red")
    # Two SMILES of one molecule are two outputs of the model, but one answer to a chemist.
    elif (earlier := first.setdefault(answer.canonical, rank)) != rank:
        differs = item.hypotheses[earlier - 1].smiles != answer.smiles
        text.append(f" (as {earlier}, written differently)" if differs else f" (as {earlier})", "dim")
    return {
        "#": str(rank),
        "answer": text,
        "prob.": f"{answer.probability:.3f}" if answer.calibrated else "",
        "model's": f"{answer.model_probability:.3f}",
        "log-prob": f"{answer.log_prob:.3f}",
        "votes": f"{answer.vote.variants}/{item.merged.variants}" if answer.vote and item.merged else "",
    }


def print_review(review: Review) -> None:
    """Print the suggestions of a review."""
    from chemspec.review.rows import review_table

    if review.result.status != "ok":
        return
    console.print_line(f"{query_heading(review.result.query)}: {review.warning or 'review'}", "bold")
    for row in review_table(review):  # as a table each cell would have eight letters in a window
        number, answer, name, percent = (row.pop(column) for column in ("#", "answer", "class", "prob."))
        console.print_line(f"{number:>2}. {', '.join(filter(None, (name, percent)))}")
        lines = [answer, *(f"{column}: {cell}" for column, cell in row.items() if cell)]
        console.print_line("     " + "\n     ".join(lines))
    for choice in review.selectivity:
        console.print_line(f"  {choice.text}; {choice.meaning}", "dim")
