"""Answer the gateway of ASKCOS v2 as one of its backends does: POST /predictions/{model}."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import FastAPI, Path, Request

from chemspec.service.leaving import watching
from chemspec.service.schema import How, PredictionsAnswer, PredictionsQuestion
from chemspec.service.service import Service
from chemspec.types import DecodeResult

ANSWERS = 10  # the protocol has no field for it


def add(app: FastAPI, service: Service, problems: dict[int | str, dict[str, Any]]) -> None:
    """Add the route to an application."""

    @app.post("/predictions/{model}", response_model=list[PredictionsAnswer], responses=problems, tags=["ASKCOS v2"])
    async def predictions(
        model: Annotated[str, Path(max_length=200)], question: PredictionsQuestion, request: Request
    ) -> list[dict[str, Any]]:
        """Return of every SMILES, in order, different valid answers; of one that it cannot read, none."""
        name, engine = service.engine(model, None)
        how = How.model_validate({"n": min(ANSWERS, service.limits.answers), "distinct": True})
        settings = service.settings(how, engine)
        if not question.smiles:
            return []
        jobs = await service.submit(name, engine, question.smiles, settings)
        with watching(request.receive) as gone:
            results = await service.results(jobs, service.limits.timeout, gone)
        request.state.told.update(model=name, queries=len(results))
        return [_answer(result) for result in results]


def _answer(result: DecodeResult) -> dict[str, Any]:
    """The answers with their probabilities, best first."""
    found = result.hypotheses
    return {"products": [one.canonical for one in found], "scores": [one.probability for one in found]}
