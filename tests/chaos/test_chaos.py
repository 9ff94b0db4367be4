"""Faults: what is killed, has no room or no right, loses nothing and says so."""

from __future__ import annotations

import os
import resource
import signal
from pathlib import Path

import pytest
from chaos import kills
from small import QUERIES, tiny_folder

from chemspec.engine.engine import Engine
from chemspec.io import writers
from chemspec.io.readers import FileError
from chemspec.ui.batch import jobs
from chemspec.ui.common.uploads import Sheet


@pytest.mark.parametrize("name", kills.TARGETS)
def test_ten_kills_lose_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for key in ("CHEMSPEC_HOME", "CHEMSPEC_CACHE"):
        monkeypatch.setenv(key, os.environ.get(key, ""))
    assert kills.run(10, seed=1, names=(name,)) == {name: 10}


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    return Engine.load(tiny_folder(tmp_path / "model"), device="cpu", threads=1, runtime="torch")


@pytest.mark.parametrize("ending", [".csv", ".jsonl"])
@pytest.mark.parametrize("room", [0, 700, 5000])
def test_a_full_disk_is_told_and_the_same_command_goes_on(
    tmp_path: Path, engine: Engine, ending: str, room: int
) -> None:
    """A limit of file sizes stands for a full disk: the write that passes it ends in the middle."""
    out, told, queries = tmp_path / f"out{ending}", tmp_path / "told", QUERIES * 20
    child = os.fork()
    if not child:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
        try:
            writers.predict_file(engine, queries, out, kills.HOW, every=8)
        except (FileError, OSError) as error:
            os.write(1, b"")
            os._exit(3 if str(error) else 4)
        os._exit(5)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3, told
    writers.predict_file(engine, queries, out, kills.HOW)
    assert kills.asked(out.read_text(), ending) == queries


def test_a_folder_that_cannot_be_written_is_told_before_anything_is_decoded(engine: Engine) -> None:
    with pytest.raises((FileError, OSError), match=r"out\.csv|No such|not permitted"):
        writers.predict_file(engine, QUERIES, Path("/proc/out.csv"), kills.HOW)


@pytest.mark.parametrize("jump", [-1e9, -3600.0, 3600.0])
def test_a_clock_that_jumps_deletes_no_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jump: float) -> None:
    monkeypatch.setenv("CHEMSPEC_HOME", str(tmp_path))
    job = jobs.create(
        Sheet(("smiles",), (("CCO",),)), file="a", column=0, model="m", digest="d", task="retro", settings=kills.HOW
    )
    jobs.clean(job.created + jump)
    assert jobs.load(job.id) == job
