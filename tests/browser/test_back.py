"""Back and Forward of the browser: one press a page, and every page as it was left."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest
from helpers.pages import weights
from helpers.thinned import every

from chemspec.ui.common.nav import PAGES

playwright = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
pytest.importorskip("syntheseus")
pytest.importorskip("apted")
pytestmark = weights
TITLES = dict(PAGES)
ASKED = {"predict": "CC(=O)Nc1ccccc1", "plan": "CC(=O)Nc1ccc(O)cc1", "learn": "CCOC(=O)c1ccccc1"}


def test_back_goes_one_page_a_press(app: Any) -> None:
    page = app.open(f"/?task=retro&smi={quote(ASKED['predict'])}")
    seen = [(page.title(), page.url)]
    for title in [*TITLES.values()][1:]:
        page.get_by_role("link", name=title, exact=True).first.click()
        page.wait_for_function("title => document.title === title", arg=f"{title} · chemspec")
        app.settle(page)
        seen.append((page.title(), page.url))
    for title, url in seen[-2::-1]:
        page.go_back()
        page.wait_for_function("title => document.title === title", arg=title)
        app.settle(page)
        assert page.url == url
        assert page.locator("[data-testid=stException]").all_inner_texts() == []


@pytest.mark.parametrize("name", every(3, [*ASKED]))
def test_back_over_several_pages_asks_what_the_address_says(name: str, app: Any) -> None:
    page = app.new_page()
    page.goto(f"{app.url}/{name * (name != 'predict')}")
    box = page.locator("textarea").first
    for text in (ASKED[name], "CC(=O)NCc1ccccc1"):
        if name == "learn" and not box.is_visible():  # its form is folded
            page.get_by_text("Explain an answer of your own").click()
        box.fill(text)
        page.keyboard.press("Enter")
        page.wait_for_function("text => location.search.includes(text)", arg=quote(text, safe=""))
        app.settle(page)
    page.get_by_role("link", name="Models", exact=True).first.click()
    page.wait_for_url("**/models")
    app.settle(page)
    page.evaluate("history.go(-2)")
    page.wait_for_function("text => location.search.includes(text)", arg=quote(ASKED[name], safe=""))
    playwright.expect(box).to_have_value(ASKED[name])
    app.settle(page)
    assert quote(ASKED[name], safe="") in page.url
