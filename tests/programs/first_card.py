"""Seconds from Enter to the first card and to the whole page: `python tests/programs/first_card.py 3`.

On a quiet machine. Starts the app, lets it warm up, and asks five questions so many times over in a browser of 1280 x
800. `--cold 4` opens so many pages by a link the moment that a fresh server listens. The last line is one JSON
document.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from browser.conftest import CHROMIUM, FLAGS, Server
from playwright.sync_api import sync_playwright

QUESTIONS = {
    "retro": (
        "CCN(CC)CC(=O)Nc1c(C)cccc1C",
        "CC(=O)Nc1ccc(O)cc1",
        "Cc1ccc(NC(=O)c2ccc(CN3CCN(C)CC3)cc2)cc1Nc1nccc(-c2cccnc2)n1",
    ),
    "forward": ("OB(O)c1ccccc1.Brc1ccncc1.O=C([O-])[O-].[K+].[K+]", "CC(=O)Cl.Nc1ccccc1"),
}
ENDED = "document.querySelector('[data-testid=stApp]').dataset.testScriptState === 'notRunning'"
CARD = "[class*=_card] [data-testid=stCode]"
NEW = """([card, before]) => {
  const first = document.querySelector(card)
  return first && first.innerText !== before
}"""
WHOLE = f"() => {ENDED} && document.querySelector('.cs-strip')"


def warm(server: Server, browser: Any, rounds: int) -> dict[str, Any]:
    """Ask everything so many times, each time as another visitor: what a visitor has asked is remembered."""
    first: list[float] = []
    whole: list[float] = []
    for task, queries in [*QUESTIONS.items()] * rounds:
        page = browser.new_context(viewport={"width": 1280, "height": 800}).new_page()
        page.goto(f"{server.url}/?task={task}")
        page.wait_for_selector("textarea")
        page.wait_for_function(f"() => {ENDED}")
        for query in queries:
            page.locator("textarea").fill(query)
            page.wait_for_timeout(1500)  # what was understood is drawn
            before = page.locator(CARD).first.inner_text() if page.locator(CARD).count() else ""
            began = time.monotonic()
            page.keyboard.press("Control+Enter")
            page.wait_for_function(NEW, arg=[CARD, before])
            first.append(time.monotonic() - began)
            page.wait_for_function(WHOLE)
            whole.append(time.monotonic() - began)
        page.close()
    return {
        name: {"median": round(statistics.median(all_), 2), "most": round(max(all_), 2)}
        for name, all_ in (("first card", first), ("whole page", whole))
    }


def cold(server: Server, browser: Any, visitors: int) -> dict[str, Any]:
    """Let visitors come by a link as soon as the server listens."""
    pages = [browser.new_context(viewport={"width": 1280, "height": 800}).new_page() for _ in range(visitors)]
    began = time.monotonic()
    for page in pages:
        page.goto(f"{server.url}/?task=retro&smi={quote(QUESTIONS['retro'][0])}", wait_until="commit")
    first = []
    for page in pages:
        page.wait_for_selector(CARD, timeout=120_000)
        first.append(round(time.monotonic() - began, 2))
    return {"first card": first}


def main() -> None:
    """Measure and report."""
    words = argparse.ArgumentParser()
    words.add_argument("rounds", type=int, nargs="?", default=3)
    words.add_argument("--cold", type=int, default=0, help="visitors who come to a fresh server at once")
    given = words.parse_args()
    with tempfile.TemporaryDirectory() as name, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        server = Server(Path(name), CHEMSPEC_HOME=str(Path(name) / "app"))
        if given.cold:
            told = cold(server, browser, given.cold)
        else:
            time.sleep(20)
            told = warm(server, browser, given.rounds)
        browser.close()
        server.stop()
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main()
