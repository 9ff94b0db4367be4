"""The page Predict in a browser: what a chemist does there."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest

from chemspec.ui.common import vendor

playwright = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
expect = playwright.expect
expect.set_options(timeout=240_000)

ACETANILIDE = "CC(=O)Nc1ccccc1"
BOX = "textarea"


def open_at(page: Any, server: Any, settled: Callable[[Any], None], **query: str) -> Any:
    text = "&".join(f"{name}={quote(value)}" for name, value in query.items())
    page.goto(f"{server.url}/?{text}" if text else server.url)
    page.wait_for_selector("h1")
    settled(page)
    return page


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


def overflow(page: Any) -> int:
    """Pixels by which the page is wider than the window."""
    script = "e => Math.max(e.scrollWidth, document.documentElement.scrollWidth) - window.innerWidth"
    return int(page.locator("[data-testid=stMain]").evaluate(script))


def test_typing_and_enter_give_drawn_answers(
    server: Any, new_page: Callable[..., Any], settled: Callable[[Any], None]
) -> None:
    page = open_at(new_page(), server, settled)
    box = page.get_by_label("Everything in the flask")
    box.fill("CC(=O)Cl.Nc1ccccc1")
    box.press("Enter")
    expect(answers(page).first).to_contain_text(ACETANILIDE)
    settled(page)
    assert loaded(page)
    expect(page.get_by_alt_text(f"drawing of {ACETANILIDE}").first).to_be_visible()
    assert re.search(r"smi=CC", page.url)
    expect(page.locator(".cs-strip")).to_contain_text("tokens in")
    page.get_by_role("button", name="Measure the saving").click()
    expect(page.locator(".race .lane")).to_have_count(2)  # raced at once on the page Speed
    expect(page.get_by_text("same answer", exact=True).first).to_be_visible()
    page.get_by_role("link", name="Predict").click()
    expect(answers(page).first).to_contain_text(ACETANILIDE)
    # The other task, with the mouse.
    page.get_by_text("What is it made from?", exact=True).click()
    box = page.get_by_label("The molecule to make")
    box.fill(ACETANILIDE)
    page.get_by_role("button", name="Predict").click()
    expect(answers(page).first).to_contain_text("Nc1ccccc1")
    expect(page.get_by_text("round trip gives the query back").first).to_be_visible()
    settled(page)
    assert loaded(page)
    page.get_by_role("button", name="What is 1b made from?").click()
    expect(page.get_by_label("The molecule to make")).to_have_value("Nc1ccccc1")
    expect(page.get_by_role("button", name="History")).to_be_visible()


def test_faults_are_marked_while_typing_and_ctrl_enter_predicts(
    server: Any, new_page: Callable[..., Any], settled: Callable[[Any], None]
) -> None:
    page = open_at(new_page(), server, settled)
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
    expect(page.get_by_role("heading", name="Examples")).to_be_visible()
    assert "smi=" not in page.url


def test_the_shortcut_works_outside_the_box_too(
    server: Any, new_page: Callable[..., Any], settled: Callable[[Any], None]
) -> None:
    page = open_at(new_page(), server, settled)
    page.locator(BOX).fill("CC(=O)Cl.Nc1ccccc1")
    page.get_by_role("heading", name="Predict").click()
    expect(page.get_by_role("status").first).to_contain_text("2 molecules")
    page.keyboard.press("Control+Enter")
    expect(answers(page).first).to_contain_text(ACETANILIDE)


def test_a_link_works_on_a_fresh_server(
    new_server: Callable[..., Any], new_page: Callable[..., Any], settled: Callable[[Any], None], tmp_path: Any
) -> None:
    fresh = new_server(CHEMSPEC_HOME=str(tmp_path))
    page = open_at(new_page(), fresh, settled, task="retro", smi=ACETANILIDE)
    expect(page.get_by_role("link", name="Step through")).to_be_visible()
    expect(answers(page)).to_have_count(5)
    expect(page.locator(BOX)).to_have_value(ACETANILIDE)
    # On to another page and back: the question still stands.
    page.get_by_role("link", name="Learn").click()
    page.wait_for_url("**/learn*")
    settled(page)
    page.get_by_role("link", name="Predict").click()
    expect(answers(page)).to_have_count(5)
    expect(page.locator(BOX)).to_have_value(ACETANILIDE)


def test_back_returns_to_the_question_before(
    server: Any, new_page: Callable[..., Any], settled: Callable[[Any], None]
) -> None:
    page = open_at(new_page(), server, settled, task="retro", smi=ACETANILIDE)
    box = page.locator(BOX)
    box.fill("COc1ccc(-c2ccncc2)cc1")
    box.press("Enter")
    expect(answers(page).first).to_contain_text("B(O)O")
    settled(page)
    page.go_back()
    expect(box).to_have_value(ACETANILIDE)
    expect(answers(page).first).to_contain_text("Nc1ccccc1")


def test_an_example_is_one_click_also_at_night(
    server: Any, new_page: Callable[..., Any], settled: Callable[[Any], None]
) -> None:
    page = open_at(new_page(color_scheme="dark"), server, settled)
    assert loaded(page)
    page.get_by_role("button", name="Williamson ether synthesis").click()
    expect(answers(page).first).to_contain_text("Brc1ccc(OCc2ccccc2)cc1")
    expect(page.get_by_text("K₂CO₃, acetone")).to_be_visible()
    expect(page.get_by_text("Aldehyde and amine")).not_to_be_visible(timeout=1)  # gone at once
    settled(page)
    body = page.locator("[data-testid=stApp]").evaluate("e => getComputedStyle(e).backgroundColor")
    assert max(map(int, re.findall(r"\d+", body)[:3])) < 60
    ink = page.get_by_alt_text("drawing of Brc1ccc(OCc2ccccc2)cc1").first.get_attribute("src")
    assert ink != _light_ink()


def _light_ink() -> str:
    from chemspec.ui.common import draw

    return draw.data_uri(draw.molecule("Brc1ccc(OCc2ccccc2)cc1", width=-1, height=-1))


@pytest.mark.parametrize("task", ["forward", "retro"])
def test_a_phone_never_scrolls_sideways(
    task: str, server: Any, new_page: Callable[..., Any], settled: Callable[[Any], None]
) -> None:
    page = new_page(viewport={"width": 390, "height": 844})
    open_at(page, server, settled)
    assert overflow(page) <= 0
    imatinib = "Cc1ccc(NC(=O)c2ccc(CN3CCN(C)CC3)cc2)cc1Nc1nccc(-c2cccnc2)n1"
    open_at(page, server, settled, task=task, smi=imatinib if task == "retro" else "CCO." + imatinib)
    expect(answers(page).first).to_be_visible()
    assert loaded(page)
    page.get_by_text("Confidence, token by token").first.click()
    expect(page.locator(".cs-token").first).to_be_visible()
    assert overflow(page) <= 0
    for name in ("Options", "Save or share"):
        page.get_by_role("button", name=name).click()
        settled(page)
        assert overflow(page) <= 0
        page.keyboard.press("Escape")


def test_files_come_without_a_new_run(
    server: Any, new_page: Callable[..., Any], settled: Callable[[Any], None]
) -> None:
    page = open_at(new_page(), server, settled, task="forward", smi="CC(=O)Cl.Nc1ccccc1")
    page.get_by_role("button", name="Save or share").click()
    with page.expect_download() as file:
        page.get_by_role("button", name="CSV").click()
    text = file.value.path().read_text()
    assert ACETANILIDE in text and text.startswith("query,rank")
    assert "?task=forward&smi=" in page.get_by_test_id("stPopoverBody").inner_text()
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Save", exact=True).first.click()
    with page.expect_download() as file:
        page.get_by_role("button", name="SDF").click()
    assert "V2000" in file.value.path().read_text()


def test_a_pasted_molfile_keeps_its_lines(
    server: Any, new_page: Callable[..., Any], settled: Callable[[Any], None]
) -> None:
    from chemspec.chem.formats import to_sdf

    molfile = to_sdf([{"smiles": ACETANILIDE}]).split("$$$$")[0]
    page = open_at(new_page(), server, settled, task="retro")
    box = page.locator(BOX)
    box.fill(molfile)
    box.press("Enter")
    expect(answers(page).first).to_contain_text("Nc1ccccc1")
    expect(page.get_by_role("status").first).to_contain_text("read as")


@pytest.mark.skipif(bool(vendor.why_not("ketcher")), reason=vendor.why_not("ketcher"))
def test_a_drawing_is_a_question(server: Any, new_page: Callable[..., Any], settled: Callable[[Any], None]) -> None:
    page = open_at(new_page(), server, settled)
    box = page.locator(BOX)
    box.fill("CC(=O)Cl")
    page.get_by_role("button", name="Draw", exact=True).click()
    frame = page.frame_locator("iframe[title*=sketcher]")
    frame.get_by_test_id("template-0").wait_for()
    inside = next(frame for frame in page.frames if "/component/" in frame.url)
    inside.wait_for_function("async () => window.ketcher && (await readCanvas()).includes('Cl')")
    frame.get_by_test_id("template-0").click()
    canvas = frame.get_by_test_id("canvas").bounding_box()
    page.mouse.click(canvas["x"] + canvas["width"] / 2 + 150, canvas["y"] + canvas["height"] / 2)
    expect(box).to_have_value("CC(=O)Cl.c1ccccc1")
    page.get_by_role("button", name="Predict").click()
    expect(answers(page).first).to_be_visible()
    box.fill(ACETANILIDE)  # the canvas follows, and does not write the text anew
    settled(page)
    page.wait_for_timeout(1000)
    assert box.input_value() == ACETANILIDE


def test_how_an_answer_was_made_is_one_click_away(
    server: Any, new_page: Callable[..., Any], settled: Callable[[Any], None]
) -> None:
    page = open_at(new_page(), server, settled, task="retro", smi=ACETANILIDE)
    page.get_by_role("button", name="How was this made?").click()
    page.wait_for_url("**/step?task=retro&smi=*")
    expect(page.get_by_role("heading", name="Step through")).to_be_visible()


def test_markup_typed_as_a_smiles_is_inert(
    server: Any, new_page: Callable[..., Any], settled: Callable[[Any], None]
) -> None:
    page = new_page()
    struck: list[Any] = []
    page.on("dialog", lambda dialog: (struck.append(dialog), dialog.dismiss()))
    open_at(page, server, settled)
    for text in ("<script>alert(1)</script>", "CC<img src=x onerror=alert(1)>"):
        page.locator(BOX).fill(text)
        page.locator(BOX).press("Enter")
        expect(page.get_by_role("alert")).to_contain_text("<")
    open_at(page, server, settled, task="<b>x</b>", smi="<img src=x onerror=alert(1)>")
    expect(page.get_by_role("alert").first).to_be_visible()
    assert not struck
    assert page.locator("img[src=x]").count() == 0
