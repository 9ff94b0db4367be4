"""`chemspec:` texts in the app: followed on their page, kept for another one, and what is not here is said."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("streamlit")

import streamlit as st

from chemspec.question_text import read_question
from chemspec.settings import DecodeSettings
from chemspec.ui.common import asked_text, queued_engine


@pytest.fixture
def told(state: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> list[str]:
    notes: list[str] = []
    monkeypatch.setenv("CHEMSPEC_HOME", str(tmp_path))
    monkeypatch.setattr(st, "query_params", type("Address", (dict,), {"from_dict": dict.update})())
    monkeypatch.setattr(st, "toast", notes.append)
    names = {"retro": ["retro", "mine"], "": ["retro", "mine"]}
    monkeypatch.setattr(queued_engine, "model_names", lambda task="", **_: names.get(task, []))
    return notes


def test_a_prediction_is_asked_again_with_its_options(state: Any, told: list[str]) -> None:
    settings = DecodeSettings(n=20, drafter="copy", max_len=60, guide="only amide", distinct=True)
    text = asked_text.prediction_text("mine", "retro", "CC(=O)Nc1ccccc1", 7, settings)
    assert read_question(text).page == "predict" and not asked_text.follow("CCO", "predict", pytest.fail, pytest.fail)
    answered: list[dict[str, Any]] = []
    box: list[str] = []
    assert asked_text.follow(text, "predict", box.append, lambda: answered.append(dict(st.query_params)))
    assert answered == [{"task": ["mine"], "smi": ["CC(=O)Nc1ccccc1"], "guide": ["only amide"]}] and not told
    assert box == ["CC(=O)Nc1ccccc1"]
    assert (state.predict_n, state.predict_drafter, state.predict_max_len) == (7, "copy", 60)
    assert state.predict_search == "beam", "what a text leaves out is the default"


def test_a_plan_pasted_elsewhere_opens_its_page(state: Any, told: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Any] = []
    monkeypatch.setattr(asked_text.nav, "open_page", lambda *page, **address: opened.append((*page, address)))
    text = "chemspec:plan?smi=CCO&avoid=[Na]&avoid=Cl&depth=99&order=steps&stock=common&stock=gone&n=3"
    state.predict_text = "aniline"
    box: list[str] = []
    assert asked_text.follow(text, "predict", box.append, pytest.fail)
    assert box == ["aniline"], "what was in the box before"
    asked_text.open_pending()
    asked_text.open_pending()
    assert opened == [("plan", {"smi": ["CCO"], "avoid": ["[Na]", "Cl"]})], "once"
    assert (state.plan_depth, state.plan_order, state.stock_lists) == (12, "steps", ["common"])
    assert "stock gone, n" in told[0]


def test_a_text_that_cannot_be_read_is_left_in_the_box(state: Any, told: list[str]) -> None:
    assert not asked_text.follow("chemspec:plan?fee=1", "plan", pytest.fail, pytest.fail)
    assert asked_text.PENDING not in state
