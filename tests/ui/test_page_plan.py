"""The page Plan without a browser: what it asks, what it shows, how one goes on from there; on the toy chemistry."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest
from helpers import pages
from helpers.pages import html, words
from helpers.paths import TESTS

pytest.importorskip("syntheseus")
pytest.importorskip("apted")
sys.path.append(str(TESTS / "plan"))

from helpers.toy import AMIDE, BOUGHT, Toy, retro, stock
from streamlit.testing.v1 import AppTest

from chemspec import chem
from chemspec.chem.reactions.guide import bonds_by_name
from chemspec.plan.routes import plan_to_markdown
from chemspec.plan.settings import PlanSettings
from chemspec.question_text import read_question
from chemspec.stock import lists
from chemspec.system import extras
from chemspec.ui.common import queued_engine
from chemspec.ui.plan import plan_view, search_form

SMILES = str(chem.canonical(AMIDE))


@pytest.fixture(autouse=True)
def toys(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    models = {"retro": retro(), "forward": Toy({})}
    monkeypatch.setenv("CHEMSPEC_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CHEMSPEC_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(queued_engine, "model_names", lambda task, **_: [task] if task in models else [])
    monkeypatch.setattr(queued_engine, "load_engine", lambda name, **_: models[name])
    monkeypatch.setattr(lists, "load_usable_stock", lambda names: stock(tmp_path, BOUGHT if len(names) > 1 else ["CC"]))
    search_form.stock_menu.cached_stock.clear()
    yield
    search_form.stock_menu.cached_stock.clear()  # the toys' lists are not for other pages


def press(page: AppTest, label: str) -> None:
    next(one for one in page.button if one.label == label).click().run()
    assert not page.exception


def test_a_link_asks_and_a_route_has_the_same_title_and_numbers_on_the_page_and_in_the_file() -> None:
    page = pages.open_page("plan", {"smi": SMILES})
    assert "3 routes from stock" in page.success[0].value
    doubts = "forward model differs on steps 1, 2, 3"  # the toy that checks predicts nothing
    assert f"Route 1: 3 steps, weakest step 15 %, {doubts}, all in stock lists" in words(page)
    assert page.query_params["smi"] == SMILES
    for toggle in [one for one in page.toggle if str(one.key).startswith("plan_like_")]:
        toggle.set_value(True)
    page.run()
    (plan,) = page.session_state["_plans"].values()
    in_file = [line[3:] for line in plan_to_markdown(plan).splitlines() if line.startswith("## ")]
    assert [one.value for one in page.subheader] == in_file
    assert len(in_file) == len(plan.routes) == 3


def test_a_step_can_be_used_instead_or_left_out() -> None:
    page = pages.open_page("plan", {"smi": SMILES})
    page.pills(key="plan_step_Route_1").set_value("3").run()
    assert not page.exception
    button = page.button(key="plan_use_Route_1_0")
    assert button.label == "Use this instead"
    button.click().run()
    fixed = str(page.query_params["use"])
    assert fixed.endswith(f">>{SMILES}") and "1 step fixed" in [one.value for one in page.caption]
    again = pages.open_page("plan", {"smi": SMILES, "use": fixed})
    titles = [[one.value for one in shown.subheader] for shown in (again, page)]
    assert titles[0] == titles[1] and titles[0], "the link holds the choice"
    press(page, "Clear these choices")
    assert "use" not in page.query_params
    page.pills(key="plan_step_Route_1").set_value("1").run()
    page.button(key="plan_drop_Route_1").click().run()
    assert not page.exception
    assert page.query_params["drop"] and "1 left out" in [one.value for one in page.caption]


@pytest.mark.parametrize(
    ("smi", "told"), [("CC(", "("), ("CCCCCC", "no valid step"), ("CN", "itself is in stock"), ("C[Si](C)(C)C", "[Si]")]
)
def test_what_cannot_be_planned_is_said(smi: str, told: str) -> None:
    page = pages.open_page("plan", {"smi": smi})
    assert told in words(page) + html(page)


def captions(page: AppTest) -> list[str]:
    return [str(one.value).replace("\\", "") for one in page.caption]


def test_an_intermediate_and_a_substructure_are_constraints_also_by_link() -> None:
    page = pages.open_page("plan", {"smi": SMILES})
    page.text_input(key="plan_through").set_value("CNC(=O)c1ccc(N)cc1").run()
    page.text_input(key="plan_avoid").set_value(" [OH-] [Na+] ").run()
    assert not page.exception and not page.error
    assert page.query_params["avoid"] == ["[OH-]", "[Na+]"]
    assert "through CNC(=O)c1ccc(N)cc1, without [OH-], [Na+]" in captions(page)
    (title,) = (one.value for one in page.subheader)
    assert title.startswith("Route 1: 3 steps, weakest step 15 %")
    (text,) = (one.value for one in page.code if str(one.value).startswith("chemspec:"))
    question = read_question(text)
    assert question.first("through") == "CNC(=O)c1ccc(N)cc1" and question.fields["avoid"] == ("[OH-]", "[Na+]")
    link = {name: page.query_params[name] for name in ("smi", "through", "avoid")}
    again = pages.open_page("plan", link)
    assert [one.value for one in again.subheader] == [one.value for one in page.subheader]
    assert again.text_input(key="plan_through").value == "CNC(=O)c1ccc(N)cc1"
    page.text_input(key="plan_avoid").set_value("C((").run()
    assert "is not a SMARTS" in page.error[0].value
    page.text_input(key="plan_avoid").set_value("").run()
    page.text_input(key="plan_through").set_value("hexane").run()
    assert not page.error and "No route contains CCCCCC" in page.warning[0].value.replace("\\", "")
    press(page, "Clear these choices")
    assert "through" not in page.query_params and page.text_input(key="plan_through").value == ""
    bad = pages.open_page("plan", {"smi": SMILES, "through": "C(("})
    assert "cannot be read" in bad.error[0].value.replace("\\", "") and not bad.subheader


def test_routes_are_compared_with_the_numbers_of_the_page_and_searched_on() -> None:
    page = pages.open_page("plan", {"smi": SMILES})
    page.segmented_control(key="plan_view").set_value("Compare").run()
    assert not page.exception
    table = page.dataframe[0].value
    assert table["Route"][0] == "Route 1" and table["Steps"][0] == 3
    assert "Amide formation" in table["Reactions"][0] and "methylamine, in mine.smi" in table["Building blocks"][0]
    assert not len(table["Not in stock"][0]) and table["Weakest step"][0] == "15 %"
    press(page, "Continue search")
    assert page.number_input(key="plan_expansions").value == 2 * PlanSettings.expansions


def test_bonds_can_be_kept_also_by_link() -> None:
    amide = next(name for name, ends in bonds_by_name(SMILES).items() if ends == (1, 2))  # CNC(=O)...: N1-C2
    page = pages.open_page("plan", {"smi": SMILES, "keep": amide})
    assert page.query_params["keep"] == amide and f"bonds kept: {amide}" in captions(page)
    free = pages.open_page("plan", {"smi": SMILES})
    assert [one.value for one in page.subheader] != [one.value for one in free.subheader]
    press(page, "Clear these choices")
    assert [one.value for one in page.subheader] == [one.value for one in free.subheader]
    assert "keep" not in page.query_params


def test_nothing_to_buy_is_said() -> None:
    page = pages.open_page("plan", {"smi": SMILES})
    page.multiselect(key="stock_lists").set_value([]).run()
    assert "No building-block stock" in page.warning[0].value
    page.multiselect(key="stock_lists").set_value(["paroutes-n1"]).run()
    assert "No route from stock" in page.warning[0].value.replace("\\", "")


def test_without_the_packages_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "is_installed", lambda _: False)
    assert "chemspec-smiles[plan]" in pages.open_page("plan").info[0].value


def test_an_empty_page_offers_examples() -> None:
    page = pages.open_page("plan")
    assert {one.label for one in page.button} >= {"Search", *search_form.EXAMPLES}


def test_what_a_stopped_search_found_is_read_once_it_has_ended(state: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ended, seen = Event(), []
    asked: Any = SimpleNamespace(key="one")

    def result(how: str) -> str:
        seen.append((how, ended.is_set()))
        return "what was found"

    state |= {"plan_stopped": "one", "plan_under_way": ("one", SimpleNamespace(result=result), ended)}
    waits = ended.wait
    monkeypatch.setattr(ended, "wait", lambda *_: (ended.set(), waits(0)))  # the old script ends while this one waits
    assert plan_view.run_search(asked, plan_view.session_expander()) == "what was found"
    assert seen == [("stopped", True)]


def test_a_plan_of_a_model_with_another_vocabulary_is_none_of_this_one(monkeypatch: pytest.MonkeyPatch) -> None:
    page = pages.open_page("plan", {"smi": SMILES})
    (old,) = page.session_state["_plans"]
    page.run()
    assert list(page.session_state["_plans"]) == [old]
    model = queued_engine.load_engine("retro")
    monkeypatch.setattr(model, "full_digest", "toy-othervoc")
    page.run()
    assert len(page.session_state["_plans"]) == 2


def test_a_search_stopped_before_its_first_report_has_nothing_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[search_form.SearchRequest] = []
    run = plan_view.run_search
    monkeypatch.setattr(
        plan_view, "run_search", lambda request, models: (asked.append(request), run(request, models))[1]
    )
    page = pages.open_page("plan", {"smi": SMILES})
    del page.session_state["_plans"], page.session_state["plan_under_way"]
    page.session_state["plan_stopped"] = asked[0].key
    page.run()
    assert "Nothing expanded yet" in page.warning[0].value and "stopped" in page.warning[0].value
    press(page, "Continue search")
    assert "3 routes from stock" in page.success[0].value
