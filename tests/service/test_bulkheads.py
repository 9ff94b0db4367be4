"""Kinds of work and clients apart: whatever one does, others are answered, and the service can be stopped."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from helpers import rawhttp
from helpers.serving import HURRY, Gated, Process, Wrapped, serving, start, until
from helpers.small import QUERIES

pytest.importorskip("fastapi")

from chemspec.chem.molecules import parsing
from chemspec.client import Client
from chemspec.engine.engine import Engine
from chemspec.service import pools, queued_model, service
from chemspec.service.limits import RefusedError
from chemspec.service.pools import WorkPool
from chemspec.service.queued_model import QueuedModel
from chemspec.service.scheduler import Deadline
from chemspec.settings import DecodeSettings

HOW: dict[str, Any] = {"task": "retro", "n": 5, "max_len": 12, "distinct": True}
ASK: dict[str, Any] = {"queries": QUERIES[1], **HOW}  # with valid answers, so that there are forward checks
CORES = os.cpu_count() or 1


class Shut(Gated):
    """An engine whose gate is before every way of decoding."""

    def decode(self, ready: Any, settings: Any, *, before_pass: Callable[[], None] = lambda: None, **how: Any) -> Any:
        self.batches.append([query.text for query in ready])
        while not self.gate.wait(0.002):
            before_pass()
        return self._engine.decode(ready, settings, before_pass=before_pass, **how)


def test_queries_that_a_busy_loop_took_too_late_are_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queued_model, "LOOP_SECONDS", 0.01)
    loop, free, queued = asyncio.new_event_loop(), threading.Event(), []

    async def submit(*asked: Any) -> list[Any]:
        await asyncio.sleep(0.02)
        queued.append(asked)
        return []

    asking: Any = SimpleNamespace(
        limits=SimpleNamespace(queries=8), engine=lambda *_: ("retro", None), submit=submit, results=submit
    )
    model = QueuedModel(asking, "retro", Deadline.after(0.0), loop, loop.create_future())
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    loop.call_soon_threadsafe(free.wait)
    with pytest.raises(RefusedError):
        model.predict(["CCO"], DecodeSettings())
    loop.call_soon_threadsafe(loop.call_later, 0.1, loop.stop)
    free.set()
    thread.join(HURRY)
    loop.close()
    assert not queued


# --- reviews ---------------------------------------------------------------------------------------


def test_more_reviews_than_threads_are_all_answered_and_so_is_a_prediction_meanwhile(
    engines: dict[str, Engine],
) -> None:
    count = max(CORES + 5, 2 * (CORES + 4), 2 * service.REVIEWERS)
    with serving(engines) as running, ThreadPoolExecutor(count) as threads:
        reviews = [threads.submit(running.send, "POST", "/v1/review", ASK) for _ in range(count)]
        assert running.send("POST", "/v1/predict", ASK)[0] == 200
        assert running.send("GET", "/healthz")[0] == 200
        answered = [review.result(HURRY) for review in reviews]
    assert [status for status, _, _ in answered] == [200] * count
    reviewed = [document["results"][0]["review"] for _, document, _ in answered]
    assert reviewed[0]["suggestions"] and all(review == reviewed[0] for review in reviewed)


def test_reviews_beyond_the_limit_are_refused_and_the_others_end(
    engines: dict[str, Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "REVIEWS", 4)  # of one client two
    gated = Shut(engines["retro"])
    with serving({**engines, "retro": gated}) as running, ThreadPoolExecutor(3) as threads:
        reviews = [threads.submit(running.send, "POST", "/v1/review", ASK) for _ in range(2)]
        until(lambda: running.service.reviewers.admitted.total() == 2, "both reviews")
        status, document, headers = running.send("POST", "/v1/review", ASK)
        assert (status, document["code"]) == (429, "queue_full") and int(headers["retry-after"]) >= 1
        assert "2 of your reviews are under way" in document["detail"]
        gated.gate.set()
        assert [review.result(HURRY)[0] for review in reviews] == [200, 200]
        assert running.send("POST", "/v1/review", ASK)[0] == 200


def test_a_review_ends_at_its_deadline_or_with_its_client_and_leaves_nothing(engines: dict[str, Engine]) -> None:
    gated = Shut(engines["forward"])  # predictions come, forward checks do not
    with serving({**engines, "forward": gated}) as running:
        began = time.monotonic()
        status, document, _ = running.send("POST", "/v1/review", {**ASK, "timeout": 2.0})
        assert (status, document["code"]) == (504, "timeout") and time.monotonic() - began < 2.0 + HURRY / 2
        with rawhttp.connected(running.port) as client:
            client.sendall(rawhttp.post("/v1/review", json.dumps(ASK).encode()))
            until(lambda: running.service.reviewers.running, "the review")
        until(lambda: not running.service.reviewers.running, "its end")
        until(lambda: not running.service.reviewers.admitted.total(), "room for another")


def test_checks_of_a_review_wait_for_room_in_the_queue(
    engines: dict[str, Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(engines, queries=2) as running:
        submit, full = running.service.submit, list[int]()

        async def crowded(search: Any, *rest: Any) -> Any:
            if search.model == "forward" and len(full) % 4 < 3:  # three times of four
                full.append(1)
                raise RefusedError(429, "queue_full", "too many queries are waiting", after=2)
            full.append(1)
            return await submit(search, *rest)

        expected = running.client().review(QUERIES[1], **HOW).suggestions
        monkeypatch.setattr(running.service, "submit", crowded)
        assert running.client().review(QUERIES[1], **HOW).suggestions == expected != []
        assert len(full) >= 4


# --- pools -----------------------------------------------------------------------------------------


def in_pool(work: Callable[[WorkPool], Any], threads: int = 2, **limits: int) -> Any:
    """Run a coroutine with a pool."""

    async def run() -> Any:
        pool = WorkPool("tests", threads, **{"most": 100, "per_client": 50, **limits})
        pool.start()
        try:
            return await work(pool)
        finally:
            pool.close()

    return asyncio.run(run())


def soon() -> Deadline:
    return Deadline.after(HURRY)


@pytest.mark.parametrize(("threads", "greedy"), [(2, 1), (2, 3), (4, 2), (4, 5), (1, 2)])
def test_clients_take_turns(threads: int, greedy: int) -> None:
    """Another client waits for at most one turn of each other one, however many turns those want."""

    async def work(pool: WorkPool) -> None:
        gate, begun = threading.Event(), list[str]()

        def turn(name: str) -> None:
            begun.append(name)
            gate.wait(HURRY)

        names = [f"greedy {number}" for number in range(greedy)]
        runs = [pool.run(name, lambda name=name: turn(name), soon()) for _ in range(30) for name in names]
        tasks = [asyncio.create_task(run) for run in runs]  # type: ignore[arg-type]
        await asyncio.sleep(0.05)
        assert len(begun) <= threads and all(begun.count(name) <= max(1, threads // 2) for name in names)
        polite = asyncio.create_task(pool.run("polite", lambda: turn("polite"), soon()))
        await asyncio.sleep(0)
        gate.set()
        await polite
        await asyncio.gather(*tasks)
        assert begun.index("polite") <= threads + greedy
        assert sorted(begun) == sorted([*(names * 30), "polite"])

    in_pool(work, threads)


def test_half_of_the_threads_are_for_others() -> None:
    async def work(pool: WorkPool) -> None:
        gate = threading.Event()
        tasks = [asyncio.create_task(pool.run("greedy", lambda: gate.wait(HURRY), soon())) for _ in range(50)]
        await asyncio.sleep(0)
        assert await pool.run("polite", lambda: "at once", soon()) == "at once"
        gate.set()
        await asyncio.gather(*tasks)

    in_pool(work, 4)


@pytest.mark.parametrize("leaves", ["late", "gone", "cancelled"])
def test_who_does_not_wait_for_a_turn_gets_none(leaves: str) -> None:
    async def work(pool: WorkPool) -> None:
        gate, begun = threading.Event(), list[int]()
        held = [asyncio.create_task(pool.run(f"client {k}", lambda: gate.wait(HURRY), soon())) for k in range(2)]
        await asyncio.sleep(0.02)
        gone = asyncio.get_running_loop().create_future()
        deadline = Deadline.after(0.05 if leaves == "late" else HURRY)
        waits = asyncio.create_task(pool.run("leaves", lambda: begun.append(1), deadline, gone))
        await asyncio.sleep(0)
        if leaves == "gone":
            gone.set_result(None)
        elif leaves == "cancelled":
            waits.cancel()
        with pytest.raises(asyncio.CancelledError if leaves == "cancelled" else TimeoutError):
            await waits
        gate.set()
        await asyncio.gather(*held)
        assert await pool.run("another", lambda: "on it goes", soon()) == "on it goes"
        assert not begun

    in_pool(work)


def test_an_error_is_its_turns_and_no_other() -> None:
    async def work(pool: WorkPool) -> None:
        for error in (ValueError, KeyboardInterrupt, RefusedError, parsing.TooManyTrialsError):
            failure = error(400, "code", "message") if error is RefusedError else error()

            def fail(failure: BaseException = failure) -> None:
                raise failure

            with pytest.raises(error):
                await pool.run("client", fail, soon())
        assert await pool.run("client", lambda: 5, soon()) == 5

    in_pool(work)


@pytest.mark.parametrize(("most", "per_client"), [(3, 2), (10, 1), (4, 4)])
def test_more_than_the_limits_are_refused_and_what_ends_makes_room(most: int, per_client: int) -> None:
    pool = WorkPool("tests", 1, most=most, per_client=per_client)
    with pool.admit("one", per_client):
        with pytest.raises(RefusedError, match=f"{per_client} of your tests are under way"), pool.admit("one"):
            pass
        if most > per_client:
            with pool.admit("two", 1), pytest.raises(RefusedError), pool.admit("three", most - per_client):
                pass
        if per_client < most <= 2 * per_client:
            with pool.admit("two", most - per_client):
                pass
    with pool.admit("one", per_client):
        pass
    with pytest.raises(RefusedError, match="too many tests"), pool.admit("one", most + 1):
        pass


def test_a_pool_is_stuck_when_every_thread_is_far_over_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(pool: WorkPool) -> None:
        monkeypatch.setattr(pools, "PROBE_SECONDS", 0.02)
        gate = threading.Event()
        for client in ("one", "two"):
            with pytest.raises(TimeoutError):
                await pool.run(client, lambda: gate.wait(HURRY), Deadline.after(0.01))
            assert await pool.probe() == "", "a thread is left, or it is merely busy"
        monkeypatch.setattr(pools, "STUCK_SECONDS", 0.0)
        assert await pool.probe() == "the threads for tests hang"
        gate.set()
        await pool.run("one", bool, soon())
        assert await pool.probe() == ""

    in_pool(work)


# --- one client reads much ---------------------------------------------------------------------------


class SlowReader(Wrapped):
    """An engine that takes a twentieth of a second to read a query of a greedy client."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self.read: list[str] = []

    def prepare(self, text: str) -> Any:
        if text != "CCO":
            time.sleep(0.05)
        self.read.append(text)
        return self._engine.prepare(text)


