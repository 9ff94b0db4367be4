"""The route `/v1/review`: predictions with strategies, problems, forward check, reagents, precedents and stock."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import msgspec
from fastapi import APIRouter, Request, Response

from chemspec import precedents
from chemspec.io.writers import result_document
from chemspec.plan.stock import BUILT_IN, Stock, load_stock
from chemspec.review import Review, Reviewer, review_document
from chemspec.service.limits import RefusedError
from chemspec.service.schema import ReviewAnswer, ReviewQuestion
from chemspec.service.service import Deadline, Service, watch_disconnect
from chemspec.settings import DecodeSettings, Task
from chemspec.tasks import TASKS
from chemspec.types import DecodeResult

CHECK_BATCH = 32  # queries of a review in the queue at once
COMPANIONS: tuple[Task, ...] = ("forward", "reagents")  # tasks of the models that check


@dataclass(frozen=True)
class _QueuedModel:
    """A model of the service for a thread: its queries wait in the queue like those of other requests."""

    service: Service
    task: Task
    deadline: Deadline
    loop: asyncio.AbstractEventLoop
    gone: asyncio.Future[None]

    def predict(self, queries: Sequence[str], settings: DecodeSettings) -> list[DecodeResult]:
        size = min(CHECK_BATCH, self.service.limits.queries)
        parts = [queries[start : start + size] for start in range(0, len(queries), size)]
        answers = (asyncio.run_coroutine_threadsafe(self._decode(part, settings), self.loop) for part in parts)
        return [result for answer in answers for result in answer.result()]

    async def _decode(self, queries: Sequence[str], settings: DecodeSettings) -> list[DecodeResult]:
        name, engine = self.service.engine(None, self.task)
        jobs = await self.service.submit(name, engine, queries, settings, self.deadline)
        results = await self.service.results(jobs, self.deadline, self.gone)
        if not self.deadline.left:  # a check that was not finished is no verdict
            raise RefusedError(504, "timeout", self.deadline.message)
        return results


def add_review_route(router: APIRouter, service: Service, problems: dict[int | str, dict[str, Any]]) -> None:
    """Add the route to a router."""

    @router.post("/v1/review", response_model=ReviewAnswer, responses=problems, tags=["predict"])
    async def review(question: ReviewQuestion, request: Request) -> Response:
        """Predict and review: strategies with problems, forward check, reagents, precedents and stock.

        Precursors are checked with the forward model and the model of reagents, if the service has them.
        """
        name, engine = service.engine(question.model, question.task)
        settings = service.settings(question, engine)
        if TASKS[engine.task].whole:
            message = f"there is no review of {engine.task}; choose a model of products or precursors"
            raise RefusedError(400, "wrong_task", message)
        deadline = service.deadline(question.timeout)
        queries = [question.queries] if isinstance(question.queries, str) else question.queries
        jobs = await service.submit(name, engine, queries, settings, deadline)
        with watch_disconnect(request.receive) as gone:
            results = await service.results(jobs, deadline, gone)
            loop, tasks = asyncio.get_running_loop(), {other.task for other in service.devices[0].values()}
            models = {task: _QueuedModel(service, task, deadline, loop, gone) for task in COMPANIONS if task in tasks}
            reviews = await asyncio.to_thread(_review, engine.task, models, results)
        request.state.log_fields.update(model=name, queries=len(queries))
        documents = [
            result_document(result) | {"review": review_document(review)}
            for result, review in zip(results, reviews, strict=True)
        ]
        document: dict[str, Any] = {"model": name, "task": engine.task, "digest": engine.digest}
        document |= {"settings": msgspec.to_builtins(settings), "results": documents}
        return Response(msgspec.json.encode(document), media_type="application/json")


def _review(task: Task, models: dict[Task, _QueuedModel], results: Sequence[DecodeResult]) -> list[Review]:
    return Reviewer(task, models, _built_in_stock(), precedents.installed()).review(results)


@cache
def _built_in_stock() -> Stock:
    return load_stock(BUILT_IN)
