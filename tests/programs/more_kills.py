"""Kill what takes longer than a file: trainings, searches for routes, what the app keeps, jobs, drivers of a cluster.

`python tests/programs/kills.py 200` runs these too. After each kill the same call goes on, and what comes out in the
end is what an undisturbed run gives.
"""

from __future__ import annotations

import json
import mmap
import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from helpers.paths import TESTS
from helpers.small import QUERIES

from chemspec.settings import DecodeSettings

PREDICT = (sys.executable, str(TESTS / "jobs" / "fake_predict.py"))


def turns(work: Callable[[int], object]) -> tuple[Callable[[], None], Callable[[], int]]:
    """What works one turn after the other in a fork, and what tells here how many of them are over."""
    told = mmap.mmap(-1, 8)  # shared with forks

    def again() -> None:
        for turn in range(1_000_000):
            work(turn)
            told[:] = (turn + 1).to_bytes(8, "little")

    return again, lambda: int.from_bytes(told[:], "little")


def seconds(work: Callable[[], object]) -> float:
    """What a call takes; a first one, which also imports, does not count."""
    work()
    began = time.monotonic()
    work()
    return time.monotonic() - began


def training(kills: int, random: Random, home: Path, killed: Callable[..., bool]) -> int:
    """`train_padded`: the weights in the end are those of a run that nobody disturbed, to the last bit."""
    import numpy as np
    import torch

    from chemspec.data.arrays import Pairs, RaggedArray
    from chemspec.model import checkpoint
    from chemspec.settings import TrainSettings
    from chemspec.tokenizer import SPECIALS, Tokenizer
    from chemspec.train.recipe import Recipe, model_recipe
    from chemspec.train.run import train_padded

    draw = np.random.default_rng(0)
    texts = [draw.integers(4, 14, size=draw.integers(3, 9)).tolist() for _ in range(48)]
    data = home / "data"
    data.mkdir()
    Pairs(RaggedArray.pack(texts), RaggedArray.pack([text[::-1] for text in texts])).save(data / "train.npz")
    Tokenizer((*SPECIALS, *"CNOSPFIBcn")).save(data / "vocab.json")
    how = TrainSettings(lr=3e-3, tokens=200, steps=60, warmup=5, validate_every=6, keep=3, holdout=16, threads=1)
    base = model_recipe("retro-50k")
    recipe: Recipe = replace(base, preset="tiny", train=how, average_last=2, starts_from="")

    def weights(out: Path) -> dict[str, Any]:
        return dict(checkpoint.load(train_padded(recipe, data, out)).model.state_dict())

    began = time.monotonic()
    wanted = weights(home / "whole")
    took = time.monotonic() - began
    done = number = 0
    while done < kills:
        out = home / f"run-{number}"
        number += 1
        for _ in range(min(6, kills - done)):
            done += killed(lambda out=out: train_padded(recipe, data, out), lambda: True, random.random() * took * 0.7)
        found = weights(out)
        assert all(torch.equal(found[name], wanted[name]) for name in wanted), "it goes on as if it had never stopped"
        steps = [int(line.split(",")[0]) for line in (out / "log.csv").read_text().splitlines()[1:]]
        assert steps == sorted(steps) and steps[-1] == how.steps, "the log has every step once"
        shutil.rmtree(out)
    return done


def routes(kills: int, random: Random, home: Path, killed: Callable[..., bool]) -> int:
    """A search for routes: what was decoded and stored is right, and the same routes come out."""
    from helpers import toy

    from chemspec.plan.expand import Expander
    from chemspec.plan.search import plan
    from chemspec.plan.settings import PlanSettings

    os.environ["CHEMSPEC_HOME"], os.environ["CHEMSPEC_CACHE"] = str(home / "home"), str(home / "cache")
    how = PlanSettings(seconds=600.0, expansions=50)
    stock = toy.stock(home)

    def search(turn: int) -> Any:
        retro = replace(toy.retro(), full_digest=f"toy-{turn % 3}")
        found = plan(toy.AMIDE, Expander(retro), stock, how)  # type: ignore[arg-type]
        return [route.signature for route in found.routes], found.status

    def work(turn: int) -> None:
        shutil.rmtree(home / "cache", ignore_errors=True) if turn % 3 == 0 else None
        search(turn)

    took = seconds(lambda: work(0))
    wanted = search(0)
    for number in range(kills):
        again, over = turns(work)
        assert killed(again, lambda over=over, number=number: over() >= number % 4, random.random() * 2 * took)
        assert [search(turn) for turn in range(3)] == [wanted] * 3
    return kills


