"""Scheduler: a queue, from which a thread takes the oldest query with similar ones as a batch.

A batch is formed as soon as the thread is idle: without load a query never waits, and under load batches fill up. With
continuous batching (`decode.generate`) a query joins the running batch as soon as there is room, if it has the same
model and settings and is next in the queue. The oldest query is served first, but for each waiting query of a client,
its next one lets some queries of other clients pass: large requests do not delay others, and no query starves. The
other queries of a batch have the same model and settings and the most similar lengths, because without continuous
batching a batch takes as many passes as its longest output.

A batch of many or wide beams of one client takes long. Between two of its passes, narrower queries of another client
that had less decoding time so far are decoded as a batch of their own, on top of it.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from heapq import nsmallest
from itertools import chain, count
from operator import attrgetter
from threading import Condition, Thread
from typing import NamedTuple

from chemspec.engine import deadline
from chemspec.engine.engine import Engine, PreparedQuery
from chemspec.service.limits import Limits, RefusedError
from chemspec.service.metrics import Metrics
from chemspec.service.shares import Shares
from chemspec.settings import DecodeSettings
from chemspec.types import DecodeResult

STOPPED = "the service was stopped before this query was finished; try again"
RETRY_AFTER = 2  # seconds after which a client may try again if the queue is full
CHOICE = 4  # batches of queries among which those of similar length are taken; more would come out of turn
MAX_BATCHES = 3  # under way at once, all but the last one suspended between two passes
MAX_BEAMS = 256  # beams of a batch on a CPU, where a pass over more only takes longer; but one query may have more
NARROWER = 2  # times as many beams as a query has are under way for one client where it goes before them
PASSING_QUERIES = 8  # queries of other clients that may pass a client's next query, per waiting query of the client


class Deadline(NamedTuple):
    """The end of a request."""

    seconds: float  # time limit of the request
    end: float  # time on the monotonic clock

    @classmethod
    def after(cls, seconds: float) -> Deadline:
        """Return the deadline of a request that arrives now."""
        return cls(seconds, time.monotonic() + seconds)

    @property
    def left(self) -> float:
        """Seconds left."""
        return max(0.0, self.end - time.monotonic())

    @property
    def message(self) -> str:
        """Message of a query that is not finished in time."""
        return f"no result within {self.seconds:g} s; request fewer predictions, or try again when the load is lower"


@dataclass(frozen=True)
class Search:
    """What the queries of a request have in common."""

    model: str
    engine: Engine
    settings: DecodeSettings
    deadline: Deadline
    widest: bool = False  # the widest list is searched until the deadline, one query at a time (`engine.deadline`)


def _queue_full_error(waiting_of_client: int = 0) -> RefusedError:
    cause = f"{waiting_of_client} of your queries are waiting" if waiting_of_client else "too many queries are waiting"
    return RefusedError(429, "queue_full", f"{cause}; try again in {RETRY_AFTER} s", after=RETRY_AFTER)


def stopping_error() -> RefusedError:
    """Return the error of requests to a service that is stopping."""
    return RefusedError(503, "stopping", "the service is stopping; use another one, or try again later", after=5)


def _can_share_batch(job: Job, other: Job) -> bool:
    same = job.search.model == other.search.model and job.search.settings == other.search.settings
    return same and not job.search.widest and not other.search.widest


def _decode_within(engine: Engine, job: Job, before_pass: Callable[[], None]) -> DecodeResult:
    """Decode a query with a deadline; the request returns the best list so far if it ends first."""
    settings, (seconds, end) = job.search.settings, job.search.deadline
    clock = time.monotonic
    lists = deadline.lists_within(
        engine, job.ready, settings, began=end - seconds, seconds=seconds, clock=clock, before_pass=before_pass
    )
    try:
        for result in lists:
            job.best = result
    except Exception as error:
        return job.best or _failed_result(job, error)
    assert job.best is not None
    return job.best


def _decode_alone(engine: Engine, job: Job, before_pass: Callable[[], None]) -> DecodeResult:
    try:
        return engine.decode([job.ready], job.search.settings, before_pass=before_pass)[0]
    except Exception as error:
        return _failed_result(job, error)


class _AbandonedError(BaseException):
    """All queries of the batch have been abandoned: no error of a query, so that `except Exception` lets it pass."""


def _failed_result(job: Job, error: Exception) -> DecodeResult:
    return DecodeResult(job.ready.text, "failed", f"the model failed on this query: {error}", notes=job.ready.notes)


@dataclass(eq=False)
class Job:
    """A query that is waiting or being decoded."""

    search: Search
    ready: PreparedQuery
    result: asyncio.Future[DecodeResult]  # set when it is finished
    abandoned: bool = False  # set if no client waits for it; decoding stops if the whole batch is abandoned
    arrived: float = field(default_factory=time.monotonic)  # time on the monotonic clock
    client: str = ""  # anonymous client name; see `guard`
    priority: int = 0  # position in the queue, set by the scheduler; the lowest is next
    best: DecodeResult | None = None  # the list of the widest complete search so far

    @property
    def width(self) -> int:
        """Number of its beams."""
        return self.search.settings.n * self.search.settings.augment


class Scheduler:
    """A thread that decodes the queries of a queue."""

    def __init__(self, limits: Limits, metrics: Metrics) -> None:
        """Start the thread; requires a running event loop, which receives the results."""
        self._limits, self._metrics = limits, metrics
        self._loop = asyncio.get_running_loop()
        self.waiting_queries: list[Job] = []
        self.under_way: list[list[Job]] = []  # unfinished queries of the batches, the one being decoded last
        self.shares, self._charged = Shares(), 0.0  # until when decoding was charged, on the monotonic clock
        self._decoded = 0.0  # seconds of the batches that have ended
        self._changed = Condition()
        self._closed = False
        self._arrivals = count()
        self._progress: float | None = None  # start of the last pass on the monotonic clock; None while it waits
        metrics.waiting.set_function(lambda: len(self.waiting_queries))
        self._thread = Thread(target=self._run, name="scheduler", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether the thread is running."""
        return self._thread.is_alive()

    @property
    def seconds_in_pass(self) -> float:
        """Seconds since the start of the pass that is being computed; 0 while the thread waits for queries."""
        began = self._progress
        return 0.0 if began is None else time.monotonic() - began

    def submit(self, jobs: Sequence[Job]) -> None:
        """Queue queries, all or none; raises RefusedError if the queue is full or the service is stopping."""
        with self._changed:
            if self._closed:
                raise stopping_error()
            if len(self.waiting_queries) + len(jobs) > self._limits.queue:
                # An empty queue always has room, since it is at least as long as a request.
                raise _queue_full_error()
            waiting_by_client = Counter(job.client for job in self.waiting_queries)
            for client, new in Counter(job.client for job in jobs).items():
                if waiting_by_client[client] + new > self._limits.per_client:
                    raise _queue_full_error(waiting_by_client[client])
            last = {job.client: job.priority for job in sorted(self.waiting_queries, key=attrgetter("priority"))}
            for job in jobs:
                turn = next(self._arrivals) + PASSING_QUERIES * waiting_by_client[job.client]
                last[job.client] = job.priority = max(turn, last.get(job.client, -1) + 1)  # after its earlier queries
                waiting_by_client[job.client] += 1
            active = {job.client for job in chain(self.waiting_queries, *map(tuple, self.under_way))}
            self.shares.arrive((job.client for job in jobs), active)
            self.waiting_queries.extend(jobs)
            self._changed.notify_all()

    def abandon(self, jobs: Iterable[Job], reason: str) -> None:
        """Stop decoding these queries, for which no client waits."""
        pending = [job for job in jobs if not job.result.done()]
        with self._changed:
            for job in pending:
                job.abandoned = True
                with suppress(ValueError):  # already being decoded
                    self.waiting_queries.remove(job)
        self._metrics.abandoned.labels(reason).inc(len(pending))

    def close(self, seconds: float) -> None:
        """Refuse new queries, let the thread finish for at most `seconds`, and end it."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join(seconds)
        with self._changed:
            late, self.waiting_queries = self.waiting_queries, []
        for job in late:
            self._deliver(job, DecodeResult(job.ready.text, "failed", STOPPED))

    # In the thread -----------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            with self._changed:
                self._progress = None
                if not self.waiting_queries:
                    self.shares.clear()
                self._changed.wait_for(lambda: self.waiting_queries or self._closed)
                if not self.waiting_queries:
                    return
                self._progress = time.monotonic()
                first = min(self.waiting_queries, key=attrgetter("priority"))
                batch = self.take_batch(self.room_for(first), first)
            self.decode(batch)

    def room_for(self, first: Job) -> int:
        """Return how many queries like this one are decoded at once."""
        if first.search.widest:
            return 1
        room = self._limits.batch_size // first.search.settings.augment
        return max(1, min(room, MAX_BEAMS // first.width) if first.search.engine.device == "cpu" else room)

    def decode(self, batch: list[Job]) -> None:
        """Decode a batch and deliver its results."""
        search, under_way = batch[0].search, list(batch)
        self._metrics.batch.labels(search.model).observe(len(batch))
        self._charged = began = time.monotonic()
        decoded = self._decoded
        self.under_way.append(under_way)
        try:
            with suppress(_AbandonedError):
                for job, result in self._decode_batch(search.engine, batch, under_way):
                    self._metrics.count_results(job.search.model, [result])
                    self._deliver(job, result)
        finally:
            self._charge(batch)
            self.under_way.pop()
        seconds = time.monotonic() - began - (self._decoded - decoded)  # the batches on top of it do not count
        self._decoded += seconds
        self._metrics.engine_seconds.labels(search.model).observe(seconds)

    def _charge(self, jobs: Sequence[Job]) -> None:
        """Charge the time since the last charge to the clients of queries."""
        self._progress = now = time.monotonic()
        with self._changed:
            self.shares.charge([job.client for job in jobs], now - self._charged)
        self._charged = now

    def let_others_pass(self, under_way: Sequence[Job]) -> None:
        """Between two passes of a batch, decode what goes before it."""
        self._charge(under_way)
        if not self.waiting_queries or len(self.under_way) >= MAX_BATCHES:
            return
        with self._changed:
            if not (passing := self.passing_queries(under_way)):
                return
            first = min(passing, key=lambda job: (self.shares.of(job.client), job.priority))
            room = min(self.room_for(first), max(1, self._limits.batch_size // first.width))
            batch = self.take_batch(room, first, passing)
        self.decode(batch)

    def passing_queries(self, under_way: Sequence[Job]) -> list[Job]:
        """Return the waiting queries that go before a batch; the queue must be locked."""
        beams: Counter[str] = Counter()
        for job in under_way:
            beams[job.client] += job.width
        widest, least = max(beams.values()) // NARROWER, min(map(self.shares.of, beams))
        busy = {job.client for job in chain(*self.under_way)}
        return [
            job
            for job in self.waiting_queries
            if job.width <= widest and job.client not in busy and self.shares.of(job.client) <= least
        ]

    def take_batch(self, room: int, first: Job, among: Sequence[Job] | None = None) -> list[Job]:
        """Take a query and similar ones (of all, or `among` some), at most `room`; the queue must be locked."""
        next_ones = nsmallest(
            CHOICE * room, self.waiting_queries if among is None else among, key=attrgetter("priority")
        )
        similar = [job for job in next_ones if job is not first and _can_share_batch(job, first)]
        # Stable, so that older queries precede equal ones.
        similar.sort(key=lambda job: abs(len(job.ready.ids) - len(first.ready.ids)))
        batch = [first, *similar[: room - 1]]
        for job in batch:
            self.waiting_queries.remove(job)
            self._metrics.waited.observe(time.monotonic() - job.arrived)
        return batch

    def _decode_batch(
        self, engine: Engine, batch: list[Job], under_way: list[Job]
    ) -> Iterator[tuple[Job, DecodeResult]]:
        """Decode a batch and the queries that join it; yields each as soon as it is finished.

        `under_way` is kept as the list of those that are unfinished.
        """
        first, settings = batch[0], batch[0].search.settings

        def before_pass() -> None:
            if all(job.abandoned for job in under_way):
                raise _AbandonedError
            self.let_others_pass(under_way)

        if first.search.widest:
            yield first, _decode_within(engine, first, before_pass)
            return
        queue = deque(batch)

        def next_queries(room: int) -> list[Job]:
            room = min(room, self.room_for(first) + len(queue) - len(under_way))  # what is in `queue` is under way
            if not queue and room > 0 and len(self.under_way) == 1:  # a batch on top of another one must end
                with self._changed:
                    # If the next query is different, the batch ends, so that it does not starve.
                    other = min(self.waiting_queries, key=attrgetter("priority"), default=None)
                    if other is not None and _can_share_batch(other, first):
                        queue.extend(self.take_batch(room, other))
                under_way.extend(queue)
            return [queue.popleft() for _ in range(max(0, min(room, len(queue))))]

        try:
            if settings.augment > 1:  # several rows per query
                results = engine.decode([job.ready for job in batch], settings, before_pass=before_pass)
                yield from zip(batch, results, strict=True)
                return
            for job, result in engine.decode_continuously(
                next_queries, attrgetter("ready"), settings, before_pass=before_pass
            ):
                under_way.remove(job)
                yield job, result
        except Exception:
            remaining = list(under_way)  # find the failing queries
            for job in remaining:
                under_way[:] = [job]
                with suppress(_AbandonedError):
                    yield job, _decode_alone(engine, job, before_pass)

    def _deliver(self, job: Job, result: DecodeResult) -> None:
        def resolve() -> None:
            if not job.result.done():
                job.result.set_result(result)

        with suppress(RuntimeError):  # the event loop is closed
            self._loop.call_soon_threadsafe(resolve)
