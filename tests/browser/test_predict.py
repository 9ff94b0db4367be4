"""The page Predict in a browser: what a chemist does there."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote

import pytest
from helpers.thinned import every

from chemspec.ui.common import web_files

playwright = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
expect = playwright.expect
expect.set_options(timeout=150_000)

ACETANILIDE = "CC(=O)Nc1ccccc1"
LIDOCAINE = "CCN(CC)CC(=O)Nc1c(C)cccc1C"
BOX = "textarea"


def link(task: str, smiles: str = "") -> str:
    return f"/?task={quote(task)}&smi={quote(smiles)}"


def answers(page: Any) -> Any:
    """The cards' SMILES."""
    return page.locator("[data-testid=stCode]")


def drawings(page: Any) -> Any:
    return page.locator(".cs-scheme img:visible")


def loaded(page: Any) -> bool:
    """Whether every drawing arrives and has a size."""
    script = "all => all.length > 0 && all.every(img => img.complete && img.naturalWidth > 10)"
    for _ in range(600):
        if drawings(page).evaluate_all(script):
            return True
        page.wait_for_timeout(100)
    return False


def detail(page: Any, name: str) -> Any:
    """The part of the first card's control that shows a detail."""
    return page.locator(f'button[aria-label="{name}, answer 1"]')


def overflow(page: Any) -> int:
    """Pixels by which the page is wider than the window."""
    script = "e => Math.max(e.scrollWidth, document.documentElement.scrollWidth) - window.innerWidth"
    return int(page.locator("[data-testid=stMain]").evaluate(script))


def test_typing_and_enter_give_drawn_answers(app: Any) -> None:
    page = app.open()
    box = page.get_by_label("Everything in the reaction mixture")
    box.fill("CC(=O)Cl.Nc1ccccc1")
    box.press("Enter")
    expect(answers(page).first).to_contain_text(ACETANILIDE)
    app.settle(page)
    assert loaded(page)
    expect(page.get_by_alt_text(f"drawing of {ACETANILIDE}").first).to_be_visible()
    assert re.search(r"smi=CC", page.url)
    expect(page.get_by_text("First answer, greedy:")).to_be_visible()
    assert page.title() == "Predict · chemspec"
    page.get_by_role("button", name="Race it").click()
    expect(page.locator(".race .lane")).to_have_count(2)  # raced at once
    expect(page.get_by_role("heading", name="Identical: yes")).to_be_visible()
    page.get_by_role("link", name="Predict").click()
    expect(answers(page).first).to_contain_text(ACETANILIDE)
    # The other task, with the mouse.
    page.get_by_text("Retro: how to make it?", exact=True).click()
    box = page.get_by_label("The molecule to make")
    box.fill(ACETANILIDE)
    page.get_by_role("button", name="Find precursors").click()
    expect(answers(page).first).to_contain_text("Nc1ccccc1")
    expect(page.get_by_text("forward model agrees").first).to_be_visible()
    app.settle(page)
    assert loaded(page)
    detail(page, "One step back").click()
    precursors = page.get_by_role("button", name="Find precursors, answer 1")
    expect(precursors).to_have_count(2)
    precursors.last.click()
    expect(page.get_by_label("The molecule to make")).to_have_value("Nc1ccccc1")


def test_three_ideas_are_seen_at_once(app: Any) -> None:
    page = app.open(link("retro", LIDOCAINE), viewport={"width": 1280, "height": 800})
    cards = page.locator("[class*=st-key-predict_][class*=_card]")
    expect(cards.nth(2)).to_be_visible()
    app.settle(page)
    assert loaded(page)
    third = cards.nth(2).bounding_box()
    assert third["y"] + third["height"] <= 800
    # Ideas, not one idea three times: the amide, and two different bonds of the amine.
    ideas = page.locator(".cs-head h3").all_inner_texts()[:3]
    assert sorted(ideas) == ["Amide formation", "N-Alkylation", "N-Alkylation"]
    texts = answers(page).all_inner_texts()[:3]
    assert len(set(texts)) == 3 and any(text.startswith("CCNCC.Cc") for text in texts)
    assert [text.count(".") for text in texts] == [1, 1, 1]  # two precursors each
    assert page.locator(".drawing svg").count() == 1  # the target is drawn once


