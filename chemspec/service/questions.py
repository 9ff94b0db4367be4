"""Routes for questions about texts: what a name or SMILES means, and whether a model expects a reaction."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec
from fastapi import APIRouter, Request
from fastapi.responses import Response

from chemspec.chem import Fault, formats
from chemspec.chem.molecules import parsing
from chemspec.review.reaction_check import CHECK_SETTINGS, judge_predictions, read_reaction
from chemspec.service import schema
from chemspec.service.limits import RefusedError
from chemspec.service.queued_model import QueuedModel
from chemspec.service.scheduler import Deadline
from chemspec.service.service import CLIENT, HARD_TEXTS, READ_SECONDS, UNREAD, Service, watch_disconnect
from chemspec.settings import Task


@dataclass(frozen=True)
class _Reading:
    """The texts of a request, of which a few are read in each turn of a client."""

    texts: Sequence[str]
    task: Task
    trials: parsing.Trials = field(default_factory=partial(parsing.Trials, HARD_TEXTS))
    read: list[dict[str, Any]] = field(default_factory=list)

    def read_some(self) -> bool:
        """Read the next text, and more while the turn's time lasts; returns whether some are left."""
        parsing.TRIALS.set(self.trials)
        turn = Deadline.after(READ_SECONDS)
        for text in self.texts[len(self.read) :]:
            self.read.append(self._document(text))
            if not turn.left:
                break
        return len(self.read) < len(self.texts)

    def _document(self, text: str) -> dict[str, Any]:
        try:
            result = formats.read_input(text, task=self.task)
        except parsing.TooManyTrialsError:
            result = Fault(UNREAD, 0, 0, "other")
        if isinstance(result, Fault):
            fault = {"message": result.message, "start": result.start, "end": result.end, "kind": result.kind}
            return {"text": text, "smiles": "", "notes": [], "fault": fault}
        return {"text": text, "smiles": result.smiles, "notes": list(result.notes), "fault": None}


def add_text_routes(router: APIRouter, service: Service) -> None:
    """Add the routes /v1/names and /v1/check."""

    @router.post("/v1/names", response_model=schema.Readings, responses=schema.PROBLEMS, tags=["texts"])
    async def names(question: schema.NamesQuestion, request: Request) -> Response:
        """Read names, formulas, SMILES and texts of other formats as SMILES; a faulty one gets a message and a span."""
        texts = [question.texts] if isinstance(question.texts, str) else question.texts
        service.check_number(texts, "texts")
        reading, deadline = _Reading(texts, question.task), service.deadline()
        with watch_disconnect(request.receive) as gone:
            try:
                await service.read_in_turns(len(texts), reading.read_some, deadline, gone)
            except TimeoutError:
                raise RefusedError(504, "timeout", deadline.message) from None
        request.state.log_fields.update(queries=len(texts))
        return Response(msgspec.json.encode({"results": reading.read}), media_type="application/json")

    @router.post("/v1/check", response_model=schema.Check, responses=schema.PROBLEMS, tags=["predict"])
    async def check(question: schema.CheckQuestion, request: Request) -> Response:
        """Return whether a model expects a reaction: the rank of the given side, and what it expects instead."""
        model, engine = service.engine(question.model, question.task)
        deadline = service.deadline(question.timeout)
        with service.reviewers.admit(CLIENT.get()), watch_disconnect(request.receive) as gone:
            queued = QueuedModel(service, engine.task, deadline, asyncio.get_running_loop(), gone, model)

            def judge() -> dict[str, Any]:
                parsing.TRIALS.set(parsing.Trials(HARD_TEXTS))
                read, expected = read_reaction(question.reaction, engine.task)
                result = queued.predict([read.smiles], CHECK_SETTINGS)[0]
                return judge_predictions(engine.task, read.ordered, expected, result).document()

            try:
                document = await service.reviewers.run(CLIENT.get(), judge, deadline, gone)
            except (ValueError, parsing.TooManyTrialsError) as error:
                raise RefusedError(422, "no_reaction", str(error) or UNREAD) from None
            except TimeoutError:
                raise RefusedError(504, "timeout", deadline.message) from None
        request.state.log_fields.update(model=model, queries=1)
        return Response(msgspec.json.encode({"model": model, **document}), media_type="application/json")
