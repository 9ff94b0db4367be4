"""Whatever the umask, and whoever made the home: other accounts of the machine read nothing of what visitors keep."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from helpers import toy
from helpers.paths import TESTS
from typer.testing import CliRunner

from chemspec.cli.__main__ import app
from chemspec.jobs import job_queue, jobs, store
from chemspec.jobs.jobs import JOBS
from chemspec.jobs.uploads import Sheet
from chemspec.plan.expand import Expander
from chemspec.settings import DecodeSettings
from chemspec.stock.offers import PriceList
from chemspec.system import cache, files
from chemspec.ui.collect.answers import ANSWERS, SavedAnswer
from chemspec.ui.launch import server

HOW = DecodeSettings(decoder="greedy", n=1)


@pytest.fixture(params=[0o022, 0o000], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


@pytest.fixture
def open_home(umask: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home that systemd or an administrator made, with a folder of jobs that an earlier version made."""
    place = tmp_path / "home"
    (place / "jobs").mkdir(parents=True)
    (place / "jobs.lock").touch()
    for folder in (place, place / "jobs"):
        folder.chmod(0o755)
    monkeypatch.setenv("CHEMSPEC_HOME", str(place))
    monkeypatch.setenv("CHEMSPEC_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("FAKE_PREDICT", str(tmp_path))
    return place


def open_to_others(folder: Path) -> dict[str, str]:
    """The paths below a folder that other accounts may do anything with, and their modes."""
    modes = {path: path.lstat().st_mode for path in folder.rglob("*")}
    return {str(path): stat.filemode(mode) for path, mode in modes.items() if mode & 0o077}


def test_everything_below_an_open_home_is_private(open_home: Path) -> None:
    sheet, prices = Sheet(("smiles",), (("CCO",), ("x",))), PriceList({}, (), 1)
    job = jobs.create_job(sheet, file="f", column=0, model="m", digest="d", task="retro", settings=HOW, prices=prices)
    JOBS.save(job.id, replace(job, state="waiting"))
    job_queue.run_waiting_jobs([sys.executable, str(TESTS / "jobs" / "fake_predict.py")])
    assert JOBS.load(job.id).state == "done"
    ANSWERS.save("a" * 22, SavedAnswer("q", "retro", "m", "CCO", "CC"))
    made = {path.name for path in open_home.rglob("*")}
    assert made >= {"jobs", "jobs.lock", "log", "rows.jsonl", "rows.jsonl.settings.json"}
    assert made >= {"prices.json", "input.jsonl", store.FILE}
    assert open_to_others(open_home) == {}


def test_what_is_cached_of_visitors_is_private(open_home: Path, tmp_path: Path) -> None:
    Expander(toy.retro()).expand([toy.AMIDE])  # type: ignore[arg-type]
    cache.write_cached("stock", json.dumps(["CCO"]).encode())
    endings = sorted(path.suffix for path in (tmp_path / "cache").iterdir())
    assert endings == ["", ".sqlite", ".sqlite-shm", ".sqlite-wal"]
    assert (tmp_path / "cache").stat().st_mode & 0o077 == 0
    assert open_to_others(tmp_path / "cache") == {}


def test_a_home_that_is_not_there_is_made_private(umask: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHEMSPEC_HOME", str(tmp_path / "new" / "home"))
    store.ensure_home()
    assert open_to_others(tmp_path) == {}
    assert files.permission_warning() == ""


def test_the_command_that_starts_the_app_tells_of_an_open_home(
    open_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[object] = []
    monkeypatch.chdir(open_home)  # which the command leaves
    monkeypatch.setattr(server, "run_server", lambda *_, **options: started.append(options))
    assert f"chmod 700 {open_home}" in CliRunner().invoke(app, ["app"]).stderr
    warning, _, command = files.permission_warning().partition("To close it: ")
    assert str(open_home) in warning and command.startswith("chmod 700 ")
    assert os.system(command) == 0
    assert files.permission_warning() == ""
    assert CliRunner().invoke(app, ["app"]).stderr == ""
    assert len(started) == 2  # it starts all the same
