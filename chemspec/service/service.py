"""Know the models that answer, and take questions to them; no HTTP here."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from chemspec import tasks
from chemspec.chem import parsing
from chemspec.engine.engine import Engine
from chemspec.engine.registry import usable
from chemspec.service.limits import Limits
from chemspec.service.metrics import Metrics
from chemspec.service.scheduler import Job, Scheduler
from chemspec.service.schema import How
from chemspec.settings import DecodeSettings, Task, decode_settings
from chemspec.types import DecodeResult, Pass

LATE = "no answer within {:g} s; ask for fewer answers, or again when fewer are asking"
CLIENT: ContextVar[str] = ContextVar("client", default="")  # who asks; `guard` knows, and the queue is fair by it
LONG = 100  # characters of queries that are read in a thread of their own, lest all others wait: some take a second


class RefusedError(Exception):
    """A question that is not taken on: an HTTP status, a code for programs, and a sentence for people."""

    def __init__(self, status: int, code: str, message: str, *, after: int = 0) -> None:
        super().__init__(message)
        self.status, self.code, self.after = status, code, after


class Service:
    """Engines behind one queue; `start` and `stop` it where an event loop runs."""

    def __init__(self, load: Callable[[], Sequence[Mapping[str, Engine]]], limits: Limits | None = None) -> None:
        """Describe a service.

        Args:
            load: returns for every device the engines on it, by the names of the models.
            limits: sizes, waiting and time.
        """
        self.limits = limits or Limits()
        self.metrics = Metrics()
        self.stopping = False
        self.problem: Exception | None = None  # why the models could not be loaded
        self._load = load
        self._devices: Sequence[Mapping[str, Engine]] = ()
        self._scheduler: Scheduler | None = None
        self._loading: asyncio.Task[None] | None = None

    def start(self, loaded: Callable[[], object] | None = None) -> None:
        """Load the models in the background; `loaded` is called when that is over, well or not."""
        self._loading = asyncio.create_task(self._begin(loaded))

    async def _begin(self, loaded: Callable[[], object] | None) -> None:
        try:
            parsing.APART.start()
            self._devices = await asyncio.to_thread(self._load)
            self._scheduler = Scheduler(self._devices, self.limits, self.metrics)
        except Exception as error:
            self.problem = error
        if loaded is not None:
            loaded()

    async def stop(self) -> None:
        """Take nothing new and finish what was accepted."""
        self.stopping = True
        if self._loading is not None and not self._loading.done():
            self._loading.cancel()
            with suppress(asyncio.CancelledError):
                await self._loading
        if self._scheduler is not None:
            await asyncio.to_thread(self._scheduler.close, self.limits.grace)

    @property
    def ready(self) -> bool:
        """Whether questions are answered."""
        return self._scheduler is not None and not self.broken and not self.stopping

    @property
    def why_not(self) -> str:
        """Say why it is not `ready`."""
        if self.stopping:
            return "stopping"
        return self.broken or "the models are being loaded"

    @property
    def broken(self) -> str:
        """Say what only a new start mends; empty if nothing."""
        if self.problem is not None:
            return "the models could not be loaded"
        if self._scheduler is not None and not self._scheduler.alive:
            return "a thread that decodes has ended"
        if self._scheduler is not None and self._scheduler.hung:
            return f"a forward pass has not ended within {self.limits.hang:g} s"
        return ""

    @property
    def healthy(self) -> bool:
        """Whether a restart would not help: nothing has died or hangs."""
        return not self.broken

    @property
    def waiting(self) -> int:
        """How many queries wait."""
        return self._scheduler.waiting if self._scheduler else 0

    @property
    def devices(self) -> Sequence[Mapping[str, Engine]]:
        """Of every device the engines on it."""
        return self._devices

    @property
    def models(self) -> Sequence[str]:
        """The names of the models that are loaded."""
        return list(self._devices[0]) if self._devices else []

    def engine(self, model: str | None, task: Task | None) -> tuple[str, Engine]:
        """Return the model of a name, or the one for a task, and its name.

        Raises:
            RefusedError: if there is none, or it answers the other question.
        """
        self._check_ready()
        engines = self._devices[0]
        names = ", ".join(sorted(engines))
        if model is not None:
            if model not in engines:
                shown = model.encode("utf-8", "backslashreplace").decode()[:80]
                raise RefusedError(404, "unknown_model", f"there is no model {shown!r}; there are {names}")
            if task not in (None, engines[model].task):
                message = f"the model {model} answers {engines[model].task}, not {task}"
                raise RefusedError(400, "wrong_task", message)
            return model, engines[model]
        if task is None:
            message = f"say which question: task {tasks.questions()}, or name a model"
            raise RefusedError(400, "no_task", message)
        able = sorted(name for name, engine in engines.items() if engine.task == task)
        if not able:
            raise RefusedError(404, "unknown_model", f"no model for the task {task}; there are {names}")
        name = task if task in able else able[0]
        return name, engines[name]

    def settings(self, how: How, engine: Engine) -> DecodeSettings:
        """Return how to answer.

        Raises:
            RefusedError: for values out of range, or a drafter that the model lacks.
        """
        if how.n > self.limits.answers:
            raise RefusedError(422, "too_many_answers", f"n is {how.n}; at most {self.limits.answers} are given here")
        try:
            chosen = decode_settings(
                how.decoder, how.n, exact=how.exact, remedy="ask for it with exact: false", **how.settings
            )
        except ValueError as error:
            raise RefusedError(422, "settings", str(error)) from None
        able = _drafters(engine.folder)
        if chosen.drafts_by not in able:
            message = f"the model {engine.name} cannot use the drafter {chosen.drafts_by}; choose {', '.join(able)}"
            raise RefusedError(422, "settings", message)
        return replace(chosen, batch_size=self.limits.batch_size)

    async def submit(
        self,
        model: str,
        engine: Engine,
        queries: Sequence[str],
        settings: DecodeSettings,
        watch: Callable[[Pass], None] | None = None,
    ) -> list[Job]:
        """Read queries and queue those that can be decoded; the results of the others are there at once.

        Args:
            model: its name.
            engine: any of its engines; whichever is free will decode.
            queries: as they were asked.
            settings: how to answer.
            watch: gets every pass of a single query.

        Raises:
            RefusedError: if there are too many, in this request or in the queue, or the service is stopping.
        """
        self._check_ready()
        assert self._scheduler is not None
        if not queries:
            raise RefusedError(422, "no_query", "there is no query in the request")
        if len(queries) > self.limits.queries:
            message = f"{len(queries)} queries in one request; at most {self.limits.queries} are taken"
            raise RefusedError(413, "too_many_queries", message)
        if sum(map(len, queries)) > LONG:
            prepared = await asyncio.to_thread(lambda: [engine.prepare(query) for query in queries])
        else:
            prepared = [engine.prepare(query) for query in queries]
        futures = asyncio.get_running_loop().create_future
        jobs = [Job(model, ready, settings, futures(), watch, client=CLIENT.get()) for ready in prepared]
        for job in jobs:
            if job.ready.refusal is not None:
                job.result.set_result(job.ready.refusal)
        self._scheduler.submit([job for job in jobs if job.ready.refusal is None])
        self.metrics.answered(model, [job.ready.refusal for job in jobs if job.ready.refusal is not None])
        return jobs

    def ahead(self, job: Job) -> int:
        """Return how many queries come before one that waits."""
        return self._scheduler.ahead(job) if self._scheduler else 0

    def abandon(self, jobs: Sequence[Job], reason: str) -> None:
        """Decode these no further."""
        assert self._scheduler is not None
        self._scheduler.abandon(jobs, reason)

    async def results(
        self, jobs: Sequence[Job], timeout: float, gone: asyncio.Future[None] | None = None
    ) -> list[DecodeResult]:
        """Wait for queries; those that are not done in time fail, and the others keep their answers.

        Args:
            jobs: that were submitted.
            timeout: in seconds.
            gone: done when the client has left.

        Raises:
            RefusedError: if nothing is done in time, or the client has left.
        """
        futures = [job.result for job in jobs]
        everything = asyncio.ensure_future(_all_of(futures))
        reason = "client gone"  # also where this is cancelled
        try:
            waits = {everything} if gone is None else {everything, gone}
            done, _ = await asyncio.wait(waits, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            if everything in done or not done:
                reason = "" if done else "timeout"
        finally:
            everything.cancel()
            if not all(future.done() for future in futures):
                self.abandon(jobs, reason)
        if reason == "client gone":
            raise RefusedError(499, "client_gone", "the client has left")
        if not any(future.done() for future in futures):
            raise RefusedError(504, "timeout", LATE.format(timeout))
        late = LATE.format(timeout)
        return [
            job.result.result() if job.result.done() else DecodeResult(job.ready.text, "failed", late) for job in jobs
        ]

    def timeout(self, asked: float | None) -> float:
        """Return how long a request may take."""
        return min(asked or self.limits.timeout, self.limits.timeout)

    def _check_ready(self) -> None:
        if self.stopping:
            raise RefusedError(503, "stopping", "the service is stopping; ask another, or again later", after=5)
        if self._scheduler is None:
            raise RefusedError(503, "loading", "the models are still being loaded; ask again", after=2)


@lru_cache
def _drafters(folder: Path) -> tuple[str, ...]:
    return usable(folder)  # looks at many files


async def _all_of(futures: Sequence[asyncio.Future[DecodeResult]]) -> None:
    for future in futures:
        await asyncio.shield(future)
