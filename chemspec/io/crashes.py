"""Which rows a process was answering when it died, so that a row that ends every process is passed in the end.

A file beside the answers says which rows are being answered; what Python writes when a process crashes (signal 11 and
its like) goes there too. Rows among which a process crashed are answered one by one by the next, and a row that has
cost two processes fails.
"""

from __future__ import annotations

import faulthandler
import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

# A kill from outside (out of memory, or `kill -9`) may be by chance: five of them weigh as much as two crashes.
CRASH, KILL, MOST = 5, 2, 10
FAILED = "the process that answers died of this row, again and again"


@dataclass
class CrashLog:
    """Deaths at the rows to be answered next.

    Attributes:
        file: where it stands which rows are being answered.
        row: the one at which the last process died, -1 if none did.
        weight: of the deaths at `row`.
        until: rows before this one are answered one by one.
        inherited: weight of the death among all these rows.
    """

    file: IO[str]
    row: int = -1
    weight: int = 0
    until: int = 0
    inherited: int = 0

    def size(self, row: int, most: int) -> int:
        """Return how many rows to answer at once, from this one on."""
        return 1 if row < self.until else most

    def fails(self, row: int) -> bool:
        """Return whether this row has cost too many processes."""
        return self._weight(row) >= MOST

    def _weight(self, row: int) -> int:
        return self.weight if row == self.row else self.inherited if row < self.until else 0

    def begin(self, row: int, rows: int) -> None:
        """Say that so many rows from this one on are being answered."""
        facts = {
            "row": row,
            "rows": rows,
            "weight": self._weight(row),
            "until": self.until,
            "inherited": self.inherited,
        }
        self.file.seek(0)
        self.file.truncate()
        self.file.write(json.dumps(facts) + "\n")
        self.file.flush()

    def remember(self, text: str, done: int) -> None:
        """Take in what the last process left, which had so many rows done when it died."""
        line, _, after = text.partition("\n")
        facts = json.loads(line)
        self.until, self.inherited = int(facts["until"]), int(facts["inherited"])
        if int(facts["row"]) != done:
            return  # it died between two parts
        crashed = "Fatal Python error" in after
        self.row, self.weight = done, int(facts["weight"]) + (CRASH if crashed else KILL)
        if int(facts["rows"]) > 1 and (crashed or self.weight > KILL):
            self.until, self.inherited = done + int(facts["rows"]), CRASH if crashed else 0


@contextmanager
def watched(answers: Path, done: int) -> Iterator[CrashLog]:
    """Watch over rows that go to a file of answers, of which it has so many already.

    Raises:
        OSError: if nothing can be written beside that file.
    """
    path = answers.with_name(answers.name + ".crash")
    try:
        with path.open("a+", encoding="utf-8", errors="replace") as file, _crashes_told(file):
            file.seek(0)
            log = CrashLog(file)
            with suppress(ValueError, KeyError, TypeError):  # torn: whoever wrote it was killed
                log.remember(file.read(), done)
            yield log
    finally:  # whatever Python ends by is no death
        path.unlink(missing_ok=True)


@contextmanager
def _crashes_told(file: IO[str]) -> Iterator[None]:
    """Let Python write into a file when the process crashes, unless it writes elsewhere already."""
    if faulthandler.is_enabled():
        yield
        return
    faulthandler.enable(file, all_threads=False)
    try:
        yield
    finally:
        faulthandler.disable()
