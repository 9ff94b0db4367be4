"""The depth "Step through" of How it works: links, examples, the form."""

from __future__ import annotations

import json
from typing import Any

import pytest
from helpers import pages
from helpers.pages import html, weights
from streamlit.testing.v1 import AppTest

from chemspec import chem, metrics
from chemspec.engine.engine import Engine, model_folder, usable_drafters
from chemspec.replay.explanation import DRAFT_LENGTH
from chemspec.settings import DecodeSettings
from chemspec.ui.step import search_form

QUERY = "CC(=O)Cl.Nc1ccccc1"

pytestmark = pytest.mark.ui


def opened(**query: str) -> AppTest:
    return pages.open_page("learn", {"depth": "step", **query})


def last_asked(app: AppTest) -> tuple[str, DecodeSettings]:
    """Query and settings of the newest search."""
    *_, (*_, query, settings) = app.session_state["_answers"]
    return query, settings


def players(app: AppTest) -> list[Any]:
    return [component for component in app.get("bidi_component") if component.key == "trace_player"]


@weights
def test_the_page_opens_with_an_example_and_offers_others() -> None:
    app = opened()
    assert len(players(app)) == 1 and "smi" not in app.query_params
    assert "cceptance rate" not in players(app)[0].proto.json, "which is the share of the answer, in the depth Speed"
    assert not app.get("vega_lite_chart"), "the charts belong to the scroll, which is closed"
    names = [one.key for one in app.button if (one.key or "").startswith("step_example")]
    assert len(names) == len(search_form.step_examples())
    for name, example in zip(names, search_form.step_examples(), strict=True):
        app.button(key=name).click().run()
        assert not app.exception and len(players(app)) == 1
        assert example["line"] in [caption.value for caption in app.caption]  # no tooltip, which covers the form
        _, settings = last_asked(app)
        assert app.selectbox(key="step_decoder").value == example["decoder"]
        assert settings.decoder == {"spec-verification": "greedy"}.get(example["decoder"], example["decoder"])
        assert settings.exact == (example["decoder"] in ("greedy", "beam"))
        greedy = example["decoder"] == "greedy"
        assert settings.draft_length == example.get("length", DRAFT_LENGTH if greedy else 0)


@weights
def test_the_boc_protection_of_the_paper_is_answered_with_its_product_and_its_drafts() -> None:
    example = next(one for one in search_form.step_examples() if one.get("drafter") == "windows")
    settings = DecodeSettings(
        decoder="greedy", n=1, drafter="windows", drafting="fixed", draft_length=example["length"]
    )
    (answer,) = Engine.load(model_folder("forward")).predict([example["query"]], settings)
    assert answer.hypotheses[0].canonical == chem.canonical("CC(=O)c1ccc2c(ccn2C(=O)OC(C)(C)C)c1")
    assert 0 < 2 * len(answer.trace.passes) < (metrics.count_savings(answer).standard or 0)


@weights
def test_a_link_runs_at_once_and_a_bad_one_says_why() -> None:
    app = opened(task="forward", smi=QUERY)
    assert len(players(app)) == 1
    assert app.session_state["learn_text"] == QUERY
    first = app.session_state["step_played"]
    app.session_state["learn_text"] = "aniline, acetyl chloride, DCM"
    app.button(key="learn_run").click().run()
    assert app.session_state["step_played"] == first, "a trace plays by itself once a visit"
    assert "DCM: dichloromethane; read as a list" in html(app)
    app = opened(task="nonsense", smi="CC(")
    assert len(players(app)) == 1 and "learn_asked" not in app.session_state, "the example"
    assert "nonsense" in app.warning[0].value
    assert "never closed" in html(app) and "^" in html(app)


@weights
def test_a_link_may_leave_out_the_drafter_or_the_number_of_answers() -> None:
    for address, chosen in (
        ({"decoder": "beam", "n": "3"}, ("beam", 3, "copy")),
        ({"decoder": "beam", "drafts": "windows"}, ("beam", 5, "windows")),
        ({"decoder": "beam", "n": "many", "drafts": "nonsense"}, ("beam", 5, "copy")),
        ({"decoder": "nonsense", "n": "3"}, ("greedy", 1, "copy")),
    ):
        _, settings = last_asked(opened(task="forward", smi=QUERY, **address))
        assert (settings.decoder, settings.n, settings.drafter) == chosen