def kept(kills: int, random: Random, home: Path, killed: Callable[..., bool]) -> int:
    """Collections: what was said to be kept is there, and nothing is torn."""
    from chemspec.ui.collect.answers import ANSWERS, SavedAnswer

    answers, told = replace(ANSWERS, home=home), home / "told"

    def work(turn: int) -> None:
        for number in range(1_000_000):
            name = f"{turn}-{number}"
            answer = SavedAnswer(name, "retro", "m", "CCO", "CC.O")
            answers.save(answer.id, answer)
            with told.open("a") as file:
                file.write(f"\n{name};")  # what a kill tears has no end, and spoils no other

    for turn in range(kills):
        said = told.stat().st_size if told.exists() else 0
        assert killed(
            lambda turn=turn: work(turn),
            lambda said=said: told.exists() and b";" in told.read_bytes()[said:],
            random.random() * 0.05,
        )
        names = [line[:-1] for line in told.read_text().splitlines() if line.endswith(";")]
        assert {one.question for one in answers.all().values()} >= set(names)
        if len(names) > 4000:
            for file in home.glob("chemspec.sqlite3*"):
                file.unlink()
            told.unlink()
    return kills


class Here:
    """An engine of a cluster that answers at once, in this process."""

    def __init__(self) -> None:
        self._given: list[Any] = []

    def size(self) -> int:
        return 1

    def submit(self, piece: Any) -> None:
        self._given.append(piece)

    def wait(self) -> Sequence[Any]:
        from chemspec.cluster import engines
        from chemspec.types import DecodeResult

        piece = self._given.pop()
        results = [DecodeResult(query, "invalid", f"row {piece.first + k}") for k, query in enumerate(piece.queries)]
        return [(piece, engines.results_to_table(piece.first, results), "")]


def cluster(kills: int, random: Random, home: Path, killed: Callable[..., bool]) -> int:
    """The driver of a cluster: every row once, in its place, no shard torn, whoever is killed."""
    import pyarrow
    from pyarrow import parquet

    from chemspec.cluster.job import JobReport, _predict_shards
    from chemspec.cluster.shards import ShardFolder, cut_into_shards

    pyarrow.set_cpu_count(1)
    queries = [QUERIES[k % len(QUERIES)] for k in range(1500)]
    manifest = {"format": 1, "shard_rows": 10}

    def work(out: Path) -> None:
        with ShardFolder(out, manifest) as folder:
            pieces, report = cut_into_shards(queries, 10), JobReport("test")
            _predict_shards(pieces, Here(), folder, report, None, lambda *_: None, lambda _: None)  # type: ignore[arg-type]

    done = number = 0
    while done < kills:
        out = home / f"out-{number}"
        number += 1
        for _ in range(min(8, kills - done)):
            done += killed(lambda out=out: work(out), lambda out=out: (out / "rows").exists(), random.random() * 0.1)
            for file in out.rglob("*.parquet"):
                parquet.read_table(file, use_threads=False)  # whole
        work(out)
        tables = [parquet.read_table(file, use_threads=False) for file in sorted(out.rglob("*.parquet"))]
        rows = [row for table in tables for row in table["row"].to_pylist()]
        assert rows == list(range(len(queries)))
    return done


def runners(kills: int, random: Random, home: Path, killed: Callable[..., bool]) -> int:
    """Who works through jobs: every row of every job once and in order, whoever is killed and whoever comes next."""
    from chemspec.jobs import job_queue, jobs
    from chemspec.jobs.jobs import JOBS
    from chemspec.jobs.uploads import Sheet

    os.environ["CHEMSPEC_HOME"], os.environ["FAKE_PREDICT"] = str(home / "home"), str(home)
    done = 0
    while done < kills:
        made = []
        for _ in range(2):
            sheet = Sheet(("smiles",), tuple((f"q{k}",) for k in range(400)))
            how = DecodeSettings(decoder="greedy", n=1)
            job = jobs.create_job(sheet, file="f", column=0, model="m", digest="d1", task="forward", settings=how)
            JOBS.save(job.id, replace(job, state="waiting"))
            made.append(job)
        for _ in range(min(4, kills - done)):
            done += killed(
                lambda: job_queue.run_waiting_jobs(PREDICT),
                lambda: bool(job_queue.running_job()),
                random.random() * 0.6,
            )
            while job_queue.running_job():  # its lock is free a moment later
                time.sleep(0.02)
        for job in made:
            if JOBS.load(job.id).state != "done":
                JOBS.save(job.id, replace(JOBS.load(job.id), state="waiting"))
        job_queue.run_waiting_jobs(PREDICT)
        for job in made:
            lines = jobs.answers_file(job).read_text().splitlines()
            assert [json.loads(line)["query"] for line in lines] == [row[0] for row in jobs.uploaded_rows(job)]
            assert JOBS.load(job.id).state == "done"
            JOBS.delete(job.id)
    return done


TARGETS = {
    "training": training, "routes": routes, "kept": kept, "cluster": cluster, "runners": runners,
}  # fmt: skip
