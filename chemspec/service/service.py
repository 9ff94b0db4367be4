"""Service logic without HTTP: models, validation of requests, waiting for results."""

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import lru_cache
from typing import Any

from starlette.types import Receive

from chemspec import tasks
from chemspec.chem import parsing
from chemspec.engine.deadline import check_settings, not_ready
from chemspec.engine.engine import Engine, PreparedQuery
from chemspec.engine.registry import usable_drafters
from chemspec.service.limits import Limits, RefusedError
from chemspec.service.metrics import Metrics
from chemspec.service.scheduler import Deadline, Job, Scheduler, Search, stopping_error
from chemspec.service.schema import DecodeOptions
from chemspec.settings import DecodeSettings, Task, decode_settings
from chemspec.types import DecodeResult

CLIENT: ContextVar[str] = ContextVar("client", default="")  # anonymous client name set by `guard`, for a fair queue
_usable_drafters = lru_cache(usable_drafters)  # which reads many files


class Service:
    """Engines behind one queue; `start` and `stop` it where an event loop runs."""

    def __init__(self, engines: Mapping[str, Engine], limits: Limits | None = None) -> None:
        """Configure a service on engines by model name."""
        self.engines = engines
        self.limits = limits or Limits()
        self.metrics = Metrics()
        self.stopping = False
        self._scheduler: Scheduler | None = None

    def start(self) -> None:
        """Accept requests; called in the event loop that answers them."""
        parsing.APART.start()
        self._scheduler = Scheduler(self.limits, self.metrics)

    async def stop(self) -> None:
        """Refuse new requests and finish accepted ones."""
        self.stopping = True
        if self._scheduler is not None:
            await asyncio.to_thread(self._scheduler.close, self.limits.grace)

    @property
    def not_ready_reason(self) -> str:
        """The reason why no requests are accepted; empty if they are."""
        return "stopping" if self.stopping else self.broken

    @property
    def broken(self) -> str:
        """The error that requires a restart; empty if there is none."""
        alive = self._scheduler is None or self._scheduler.alive
        return "" if alive else "the thread that decodes has ended"

    def search(self, options: DecodeOptions, within: float | None = None) -> Search:
        """Return model, settings and deadline of a request, which may have a shorter time limit than the service.

        `within` are the seconds in which the widest list is searched. Raises RefusedError for values out of range or
        that do not go together, or a model or a drafter that is not there.
        """
        model, engine = self.engine(options.model, options.task)
        settings = self._settings(options, engine, within)
        seconds = min(filter(None, (options.timeout, within, self.limits.timeout)))
        deadline = Deadline(seconds, time.monotonic() + seconds)
        return Search(model, engine, settings, deadline, widest=within is not None)

    def engine(self, model: str | None, task: Task | None) -> tuple[str, Engine]:
        """Return name and engine of a model, by its name or a task.

        Raises:
            RefusedError: if there is none, or it has another task.
        """
        engines = self.engines
        names = ", ".join(sorted(engines))
        if model is not None:
            if model not in engines:
                shown = model.encode("utf-8", "backslashreplace").decode()[:80]
                raise RefusedError(404, "unknown_model", f"there is no model {shown!r}; available: {names}")
            if task not in (None, engines[model].task):
                message = f"the model {model} is a {engines[model].task} model, not {task}"
                raise RefusedError(400, "wrong_task", message)
            return model, engines[model]
        if task is None:
            message = f"say which question: task {tasks.task_questions()}, or name a model"
            raise RefusedError(400, "no_task", message)
        matching = sorted(name for name, engine in engines.items() if engine.task == task)
        if not matching:
            raise RefusedError(404, "unknown_model", f"no model for the task {task}; available: {names}")
        name = task if task in matching else matching[0]
        return name, engines[name]

    def _settings(self, options: DecodeOptions, engine: Engine, within: float | None) -> DecodeSettings:
        if options.n > self.limits.answers:
            raise RefusedError(422, "too_many_answers", f"n is {options.n}; the limit here is {self.limits.answers}")
        try:
            chosen = decode_settings(**options.settings, exact=options.exact, remedy="ask for it with exact: false")
            if within is not None:
                check_settings(chosen, within)
        except ValueError as error:
            raise RefusedError(422, "settings", str(error)) from None
        available = _usable_drafters(engine.folder)
        if chosen.drafts_by not in available:
            message = f"the model {engine.name} cannot use the drafter {chosen.drafts_by}"
            raise RefusedError(422, "settings", f"{message}; choose {', '.join(available)}")
        return replace(chosen, batch_size=self.limits.batch_size)

    async def submit(self, search: Search, queries: Sequence[str]) -> list[Job]:
        """Prepare queries and queue the valid ones; the results of invalid ones are set immediately.

        Queries that there is no time to read are not queued; `results` fails them. Raises RefusedError if there are too
        many in this request or in the queue, or the service is stopping.
        """
        assert self._scheduler is not None
        if self.stopping:
            raise stopping_error()
        if not queries:
            raise RefusedError(422, "no_query", "there is no query in the request")
        if len(queries) > self.limits.queries:
            message = f"{len(queries)} queries in one request; the limit is {self.limits.queries}"
            raise RefusedError(413, "too_many_queries", message)
        prepared = await asyncio.to_thread(_prepare, search, queries)  # some take a second
        future = asyncio.get_running_loop().create_future
        unread = map(PreparedQuery, queries[len(prepared) :])
        jobs = [Job(search, ready, future(), client=CLIENT.get()) for ready in (*prepared, *unread)]
        refusals = [job.ready.refusal for job in jobs if job.ready.refusal is not None]
        for job in jobs:
            if job.ready.refusal is not None:
                job.result.set_result(job.ready.refusal)
        self._scheduler.submit([job for job in jobs[: len(prepared)] if job.ready.refusal is None])
        self.metrics.count_results(search.model, refusals)
        return jobs

    async def results(self, jobs: Sequence[Job], gone: asyncio.Future[None]) -> list[DecodeResult]:
        """Wait for the results of a request; queries that are not finished in time fail.

        Raises:
            RefusedError: if no query is finished in time, or the client has disconnected.
        """
        search, futures = jobs[0].search, [job.result for job in jobs]
        everything = asyncio.ensure_future(asyncio.wait(futures))  # cancels none of them when it is cancelled
        reason = "client gone"  # also if this coroutine is cancelled
        try:
            waits: set[asyncio.Future[Any]] = {everything, gone}
            done, _ = await asyncio.wait(waits, timeout=search.deadline.left, return_when=asyncio.FIRST_COMPLETED)
            if everything in done or not done:
                reason = "" if done else "timeout"
        finally:
            everything.cancel()
            if self._scheduler and not all(future.done() for future in futures):
                self._scheduler.abandon(jobs, reason)
        if reason == "client gone":
            raise RefusedError(499, "client_gone", "the client has disconnected")
        if not any(future.done() for future in futures) and not search.widest:
            raise RefusedError(504, "timeout", search.deadline.message)
        return [job.result.result() if job.result.done() else _late_result(job) for job in jobs]


@contextmanager
def watch_disconnect(receive: Receive) -> Iterator[asyncio.Future[None]]:
    """Yield a future that is done when the client disconnects; it is cancelled at the end of the context."""

    async def wait() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    gone = asyncio.ensure_future(wait())
    try:
        yield gone
    finally:
        gone.cancel()


def _late_result(job: Job) -> DecodeResult:
    """Return the result of a query that is unfinished at the deadline: of `widest` the best list so far."""
    if not job.search.widest:
        return DecodeResult(job.ready.text, "failed", job.search.deadline.message)
    return job.best or not_ready(job.ready, job.search.deadline.seconds)


def _prepare(search: Search, queries: Sequence[str]) -> list[PreparedQuery]:
    """Prepare queries until the deadline, since a query may take half a second."""
    return [search.engine.prepare(query) for query in queries if search.deadline.left]
