"""The figure of a query's walk in how-it-works.md, kept true by following the calls of one prediction."""

from __future__ import annotations

import re
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from call_profile import with_profile
from compilers import skip_without_compiler
from paths import ROOT
from small import QUERIES, tiny_folder

import chemspec
from chemspec.decode.compiled.build import loop_library
from chemspec.engine.engine import Engine
from chemspec.model.cost import CostCurve

FIGURE = re.compile(r"## The walk of a query\n.*?```text\n(.*?)```", re.DOTALL)
NAME = re.compile(r"\b(?:[A-Z]\w*[a-z]\w*\.\w+|[a-z]+(?:_[a-z]+)+)\b")  # Class.method, or a function with underscores


def figure_names() -> list[str]:
    """The functions in the figure, from top to bottom."""
    match = FIGURE.search((ROOT / "assets" / "docs" / "how-it-works.md").read_text(encoding="utf-8"))
    assert match is not None
    return NAME.findall(match[1])


def called_names(work: Any) -> list[str]:
    """The functions of chemspec that are called, in the order of their first calls."""
    names: dict[str, None] = {}
    package = str(Path(chemspec.__file__).parent)

    def record(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(package):
            names.setdefault(frame.f_code.co_qualname)

    with_profile(work, record)
    return list(names)


def test_the_figure_shows_the_calls_of_a_query_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    skip_without_compiler()
    engine = Engine.load(tiny_folder(tmp_path / "retro"), device="cpu", threads=1)
    assert engine.runtime == "native" and loop_library() is not None
    monkeypatch.setattr(engine.resources, "_curve", CostCurve((1, 128), (1.0, 1.1)))  # drafts pay
    engine.predict(QUERIES[0])
    expected = figure_names()
    assert len(expected) >= 12
    called = called_names(lambda: engine.predict(QUERIES[1]))
    assert [name for name in called if name in expected] == expected
