"""Take the pictures that the documents show, or into a folder of your own those of every page, light, dark and narrow.

    python assets/docs/screenshots.py                    what the documents show, into assets/docs/screens
    python assets/docs/screenshots.py FOLDER [NAME ...]  into FOLDER; a name is a page and a look, such as step-light,
                                                         or replay, the command

Needs Chromium and playwright (the extra `ci`); starts a server of its own.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import quote

HERE = Path(__file__).resolve().parent
TESTS = HERE.parent.parent / "tests"
sys.path[:0] = [str(TESTS / "browser"), str(TESTS)]

from conftest import CHROMIUM, FLAGS, Server  # noqa: E402
from PIL import Image  # noqa: E402
from playwright.sync_api import Page, sync_playwright  # noqa: E402

BOC = "CC(C)(C)OC(=O)N1CCC(CC1)C(=O)O.Nc1ccc(F)cc1"
AMIDE = "COc1ccc(CNC(=O)c2ccccc2)cc1"
PAGES = {
    "predict": f"/?task=retro&smi={quote(AMIDE)}",
    "step": f"/step?task=forward&smi={quote(BOC)}",
    "speed": "/speed",
    "plan": "/plan",
    "batch": "/batch",
    "collections": "/collections",
    "models": "/models",
    "learn": "/learn",
}
LOOKS = {"light": {}, "dark": {"color_scheme": "dark"}, "narrow": {"width": 390}}
SHOWN = ["predict-light", "step-light", "replay"]
RACED = "CCN(CC)CC(=O)Nc1c(C)cccc1C"
TALLEST = 2200  # pixels; what lies below is more of the same
STEPS = 4  # passes of Step through, after which its picture is taken


def settle(page: Page) -> None:
    """Wait until the script has run to its end and stays so."""
    for _ in range(3):
        page.wait_for_selector("[data-testid=stApp][data-test-script-state=notRunning]")
        page.wait_for_timeout(1500)


def prepare(page: Page, name: str) -> None:
    """Bring a page into a state worth looking at."""
    if name == "step":
        page.get_by_role("button", name="To the start").click()  # which also ends the autoplay
        for _ in range(STEPS):
            page.get_by_role("button", name="Step forward").click()
    if name == "speed":
        page.get_by_role("button", name="Start the race").click()
        page.wait_for_timeout(2000)
    if name == "batch":
        page.get_by_text("Use the sample file").click()
        page.wait_for_timeout(1000)
    settle(page)


def take(page: Page, file: Path, width: int, tallest: int) -> None:
    """The whole page as a small PNG."""
    tall = page.evaluate("Math.max(...[...document.querySelectorAll('[data-testid=stMain]')].map(e => e.scrollHeight))")
    page.set_viewport_size({"width": width, "height": min(int(tall) + 20, tallest)})
    page.wait_for_timeout(800)
    image = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    image.quantize(128).save(file, optimize=True)


def replay(file: Path) -> None:
    """Write the picture of `chemspec race -o`."""
    subprocess.run([sys.executable, "-m", "chemspec.cli", "race", RACED, "-o", str(file)], check=True)


def main(folder: Path, names: list[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    if not names or "replay" in names:
        replay(folder / "replay.svg")
    if names == ["replay"]:
        return
    with tempfile.TemporaryDirectory() as home, sync_playwright() as driver:
        server = Server(Path(home), CHEMSPEC_HOME=home)
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        try:
            for look, options in LOOKS.items():
                width = options.get("width", 1280)
                scheme = options.get("color_scheme", "light")
                context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
                for name, address in PAGES.items():
                    if names and f"{name}-{look}" not in names:
                        continue
                    page = context.new_page()
                    page.set_default_timeout(60_000)
                    page.goto(server.url + address)
                    settle(page)
                    prepare(page, name)
                    take(page, folder / f"{name}-{look}.png", width, TALLEST)
                    page.close()
        finally:
            browser.close()
            server.stop()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]), sys.argv[2:])
    else:
        main(HERE / "screens", SHOWN)
