"""The page Plan in a real browser: typed, stopped, opened by link, a bond marked, on a phone, by keyboard."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import pytest
from helpers.pages import weights

pytest.importorskip("syntheseus")
pytest.importorskip("apted")
pytestmark = weights
TARGET = "CC(=O)Nc1ccc(O)cc1"


def test_routes_of_a_typed_target_can_be_read_on_a_phone_too(app: Any) -> None:
    page = app.open("/plan")
    page.get_by_label("The molecule to make").fill(TARGET)
    page.keyboard.press("Enter")
    page.get_by_text(re.compile("routes from stock")).wait_for()
    app.settle(page)
    assert f"smi={TARGET}" in unquote(page.url)
    assert page.locator(".cs-route img").count() >= 2
    assert page.locator(".cs-route img").first.get_attribute("alt").startswith("Route 1: 1 step, weakest step")

    other = app.open(f"/plan?smi={quote(TARGET)}", color_scheme="dark", viewport={"width": 390, "height": 800})
    other.get_by_text(re.compile("routes from stock")).wait_for()
    app.settle(other)
    assert other.evaluate("document.documentElement.scrollWidth") <= 390, "only the scheme scrolls"
    first = other.locator(".cs-route").first
    first.focus()
    assert first.evaluate("element => element === document.activeElement")
    wide = other.locator(".cs-route").evaluate_all(
        "frames => frames.map(frame => [frame.scrollWidth > frame.clientWidth, !!frame.previousSibling.offsetHeight])"
    )
    assert [True, True] in wide and all(scrolls == hinted for scrolls, hinted in wide), "a hint where it scrolls"
    other.get_by_text("Step 1", exact=True).first.click()
    other.get_by_role("button", name="Search without this step").wait_for()
    app.settle(other)
    assert other.evaluate("document.querySelector('[data-testid=stMain]').scrollWidth") <= 390, "nor do tables"
    other.get_by_role("button", name="Stock").click()
    list_name = other.locator("[data-tag]").first
    list_name.wait_for()
    assert list_name.evaluate("one => getComputedStyle(one).color") == "rgb(6, 32, 28)", "on the light primary colour"


def test_a_bond_is_kept_by_a_click_and_all_routes_are_saved(app: Any) -> None:
    page = app.open(f"/plan?smi={quote(TARGET)}")
    page.get_by_text(re.compile("routes from stock")).wait_for()
    app.settle(page)
    page.get_by_role("button", name="Constraints").click()
    amide = page.get_by_role("button", name="bond C1-N3: free")
    amide.focus()
    amide.press("Enter")
    page.get_by_text("bonds kept: C1-N3").wait_for()
    app.settle(page)
    assert "keep=C1-N3" in page.url
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Save all").click()
    with page.expect_download() as saved:
        page.get_by_role("button", name="JSON", exact=True).click()
    routes = json.loads(Path(saved.value.path()).read_text())["routes"]
    assert routes and '"Nc1ccc(O)cc1"' not in json.dumps(routes), "no step makes the amide"


def test_a_text_pasted_on_another_page_asks_again_and_the_postcard_holds_it(app: Any) -> None:
    text = f"chemspec:plan?smi={TARGET}&avoid=C(=O)Cl&depth=3&order=steps"
    page = app.open("/", viewport={"width": 390, "height": 844})
    page.get_by_label("Everything in the reaction mixture").fill(text)
    page.get_by_text(re.compile("routes from stock")).wait_for()
    app.settle(page)
    assert "/plan?" in page.url and "avoid=C(=O)Cl" in unquote(page.url)
    page.get_by_role("button", name="Save all").click()
    assert page.locator("pre").inner_text().replace("\n", "") == text
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Save", exact=True).first.click()
    for ending, start in (("SVG", b"<svg"), ("PDF", b"%PDF")):
        with page.expect_download() as saved:
            page.get_by_role("button", name=f"Postcard {ending}").click()
        assert Path(saved.value.path()).read_bytes().startswith(start)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


IMATINIB = "Cc1ccc(NC(=O)c2ccc(CN3CCN(C)CC3)cc2)cc1Nc1nccc(-c2cccnc2)n1"
SOTORASIB = "C=CC(=O)N1CCN(c2nc(=O)n(-c3c(C)ccnc3C(C)C)c3nc(-c4c(O)cccc4F)c(F)cc23)[C@@H](C)C1"


@pytest.mark.parametrize("moments", [(0, 4), pytest.param(range(10), marks=pytest.mark.nightly)], ids=["some", "many"])
def test_a_search_can_be_stopped_at_any_moment_and_goes_on(moments: Sequence[int], app: Any) -> None:
    """In turns a new search and one that goes on; each is stopped some tenths of a second later than the one before."""
    page = app.open("/plan")
    page.get_by_role("button", name="Limits").click()
    page.get_by_label("Molecules expanded").fill("5000")  # so that it is not at its end before it can be stopped
    page.keyboard.press("Enter")
    app.settle(page)
    page.keyboard.press("Escape")
    box = page.get_by_label("The molecule to make")
    for number, moment in enumerate(moments):
        if number % 2:
            page.get_by_role("button", name="Continue search").click()
        else:
            box.fill((IMATINIB, SOTORASIB)[number // 2 % 2])
            box.press("Enter")
        stop = page.get_by_role("button", name="Stop")
        stop.wait_for()
        page.wait_for_timeout(50 * moment**2)
        stop.click()
        page.get_by_text(re.compile(r"\d+ expansions, .* s; stopped\)")).wait_for()
        app.settle(page)
        assert page.locator("[data-testid=stException]").all_inner_texts() == []
    assert page.locator(".cs-route img").count() >= 1
    expanded = re.search(r"(\d+) molecules expanded", page.get_by_text("molecules expanded").inner_text())
    assert expanded and int(expanded[1]) >= 1
