"""Searches for routes as jobs: started by one request, followed and stopped by others, and kept for an hour."""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from chemspec import precedents
from chemspec.plan.orders import order_plan
from chemspec.plan.routes import find_evidence, plan_document
from chemspec.plan.settings import PlanSettings
from chemspec.service.limits import RefusedError
from chemspec.service.pools import WorkPool
from chemspec.service.scheduler import RETRY_AFTER, Deadline, stopping_error
from chemspec.stock.lists import Stock

LOG = logging.getLogger("chemspec.service")
PLANNERS = 2  # threads, of which one is for one client
MAX_PLANS = 32  # plans that wait or run at a time, of one client half
MAX_KEPT = 200  # ended plans that are kept
MAX_FOLLOWED = 64  # connections on which the events of plans are sent, of one client a quarter
KEPT_SECONDS = 3600.0
SLACK_SECONDS = 10.0  # time in which a search that its deadline has ended lists its routes
State = Literal["waiting", "running", "done", "stopped", "failed"]
ENDED = ("done", "stopped", "failed")


@dataclass(frozen=True)
class PlanRequest:
    """What a search is for; `open_models` returns a new `Expander` on the service's models."""

    target: str
    settings: PlanSettings
    order: str
    deadline: Deadline
    load_stock: Callable[[], Stock]
    open_models: Callable[[Deadline], Any]


@dataclass(eq=False)
class PlanJob:
    """A search and its state; changed in the event loop only."""

    id: str
    client: str
    request: PlanRequest
    state: State = "waiting"
    message: str = ""
    expansions: int = 0
    seconds: float = 0.0
    solved: bool = False
    plan: dict[str, Any] | None = None
    is_stopped: bool = False  # stopped by its client, or with the service
    ended: float = math.inf  # when it ended, on the monotonic clock
    changed: asyncio.Event = field(default_factory=asyncio.Event)  # event of this state; replaced at each change

    def document(self) -> dict[str, Any]:
        """Return the job as a JSON document."""
        progress: dict[str, Any] = {"expansions": self.expansions, "limit": self.request.settings.expansions}
        progress |= {"seconds": round(self.seconds, 3), "solved": self.solved}
        facts = {name: getattr(self, name) for name in ("id", "state", "message")}
        return {**facts, "target": self.request.target, "progress": progress, "plan": self.plan}

    def change(self, **values: Any) -> None:
        """Set attributes, and wake up who waits for a change."""
        for name, value in values.items():
            setattr(self, name, value)
        changed, self.changed = self.changed, asyncio.Event()
        changed.set()


class Plans:
    """The jobs of a service."""

    def __init__(self) -> None:
        self.pool = WorkPool("plans", PLANNERS, most=MAX_PLANS, per_client=MAX_PLANS // 2)
        self.jobs: dict[str, PlanJob] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.followed: Counter[str] = Counter()  # connections by client

    def submit(self, client: str, request: PlanRequest) -> PlanJob:
        """Queue a search; RefusedError (429) if the client, or all together, have too many."""
        if (refusal := self.pool.refusal(client)) is not None:
            raise refusal
        self._forget_old()
        job = PlanJob(secrets.token_urlsafe(16), client, request)
        self.jobs[job.id] = job
        admitted = self.pool.admit(client)
        admitted.__enter__()
        task = asyncio.ensure_future(self._run(job))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: admitted.__exit__(None, None, None))
        return job

    def find(self, client: str, name: str) -> PlanJob:
        """Return a job of a client; RefusedError (404) if there is none, or it was another client's."""
        self._forget_old()
        job = self.jobs.get(name)
        if job is None or job.client != client:
            raise RefusedError(
                404, "unknown_plan", "there is no plan of yours with this id; it may have been forgotten"
            )
        return job

    @contextmanager
    def follow(self, client: str) -> Iterator[None]:
        """Count a connection on which events are sent; RefusedError (429) beyond a limit."""
        if self.followed[client] >= MAX_FOLLOWED // 4 or self.followed.total() >= MAX_FOLLOWED:
            message = f"too many connections follow plans; try again in {RETRY_AFTER} s, or ask for the state"
            raise RefusedError(429, "queue_full", message, after=RETRY_AFTER)
        self.followed[client] += 1
        try:
            yield
        finally:
            self.followed[client] -= 1
            self.followed += Counter()  # drops clients without any

    def stop(self, job: PlanJob) -> None:
        """Stop a search before its next step, which keeps the routes so far; forget one that has ended."""
        if job.state in ENDED:
            self.jobs.pop(job.id, None)
        elif job.state == "waiting":
            job.change(state="stopped", message="stopped before it began", is_stopped=True, ended=time.monotonic())
        else:
            job.is_stopped = True

    def begin_stop(self) -> None:
        """Stop all searches before their next steps."""
        for job in self.jobs.values():
            job.is_stopped = True

    async def close(self, seconds: float) -> None:
        """Wait for the searches that were stopped, and end the threads."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)
        for task in self._tasks:
            task.cancel()
        self.pool.close()

    def _forget_old(self) -> None:
        ended = sorted((job for job in self.jobs.values() if job.state in ENDED), key=lambda job: job.ended)
        late = time.monotonic() - KEPT_SECONDS
        for number, job in enumerate(ended):
            if job.ended < late or number < len(ended) - MAX_KEPT:
                del self.jobs[job.id]

    async def _run(self, job: PlanJob) -> None:
        loop, deadline = asyncio.get_running_loop(), job.request.deadline
        slack = Deadline(deadline.seconds, deadline.end + SLACK_SECONDS)

        def report(**values: Any) -> None:
            with suppress(RuntimeError):  # the event loop is closed
                loop.call_soon_threadsafe(lambda: job.change(**values))

        try:
            document = await self.pool.run(job.client, lambda: _search(job, slack, report), slack)
        except (RefusedError, TimeoutError, ValueError) as error:
            job.change(state="failed", message=str(error), ended=time.monotonic())
        except asyncio.CancelledError:
            job.change(state="failed", message=str(stopping_error()), ended=time.monotonic())
            raise
        except Exception as error:
            LOG.error("plan", exc_info=error, extra={"log_fields": {}})
            job.change(state="failed", message="internal error of the service", ended=time.monotonic())
        else:
            if job.state not in ENDED:
                state = "stopped" if job.is_stopped else "done"
                written = document if "routes" in document else None
                job.change(state=state, message=document["message"], plan=written, ended=time.monotonic())


def _search(job: PlanJob, slack: Deadline, report: Callable[..., None]) -> dict[str, Any]:
    """Search for routes in a thread; returns the plan as a document."""
    from chemspec.plan.search import RouteSearch, plan  # needs the extra plan

    request = job.request
    if job.is_stopped:
        return {"message": job.message}
    if not request.deadline.left:
        raise TimeoutError(request.deadline.message)
    report(state="running")

    def watch(search: RouteSearch) -> bool:
        report(expansions=search.expansions, seconds=search.seconds, solved=search.solved)
        return job.is_stopped

    settings = replace(request.settings, within=min(request.settings.within, request.deadline.left))
    result = plan(request.target, request.open_models(slack), request.load_stock(), settings, watch)
    report(expansions=result.expansions, seconds=result.seconds)
    ordered = order_plan(result, request.order)
    return plan_document(ordered, find_evidence(ordered.routes, precedents.installed()))
