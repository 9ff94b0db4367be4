"""Batch jobs: an upload, a queue of 190 jobs, and the refreshes and exports of a job of 1,000 answered rows."""

import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import chemspec
from chemspec.jobs import jobs, rows, uploads, worker
from chemspec.jobs.jobs import JOBS
from chemspec.settings import DecodeSettings

ROWS, ANSWERED = 1_000, 16  # of a job; predicted and reviewed, and repeated to its end


def seconds(function: Callable[[], Any]) -> float:
    """Return the processor time of a call in this process, which for an export of the app is the server's."""
    began = time.process_time()
    function()
    return time.process_time() - began


def bytes_read() -> int:
    return int(Path("/proc/self/io").read_text().split()[1])


def main(examples: str, home: str) -> None:
    os.environ["CHEMSPEC_HOME"] = home
    molecules = (Path(examples) / "bench_retro.smi").read_text().split()
    table = ("smiles,note\n" + "".join(f"{smiles},note\n" for smiles in (100 * molecules)[:5_000])).encode()
    texts = [f"upload of 5,000 rows {seconds(lambda: uploads.read_upload(table, 'rows.csv')):.2f} s"]
    sheet = uploads.make_sheet if hasattr(uploads, "make_sheet") else uploads._make_sheet
    engine = chemspec.load("retro", dtype="int8", threads=1)
    facts = {
        "file": "rows.csv",
        "column": 0,
        "model": "retro",
        "digest": getattr(engine, "full_digest", engine.digest),
        "task": "retro",
    }
    facts |= {"settings": DecodeSettings(n=10, distinct=True), "cards": 5, "stock": ("common",)}
    few = sheet(iter([[smiles, "note"] for smiles in molecules[:20]]))
    texts.append(f"190 jobs of 20 rows {seconds(lambda: [jobs.create_job(few, **facts) for _ in range(190)]):.2f} s")
    texts.append(f"a list of them {1000 * seconds(JOBS.all):.0f} ms")
    many = sheet(iter([[smiles, "note"] for smiles in (molecules[:ANSWERED] * ROWS)[:ROWS]]))
    job = jobs.create_job(many, **facts)
    sample = sheet(iter([[smiles, "note"] for smiles in molecules[:ANSWERED]]))
    answered = jobs.create_job(sample, **facts)
    review = partial(worker.review_rows, answered, *worker.load_review(answered, 1))
    worker.predict_rows(answered, engine, review)
    lines = jobs.answers_file(answered).read_text().splitlines(keepends=True)
    jobs.answers_file(job).write_text("".join((lines * ROWS)[:ROWS]))

    growing = rows.answer_lines(job).refresh() if hasattr(rows, "answer_lines") else None
    refresh = growing.refresh if growing is not None else partial(rows.whole_lines, jobs.answers_file(job))
    before, time_of_refresh = bytes_read(), seconds(refresh)
    texts.append(f"a refresh {1000 * time_of_refresh:.1f} ms, {(bytes_read() - before) / 1e6:.1f} MB read")
    for kind in ("csv", "xlsx", "sdf"):
        try:
            from chemspec.jobs.exports import export_job

            export: Callable[[], Any] = partial(export_job, job, kind)
        except ImportError:  # e55d0684
            export = partial(getattr(rows, f"answers_as_{kind}"), job)
        children = os.times().children_user
        own = seconds(export)
        texts.append(f"{kind} {own:.2f} s in the app, {os.times().children_user - children:.2f} beside it")
    texts.append(f"most memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000:.0f} MB")
    print("; ".join(texts))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:  # where no other turn has left jobs
        main(sys.argv[1], folder)
