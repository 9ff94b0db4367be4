"""The trace player in a real browser: stepping asks the server for nothing."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest
from helpers.pages import weights

QUERY = "CC(C)(C)OC(=O)N1CCC(CC1)C(=O)O.Nc1ccc(F)cc1"

pytestmark = weights
ADDRESS = f"/step?task=forward&smi={quote(QUERY)}"


def passes(page: Any) -> int:
    """After how many passes the player stands."""
    return int(page.locator(".counters dd").first.inner_text().split("/")[0])


def test_stepping_plays_in_the_browser_alone(app: Any) -> None:
    playwright = pytest.importorskip("playwright.sync_api")
    page = app.new_page(reduced_motion="reduce")
    sent: list[Any] = []
    page.on("websocket", lambda socket: socket.on("framesent", lambda frame: sent.append(frame)))
    app.go(page, ADDRESS)
    page.wait_for_selector(".frame")
    last = page.locator(".bars .bar").count()
    assert last > 2
    sent.clear()

    assert passes(page) == 0
    page.get_by_label("Step forward").click()
    assert passes(page) == 1
    assert page.locator(".strip .tk.copied").count() > 0
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert passes(page) == 3
    page.keyboard.press("ArrowLeft")
    assert passes(page) == 2
    page.keyboard.press("End")
    assert passes(page) == last
    page.keyboard.press("Home")
    assert passes(page) == 0
    page.locator("input[type=range]").fill("2")
    assert passes(page) == 2
    assert "Pass 2 of" in page.locator(".says").inner_text()

    page.get_by_label("Speed").select_option("4")
    page.get_by_label("To the start").click()
    page.locator("button.play").focus()
    page.keyboard.press("Enter")
    playwright.expect(page.locator(".counters dd").first).to_have_text(f"{last} / {last}")
    assert not sent  # no run of the script


def test_the_first_visit_plays_an_example_until_somebody_steps(app: Any) -> None:
    page = app.new_page()
    page.goto(f"{app.url}/step")
    playing = page.get_by_role("button", name="Pause", exact=True)
    playing.wait_for()
    page.get_by_label("To the end").click()
    page.get_by_role("button", name="Play", exact=True).wait_for()
    last = page.locator(".bars .bar").count()
    assert passes(page) == last
    assert "tokens a pass, mean" in page.locator(".counters").inner_text()
    assert "smi=" not in page.url  # nobody asked this


def test_tokens_and_atoms_light_each_other(app: Any) -> None:
    expect = pytest.importorskip("playwright.sync_api").expect
    # What `auto` copies depends on the cost of a pass, which a busy machine measures too high.
    page = app.open(f"{ADDRESS}&decoder=greedy&n=1&drafts=copy", color_scheme="dark")
    page.wait_for_selector(".frame")

    # The fluorine: one token in the query, one in the answer, an atom in both drawings.
    query, answer = page.get_by_label("Query tokens"), page.get_by_label("Answer tokens")
    for attempt in range(40):  # on a busy machine the page may be drawn anew beneath the pointer, or lights up late
        page.get_by_label("To the end").click()
        query.get_by_text("F", exact=True).hover()
        page.wait_for_timeout(25 * attempt)
        if answer.locator(".tk.lit").count():
            break
        page.mouse.move(0, 0)
        page.wait_for_timeout(100)
    expect(answer.locator(".tk.lit")).to_have_text(["F"])
    expect(page.locator(".mol circle.lit")).to_have_count(2)
    assert "copied to answer token" in page.locator(".hint").first.inner_text()
    page.mouse.move(0, 0)
    expect(page.locator(".lit")).to_have_count(0)
    tokens = query.locator(".tk").all_inner_texts()
    place = tokens.index("F")
    atom = sum(text.isalpha() for text in tokens[:place])
    page.locator(f".mol circle.atom-{atom}").first.hover()
    expect(query.locator(".tk.lit")).to_have_text(["F"])
    expect(answer.locator(".tk.lit")).to_have_text(["F"])

    # By keyboard: a strip is one stop, arrows move in it and do not step.
    before = passes(page)
    query.locator(".tk").first.focus()
    page.keyboard.press("ArrowRight")
    assert query.locator(".tk.lit").first.get_attribute("data-index") == "1"
    assert passes(page) == before

    # The amide's nitrogen is the model's own, or copied; its atom is ringed or coloured, not bare.
    assert page.locator(".mol circle.own").count() >= 1
    bare = page.locator(".mol").nth(1).locator("circle:not(.own):not(.copied):not(.ahead)")
    assert bare.count() == 0
    assert page.locator(".mol").nth(1).locator(".unwritten").count() == 0
    page.get_by_label("To the start").click()
    assert page.locator(".mol").nth(1).locator(".unwritten").count() > 0


def test_a_beam_grows_as_a_tree(app: Any) -> None:
    page = app.open("/step", viewport={"width": 390, "height": 844})
    page.get_by_role("button", name="Lidocaine, retro").click()
    page.wait_for_selector(".tree .mark.kept")
    page.get_by_text("Every branch is a text the search considered").wait_for()
    app.settle(page)
    page.get_by_label("To the end").click()
    assert page.locator(".tree .mark.done").count() == 5
    assert page.locator(".tree g.dead").count() > 0
    page.get_by_label("To the start").click()
    assert page.locator(".tree .mark.done").count() == 0
    assert page.locator(".tree g.unborn").count() == page.locator(".tree g:has(> .edge)").count()
    page.get_by_label("Step forward").click()
    assert page.locator(".tree g.ahead").count() > 0
    fewer = page.locator(".tree .edge").count()
    page.get_by_text("also show what was computed ahead").click()
    assert page.locator(".tree .edge").count() > fewer
    page.get_by_label("To the end").click()
    first = page.get_by_label("Answer tokens").text_content()
    page.get_by_label("Answer 5", exact=True).click()
    assert page.get_by_label("Answer tokens").text_content() != first
    # No sideways scrolling of the page on a phone.
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
