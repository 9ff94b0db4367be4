"""Service logic without HTTP: models, validation of requests, waiting for results."""

import asyncio
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import lru_cache, partial
from typing import Any

from starlette.types import Receive

from chemspec import tasks
from chemspec.chem.molecules import parsing
from chemspec.engine.deadline import check_settings, not_ready
from chemspec.engine.engine import Engine, PreparedQuery
from chemspec.engine.registry import default_model, usable_drafters
from chemspec.service.limits import Limits, RefusedError
from chemspec.service.metrics import Metrics
from chemspec.service.plans import Plans
from chemspec.service.pools import STUCK_SECONDS, WorkPool
from chemspec.service.scheduler import Deadline, Job, Scheduler, Search, stopping_error
from chemspec.service.schema import DecodeOptions
from chemspec.settings import DecodeSettings, Task, decode_settings
from chemspec.system.threads import usable_cores
from chemspec.types import DecodeResult

CLIENT: ContextVar[str] = ContextVar("client", default="")  # anonymous client name set by `guard`, for a fair queue
model_drafters = lru_cache(usable_drafters)  # it reads many files
READERS = 2 * min(2, max(1, usable_cores() // 2))  # threads; half of the cores, up to two, are for one client
READ_SECONDS = 0.02  # time of reading in a turn, which ends behind the query that is being read
HARD_TEXTS = 16  # texts of a request that another process reads, which may take 0.4 s each (`chem.molecules.parsing`)
UNREAD = f"more than {HARD_TEXTS} structures of this request take long to read; ask for this one in another request"
REVIEWERS = 4  # threads
REVIEWS = 128  # reviews at a time, of one client half
STOP_SECONDS = 0.5  # shortest time for the end of what was accepted, though the time for it is over


class Service:
    """Engines behind one queue; `start` and `stop` it where an event loop runs."""

    def __init__(self, engines: Mapping[str, Engine], limits: Limits | None = None) -> None:
        """Configure a service on engines by model name."""
        self.engines = engines
        self._defaults = {task: default_model(task) for task in {engine.task for engine in engines.values()}}
        self.limits = limits = limits or Limits()
        self.metrics = Metrics()
        self.stopping = False
        self.reviewers = WorkPool("reviews", REVIEWERS, most=REVIEWS, per_client=REVIEWS // 2)
        self.readers = WorkPool("queries", READERS, most=limits.queue, per_client=limits.per_client)
        self._stopper = WorkPool("stops", 1, most=1, per_client=1)
        self.plans = Plans()
        self._pools = (self.readers, self.reviewers, self._stopper)
        self._stop_end = math.inf  # end of the grace on the monotonic clock
        self.scheduler: Scheduler | None = None

    def start(self) -> None:
        """Accept requests; called in the event loop that answers them."""
        parsing.SANDBOX.start()
        for pool in (*self._pools, self.plans.pool):
            pool.start()
        self.scheduler = Scheduler(self.limits, self.metrics)

    def begin_stop(self) -> None:
        """Refuse new requests; the grace of those under way begins."""
        self.stopping = True
        self.plans.begin_stop()
        self._stop_end = min(self._stop_end, time.monotonic() + self.limits.grace)

    async def stop(self) -> None:
        """Refuse new requests and finish accepted ones, for at most the grace from the first call of `begin_stop`."""
        self.begin_stop()
        await self.plans.close(max(STOP_SECONDS, min(self.limits.grace, self._stop_end - time.monotonic())))
        if self.scheduler is not None:
            seconds = max(STOP_SECONDS, self._stop_end - time.monotonic())
            with suppress(TimeoutError):
                await self._stopper.run("stop", partial(self.scheduler.close, seconds), Deadline.after(seconds + 1))
        for pool in self._pools:
            pool.close()

    async def not_ready_reason(self) -> str:
        """Return the reason why no requests are accepted; empty if they are."""
        return "stopping" if self.stopping else await self.check_health()

    async def check_health(self) -> str:
        """Run an empty piece of work in every pool; returns the error that requires a restart, or an empty text."""
        if self.scheduler is not None:
            await asyncio.gather(*(pool.probe() for pool in self._pools))
        return self.broken

    @property
    def broken(self) -> str:
        """The error that requires a restart; empty if there is none."""
        if self.scheduler is None:
            return ""
        if not self.scheduler.alive:
            return "the thread that decodes has ended"
        if self.scheduler.seconds_in_pass > self.limits.timeout + STUCK_SECONDS:
            return "the thread that decodes hangs"
        return next(filter(None, (pool.stuck for pool in (*self._pools, self.plans.pool))), "")

    def refusal(self, client: str) -> RefusedError | None:
        """Return the error of a client of which as many queries are being read as may be, before its body is parsed."""
        return self.readers.refusal(client)

    def search(self, options: DecodeOptions, within: float | None = None) -> Search:
        """Return model, settings and deadline of a request, which may have a shorter time limit than the service.

        `within` are the seconds in which the widest list is searched. Raises RefusedError for values out of range or
        that do not go together, a model or a drafter that is not there, or if the service is stopping.
        """
        deadline = self.deadline(options.timeout, within)
        model, engine = self.engine(options.model, options.task)
        settings = self._settings(options, engine, within)
        return Search(model, engine, settings, deadline, widest=within is not None)

    def deadline(self, *seconds: float | None, most: float | None = None) -> Deadline:
        """Return the end of a request that arrives now: the shortest limit of those given and `most` (--timeout).

        Raises:
            RefusedError: if the service is stopping.
        """
        if self.stopping:
            raise stopping_error()
        return Deadline.after(min(filter(None, (*seconds, most or self.limits.timeout))))

    def check_number(self, texts: Sequence[str], noun: str) -> None:
        """Raise RefusedError if a request has more texts than it may have."""
        if len(texts) > self.limits.queries:
            message = f"{len(texts)} {noun} in one request; the limit is {self.limits.queries}"
            raise RefusedError(413, "too_many_queries", message)

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
        name = next((name for name in (self._defaults.get(task), task) if name in matching), matching[0])
        return name, engines[name]

    def _settings(self, options: DecodeOptions, engine: Engine, within: float | None) -> DecodeSettings:
        if options.n > self.limits.answers:
            raise RefusedError(422, "too_many_answers", f"n is {options.n}; the limit here is {self.limits.answers}")
        try:
            chosen = _checked_settings(tuple(options.settings.items()), options.exact, self.limits.batch_size)
            if chosen.prefix:
                engine.tokenizer.encode_answer(chosen.prefix)
            if within is not None:
                check_settings(chosen, within)
        except ValueError as error:
            raise RefusedError(422, "settings", str(error)) from None
        available = model_drafters(engine.folder)
        if chosen.drafts_by not in available:
            message = f"the model {engine.name} cannot use the drafter {chosen.drafts_by}"
            raise RefusedError(422, "settings", f"{message}; choose {', '.join(available)}")
        return chosen

    async def submit(
        self, search: Search, queries: Sequence[str], gone: asyncio.Future[None] | None = None
    ) -> list[Job]:
        """Prepare queries and queue the valid ones; the results of invalid ones are set immediately.

        Queries that are not read by the deadline, or before the client is `gone`, are not queued; `results` fails them.
        Raises RefusedError if there are too many in this request, being read or in the queue, or the service has
        stopped.
        """
        assert self.scheduler is not None
        if not queries:
            raise RefusedError(422, "no_query", "there is no query in the request")
        self.check_number(queries, "queries")
        prepared = await self._read(search, queries, gone)
        future = asyncio.get_running_loop().create_future
        unread = map(PreparedQuery, queries[len(prepared) :])
        jobs = [Job(search, ready, future(), client=CLIENT.get()) for ready in (*prepared, *unread)]
        refusals = [job.ready.refusal for job in jobs if job.ready.refusal is not None]
        for job in jobs:
            if job.ready.refusal is not None:
                job.result.set_result(job.ready.refusal)
        self.scheduler.submit([job for job in jobs[: len(prepared)] if job.ready.refusal is None])
        self.metrics.count_results(search.model, refusals)
        return jobs

    async def _read(
        self, search: Search, queries: Sequence[str], gone: asyncio.Future[None] | None
    ) -> list[PreparedQuery]:
        """Read queries in turns with other clients, until the deadline or the client is gone."""
        prepared, trials = list[PreparedQuery](), parsing.Trials(HARD_TEXTS)

        def read_some() -> bool:
            _prepare(search, queries[len(prepared) :], trials, prepared)
            return len(prepared) < len(queries)

        with suppress(TimeoutError):
            await self.read_in_turns(len(queries), read_some, search.deadline, gone)
        return list(prepared)  # a turn that is late may go on

    async def read_in_turns(
        self, count: int, read_some: Callable[[], bool], deadline: Deadline, gone: asyncio.Future[None] | None
    ) -> None:
        """Call a function that reads some of `count` texts while it returns that some are left, in turns with others.

        Raises:
            RefusedError: if the client has too many texts being read.
            TimeoutError: at the deadline, or when `gone` is done; a turn that has begun goes on.
        """
        client, more = CLIENT.get(), True
        with self.readers.admit(client, count):
            while more:
                if not deadline.left:
                    raise TimeoutError(deadline.message)
                more = await self.readers.run(client, read_some, deadline, gone)

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
            if self.scheduler and not all(future.done() for future in futures):
                self.scheduler.abandon(jobs, reason)
        if reason == "client gone":
            raise client_gone_error()
        if not any(future.done() for future in futures) and not search.widest:
            raise RefusedError(504, "timeout", search.deadline.message)
        return [job.result.result() if job.result.done() else _late_result(job) for job in jobs]


@lru_cache(maxsize=256)  # clients repeat their settings, whose checks cost a fifth of a small request
def _checked_settings(fields: tuple[tuple[str, Any], ...], exact: bool, batch_size: int) -> DecodeSettings:
    return decode_settings(**dict(fields), exact=exact, remedy="ask for it with exact: false", batch_size=batch_size)


def client_gone_error() -> RefusedError:
    """Return the error of requests whose client has disconnected."""
    return RefusedError(499, "client_gone", "the client has disconnected")


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


def _prepare(search: Search, queries: Sequence[str], trials: parsing.Trials, prepared: list[PreparedQuery]) -> None:
    """Append to `prepared` what can be read in one turn's time, at least the first query."""
    parsing.TRIALS.set(trials)
    turn = Deadline.after(min(READ_SECONDS, search.deadline.left))
    for query in queries:
        try:
            prepared.append(search.engine.prepare(query))
        except parsing.TooManyTrialsError:
            prepared.append(PreparedQuery(query, refusal=DecodeResult(query, "failed", UNREAD)))
        if not turn.left:
            break