KEYS = frozenset({"greedy", "polite"})


def test_reading_for_one_client_holds_up_no_other(engines: dict[str, Engine]) -> None:
    slow = SlowReader(engines["retro"])
    with serving({"retro": slow}, api_keys=KEYS, queries=64, queue=256) as running, ThreadPoolExecutor(4) as threads:
        much = {**ASK, "queries": ["CC("] * 64}
        greedy = [threads.submit(running.send, "POST", "/v1/predict", much, {"X-API-Key": "greedy"}) for _ in range(2)]
        until(lambda: len(slow.read) > 3, "the greedy client")
        status, document, _ = running.send("POST", "/v1/predict", much, {"X-API-Key": "greedy"})
        assert (status, document["code"]) == (429, "queue_full") and "128 of your queries are" in document["detail"]
        for key, expected in (("greedy", 429), ("polite", 422)):  # it is not even parsed
            assert running.send("POST", "/v1/predict", b'{"queries": 5}', {"X-API-Key": key})[0] == expected
        for _ in range(5):
            before = len(slow.read)
            assert running.send("POST", "/v1/predict", {**ASK, "queries": "CCO"}, {"X-API-Key": "polite"})[0] == 200
            # A thread is free for it; only what is decoded meanwhile lets some of the others be read.
            assert slow.read[before:].index("CCO") <= 2
        assert not any(request.done() for request in greedy)
        assert {request.result(HURRY)[0] for request in greedy} == {200}


