"""The page Speed in a browser: race and replay."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from helpers.pages import weights

from chemspec import chem

pytestmark = weights
LINK = "/speed?task=forward&smi=" + quote("CC(=O)Cl.Nc1ccccc1")


def race(app: Any, address: str = LINK, **options: Any) -> Any:
    """Open the page and wait for the race that it runs by itself."""
    page = app.new_page(**options)
    page.goto(app.url + address)
    page.locator(".lane").nth(1).wait_for(timeout=300_000)  # the first visitor of a server waits for the model
    app.settle(page)
    page.locator(".lane").nth(1).wait_for()
    return page


def test_a_race_is_run_and_replayed(app: Any) -> None:
    page = race(app)
    lanes = page.locator(".lane")
    assert lanes.count() == 2
    speed = page.get_by_role("group", name="Speed of the replay")
    speed.get_by_role("button", name="1/100").click()  # else it may be over before anybody looks
    # It plays by itself, and can be stopped and started again by keyboard.
    page.locator(".race").focus()
    page.keyboard.press("Home")
    page.get_by_role("button", name="Pause", exact=True).wait_for()
    page.keyboard.press("Space")
    page.get_by_role("button", name="Play", exact=True).wait_for()
    before = lanes.locator(".clock").all_inner_texts()
    page.wait_for_timeout(150)
    assert lanes.locator(".clock").all_inner_texts() == before  # it does stand still
    slider = page.get_by_label("Time in the race")
    slider.focus()
    page.keyboard.press("End")
    page.locator(".lane.done").nth(1).wait_for()
    texts = ["".join(lane.locator(".token.on").all_inner_texts()) for lane in lanes.all()]
    assert texts[0] == texts[1]
    assert chem.canonical(texts[0].removesuffix("end")) == "CC(=O)Nc1ccccc1"
    assert lanes.nth(1).locator(".token.copied").count() > lanes.nth(0).locator(".token.copied").count() == 0
    speed.get_by_role("button").first.click()
    assert speed.locator("[aria-pressed=true]").all_inner_texts()[0] in ("true speed", "fast")  # of a busy machine
    page.get_by_role("button", name="Restart").click()
    page.locator(".lane.done").nth(1).wait_for()  # at true speed that takes milliseconds
    assert "recorded runs, made one after the other" in page.locator(".race .caption").inner_text()
    page.get_by_role("heading", name="Identical: yes").wait_for()
    assert page.locator("[data-testid=stDataFrame]:visible").count() == 1


def test_whoever_wants_no_motion_sees_the_end_on_a_phone_in_the_dark(app: Any) -> None:
    page = race(app, viewport={"width": 390, "height": 844}, color_scheme="dark", reduced_motion="reduce")
    assert page.locator(".lane.done").count() == 2
    assert page.get_by_role("button", name="Play", exact=True).count() == 1
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    outside = "(nodes) => nodes.filter((node) => node.getBoundingClientRect().right > 390).length"
    assert page.locator(".race button, .race .token").evaluate_all(outside) == 0
