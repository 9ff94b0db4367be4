"""Visitors, files and HTTP clients at once: `python tests/programs/visitors.py 50 --minutes 20`, on a quiet machine.

Every visitor has a browser context of their own, comes by a link, reads the answer for some seconds and types the next
question; every tenth question comes by a link again. Meanwhile `chemspec predict` answers a file and clients ask
`chemspec serve`. All answers are compared with the engine's, made beforehand. Visitors come one after the other, and
then the minutes begin. The last line is one JSON document; the exit code is 1 if an answer is wrong or lost, or if
memory grows by more than 5 % in the second half (of runs of 5 minutes and more).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import quote

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from browser.conftest import CHROMIUM, FLAGS, Server
from helpers.serving import Process
from playwright.sync_api import Error, sync_playwright
from programs import load

from chemspec import asset_files
from chemspec.engine.engine import Engine, model_folder
from chemspec.review.suggestions import bottled_answers
from chemspec.settings import DecodeSettings

LOOKS = 1.0  # seconds between two looks at a page; more often, and looking takes the time of answering
PATIENCE = 180.0  # seconds after which an answer is lost
MIN_SECONDS = 300.0  # seconds of a run from which on memory is judged
AFRESH = 10  # of so many questions of a visitor one is asked by a link, on a page of its own
HTTP = {"task": "retro", "n": 5, "distinct": False, "timeout": 600.0}

ANSWERS = ".st-key-predict_fresh [data-testid=stCode]"
# The first answer of a page that shows all of it, and the query that its address holds. Answers to the question before
# are marked, or no longer called fresh: an address changes a moment before the page does. A text is empty while the
# page hides it, because it loads what stands beside it (early.css); one that stays empty is lost.
SHOWN = """answers => {
  const app = document.querySelector('[data-testid=stApp]'), first = document.querySelector(answers)
  if (!first || first.dataset.before || app.dataset.testScriptState !== 'notRunning') return null
  const text = first.innerText.trim()
  return text ? [new URLSearchParams(location.search).get('smi'), text] : null
}"""
MARK = "all => all.forEach(one => { one.dataset.before = 'yes' })"


def resident(process: int) -> float:
    """Megabytes of a process."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))


def questions(engine: Engine) -> list[str]:
    """What is asked: products that the model reads, short ones first."""
    texts = [text for text in asset_files.bench_queries("retro") if not engine.prepare(text).refusal]
    return sorted(set(texts), key=len)[:60]


@dataclass
class Visitor:
    """A browser context whose visitor asks one question after the other.

    Attributes:
        page: its page.
        number: tells where in the list of questions it begins.
        seconds: that each answer took.
        reads: whether it has its answer.
    """

    page: Any
    number: int
    seconds: list[float] = field(default_factory=list)
    asked: int = 0
    query: str = ""
    began: float = 0.0  # when it asked; while it reads, when it will ask again
    reads: bool = False
    looked: float = 0.0

    def ask(self, url: str, queries: list[str]) -> None:
        """Ask the next question."""
        self.query = queries[(7 * self.number + self.asked) % len(queries)]
        afresh = self.asked % AFRESH == 0
        self.asked, self.began, self.reads = self.asked + 1, time.monotonic(), False
        if afresh:
            self.page.goto(f"{url}/?task=retro&smi={quote(self.query)}", wait_until="commit")
        else:
            self.page.locator(ANSWERS).evaluate_all(MARK)
            self.page.locator("textarea").fill(self.query)
            self.page.locator("textarea").press("Enter")

    def look(self) -> str | None:
        """The first answer on the page, if it is to the last question; None, too, if the last look was just now."""
        if time.monotonic() - self.looked < LOOKS:
            return None
        self.looked = time.monotonic()
        try:
            query, answer = self.page.evaluate(SHOWN, ANSWERS) or (None, None)
        except Error:  # the page is being loaded
            return None
        return answer if query == self.query else None


def warm_up(visitors: list[Visitor], server: Server, queries: list[str]) -> None:
    """Let one visitor after the other come and get an answer: a fresh server loads and measures models first."""
    for visitor in visitors:
        visitor.ask(server.url, queries)
        while visitor.look() is None and time.monotonic() - visitor.began < 5 * PATIENCE:
            time.sleep(0.05)


def visit(
    visitors: list[Visitor], server: Server, answers: dict[str, set[str]], seconds: float, think: float
) -> dict[str, Any]:
    """Let visitors ask for so long, each after some seconds of reading, and wait for the last answers."""
    told: dict[str, Any] = {"wrong": [], "lost": [], "megabytes": []}
    began, draw = time.monotonic(), Random(0)
    for visitor in visitors:
        visitor.began, visitor.reads = began + draw.random() * think, True
    waiting = list(visitors)
    while waiting:
        for visitor in list(waiting):
            now = time.monotonic()
            if visitor.reads and now - began >= seconds:
                waiting.remove(visitor)
            elif visitor.reads and now >= visitor.began:
                visitor.ask(server.url, [*answers])
            if visitor.reads or ((found := visitor.look()) is None and now - visitor.began < PATIENCE):
                continue
            if found is None:
                told["lost"].append(visitor.query)
            else:
                visitor.seconds.append(time.monotonic() - visitor.began)
                if found not in answers[visitor.query]:
                    told["wrong"].append([visitor.query, found])
            visitor.began, visitor.reads = time.monotonic() + (0.5 + draw.random()) * think, True
        told["megabytes"].append((time.monotonic() - began, resident(server.process.pid)))
        time.sleep(0.05)
    return told


