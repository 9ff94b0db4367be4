"""Other programs beside ours: each is compared with our standard decoder; one that is missing is named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from helpers.small import two_tiny_folders
from helpers.small_bench import bench_in_small
from programs import other_programs

from chemspec.bench.settings import BenchSettings
from chemspec.bench.sweep import Setting
from chemspec.settings import DecodeSettings


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return two_tiny_folders(tmp_path_factory.mktemp("models"))


@pytest.fixture(autouse=True)
def _home(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench_in_small(home, monkeypatch)


def test_the_decoder_without_a_cache_gives_the_same_answers() -> None:
    plan = BenchSettings(tasks=("retro",), limit=4, widths=(2,), batches=(1, 2), threads=1)
    rows = other_programs.run(plan, ("chemspec", "naive"))["rows"]
    (naive,) = [row for row in rows if row["engine"] == "naive"]  # it knows no batches
    assert (naive["queries"], naive["identical"], naive["passes_per_query"]) == (3, True, None)


def test_a_drafter_that_knows_the_answer_needs_one_pass() -> None:
    plan = BenchSettings(tasks=("retro",), limit=6, widths=(1, 2), batches=(1, 4), drafters=("copy",), threads=1)
    rows = other_programs.run(plan, ("chemspec", "oracle"))["rows"]
    assert all(row["identical"] for row in rows)
    told = [row for row in rows if row["drafter"] == "oracle"]
    assert [(row["decoder"], row["batch"]) for row in told] == [("greedy", 1), ("greedy", 4)]
    for row in told:
        assert row["passes_per_query"] == 1
        (standard,) = (
            other for other in rows if other["drafter"] == "none" and (other["n"], other["batch"]) == (1, row["batch"])
        )
        assert row["nodes_per_pass"] == row["tokens_per_pass"] == standard["passes_per_query"]


def test_ctranslate2_runs_on_the_same_weights() -> None:
    pytest.importorskip("ctranslate2")
    plan = BenchSettings(tasks=("forward",), limit=4, batches=(1, 3), threads=1)
    rows = other_programs.run(plan, ("ctranslate2", "chemspec"))["rows"]
    exact = [row for row in rows if row["dtype"] == "float32"]
    assert len(exact) == 2
    assert all(row["identical"] for row in exact)
    assert {row["note"] for row in exact} == {other_programs.EARLY}
    assert sum(row["dtype"] == "int8" for row in rows) == 2


def test_what_cannot_run_is_left_out_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: Any) -> list[other_programs.Program]:
        raise ModuleNotFoundError("CTranslate2 is not installed")

    monkeypatch.setitem(other_programs.ENGINES, "ctranslate2", missing)
    report = other_programs.run(
        BenchSettings(tasks=("forward",), limit=1, drafters=("none",), threads=1), ["chemspec", "naive", "ctranslate2"]
    )
    assert report["notes"] == ["ctranslate2 left out: CTranslate2 is not installed"]
    assert [row["engine"] for row in report["rows"]] == ["chemspec", "naive"]


def test_other_programs_take_turns_too_and_are_compared_in_their_precision() -> None:
    """Slow programs that a few queries suffice for come last, by themselves."""
    seen: list[str] = []

    def racer(name: str, dtype: str) -> other_programs.Program:
        def answer(queries: Sequence[str], settings: DecodeSettings) -> list[list[tuple[int, ...]]]:
            seen.append(name + dtype)
            return [[(1,)] for _ in queries]

        return other_programs.Program(name, "1", "runtime", dtype, "cpu", answer)

    racers = [
        racer("chemspec", "fp32"),
        racer("ctranslate2", "float32"),
        racer("ctranslate2", "int8"),
        racer("naive", "fp32"),
    ]
    setting = Setting("", DecodeSettings(decoder="greedy", n=1, batch_size=1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(other_programs.SLOW, "naive", {"greedy": 1})
        rows = other_programs.race(SimpleNamespace(name="m"), ["C", "CC"], setting, programs=racers)  # type: ignore[arg-type]
    warm = seen.index("chemspecfp32", 1)
    assert seen[warm : warm + 3] == ["chemspecfp32", "ctranslate2float32", "ctranslate2int8"]
    assert seen[-1] == "naivefp32" and len(rows) == 4
    assert rows[0].facts["peer"] is not None and all(row.facts["peer"] is None for row in rows[1:])
    assert rows[3].sizes == (1,)


def test_an_unknown_program_is_refused() -> None:
    with pytest.raises(ValueError, match="no engine 'steam'; there are chemspec, oracle"):
        other_programs.run(BenchSettings(), ("steam",))


def test_racers_of_a_heat_take_turns_and_few_batches_are_run_again() -> None:
    seen: list[tuple[str, str]] = []

    def racer(drafter: str) -> Any:
        def answer(queries: Sequence[str], settings: DecodeSettings) -> list[list[tuple[int, ...]]]:
            seen.extend((drafter, query) for query in queries)
            return [[(len(query),)] for query in queries]

        return other_programs.Program("x", "1", "runtime", "fp32", "cpu", answer, drafter)

    queries = [f"C{'C' * number}" for number in range(40)]
    plain = DecodeSettings(decoder="greedy", n=1, batch_size=4)
    told: list[str] = []
    last = replace(racer("copy"), prepare=lambda part, _: told.extend(part))
    one, other = other_programs.time_programs([racer("none"), last], queries, Setting("", plain))
    assert told == [*queries[-other_programs.WARM_UP_QUERIES :], *queries]  # before the clock starts
    assert one.answers == other.answers == [[(len(query),)] for query in queries]
    timed = seen[2 * other_programs.WARM_UP_QUERIES :]  # a warm-up of the longest comes first
    assert {query for _, query in seen[: 2 * other_programs.WARM_UP_QUERIES]} == set(
        queries[-other_programs.WARM_UP_QUERIES :]
    )
    assert [who for who, _ in timed[:32:4]] == ["none", "copy"] * 2 + ["copy", "none"] * 2
    assert sorted(timed) == sorted((who, query) for who in ("none", "copy") for query in queries * 2)
