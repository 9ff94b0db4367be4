"""Queries of a client are answered in the order in which they came, and clients take turns."""

from __future__ import annotations

import asyncio
from collections import deque
from types import SimpleNamespace
from typing import Any

from chemspec.service import scheduler
from chemspec.service.limits import Limits
from chemspec.service.scheduler import Job, Scheduler
from chemspec.settings import DecodeSettings
from chemspec.system.fair_queue import FairQueue

SETTINGS = DecodeSettings(n=1, batch_size=8)


class Still(Scheduler):
    """A scheduler whose thread does nothing: the test takes the batches."""

    def _run(self) -> None:
        return


def job(search: Any, client: str) -> Job:
    return Job(search, SimpleNamespace(ids=[1, 2], text="C", notes=()), None, client=client)  # type: ignore[arg-type]


async def latencies(requests: int, rows: int, in_flight: int, clients: int = 1) -> tuple[list[int], list[int]]:
    """Queries served between each request and its last answer, and the numbers of the requests as they end."""
    limits, metrics = Limits(queue=100_000, client_queue=100_000), SimpleNamespace(waiting=_Sink(), waited=_Sink())
    queue = Still(limits, metrics)  # type: ignore[arg-type]
    search = SimpleNamespace(model="m", settings=SETTINGS, widest=False)
    begun: dict[int, int] = {}
    left: dict[int, int] = {}
    owner: dict[int, int] = {}
    served, waits, ended = 0, [], []
    coming = deque(range(requests))

    def submit() -> None:
        number = coming.popleft()
        jobs = [job(search, f"client {number % clients}") for _ in range(rows)]
        begun[number], left[number] = served, rows
        owner.update({id(entry): number for entry in jobs})
        queue.submit(jobs)

    for _ in range(in_flight):
        submit()
    while queue.waiting_queries:
        first = min(queue.waiting_queries, key=lambda entry: entry.priority)
        for entry in queue.take_batch(8, first):
            served += 1
            number = owner[id(entry)]
            left[number] -= 1
            if not left[number]:
                waits.append(served - begun[number])
                ended.append(number)
                if coming:
                    submit()
    return waits, ended


class _Sink:
    def set_function(self, _: Any) -> None: ...
    def observe(self, _: float) -> None: ...


def test_requests_of_a_client_end_in_the_order_in_which_they_came() -> None:
    waits, ended = asyncio.run(latencies(50, 100, 4))
    assert ended == sorted(ended)
    assert max(waits) <= 400 + scheduler.CHOICE * SETTINGS.batch_size


def test_clients_take_turns_in_the_queue() -> None:
    """Four clients, and one of them asks again and again: nobody waits for more than the others' shares."""
    waits, _ = asyncio.run(latencies(40, 50, 8, clients=4))
    assert max(waits) <= 2 * 8 * 50


def test_a_visitor_s_later_turn_comes_after_the_earlier_one() -> None:
    queue = FairQueue()
    with queue._changed:
        queue._line = [(900, 3, "a"), (5, 4, "b")]
        queue._numbers = iter(range(5, 100))  # type: ignore[assignment]
    with queue._changed:
        queue._busy = True
    turns: list[Any] = []

    class LeaveError(Exception):
        pass

    def look(_: int) -> None:
        turns.extend(entry for entry in queue._line if entry[2] == "a")
        raise LeaveError

    try:
        with queue.wait_for_turn(visitor="a", waiting=look):
            pass
    except LeaveError:
        pass
    assert [turn for turn, _, _ in turns] == sorted(turn for turn, _, _ in turns) and len(turns) == 2
