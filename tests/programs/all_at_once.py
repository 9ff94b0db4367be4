"""Every route of a service at once, cancelled, late and invalid: `python tests/programs/all_at_once.py --minutes 10`.

Clients, twice as many as the service has threads, ask by all routes in every manner. Afterwards one request must be
answered within a second, and SIGTERM must end the process within its grace. Before that one greedy client has as much
read, or as wide beams decoded, as it may, by turns with silence, and a polite one is timed in both. The last line is
one JSON document; the exit code is 1 for an answer that is wrong, lost, later than its deadline or of an unexpected
status, or if one of these fails.
"""

from __future__ import annotations

import http.client
import itertools
import json
import multiprocessing
import os
import random
import signal
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from helpers.scripts import option, script
from helpers.serving import Process

from chemspec.engine.registry import installed_models
from chemspec.service.plans import PLANNERS
from chemspec.service.service import READERS, REVIEWERS
from chemspec.terminal import console

KEYS = ("one", "two", "three", "polite")
QUERIES = ("CCO", "CC(=O)Nc1ccccc1", "O=C(O)c1ccc(Br)cc1", "CN(C)C=O", "CC(", "C1CC")
HOW: dict[str, Any] = {"task": "retro", "n": 3, "max_len": 60}
TIMEOUT, GRACE = 30.0, 20.0  # of the service, in seconds
SLACK = 10.0  # seconds after a deadline in which an answer must have come, on a busy machine
LOADS = ("reading", "decoding")  # of a greedy client
LEAVES = 1.0  # seconds within which a client leaves
GETS = (
    "/v1/models",
    "/v1/stock",
    "/docs",
    "/v1/plan/none",
    "/healthz",
    "/readyz",
    "/metrics",
    "/openapi.json",
    "/nowhere",
    "/v1/predict",
)
EXPECTED = {200, 202, 400, 401, 403, 404, 405, 408, 413, 415, 422, 429, 504}


@dataclass
class Tally:
    """What clients saw.

    Attributes:
        statuses: answers by route, manner and status.
        faults: what should not have happened.
        slowest: seconds of the slowest answer.
    """

    statuses: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    slowest: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, call: str, status: int, seconds: float, fault: str = "") -> None:
        with self.lock:
            self.statuses[f"{call}: {status or 'left'}"] += 1
            self.slowest = max(self.slowest, seconds)
            if fault:
                self.faults[f"{call}: {fault}"] += 1


def hard_text(number: int) -> str:
    """A SMILES that another process reads first: nine and nine atoms, bound each to each, along a chain."""
    labels: list[list[str]] = [[] for _ in range(18)]
    bonds = [(left, right) for left in range(0, 18, 2) for right in range(1, 18, 2) if abs(left - right) > 1]
    for label, ends in enumerate(bonds, 10):
        for end in ends:
            labels[end].append(f"%{label}")
    maps = random.Random(number).sample(range(1, 1000), 18)
    return "".join(f"[U:{name}]{''.join(rings)}" for name, rings in zip(maps, labels, strict=True))


