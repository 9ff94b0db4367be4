"""Feed engines from one queue: a device that is free takes the oldest query, and others like it in the same batch.

A batch is formed when a device is free, never later: who comes to an idle service waits for nobody, and under load the
batches fill up by themselves. A query that arrives while a batch is decoded joins it as soon as there is room, if it is
for the same model and settings and no other comes first (`decode.continuous`). The oldest query is served first, but
each further one of a client lets some of others pass: who sends many at once does not hold up the others, and none can
starve. Those that go with it are, of all that wait for the same model and settings, the most like it in length: where
the model cannot be joined, a batch takes as many passes as its longest answer.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import count
from threading import Condition, Thread

from chemspec.engine.engine import Engine, PreparedQuery
from chemspec.service.limits import Limits
from chemspec.service.metrics import Metrics
from chemspec.settings import DecodeSettings
from chemspec.types import DecodeResult, Pass

FAILED = "the model failed over this query: {}"
STOPPED = "the service was stopped before this query was answered; ask again"


LATER = 8  # queries of others that may pass a client's next query, for each one of the client that waits


class QueueFullError(Exception):
    """Too many queries wait already, in all or of this client; `after` says in how many seconds to try again."""

    def __init__(self, after: int, own: int = 0) -> None:
        what = f"{own} of your queries are waiting" if own else "too many queries are waiting"
        super().__init__(f"{what}; try again in {after} s")
        self.after = after


class StoppingError(Exception):
    """The service is stopping and takes no new queries."""


def _ready(job: Job) -> PreparedQuery:
    return job.ready


def _alike(job: Job, other: Job) -> bool:
    """Whether two go into one batch."""
    same = job.model == other.model and job.settings == other.settings
    return same and job.watch is None and other.watch is None


class _AbandonedError(Exception):
    """Nobody waits for any query of the batch any more."""


@dataclass(eq=False)
class Job:
    """One query that waits or is decoded.

    Attributes:
        model: the name of the model that is asked.
        ready: the query.
        settings: how to answer.
        result: set when it is done.
        watch: of a stream, gets every pass when it is done; it is decoded alone then.
        abandoned: set where nobody waits for it any more; it is then decoded no further, if no other depends on that.
        arrived: when it came, on the monotonic clock.
        client: who asks; see `guard`.
        place: in the queue, given by the scheduler; the lowest is next.
    """

    model: str
    ready: PreparedQuery
    settings: DecodeSettings
    result: asyncio.Future[DecodeResult]
    watch: Callable[[Pass], None] | None = None
    abandoned: bool = False
    arrived: float = field(default_factory=time.monotonic)
    client: str = ""
    place: int = 0


Engines = Mapping[str, Engine]  # by the names of the models


RECENT = 0.02  # weight of the last answer in the mean of seconds between two


class Scheduler:
    """Threads, one a device, that decode what waits in one queue."""

    def __init__(self, devices: Sequence[Engines], limits: Limits, metrics: Metrics) -> None:
        """Start the threads; to be called where an event loop runs, which gets the results.

        Args:
            devices: of each the engines on it, all with the same models.
            limits: of the queue and of batches.
            metrics: count what is done.
        """
        self._limits, self._metrics = limits, metrics
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[Job] = deque()
        self._changed = Condition()
        self._closed = False
        self._arrivals = count()
        self._pace = 0.05  # seconds of a device for one query, as of late
        self._busy = [0] * len(devices)
        self._last_sign: list[float | None] = [None] * len(devices)  # when a device began its pass; None: it waits
        metrics.watch(lambda: len(self._waiting), lambda: sum(self._busy))
        self._threads = [
            Thread(target=self._work, args=(number, engines), name=f"device-{number}", daemon=True)
            for number, engines in enumerate(devices)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def alive(self) -> bool:
        """Whether every device still has its thread."""
        return all(thread.is_alive() for thread in self._threads)

    @property
    def hung(self) -> bool:
        """Whether a device has been in one forward pass for longer than the limit `hang`."""
        began = [sign for sign in self._last_sign if sign is not None]
        return bool(began) and time.monotonic() - min(began) > self._limits.hang

    @property
    def waiting(self) -> int:
        """How many queries wait."""
        return len(self._waiting)

    def submit(self, jobs: Sequence[Job]) -> None:
        """Queue queries, all or none.

        Raises:
            QueueFullError: if there is no room for them.
            StoppingError: if nothing new is taken on.
        """
        with self._changed:
            if self._closed:
                raise StoppingError
            if len(self._waiting) + len(jobs) > self._limits.queue:
                # An empty queue always has room: a request has fewer queries than the queue has places.
                raise QueueFullError(self._patience(len(self._waiting)))
            own = Counter(job.client for job in self._waiting)
            for client, new in Counter(job.client for job in jobs).items():
                if own[client] + new > self._limits.of_one:
                    raise QueueFullError(self._patience(own[client]), own[client])
            for job in jobs:
                job.place = next(self._arrivals) + LATER * own[job.client]
                own[job.client] += 1
            self._waiting.extend(jobs)
            self._changed.notify_all()

    def _patience(self, waiting: int) -> int:
        """Return in how many seconds so many will be done, roughly."""
        return min(60, max(1, math.ceil(waiting * self._pace / len(self._threads))))

    def ahead(self, job: Job) -> int:
        """Return how many queries come before one that waits."""
        with self._changed:
            return sum(other.place < job.place for other in self._waiting)

    def abandon(self, jobs: Iterable[Job], reason: str) -> None:
        """Decode these no further: nobody waits for them any more."""
        left = [job for job in jobs if not job.result.done()]
        with self._changed:
            for job in left:
                job.abandoned = True
                with suppress(ValueError):  # it is being decoded
                    self._waiting.remove(job)
        self._metrics.abandoned.labels(reason).inc(len(left))

    def close(self, seconds: float) -> None:
        """Take nothing new, let the threads finish what waits for at most so long, and end them."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        ends = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, ends - time.monotonic()))
        with self._changed:
            late, self._waiting = list(self._waiting), deque()
        for job in late:
            self._deliver([(job, DecodeResult(job.ready.text, "failed", STOPPED))])

    # In the threads ----------------------------------------------------------------------------------

    def _work(self, number: int, engines: Engines) -> None:
        while True:
            with self._changed:
                while not self._waiting and not self._closed:
                    self._changed.wait()
                if not self._waiting:
                    return
                first = self._next()
                batch = self._take(self._room(first), first)
                self._metrics.batch.labels(first.model).observe(len(batch))
            last = began = self._last_sign[number] = time.monotonic()
            with suppress(_AbandonedError):
                for job, result in self._answer(number, engines[first.model], batch):
                    self._metrics.answered(job.model, [result])
                    self._deliver([(job, result)])
                    now = time.monotonic()
                    self._pace += RECENT * (now - last - self._pace)
                    last = self._last_sign[number] = now
            self._busy[number], self._last_sign[number] = 0, None
            self._metrics.engine_seconds.labels(first.model).observe(time.monotonic() - began)

    def _next(self) -> Job:
        """Return the query that is next; the queue is locked and not empty."""
        return min(self._waiting, key=lambda job: job.place)

    def _room(self, job: Job) -> int:
        """Return how many queries like one go into a batch."""
        return 1 if job.watch else max(1, self._limits.batch_size // job.settings.augment)

    def _take(self, room: int, first: Job) -> list[Job]:
        """Take a query that waits and what goes with it, at most so many; the queue is locked."""
        like = [job for job in self._waiting if job is not first and _alike(job, first)]
        # Stable, so that of equals the older one goes first.
        like.sort(key=lambda job: abs(len(job.ready.ids) - len(first.ready.ids)))
        batch = [first, *like[: room - 1]]
        taken = set(map(id, batch))
        self._waiting = deque(job for job in self._waiting if id(job) not in taken)
        now = time.monotonic()
        for job in batch:
            self._metrics.waited.observe(now - job.arrived)
        return batch

    def _answer(self, number: int, engine: Engine, batch: list[Job]) -> Iterator[tuple[Job, DecodeResult]]:
        """Answer a batch, and those who join it, each as soon as it is done."""
        first = batch[0]
        under_way = list(batch)
        self._busy[number] = len(under_way)

        def before_pass() -> None:
            self._last_sign[number] = time.monotonic()
            if all(job.abandoned for job in under_way):
                raise _AbandonedError

        if first.watch is not None:
            yield first, self._stream(engine, first, first.watch, before_pass)
            return
        if first.settings.distinct or first.settings.augment > 1:  # searched again and wider, or in several rows
            yield from zip(batch, self._decode(engine, batch, before_pass), strict=True)
            return
        coming = deque(batch)

        def more(room: int) -> list[Job]:
            if not coming:
                with self._changed:
                    # Where the next is not like these, they end, and it need not wait for ever.
                    if self._waiting and _alike(other := self._next(), first):
                        coming.extend(self._take(room, other))
                under_way.extend(coming)
                self._busy[number] = len(under_way)
            return [coming.popleft() for _ in range(min(room, len(coming)))]

        try:
            for job, result in engine.keep_decoding(more, _ready, first.settings, before_pass=before_pass):
                under_way.remove(job)
                self._busy[number] = len(under_way)
                yield job, result
        except _AbandonedError:
            raise
        except Exception:
            left = list(under_way)  # to find those to blame
            for job in left:
                under_way[:] = [job]
                with suppress(_AbandonedError):
                    yield job, self._decode(engine, [job], before_pass)[0]

    def _decode(self, engine: Engine, batch: list[Job], before_pass: Callable[[], None]) -> list[DecodeResult]:
        """Decode a batch; where that fails, decode its queries one by one to find those to blame."""
        try:
            return engine.decode([job.ready for job in batch], batch[0].settings, before_pass=before_pass)
        except _AbandonedError:
            raise
        except Exception as error:
            if len(batch) == 1:
                return [DecodeResult(batch[0].ready.text, "failed", FAILED.format(error), notes=batch[0].ready.notes)]
        return [result for job in batch for result in self._decode(engine, [job], before_pass)]

    def _stream(
        self, engine: Engine, job: Job, watch: Callable[[Pass], None], before_pass: Callable[[], None]
    ) -> DecodeResult:
        settings = replace(job.settings, record=job.settings.augment == 1)  # the tree of prefixes has the text so far
        try:
            for event in engine.stream(job.ready.text, settings):
                if isinstance(event, DecodeResult):
                    return event
                before_pass()
                self._loop.call_soon_threadsafe(watch, event)
        except _AbandonedError:
            raise
        except Exception as error:
            return DecodeResult(job.ready.text, "failed", FAILED.format(error), notes=job.ready.notes)
        raise AssertionError("a stream ends with its result")

    def _deliver(self, done: list[tuple[Job, DecodeResult]]) -> None:
        def resolve() -> None:
            for job, result in done:
                if not job.result.done():
                    job.result.set_result(result)

        with suppress(RuntimeError):  # the event loop is closed: nobody is there to be told
            self._loop.call_soon_threadsafe(resolve)
