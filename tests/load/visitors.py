"""Visitors at once in real browsers: `python tests/load/visitors.py 50 --minutes 20`, on a machine that is quiet.

Every visitor has a browser context of their own and asks a question of their own, again and again, while a file is
answered in the background. Answers are compared with those of the engine, made beforehand. The last line is one JSON
document; the exit code is 1 if an answer is wrong or lost, or if memory grows by more than 5 % in the second half.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from browser.conftest import CHROMIUM, FLAGS, Server
from playwright.sync_api import Error, sync_playwright

from chemspec.engine.engine import Engine
from chemspec.evaluation import reference
from chemspec.settings import DecodeSettings


def resident(process: int) -> float:
    """Megabytes of a process."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))


def expected(visitors: int) -> dict[str, set[str]]:
    """Questions, and the answers to each; the page groups them, so the one it shows first need not be the likeliest."""
    engine = Engine.load("retro")
    texts = [text for text in reference.bench_queries("retro") if not engine.prepare(text).refusal]
    asked = sorted(set(texts), key=len)[:visitors]
    results = engine.predict(asked, DecodeSettings(n=10, distinct=True))  # as the page asks
    return {
        query: {answer.canonical for answer in result.hypotheses} for query, result in zip(asked, results, strict=True)
    }


def ask(pages: list[Any], queries: list[str], url: str, answers: dict[str, set[str]], told: dict[str, Any]) -> None:
    """One round: all ask at once, then each answer is waited for and compared."""
    began = time.monotonic()
    for page, query in zip(pages, queries, strict=True):
        page.goto(f"{url}/?task=retro&smi={quote(query)}", wait_until="commit")
    for page, query in zip(pages, queries, strict=True):
        told["asked"] += 1
        try:
            first = page.locator("[data-testid=stCode]").first
            first.wait_for(timeout=120_000)
            told["seconds"].append(time.monotonic() - began)
            if first.inner_text().strip() not in answers[query]:
                told["wrong"].append([query, first.inner_text().strip()])
        except Error as error:
            told["lost"].append(f"{query}: {str(error).splitlines()[0]}")


def main() -> int:
    """Run, report, and return the exit code."""
    words = argparse.ArgumentParser()
    words.add_argument("visitors", type=int)
    words.add_argument("--minutes", type=float, default=20.0)
    given = words.parse_args()
    answers = expected(given.visitors)
    told: dict[str, Any] = {"visitors": len(answers), "asked": 0, "wrong": [], "lost": [], "seconds": []}
    with tempfile.TemporaryDirectory() as home, sync_playwright() as driver:
        server = Server(Path(home), CHEMSPEC_HOME=f"{home}/app")
        batch = [sys.executable, "-m", "chemspec.cli", "predict", "-", "--task", "retro", "-o", f"{home}/batch.csv"]
        text = "\n".join(reference.bench_queries("retro") * 50)
        beside = subprocess.Popen(
            batch, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True
        )
        assert beside.stdin is not None
        beside.stdin.write(text)
        beside.stdin.close()
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        pages, memory = [browser.new_context().new_page() for _ in answers], []
        end = time.monotonic() + 60 * given.minutes
        while time.monotonic() < end or len(memory) < 2:
            queries = list(answers)
            turn = len(memory) % len(queries)  # nobody asks the same twice in a row
            ask(pages, queries[turn:] + queries[:turn], server.url, answers, told)
            memory.append(resident(server.process.pid))
        browser.close()
        server.stop()
        beside.terminate()
    half = memory[len(memory) // 2 :]
    seconds = sorted(told.pop("seconds")) or [0.0]
    told |= {
        "rounds": len(memory),
        "p50": round(statistics.median(seconds), 2),
        "p95": round(seconds[int(0.95 * (len(seconds) - 1))], 2),
        "megabytes": [round(value) for value in (memory[0], half[0], half[-1])],
        "growth": round(half[-1] / half[0] - 1, 4),
    }
    sys.stdout.write(json.dumps(told) + "\n")
    return 1 if told["wrong"] or told["lost"] or told["growth"] > 0.05 else 0


if __name__ == "__main__":
    sys.exit(main())
