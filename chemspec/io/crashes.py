"""Crash log next to an output, of its rows in progress, so that a row that crashes every process is skipped.

Python's fault handler writes to it too if the process crashes (such as signal 11). After a crash the rows of that batch
are processed one by one, and a row with two crashes gets the status "failed".
"""

import faulthandler
import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

# A kill from outside (out of memory, or `kill -9`) may be unrelated: five of them weigh as much as two crashes.
CRASH, KILL, MOST = 5, 2, 10
FAILED = "the process crashed on this row repeatedly"


@dataclass
class CrashLog:
    """Crashes at the rows to be processed next."""

    file: IO[str]  # lists the rows in progress
    row: int = -1  # the row at which the last process died, or -1
    weight: int = 0  # weight of the deaths at `row`
    until: int = 0  # rows before this one are processed one by one
    inherited: int = 0  # weight of a death at any of these rows

    def size(self, row: int, batch: int) -> int:
        """Return the number of rows to process at once, starting at `row`."""
        return 1 if row < self.until else batch

    def fails(self, row: int) -> bool:
        """Return whether processes died too often at this row."""
        return self._weight(row) >= MOST

    def _weight(self, row: int) -> int:
        return self.weight if row == self.row else self.inherited if row < self.until else 0

    def record(self, row: int, rows: int) -> None:
        """Record that `rows` rows, starting at `row`, are in progress."""
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

    def restore(self, text: str, done: int) -> None:
        """Restore the log of the last process, which died after `done` rows."""
        line, _, after = text.partition("\n")
        facts = json.loads(line)
        self.until, self.inherited = int(facts["until"]), int(facts["inherited"])
        if int(facts["row"]) != done:
            return  # it died between two batches
        crashed = "Fatal Python error" in after
        self.row, self.weight = done, int(facts["weight"]) + (CRASH if crashed else KILL)
        if int(facts["rows"]) > 1 and (crashed or self.weight > KILL):
            self.until, self.inherited = done + int(facts["rows"]), CRASH if crashed else 0


@contextmanager
def log_crashes(answers: Path, done: int) -> Iterator[CrashLog]:
    """Log the rows in progress of an output file with `done` finished rows; OSError if the log cannot be written."""
    path = answers.with_name(answers.name + ".crash")
    try:
        with path.open("a+", encoding="utf-8", errors="replace") as file, ExitStack() as stack:
            if not faulthandler.is_enabled():
                faulthandler.enable(file, all_threads=False)
                stack.callback(faulthandler.disable)  # while the file is open
            file.seek(0)
            log = CrashLog(file)
            with suppress(ValueError, KeyError, TypeError):  # truncated: its process was killed
                log.restore(file.read(), done)
            yield log
    finally:  # an exception is not a crash
        path.unlink(missing_ok=True)