def test_keys_go_to_the_box_and_the_answers_and_old_answers_are_dimmed(app: Any) -> None:
    page = app.open(link("retro", LIDOCAINE))
    expect(page.locator(".cs-rank").nth(1)).to_be_visible()
    app.settle(page)
    page.get_by_role("heading", name="Amide formation").first.click()
    page.keyboard.press("2")
    assert page.evaluate("document.activeElement.textContent") == "2"
    page.keyboard.press("k")
    assert page.evaluate("document.activeElement.textContent") == "1"
    page.keyboard.press("/")
    expect(page.locator(BOX)).to_be_focused()
    page.locator(BOX).fill(ACETANILIDE)
    expect(page.get_by_text("These answers belong to an earlier query")).to_be_visible()
    assert float(page.locator(".st-key-predict_stale").evaluate("e => getComputedStyle(e).opacity")) < 0.6


def test_a_bond_is_marked_with_the_mouse_and_with_keys(app: Any) -> None:
    page = app.open(link("retro", LIDOCAINE))
    page.locator(".bond[data-name=C6-N8] .hit").click(force=True)
    expect(page.get_by_text("Breaking C6-N8")).to_be_visible()
    assert "guide=break+C6-N8" in page.url
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="bond N8-C9: must stay")).to_be_focused()
    expect(page.get_by_text("Breaking C6-N8, keeping N8-C9")).to_be_visible()
    page.get_by_role("button", name="Clear constraints", exact=True).click()
    expect(page.get_by_role("button", name="Clear constraints", exact=True)).to_have_count(0)
    expect(page.get_by_text("Breaking C6-N8")).to_have_count(0)


def test_faults_are_marked_while_typing_and_ctrl_enter_predicts_in_the_box_and_outside(app: Any) -> None:
    page = app.open()
    box = page.locator(BOX)
    box.press_sequentially("CC(=O)Qc1ccccc1", delay=5)
    expect(page.locator("mark")).to_have_text("Q")  # no Enter yet
    expect(page.get_by_role("alert")).to_contain_text("(character 7)")
    expect(page.get_by_role("alert").locator("pre")).to_contain_text("^")
    expect(box).to_have_attribute("aria-invalid", "true")
    box.fill("CC(=O)Cl.Nc1ccccc1")
    expect(page.get_by_role("alert")).to_have_count(0)
    expect(answers(page)).to_have_count(0)
    box.press("Control+Enter")
    expect(answers(page).first).to_contain_text(ACETANILIDE)
    page.get_by_role("button", name="Clear the box").click()
    expect(page.get_by_role("heading", name="More examples")).to_be_visible()
    assert "smi=" not in page.url
    box.fill("CC(=O)Cl.Nc1ccccc1")
    page.get_by_role("heading", name="More examples").click()
    expect(page.get_by_role("status").first).to_contain_text("2 molecules")
    page.keyboard.press("Control+Enter")
    expect(answers(page).first).to_contain_text(ACETANILIDE)


