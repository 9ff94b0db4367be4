"""The sketcher in a real browser: text and canvas follow each other, and never chase each other; and the 3-D view."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from chemspec.ui.common import web_files
from chemspec.ui.predict import sketcher

PAGE = "tests/browser/sketcher_page.py"
built = pytest.mark.skipif(bool(web_files.missing_reason("ketcher")), reason=web_files.missing_reason("ketcher"))


class Sketch:
    """The test page, with the canvas in it."""

    def __init__(self, page: Any, url: str) -> None:
        page.goto(url)
        self.page, self.frame = page, page.frame_locator("iframe[title*=sketcher]")
        self.frame.get_by_test_id("template-0").wait_for()
        self.inside = next(frame for frame in page.frames if "/component/" in frame.url)

    def canvas(self) -> str:
        """What is drawn, canonical."""
        read = "window.ketcher ? readCanvas() : '?'"
        try:
            drawn = self.inside.evaluate(read)
        except Exception as error:  # a browser that hardly gets any time loses an answer once in a while
            if "garbage collected" not in str(error):
                raise
            drawn = self.inside.evaluate(read)
        return sketcher.canonical_sides(drawn.partition(" ")[0])

    def text(self) -> str:
        return str(self.page.get_by_label("SMILES").input_value())

    def counts(self) -> tuple[int, int]:
        """How often the page ran, and how many of the runs were told of a drawing."""
        runs, drawings, _ = self.page.get_by_test_id("stCode").inner_text().split("|")
        return int(runs), int(drawings)

    def type(self, text: str) -> None:
        self.page.get_by_label("SMILES").fill(text)
        self.page.get_by_label("SMILES").press("Enter")

    def ring(self, dx: int, dy: int) -> None:
        """Draw benzene with the mouse, away from the middle of the canvas."""
        self.frame.get_by_test_id("template-0").click()
        box = self.frame.get_by_test_id("canvas").bounding_box()
        x, y = box["x"] + box["width"] / 2 + dx, box["y"] + box["height"] / 2 + dy
        self.page.mouse.click(x, y)

    def soon(self, read: Callable[[], Any], wanted: Any) -> None:
        """Wait until something reads as wanted."""
        end = time.monotonic() + 240
        while (found := read()) != wanted:
            assert time.monotonic() < end, f"{found!r} instead of {wanted!r}"
            self.page.wait_for_timeout(50)

    def quiet(self) -> None:
        """Wait for longer than an echo could take."""
        self.page.wait_for_timeout(1200)


@pytest.fixture(scope="module")
def url(new_server: Callable[..., Any]) -> str:
    return str(new_server(PAGE).url)


@pytest.fixture
def sketch(url: str, new_page: Callable[..., Any]) -> Sketch:
    return Sketch(new_page(), url)


@built
def test_text_and_canvas_follow_each_other_without_echoes(sketch: Sketch) -> None:
    sketch.soon(sketch.canvas, "CCO")
    assert sketch.page.evaluate("document.activeElement.tagName") == "BODY"  # the focus is not taken
    sketch.soon(sketch.counts, (1, 0))
    sketch.quiet()
    assert sketch.counts() == (1, 0)

    sketch.type("c1ccncc1")
    sketch.soon(sketch.canvas, "c1ccncc1")
    sketch.soon(sketch.counts, (2, 0))
    sketch.quiet()
    assert sketch.counts() == (2, 0)

    sketch.ring(-150, 60)
    sketch.soon(sketch.text, "c1ccccc1.c1ccncc1")
    sketch.soon(sketch.counts, (3, 1))
    sketch.quiet()
    assert sketch.counts() == (3, 1)
    assert sketch.canvas() == "c1ccccc1.c1ccncc1"

    sketch.type("OCC")
    sketch.soon(sketch.canvas, "CCO")
    sketch.soon(sketch.counts, (4, 1))
    sketch.quiet()
    assert sketch.text() == "OCC"  # as typed, though the canvas writes it otherwise
    assert sketch.counts() == (4, 1)

    # The same drawing once more is news again; and a canvas wiped clean is a drawing.
    sketch.ring(-150, 60)
    sketch.soon(sketch.text, "CCO.c1ccccc1")
    sketch.soon(sketch.counts, (5, 2))
    sketch.frame.get_by_test_id("clear-canvas").click()
    sketch.soon(sketch.text, "")
    sketch.soon(sketch.counts, (6, 3))
    sketch.quiet()
    assert sketch.counts() == (6, 3)


@built
def test_reactions_and_texts_that_are_none(sketch: Sketch) -> None:
    for runs, typed in enumerate(("CCO.CC(=O)Cl>>CCOC(C)=O", "CCO.CC(=O)O>O=S(=O)(O)O>CCOC(C)=O"), 2):
        sketch.type(typed)
        sketch.soon(sketch.canvas, sketcher.canonical_sides(typed))
        sketch.soon(sketch.counts, (runs, 0))
    shown = sketch.canvas()
    for runs, typed in enumerate(("CC(", "xx>>", "no smiles", "CC>C"), 4):
        sketch.type(typed)
        sketch.soon(sketch.counts, (runs, 0))
        sketch.quiet()
        assert (sketch.canvas(), sketch.text()) == (shown, typed)
    sketch.type("N->[Cu]")  # good, but Ketcher cannot read it
    sketch.frame.get_by_text("cannot show this text").wait_for()
    assert sketch.canvas() == shown
    sketch.type("")
    sketch.soon(sketch.canvas, "")
    assert sketch.frame.locator("#note").is_hidden()
    sketch.soon(sketch.counts, (9, 0))
    sketch.page.get_by_role("button", name="Again").click()
    sketch.soon(sketch.counts, (10, 0))
    sketch.quiet()
    assert sketch.counts() == (10, 0)


@built
def test_what_is_drawn_while_the_page_is_busy_is_not_lost(
    url: str, new_page: Any, settled: Callable[[Any], None]
) -> None:
    sketch = Sketch(new_page(), url + "/?slow=2")
    sketch.soon(sketch.canvas, "CCO")
    settled(sketch.page)
    sketch.ring(-150, 60)
    # Told, and the run that it causes is under way.
    sketch.page.wait_for_selector("[data-testid=stApp][data-test-script-state=running]")
    sketch.soon(sketch.text, "CCO.c1ccccc1")
    sketch.ring(150, 60)
    rings = "CCO.c1ccccc1.c1ccccc1"
    sketch.soon(sketch.text, rings)
    sketch.soon(lambda: sketch.counts()[1], 2)
    sketch.page.wait_for_timeout(3000)
    assert (sketch.canvas(), sketch.text()) == (rings, rings)
    assert sketch.counts()[1] == 2


@built
def test_a_text_older_than_the_last_edit_comes_too_late(sketch: Sketch) -> None:
    sketch.soon(sketch.canvas, "CCO")
    sketch.ring(-150, 60)
    sketch.soon(sketch.text, "CCO.c1ccccc1")
    send = """(seen) => document.querySelector("iframe[title*=sketcher]").contentWindow.postMessage(
        {type: "streamlit:render", args: {smiles: "CN", push: "push" + seen, seen, height: 480}}, "*")"""
    sketch.page.evaluate(send, 0)
    sketch.quiet()
    assert sketch.canvas() == "CCO.c1ccccc1"
    sketch.page.evaluate(send, 9e15)
    sketch.soon(sketch.canvas, "CN")


@built
def test_it_fits_a_phone_in_the_dark(url: str, new_page: Any) -> None:
    page = new_page(viewport={"width": 390, "height": 844}, color_scheme="dark")
    sketch = Sketch(page, url)
    sketch.soon(sketch.canvas, "CCO")
    wide = "document.documentElement.scrollWidth > window.innerWidth"
    assert not page.evaluate(wide) and not sketch.inside.evaluate(wide)
    frame = page.locator("iframe[title*=sketcher]").bounding_box()
    for name in ("clear-canvas", "undo", "erase", "bonds", "C-button", "template-7", "template-lib"):
        box = sketch.frame.get_by_test_id(name).first.bounding_box()
        assert frame["x"] <= box["x"] and box["x"] + box["width"] <= frame["x"] + frame["width"]
    ground = "getComputedStyle(document.documentElement).filter"
    assert "invert" in sketch.inside.evaluate(ground)
    sketch.ring(-40, 80)
    sketch.soon(sketch.text, "CCO.c1ccccc1")


def test_without_the_files_a_line_says_why(new_server: Any, new_page: Any, settled: Any, tmp_path: Path) -> None:
    (tmp_path / "why.txt").write_text("Node.js was not found <b>")
    page = new_page()
    page.goto(new_server(PAGE, CHEMSPEC_VENDOR=str(tmp_path)).url)
    settled(page)
    line = page.get_by_test_id("stCaptionContainer").inner_text()
    assert re.match(r"Node.js was not found <b> \(with Node", line)


@pytest.mark.skipif(bool(web_files.missing_reason("3dmol")), reason=web_files.missing_reason("3dmol"))
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_molecule_stands_in_space(url: str, new_page: Any, scheme: str) -> None:
    page = new_page(color_scheme=scheme, viewport={"width": 390, "height": 844})
    page.goto(url + "/?model=CC(=O)Oc1ccccc1C(=O)O.%5BNa%2B%5D")
    view = page.locator("iframe[title*='3-D model of CC(=O)Oc1ccccc1C(=O)O.[Na+]']")
    view.content_frame.locator("canvas").wait_for()
    end = time.monotonic() + 240
    while True:
        picture = Image.open(BytesIO(view.screenshot())).convert("RGB")
        if len(picture.getcolors(picture.width * picture.height)) > 100:
            break
        assert time.monotonic() < end, "nothing was drawn"
    # The ground is the page's.
    body = "getComputedStyle(document.querySelector('[data-testid=stApp]')).backgroundColor"
    ground = tuple(int(number) for number in re.findall(r"\d+", page.evaluate(body))[:3])
    assert picture.getpixel((3, 3)) == ground
