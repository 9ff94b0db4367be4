"""Milliseconds from the last key to the picture of an answer: `python tests/programs/while_typing.py 3`.

On a quiet machine. Starts the app, lets it warm up, and types each text so many times over in a browser of 1280 x 800,
a key every 60 ms; flasks differ by a solvent, so that no answer of Predict is remembered. `--visitors 10` types in so
many pages at once. The time ends with the second frame after the picture is decoded. The last line is one JSON
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

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from browser.conftest import CHROMIUM, FLAGS, Server
from playwright.sync_api import sync_playwright

TEXTS = {
    "": (
        "aniline, acetyl chloride",
        "C=CCBr.Oc1ccccc1.CN(C)C=O.O=C([O-])[O-].[K+].[K+]",
        "COC(=O)c1ccc(Br)cc1.OB(O)c1ccc(F)cc1.[Pd]",
        "benzaldehyde, morpholine, NaBH4",
        "O=C(O)c1ccc(F)cc1.C1CCNCC1.CCN=C=NCCCN(C)C",
    ),
    "plan": ("lidocaine", "CC(=O)Nc1ccc(O)cc1", "O=C(NCc1ccccc1)c1ccccc1", "celecoxib"),
}
MORE = ("", "O", "C1CCOC1", "ClCCl")  # solvents that make a flask new
WATCH = """() => {
  const find = (root) => {
    for (const each of root.querySelectorAll("*"))
      if (each.shadowRoot) {
        const box = each.shadowRoot.querySelector("textarea") || find(each.shadowRoot)
        if (box) return box
      }
    return root.querySelector("textarea")
  }
  const box = find(document), pane = box.closest(".box").querySelector(".preview")
  new MutationObserver(async () => {
    const picture = pane.querySelector("img"), last = window.lastKey
    if (!picture || pane.hidden) return
    await picture.decode()
    requestAnimationFrame(() => requestAnimationFrame(() => { window.shown = performance.now() - last }))
  }).observe(pane, {childList: true})
  window.type = async (text) => {
    window.ended = false
    for (const end of [0, ...Array.from(text, (_, k) => k + 1)]) {
      box.value = text.slice(0, end)
      window.shown = null
      window.lastKey = performance.now()
      box.dispatchEvent(new Event("input"))
      await new Promise((go) => setTimeout(go, end ? 60 : 500))
    }
    window.ended = true
  }
}"""


def type_texts(server: Server, browser: Any, rounds: int, visitors: int) -> dict[str, Any]:
    """Type every text so many times, in all pages at once; return the milliseconds by page of the app."""
    report = {}
    for path, texts in TEXTS.items():
        pages = [browser.new_context(viewport={"width": 1280, "height": 800}).new_page() for _ in range(visitors)]
        for page in pages:
            page.goto(f"{server.url}/{path}")
            page.wait_for_selector("textarea")
            page.wait_for_selector("[data-testid=stApp][data-test-script-state=notRunning]")
            page.evaluate(WATCH)
        shown, missed = [], 0
        for number in range(rounds):
            for start in range(len(texts)):
                for at, page in enumerate(pages):
                    text = texts[(start + at) % len(texts)]
                    solvent = MORE[(number + at) % len(MORE)] if path == "" else ""
                    text += solvent and (f", {solvent}" if ", " in text else f".{solvent}")
                    page.evaluate("text => { window.type(text) }", text)
                for page in pages:
                    page.wait_for_function("() => window.ended")
                time.sleep(1.5)
                times = [page.evaluate("window.shown") for page in pages]
                shown += [each for each in times if each is not None]
                missed += times.count(None)
        for page in pages:
            page.close()
        name = path or "predict"
        spread = {"median": round(statistics.median(shown)), "most": round(max(shown))} if shown else {}
        report[name] = {"n": len(shown), "without": missed, **spread}
    return report


def main() -> None:
    """Measure and report."""
    words = argparse.ArgumentParser()
    words.add_argument("rounds", type=int, nargs="?", default=3)
    words.add_argument("--visitors", type=int, default=1, help="pages that are typed in at once")
    given = words.parse_args()
    with tempfile.TemporaryDirectory() as name, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        server = Server(Path(name), CHEMSPEC_HOME=str(Path(name) / "app"))
        time.sleep(20)
        told = type_texts(server, browser, given.rounds, given.visitors)
        browser.close()
        server.stop()
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main()
