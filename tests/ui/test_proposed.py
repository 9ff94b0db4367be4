"""Reagents proposed by a model: over the arrow, in the forward check and in files; asked once, missed by nobody."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import streamlit as st
from test_page_predict import result

from chemspec.review import forward_check
from chemspec.review.suggestions import Suggestion
from chemspec.settings import DecodeSettings
from chemspec.types import DecodeResult
from chemspec.ui.common import queued_engine
from chemspec.ui.predict import details, query_panel, reviewing

TARGET, ACID = "CC(=O)Nc1ccccc1", "CC(=O)O.Nc1ccccc1"
REAGENTS = "CCN=C=NCCCN(C)C.ClCCl"
ASKED = query_panel.Question("retro", "retro", TARGET, DecodeSettings())


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Who was asked what; the forward model needs the reagents."""
    told: list[tuple[str, str]] = []
    says = {f"{ACID}>>{TARGET}": REAGENTS, f"{ACID}.{REAGENTS}": TARGET}

    def decode_many(queued: Any, queries: list[str], how: DecodeSettings) -> list[DecodeResult]:
        model = queued.engine
        assert how == (forward_check.REAGENT_SETTINGS if model == "reagents" else forward_check.FORWARD_SETTINGS)
        told.extend((model, query) for query in queries)
        return [result(says.get(query, "CCO"), *["CCN", "C(", "O", "N"][: how.n - 1]) for query in queries]

    monkeypatch.setattr(queued_engine, "model_names", lambda task, **_: [task])
    monkeypatch.setattr(queued_engine, "load_engine", lambda name, **_: name)
    monkeypatch.setattr(queued_engine.QueuedEngine, "predict", decode_many)
    monkeypatch.setattr(st, "session_state", {})
    monkeypatch.setenv("CHEMSPEC_PRECEDENTS", "/nowhere")
    return told


def card(asked: query_panel.Question = ASKED) -> Suggestion:
    """The card of the acid."""
    (suggestion,) = reviewing.review_answers(asked, result(ACID)).suggestions
    return suggestion


def test_the_forward_model_is_asked_with_them_where_it_doubts(decoded: list[tuple[str, str]]) -> None:
    check = card().check
    assert check is not None and check.agrees and check.added == REAGENTS
    assert ("forward", ACID) in decoded and ("forward", f"{ACID}.{REAGENTS}") in decoded
    before = list(decoded)
    card()
    assert decoded == before, "a page is run again at every click"


def test_reactants_of_two_targets_have_an_opinion_each(decoded: list[tuple[str, str]]) -> None:
    check = card(query_panel.Question("retro", "retro", "CCO", DecodeSettings())).check
    assert check is not None and check.agrees
    check = card().check
    assert check is not None and check.product == TARGET


def test_they_stand_over_the_arrow_as_what_they_are(decoded: list[tuple[str, str]]) -> None:
    (unchecked,) = reviewing.review_answers(ASKED, result(ACID), models=False).suggestions
    assert details.conditions_over_arrow(unchecked)[1] == "usual for the class"
    shown = card()
    text, whose = details.conditions_over_arrow(shown)
    assert "DCM" in text and whose == "proposed by a model"
    assert whose in details.card_drawing(ASKED, shown, wide=True)
    record = details.answer_record(shown)
    assert record["proposed_reagents"] == REAGENTS and "DCM" in str(record["conditions"]), "as over the arrow"
    assert [one for one, _ in shown.proposed] == [REAGENTS, "CCN", "O"], "the likeliest valid ones"


def test_without_a_model_nothing_is_proposed(decoded: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queued_engine, "model_names", lambda task, **_: [] if task == "reagents" else [task])
    shown = card()
    assert shown.check is not None and not shown.check.agrees
    assert details.conditions_over_arrow(shown)[1] == "usual for the class" and shown.proposed == ()
    assert not any(model == "reagents" for model, _ in decoded)


def test_a_flask_with_a_sure_product_is_decoded_no_further(decoded: list[tuple[str, str]]) -> None:
    asked = query_panel.Question("forward", "forward", ACID, DecodeSettings())
    sure = replace(result(TARGET), hypotheses=tuple(replace(h, probability=0.95) for h in result(TARGET).hypotheses))
    assert reviewing.review_answers(asked, sure).suggestions
    assert not decoded
