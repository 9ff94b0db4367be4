"""Routes of the HTTP service: each parses a request, calls the service and formats the response."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from functools import cache
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, FastAPI, Path, Request
from fastapi.exception_handlers import http_exception_handler
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from prometheus_client import generate_latest
from starlette.exceptions import HTTPException
from starlette.routing import Match

from chemspec import precedents
from chemspec.engine.engine import Engine
from chemspec.evaluation.loading import COMPANIONS
from chemspec.io.writers import result_document
from chemspec.review import Review, Reviewer, review_document
from chemspec.service import schema
from chemspec.service.docs_page import DOCS_HEADERS, render_docs
from chemspec.service.guard import Guard, error_response, problem_response
from chemspec.service.limits import RefusedError
from chemspec.service.plan_routes import add_plan_routes
from chemspec.service.questions import add_text_routes
from chemspec.service.queued_model import QueuedModel
from chemspec.service.scheduler import Search
from chemspec.service.service import CLIENT, Service, client_gone_error, model_drafters, watch_disconnect
from chemspec.service.stock_lists import add_stock_route, check_lists, load_lists
from chemspec.tasks import TASKS
from chemspec.types import DecodeResult
from chemspec.version import __version__

# Ways to send a key, as OpenAPI describes them.
KEYS: dict[str, dict[str, str]] = {
    "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
    "bearer": {"type": "http", "scheme": "bearer"},
}
ASKCOS_PREDICTIONS = 10  # number of predictions, for which the protocol of the ASKCOS v2 gateway has no field
UNROUTED = {404: "no_route", 405: "method"}  # codes of errors of a path or method that there is not
REVIEW_PART = 16  # results that are reviewed at once; a review that is late ends behind a part


def create_app(service: Service) -> FastAPI:
    """Return the ASGI application of a service."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        service.start()
        yield
        await service.stop()

    app = FastAPI(
        title="chemspec",
        version=__version__,
        description="Reaction prediction and retrosynthesis with SMILES transformers and speculative decoding.",
        lifespan=lifespan,
        openapi_url=None,  # FastAPI would write it for every request; see `_add_specification`
        generate_unique_id_function=lambda route: route.name,  # the names of methods in generated clients
        docs_url=None,  # its page loads scripts from another host
        redoc_url=None,
    )
    app.add_middleware(Guard, service=service)  # type: ignore[arg-type]  # a plain ASGI application
    router = APIRouter()
    _add_error_handlers(app, service, router)
    _add_routes(router, service)
    _add_review_route(router, service)
    add_text_routes(router, service)
    add_stock_route(router)
    add_plan_routes(router, service)
    _add_askcos_route(router, service)
    app.include_router(router)
    _add_probes(app, service)
    keyed = {getattr(route, "path", "") for route in router.routes}
    _add_specification(app, keyed, needs_key=bool(service.limits.api_keys))
    return app


def _add_specification(app: FastAPI, keyed: Collection[str], *, needs_key: bool) -> None:
    @cache
    def document() -> dict[str, Any]:
        written = app.openapi()
        written["components"]["securitySchemes"] = KEYS
        allowed: list[dict[str, list[str]]] = [{name: []} for name in KEYS]
        if not needs_key:
            allowed.append({})  # or none of them
        for operation in (each for path in keyed for each in written["paths"].get(path, {}).values()):
            operation["security"] = allowed  # `Guard` checks them; a dependency of FastAPI would for every request, too
        return written

    encoded, page = cache(lambda: msgspec.json.encode(document())), cache(lambda: render_docs(document()))

    @app.get("/openapi.json", include_in_schema=False)
    async def specification() -> Response:
        return Response(encoded(), media_type="application/json")

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return Response(page(), media_type="text/html", headers=DOCS_HEADERS)


