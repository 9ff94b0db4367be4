"""The rows of a job: found by number in files that still grow, and put together for download."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from chemspec.io.writers import csv_row, flat
from chemspec.ui.batch import jobs
from chemspec.ui.batch.jobs import Job, JobError

_NUMBER = re.compile(r"[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?")


@contextmanager
def damage() -> Iterator[None]:
    """Say that a job's files are damaged, where they hold what no program of ours writes.

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
            growing: whether somebody works at the file.
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
                with damage():
                    value = json.loads(line)
                    self.kinds.append(str(value["status"]) if isinstance(value, dict) else "")
                self._starts.append(self._starts[-1] + len(line))
        return self

    def errors(self) -> list[int]:
        """Return the numbers of the lines that are no answers."""
        return [number for number, kind in enumerate(self.kinds) if kind != "ok"]

    def read(self, numbers: Iterable[int]) -> list[Any]:
        """Read the lines of these numbers, counted from 0."""
        if not len(self):
            return []
        with damage(), self._path.open("rb") as file:
            return [json.loads(self._line(file, number)) for number in numbers]

    def _line(self, file: Any, number: int) -> bytes:
        file.seek(self._starts[number])
        line: bytes = file.read(self._starts[number + 1] - self._starts[number])
        return line


def harmless(text: str) -> str:
    """Return a text as a cell that no spreadsheet takes for a formula.

    A formula begins with = + - @ (or their wide forms), maybe after blanks; such a cell gets a leading ', which
    spreadsheets do not show. Numbers stay as they are, and so does every SMILES that can be read: none begins with
    these signs.
    """
    start = text.lstrip()[:1]
    suspicious = start in tuple("=+-@＝＋－＠|%") or text[:1] in tuple("\t\r\n")
    return "'" + text if suspicious and start and not _NUMBER.fullmatch(text.strip()) else text


def others(job: Job) -> list[int]:
    """Return the numbers of the columns that do not hold the queries."""
    return [place for place in range(len(job.columns)) if place != job.column]


def as_csv(job: Job) -> bytes:
    """Return the answers so far as a table: number, the uploaded columns, what was answered.

    Every cell that visitors filled is made `harmless`. The table begins with a byte order mark if it holds more than
    ASCII: without one, Excel takes UTF-8 for something else.
    """
    n = job.settings.n
    answers = [f"{name}_{k}" for k in range(1, n + 1) for name in ("smiles", "probability", "log_prob")]
    own = [job.columns[place] for place in others(job)]
    head = ["row", *own, "query", "status", "message", *answers, "passes", "tokens", "seconds"]
    with damage():
        lines = [csv_row(harmless(flat(name)) for name in head)]
        for number, cells, row in _together(job):
            line: list[Any] = [number, *(harmless(flat(cells[place])) for place in others(job))]
            line += [harmless(flat(row[name])) for name in ("query", "status", "message")]
            for answer in row["hypotheses"][:n]:
                smiles = harmless(flat(answer["canonical"] or answer["smiles"]))
                line += [smiles, f"{answer['probability']:.6g}", f"{answer['log_prob']:.6f}"]
            line += [""] * 3 * (n - len(row["hypotheses"]))
            lines.append(csv_row([*line, row["passes"], row["tokens"], f"{row['seconds']:.4f}"]))
        text = "".join(lines)
        return text.encode("utf-8" if text.isascii() else "utf-8-sig")


def as_jsonl(job: Job) -> bytes:
    """Return the answers so far for programs: one JSON a line, with every text exactly as uploaded.

    A line is `chemspec.io.writers.brief` with the number of the `row`, and the other uploaded cells as `input`.
    """
    lines = []
    with damage():
        for number, cells, row in _together(job):
            given = {job.columns[place]: cells[place] for place in others(job)}
            lines.append(json.dumps({"row": number, **({"input": given} if given else {}), **row}) + "\n")
    return "".join(lines).encode("ascii")


def _together(job: Job) -> Iterator[tuple[int, tuple[str, ...], dict[str, Any]]]:
    """Yield (number from 1, uploaded cells, answer) of every row answered so far."""
    path = jobs.answers(job)
    if not path.is_file():
        return
    with path.open("rb") as file:
        for number, (cells, line) in enumerate(zip(jobs.inputs(job), file, strict=False), 1):
            if line.endswith(b"\n"):
                yield number, cells, json.loads(line)