class Asker:
    """One client of a service, which draws its requests."""

    def __init__(self, port: int, seed: int, tally: Tally, expected: Mapping[str, Any]) -> None:
        self.port, self.tally, self.expected = port, tally, expected
        self.draw = random.Random(seed)

    def run(self, end: float) -> None:
        """Ask until the end, on the monotonic clock."""
        while time.monotonic() < end:
            manner = self.draw.choice((self.plain, self.plain, self.cancelled, self.late, self.invalid))
            manner()

    def request(self) -> tuple[str, str, Any]:
        """Return method, path and body."""
        queries = [self.draw.choice(QUERIES) for _ in range(self.draw.randint(1, 4))]
        kind = self.draw.randrange(11)
        if kind < 3:
            return "POST", "/v1/predict", {**HOW, "queries": queries}
        if kind == 3:
            return "POST", "/v1/review", {**HOW, "queries": queries[:2], "distinct": True}
        if kind == 4:
            return "POST", "/v1/predict", {**HOW, "queries": queries[:1], "within": self.draw.choice((0.1, 1.0))}
        if kind == 5:
            hard = [hard_text(self.draw.randrange(10**6)) for _ in range(self.draw.choice((1, 20)))]
            return "POST", "/v1/predict", {**HOW, "queries": hard + queries, "timeout": 5.0}
        if kind == 6:
            return "POST", "/predictions/retro", {"smiles": queries}
        if kind == 7:
            hard = [hard_text(self.draw.randrange(10**6)) for _ in range(self.draw.choice((0, 5)))]
            return "POST", "/v1/names", {"texts": hard + queries}
        if kind == 8:
            return "POST", "/v1/check", {"reaction": f"{queries[0]}>>CCO", "task": "retro"}
        if kind == 9:
            return "POST", "/v1/plan", {"target": queries[0], "seconds": 2.0, "expansions": 2, "routes": 1}
        return "GET", self.draw.choice(GETS), None

    def send(self, name: str, method: str, path: str, body: Any, headers: Mapping[str, str], limit: float) -> Any:
        """Send a request, judge its answer and return its document."""
        began = time.monotonic()
        status, document, fault = 0, None, ""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=limit + SLACK)
        try:
            data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
            connection.request(method, path, data, dict(headers))
            response = connection.getresponse()
            status, text = response.status, response.read()
            with suppress(ValueError):
                document = json.loads(text)
            if status not in EXPECTED:
                fault = f"status {status} {text[:200]!r}"
            elif status >= 400 and status not in (404, 405) and not (document or {}).get("code"):
                fault = f"status {status} without a code"
        except OSError as error:  # a body that is refused while it is being sent may hide the answer
            fault = "" if isinstance(body, bytes) and len(body) > 10**6 else f"no answer: {type(error).__name__}"
        finally:
            connection.close()
        self.tally.count(f"{method} {path} {name}", status, time.monotonic() - began, fault)
        return document if status == 200 and not fault else None

    def headers(self) -> dict[str, str]:
        return {"Content-Type": "application/json", "X-API-Key": self.draw.choice(KEYS[:3])}

    def plain(self) -> None:
        """Ask, and compare each answer with that of the idle service."""
        method, path, body = self.request()
        document = self.send("plain", method, path, body, self.headers(), TIMEOUT)
        if path == "/v1/predict" and document and "within" not in body:
            for result in document["results"]:
                answer = self.expected.get(result["query"])
                if result["status"] == "failed" or answer is None:  # late, or hard to read
                    continue
                if answer != answer_of(result):
                    self.tally.count("POST /v1/predict plain", 200, 0.0, f"a wrong answer for {result['query']}")

    def cancelled(self) -> None:
        """Leave before the answer."""
        method, path, body = self.request()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT)
        with suppress(OSError):
            data = None if body is None else json.dumps(body).encode()
            connection.request(method, path, data, self.headers())
            time.sleep(self.draw.uniform(0.0, LEAVES))
        connection.close()
        self.tally.count(f"{method} {path} cancelled", 0, 0.0)

    def late(self) -> None:
        """Ask for an answer sooner than there can be one, or send a part of a body and wait."""
        if self.draw.random() < 0.5:
            method, path, body = self.request()
            limits = {"timeout": self.draw.choice((1e-9, 0.01, 0.1))} if path.startswith("/v1") and body else {}
            self.send("late", method, path, {**(body or {}), **limits} if body else None, self.headers(), TIMEOUT)
            return
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT)
        with suppress(OSError):
            connection.putrequest("POST", "/v1/review")
            connection.putheader("X-API-Key", "one")
            connection.putheader("Content-Length", "100")
            connection.endheaders(b'{"queries":')
            time.sleep(self.draw.uniform(0.0, LEAVES))
        connection.close()
        self.tally.count("POST /v1/review slow body", 0, 0.0)

    def invalid(self) -> None:
        """Send rubbish, and what no route takes."""
        path = self.draw.choice(("/v1/predict", "/v1/review", "/predictions/retro", "/predictions/none"))
        body = self.draw.choice((b"", b"{", b"[" * 100_000, b'{"queries": 5}', b"\xff", b"x" * 3_000_000, b"{}",
                                 json.dumps({**HOW, "queries": ["CC("] * 257}).encode(),
                                 json.dumps({**HOW, "queries": ["CC("] * 256}).encode()))  # fmt: skip
        headers = self.headers()
        odd = {"Content-Encoding": "gzip"}, {"Connection": "Upgrade", "Upgrade": "h2c"}, {"X-API-Key": "none"}, {}
        headers |= self.draw.choice(odd) if self.draw.random() < 0.5 else {}
        self.send("invalid", "POST", path, body, headers, TIMEOUT)


