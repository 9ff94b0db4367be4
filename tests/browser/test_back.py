"""Back and Forward of the browser: one press a page, and every page as it was left."""

from __future__ import annotations

from itertools import pairwise
from typing import Any
from urllib.parse import quote

import pytest

from chemspec.engine.engine import installed_models
from chemspec.ui.common.nav import PAGES

playwright = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
pytest.importorskip("syntheseus")
pytest.importorskip("apted")
pytestmark = pytest.mark.skipif(
    not {"forward", "retro"} <= {folder.name for folder in installed_models()}, reason="no models in assets/models"
)
TITLES = dict(PAGES)
ASKED = {"predict": "CC(=O)Nc1ccccc1", "plan": "CC(=O)Nc1ccc(O)cc1", "step": "CCOC(=O)c1ccccc1", "speed": "CCOc1ccccc1"}
MOST = 30  # pages on the way: a browser's history has 50 entries


def walk_of_all_pairs(names: list[str]) -> list[str]:
    """A way over all pages in which each follows each other exactly once (an Eulerian circuit, by Hierholzer)."""
    left = {name: [other for other in names if other != name] for name in names}
    stack, walk = [names[0]], []
    while stack:
        if left[stack[-1]]:
            stack.append(left[stack[-1]].pop())
        else:
            walk.append(stack.pop())
    return walk


@pytest.mark.slow  # it opens some 120 pages, a second each
@pytest.mark.nightly
def test_back_returns_to_the_page_before_from_every_page(app: Any) -> None:
    page = app.new_page()

    def wait_for(name: str) -> tuple[str, str]:
        page.wait_for_function("title => document.title === title", arg=f"{TITLES[name]} · chemspec")
        box = page.locator("textarea")
        if name in ASKED:
            page.wait_for_function("() => location.search.includes('smi=')")
            box.first.wait_for()
        app.settle(page)
        assert page.locator("[data-testid=stException]").all_inner_texts() == []
        return page.url, box.first.input_value() if name in ASKED else ""

    def follow(name: str) -> tuple[str, str]:
        page.get_by_role("link", name=TITLES[name], exact=True).first.click()
        return wait_for(name)

    page.goto(f"{app.url}/?task=retro&smi={quote(ASKED['predict'])}")
    wait_for("predict")
    for name in ("plan", "step", "speed"):
        page.get_by_role("link", name=TITLES[name], exact=True).first.click()
        page.wait_for_function("title => document.title === title", arg=f"{TITLES[name]} · chemspec")
        page.locator("textarea").first.fill(ASKED[name])
        page.keyboard.press("Enter")
        page.wait_for_function("text => location.search.includes(text)", arg=quote(ASKED[name], safe=""))
        app.settle(page)
    walk = walk_of_all_pairs(list(TITLES))
    assert len(set(pairwise(walk))) == len(TITLES) * (len(TITLES) - 1)
    for start in range(0, len(walk) - 1, MOST):
        there = walk[start : start + MOST + 1]
        seen = [follow(name) for name in there]
        for name, before in zip(there[-2::-1], seen[-2::-1], strict=True):
            page.go_back()
            assert wait_for(name) == before
        page.go_forward()
        assert wait_for(there[1]) == seen[1]


@pytest.mark.parametrize("name", ASKED)
def test_back_over_several_pages_asks_what_the_address_says(name: str, app: Any) -> None:
    page = app.new_page()
    page.goto(f"{app.url}/{name * (name != 'predict')}")
    box = page.locator("textarea").first
    for text in (ASKED[name], "CC(=O)NCc1ccccc1"):
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