def hard_text(number: int) -> str:
    """A SMILES of more rings than are parsed in the process: a chain of ten benzenes."""
    return "C" * (number % 40 + 1) + "N" * (number // 40) + "c1ccccc1" * 10


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that are tried in a process of their own, which none answers here."""
    parsing.try_in_process.cache_clear()
    texts: list[str] = []
    monkeypatch.setattr(parsing.SANDBOX, "ask", lambda _, text: texts.append(text) or "")
    return texts


def test_few_texts_of_a_request_may_be_hard_to_read(engines: dict[str, Engine], tried: list[str]) -> None:
    queries = [text for number in range(40) for text in (hard_text(number), "CC(")]
    with serving({"retro": engines["retro"]}) as running:
        client = running.client()
        results = running.send("POST", "/v1/predict", {**ASK, "queries": queries})[1]["results"]
        unread = [result["query"] for result in results if result["message"] == service.UNREAD]
        assert len(tried) == service.HARD_TEXTS and unread == [text for text in queries[::2] if text in unread]
        assert 40 - service.HARD_TEXTS <= len(unread) <= 39
        assert [result["status"] for result in results[1::2]] == ["invalid"] * 40
        # The client asks for the rest in further requests, and nothing is remembered of a text that was not read.
        again = client.predict(queries, task="retro", n=1, max_len=8)
    assert [result.query for result in again] == queries
    assert not any(result.message == service.UNREAD for result in again)


# --- health and stopping -----------------------------------------------------------------------------


def test_health_means_that_a_request_would_be_answered(
    engines: dict[str, Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pools, "PROBE_SECONDS", 0.05)
    monkeypatch.setattr(pools, "STUCK_SECONDS", 0.2)
    gate = threading.Event()

    class Hanging(Wrapped):
        def prepare(self, _: str) -> Any:
            gate.wait(HURRY)
            return self._engine.prepare("CCO")

    keys = frozenset({"a", "b"})
    with serving({"retro": Hanging(engines["retro"])}, api_keys=keys, grace=0.5) as running:
        assert running.send("GET", "/healthz")[0] == 200
        for key in sorted(keys):
            for _ in range(max(1, service.READERS // 2)):
                body = {**ASK, "timeout": 0.1}
                assert running.send("POST", "/v1/predict", body, {"X-API-Key": key})[0] == 504
        until(lambda: running.send("GET", "/healthz")[0] == 503, "the word that it hangs")
        document = running.send("GET", "/healthz")[1]
        assert document["code"] == "broken" and "the threads for queries hang" in document["detail"]
        assert running.send("GET", "/readyz")[0] == 503
        gate.set()
        until(lambda: running.send("GET", "/healthz")[0] == 200, "its recovery")


def test_a_pass_without_end_is_noticed(engines: dict[str, Engine], monkeypatch: pytest.MonkeyPatch) -> None:
    gate = threading.Event()

    class Hanging(Wrapped):
        def decode_continuously(self, more: Any, *_: Any, before_pass: Any, **__: Any) -> Any:
            rows = more(1)
            before_pass()
            gate.wait(HURRY)
            yield rows[0], self._engine.decode([rows[0].ready], rows[0].search.settings)[0]

    monkeypatch.setattr(service, "STUCK_SECONDS", 0.2)
    with serving({"retro": Hanging(engines["retro"])}, timeout=0.1, grace=0.5) as running:
        assert running.send("GET", "/healthz")[0] == 200
        body = {"queries": "CCO", "task": "retro", "n": 2, "max_len": 8}
        assert running.send("POST", "/v1/predict", body)[0] == 504
        until(lambda: running.send("GET", "/healthz")[0] == 503, "the word that it hangs")
        assert "the thread that decodes hangs" in running.send("GET", "/healthz")[1]["detail"]
        gate.set()
        until(lambda: running.send("GET", "/healthz")[0] == 200, "its recovery")


def test_a_stop_ends_within_its_grace_though_every_thread_hangs(engines: dict[str, Engine]) -> None:
    gate, answers = threading.Event(), list[tuple[int, str]]()

    class Hanging(Wrapped):
        def prepare(self, text: str) -> Any:
            gate.wait(HURRY)
            return self._engine.prepare(text)

    def ask() -> None:
        status, document, _ = running.send("POST", "/v1/predict", ASK)
        answers.append((status, document["code"]))

    try:
        with serving({"retro": Hanging(engines["retro"])}, grace=1.0) as running:
            asked = [start(ask) for _ in range(2 * service.READERS)]
            until(lambda: running.service.readers.admitted.total() == len(asked), "the reading of all")
            began = time.monotonic()
        assert time.monotonic() - began < HURRY / 2
        for thread in asked:
            thread.join(HURRY)
        assert answers == [(503, "stopping")] * len(asked)
    finally:
        gate.set()


def test_an_accepted_review_is_finished_by_a_stop(engines: dict[str, Engine]) -> None:
    gated, found = Shut(engines["forward"]), list[int]()
    with serving({**engines, "forward": gated}) as running:
        review = start(lambda: found.append(running.send("POST", "/v1/review", ASK)[0]))
        until(lambda: gated.batches, "the forward check")
        running.service.begin_stop()
        assert running.send("POST", "/v1/review", ASK)[0] == 503
        gated.gate.set()
        review.join(HURRY)
    assert found == [200]


HANGS = """
import sys, time
from chemspec.service import server, service

async def stop(self):
    time.sleep(3600)  # as a lock that nobody opens: the event loop is gone

server.LAST_RESORT, service.Service.stop = 0.5, stop
sys.argv[0] = "chemspec"
from chemspec.cli.__main__ import main
main()
"""


@pytest.mark.slow  # starts a process, which loads models
def test_a_stop_that_hangs_ends_the_process(tmp_path: Path, folders: dict[str, Path]) -> None:
    models = list(folders.values())
    with Process(tmp_path, models, "--grace", "1", program=("-c", HANGS)) as process:
        assert Client(process.url, retry_seconds=HURRY).predict("CCO", task="retro", n=1, max_len=8).status == "ok"
        assert process.stop(signal.SIGTERM) == 1


@pytest.mark.slow  # starts a process, which imports torch
def test_a_flood_of_reviews_is_answered_and_sigterm_ends_the_process(tmp_path: Path, folders: dict[str, Path]) -> None:
    with Process(tmp_path, list(folders.values()), "--timeout", "30", "--grace", "10") as process:
        client = Client(process.url, retry_seconds=HURRY)
        with ThreadPoolExecutor(24) as threads:
            reviews = list(threads.map(lambda _: client.review(QUERIES[1], **HOW), range(24)))
            assert all(review.suggestions == reviews[0].suggestions for review in reviews)
        assert client.predict("CCO", task="retro", n=1, max_len=8).status == "ok"
        assert process.stop(signal.SIGTERM) == 0


def test_few_names_of_a_request_may_be_hard_to_read(engines: dict[str, Engine], tried: list[str]) -> None:
    texts = [hard_text(number) for number in range(40, 70)]
    with serving({"retro": engines["retro"]}) as running:
        read = running.send("POST", "/v1/names", {"texts": texts})[1]["results"]
    unread = [result["fault"] for result in read if result["fault"] and result["fault"]["message"] == service.UNREAD]
    assert len(tried) == service.HARD_TEXTS and len(unread) >= 30 - service.HARD_TEXTS
    assert all((fault["start"], fault["end"], fault["kind"]) == (0, 0, "other") for fault in unread)