def answer_of(result: Mapping[str, Any]) -> list[tuple[str, float]]:
    """Return status and answers of a result, to compare."""
    return [(result["status"], 0.0)] + [(one["smiles"], round(one["log_prob"], 3)) for one in result["hypotheses"]]


def campaign(process: Process, clients: int, seconds: float) -> Tally:
    """Ask in all manners from many clients for some seconds."""
    tally = Tally()
    idle = Asker(process.port, 0, tally, {})
    ask = {**HOW, "queries": list(QUERIES)}
    document = idle.send("alone", "POST", "/v1/predict", ask, {**idle.headers(), "X-API-Key": "polite"}, TIMEOUT)
    expected = {result["query"]: answer_of(result) for result in document["results"]}
    end = time.monotonic() + seconds
    askers = [Asker(process.port, number + 1, tally, expected) for number in range(clients)]
    threads = [threading.Thread(target=asker.run, args=(end,), daemon=True) for asker in askers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds + TIMEOUT + 3 * SLACK)
        if thread.is_alive():
            tally.count("a client", 0, 0.0, "it hangs")
    return tally


def ask_greedily(port: int, load: str, threads: int, ready: Any, over: Any, statuses: Any) -> None:
    """Keep as many requests of a kind of load under way as a client may have, and more, until `over`; a process."""
    os.nice(10)  # as if it were another machine: what it computes itself is not what is measured
    numbers, tally = itertools.count(random.randrange(10**9)), Tally()

    def body() -> dict[str, Any]:
        if load == "reading":
            return {**HOW, "queries": [hard_text(next(numbers)) for _ in range(256)]}
        return {**HOW, "n": 100, "max_len": 200, "queries": list(QUERIES[1:4]) * 20}

    bodies = [json.dumps({**body(), "timeout": 10.0}).encode() for _ in range(4 * threads)]  # before anybody is timed

    def ask(number: int) -> None:
        asker = Asker(port, number, tally, {})
        headers = {**asker.headers(), "X-API-Key": "one"}
        while not over.is_set():
            asker.send("greedy", "POST", "/v1/predict", asker.draw.choice(bodies), headers, 10.0)
            time.sleep(0.05)

    running = [threading.Thread(target=ask, args=(number,), daemon=True) for number in range(threads)]
    for thread in running:
        thread.start()
    ready.set()
    for thread in running:
        thread.join()
    statuses.put((tally.statuses, tally.faults))


@contextmanager
def greedy(port: int, load: str, threads: int, tally: Tally) -> Iterator[None]:
    """A greedy client within the context, whose statuses are added to a tally."""
    context = multiprocessing.get_context("spawn")
    ready, over, statuses = context.Event(), context.Event(), context.Queue()
    process = context.Process(target=ask_greedily, args=(port, load, threads, ready, over, statuses), daemon=True)
    process.start()
    try:
        assert ready.wait(60.0)
        time.sleep(0.5)
        yield
    finally:
        over.set()
        seen, faults = statuses.get(timeout=10.0 + 3 * SLACK)
        tally.statuses, tally.faults = tally.statuses + seen, tally.faults + faults
        process.join()


Cost = tuple[float, float]  # seconds on the clock, and of the service's own computing meanwhile


