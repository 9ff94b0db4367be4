"""What the page How it works says is what the code counts."""

from __future__ import annotations

import asyncio
import json
from importlib.util import module_from_spec, spec_from_file_location
from typing import Any

import pytest
from helpers import pages
from helpers.paths import ROOT
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("streamlit")

from helpers.pages import weights
from starlette.applications import Starlette
from streamlit.testing.v1 import AppTest

from chemspec.draft.learned.gamma import best_draft_length, expected_tokens, wall_time_improvement
from chemspec.ui.common import nav
from chemspec.ui.launch import DEPTHS, server
from chemspec.ui.learn import lessons, story


@given(st.floats(0, 0.999), st.integers(0, 40))
def test_expected_tokens_are_the_closed_form_of_the_papers(alpha: float, gamma: int) -> None:
    closed = (1 - alpha ** (gamma + 1)) / (1 - alpha)
    assert expected_tokens(alpha, gamma) == pytest.approx(closed, rel=1e-9)
    assert expected_tokens(1, gamma) == gamma + 1  # all accepted, and the model's own token


@given(st.floats(0, 1), st.floats(0, 2))
def test_drafting_pays_exactly_where_alpha_exceeds_c(alpha: float, c: float) -> None:
    """Leviathan et al., corollary 3.9, and by how much at least."""
    gain = wall_time_improvement(alpha, best_draft_length(alpha, c), c)
    if alpha > c:
        assert gain >= (1 + alpha) / (1 + c) * (1 - 1e-12)
    else:
        assert gain <= 1 + 1e-12


# --- the page -------------------------------------------------------------------------------------


def page(**query: str) -> AppTest:
    return pages.open_page("learn", query)


def story_of(app: AppTest) -> dict[str, Any]:
    """The data of the scroll."""
    (figure,) = [item.proto for item in app.get("bidi_component") if "learn_story" in item.proto.id]
    data: dict[str, Any] = json.loads(figure.mixed.json if figure.HasField("mixed") else figure.json)
    return data


@pytest.mark.ui
def test_the_page_opens_with_the_recorded_story_and_asks_no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = pages.watch_queries(monkeypatch)
    app = page()
    data = story_of(app)
    assert (len(data["passes"]), len(data["answer"]["tokens"])) == (7, 42)
    assert data["sentence"].startswith("The model chose 7 of 42 tokens itself: N where the reaction takes place")
    assert [clock["name"] for clock in data["clocks"]] == ["passes", "an H100", "a small core"]
    assert not asked
    charts = app.get("vega_lite_chart")
    assert len(charts) == 2
    for chart in charts:
        assert len(chart.proto.alt) > 60


@weights
@pytest.mark.ui
def test_a_link_tells_the_story_of_its_query_and_the_depths_open_below() -> None:
    app = page(task="retro", smi="CC(=O)Nc1ccc(O)cc1")
    data = story_of(app)
    assert data["query"]["smiles"] == "CC(=O)Nc1ccc(O)cc1"
    assert data["clocks"][-1]["name"] == story.HERE and data["lengths"]
    assert "speed_race" not in app.session_state and "step_played" not in app.session_state
    searches = len(app.session_state["_answers"])
    app.session_state["learn_step"] = True
    app.run()
    assert app.session_state["step_played"] == data["id"], "the run of the scroll"
    assert len(app.session_state["_answers"]) == searches and not app.exception
    app.button(key="learn_back").click().run()
    assert len(story_of(app)["answer"]["tokens"]) == 42 and not app.query_params


@pytest.mark.ui
@pytest.mark.parametrize("name", DEPTHS)
def test_an_address_of_an_earlier_page_opens_its_depth(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the server, and where Streamlit alone serves the pages."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    query = b"task=retro&smi=CCO&decoder=beam"
    scope = {"type": "http", "method": "GET", "path": f"/{name}", "query_string": query, "headers": []}
    asyncio.run(Starlette(routes=server.page_routes())(scope, None, send))  # type: ignore[arg-type]
    assert dict(sent[0]["headers"])[b"location"] == f"./learn?depth={name}&".encode() + query
    opened: list[Any] = []
    monkeypatch.setattr(nav, "open_page", lambda name, **query: opened.append((name, query)))
    app = AppTest.from_function(_door, kwargs={"name": name})
    app.query_params["smi"] = "CCO"
    app.run()
    assert not app.exception and opened == [("learn", {"depth": [name], "smi": ["CCO"]})]


def _door(name):  # type: ignore[no-untyped-def]
    from chemspec.ui.common import nav

    nav.open_learn_depth(name)


@weights
@pytest.mark.ui
def test_what_cannot_be_answered_is_told_in_place_of_a_story() -> None:
    app = page(task="retro", smi="C![x](http://192.0.2.1/x.png)<b>")
    assert len(story_of(app)["answer"]["tokens"]) == 42  # the example; the box marks what is wrong with the text
    assert "<b>" not in pages.html(app)


def test_the_tables_of_the_charts_are_those_of_the_measurements() -> None:
    spec = spec_from_file_location("learn_tables", ROOT / "assets" / "docs" / "learn_tables.py")
    assert spec is not None and spec.loader is not None
    made = module_from_spec(spec)
    spec.loader.exec_module(made)
    for name, write in made.TABLES.items():
        assert (ROOT / "assets" / "learn" / f"{name}.csv").read_text(encoding="utf-8") == write(), name
    assert len(lessons.read_table("speedups")) == 200
    assert (lessons.read_table("speedups")["query"].str.contains("#")).any()  # which no comment may swallow


@pytest.mark.ui
@pytest.mark.parametrize(
    ("part", "words"), [("Drafters", "spec_drafter"), ("Words", "**Accepted.**"), ("Papers", "doi.org/10.1186")]
)
def test_the_other_parts_open(part: str, words: str) -> None:
    app = page(part=part)
    assert words in " ".join(item.value for item in app.markdown)
    if part == "Papers":
        assert len(app.expander) == len(lessons.text_sections("faq"))
