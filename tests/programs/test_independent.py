"""The engine answers as an implementation does that shares no code with it: numpy, straight from the file."""

from __future__ import annotations

import ast
import shutil
from pathlib import Path

import pytest
from helpers.small import QUERIES, tiny_folder
from helpers.thinned import every
from programs import independent
from programs.comparison import by_numpy, written

from chemspec import asset_files
from chemspec.engine.engine import Engine, installed_models
from chemspec.settings import DecodeSettings
from chemspec.types import FinishedSequence

GREEDY = DecodeSettings(decoder="greedy", n=1, drafter="mixed", batch_size=3)
BEAM = DecodeSettings(decoder="beam", n=10, drafter="copy", batch_size=3)
DTYPES = ["fp32", "int8"]


def both(
    engine: Engine, queries: list[str], how: DecodeSettings
) -> list[tuple[list[FinishedSequence], list[FinishedSequence]]]:
    """What numpy answers, and what the engine answers."""
    expected = by_numpy(engine, how)([engine.prepare(query).ids for query in queries])
    return list(zip(expected, (written(engine, result) for result in engine.predict(queries, how)), strict=True))


def off(pairs: list[tuple[list[FinishedSequence], list[FinishedSequence]]]) -> float:
    """By how much scores differ at most; infinity where texts do."""
    if any([one.tokens for one in left] != [one.tokens for one in right] for left, right in pairs):
        return float("inf")
    return max(
        abs(a - b)
        for left, right in pairs
        for one, other in zip(left, right, strict=True)
        for a, b in zip(one.log_probs, other.log_probs, strict=True)
    )


def test_it_shares_no_code() -> None:
    tree = ast.parse(Path(independent.__file__).read_text(encoding="utf-8"))
    names = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    names |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    allowed = {"__future__", "json", "math", "collections.abc", "dataclasses", "pathlib", "typing"}
    assert names == allowed | {"numpy", "numpy.typing"}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("how", [GREEDY, BEAM], ids=["greedy", "beam"])
@pytest.mark.parametrize("heads", every(2, [4, 2]))
def test_a_small_model_answers_the_same(tmp_path: Path, dtype: str, how: DecodeSettings, heads: int) -> None:
    folder = tiny_folder(tmp_path / "retro", heads=heads)
    engine = Engine.load(folder, device="cpu", dtype=dtype, threads=1)
    assert off(both(engine, QUERIES, how)) <= (0 if dtype == "int8" else 2e-5)


@pytest.mark.slow  # numpy decodes without a cache
@pytest.mark.parametrize("step", [10, pytest.param(5, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("task", ["forward", "retro"])
def test_a_shipped_model_answers_the_same(task: str, dtype: str, step: int) -> None:
    if task not in [folder.name for folder in installed_models()]:
        pytest.skip(f"assets/models/{task} is not there: train it or copy it")
    engine = Engine.load(task, device="cpu", dtype=dtype, threads=1)
    queries = [text for text in asset_files.bench_queries(engine.task) if not engine.prepare(text).refusal]
    bound = 0 if dtype == "int8" else 5e-5
    queries.sort(key=len)
    assert off(both(engine, queries[:40:step], GREEDY)) <= bound
    assert off(both(engine, queries[10 : 10 + 10 // step], BEAM)) <= bound


@pytest.mark.parametrize("dtype", DTYPES)
def test_it_notices_other_weights(tmp_path: Path, dtype: str) -> None:
    engine = Engine.load(tiny_folder(tmp_path / "retro"), device="cpu", dtype=dtype, threads=1)
    shutil.copytree(tiny_folder(tmp_path / "other", seed=1), engine.folder, dirs_exist_ok=True)
    assert off(both(engine, QUERIES, GREEDY)) == float("inf")


def test_a_model_that_it_does_not_know_is_refused(tmp_path: Path) -> None:
    for number, (option, value) in enumerate((("activation", "gelu"), ("gated", True), ("relative_positions", 9))):
        folder = tiny_folder(tmp_path / str(number), **{option: value})
        with pytest.raises(ValueError, match=f"{option} is {value!r}"):
            independent.IndependentModel(folder)
