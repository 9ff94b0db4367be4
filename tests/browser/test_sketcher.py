"""The sketcher in a real browser: it shows a text and tells what is drawn; and the 3-D view."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from io import BytesIO
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

    def drawn(self) -> tuple[int, str]:
        """How often the page ran, and what it was told of the canvas."""
        runs, drawn = self.page.get_by_test_id("stCode").inner_text().split("|")
        return int(runs), drawn

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
def test_the_canvas_shows_a_text_and_tells_what_is_drawn(sketch: Sketch) -> None:
    sketch.soon(sketch.canvas, "CCO")
    assert sketch.page.evaluate("document.activeElement.tagName") == "BODY"  # the focus is not taken
    sketch.soon(sketch.drawn, (1, "CCO"))
    sketch.quiet()
    assert sketch.drawn() == (1, "CCO"), "no echo of what Ketcher writes otherwise"
    sketch.ring(-150, 60)
    sketch.soon(sketch.drawn, (2, "CCO.c1ccccc1"))
    sketch.quiet()
    assert sketch.drawn() == (2, "CCO.c1ccccc1") and sketch.canvas() == "CCO.c1ccccc1"
    sketch.frame.get_by_test_id("clear-canvas").click()
    sketch.soon(sketch.drawn, (3, ""))


@built
@pytest.mark.nightly
def test_reactions_and_texts_that_are_none(sketch: Sketch) -> None:
    for runs, typed in enumerate(("CCO.CC(=O)Cl>>CCOC(C)=O", "CCO.CC(=O)O>O=S(=O)(O)O>CCOC(C)=O"), 2):
        sketch.type(typed)
        sketch.soon(sketch.canvas, sketcher.canonical_sides(typed))
        sketch.soon(sketch.drawn, (runs, typed))
    sketch.type("CC(")
    sketch.soon(sketch.canvas, "")
    sketch.type("N->[Cu]")  # good, but Ketcher cannot read it
    sketch.frame.get_by_text("cannot show this text").wait_for()
    sketch.quiet()
    assert sketch.drawn() == (5, "N->[Cu]")


@built
@pytest.mark.nightly
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
    sketch.soon(lambda: sketch.drawn()[1], "CCO.c1ccccc1")


@pytest.mark.skipif(bool(web_files.missing_reason("3dmol")), reason=web_files.missing_reason("3dmol"))
def test_a_molecule_stands_in_space(url: str, new_page: Any) -> None:
    page = new_page(color_scheme="dark", viewport={"width": 390, "height": 844})
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