def _add_routes(router: APIRouter, service: Service) -> None:
    @router.get("/v1/models", response_model=schema.Models, responses={401: schema.PROBLEMS[401]}, tags=["models"])
    async def models() -> Any:
        """List models and limits."""
        limits = service.limits
        names = ("queries", "answers", "body", "timeout", "plan_timeout", "queue", "batch_size")
        limit_values = {name: getattr(limits, name) for name in names}
        return {
            "models": [_model_info(name, engine) for name, engine in sorted(service.engines.items())],
            "version": __version__,
            "limits": limit_values,
        }

    @router.post("/v1/predict", response_model=schema.Prediction, responses=schema.PROBLEMS, tags=["predict"])
    async def predict(question: schema.PredictQuestion, request: Request) -> Response:
        """Predict one or several queries; a failed one gets a status and a message without affecting others."""
        search = service.search(question, question.within)
        with watch_disconnect(request.receive) as gone:
            results = await _predict(service, search, question.queries, request, gone)
        return _describe_results(search, list(map(result_document, results)))


async def _predict(
    service: Service, search: Search, queries: str | Sequence[str], request: Request, gone: asyncio.Future[None]
) -> list[DecodeResult]:
    """Return the results of a request, whose log line gets their number; `gone`: the client has disconnected."""
    jobs = await service.submit(search, [queries] if isinstance(queries, str) else queries, gone)
    results = await service.results(jobs, gone)
    statuses: Counter[str] = Counter(result.status for result in results)
    request.state.log_fields.update(model=search.model, queries=len(jobs), **statuses)
    return results


def _describe_results(search: Search, results: list[dict[str, Any]]) -> Response:
    facts = {"model": search.model, "task": search.engine.task, "digest": search.engine.full_digest}
    document = {**facts, "settings": search.settings, "results": results}
    return Response(msgspec.json.encode(document), media_type="application/json")


def _add_review_route(router: APIRouter, service: Service) -> None:
    @router.post("/v1/review", response_model=schema.ReviewAnswer, responses=schema.PROBLEMS, tags=["predict"])
    async def review(question: schema.ReviewQuestion, request: Request) -> Response:
        """Predict and review: strategies with problems, forward check, reagents, precedents and stock.

        Precursors are checked with the forward model and the model of reagents, if the service has them.
        """
        search = service.search(question)
        task = search.engine.task
        if TASKS[task].whole:
            message = f"there is no review of {task}; choose a model of products or precursors"
            raise RefusedError(400, "wrong_task", message)
        lists = check_lists(question.stock)
        with service.reviewers.admit(CLIENT.get()), watch_disconnect(request.receive) as gone:
            results = await _predict(service, search, question.queries, request, gone)
            reviews = await _review(service, search, results, lists, gone)
        documents = [
            result_document(result) | {"review": review_document(review)}
            for result, review in zip(results, reviews, strict=True)
        ]
        return _describe_results(search, documents)


async def _review(
    service: Service, search: Search, results: Sequence[DecodeResult], names: Sequence[str], gone: asyncio.Future[None]
) -> list[Review]:
    """Review the results of a request in a thread; RefusedError if the client leaves, or at the deadline."""
    loop, present = asyncio.get_running_loop(), {engine.task for engine in service.engines.values()}
    companions = [task for task in COMPANIONS if task in present]
    models = {task: QueuedModel(service, task, search.deadline, loop, gone) for task in companions}

    def review_all() -> list[Review]:
        reviewer = Reviewer(search.engine.task, models, load_lists(names), precedents.installed())
        reviews: list[Review] = []
        while len(reviews) < len(results) and search.deadline.left and not gone.done():
            reviews += reviewer.review(results[len(reviews) : len(reviews) + REVIEW_PART])
        return reviews

    with suppress(TimeoutError):
        reviews = await service.reviewers.run(CLIENT.get(), review_all, search.deadline, gone)
        if len(reviews) == len(results):
            return reviews
    if gone.done():
        raise client_gone_error()
    raise RefusedError(504, "timeout", search.deadline.message)


def _add_askcos_route(router: APIRouter, service: Service) -> None:
    @router.post(
        "/predictions/{model}",
        response_model=list[schema.PredictionsAnswer],
        responses=schema.PROBLEMS,
        tags=["ASKCOS v2"],
    )
    async def predictions(
        model: Annotated[str, Path(max_length=200)], question: schema.PredictionsQuestion, request: Request
    ) -> list[dict[str, Any]]:
        """Return distinct valid predictions for every SMILES, in order; none for an invalid one."""
        n = min(ASKCOS_PREDICTIONS, service.limits.answers)
        search = service.search(schema.DecodeOptions.model_validate({"model": model, "n": n, "distinct": True}))
        if not question.smiles:
            return []
        with watch_disconnect(request.receive) as gone:
            results = await _predict(service, search, question.smiles, request, gone)
        return [
            {
                "products": [hypothesis.canonical for hypothesis in result.hypotheses],
                "scores": [hypothesis.model_probability for hypothesis in result.hypotheses],
            }
            for result in results
        ]


