"""Between two passes of one client's large batch, narrower queries of others are decoded: same answers, fair shares."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
from helpers.serving import HURRY, Gated, Running, serving, until
from helpers.small import QUERIES
from test_order_of_queries import Still, job

pytest.importorskip("fastapi")

from chemspec.engine.engine import Engine
from chemspec.service import scheduler
from chemspec.service.limits import Limits
from chemspec.service.shares import Shares
from chemspec.settings import DecodeSettings

KEYS = frozenset({"greedy", "polite", "third", "fourth", "fifth"})
WIDE: dict[str, Any] = {"task": "retro", "n": 8, "max_len": 12}
NARROW: dict[str, Any] = {"task": "retro", "n": 2, "max_len": 12, "decoder": "beam"}


class Held(Gated):
    """An engine that holds batches of wide beams between two passes until its gate opens."""

    def decode_continuously(self, more: Any, ready: Any, settings: Any, *, before_pass: Callable[[], None]) -> Any:
        if settings.n != WIDE["n"]:
            return self._engine.decode_continuously(more, ready, settings, before_pass=before_pass)
        return super().decode_continuously(more, ready, settings, before_pass=before_pass)


def ask(running: Running, key: str, queries: Any, how: dict[str, Any]) -> Any:
    status, document, _ = running.send("POST", "/v1/predict", {"queries": queries, **how}, {"X-API-Key": key})
    assert status == 200, document
    return [[answer["smiles"] for answer in result["hypotheses"]] for result in document["results"]]


def test_a_narrow_query_goes_before_wide_ones_that_are_being_decoded_and_changes_none(
    engines: dict[str, Engine],
) -> None:
    alone = {}
    with serving(engines, api_keys=KEYS) as running:
        for name, queries, how in (("wide", QUERIES * 3, WIDE), ("narrow", QUERIES, NARROW)):
            alone[name] = ask(running, "polite", queries, how)
    held = Held(engines["retro"])
    with serving({"retro": held}, api_keys=KEYS) as running, ThreadPoolExecutor(1) as threads:
        began = time.monotonic()
        wide = threads.submit(ask, running, "greedy", QUERIES * 3, WIDE)
        until(lambda: held.batches, "the wide batch")
        for key in sorted(KEYS - {"greedy"}):
            assert ask(running, key, QUERIES, NARROW) == alone["narrow"]
        assert not wide.done()
        held.gate.set()
        assert wide.result(HURRY) == alone["wide"]
        batches = running.service.scheduler and running.service.scheduler.under_way
        until(lambda: batches == [], "the end of the batch")
        counted = until(lambda: running.count("engine_seconds_count", model="retro") == len(KEYS), "the last count")
        assert counted and running.count("engine_seconds_sum", model="retro") <= time.monotonic() - began


# --- who goes before whom --------------------------------------------------------------------------


def search(n: int) -> Any:
    settings, engine = DecodeSettings(n=n, decoder="beam"), SimpleNamespace(device="cpu")
    return SimpleNamespace(model="m", settings=settings, widest=False, engine=engine)


def queue_with(*jobs: tuple[int, str]) -> Still:
    """A queue of queries by number of beams and client."""
    sink = SimpleNamespace(set_function=lambda _: None, observe=lambda _: None)

    async def make() -> Still:
        return Still(Limits(), SimpleNamespace(waiting=sink, waited=sink))  # type: ignore[arg-type]

    queue = asyncio.run(make())
    for n, client in jobs:
        queue.submit([job(search(n), client)])
    return queue


@pytest.mark.parametrize(
    ("under_way", "waiting", "passing"),
    [
        ([(100, "a")] * 2, [(3, "b")], ["b"]),  # wide beams of another client
        ([(3, "a")] * 16, [(3, "b")], ["b"]),  # many of them
        ([(3, "a")], [(3, "b")], []),  # no more than it asks for itself
        ([(3, str(client)) for client in range(16)], [(3, "b")], []),  # one of each: in turn
        ([(100, "a")], [(3, "a"), (100, "b"), (3, "c")], ["c"]),  # not its own, and none as wide
    ],
)
def test_narrower_queries_of_others_pass(
    under_way: list[tuple[int, str]], waiting: list[tuple[int, str]], passing: list[str]
) -> None:
    queue = queue_with(*waiting)
    batch = [job(search(n), client) for n, client in under_way]
    queue.under_way.append(batch)
    assert [one.client for one in queue.passing_queries(batch)] == passing


def test_who_had_more_time_does_not_pass_and_who_was_away_has_nothing_saved_up() -> None:
    queue = queue_with()
    batch = [job(search(100), "a")]
    queue.under_way.append(batch)
    queue.shares.charge(["a"], 100.0)
    queue.submit([job(search(3), "b")])
    assert queue.shares.of("b") == 100.0, "it begins where the other one stands"
    assert [one.client for one in queue.passing_queries(batch)] == ["b"]
    queue.shares.charge(["b"], 0.5)
    assert not queue.passing_queries(batch)
    queue.waiting_queries.clear()
    queue.submit([job(search(3), "b")])
    assert queue.shares.of("b") == 100.5, "not forgotten between two queries"
    queue.shares.charge(["a"], 0.6)
    assert [one.client for one in queue.passing_queries(batch)] == ["b"]


def test_few_batches_are_under_way_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = queue_with((3, "b"))
    decoded: list[Any] = []
    monkeypatch.setattr(queue, "decode", decoded.append)
    batch = [job(search(100), "a")]
    queue.under_way += [[job(search(100), str(number))] for number in range(scheduler.MAX_BATCHES - 1)] + [batch]
    queue.let_others_pass(batch)
    assert not decoded
    queue.under_way.pop(0)
    queue.let_others_pass(batch)
    assert [[one.client for one in taken] for taken in decoded] == [["b"]] and not queue.waiting_queries


@pytest.mark.parametrize(("n", "most"), [(1, 16), (16, 16), (20, 12), (100, 2), (300, 1)])
def test_of_wide_beams_few_are_decoded_at_once_on_a_cpu(n: int, most: int) -> None:
    queue, wide = queue_with(), job(search(n), "a")
    assert queue.room_for(wide) == most
    wide.search.engine.device = "cuda:0"
    assert queue.room_for(wide) == 16


def test_a_batch_of_wide_beams_is_filled_up_to_so_many(
    engines: dict[str, Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler, "MAX_BEAMS", 3 * WIDE["n"])
    sizes: list[int] = []
    let_pass = scheduler.Scheduler.let_others_pass
    monkeypatch.setattr(
        scheduler.Scheduler,
        "let_others_pass",
        lambda self, under_way: (sizes.append(len(under_way)), let_pass(self, under_way))[1],
    )
    with serving(engines, api_keys=KEYS) as running:
        assert len(ask(running, "greedy", QUERIES * 3, WIDE)) == 3 * len(QUERIES)
    assert max(sizes) == 3


def test_time_is_shared_by_the_queries_of_a_batch() -> None:
    shares = Shares()
    shares.charge(["a", "a", "b", "a"], 8.0)
    assert (shares.of("a"), shares.of("b"), shares.of("c")) == (6.0, 2.0, 0.0)
    shares.arrive(["c", "a"], {"b"})
    assert (shares.of("a"), shares.of("b"), shares.of("c")) == (6.0, 2.0, 2.0)
    shares.clear()
    assert shares.of("a") == 0.0
