"""Results in notebooks, tables and tracebacks: short, with drawings, and safe."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest
from helpers.small import tiny_folder

import chemspec
from chemspec.engine import notebook
from chemspec.types import DecodeResult, Hypothesis

ANSWER = Hypothesis("OCC", "CCO", True, ("O", "C", "C"), (-0.1, -0.1, -0.1, -0.1), -0.4, 0.67, 0.8, calibrated=True)
FAULTY = Hypothesis("C<b>(", "", False, ("C",), (-2.0,), -2.0, 0.13, 0.0, calibrated=True)
RESULT = DecodeResult("CC(=O)OCC", "ok", "", (ANSWER, FAULTY), smiles="CCOC(C)=O", notes=("a <note>",))


def test_a_result_is_one_line() -> None:
    assert repr(RESULT) == "<DecodeResult 'CC(=O)OCC': 2 predictions, first <Hypothesis CCO: probability 0.800>>"
    assert repr(FAULTY) == "<Hypothesis C<b>( (not valid): probability 0.000>"
    assert repr(DecodeResult("C(", "invalid", "a ring is open")) == "<DecodeResult 'C(': invalid, a ring is open>"


def test_a_result_becomes_a_table() -> None:
    pytest.importorskip("pandas")
    frame = RESULT.to_frame()
    assert list(frame.columns)[:4] == ["query", "rank", "smiles", "canonical"]
    assert frame["probability"].tolist() == [0.8, 0.0] and frame["model_probability"].tolist() == [0.67, 0.13]
    assert list(DecodeResult("C(", "invalid", "").to_frame().columns) == list(frame.columns)


def test_notebooks_show_drawings_and_no_markup_of_others() -> None:
    html = notebook.result_html(RESULT)
    assert html.count("<img") == 1 and "data:image/svg" in html and "80.0%" in html
    assert "<b>(" not in html and "C&lt;b&gt;(" in html and "a &lt;note&gt;" in html
    assert "invalid: &lt;x&gt;" in notebook.result_html(DecodeResult("C(", "invalid", "<x>"))
    many = DecodeResult("C", "ok", "", (ANSWER,) * 12)
    assert notebook.result_html(many).count("<img") == 10 and "2 more predictions" in notebook.result_html(many)


def test_ipython_is_told_once_when_a_model_is_loaded(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[type, Any]] = []
    formatter = SimpleNamespace(for_type=lambda kind, show: told.append((kind, show)))
    shell = SimpleNamespace(display_formatter=SimpleNamespace(formatters={"text/html": formatter}))
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    for _ in range(2):
        chemspec.load(tiny_folder(tmp_path / "retro"), threads=1)
    assert told == [(DecodeResult, notebook.result_html)]