def summary(visitors: list[Visitor], told: dict[str, Any], seconds: float) -> dict[str, Any]:
    """The numbers that matter."""
    every = sorted(second for one in visitors for second in one.seconds) or [0.0]
    means = [statistics.mean(one.seconds) for one in visitors if one.seconds] or [0.0]
    memory = told.pop("megabytes")
    second_half = [size for at, size in memory if at >= seconds / 2] or [memory[-1][1]]
    return {
        "visitors": len(visitors),
        "answers": sum(len(one.seconds) for one in visitors),
        "p50": round(statistics.median(every), 2),
        "p95": round(every[int(0.95 * (len(every) - 1))], 2),
        "slowest": round(every[-1], 2),
        # Of the visitors' mean waits the largest to the smallest; 1 is wholly fair.
        "fairness": round(max(means) / max(1e-9, min(means)), 2),
        "megabytes": [round(size) for size in (memory[0][1], second_half[0], second_half[-1])],
        "growth": round(second_half[-1] / second_half[0] - 1, 4),
        **told,
    }


def file_beside(home: Path, queries: list[str], seconds: float) -> subprocess.Popen[str]:
    """A file that is answered all the while."""
    source = home / "batch.smi"
    source.write_text("\n".join(queries * (1 + int(5 * seconds))))  # more than can be answered
    words = ["predict", str(source), "--task", "retro", "-n", "5", "--no-distinct", "--threads", "1"]
    words += ["-o", str(home / "batch.jsonl")]
    return subprocess.Popen(
        [sys.executable, "-m", "chemspec.cli", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        text=True,
        preexec_fn=lambda: os.nice(10) and None,  # as the app's own jobs
    )


def batch_rows(file: Path, expected: dict[str, load.Answers], asked: list[str]) -> dict[str, int]:
    """How many rows of the file there are, and how many are wrong or out of place."""
    lines = file.read_text().splitlines()[:-1] if file.exists() else []
    wrong = 0
    for number, line in enumerate(lines):
        row = json.loads(line)
        found = tuple((one["smiles"], one["log_prob"]) for one in row["hypotheses"])
        wrong += row["query"] != asked[number % len(asked)] or not load.same(found, expected[row["query"]])
    return {"rows": len(lines), "wrong": wrong}


def main() -> int:
    """Run, report, and return the exit code."""
    words = argparse.ArgumentParser()
    words.add_argument("visitors", type=int)
    words.add_argument("--minutes", type=float, default=20.0)
    words.add_argument("--clients", type=int, default=2, help="that ask over HTTP")
    words.add_argument("--think", type=float, default=30.0, help="seconds for which a visitor reads, in the mean")
    words.add_argument("--pause", type=float, default=0.1, help="seconds between an HTTP client's requests")
    given = words.parse_args()
    seconds = 60 * given.minutes
    engine = Engine.load("retro")
    asked = questions(engine)
    # The page groups answers as they stand in bottles, so the one it shows first need not be the likeliest.
    results = engine.predict(asked, DecodeSettings(n=20, distinct=True))
    answers = {one.query: {answer.canonical for answer in bottled_answers(one)} for one in results}
    plain = load.told(engine.predict(asked, DecodeSettings(n=5)))
    tally: list[load.Tally] = []
    with tempfile.TemporaryDirectory() as name, sync_playwright() as driver:
        home = Path(name)
        (home / "serve").mkdir()
        server = Server(home, CHEMSPEC_HOME=str(home / "app"))
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        visitors = [Visitor(browser.new_context().new_page(), number) for number in range(given.visitors)]
        with Process(home / "serve", [model_folder("retro")]) as service:
            warm_up(visitors, server, asked)
            beside = file_beside(home, asked, seconds)
            clients = threading.Thread(
                target=lambda: tally.append(
                    load.run(service.url, plain, HTTP, clients=given.clients, seconds=seconds, pause=given.pause)
                )
            )
            clients.start()
            told = summary(visitors, visit(visitors, server, answers, seconds, given.think), seconds)
            clients.join()
            browser.close()
            beside.terminate()
            beside.wait()
        server.stop()
        told |= {"http": tally[0].document(), "file": batch_rows(home / "batch.jsonl", plain, asked)}
    sys.stdout.write(json.dumps(told) + "\n")
    bad = told["wrong"] or told["lost"] or told["http"]["wrong"] or told["http"]["errors"] or told["file"]["wrong"]
    return 1 if bad or (seconds >= MIN_SECONDS and told["growth"] > 0.05) else 0


if __name__ == "__main__":
    sys.exit(main())
