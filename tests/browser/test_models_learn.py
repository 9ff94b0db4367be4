"""Models and Learn in a real browser; the fixture fails a test if anything asks a foreign host."""

from __future__ import annotations

from typing import Any

from pages import weights

INSIDE = "() => { const m = document.querySelector('[data-testid=stMain]'); return m.scrollWidth <= m.clientWidth }"


@weights
def test_the_tables_of_a_card_scroll_by_themselves_on_a_phone(app: Any) -> None:
    page = app.open("/models", viewport={"width": 390, "height": 844})
    for tab in ("Accuracy by class", "Accuracy", "Training", "Known failures", "Speed here"):
        page.get_by_role("tab", name=tab, exact=True).first.click()
        app.settle(page)
        assert page.evaluate(INSIDE), tab


def test_the_lessons_are_illustrated(app: Any) -> None:
    page = app.open("/learn", color_scheme="dark", viewport={"width": 390, "height": 844})
    page.get_by_role("heading", name="What the figures mean").wait_for()
    # Figures come one after another, and a busy machine shows the text before them.
    drawings = page.locator(".frames .mol svg")
    drawings.nth(11).wait_for()
    page.locator(".frames .tree svg").wait_for()
    sizes = drawings.evaluate_all("all => all.map(one => one.clientWidth * one.clientHeight)")
    assert len(sizes) == 2 + 2 + 8  # of the answer, of its origin, of every pass
    assert all(size > 0 for size in sizes)
    assert page.locator(".frames .tree .mark.done").count() == 5
    assert page.evaluate(INSIDE), "nothing sticks out on the right"
    drafts = page.locator(".frames .draft")  # beside them stands what the model wrote, if there is room
    assert min(drafts.evaluate_all("all => all.map(one => one.clientWidth)")) > 100


def test_the_race_plays_again_and_the_example_can_be_stepped_through(app: Any) -> None:
    page = app.open("/learn")
    passes = page.locator(".lane .pass")
    passes.first.wait_for()
    assert passes.count() == 27 + 8  # the standard way, and with drafts
    running = "all => all.filter(one => one.getAnimations().some(a => a.playState === 'running')).length"
    while passes.evaluate_all(running):
        page.wait_for_timeout(200)
    page.get_by_role("button", name="Play again").click()
    assert passes.evaluate_all(running) > 0
    page.get_by_role("button", name="Step through this example").click()
    page.wait_for_url("**/step?**")
    assert "task=forward" in page.url and "smi=" in page.url
