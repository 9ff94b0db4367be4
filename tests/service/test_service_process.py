"""`chemspec serve` as a process: it stops when it is asked to, and dies without losing what it has promised."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from helpers import rawhttp
from helpers.serving import HURRY, Load, Process, until
from helpers.small import QUERIES

from chemspec.client import ServiceError
from chemspec.engine.engine import Engine

pytest.importorskip("fastapi")


@pytest.fixture
def expected(engines: dict[str, Engine]) -> dict[str, list[str]]:
    results = engines["retro"].predict(QUERIES, n=3, max_len=30, decoder="beam")
    return {one.query: [answer.smiles for answer in one.hypotheses] for one in results}


@pytest.mark.smoke  # starts a process, which imports torch
def test_it_listens_on_this_machine_only_and_a_stop_finishes_what_was_accepted(
    tmp_path: Path, folders: dict[str, Path], expected: dict[str, list[str]]
) -> None:
    with Process(tmp_path, [folders["retro"]]) as process:
        assert "on a free port of 127.0.0.1, which the log names" in process.log()
        assert not rawhttp.listening(process.port)
        load = Load(process.url, 8, retry_seconds=0.0)
        until(lambda: len(load.answered) > 20, "some answers")
        assert process.stop(signal.SIGTERM) == 0
        load.end()
    # Every request was answered in full, or never begun: none was cut off.
    assert right(load, expected)
    for error in load.failed:
        assert isinstance(error, ServiceError)
        assert error.code == "stopping" or "cannot be reached" in str(error), error
    lines = [json.loads(line) for line in process.log().splitlines() if line.startswith("{")]
    served = [line for line in lines if line.get("route") == "/v1/predict"]
    assert {line["status"] for line in served} <= {200, 503}
    assert sum(line["status"] == 200 for line in served) == len(load.answered)  # nobody's answer got lost


@pytest.mark.slow  # starts processes, which import torch
def test_killed_and_started_again_under_load_clients_that_ask_again_lose_nothing(
    tmp_path: Path, folders: dict[str, Path], expected: dict[str, list[str]]
) -> None:
    with Process(tmp_path, [folders["retro"], folders["forward"]], "--quiet") as process:
        port = process.port  # stated with --quiet, too
        (tmp_path / "other").mkdir()
        with pytest.raises(AssertionError, match="the port is in use or the host unusable"):
            Process(tmp_path / "other", [folders["retro"]], port=port)
        load = Load(process.url, 8, retry_seconds=HURRY)
        until(lambda: len(load.answered) > 20, "some answers")
        process.stop(signal.SIGKILL)
    before = len(load.answered)
    with Process(tmp_path, [folders["retro"], folders["forward"]], port=port) as process:
        until(lambda: len(load.answered) > before + 20, "answers after the restart")
        load.end()
        assert not load.failed and right(load, expected)  # whoever asked again got an answer
        assert process.stop() == 0


def right(load: Load, expected: dict[str, list[str]]) -> bool:
    """Whether every answer is complete and that of the engine."""
    return all([one.smiles for one in result.answers] == expected[result.query] for result in load.answered)
