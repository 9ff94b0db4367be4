"""Crash log next to an output, of its rows in progress, so that a row that crashes every process is skipped.

Python's fault handler writes to it too if the process crashes (such as signal 11). After the death of a process the
rows of that batch are processed one by one, and a row with two crashes gets the status "failed".
"""

import faulthandler
import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

# A kill from outside (out of memory, or `kill -9`) may be unrelated: five of them weigh as much as two crashes.
CRASH, KILL, MAX_WEIGHT = 5, 2, 10
FAILED = "the process crashed on this row repeatedly"


@dataclass
class CrashLog:
    """Weights of the deaths of processes at the rows to be processed next."""

    file: IO[str]  # lists the rows in progress
    weights: dict[int, int] = field(default_factory=dict)  # crashes by row; such rows are processed one by one

    def size(self, row: int, batch: int) -> int:
        """Return the number of rows to process at once, starting at `row`."""
        return 1 if row in self.weights else batch

    def fails(self, row: int) -> bool:
        """Return whether processes died too often at this row."""
        return self.weights.get(row, 0) >= MAX_WEIGHT

    def record(self, row: int, rows: int) -> None:
        """Record that `rows` rows, starting at `row`, are in progress."""
        self.file.seek(0)
        self.file.truncate()
        self.file.write(json.dumps({"row": row, "rows": rows, "weights": [*self.weights.items()]}) + "\n")
        self.file.flush()

    def restore(self, text: str, done: int) -> None:
        """Restore the log of the last process, which died after `done` rows."""
        line, _, after = text.partition("\n")
        facts = json.loads(line)
        self.weights = {row: weight for row, weight in facts["weights"] if row >= done}
        if facts["row"] == done:  # else it died between two batches
            weight = CRASH if "Fatal Python error" in after else KILL
            for row in range(done, done + facts["rows"]):
                self.weights[row] = self.weights.get(row, 0) + weight


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
