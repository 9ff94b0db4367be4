"""Answer the unmodified rxn4chemistry client: questions get a number, and the answer is fetched by it.

A number is given out only when the question is on the disk; one that a crash left unanswered is answered after the next
start. Retrosynthesis is one step: each answer is a tree of the product and its reactants.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path as FilePath
from typing import Annotated, Any, Literal

from fastapi import FastAPI, Path, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from chemspec import chem
from chemspec.service.dropins.tasks import Journal, JournalError
from chemspec.service.guard import LOG
from chemspec.service.scheduler import STOPPED, Job, QueueFullError, StoppingError
from chemspec.service.schema import How, Problem, Text
from chemspec.service.service import RefusedError, Service
from chemspec.settings import Task
from chemspec.types import DecodeResult

ROOT = "/rxn/api/api/v1"
PATIENCE = 10.0  # seconds for which fetching waits for an answer that is not there yet
ALTERNATIVES = 5
PAUSE = 0.2  # seconds between two attempts to queue what an earlier process accepted
RETRY = 1.0  # seconds between two attempts to write an answer
LAST_WAIT = 5.0  # seconds that a stop waits for answers to be written
Kind = Literal["one", "batch", "topn", "retro"]


class _Lenient(BaseModel):
    """What the client sends; the fields that mean nothing here (projects, names of IBM's models) are ignored."""

    model_config = ConfigDict(extra="ignore")


class Project(_Lenient):
    """A project; there are none here, every number will do."""

    name: str = ""


class Reactants(_Lenient):
    """One forward question."""

    reactants: Text


class ReactantsBatch(_Lenient):
    """Many forward questions."""

    reactants: list[Text] = Field(min_length=1)


class TopN(_Lenient):
    """Many forward questions with several answers each."""

    precursors_lists: list[list[Text]] = Field(min_length=1)
    topn: int = Field(ge=1, le=1000)


class Parameters(_Lenient):
    """Of a retrosynthesis, those that are heeded."""

    nbeams: int = Field(10, ge=1, le=1000)


class Retro(_Lenient):
    """One retro question."""

    product: Text
    parameters: Parameters = Field(default_factory=lambda: Parameters.model_validate({}))


class Payload(BaseModel):
    """Every answer of this protocol is a payload."""

    payload: dict[str, Any]


Number = Annotated[str, Path(pattern="^[0-9a-f]{32}$")]


class Tasks:
    """Questions with a number, on their way to an answer."""

    def __init__(self, journal: Journal | FilePath | None) -> None:
        """Open the journal, if it is not open; None for one in memory."""
        self._journal = journal if isinstance(journal, Journal) else Journal(journal)
        self._running: dict[str, asyncio.Task[None]] = {}
        self._unwritten: dict[str, Any] = {}  # answers that the journal has not taken yet, by number

    def resume(self, service: Service) -> None:
        """Go on with what an earlier process accepted and did not answer."""
        for number, question in self._journal.open():
            if number not in self._running:
                self._running[number] = asyncio.create_task(self._again(service, number, question))

    async def accept(self, service: Service, kind: Kind, task: Task, queries: Sequence[str], n: int) -> str:
        """Queue a question, keep it, and return its number.

        Raises:
            RefusedError: if it cannot be asked, none of its queries can be read, or it cannot be kept.
        """
        question = {"kind": kind, "task": task, "queries": list(queries), "n": n}
        jobs = await _submit(service, question)
        refusals = [job.ready.refusal for job in jobs if job.ready.refusal is not None]
        if len(refusals) == len(jobs):  # they wait for nothing, so no queue would limit how many are kept
            raise RefusedError(422, "invalid", refusals[0].message)
        try:
            number = await asyncio.to_thread(self._journal.add, question)
        except BaseException as error:
            service.abandon(jobs, "not kept")
            if isinstance(error, JournalError):
                raise RefusedError(503, "not_kept", str(error), after=60) from error
            raise
        self._running[number] = asyncio.create_task(self._finish(number, question, jobs))
        return number

    async def fetch(self, number: str, kinds: tuple[Kind, ...], patience: float) -> tuple[dict[str, Any], Any]:
        """Return a question and, where it comes in time, its answer.

        Raises:
            RefusedError: if there is no such number, or the journal cannot be read.
        """
        ends = time.monotonic() + patience
        row = await self._read(number)
        while row is not None and row[1] is None and (left := ends - time.monotonic()) > 0:
            if number in self._running:
                await asyncio.wait({self._running[number]}, timeout=min(left, PAUSE))
            else:
                await asyncio.sleep(PAUSE)  # another replica may answer it
            row = await self._read(number)
        if row is None or row[0]["kind"] not in kinds:
            raise RefusedError(404, "unknown_number", "there is no such number, or its answer has expired")
        return row

    async def _read(self, number: str) -> tuple[dict[str, Any], Any] | None:
        try:
            row = await asyncio.to_thread(self._journal.read, number)
        except JournalError as error:
            raise RefusedError(503, "not_kept", str(error), after=5) from error
        return row and (row[0], self._unwritten.get(number, row[1]))

    async def close(self) -> None:
        """Keep what is answered, and leave the rest to the next start."""
        if self._running:
            await asyncio.wait(self._running.values(), timeout=LAST_WAIT)
        for task in self._running.values():
            task.cancel()
        await asyncio.gather(*self._running.values(), return_exceptions=True)
        self._journal.close()

    async def _again(self, service: Service, number: str, question: dict[str, Any]) -> None:
        """Ask a question of an earlier process."""
        while True:
            try:
                jobs = await _submit(service, question)
                break
            except QueueFullError:
                await asyncio.sleep(PAUSE)
            except StoppingError:
                return
            except Exception as error:  # there may be other models now
                if getattr(error, "code", "") != "stopping":
                    await self._keep(number, _failure(error))
                return
        await self._finish(number, question, jobs)

    async def _finish(self, number: str, question: dict[str, Any], jobs: Sequence[Job]) -> None:
        """Wait for an answer and keep it."""
        try:
            results = [await job.result for job in jobs]
            if any(result.message == STOPPED for result in results):
                self._running.pop(number, None)
                return  # it is for the next start
            pairs = zip(question["queries"], results, strict=True)
            answer = {"results": [_brief(query, one) for query, one in pairs]}
        except Exception as error:
            answer = _failure(error)
        await self._keep(number, answer)

    async def _keep(self, number: str, answer: dict[str, Any]) -> None:
        """Write an answer, again and again where the disk is full; meanwhile clients get it from memory."""
        self._unwritten[number] = answer
        problem = ""
        while True:
            try:
                await asyncio.to_thread(self._journal.answer, number, answer)
                break
            except Exception as error:  # of the disk; where the journal is an actor's, of the cluster
                if problem != (problem := type(error).__name__):
                    LOG.error("an answer cannot be written", extra={"told": {"error": problem}})
                await asyncio.sleep(RETRY)
        self._unwritten.pop(number, None)
        self._running.pop(number, None)


def _failure(error: Exception) -> dict[str, Any]:
    """Return an unforeseen error as an answer; the message of one of ours may be told, that of others may not."""
    message = str(error) if isinstance(error, RefusedError) else f"the service failed over it ({type(error).__name__})"
    return {"error": message}


async def _submit(service: Service, question: dict[str, Any]) -> list[Job]:
    name, engine = service.engine(None, question["task"])
    settings = service.settings(How.model_validate({"n": question["n"]}), engine)
    return await service.submit(name, engine, question["queries"], settings)


def _brief(query: str, result: DecodeResult) -> dict[str, Any]:
    answers: dict[str, float] = {}
    for one in result.hypotheses:
        if one.valid:
            answers.setdefault(one.canonical, one.probability if one.confidence is None else one.confidence)
    return {
        "query": chem.canonical(query) or query,
        "status": result.status,
        "message": result.message,
        "answers": list(answers.items()),
    }


def add(app: FastAPI, service: Service, tasks: Tasks) -> None:
    """Add the routes to an application."""
    problems: dict[int | str, dict[str, Any]] = {
        status: {"model": Problem} for status in (400, 401, 404, 413, 422, 429, 503)
    }
    how: dict[str, Any] = {"response_model": Payload, "responses": problems, "tags": ["rxn4chemistry"]}

    most = min(ALTERNATIVES, service.limits.answers)

    def told(request: Request, queries: int) -> None:
        request.state.told.update(queries=queries)

    @app.post(f"{ROOT}/projects", status_code=201, **how)
    async def create_project(project: Project) -> Any:
        """Return the number of a project, which means nothing here."""
        return _payload(id="chemspec", name=project.name.encode("utf-8", "replace").decode())

    @app.get(f"{ROOT}/projects", **how)
    async def projects() -> Any:
        """List the one project that there is."""
        return _payload(content=[{"id": "chemspec", "name": "chemspec"}], totalElements=1)

    @app.get(f"{ROOT}/ai-models", **how)
    async def models() -> Any:
        """List the models under the names that the client groups them by."""
        found: dict[str, list[dict[str, str]]] = {"REACTION": [], "RETROSYNTHESIS": []}
        for name, engine in sorted(service.devices[0].items() if service.devices else ()):
            found["REACTION" if engine.task == "forward" else "RETROSYNTHESIS"].append({"name": name})
        return _payload(models=found)

    @app.post(f"{ROOT}/predictions/pr", **how)
    async def predict(question: Reactants, request: Request) -> Any:
        """Ask what forms."""
        number = await tasks.accept(service, "one", "forward", [question.reactants], most)
        told(request, 1)
        return _payload(id=number, status="NEW")

    @app.post(f"{ROOT}/predictions/pr/batch", **how)
    async def predict_batch(question: ReactantsBatch, request: Request) -> Any:
        """Ask what forms, many times."""
        number = await tasks.accept(service, "batch", "forward", question.reactants, 1)
        told(request, len(question.reactants))
        return _payload(task_id=number, task_status="WAITING")

    @app.post(f"{ROOT}/predictions/pr/batch_topn", **how)
    async def predict_topn(question: TopN, request: Request) -> Any:
        """Ask what forms, many times, for several answers each."""
        queries = [".".join(parts) for parts in question.precursors_lists]
        number = await tasks.accept(service, "topn", "forward", queries, question.topn)
        told(request, len(queries))
        return _payload(task_id=number, task_status="WAITING")

    @app.get(f"{ROOT}/predictions/pr/batch/{{number}}", **how)
    @app.get(f"{ROOT}/predictions/pr/batch_topn/{{number}}", **how)
    async def batch_results(number: Number, wait: Annotated[float, Query(ge=0, le=60)] = PATIENCE) -> Any:
        """Fetch the answers of a batch."""
        question, answer = await tasks.fetch(number, ("batch", "topn"), wait)
        task = {"task_id": number, "status": "WAITING" if answer is None else "DONE"}
        if answer is None:
            return _payload(task=task)
        if "error" in answer:
            return _payload(task={**task, "status": "ERROR"}, detail=answer["error"], title="not answered")
        several = question["kind"] == "topn"
        predictions = [_outcomes(one) if several else _first(one) for one in answer["results"]]
        return _payload(task=task, result={"predictions": predictions})

    @app.get(f"{ROOT}/predictions/{{number}}", **how)
    async def results(number: Number, wait: Annotated[float, Query(ge=0, le=60)] = PATIENCE) -> Any:
        """Fetch the answers to one forward question."""
        _, answer = await tasks.fetch(number, ("one",), wait)
        return _payload(id=number, **_state(answer), attempts=_attempts(answer))

    @app.post(f"{ROOT}/retrosynthesis/rs", **how)
    async def retro(question: Retro, request: Request) -> Any:
        """Ask what from: one step."""
        n = min(question.parameters.nbeams, service.limits.answers)
        number = await tasks.accept(service, "retro", "retro", [question.product], n)
        told(request, 1)
        return _payload(id=number, status="NEW")

    @app.get(f"{ROOT}/retrosynthesis/{{number}}", **how)
    async def retro_results(number: Number, wait: Annotated[float, Query(ge=0, le=60)] = PATIENCE) -> Any:
        """Fetch the answers to one retro question."""
        _, answer = await tasks.fetch(number, ("retro",), wait)
        return _payload(id=number, **_state(answer), sequences=_sequences(number, answer))


def _payload(**values: Any) -> dict[str, Any]:
    return {"payload": values}


def _state(answer: Any) -> dict[str, str]:
    if answer is None:
        return {"status": "PROCESSING", "message": ""}
    if "error" in answer:
        return {"status": "ERROR", "message": answer["error"]}
    (one,) = answer["results"]
    return {"status": "SUCCESS" if one["status"] == "ok" else "ERROR", "message": one["message"]}


def _answers(answer: Any) -> tuple[str, list[tuple[str, float]]]:
    one = ((answer or {}).get("results") or [{"query": "", "answers": []}])[0]
    return one["query"], one["answers"]


def _attempts(answer: Any) -> list[dict[str, Any]]:
    query, found = _answers(answer)
    return [
        {"smiles": f"{query}>>{product}", "confidence": chance, "productMolecule": {"smiles": product}}
        for product, chance in found
    ]


def _first(one: dict[str, Any]) -> dict[str, Any]:
    product, chance = one["answers"][0] if one["answers"] else ("", 0.0)
    told = {"smiles": f"{one['query']}>>{product}", "confidence": chance}
    return told if one["status"] == "ok" else {**told, "error": one["message"]}


def _outcomes(one: dict[str, Any]) -> dict[str, Any]:
    found = [{"smiles": product.split("."), "confidence": chance} for product, chance in one["answers"]]
    return {"results": found} if one["status"] == "ok" else {"results": found, "error": one["message"]}


def _sequences(number: str, answer: Any) -> list[dict[str, Any]]:
    query, found = _answers(answer)
    # The client reads from a leaf's border colour whether it can be bought; this one says that nobody looked.
    return [
        {
            "id": f"{number}-{rank}",
            "confidence": chance,
            "tree": {
                "smiles": query,
                "confidence": chance,
                "children": [
                    {"smiles": part, "children": [], "metaData": {"borderColor": "#ce4e04"}}
                    for part in reactants.split(".")
                ],
            },
        }
        for rank, (reactants, chance) in enumerate(found)
    ]
