"""Backend protocol of the ASKCOS v2 gateway: POST /predictions/{model}."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Request

from chemspec.service.leaving import watch_disconnect
from chemspec.service.schema import DecodeOptions, PredictionsAnswer, PredictionsQuestion
from chemspec.service.service import Service
from chemspec.types import DecodeResult

MAX_PREDICTIONS = 10  # number of predictions, for which the protocol has no field


def add_askcos_route(router: APIRouter, service: Service, problems: dict[int | str, dict[str, Any]]) -> None:
    """Add the route to a router."""

    @router.post("/predictions/{model}", response_model=list[PredictionsAnswer], responses=problems, tags=["ASKCOS v2"])
    async def predictions(
        model: Annotated[str, Path(max_length=200)], question: PredictionsQuestion, request: Request
    ) -> list[dict[str, Any]]:
        """Return distinct valid predictions for every SMILES, in order; none for an invalid one."""
        name, engine = service.engine(model, None)
        options = DecodeOptions.model_validate({"n": min(MAX_PREDICTIONS, service.limits.answers), "distinct": True})
        settings = service.settings(options, engine)
        if not question.smiles:
            return []
        deadline = service.deadline()
        jobs = await service.submit(name, engine, question.smiles, settings, deadline)
        with watch_disconnect(request.receive) as gone:
            results = await service.results(jobs, deadline, gone)
        request.state.log_fields.update(model=name, queries=len(results))
        return [_to_askcos(result) for result in results]


def _to_askcos(result: DecodeResult) -> dict[str, Any]:
    hypotheses = result.hypotheses
    return {
        "products": [hypothesis.canonical for hypothesis in hypotheses],
        "scores": [hypothesis.probability for hypothesis in hypotheses],
    }
