"""Answers while a visitor types, in a browser."""

from __future__ import annotations

import re
from typing import Any

import pytest

playwright = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
expect = playwright.expect
expect.set_options(timeout=150_000)


def test_an_answer_stands_below_the_box_before_anybody_asks(app: Any) -> None:
    page = app.open()
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.post_data) if "preview" in request.url else None)
    box, pane = page.locator("textarea"), page.locator(".preview")
    expect(pane).to_be_hidden()
    box.press_sequentially("aniline, acetyl chloride", delay=20)
    expect(pane.get_by_alt_text("drawing of CC(=O)Nc1ccccc1")).to_be_visible()
    assert len(requests) < 24 / 2, "after a pause, not at every key"
    box.press_sequentially(".CC(", delay=20)
    expect(pane).to_have_class(re.compile("old"))  # unfinished: the last answer stays, faint
    expect(pane.get_by_alt_text("drawing of CC(=O)Nc1ccccc1")).to_be_visible()
    for _ in ".CC(":
        box.press("Backspace")
    expect(pane).not_to_have_class(re.compile("old"))
    box.press("Enter")
    expect(pane).to_be_hidden()
    expect(page.locator("[data-testid=stCode]").first).to_contain_text("CC(=O)Nc1ccccc1")
    box.fill("")
    expect(pane).to_be_hidden()


def test_another_task_has_another_preview(app: Any) -> None:
    page = app.open()
    box, pane = page.locator("textarea"), page.locator(".preview")
    box.press_sequentially("CC(=O)Nc1ccccc1", delay=20)
    expect(pane).to_be_visible()
    expect(pane).to_contain_text("gives")
    page.get_by_text("Retro: how to make it?").click()
    expect(pane).to_contain_text("Amide")


def test_plan_shows_disconnections(app: Any) -> None:
    page = app.open("/plan")
    page.locator("textarea").press_sequentially("lidocaine", delay=20)
    expect(page.locator(".preview .row").first.locator("img").first).to_be_visible()
    expect(page.locator(".preview")).to_contain_text("N-Alkylation")