@pytest.mark.parametrize("task", every(2, ["retro", "forward"]))
def test_a_phone_never_scrolls_sideways(task: str, app: Any) -> None:
    page = app.open(viewport={"width": 390, "height": 844})
    assert overflow(page) <= 0
    imatinib = "Cc1ccc(NC(=O)c2ccc(CN3CCN(C)CC3)cc2)cc1Nc1nccc(-c2cccnc2)n1"
    app.go(page, link(task, imatinib if task == "retro" else "CCO." + imatinib))
    expect(answers(page).first).to_be_visible()
    assert loaded(page)
    names = set(page.locator("[class*=_card] button").evaluate_all("all => all.map(one => one.ariaLabel)"))
    count = answers(page).count()
    assert {f"Copy answer {rank}" for rank in range(1, count + 1)} < names
    beside = (
        "head => {const [rank, title] = head.children; title.textContent = 'a long class '.repeat(9); "
        "return title.getBoundingClientRect().top < rank.getBoundingClientRect().bottom}"
    )
    assert page.locator(".cs-head").first.evaluate(beside)
    chips = page.locator("[class*=_card] .cs-runs").count()  # the card with its passes has one button more
    assert len(names) == 7 * count + chips
    detail(page, "More").click()
    expect(page.locator(".cs-token").first).to_be_visible()
    assert overflow(page) <= 0
    detail(page, "Precedents").click()
    expect(page.locator(".cs-precedent, .st-key-predict_1_view p").first).to_be_visible()
    expect(page.locator(".cs-token")).to_have_count(0)
    app.settle(page)
    assert overflow(page) <= 0
    for name in ("Options", "Save or share"):
        page.get_by_role("button", name=name).click()
        app.settle(page)
        assert overflow(page) <= 0
        page.keyboard.press("Escape")


def test_files_come_without_a_new_run(app: Any) -> None:
    page = app.open(link("forward", "CC(=O)Cl.Nc1ccccc1"))
    page.get_by_role("button", name="Save or share").click()
    address = page.get_by_role("dialog").locator("pre")
    expect(address).to_contain_text("smi=")
    assert address.evaluate("one => one.scrollWidth <= one.clientWidth"), "all of the text can be read"
    with page.expect_download() as file:
        page.get_by_role("button", name="CSV").click()
    text = file.value.path().read_text()
    assert ACETANILIDE in text and text.startswith("query,rank,smiles,probability,calibrated,note,class")
    assert "chemspec:predict?task=forward&smi=" in page.get_by_role("dialog").inner_text()
    page.keyboard.press("Escape")
    detail(page, "More").click()
    with page.expect_download() as file:
        page.get_by_role("button", name="SDF").click()
    assert "V2000" in file.value.path().read_text()
    with page.expect_download() as file:
        page.get_by_role("button", name="SVG").click()
    assert file.value.path().read_text().count("<svg") == 4  # the scheme: two reactants and the product


def test_a_pasted_molfile_keeps_its_lines(app: Any) -> None:
    from chemspec.chem.formats import to_sdf

    molfile = to_sdf([{"smiles": ACETANILIDE}]).split("$$$$")[0]
    page = app.open(link("retro"))
    box = page.locator(BOX)
    box.fill(molfile)
    box.press("Enter")
    expect(answers(page).first).to_contain_text("Nc1ccccc1")
    expect(page.locator(".cs-hint", has_text="read as")).to_be_visible()
    expect(page.locator(".folded")).to_have_text("molfile, 10 atoms")


@pytest.mark.skipif(bool(web_files.missing_reason("ketcher")), reason=web_files.missing_reason("ketcher"))
def test_a_drawing_is_a_question(app: Any) -> None:
    page = app.open()
    box = page.locator(BOX)
    box.fill("CC(=O)Cl")
    app.settle(page)
    page.get_by_role("button", name="Draw", exact=True).click()
    frame = page.frame_locator("iframe[title*=sketcher]")
    frame.get_by_test_id("template-0").wait_for()
    inside = next(frame for frame in page.frames if "/component/" in frame.url)
    inside.wait_for_function("async () => window.ketcher && (await readCanvas()).includes('Cl')")
    frame.get_by_test_id("template-0").click()
    canvas = frame.get_by_test_id("canvas").bounding_box()
    page.mouse.click(canvas["x"] + canvas["width"] / 2 + 150, canvas["y"] + canvas["height"] / 2)
    page.wait_for_timeout(5000)  # the canvas reports after a pause, which nothing on the page tells
    page.get_by_role("button", name="Use this drawing").click()
    expect(box).to_have_value("CC(=O)Cl.c1ccccc1")
    page.get_by_role("button", name="Predict product").click()
    expect(answers(page).first).to_be_visible()
