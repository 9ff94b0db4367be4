"""The rows of a job: read from growing files, their answers as cells of tables, and exported."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from chemspec import chem
from chemspec.chem import formats
from chemspec.chem.molecules.bottles import as_bottled
from chemspec.io import spreadsheets
from chemspec.jobs import jobs
from chemspec.jobs.jobs import Job
from chemspec.jobs.store import StoreError
from chemspec.review.rows import SUGGESTION_CELLS, Cell, suggestion_cells
from chemspec.types import upgrade_prediction

# Columns of each answer.
ANSWER = ("smiles", *SUGGESTION_CELLS[:2], "model_probability", "log_prob", *SUGGESTION_CELLS[2:])


@contextmanager
def report_damage() -> Iterator[None]:
    """Turn errors from reading a job's files into a StoreError that says that they are damaged."""
    try:
        yield
    except (OSError, ValueError, ArithmeticError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise StoreError(f"the job's rows are damaged ({error!r}); start a new job with the file") from error


class GrowingLines:
    """The whole lines of a growing file of JSON lines, of which only positions are in memory.

    `refresh` reads what is new.
    """

    def __init__(self, path: Path, good: bytes = b'"status": "ok"') -> None:
        self.path, self._good = path, good
        self._starts = array("Q", [0])  # starts of the lines, and the end of the last one
        self.failed = array("Q")  # numbers of the rows without an answer, whose lines lack `good`

    def __len__(self) -> int:
        return len(self._starts) - 1

    @property
    def size(self) -> int:
        """The number of bytes of the lines that were read."""
        return self._starts[-1]

    def refresh(self) -> GrowingLines:
        """Read the lines that were added; all of them if the file has become shorter. OSError if it cannot be read."""
        size = self.path.stat().st_size if self.path.is_file() else 0
        if size < self._starts[-1]:
            self._starts, self.failed = array("Q", [0]), array("Q")
        if size > self._starts[-1]:
            with self.path.open("rb") as file:
                file.seek(self._starts[-1])
                for line in file:
                    if not line.endswith(b"\n"):
                        break  # half a line at the end is left for later
                    if self._good not in line:
                        self.failed.append(len(self))
                    self._starts.append(self._starts[-1] + len(line))
        return self

    def read(self, numbers: Iterable[int]) -> list[bytes]:
        """Return some lines by their numbers, from 0; StoreError if they cannot be read."""
        lines = []
        with report_damage(), self.path.open("rb") as file:
            for number in numbers:
                file.seek(self._starts[number])
                lines.append(file.read(self._starts[number + 1] - self._starts[number]))
        return lines


def answer_lines(job: Job) -> GrowingLines:
    """Return the lines of a job's answers, not read yet; rows without an answer, or a route from stock, have failed."""
    path = jobs.answers_file(job)
    return GrowingLines(path, b'"status": "solved"') if job.within else GrowingLines(path)


def whole_lines(path: Path) -> list[bytes]:
    """Return the lines of a growing file of JSON lines; half a line at the end is left for later."""
    if not path.is_file():
        return []
    with path.open("rb") as file:
        return [line for line in file if line.endswith(b"\n")]


def parse_rows(lines: Iterable[bytes]) -> list[Any]:
    """Return the content of lines; raises StoreError if they are damaged."""
    with report_damage():
        return [json.loads(line) for line in lines]


def other_columns(job: Job) -> list[int]:
    """Return the numbers of the columns that do not hold the queries."""
    return [position for position in range(len(job.columns)) if position != job.column]


def answers_as_csv(job: Job) -> bytes:
    """Return the answers so far as CSV: row number, uploaded columns, answers; see `spreadsheets.table_to_csv`."""
    text = spreadsheets.table_to_csv(*_answer_table(job))
    return text.encode("utf-8" if text.isascii() else "utf-8-sig")  # Excel reads UTF-8 only with the mark


def answers_as_xlsx(job: Job) -> bytes:
    """Return the same as a workbook, in which numbers are numbers and no text is a formula."""
    head, lines = _answer_table(job)
    names = [f"{name} ({position + 1})" if name in head[:position] else name for position, name in enumerate(head)]
    return spreadsheets.write_workbook(names, lines)


def answers_as_sdf(job: Job) -> bytes:
    """Return all answers that are molecules as an SDF, each with its row, rank and cells, and the uploaded cells."""
    records: list[dict[str, object]] = []
    with report_damage():
        for number, cells, row in _answered_rows(job):
            uploaded_cells = {
                job.columns[position] or f"column {position + 1}": cells[position] for position in other_columns(job)
            }
            for rank, answer in enumerate(answer_cells(job, row), 1):
                if chem.is_valid(str(answer["smiles"])):
                    filled = {name: cell for name, cell in answer.items() if cell != ""}
                    records.append({"row": number, "rank": rank, "query": row["query"], **filled, **uploaded_cells})
    return formats.to_sdf(records).encode("utf-8", errors="replace")


def _answer_table(job: Job) -> tuple[list[str], list[list[Cell]]]:
    """Return the names of the columns, and a line per row: uploaded cells, then the answers."""
    uploaded_names = [job.columns[position] for position in other_columns(job)]
    answers = [f"{name}_{k}" for k in range(1, job.cards + 1) for name in ANSWER]
    head = ["row", *uploaded_names, "query", "status", "message", *answers, "passes", "tokens", "seconds", "warning"]
    lines: list[list[Cell]] = []
    with report_damage():
        for number, cells, row in _answered_rows(job):
            line: list[Cell] = [number, *(cells[position] for position in other_columns(job))]
            line += [row[name] for name in ("query", "status", "message")]
            answered = answer_cells(job, row)
            line += [cell for answer in answered for cell in answer.values()]
            line += [""] * len(ANSWER) * (job.cards - len(answered))
            lines.append([*line, row["passes"], row["tokens"], round(row["seconds"], 4), warning_of(row)])
    return head, lines


def warning_of(row: dict[str, Any]) -> str:
    """Return what the page Predict says above the answers of a row; often empty."""
    review = row.get("review") or {}
    recorded = review.get("recorded") or 1
    record = f"A patent records answer {recorded} for this very query." if recorded > 1 else ""
    return " ".join(filter(None, (review.get("warning"), record, review.get("reaction"))))


def answer_cells(job: Job, row: dict[str, Any]) -> list[dict[str, Cell]]:
    """Return the cells of each answer of a row, by the names of `ANSWER`; without a review those of its predictions."""
    predictions = [_prediction_cells(upgrade_prediction(answer)) for answer in row["hypotheses"]]
    if not (review := row.get("review")):
        return predictions[: job.cards]
    predicted: dict[str, dict[str, Cell]] = {}
    for answer, cells in zip(row["hypotheses"], predictions, strict=True):  # a review has no bare ions
        name = as_bottled(answer["canonical"]) if job.task == "retro" and answer["canonical"] else answer["canonical"]
        if name and name in predicted:  # two ways to write what stands in one bottle
            total = float(predicted[name]["model_probability"]) + float(cells["model_probability"])
            predicted[name]["model_probability"] = min(1.0, total)
        else:
            predicted[name] = cells | ({"smiles": name} if name else {})
    return [
        predicted.get(suggestion["smiles"], dict.fromkeys(ANSWER, "")) | suggestion_cells(job.task, suggestion)
        for suggestion in review["suggestions"][: job.cards]
    ]


def _prediction_cells(prediction: dict[str, Any]) -> dict[str, Cell]:
    return dict.fromkeys(ANSWER, "") | {
        "smiles": prediction["canonical"] or prediction["smiles"],
        "probability": float(f"{prediction['probability']:.6g}"),
        "calibrated": prediction["calibrated"],
        "model_probability": float(f"{prediction['model_probability']:.6g}"),
        "log_prob": round(prediction["log_prob"], 6),
    }


def _answered_rows(job: Job) -> Iterator[tuple[int, tuple[str, ...], dict[str, Any]]]:
    """Yield (number from 1, uploaded cells, answer) of every row answered so far."""
    lines = whole_lines(jobs.answers_file(job))
    for number, (cells, line) in enumerate(zip(jobs.uploaded_rows(job), lines, strict=False), 1):
        yield number, cells, json.loads(line)  # one at a time: ten thousand take 400 MB
