"""The rows of a job: read by number from growing files, looked up, and exported."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from chemspec.chem import formats
from chemspec.chem.strategy import strategy
from chemspec.engine.distinct import echoes_query
from chemspec.engine.engine import Engine
from chemspec.io import spreadsheets
from chemspec.io.writers import csv_row, single_line
from chemspec.plan.stock import Stock, stock_marks
from chemspec.precedents import Precedents
from chemspec.review.forward_check import StepChecker, find_precedents
from chemspec.settings import DecodeSettings, Task
from chemspec.system.fair_queue import BusyError
from chemspec.types import DecodeResult
from chemspec.ui.batch import jobs
from chemspec.ui.batch.jobs import Job, JobError
from chemspec.ui.common import escaping, login, queued_engine, stock_menu
from chemspec.ui.predict import reviewing

COLUMNS = ("class", "stock", "forward_model", "patent_reactions", "patents")
Cell = str | float
CHECK_BATCH = 32  # steps in one turn: visitors at a page come between


@dataclass(frozen=True)
class Lookups:
    """The sources of the extra columns; None leaves a column empty.

    Attributes:
        stock: what can be bought.
        index: patent reactions.
        checker: the forward check.
    """

    stock: Stock | None = None
    index: Precedents | None = None
    checker: StepChecker | None = None

    def opinions(self, pairs: Sequence[tuple[str, str]]) -> dict[tuple[str, str], str]:
        """Return the forward model's verdict on each (reactants, target) pair."""
        texts: dict[tuple[str, str], str] = {}
        for start in range(0, len(pairs) if self.checker else 0, CHECK_BATCH):
            part = pairs[start : start + CHECK_BATCH]
            try:
                checks = self.checker.check([(target, reactants) for reactants, target in part]) if self.checker else []
            except BusyError:  # the columns of the rest stay empty
                break
            texts |= {pair: check.text for pair, check in zip(part, checks, strict=True) if check}
        return texts

    def columns(self, task: Task, pairs: Sequence[tuple[str, str]]) -> dict[tuple[str, str], dict[str, Cell]]:
        """Return the extra columns, by name, of each (answer, query) pair of molecules."""
        opinions = self.opinions(pairs) if task == "retro" else {}
        return {pair: self._cells(task, *pair, opinions.get(pair, "")) for pair in pairs}

    def _cells(self, task: Task, answer: str, query: str, opinion: str) -> dict[str, Cell]:
        left, right = (answer, query) if task == "retro" else (query, answer)
        change = strategy(left, right) if "." not in right else None
        marks = stock_marks(answer, self.stock) if self.stock is not None and task == "retro" else ()
        matches = find_precedents(self.index, (right, left))
        patents = "; ".join(precedent.source for precedent in matches.nearest if precedent.source) if matches else ""
        values = (change.name if change else "", "; ".join(filter(None, marks)), opinion)
        return dict(zip(COLUMNS, (*values, matches.close if matches else "", patents), strict=True))


def visitor_lookups(task: Task) -> Lookups:
    """Return the visitor's sources. Call it while the page is drawn: a download runs outside of any page."""
    index = reviewing.installed_index()
    if task != "retro":
        return Lookups(index=index)
    forward, reagents = (_patient_engine(task) for task in ("forward", "reagents"))
    return Lookups(stock_menu.visitor_stock(), index, StepChecker(forward, reagents, index) if forward else None)


def _patient_engine(task: Task) -> _PatientEngine | None:
    engine = queued_engine.find_engine(task, here=True)
    return _PatientEngine(engine, login.visitor_id()) if engine else None


@dataclass(frozen=True)
class _PatientEngine:
    """An engine that lets visitors at a page go first; it may be used outside of a page."""

    engine: Engine
    visitor: str | None

    def predict(self, queries: Sequence[str], settings: DecodeSettings) -> list[DecodeResult]:
        with queued_engine.shared_queue().wait_for_turn(visitor=self.visitor, patient=True):
            return self.engine.predict(list(queries), settings)


ANSWER = ("smiles", "chance", "probability", "log_prob", "note", *COLUMNS)  # columns of each answer
MAX_LOOKED_UP = 1000  # answers of a table with the extra columns, some 15 ms each
NO_LOOKUPS = Lookups()
NOTHING: dict[str, Cell] = dict.fromkeys(COLUMNS, "")


