"""Seconds from Enter to the first card and to the whole page: `python tests/programs/first_card.py 3`.

On a quiet machine. Starts the app, lets it warm up, and asks five questions so many times over in a browser of 1280 x
800. The first answer is the first picture of one, where the page draws it alone before the others; the first card is
that of the whole list. `--cold 4` opens so many pages by a link the moment that a fresh server listens, `--tree FOLDER`
starts the app of another version. The last line is one JSON document.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from browser.conftest import CHROMIUM, FLAGS, Server
from helpers.paths import ROOT
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
ALONE = "[class*=st-key-predict_still_]"  # the answer that is drawn before the others
BELOW = ".st-key-predict_speed"  # what stands below the last card
# Notes when each first stands on the page, frame by frame, from the moment that the question is sent.
WATCH = f"""([card, alone, below]) => {{
  const text = () => document.querySelector(card)?.innerText
  const before = text(), times = window.drawn = {{began: performance.now()}}
  const look = () => {{
    const new_card = text() && text() !== before
    if (!times.card && new_card) times.card = performance.now()
    if (!times.answer && (new_card || document.querySelector(alone))) times.answer = performance.now()
    if (times.card && {ENDED} && document.querySelector(below)) times.page = performance.now()
    else requestAnimationFrame(look)
  }}
  look()
}}"""


def warm(server: Server, browser: Any, rounds: int) -> dict[str, Any]:
    """Ask everything so many times, each time as another visitor: what a visitor has asked is remembered."""
    times: dict[str, list[float]] = {name: [] for name in ("first answer", "first card", "whole page", "card to page")}
    busy: list[float] = []
    of_question: dict[str, list[float]] = {}  # from the first card to the whole page
    for task, queries in [*QUESTIONS.items()] * rounds:
        page = browser.new_context(viewport={"width": 1280, "height": 800}).new_page()
        page.goto(f"{server.url}/?task={task}")
        page.wait_for_selector("textarea")
        page.wait_for_function(f"() => {ENDED}")
        for query in queries:
            page.locator("textarea").fill(query)
            page.wait_for_timeout(1500)  # what was understood is drawn
            page.evaluate(WATCH, [CARD, ALONE, BELOW])
            before = processor_seconds(server)
            page.keyboard.press("Control+Enter")
            page.wait_for_function("() => window.drawn.page")
            busy.append(processor_seconds(server) - before)
            drawn = page.evaluate("() => window.drawn")
            moments = {name: (drawn[name] - drawn["began"]) / 1000 for name in ("answer", "card", "page")}
            lengths = (*moments.values(), moments["page"] - moments["card"])
            for all_, length in zip(times.values(), lengths, strict=True):
                all_.append(length)
            of_question.setdefault(query, []).append(round(lengths[-1], 3))
        page.close()
    times["processor time of the server"] = busy
    summary: dict[str, Any] = {
        name: {"median": round(statistics.median(all_), 3), "most": round(max(all_), 3)} for name, all_ in times.items()
    }
    return summary | {"card to page, of each question": of_question}


def processor_seconds(server: Server) -> float:
    """Return the processor time of a server's process so far."""
    ticks = Path(f"/proc/{server.process.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


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
    words.add_argument("--tree", type=Path, default=ROOT, help="a checkout of another version")
    given = words.parse_args()
    with tempfile.TemporaryDirectory() as name, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        os.environ["PYTHONPATH"] = str(given.tree.resolve())
        server = Server(Path(name), root=given.tree.resolve(), CHEMSPEC_HOME=str(Path(name) / "app"))
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
