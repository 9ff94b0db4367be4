"""RDKit's work in other processes: the same results, each string once, and nothing lost with a process."""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from paths import ROOT
from small import BAD, QUERIES

from chemspec.cli.predict import _worker_count
from chemspec.engine.engine import Engine
from chemspec.engine.molecules import CHUNK, MoleculePool
from chemspec.io.writers import predict_file
from chemspec.settings import DecodeSettings
from chemspec.types import DecodeResult

HOW = DecodeSettings(decoder="beam", n=3, max_len=12, batch_size=2)


@pytest.fixture(scope="module")
def pooled(tiny_retro: Path) -> Iterator[Engine]:
    engine = Engine.load(tiny_retro, device="cpu", threads=1, workers=1)
    yield engine
    assert isinstance(engine.molecules, MoleculePool)
    engine.molecules.close()


def told(results: list[DecodeResult]) -> list[object]:
    return [(one.query, one.status, one.message, one.hypotheses, one.notes) for one in results]


def pool_of(engine: Engine) -> MoleculePool:
    assert isinstance(engine.molecules, MoleculePool)
    return engine.molecules


@pytest.mark.smoke  # starts a process
def test_results_are_those_of_one_process_and_a_string_is_sent_once(tiny_retro: Path, pooled: Engine) -> None:
    plain = Engine.load(tiny_retro, device="cpu", threads=1)
    queries = [*QUERIES, *BAD, *QUERIES[::-1]]
    progress: list[int] = []
    found = pooled.predict(queries, HOW, progress=progress.append)
    expected = plain.predict(queries, HOW)
    assert told(found) == told(expected)
    assert progress == sorted(progress) and progress[-1] == len(queries)
    strings = {one.smiles for result in expected for one in result.hypotheses if one.ended == "eos"}
    assert pool_of(pooled).sent == len({*QUERIES, *BAD}) + len(strings)
    pooled.prefetch(["CCOC"])  # of the next part of a file
    assert told(pooled.predict(["CCOC", *queries], HOW)) == told([plain.predict("CCOC", HOW), *expected])


@pytest.mark.smoke
def test_a_process_that_dies_loses_nothing(tiny_retro: Path, pooled: Engine, tmp_path: Path) -> None:
    texts = ["C" * size + "O" for size in range(1, 40)]
    pool, out, again = pool_of(pooled), tmp_path / "a.csv", tmp_path / "b.csv"
    pool.prefetch([("canonical", "CCO")])
    assert pool.job_result("canonical", "CCO") == "CCO"
    (executor,) = pool._executors
    (process,) = executor._processes.values()
    os.kill(process.pid or 0, signal.SIGSTOP)
    pool.prefetch([("canonical", "OCC"), ("canonical", "OCCC")])
    os.kill(process.pid or 0, signal.SIGKILL)
    with pytest.warns(UserWarning, match="has died"):
        assert pool.job_result("canonical", "OCC") == "CCO"
    assert pool.job_result("canonical", "OCCC") == "CCCO"  # said once
    sent = pool.sent
    counts = predict_file(pooled, texts, out, HOW)
    assert pool.sent > sent and pool._executors != [executor]
    predict_file(Engine.load(tiny_retro, device="cpu", threads=1), texts, again, HOW)
    assert counts == {"ok": len(texts)}
    rows = [[line.rsplit(",", 1)[0] for line in file.read_text().splitlines()] for file in (out, again)]
    assert rows[0] == rows[1]  # but for the seconds


@pytest.mark.slow  # three processes, and hundreds of queries, so that there is time to interrupt
def test_ctrl_c_ends_the_command_which_goes_on_when_it_is_given_again(tiny_retro: Path, tmp_path: Path) -> None:
    texts = [f"{'C' * (number % 20 + 1)}O{'C' * (number // 20)}" for number in range(500)]
    (tmp_path / "in.smi").write_text("\n".join(texts))
    outs = [tmp_path / "a.csv", tmp_path / "b.csv"]
    options = ("-t", "retro", "-m", str(tiny_retro), "--max-len", "12", "--batch-size", "3", "--threads", "1")
    command = (sys.executable, "-m", "chemspec.cli", "predict", str(tmp_path / "in.smi"), *options)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    # What is started in a script's background ignores Ctrl-C, and so would this.
    heed = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    words = (*command, "--workers", "1", "-o", outs[0])
    first = subprocess.Popen(words, env=environment, start_new_session=True, preexec_fn=heed)
    while first.poll() is None and not (outs[0].exists() and outs[0].read_text().count("\n") > 25):
        time.sleep(0.01)
    os.killpg(first.pid, signal.SIGINT)  # as a terminal does it: the workers get it too
    assert first.wait() == 130
    assert 25 < outs[0].read_text().count("\n") < len(texts)
    for out, workers in zip(outs, "10", strict=True):
        subprocess.run((*command, "--workers", workers, "-o", out), env=environment, check=True)
    # But for passes and seconds: beside workers a wider search starts anew.
    rows = [[(cells[:-3], cells[-2]) for cells in csv.reader(out.read_text().splitlines())] for out in outs]
    assert rows[0] == rows[1] and len(rows[0]) == len(texts) + 1


def test_after_many_deaths_all_is_done_here(monkeypatch: pytest.MonkeyPatch) -> None:
    from concurrent.futures.process import BrokenProcessPool

    class Dead:
        def __init__(self, *_: object, **__: object) -> None:
            made.append(1)

        def submit(self, *_: object) -> None:
            raise BrokenProcessPool

        def shutdown(self, **_: object) -> None: ...

    made: list[int] = []
    monkeypatch.setattr("chemspec.engine.molecules.ProcessPoolExecutor", Dead)
    pool = MoleculePool(2)
    pool.prefetch([("canonical", "OCC")] * 3)
    assert pool.job_result("canonical", "OCC") == "CCO" and not pool.sent
    assert len(made) == 3


def test_what_is_kept_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    class Idle:
        def __init__(self, *_: object, **__: object) -> None: ...

        def submit(self, _: object, jobs: list[object]) -> object:
            sizes.append(len(jobs))
            return object()

        def shutdown(self, **_: object) -> None: ...

    sizes: list[int] = []
    monkeypatch.setattr("chemspec.engine.molecules.ProcessPoolExecutor", Idle)
    monkeypatch.setattr("chemspec.engine.molecules.KEPT", 10)
    pool = MoleculePool(1)
    for start in range(0, 400, 100):
        pool.prefetch(("canonical", str(number)) for number in range(start, start + 100))
        assert len(pool._known) <= 110
    assert max(sizes) == CHUNK and sum(sizes) == 400


def test_processes_are_for_files_on_a_gpu_unless_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chemspec.cli.predict.usable_cores", lambda: 16)
    assert [_worker_count(-1, device, True) for device in ("cpu", "cuda", "cuda:1")] == [0, 8, 8]
    assert _worker_count(-1, "cuda", False) == 0 and _worker_count(3, "cpu", False) == 3
    monkeypatch.setattr("chemspec.cli.predict.usable_cores", lambda: 2)
    assert _worker_count(-1, "cuda", True) == 0
