"""Models and Learn in a real browser; the fixture fails a test if anything asks a foreign host."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from helpers.pages import weights

INSIDE = "() => { const m = document.querySelector('[data-testid=stMain]'); return m.scrollWidth <= m.clientWidth }"


@weights
def test_the_tables_of_a_card_scroll_by_themselves_on_a_phone(app: Any) -> None:
    page = app.open("/models", viewport={"width": 390, "height": 844})
    for tab in ("Accuracy by class", "Accuracy", "Training", "Known failures", "Speed here"):
        page.get_by_role("tab", name=tab, exact=True).first.click()
        app.settle(page)
        assert page.evaluate(INSIDE), tab


def test_the_story_fits_a_phone_and_stands_still_for_who_wants_no_motion(app: Any) -> None:
    page = app.open("/learn", color_scheme="dark", reduced_motion="reduce", viewport={"width": 390, "height": 844})
    page.get_by_role("heading", name="Long drafts are a bet").wait_for()
    assert page.locator(".lane.won").count() == 1  # the race is over
    assert page.locator(".title b").all_inner_texts() == ["42 passes", "7 passes"]
    sizes = page.locator(".mols svg").evaluate_all("all => all.map(one => one.clientWidth * one.clientHeight)")
    assert len(sizes) == 3 + 2 + 3 + 3 and all(size > 0 for size in sizes)  # strip, race, slow motion, game
    assert page.evaluate(INSIDE), "nothing sticks out on the right"


def test_dragging_along_atoms_names_the_passes_that_wrote_them(app: Any) -> None:
    page = app.open("/learn")
    answer = page.get_by_label("Tokens of the answer").locator(".tk")
    answer.first.scroll_into_view_if_needed()
    boxes = [answer.nth(k).bounding_box() for k in range(6, 12)]
    page.mouse.move(boxes[0]["x"] + 5, boxes[0]["y"] + 9)
    page.mouse.down()
    for box in boxes[1:]:
        page.mouse.move(box["x"] + 5, box["y"] + 9)
    page.mouse.up()
    says = page.locator("section").first.get_by_role("status")
    assert (
        says.inner_text()
        == "pass 1 wrote 2 tokens of a draft and O of the model’s own; pass 2 wrote 3 tokens of a draft."
    )
    # The same by keyboard: arrows with Shift.
    answer.nth(6).focus()
    page.keyboard.press("ArrowRight")
    for _ in range(3):
        page.keyboard.press("Shift+ArrowRight")
    assert "pass 1" in says.inner_text() and "pass 2" in says.inner_text()
    atom = page.locator(".drag circle.hit").nth(3)  # of the drawing of the answer
    atom.hover()
    assert "pass 1" in says.inner_text()


def test_a_pass_goes_by_step_by_step_and_the_game_counts(app: Any) -> None:
    page = app.open("/learn", reduced_motion="reduce")
    motion, game = page.locator("section").nth(2), page.locator("section").nth(3)
    assert "7 agree. Then the draft has O, the model wants N" in motion.locator(".say").inner_text()
    assert motion.locator(".tick").all_inner_texts()[:8] == ["✓"] * 7 + ["✗"]
    motion.get_by_role("button", name="Next: keep").click()
    assert "8 tokens for one pass" in motion.locator(".say").inner_text()
    for kept in (8, 8, 7, 0, 8, 1, 3):
        assert "N" not in game.locator(".m").all_inner_texts()  # the model's choices lie face down
        cards = game.locator(".cd")
        if kept < cards.count():
            cards.nth(kept).click()
        else:
            game.get_by_role("button", name="It keeps them all").click()
        game.get_by_text("Right.").wait_for()
        if kept != 3:
            game.get_by_role("button", name="Next round").click()
    assert "7 of 7. And it never mattered" in game.get_by_role("status").inner_text()


def test_the_saved_page_works_without_any_network(app: Any, browser: Any, tmp_path: Path) -> None:
    page = app.open("/learn")
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save as one page (HTML)").click()
    saved.value.save_as(tmp_path / "answer.html")
    context = browser.new_context(offline=True, reduced_motion="reduce")
    alone, faults, asked = context.new_page(), [], []
    alone.on("console", lambda line: faults.append(line.text))  # also of what its policy forbids
    alone.on("pageerror", lambda error: faults.append(str(error)))
    alone.on("request", lambda request: asked.append(request.url))
    alone.goto((tmp_path / "answer.html").as_uri())
    alone.get_by_role("heading", name="7 passes instead of 42").wait_for()
    assert alone.locator(".mols svg").count() == 11
    assert alone.locator(".chart circle").count() == 25
    assert (faults, len(asked)) == ([], 1)
    context.close()