def computed(process: Process) -> float:
    """Return the seconds of computing of a service so far, without the processes that read hard texts."""
    fields = Path(f"/proc/{process.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def fairness(process: Process, load: str, rounds: int, requests: int, tally: Tally) -> tuple[Cost, Cost]:
    """Return what a polite client's request takes, alone and beside a greedy client, by turns.

    The greedy one has as many hard texts read as it may (a load of "reading"), or as many wide beams decoded
    ("decoding").

    The first number is the median on the clock. On a machine that others load as well, the second tells how long the
    request would have waited for the service itself: the mean of what it computed until the answer was there.
    """
    asker = Asker(process.port, 0, tally, {})
    headers = {**asker.headers(), "X-API-Key": "polite"}

    def times() -> list[Cost]:
        found = []
        for _ in range(requests):
            began, before = time.monotonic(), computed(process)
            asker.send("polite", "POST", "/v1/predict", {**HOW, "queries": QUERIES[1]}, headers, TIMEOUT)
            found.append((time.monotonic() - began, computed(process) - before))
        return found

    alone, beside = list[Cost](), list[Cost]()
    times()  # warms up
    for _ in range(rounds):
        alone += times()
        with greedy(process.port, load, 7, tally):
            beside += times()
    return typical(alone), typical(beside)


def typical(costs: Sequence[Cost]) -> Cost:
    """Return the median seconds on the clock and the mean seconds of computing, which the system counts coarsely."""
    return statistics.median(clock for clock, _ in costs), statistics.fmean(own for _, own in costs)


def judge_end(process: Process, tally: Tally) -> dict[str, Any]:
    """Ask once more, and stop the process."""
    asker = Asker(process.port, 0, tally, {})
    began = time.monotonic()
    body = {**HOW, "queries": "CCO", "n": 1}
    answered = asker.send(
        "afterwards", "POST", "/v1/predict", body, {**asker.headers(), "X-API-Key": "polite"}, TIMEOUT
    )
    seconds = time.monotonic() - began
    began = time.monotonic()
    process.process.send_signal(signal.SIGTERM)
    code = process.process.wait(GRACE + 60.0)
    return {"answered": bool(answered), "answer_s": seconds, "exit_code": code, "stop_s": time.monotonic() - began}


def run(
    models: Sequence[Path], folder: Path, *, clients: int, seconds: float, rounds: int, requests: int = 10,
    report: Callable[[str], None] = print,
) -> dict[str, Any]:  # fmt: skip
    """Start a service on models, run the campaign and stop the service; returns what was seen."""
    keys = folder / "keys"
    keys.write_text("# of the campaign\n" + "\n".join(KEYS) + "\n")
    options = ["--timeout", f"{TIMEOUT:g}", "--grace", f"{GRACE:g}", "--keys", str(keys), "--quiet"]
    with Process(folder, models, *options, seconds=300.0) as process:
        fair = Tally()
        polite = {load: fairness(process, load, rounds, requests, fair) for load in LOADS} if rounds else {}
        for load, (alone, beside) in polite.items():
            report(f"{load}: alone {alone[0]:.3f} s ({alone[1]:.3f} s of computing), beside a greedy client "
                   f"{beside[0]:.3f} s ({beside[1]:.3f} s)")  # fmt: skip
        tally = campaign(process, clients, seconds)
        end = judge_end(process, tally)
    statuses: Counter[str] = Counter()
    for call, count in tally.statuses.items():
        statuses[call.rpartition(": ")[2]] += count
    return {
        "clients": clients, "seconds": seconds, "requests": tally.statuses.total(), "statuses": dict(statuses),
        "calls": dict(tally.statuses), "slowest_s": tally.slowest, "faults": dict(tally.faults + fair.faults), **end,
        "polite_alone_and_beside": polite, "greedy_statuses": dict(fair.statuses),
    }  # fmt: skip


def main(
    minutes: Annotated[float, option("Duration of the campaign.")] = 10.0,
    clients: Annotated[int, option("Clients that ask at once; 0: twice as many as threads.")] = 0,
    rounds: Annotated[int, option("Rounds of a polite client alone and beside a greedy one.")] = 5,
    model: Annotated[list[Path] | None, option("Model folder; repeatable; default: all installed models.")] = None,
) -> None:
    """Ask a service by all routes in all manners, and stop it.

    Exit code 1 if an answer is wrong, lost or late, the service is slow afterwards or does not stop in time.
    """
    clients = clients or 2 * (READERS + REVIEWERS + PLANNERS + 2)
    with tempfile.TemporaryDirectory() as folder:
        seen = run(model or installed_models(), Path(folder), clients=clients, seconds=60 * minutes, rounds=rounds)
    console.print_json(seen)
    well = seen["answered"] and seen["answer_s"] < 1.0 and seen["exit_code"] == 0 and seen["stop_s"] < GRACE + 5.0
    raise typer.Exit(0 if well and not seen["faults"] else 1)


if __name__ == "__main__":
    script(main)()
