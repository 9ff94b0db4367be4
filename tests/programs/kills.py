"""Kill processes at random moments and look at what they leave: `python tests/programs/kills.py 200 [SEED] [NAME ...]`.

A process is a fork of this one, so that a kill costs milliseconds and hits the work, not the imports. After each kill:
every row once and in order, no file that is torn, and the same call goes on.
"""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from functools import partial
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
from helpers.small import QUERIES, TOKENIZER, tiny_folder
from programs import more_kills

from chemspec.engine.confidence import Confidence
from chemspec.engine.engine import Engine
from chemspec.evaluation.measurements import read_measurements, store_measurements
from chemspec.io import writers
from chemspec.jobs import jobs
from chemspec.jobs.jobs import JOBS
from chemspec.jobs.uploads import Sheet
from chemspec.model import checkpoint
from chemspec.settings import DecodeSettings
from chemspec.system import cache

HOW = DecodeSettings(decoder="greedy", n=1, max_len=8, batch_size=4, drafter="copy")
ROWS = 600


def killed(work: Callable[[], None], after: Callable[[], bool], seconds: float) -> bool:
    """Run something in a fork and kill it, some time after a state was reached; returns whether it still ran."""
    child = os.fork()
    if not child:
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    ended, status = 0, 0
    while not ended and not after():
        ended, status = os.waitpid(child, os.WNOHANG)
        time.sleep(0.001)
    if not ended:
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.waitstatus_to_exitcode(status) == 0, "the work itself failed"
    return os.WIFSIGNALED(status)


def files(kills: int, random: Random, home: Path) -> int:
    """`predict FILE`: rows are a beginning of what an undisturbed run writes, and the next run goes on."""
    engine = Engine.load(tiny_folder(home / "model"), device="cpu", threads=1, runtime="torch")
    queries = [QUERIES[random.randrange(len(QUERIES))] for _ in range(ROWS)]
    done = 0
    while done < kills:
        out = home / f"out-{done}{random.choice(('.csv', '.jsonl'))}"
        wanted = [result.query for result in engine.predict(queries, HOW)]
        for _ in range(min(10, kills - done)):
            before = out.stat().st_size if out.exists() else 0
            hit = killed(
                lambda out=out: writers.predict_file(engine, queries, out, HOW, every=8),  # type: ignore[misc]
                lambda out=out, before=before: out.exists() and out.stat().st_size > before,  # type: ignore[misc]
                random.random() * 0.02,
            )
            if not hit:
                break
            done += 1
            whole = out.read_bytes().rpartition(b"\n")[0].decode()
            told = asked(whole, out.suffix)
            assert told == wanted[: len(told)], "rows are a beginning of what was asked"
        writers.predict_file(engine, queries, out, HOW)
        assert asked(out.read_text(), out.suffix) == wanted, "every row once, in order"
    return done


def asked(text: str, suffix: str) -> list[str]:
    """The queries of a file of answers."""
    if suffix == ".csv":
        return [row["query"] for row in csv.DictReader(io.StringIO(text))]
    return [json.loads(line)["query"] for line in text.splitlines() if line]


def whole(
    kills: int, random: Random, write: Callable[[int], None], read: Callable[[], object], wanted: set[object]
) -> int:
    """Kill what writes one version after the other; whatever is there is one of them, whole."""
    took = more_kills.seconds(lambda: write(0))
    for number in range(kills):
        again, over = more_kills.turns(lambda turn: write(turn + 1))  # version 0 is there
        # Some writes are over, so that the next one is under way, whatever a fork and a write take here.
        assert killed(again, lambda over=over, number=number: over() > number % 2, random.random() * 2 * took)
        found = read()
        assert found in wanted, f"kill {number} left {found!r}"
    return kills


def models(kills: int, random: Random, home: Path) -> int:
    """`checkpoint.save`: a model folder can always be loaded, and holds one version."""
    folder = tiny_folder(home / "saved", seed=0)
    versions = [checkpoint.load(tiny_folder(home / f"v{seed}", seed=seed)).model for seed in (0, 1)]
    sums = {round(float(model.embedding.weight.double().sum()), 9) for model in versions}
    return whole(
        kills,
        random,
        lambda turn: checkpoint.save(folder, versions[turn % 2], TOKENIZER, task="retro", half=False),
        lambda: round(float(checkpoint.load(folder).model.embedding.weight.double().sum()), 9),
        sums,
    )


def jobs_(kills: int, random: Random, home: Path) -> int:
    """`JOBS.save`: a job can always be read."""
    os.environ["CHEMSPEC_HOME"] = str(home / "home")
    sheet = Sheet(("smiles",), (("CCO",), ("CN",)))
    job = jobs.create_job(sheet, file="a.csv", column=0, model="m", digest="d", task="retro", settings=HOW)
    return whole(
        kills,
        random,
        lambda turn: JOBS.save(job.id, replace(job, message="x" * (turn % 2) * 5000)),
        lambda: len(JOBS.load(job.id).message),
        {0, 5000},
    )


def notes(kills: int, random: Random, home: Path) -> int:
    """What is kept beside weights and in the cache: old or new, never half."""
    os.environ["CHEMSPEC_CACHE"] = str(home / "cache")

    def write(turn: int) -> None:
        text = "abc"[turn % 3] * 20_000
        cache.write_cached("x", text.encode())
        Confidence(text, 1.0, 0.0, "", {}).save(home)
        store_measurements(home, ["a"], {"text": text}, digest="d", command="c", today=date(2026, 1, 1))

    def read() -> object:
        raw = cache.read_cached("x") or b""
        kept = json.loads((home / "confidence.json").read_text())["digest"]
        measured = read_measurements(home)["a"]["text"]
        return all(len(text) == 20_000 and len(set(text)) == 1 for text in (raw, kept, measured))

    return whole(kills, random, write, read, {True})


TARGETS = {
    "files": files,
    "models": models,
    "jobs": jobs_,
    "notes": notes,
    **{name: partial(target, killed=killed) for name, target in more_kills.TARGETS.items()},
}


def run(kills: int, seed: int, names: tuple[str, ...] = tuple(TARGETS)) -> dict[str, int]:
    """Kill so many times in all, shared out among the targets; returns how often each was hit."""
    torch.set_num_threads(1)
    told = {}
    for number, name in enumerate(names):
        with tempfile.TemporaryDirectory() as home:
            share = kills // len(names) + (number < kills % len(names))
            told[name] = TARGETS[name](share, Random(seed * 31 + number), Path(home))
    return told


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[1:] if word.isdecimal()]
    chosen = tuple(word for word in sys.argv[1:] if not word.isdecimal()) or tuple(TARGETS)
    sys.stdout.write(f"kills survived: {run(numbers[0], numbers[1] if len(numbers) > 1 else 0, chosen)}\n")
