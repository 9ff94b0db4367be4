"""Faults: what is killed, has no room or no right, loses nothing and says so."""

from __future__ import annotations

import gc
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from helpers import toy
from helpers.small import QUERIES, tiny_folder
from programs import kills, nth_write

from chemspec.engine.engine import Engine
from chemspec.io import writers
from chemspec.io.readers import FileError
from chemspec.jobs.jobs import JOBS
from chemspec.jobs.store import Documents
from chemspec.plan.expand import Expander
from chemspec.plan.search import plan
from chemspec.plan.settings import PlanSettings
from chemspec.system import cache
from chemspec.ui.collect.answers import ANSWERS, SavedAnswer

SLOW = ("training", "runners")  # each kill costs a training, or two programs that start
QUICK = [name for name in kills.TARGETS if name not in SLOW]
FULL_DISKS = ("answers", "collections")  # at every push: one of files, one of the database; jobs every night


@pytest.fixture(autouse=True)
def _own_places(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for key in ("CHEMSPEC_HOME", "CHEMSPEC_CACHE", "FAKE_PREDICT"):  # which the targets set
        monkeypatch.setenv(key, os.environ.get(key, str(tmp_path / key)))


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A library for LD_PRELOAD that makes the disk slow or full."""
    if not (compiler := shutil.which("cc")):
        pytest.skip("no C compiler here")
    library, source = tmp_path_factory.mktemp("disk") / "disk.so", Path(kills.__file__).with_name("faulty_disk.c")
    subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    return str(library)


@pytest.mark.parametrize("name", [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)])
def test_two_kills_lose_nothing(name: str) -> None:
    assert kills.run(2, seed=1, names=(name,)) == {name: 2}


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("name", kills.TARGETS)
def test_two_hundred_kills_lose_nothing(name: str) -> None:
    share = 200 // len(kills.TARGETS) + 1
    assert kills.run(share, seed=int(time.time() // 86_400), names=(name,)) == {name: share}


@pytest.mark.slow  # processes that start, and wait for the disk
@pytest.mark.nightly
def test_kills_on_a_slow_disk_lose_nothing(disk: str) -> None:
    each, names = 4, [name for name in QUICK if name != "routes"]  # which takes three seconds a kill there
    command = [sys.executable, kills.__file__, str(each * len(names)), "1", *names]
    slow = {**os.environ, "LD_PRELOAD": disk, "SLOW_DISK_MS": "5"}
    told = subprocess.run(command, env=slow, capture_output=True, text=True, timeout=600)
    assert told.returncode == 0, told.stderr
    assert told.stdout.endswith(f"{dict.fromkeys(names, each)}\n")


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    return Engine.load(tiny_folder(tmp_path / "model"), device="cpu", threads=1, runtime="torch")


@pytest.mark.parametrize("ending", [".csv", ".jsonl"])
@pytest.mark.parametrize("room", [0, 700, 5000])
def test_a_full_disk_is_told_and_the_same_command_goes_on(
    tmp_path: Path, engine: Engine, ending: str, room: int
) -> None:
    """A limit of file sizes stands for a full disk: the write that passes it ends in the middle."""
    out, queries = tmp_path / f"out{ending}", QUERIES * 20

    def fails() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
        writers.predict_file(engine, queries, out, kills.HOW, every=8)

    assert nth_write.in_fork(fails) == 3
    writers.predict_file(engine, queries, out, kills.HOW)
    assert kills.asked(out.read_text(), ending) == queries


def test_a_folder_that_cannot_be_written_is_told_before_anything_is_decoded(engine: Engine) -> None:
    with pytest.raises((FileError, OSError), match=r"out\.csv|No such|not permitted"):
        writers.predict_file(engine, QUERIES, Path("/proc/out.csv"), kills.HOW)


@pytest.mark.parametrize("jump", [-1e9, -3600.0, 3600.0, 31 * 86_400.0, 91 * 86_400.0, 1e9])
def test_a_clock_that_jumps_deletes_no_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jump: float) -> None:
    monkeypatch.setenv("CHEMSPEC_HOME", str(tmp_path))
    job = nth_write.new_job()
    for now in (jump, jump + 80_000.0, 0.0, jump, jump + 80_000.0):  # set right within a day, and wrong again
        JOBS.make_room(job.created + now)
        assert JOBS.load(job.id) == job


# --- what the app keeps ---------------------------------------------------------------------------


def keep(answers: Documents[SavedAnswer], name: str) -> None:
    answer = SavedAnswer(name, "retro", "m", "CCO", "CC.O")
    answers.save(answer.id, answer)


def names(answers: Documents[SavedAnswer]) -> set[str]:
    return {answer.question for answer in answers.all().values()}


def no_right(folder: Path) -> None:
    """Become a user who may look into a folder, and no more."""
    for place in (folder, *folder.rglob("*")):
        place.chmod(0o555 if place.is_dir() else 0o444)
    if os.getuid() == 0:  # to whom bits of permission mean nothing
        os.setgid(65534)
        os.setuid(65534)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user can reach, unlike those of pytest."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def test_what_may_not_be_kept_is_told_and_what_was_kept_stays(open_folder: Path) -> None:
    store = replace(ANSWERS, home=open_folder)
    keep(store, "x")

    def fails() -> None:
        no_right(open_folder)
        keep(store, "y")

    assert nth_write.in_fork(fails) == 3
    open_folder.chmod(0o755)
    for file in open_folder.iterdir():
        file.chmod(0o644)
    keep(store, "after")
    assert names(store) == {"x", "after"}


@pytest.mark.parametrize("left", [0, 10, 100, 5000])
def test_a_truncated_table_of_answers_is_begun_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: int) -> None:
    monkeypatch.setenv("CHEMSPEC_CACHE", str(tmp_path))
    stock, how = toy.stock(tmp_path), PlanSettings(seconds=600.0, expansions=20)

    def routes() -> object:
        model = toy.retro()
        found = plan(toy.AMIDE, Expander(model), stock, how)  # type: ignore[arg-type]
        gc.collect(1)  # closes the table; all objects of a process with thousands of tests take a second
        return [one.signature for one in found.routes], model.asked

    wanted, asked = routes()  # type: ignore[misc]
    assert routes() == (wanted, [])
    (file,) = tmp_path.glob("plan-*.sqlite")
    file.write_bytes((file.read_bytes() + b"x" * 5000)[:left].ljust(left, b"x"))
    assert routes() == (wanted, asked)  # asked again
    if left != 5000:
        assert routes() == (wanted, [])  # and kept again


def test_two_servers_on_one_home_keep_everything(tmp_path: Path) -> None:
    store = replace(ANSWERS, home=tmp_path)

    def work(server: int) -> None:
        for number in range(40):
            keep(store, f"{server}-{number}")
            cache.write_cached("x", bytes([server]) * 5000)

    children = []
    for server in (1, 2, 3):
        if not (child := os.fork()):
            try:
                work(server)
            except BaseException:
                os._exit(5)
            os._exit(0)
        children.append(child)
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0, 0, 0]
    every = [(server, number) for server in (1, 2, 3) for number in range(40)]
    assert names(store) == {f"{server}-{number}" for server, number in every}
    assert cache.read_cached("x") in [bytes([server]) * 5000 for server in (1, 2, 3)]


@pytest.mark.slow  # a program that starts
@pytest.mark.parametrize(
    "name", [name if name in FULL_DISKS else pytest.param(name, marks=pytest.mark.nightly) for name in nth_write.CASES]
)
def test_whichever_write_finds_the_disk_full_nothing_is_lost(tmp_path: Path, disk: str, name: str) -> None:
    command = [sys.executable, nth_write.__file__, name, str(tmp_path / "home")]
    tests = str(Path(kills.__file__).parents[1])
    search = os.pathsep.join([tests, str(Path(tests).parent)])
    faulty = {**os.environ, "LD_PRELOAD": disk, "PYTHONPATH": search}
    told = subprocess.run(command, env=faulty, capture_output=True, text=True, timeout=600)
    assert told.returncode == 0, told.stderr
    writes, failed = map(int, told.stdout.split())
    assert writes >= failed >= 3  # SQLite needs no word where only its log could not be emptied