@contextmanager
def report_damage() -> Iterator[None]:
    """Turn errors from reading a job's files into a message that they are damaged.

    Raises:
        JobError: in place of what is raised inside.
    """
    try:
        yield
    except (OSError, ValueError, ArithmeticError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise JobError(f"the job's rows are damaged ({error!r}); start a new job with the file") from error


class JsonLines:
    """An index of a growing file of JSON lines; each line is looked at once.

    Attributes:
        kinds: the status of every line that has one.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._starts = [0]
        self._seen: int | None = None
        self._growth: tuple[float, int] | None = None  # when, and to how many lines, the file was first seen to grow
        self.kinds: list[str] = []

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


def answers_as_csv(job: Job, looked_up: Lookups = NO_LOOKUPS) -> bytes:
    """Return the answers so far as CSV: row number, uploaded columns, answers.

    Uploaded cells are escaped with `escape_formula`. The table begins with a byte order mark if it holds more than
    ASCII: without one, Excel does not read it as UTF-8.
    """
    head, lines = _answer_table(job, looked_up)
    table: list[Sequence[Cell]] = [head, *lines]
    text = "".join(
        csv_row(escaping.escape_formula(cell) if isinstance(cell, str) else cell for cell in line) for line in table
    )
    return text.encode("utf-8" if text.isascii() else "utf-8-sig")


def answers_as_xlsx(job: Job, looked_up: Lookups = NO_LOOKUPS) -> bytes:
    """Return the same as a workbook, in which numbers are numbers and no text is a formula."""
    head, lines = _answer_table(job, looked_up)
    names = [f"{name} ({position + 1})" if name in head[:position] else name for position, name in enumerate(head)]
    return spreadsheets.write_workbook(names, lines)


def answers_as_sdf(job: Job) -> bytes:
    """Return all answers that are molecules as an SDF, each with its row, rank and chance, and the uploaded cells."""
    records: list[dict[str, object]] = []
    with report_damage():
        for number, cells, row in _answered_rows(job):
            uploaded_cells = {
                single_line(job.columns[position]) or f"column {position + 1}": cells[position]
                for position in other_columns(job)
            }
            for rank, answer in enumerate(row["hypotheses"], 1):
                if answer["valid"]:
                    record = {"smiles": answer["canonical"], "row": number, "rank": rank, "query": row["query"]}
                    odds = {name: answer.get(name) for name in ("confidence", "probability")}
                    probabilities = {name: f"{value:.6g}" for name, value in odds.items() if value is not None}
                    records.append(record | probabilities | uploaded_cells)
    return formats.to_sdf(records).encode("utf-8", errors="replace")


def _answer_table(job: Job, looked_up: Lookups) -> tuple[list[str], list[list[Cell]]]:
    """Return the names of the columns, and a line per row: uploaded cells, then the answers."""
    uploaded_names = [single_line(job.columns[position]) for position in other_columns(job)]
    answers = [f"{name}_{k}" for k in range(1, job.settings.n + 1) for name in ANSWER]
    head = ["row", *uploaded_names, "query", "status", "message", *answers, "passes", "tokens", "seconds"]
    lines: list[list[Cell]] = []
    with report_damage():
        pairs = (pair for *_, row in _answered_rows(job) for _, _, pair in _noted_answers(job, row) if pair)
        extra = looked_up.columns(job.task, list(islice(pairs, MAX_LOOKED_UP)))
        for number, cells, row in _answered_rows(job):
            line: list[Cell] = [number, *(single_line(cells[position]) for position in other_columns(job))]
            line += [single_line(row[name]) for name in ("query", "status", "message")]
            noted = _noted_answers(job, row)
            for answer, note, pair in noted:
                line += [*_model_cells(answer), note, *extra.get(pair, NOTHING).values()]
            line += [""] * len(ANSWER) * (job.settings.n - len(noted))
            lines.append([*line, row["passes"], row["tokens"], round(row["seconds"], 4)])
    return head, lines


def lookup_answers(job: Job, row: dict[str, Any], looked_up: Lookups) -> list[dict[str, Cell]]:
    """Return the extra columns of each answer of a row by name; empty cells for an echo or no molecule."""
    with report_damage():
        pairs = [pair for _, _, pair in _noted_answers(job, row)]
        extra = looked_up.columns(job.task, [pair for pair in pairs if pair])
        return [extra.get(pair, NOTHING) for pair in pairs]


def _model_cells(answer: dict[str, Any]) -> list[Cell]:
    """Return the cells of an answer: SMILES, calibrated and model probability, log-prob."""
    chance = answer.get("confidence")
    odds: list[Cell] = ["" if chance is None else round(chance, 4), float(f"{answer['probability']:.6g}")]
    return [single_line(answer["canonical"] or answer["smiles"]), *odds, round(answer["log_prob"], 6)]


def _noted_answers(job: Job, row: dict[str, Any]) -> list[tuple[dict[str, Any], str, Any]]:
    """Return the answers of a row, each with what is wrong with it, if anything, and its (answer, query) pair.

    The pair is None for an echo, for what is no molecule, and where the query cannot be read.
    """
    read = formats.read_any(row["query"], task=job.task) if row["hypotheses"] else None
    query = read.smiles if isinstance(read, formats.Input) else ""
    noted: list[tuple[dict[str, Any], str, Any]] = []
    for answer in row["hypotheses"][: job.settings.n]:
        smiles = answer["canonical"]
        if not answer["valid"]:
            noted.append((answer, "no molecule", None))
        elif query and echoes_query(job.task, query, smiles):
            noted.append((answer, "gives the query back", None))
        else:
            noted.append((answer, "", (smiles, query) if query else None))
    return noted


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
