"""What the page Predict shows of the passes behind its answers: run by run, and in one total."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape
from typing import Any

import pytest
from helpers import pages
from helpers.case_tables import table
from helpers.pages import MODELS, html, weights

from chemspec import asset_files
from chemspec.engine.engine import Engine, model_folder
from chemspec.replay.trace_view import view_trace
from chemspec.review import suggestions
from chemspec.settings import DecodeSettings
from chemspec.types import DecodeResult
from chemspec.ui.predict import answers, gallery, token_origins
from chemspec.ui.predict.query_panel import Question

LIDOCAINE = "CCN(CC)CC(=O)Nc1c(C)cccc1C"
GREEDY = DecodeSettings(decoder="greedy", n=1)


@pytest.fixture(scope="module", params=["forward", "retro"])
def greedy_runs(request: pytest.FixtureRequest) -> list[DecodeResult]:
    if not {"forward", "retro"} <= MODELS:
        pytest.skip("no models")
    engine = Engine.load(model_folder(request.param))
    return engine.predict(asset_files.bench_queries(request.param)[:8], replace(GREEDY, drafter="mixed"))


def picture(run: DecodeResult) -> token_origins.Picture:
    return token_origins.Picture(1, run.hypotheses[0].canonical, run, view_trace(run))


def drawn_copies(page: Any) -> list[Any]:
    return [item for item in page.get("bidi_component") if item.key.endswith("_origins")]


def words(text: str) -> str:
    return unescape(re.sub("<[^>]+>", "", text))


def test_a_strip_is_the_text_pass_by_pass(greedy_runs: list[DecodeResult]) -> None:
    for run in greedy_runs:
        view = view_trace(run)
        text = words(token_origins.runs_html(view))
        assert text == run.hypotheses[0].smiles + "end"
        runs = re.findall("chosen by|(\\d+) tokens? accepted", token_origins.runs_html(view).partition("<span")[2])
        assert [int(count) for count in runs if count] == [step.accepted for step in run.trace.passes if step.accepted]
        assert runs.count("") == len(run.trace.passes), "each pass chose one token itself"
        assert f" in {len(run.trace.passes)} pass" in token_origins.passes_line(picture(run))
        label = re.search('aria-label="([^"]*)"', token_origins.runs_html(view))
        assert label and "chosen by the model itself" in label[1] and run.hypotheses[0].smiles in unescape(label[1])


@weights
def test_without_drafts_nothing_is_coloured() -> None:
    engine = Engine.load(model_folder("retro"))
    first = engine.predict([LIDOCAINE], replace(GREEDY, drafter="none"))[0]
    found = suggestions.group_answers("retro", LIDOCAINE, first)
    assert token_origins.picture_of_greedy(first, found) is None
    asked = Question("retro", "retro", LIDOCAINE, replace(GREEDY, drafter="none"))
    assert answers.displayed_search(asked, first, first).drafter == "none"


def test_the_strip_belongs_to_the_card_that_has_its_answer_and_to_no_other() -> None:
    result, first = gallery.recorded_answer("retro"), gallery.recorded_answer("retro", "first")
    found = suggestions.group_answers("retro", result.query, result)
    drawn = token_origins.picture_of_greedy(first, found)
    assert drawn is not None and drawn.canonical == first.hypotheses[0].canonical
    assert found[drawn.rank - 1].best.canonical == drawn.canonical
    others = [card for card in found if card.rank != drawn.rank]
    assert token_origins.picture_of_greedy(first, others) is None


@pytest.mark.parametrize(("asked", "there"), table("ui/greedy_beside"))
def test_the_first_answer_is_decoded_greedily_where_it_is_one_of_those_asked_for(
    asked: dict[str, Any], there: bool
) -> None:
    settings = DecodeSettings(**asked)
    way = token_origins.greedy_settings(settings)
    assert (way is not None) == there
    if way:
        assert (way.decoder, way.n, way.drafter) == ("greedy", 1, settings.drafter)


@weights
def test_the_page_tells_its_searches_and_its_buttons_mean_the_one_it_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    page = pages.open_page("predict", {"task": "retro", "smi": LIDOCAINE})
    (told,) = [item for item in pages.words(page).split("\n\n") if "First answer, greedy" in item][:1] or [""]
    assert re.search(r"First answer, greedy:\*\* \d+ tokens in (\d+) passes instead of \d+", told)
    assert "**Beam of 20" in told and "same answers as without drafts" in told
    (kept,) = [key for key in page.session_state["_answers"] if key[3].decoder == "greedy"]
    gone: dict[str, Any] = {}
    monkeypatch.setattr("chemspec.ui.common.nav.open_page", lambda name, **query: gone.update({name: query}))
    page.button(key="predict_step").click().run()
    assert gone["learn"]["decoder"] == kept[3].decoder == "greedy" and gone["learn"]["drafts"] == kept[3].drafter
    page.button(key="predict_measure").click().run()
    state = page.session_state
    assert (state["speed_decoder"], state["speed_drafter"]) == ("greedy", kept[3].drafter)

    (control,) = [item for item in page.segmented_control if "Copied atoms" in item.options]
    control.select("Copied atoms").run()
    assert not page.exception
    text = html(page)
    assert len(drawn_copies(page)) == 1
    assert text.count('"cs-runs"') == 1
    page.session_state["predict_text"] = "CC(=O)Nc1ccccc1"
    page.button(key="predict_ask").click().run()
    assert not page.exception and not drawn_copies(page), "it belongs to the question before"


@weights
def test_a_greedy_page_decodes_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = pages.watch_queries(monkeypatch)
    state = {"predict_search": "greedy"}
    page = pages.open_page("predict", {"task": "forward", "smi": "CC(=O)Cl.Nc1ccccc1"}, state)
    assert [settings.decoder for _, _, settings in asked] == ["greedy"]
    assert "**Greedy:** " in pages.words(page) and "First answer, greedy" not in pages.words(page)