def _add_probes(app: FastAPI, service: Service) -> None:
    unready: dict[int | str, dict[str, Any]] = {503: {"model": schema.Problem}}

    @app.get("/healthz", response_model=dict[str, str], responses=unready, tags=["probes"])
    async def healthz() -> Any:
        """Liveness probe: whether a request would be answered, tried in every pool of threads; if not, restart it."""
        if error := await service.check_health():
            raise RefusedError(503, "broken", f"{error}; start the service again")
        return {"status": "ok"}

    @app.get("/readyz", response_model=dict[str, str], responses=unready, tags=["probes"])
    async def readyz() -> Any:
        """Readiness probe: whether requests are accepted."""
        if reason := await service.not_ready_reason():
            raise RefusedError(503, "not_ready", reason)
        return {"status": "ready"}

    @app.get("/metrics", response_class=Response, tags=["probes"], responses={200: {"content": {"text/plain": {}}}})
    async def metrics() -> Response:
        """Return Prometheus metrics."""
        return Response(generate_latest(service.metrics.registry), media_type="text/plain; version=0.0.4")


def _model_info(name: str, engine: Engine) -> dict[str, Any]:
    return {
        "name": name,
        "task": engine.task,
        "digest": engine.full_digest,
        "dtype": engine.dtype,
        "runtime": engine.runtime,
        "devices": [engine.device],
        "exactness": engine.runtime_config.exactness,
        "longest_query": engine.longest_query,
        "drafters": model_drafters(engine.folder),
    }


def _add_error_handlers(app: FastAPI, service: Service, router: APIRouter) -> None:
    def problem(error: RefusedError) -> JSONResponse:
        if error.status in (413, 429, 503, 504):
            service.metrics.refused.labels(error.code).inc()
        return problem_response(error)

    @app.exception_handler(RefusedError)
    async def refused(_: Request, error: RefusedError) -> Response:
        return problem(error)

    @app.exception_handler(HTTPException)
    async def unreadable(request: Request, error: HTTPException) -> Response:
        """Give errors of FastAPI a code, but outside of /v1, where a gateway of ASKCOS knows the bodies."""
        if error.status_code in UNROUTED and request.url.path.startswith("/v1"):
            message = f"{error.detail}: see /docs for the routes and their methods"
            response = error_response(error.status_code, UNROUTED[error.status_code], message)
            response.headers.update(error.headers or {})
            if error.status_code == 405:  # Starlette names the methods of the first route of a path only
                matching = (route for route in router.routes if route.matches(request.scope)[0] is not Match.NONE)
                methods = {method for route in matching for method in getattr(route, "methods", ())}
                response.headers["Allow"] = ", ".join(sorted(methods))
            return response
        if error.status_code != 400:
            return await http_exception_handler(request, error)
        return problem(
            RefusedError(400, "malformed", f"{error.detail}: too many nested brackets, or digits of a number")
        )

    @app.exception_handler(RequestValidationError)
    async def malformed(request: Request, error: RequestValidationError) -> Response:
        """Name the invalid field without its content."""
        first = max(error.errors(), key=lambda item: len(item["loc"]))  # the best match of several alternatives
        if first["type"] == "json_invalid":
            return problem(RefusedError(422, "malformed", "the body is not valid JSON"))
        if first["loc"] == ("body",) and "json" not in request.headers.get("content-type", ""):
            message = "send JSON, with the header Content-Type: application/json"
            return problem(RefusedError(422, "malformed", message))
        parts = [str(part) for part in first["loc"] if "constrained-" not in str(part)]
        where = ".".join(parts).encode("utf-8", "backslashreplace").decode()
        return problem(RefusedError(422, "malformed", f"{where[:200]}: {first['msg']}"[:500]))
