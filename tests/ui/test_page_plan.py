"""The page Plan without a browser: what it asks, what it shows, how one goes on from there; on the toy chemistry."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from paths import TESTS

import pages

pytest.importorskip("streamlit")
pytest.importorskip("syntheseus")
pytest.importorskip("apted")
sys.path.append(str(TESTS / "plan"))

from streamlit.testing.v1 import AppTest
from toy import AMIDE, BOUGHT, Toy, retro, stock

from chemspec import chem
from chemspec.plan import stock as lists
from chemspec.plan.bonds import named
from chemspec.system import extras
from chemspec.ui.common import queued_engine
from chemspec.ui.plan import ask

SMILES = str(chem.canonical(AMIDE))


@pytest.fixture(autouse=True)
def toys(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    models = {"retro": retro(), "forward": Toy({})}
    monkeypatch.setenv("CHEMSPEC_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(queued_engine, "models", lambda task: [task])
    monkeypatch.setattr(queued_engine, "engine", lambda name: models[name])
    monkeypatch.setattr(lists, "load", lambda names: stock(tmp_path, BOUGHT if len(names) > 1 else ["CC"]))
    ask._built_in.clear()


def words(page: AppTest) -> str:
    return "\n".join(str(one.value) for one in (*page.success, *page.warning, *page.error, *page.info, *page.subheader))


def test_a_link_asks_and_shows_routes() -> None:
    page = pages.opened("plan", {"smi": SMILES})
    assert "3 routes from stock" in page.success[0].value
    assert "Route 1: 3 steps, all in stock" in words(page)
    assert page.query_params["smi"] == SMILES


def test_a_step_opens_to_alternatives_and_one_can_be_used_instead() -> None:
    page = pages.opened("plan", {"smi": SMILES})
    page.pills(key="plan_step_Route_1").set_value("3").run()
    assert not page.exception
    button = page.button(key="plan_use_Route_1_0")
    assert button.label == "Use this instead"
    button.click().run()
    fixed = str(page.query_params["use"])
    assert fixed.endswith(f">>{SMILES}") and "1 step fixed" in [one.value for one in page.caption]
    again = pages.opened("plan", {"smi": SMILES, "use": fixed})
    titles = [[one.value for one in shown.subheader] for shown in (again, page)]
    assert titles[0] == titles[1] and titles[0], "the link holds the choice"
    next(one for one in page.button if one.label == "Forget these choices").click().run()
    assert "use" not in page.query_params


def test_a_step_can_be_left_out() -> None:
    page = pages.opened("plan", {"smi": SMILES})
    page.pills(key="plan_step_Route_1").set_value("1").run()
    page.button(key="plan_drop_Route_1").click().run()
    assert not page.exception
    assert page.query_params["drop"] and "1 left out" in [one.value for one in page.caption]


@pytest.mark.parametrize(
    ("smi", "told"),
    [("CC(", "("), ("CCCCCC", "no usable step"), ("CN", "itself is in stock"), ("C[Si](C)(C)C", "[Si]")],
)
def test_what_cannot_be_planned_is_said(smi: str, told: str) -> None:
    page = pages.opened("plan", {"smi": smi})
    shown = words(page).replace("\\", "") + str(page.main)
    assert told in shown


def test_bonds_can_be_kept_also_by_link() -> None:
    page = pages.opened("plan", {"smi": SMILES})
    choice = next(one for one in page.multiselect if "No step shall make" in one.label)
    amide = next(name for name, ends in named(SMILES).items() if ends == (1, 2))  # CNC(=O)...: N1-C2
    choice.set_value([amide]).run()
    assert not page.exception
    assert page.query_params["keep"] == amide
    shown = [one.value for one in page.subheader]
    again = pages.opened("plan", {"smi": SMILES, "keep": amide})
    assert [one.value for one in again.subheader] == shown
    assert shown != [one.value for one in pages.opened("plan", {"smi": SMILES}).subheader]


def test_nothing_to_buy_is_said() -> None:
    page = pages.opened("plan", {"smi": SMILES})
    page.multiselect(key="plan_lists").set_value([]).run()
    assert "Nothing can be bought" in page.warning[0].value
    page.multiselect(key="plan_lists").set_value(["paroutes-n1"]).run()
    assert "No route from stock" in page.warning[0].value.replace("\\", "")


def test_an_unreadable_stock_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="none of its 1 lines"):
        ask._own(b"what", "mine.txt")


def test_without_the_packages_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "installed", lambda _: False)
    assert "chemspec[plan]" in pages.opened("plan").info[0].value


def test_an_empty_page_offers_examples() -> None:
    page = pages.opened("plan")
    assert {one.label for one in page.button} >= {"Search", *ask.EXAMPLES}
