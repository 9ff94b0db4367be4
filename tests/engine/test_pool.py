"""Several engines, one queue: on two CPUs' worth of processes, as on two GPUs."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from small import QUERIES, tiny_folder

from chemspec.cli import options
from chemspec.engine import pool
from chemspec.engine.engine import Engine
from chemspec.engine.pool import EnginePool
from chemspec.settings import DecodeSettings

HOW = DecodeSettings(decoder="greedy", n=1, max_len=12, batch_size=2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_folder(tmp_path_factory.mktemp("model") / "m")


@pytest.fixture(scope="module")
def both(folder: Path) -> Iterator[EnginePool]:
    with EnginePool(folder, ["cpu", "cpu"], threads=1) as found:
        yield found


@pytest.mark.smoke  # starts two processes that import torch
def test_answers_are_one_engines_in_the_order_of_the_queries(folder: Path, both: EnginePool) -> None:
    engine = Engine.load(folder, device="cpu", threads=1)
    queries = [*QUERIES, "CC(", *QUERIES[::-1]]
    told: list[int] = []
    found = both.predict(queries, HOW, progress=told.append)
    expected = engine.predict(queries, HOW)
    assert [one.query for one in found] == queries
    assert [one.status for one in found] == [one.status for one in expected]
    assert [one.hypotheses for one in found] == [one.hypotheses for one in expected]
    assert told == sorted(told) and told[-1] == len(queries)
    assert both.predict("CCO", HOW).hypotheses == engine.predict("CCO", HOW).hypotheses
    assert (both.name, both.task, both.digest, both.dtype) == (engine.name, engine.task, engine.digest, engine.dtype)
    assert both.device == "cpu,cpu"
    with pytest.raises(AttributeError):
        both.colour  # noqa: B018


def test_a_call_that_was_broken_off_leaves_no_answers_to_the_next(both: EnginePool) -> None:
    def fail(_: int) -> None:
        raise ZeroDivisionError

    queries = [*QUERIES, *QUERIES[::-1]]
    with pytest.raises(ZeroDivisionError):
        both.predict(queries, HOW, progress=fail)
    again = queries[::-1]
    assert [one.query for one in both.predict(again, HOW)] == again


def test_bad_settings_are_refused_and_the_engines_live_on(both: EnginePool) -> None:
    with pytest.raises(ValueError, match="there is no drafter 'ar'"):
        both.predict(QUERIES, HOW, drafter="ar")
    assert both.predict("CCO", HOW).status == "ok"


@pytest.mark.smoke
def test_what_a_dead_engine_was_asked_another_answers(folder: Path) -> None:
    with EnginePool(folder, ["cpu", "cpu"], threads=1) as found:
        expected = [one.hypotheses for one in found.predict(QUERIES, HOW)]
        os.kill(found._workers[0].process.pid, signal.SIGKILL)
        found._workers[0].process.join()
        with pytest.warns(UserWarning, match="1 left"):
            assert [one.hypotheses for one in found.predict(QUERIES, HOW)] == expected
        os.kill(found._workers[0].process.pid, signal.SIGKILL)
        found._workers[0].process.join()
        with pytest.warns(UserWarning, match="0 left"), pytest.raises(RuntimeError, match="died while processing"):
            found.predict(QUERIES, HOW)
        with pytest.raises(RuntimeError, match="all engines have died"):
            found.predict(QUERIES, HOW)


def test_a_model_that_cannot_be_loaded_is_said(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no model|is missing"):
        EnginePool(tmp_path / "none", ["cpu"], threads=1)
    with pytest.raises(ValueError, match="no usable GPU"):
        EnginePool(tmp_path, [])


def test_the_command_line_takes_all_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, object] = {}

    class Fake:
        task, confidence_problem = "retro", ""

        def __init__(self, name: object, devices: list[str], **options: object) -> None:
            asked.update(options, name=name, devices=devices)

    class FakePool(Fake):
        load = classmethod(EnginePool.load.__func__)  # type: ignore[attr-defined]

    monkeypatch.setattr(pool, "EnginePool", FakePool)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 3)
    options.load_engine("retro", "", device="cuda:all", dtype="bf16")
    assert asked["devices"] == ["cuda:0", "cuda:1", "cuda:2"] and asked["dtype"] == "bf16"
