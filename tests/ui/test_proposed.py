"""Reagents proposed by a model: over the arrow, in the round trip and in files; asked once, and missed by nobody."""

from __future__ import annotations

from typing import Any

import pytest
import streamlit as st
from test_page_predict import result

from chemspec.review import forward_check, suggestions
from chemspec.settings import DecodeSettings
from chemspec.types import DecodeResult
from chemspec.ui.common import queued_engine
from chemspec.ui.predict import card_view, forward_checks, precedents, query_panel, reagent_proposals

TARGET, ACID = "CC(=O)Nc1ccccc1", "CC(=O)O.Nc1ccccc1"
REAGENTS = "CCN=C=NCCCN(C)C.ClCCl"
ASKED = query_panel.Question("retro", "retro", TARGET, DecodeSettings())


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Who was asked what; the forward model needs the reagents."""
    told: list[tuple[str, str]] = []
    says = {f"{ACID}>>{TARGET}": REAGENTS, f"{ACID}.{REAGENTS}": TARGET}

    def decode_many(model: Any, queries: list[str], how: DecodeSettings) -> list[DecodeResult]:
        assert how == (forward_check.REAGENT_SETTINGS if model == "reagents" else forward_check.FORWARD_SETTINGS)
        told.extend((model, query) for query in queries)
        return [result(says.get(query, "CCO"), *["CCN", "C(", "O", "N"][: how.n - 1]) for query in queries]

    monkeypatch.setattr(queued_engine, "model_names", lambda task, **_: [task])
    monkeypatch.setattr(queued_engine, "load_engine", lambda name, **_: name)
    monkeypatch.setattr(queued_engine, "decode_queries", decode_many)
    monkeypatch.setattr(st, "session_state", {})
    monkeypatch.setenv("CHEMSPEC_PRECEDENTS", "/nowhere")
    return told


def cards() -> list[suggestions.AnswerCard]:
    return suggestions.make_cards("retro", TARGET, result(ACID))


def test_the_forward_model_is_asked_with_them_where_it_doubts(decoded: list[tuple[str, str]]) -> None:
    (card,) = forward_checks.add_forward_checks(ASKED, cards(), "forward")  # type: ignore[arg-type]
    assert card.check is not None and card.check.agrees and card.check.added == REAGENTS
    assert ("forward", ACID) in decoded and ("forward", f"{ACID}.{REAGENTS}") in decoded
    before = list(decoded)
    forward_checks.add_forward_checks(ASKED, cards(), "forward")  # type: ignore[arg-type]
    assert decoded == before, "a page is run again at every click"


def test_an_unsure_opinion_is_asked_for_again_and_the_surer_one_kept(
    decoded: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    said = {"": (0.2, TARGET), "CCN": (0.1, TARGET), "CCO": (0.9, "CCC"), REAGENTS: (0.6, TARGET)}
    given = ["CCN", "CCO", REAGENTS]

    def check(target: str, _: DecodeResult, added: str) -> suggestions.Check:
        chance, product = said[added]
        return suggestions.Check(product == target, chance, product, added)

    monkeypatch.setattr(forward_checks, "forward_check", check)
    monkeypatch.setattr(forward_checks, "_usual_reagents", lambda *_: given[0])
    monkeypatch.setattr(forward_checks.reagent_proposals, "first_proposal", lambda *_: given[1])
    (card,) = forward_checks.add_forward_checks(ASKED, cards(), "forward")  # type: ignore[arg-type]
    assert card.check == suggestions.Check(True, 0.2, TARGET, ""), "neither a lower chance nor another product"
    given[:2] = given[1:]
    (card,) = forward_checks.add_forward_checks(ASKED, cards(), "forward")  # type: ignore[arg-type]
    assert card.check is not None and card.check.sure and card.check.added == REAGENTS
    assert len([query for model, query in decoded if model == "forward"]) == 4, "each question once"


def test_reactants_of_two_targets_have_an_opinion_each(decoded: list[tuple[str, str]]) -> None:
    other = query_panel.Question("retro", "retro", "CCO", DecodeSettings())
    (card,) = forward_checks.add_forward_checks(other, cards(), "forward")  # type: ignore[arg-type]
    assert card.check is not None and card.check.agrees
    (card,) = forward_checks.add_forward_checks(ASKED, cards(), "forward")  # type: ignore[arg-type]
    assert card.check is not None and card.check.product == TARGET


def test_they_stand_over_the_arrow_as_what_they_are(decoded: list[tuple[str, str]]) -> None:
    (card,) = cards()
    assert precedents.conditions_over_arrow(ASKED, card) == ("", "")
    reagent_proposals.propose_reagents(ASKED, [card])
    text, whose = precedents.conditions_over_arrow(ASKED, card)
    assert "DCM" in text and whose == "proposed by a model"
    assert whose in card_view.card_drawing(ASKED, card, wide=True)
    assert card_view.answer_record(ASKED, card)["proposed_reagents"] == REAGENTS
    assert card_view.answer_record(ASKED, card)["conditions"] == "", "nothing was recorded"
    assert [one for one, _ in reagent_proposals.proposed_sets(ASKED, card)] == [REAGENTS, "CCN", "O"], (
        "the likeliest valid ones"
    )


def test_without_a_model_nothing_is_proposed(decoded: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queued_engine, "model_names", lambda task, **_: [] if task == "reagents" else [task])
    (card,) = forward_checks.add_forward_checks(ASKED, cards(), "forward")  # type: ignore[arg-type]
    assert card.check is not None and not card.check.agrees
    assert (
        precedents.conditions_over_arrow(ASKED, card) == ("", "") and reagent_proposals.proposed_sets(ASKED, card) == ()
    )
    assert not any(model == "reagents" for model, _ in decoded)


def test_of_a_flask_nothing_is_asked(decoded: list[tuple[str, str]]) -> None:
    asked = query_panel.Question("forward", "forward", ACID, DecodeSettings())
    reagent_proposals.propose_reagents(asked, suggestions.make_cards("forward", ACID, result(TARGET)))
    assert not decoded