@weights
def test_the_form_runs_what_it_says() -> None:
    app = opened(task="forward", smi=QUERY)
    app.selectbox(key="step_decoder").set_value("beam").run()
    app.selectbox(key="step_drafter").set_value("windows")
    app.number_input(key="step_n").set_value(3)
    app.number_input(key="step_length").set_value(5)
    app.session_state["learn_text"] = "CCO.CC(=O)Cl"
    app.button(key="learn_run").click().run()
    assert not app.exception
    query, settings = last_asked(app)
    assert (query, settings.decoder, settings.drafter) == ("CC(=O)Cl.CCO", "beam", "windows")
    assert (settings.n, settings.draft_length, settings.record) == (3, 5, True)
    assert app.query_params["smi"] in ("CC(=O)Cl.CCO", ["CC(=O)Cl.CCO"])


def scene(app: AppTest) -> dict[str, Any]:
    """What the player draws."""
    (player,) = players(app)
    return dict(json.loads(player.proto.json)["scenes"][0])


@weights
def test_sbs_is_stepped_through_with_its_drafts_and_says_that_it_is_relaxed() -> None:
    """Figure 3 of Andronov et al.: in the first pass a draft of ten tokens is accepted in full."""
    example = next(one for one in search_form.step_examples() if one["decoder"] == "sbs")
    app = opened(task="forward", smi=example["query"], decoder="sbs", n="2", drafts="windows", length="10")
    assert not app.exception
    _, settings = last_asked(app)
    assert (settings.decoder, settings.n, settings.drafter, settings.draft_length) == ("sbs", 2, "windows", 10)
    assert app.query_params["length"] in ("10", ["10"])
    assert any("Relaxed" in one.value for one in app.caption)
    drawn = scene(app)
    assert len(drawn["answers"]) == 2 and drawn["uneven"] and drawn["relaxed"] and drawn["tree"]
    first, *_, last = drawn["passes"]
    assert 2 * len(drawn["passes"]) < last["written"]
    assert (first["drafts"][0]["accepted"], len(first["drafts"][0]["tokens"]), first["emitted"]) == (10, 10, 11)
    assert any(not draft["accepted"] and not draft["waiting"] for draft in first["drafts"])


@weights
def test_where_the_model_looks_is_drawn_on_request() -> None:
    app = opened(task="retro", smi="CCOC(C)=O", way="greedy")
    assert not app.exception and "Diagonals" not in pages.words(app)
    app.toggle(key="step_attention").set_value(True).run()
    assert not app.exception and "Diagonals" in pages.words(app)
    picture = html(app)
    assert "data:image/svg" in picture
    assert "the token of the query with most weight: " in picture and picture.count("; ") > 3


@weights
def test_spec_verification_is_stepped_through_and_shows_what_the_model_would_have_written() -> None:
    example = next(one for one in search_form.step_examples() if one["decoder"] == "spec-verification")
    if "spec_drafter" not in usable_drafters(model_folder(example["task"])):
        pytest.skip("no drafter spec_drafter for the example's model")
    way = {"decoder": "spec-verification", "n": "1", "drafts": "spec_drafter"}
    app = opened(task=example["task"], smi=example["query"], **way)
    _, settings = last_asked(app)
    assert (settings.decoder, settings.beta, settings.tau, settings.exact) == ("greedy", 3, 1.0, False)
    lesser = [token for token in scene(app)["answers"][0]["tokens"] if token["instead"]]
    assert [(token["text"], token["instead"][0], token["origin"]) for token in lesser] == [("Br", "Cl", "ahead")]
    assert any("not the model's first choice" in step["summary"] for step in scene(app)["passes"])


@weights
def test_a_draft_longer_than_its_drafter_can_write_is_refused_in_words() -> None:
    if "medusa" not in usable_drafters(model_folder("retro")):
        pytest.skip("no drafter medusa for retro")
    app = opened(task="retro", smi="CCOC(C)=O")
    app.selectbox(key="step_drafter").set_value("medusa")
    app.number_input(key="step_length").set_value(50)
    app.button(key="learn_run").click().run()
    assert not app.exception
    assert "8 heads" in str(app.error[0].value)
