"""The calls of one prediction: those of the figure in how-it-works.md, and few beside the compiled code."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from helpers.compilers import needs_compiler
from helpers.paths import ROOT
from helpers.small import QUERIES, tiny_folder

import chemspec
from chemspec.decode.compiled import loop
from chemspec.engine.engine import Engine
from chemspec.model.cost import CostCurve
from chemspec.settings import DecodeSettings

pytestmark = needs_compiler
FIGURE = re.compile(r"## The walk of a query\n.*?```text\n(.*?)```", re.DOTALL)
# Class.method, or a function with underscores; its module, of which the figure leaves out chemspec/.
STEP = re.compile(r"\b([A-Z]\w*[a-z]\w*\.\w+|[a-z]+(?:_[a-z]+)+)\b.*? ([a-z_/]+\.py)\b")
PACKAGE = str(Path(chemspec.__file__).parent)


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Engine:
    monkeypatch.setattr(loop, "MAX_NATIVE_SECONDS", 60.0)  # a busy machine must not break off passes in a row
    engine = Engine.load(tiny_folder(tmp_path / "retro"), device="cpu", threads=1)
    engine.predict(QUERIES[0])
    return engine


def called_functions(work: Callable[[], Any]) -> list[tuple[str, str]]:
    """The functions of chemspec that are called, in order, each with its module."""
    functions: list[tuple[str, str]] = []

    def record(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            module = Path(frame.f_code.co_filename).relative_to(PACKAGE).as_posix()
            functions.append((frame.f_code.co_qualname, module))

    before = sys.getprofile()
    sys.setprofile(record)
    try:
        work()
    finally:
        sys.setprofile(before)
    return functions


def test_the_figure_shows_the_calls_of_a_query_in_order(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine.resources, "measured_curve", CostCurve((1, 128), (1.0, 1.1)))  # drafts pay
    match = FIGURE.search((ROOT / "assets" / "docs" / "how-it-works.md").read_text(encoding="utf-8"))
    assert match is not None
    expected = STEP.findall(match[1])
    assert len(expected) >= 12
    assert len(expected) == match[1].count(".py")  # every module stands beside a function
    called = dict.fromkeys(called_functions(lambda: engine.predict(QUERIES[1], DecodeSettings())))
    names = {name for name, _ in expected}
    assert [step for step in called if step[0] in names] == expected


@pytest.mark.parametrize(
    ("decoder", "n", "drafter"), [("greedy", 1, "none"), ("greedy", 1, "copy"), ("beam", 10, "none")]
)
def test_python_does_little_for_a_query_and_nearly_nothing_for_a_pass(
    engine: Engine, decoder: str, n: int, drafter: str
) -> None:
    """Calls are counted, which no machine changes: some hundred to read a query and write up its results."""
    settings = DecodeSettings(decoder=decoder, n=n, drafter=drafter, max_len=60)  # type: ignore[arg-type]
    counted = []
    for each in (settings, replace(settings, max_len=30)):
        passes = len(engine.predict(QUERIES[1], each).trace.passes)
        calls = called_functions(partial(engine.predict, QUERIES[1], each))
        counted.append((len(calls), passes))
    (many, long), (few, short) = counted
    assert many < 400
    assert long - short >= 25
    assert (many - few) / (long - short) < 1
