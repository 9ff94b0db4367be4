"""What `worker` does, without a model, and at the command of files in a folder.

It answers C, refuses x and what is no molecule, breaks at "!" and crashes at "die"; at "hold" it makes the file `held`
and waits for the file `go`. The file `asked` gets every query, and the file `full` holds after how many writes the disk
is full.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from chemspec.io import writers
from chemspec.jobs import worker
from chemspec.settings import DecodeSettings
from chemspec.types import DecodeResult, Hypothesis

FOLDER = Path(os.environ["FAKE_PREDICT"])


class Fake:
    """As much of an engine as `predict_file` needs."""

    full_digest, dtype = "d1", "fp32"

    def predict(self, queries: Sequence[str], settings: DecodeSettings, *, progress: Any) -> list[DecodeResult]:
        for query in queries:
            if query == "!":
                raise RuntimeError("broken")
            if query == "die":
                os.abort()
            if query == "hold":
                (FOLDER / "held").touch()
                end = time.monotonic() + 300  # a test that failed must not leave it behind
                while not (FOLDER / "go").exists() and time.monotonic() < end:
                    time.sleep(0.01)
        with (FOLDER / "asked").open("a") as file:
            file.writelines(json.dumps(query) + "\n" for query in queries)
        return [self.answer(query) for query in queries]

    def answer(self, query: str) -> DecodeResult:
        if query == "x":
            return DecodeResult(query, "invalid", "x is no atom")
        if len(query) > 5:
            from chemspec import chem  # slow to import

            if fault := chem.explain(query):
                return DecodeResult(query, "invalid", str(fault))
        return DecodeResult(query, "ok", "", (Hypothesis("C", "C", True, ("C",), (-0.5,), -0.5, 0.6, 0.6),))


def fill_the_disk(writes: int) -> None:
    append = writers.append_lines

    def full(file: Any, lines: Any) -> None:
        nonlocal writes
        writes -= 1
        if writes < 0:
            file.write(b'{"quer')
            file.flush()
            raise OSError(28, "No space left on device")
        append(file, lines)

    writers.append_lines = full


def main() -> None:
    if (FOLDER / "full").exists():
        fill_the_disk(int((FOLDER / "full").read_text()))
    engine: Any = Fake()
    worker.run_job = lambda job: worker.predict_rows(job, engine, lambda results: [({}, [])] * len(results))
    worker.main(sys.argv[1])


if __name__ == "__main__":
    main()
