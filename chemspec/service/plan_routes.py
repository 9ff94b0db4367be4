"""Routes for searches of routes as jobs: start, state, progress as server-sent events, stop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Path, Request
from fastapi.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from chemspec import precedents
from chemspec.evaluation.loading import COMPANIONS
from chemspec.plan.expand import Expander
from chemspec.plan.orders import ORDERS
from chemspec.plan.settings import PlanSettings
from chemspec.service import schema
from chemspec.service.limits import RefusedError
from chemspec.service.plan_schema import MAX_NODES, PlanAnswer, PlanQuestion
from chemspec.service.plans import ENDED, PlanJob, PlanRequest
from chemspec.service.queued_model import QueuedModel
from chemspec.service.scheduler import Deadline
from chemspec.service.service import CLIENT, Service, watch_disconnect
from chemspec.service.stock_lists import check_lists, load_lists
from chemspec.settings import DecodeSettings
from chemspec.system import extras

BEAT_SECONDS = 15.0  # between two events at most, so that proxies keep the connection
EVENT_SECONDS = 0.1  # shortest time between two events
Id = Annotated[str, Path(max_length=100)]
PROBLEMS = schema.PROBLEMS | {
    404: {"model": schema.Problem, "description": "no such plan of this client, or no such model"},
    501: {"model": schema.Problem, "description": "the service has no planning installed"},
}
EVENT = {
    "type": "object",
    "properties": {
        "event": {"enum": ["progress", "end"]},
        "data": {"type": "string", "description": "a JSON document"},
    },
    "required": ["event", "data"],
}
EVENTS: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {"text/event-stream": {"schema": EVENT}},
        "description": "`progress` events with the state, and an `end` event with the state and the plan",
    }
}


def add_plan_routes(router: APIRouter, service: Service) -> None:
    """Add the routes of /v1/plan."""

    @router.post("/v1/plan", status_code=202, response_model=PlanAnswer, responses=PROBLEMS, tags=["plan"])
    async def plan(question: PlanQuestion, request: Request) -> Response:
        """Start a search for routes from building blocks to a molecule; its `id` is for the other routes."""
        plan_request = await _read_request(service, question, request)
        return _job_response(service.plans.submit(CLIENT.get(), plan_request), 202)

    @router.get("/v1/plan/{id}", response_model=PlanAnswer, responses=PROBLEMS, tags=["plan"])
    async def plan_state(id: Id) -> Response:
        """Return the state of a search, and its plan when it has ended; it is kept for an hour."""
        return _job_response(service.plans.find(CLIENT.get(), id))

    @router.get("/v1/plan/{id}/events", response_class=Response, responses=PROBLEMS | EVENTS, tags=["plan"])
    async def plan_events(id: Id) -> Response:
        """Follow a search as server-sent events until it has ended."""
        return _Followed(service.plans.find(CLIENT.get(), id), service.plans.follow(CLIENT.get()))

    @router.delete("/v1/plan/{id}", response_model=PlanAnswer, responses=PROBLEMS, tags=["plan"])
    async def stop_plan(id: Id) -> Response:
        """Stop a search before its next step, which keeps what it has found; forget one that has ended."""
        job = service.plans.find(CLIENT.get(), id)
        service.plans.stop(job)
        return _job_response(job)


async def _read_request(service: Service, question: PlanQuestion, request: Request) -> PlanRequest:
    try:
        extras.require_packages("syntheseus", "apted", what="planning")
    except extras.MissingExtraError as error:
        raise RefusedError(501, "no_planning", str(error)) from None
    if question.order not in ORDERS:
        message = f"order is {question.order[:40]!r}; choose one of {', '.join(ORDERS)}"
        raise RefusedError(422, "settings", message.encode("utf-8", "backslashreplace").decode())
    model, _ = service.engine(question.model, "retro")
    names = check_lists(question.stock)
    deadline = service.deadline(question.timeout, most=service.limits.plan_timeout)
    read: list[PlanSettings] = []

    def read_settings() -> bool:
        limits = {name: getattr(question, name) for name in ("seconds", "expansions", "depth", "routes", "through")}
        read.append(PlanSettings(**limits, avoid=tuple(question.avoid), nodes=MAX_NODES))
        return False

    with watch_disconnect(request.receive) as gone:
        try:
            await service.read_in_turns(1, read_settings, service.deadline(), gone)
        except TimeoutError as error:
            raise RefusedError(504, "timeout", str(error)) from None
        except ValueError as error:
            raise RefusedError(422, "settings", str(error)) from None
    loop, never = asyncio.get_running_loop(), asyncio.get_running_loop().create_future()
    present = {engine.task for engine in service.engines.values()}

    def open_models(slack: Deadline) -> Expander:
        retro = QueuedModel(service, "retro", slack, loop, never, model)
        others = {task: QueuedModel(service, task, slack, loop, never) for task in COMPANIONS if task in present}
        forward = others.get("forward") if question.check else None
        settings = DecodeSettings(n=question.n, batch_size=service.limits.batch_size)
        return Expander(retro, forward, settings, reagents=others.get("reagents"), index=precedents.installed())

    return PlanRequest(question.target, read[0], question.order, deadline, lambda: load_lists(names), open_models)


def _job_response(job: PlanJob, status: int = 200) -> Response:
    return Response(msgspec.json.encode(job.document()), status, media_type="application/json")


async def _events(job: PlanJob) -> AsyncIterator[bytes]:
    """Yield an event for each change of a job, at most ten a second, and the last with its plan."""
    while job.state not in ENDED:
        changed = job.changed
        yield b"event: progress\ndata: " + msgspec.json.encode(job.document()) + b"\n\n"
        try:
            await asyncio.wait_for(changed.wait(), BEAT_SECONDS)
        except TimeoutError:
            continue
        await asyncio.sleep(EVENT_SECONDS)
    yield b"event: end\ndata: " + msgspec.json.encode(job.document()) + b"\n\n"


class _Followed(StreamingResponse):
    """Events of a plan; its connection is counted until the last one is sent, or the client leaves."""

    def __init__(self, job: PlanJob, followed: AbstractContextManager[None]) -> None:
        super().__init__(_events(job), media_type="text/event-stream", headers={"Cache-Control": "no-store"})
        self.followed = followed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self.followed:
            await super().__call__(scope, receive, send)
