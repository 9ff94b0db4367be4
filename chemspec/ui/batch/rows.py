"""The rows of a job: read by number from growing files, their answers as cells of tables, and exported."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from chemspec.chem import formats
from chemspec.io import spreadsheets
from chemspec.io.writers import csv_row, single_line
from chemspec.precedents import Precedent
from chemspec.review.forward_check import ForwardCheck
from chemspec.review.suggestions import describe_check
from chemspec.ui.batch import jobs
from chemspec.ui.batch.jobs import Job
from chemspec.ui.common import escaping
from chemspec.ui.common.store import StoreError

ANSWER = (  # columns of each answer
    *("smiles", "chance", "probability", "log_prob", "note", "class", "stock", "forward_model", "conditions"),
    *("patent_reactions", "patents", "alike"),
)
Cell = str | float


@contextmanager
def report_damage() -> Iterator[None]:
    """Turn errors from reading a job's files into a StoreError that says that they are damaged."""
    try:
        yield
    except (OSError, ValueError, ArithmeticError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise StoreError(f"the job's rows are damaged ({error!r}); start a new job with the file") from error


class JsonLines:
    """An index of a growing file of JSON lines; each line is looked at once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._starts = [0]
        self._seen: int | None = None
        self._growth: tuple[float, int] | None = None  # when, and to how many lines, the file was first seen to grow
        self.kinds: list[str] = []  # the status of every line that has one

    def __len__(self) -> int:
        return len(self._starts) - 1

    def pace(self, *, growing: bool, now: float) -> float | None:
        """Return the seconds a line takes, once the file was seen to grow twice; call it after every update.

        Args:
            growing: whether a prediction is writing the file.
            now: seconds on any clock.
        """
        if not growing or self._seen is None:  # what was there before says nothing about this run
            self._seen, self._growth = len(self), None
        elif self._growth is None and len(self) > self._seen:
            self._growth = (now, len(self))
        elif self._growth and len(self) > self._growth[1]:
            return (now - self._growth[0]) / (len(self) - self._growth[1])
        return None

    def update(self) -> JsonLines:
        """Look at what was added; half a line at the end is left for later."""
        if not self._path.is_file():
            return self
        with self._path.open("rb") as file:
            file.seek(self._starts[-1])
            for line in file:
                if not line.endswith(b"\n"):
                    break
                with report_damage():
                    value = json.loads(line)
                    self.kinds.append(str(value["status"]) if isinstance(value, dict) else "")
                self._starts.append(self._starts[-1] + len(line))
        return self

    def errors(self) -> list[int]:
        """Return the numbers of the lines without an answer."""
        return [number for number, kind in enumerate(self.kinds) if kind != "ok"]

    def read(self, numbers: Iterable[int]) -> list[Any]:
        """Read the lines of these numbers, counted from 0."""
        if not len(self):
            return []
        with report_damage(), self._path.open("rb") as file:
            return [json.loads(self._line(file, number)) for number in numbers]

    def _line(self, file: Any, number: int) -> bytes:
        file.seek(self._starts[number])
        line: bytes = file.read(self._starts[number + 1] - self._starts[number])
        return line


def other_columns(job: Job) -> list[int]:
    """Return the numbers of the columns that do not hold the queries."""
    return [position for position in range(len(job.columns)) if position != job.column]


def answers_as_csv(job: Job) -> bytes:
    """Return the answers so far as CSV: row number, uploaded columns, answers.

    Uploaded cells are escaped with `escape_formula`. The table begins with a byte order mark if it holds more than
    ASCII: without one, Excel does not read it as UTF-8.
    """
    head, lines = _answer_table(job)
    table: list[Sequence[Cell]] = [head, *lines]
    escaped = ([escaping.escape_formula(cell) if isinstance(cell, str) else cell for cell in line] for line in table)
    text = "".join(map(csv_row, escaped))
    return text.encode("utf-8" if text.isascii() else "utf-8-sig")  # without the mark Excel does not read UTF-8


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
                single_line(job.columns[position]) or f"column {position + 1}": cells[position]
                for position in other_columns(job)
            }
            for rank, answer in enumerate(answer_cells(job, row), 1):
                if "no molecule" not in str(answer["note"]):
                    filled = {name: cell for name, cell in answer.items() if cell != ""}
                    filled |= {"confidence": filled["chance"]} if "chance" in filled else {}
                    records.append({"row": number, "rank": rank, "query": row["query"], **filled, **uploaded_cells})
    return formats.to_sdf(records).encode("utf-8", errors="replace")


def _answer_table(job: Job) -> tuple[list[str], list[list[Cell]]]:
    """Return the names of the columns, and a line per row: uploaded cells, then the answers."""
    uploaded_names = [single_line(job.columns[position]) for position in other_columns(job)]
    answers = [f"{name}_{k}" for k in range(1, job.answers + 1) for name in ANSWER]
    head = ["row", *uploaded_names, "query", "status", "message", *answers, "passes", "tokens", "seconds", "warning"]
    lines: list[list[Cell]] = []
    with report_damage():
        for number, cells, row in _answered_rows(job):
            line: list[Cell] = [number, *(single_line(cells[position]) for position in other_columns(job))]
            line += [single_line(row[name]) for name in ("query", "status", "message")]
            answered = answer_cells(job, row)
            line += [cell for answer in answered for cell in answer.values()]
            line += [""] * len(ANSWER) * (job.answers - len(answered))
            lines.append([*line, row["passes"], row["tokens"], round(row["seconds"], 4), warning_of(row)])
    return head, lines


def warning_of(row: dict[str, Any]) -> str:
    """Return what the page Predict says above the answers of a row; often empty."""
    review = row.get("review") or {}
    recorded = review.get("recorded") or 1
    record = f"A patent records answer {recorded} for this very query." if recorded > 1 else ""
    return " ".join(filter(None, (review.get("warning"), record, review.get("reaction"))))


def suggestions_of(row: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the answers of a row, as `review_document` describes them; of a row without a review its predictions."""
    if review := row.get("review"):
        return list(review["suggestions"])
    names = ("forward", "reagents", "precedents")
    blank = dict.fromkeys(names) | {"class": "", "hazards": [], "stock": [], "alternatives": []}
    return [
        blank
        | {
            "smiles": answer["canonical"],
            "probability": answer["probability"] if answer.get("confidence") is None else answer["confidence"],
            "calibrated": answer.get("confidence") is not None,
            "problems": [] if answer["valid"] else ["no molecule"],
        }
        for answer in row["hypotheses"]
    ]


def answer_cells(job: Job, row: dict[str, Any]) -> list[dict[str, Cell]]:
    """Return the cells of each answer of a row, by the names of `ANSWER`."""
    by_smiles = {answer["canonical"]: answer for answer in row["hypotheses"]}
    return [
        dict(zip(ANSWER, _cells_of(job, rank, suggestion, by_smiles.get(suggestion["smiles"], {})), strict=True))
        for rank, suggestion in enumerate(suggestions_of(row)[: job.answers], 1)
    ]


def _cells_of(job: Job, rank: int, suggestion: dict[str, Any], prediction: dict[str, Any]) -> Iterator[Cell]:
    check, matches = suggestion["forward"], suggestion["precedents"]
    hazards = suggestion["hazards"] if job.task == "retro" or rank == 1 else []  # of a flask once
    yield single_line(suggestion["smiles"] or prediction.get("smiles", ""))
    yield round(suggestion["probability"], 4) if suggestion["calibrated"] else ""
    yield float(f"{prediction['probability']:.6g}") if prediction else ""
    yield round(prediction["log_prob"], 6) if prediction else ""
    yield "; ".join([*suggestion["problems"], *(f"hazard: {sentence}" for sentence in hazards)])
    yield suggestion["class"]
    yield "; ".join(filter(None, suggestion["stock"]))
    checked = ForwardCheck(check["verdict"] != "differs", check["probability"], check["product"]) if check else None
    yield describe_check(checked)
    yield suggestion["reagents"]["text"] if suggestion["reagents"] else ""
    yield "" if matches is None else matches["close"]
    yield "; ".join(filter(None, (Precedent(**item).source for item in matches["nearest"]))) if matches else ""
    yield " ; ".join(answer["smiles"] for answer in suggestion["alternatives"])


def answers_as_jsonl(job: Job) -> bytes:
    """Return the answers so far for programs: one JSON a line, with every text exactly as uploaded.

    A line is `chemspec.io.writers.result_document` with the number of the `row`, and the other uploaded cells as
    `input`.
    """
    lines = []
    with report_damage():
        for number, cells, row in _answered_rows(job):
            given = {job.columns[position]: cells[position] for position in other_columns(job)}
            lines.append(json.dumps({"row": number, **({"input": given} if given else {}), **row}) + "\n")
    return "".join(lines).encode("ascii")


def _answered_rows(job: Job) -> Iterator[tuple[int, tuple[str, ...], dict[str, Any]]]:
    """Yield (number from 1, uploaded cells, answer) of every row answered so far."""
    path = jobs.answers_file(job)
    if not path.is_file():
        return
    with path.open("rb") as file:
        for number, (cells, line) in enumerate(zip(jobs.uploaded_rows(job), file, strict=False), 1):
            if line.endswith(b"\n"):
                yield number, cells, json.loads(line)
