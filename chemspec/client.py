"""HTTP client of a chemspec service; of other packages it needs urllib3 alone.

    from chemspec.client import Client

    client = Client("http://localhost:8000")
    for result in client.predict(["CC(=O)Nc1ccc(O)cc1", "CCO"], task="retro", n=5):
        print(result.query, [answer.smiles for answer in result.answers], result.message)

Queries are sent in batches; requests are retried while the service is busy or unreachable. In asyncio:

    async with AsyncClient("http://localhost:8000") as client:
        result = await client.predict("CCO", task="retro")
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Self, TypedDict, Unpack, cast, overload
from urllib.parse import urlsplit

from urllib3 import PoolManager
from urllib3.exceptions import HTTPError, NewConnectionError, ProtocolError

PART = 64  # queries per request, at most
RETRIED = (429, 502, 503)  # retried; requests are idempotent
NO_CODE = 500  # retried without a code, because then it comes from a proxy whose replica died
LOST = (NewConnectionError, ProtocolError)
THREADS = 64  # connections that are kept open


UNREAD = "ask for this one in another request"  # remedy for queries beyond what a request may take to read


class ServiceError(Exception):
    """The service rejected a request or is unreachable.

    Attributes:
        status: HTTP status; 0 without a response.
        code: machine-readable code: "queue_full", "unknown_model", ...
        after: seconds after which to retry, from the response.
    """

    def __init__(self, message: str, status: int = 0, code: str = "", after: float = 0.0) -> None:
        super().__init__(message)
        self.status, self.code, self.after = status, code, after


@dataclass(frozen=True)
class Answer:
    """One prediction; `canonical` is empty for invalid SMILES, `probability` the model's unless `calibrated`."""

    smiles: str
    canonical: str
    valid: bool
    log_prob: float
    probability: float
    calibrated: bool = False
    model_probability: float = 0.0


@dataclass(frozen=True)
class Result:
    """Result of one query: predictions, best first, or a status other than "ok" and a message.

    `within` is there only after a deadline: `seconds`, `width` (of the beam), `abandoned` and `passes`.
    """

    query: str
    status: str
    message: str
    answers: tuple[Answer, ...] = ()
    passes: int = 0
    tokens: int = 0
    seconds: float = 0.0
    within: dict[str, Any] | None = None

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> Result:
        """Parse a result of the service; unknown fields are ignored."""
        answers = tuple(_known_fields(Answer, hypothesis) for hypothesis in document.get("hypotheses", ()))
        return cast(Result, _known_fields(cls, {**document, "answers": answers}))


@dataclass(frozen=True)
class Reviewed:
    """Reviewed predictions for a query.

    Attributes:
        result: the predictions.
        smiles: the query as SMILES.
        warning: a warning if all predictions are doubtful; empty otherwise.
        suggestions: strategies, the likeliest first, as JSON documents with `smiles`, `class`, `probability`,
            `forward` (the forward check), `problems`, `notes`, `geometry`, `reagents`, `precedents`, `stock` and
            `alternatives`.
        recorded: the rank of the first suggestion that a patent records for this very query; None without one.
        selectivity: atoms of a reactant that get the new bond in different products, with `reactant`, `sites` and
            `calibrated`; empty without a choice.
    """

    result: Result
    smiles: str
    warning: str
    suggestions: list[dict[str, Any]]
    recorded: int | None = None
    selectivity: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> Reviewed:
        """Parse a reviewed result of the service; unknown fields are ignored."""
        return cast(Reviewed, _known_fields(cls, {**document["review"], "result": Result.from_document(document)}))


class RequestOptions(TypedDict, total=False):
    """Fields of a request, see `Client.predict`."""

    task: str
    model: str
    exact: bool
    timeout: float
    within: float
    stock: list[str]
    n: int
    decoder: str
    drafter: str
    draft_length: int
    draft_count: int
    draft_nodes: int
    dilation: int
    max_len: int
    node_budget: int
    drafting: str
    length_penalty: float
    rules: str
    beta: int
    tau: float
    temperature: float
    top_p: float
    seed: int
    augment: int
    distinct: bool
    guide: str
    prefix: str


class Client:
    """Client of a service; thread-safe."""

    def __init__(self, url: str = "", *, key: str = "", timeout: float = 120.0, retry_seconds: float = 60.0) -> None:
        """Create a client; nothing is sent yet.

        Args:
            url: such as "http://localhost:8000"; by default CHEMSPEC_SERVER.
            key: API key; by default CHEMSPEC_API_KEY.
            timeout: seconds without data after which a request fails.
            retry_seconds: seconds for which requests to a busy, starting or unreachable service are retried.

        Raises:
            ValueError: if the URL is invalid.
        """
        self.url = (url or os.environ.get("CHEMSPEC_SERVER", "")).rstrip("/")
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(
                f"{self.url!r} is no address of a service; give url or CHEMSPEC_SERVER as http://HOST:PORT"
            )
        key = (key or os.environ.get("CHEMSPEC_API_KEY", "")).strip()  # a file's last line ends with a newline
        headers = {"Content-Type": "application/json"} | ({"X-API-Key": key} if key else {})
        self._pool = PoolManager(maxsize=THREADS, headers=headers, timeout=timeout, retries=False)
        self._retry_seconds, self._part = retry_seconds, PART

    @overload
    def predict(self, queries: str, **options: Unpack[RequestOptions]) -> Result: ...  # type: ignore[overload-overlap]

    @overload
    def predict(self, queries: Sequence[str], **options: Unpack[RequestOptions]) -> list[Result]: ...

    def predict(self, queries: str | Sequence[str], **options: Unpack[RequestOptions]) -> Result | list[Result]:
        """Predict; an invalid query gets a status and a message and does not affect the others.

        Args:
            queries: SMILES, one or several; many are sent in several requests.
            options: `task`, "forward" (products), "retro" (precursors) or "reagents"; `model`, a name, if the service
                has several for a task; `n`, the number of predictions, and other fields of `chemspec.DecodeSettings`
                but `batch_size` and `record`; `exact`; `timeout` in seconds; `within`: seconds for each query, in which
                the widest exact beam up to `n` is searched; of a review `stock`, names of stock lists.

        Returns:
            One result for a string, a list in the order of the queries for a sequence.

        Raises:
            ServiceError: if the service rejects the request or is unreachable.
        """
        results: Result | list[Result] = self._results("/v1/predict", queries, Result.from_document, {**options})
        return results

    @overload
    def review(self, queries: str, **options: Unpack[RequestOptions]) -> Reviewed: ...  # type: ignore[overload-overlap]

    @overload
    def review(self, queries: Sequence[str], **options: Unpack[RequestOptions]) -> list[Reviewed]: ...

    def review(self, queries: str | Sequence[str], **options: Unpack[RequestOptions]) -> Reviewed | list[Reviewed]:
        """Predict like `predict`, and review: strategies with problems, forward check, reagents, precedents, stock."""
        results: Reviewed | list[Reviewed] = self._results("/v1/review", queries, Reviewed.from_document, {**options})
        return results

    def _results(
        self, path: str, queries: str | Sequence[str], parse: Callable[[dict[str, Any]], Any], options: dict[str, Any]
    ) -> Any:
        if isinstance(queries, str):
            return self._results(path, [queries], parse, options)[0]
        given = {name: value for name, value in options.items() if value != ""}
        results: list[Any] = []
        while len(results) < len(queries):
            # The queries of a request share its deadline, so each has a request of its own.
            size = self._part if options.get("within") is None else 1
            part = list(queries[len(results) : len(results) + size])
            try:
                document = self.request("POST", path, {"queries": part, **given})
            except ServiceError as error:
                if error.code != "too_many_queries" or len(part) == 1:
                    raise
                self._part = len(part) // 2  # the service takes fewer at once
            else:
                read = self._objects_in(document, "results", len(part))
                unread = (at for at, result in enumerate(read) if at and UNREAD in str(result.get("message")))
                results += map(parse, read[: next(unread, None)])  # the rest goes into the next request
        return results

    def models(self) -> list[dict[str, Any]]:
        """Return the available models: name, task, digest, drafters, ..."""
        return self._objects_in(self.request("GET", "/v1/models"), "models")

    def request(self, method: str, path: str, body: Any = None) -> Any:
        """Send `body` as JSON and return the JSON response; retries while the service is busy or unreachable.

        Raises:
            ServiceError: if the service rejects it, or retrying takes longer than `retry_seconds`.
        """
        encoded = None if body is None else json.dumps(body).encode()
        ends, pause = time.monotonic() + self._retry_seconds, 0.05
        while True:
            try:
                response = self._pool.request(method, self.url + path, body=encoded)  # also urllib3 1.26
                if response.status < 300:
                    return json.loads(response.data)
                failure = _service_error(response)
                if failure.status not in RETRIED and (failure.status != NO_CODE or failure.code):
                    raise failure
            except LOST as error:
                failure = ServiceError(f"{self.url} cannot be reached: {error!r}")
            except HTTPError as error:  # probably a timeout: retrying would only add load
                raise ServiceError(f"{self.url}: {error}") from error
            except ValueError as error:
                raise ServiceError(f"{self.url} is no chemspec service: its response is not JSON") from error
            if time.monotonic() >= ends:
                raise failure
            time.sleep(max(0.0, min(failure.after or pause, ends - time.monotonic())))
            pause = min(2.0, 2 * pause)

    def _objects_in(self, document: Any, name: str, count: int | None = None) -> list[dict[str, Any]]:
        """Return the list of JSON objects, `count` if given, of this name; ServiceError if the response has none."""
        listed = document.get(name) if isinstance(document, dict) else None
        objects = isinstance(listed, list) and all(isinstance(item, dict) for item in listed)
        if not isinstance(listed, list) or not objects or count not in (None, len(listed)):
            raise ServiceError(f"{self.url} is no chemspec service, or a faulty one: its response lacks {name}")
        return listed


class AsyncClient:
    """`Client` for asyncio: awaited calls with the same arguments, results and errors, up to 64 at a time.

    A cancelled call ends at once; its request runs to its end in a thread, and its response is dropped.
    """

    def __init__(self, url: str = "", *, key: str = "", timeout: float = 120.0, retry_seconds: float = 60.0) -> None:
        """Create a client; see `Client`."""
        self.client = Client(url, key=key, timeout=timeout, retry_seconds=retry_seconds)
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="chemspec-client")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Refuse further calls; those that have not been sent are cancelled."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _run(self, call: Callable[[], Any]) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)

    @overload
    async def predict(self, queries: str, **options: Unpack[RequestOptions]) -> Result: ...  # type: ignore[overload-overlap]

    @overload
    async def predict(self, queries: Sequence[str], **options: Unpack[RequestOptions]) -> list[Result]: ...

    async def predict(self, queries: str | Sequence[str], **options: Unpack[RequestOptions]) -> Result | list[Result]:
        """Predict; see `Client.predict`."""
        results: Result | list[Result] = await self._run(partial(self.client.predict, queries, **options))
        return results

    @overload
    async def review(self, queries: str, **options: Unpack[RequestOptions]) -> Reviewed: ...  # type: ignore[overload-overlap]

    @overload
    async def review(self, queries: Sequence[str], **options: Unpack[RequestOptions]) -> list[Reviewed]: ...

    async def review(
        self, queries: str | Sequence[str], **options: Unpack[RequestOptions]
    ) -> Reviewed | list[Reviewed]:
        """Predict and review; see `Client.review`."""
        results: Reviewed | list[Reviewed] = await self._run(partial(self.client.review, queries, **options))
        return results

    async def models(self) -> list[dict[str, Any]]:
        """Return the available models; see `Client.models`."""
        models: list[dict[str, Any]] = await self._run(self.client.models)
        return models

    async def request(self, method: str, path: str, body: Any = None) -> Any:
        """Send `body` as JSON and return the JSON response; see `Client.request`."""
        return await self._run(partial(self.client.request, method, path, body))


def _service_error(response: Any) -> ServiceError:
    try:
        document = json.loads(response.data)
        message, code = str(document["detail"]), str(document.get("code", ""))
    except (ValueError, KeyError, TypeError, AttributeError):  # sent by a proxy
        moved = response.headers.get("Location", "")  # such as from http to https
        message, code = f"HTTP status {response.status}{f', moved to {moved}' if moved else ''}", ""
    after = response.headers.get("Retry-After", "")
    return ServiceError(message, response.status, code, float(after) if after.isdigit() else 0.0)


def _known_fields(kind: Any, values: dict[str, Any]) -> Any:
    return kind(**{name: values[name] for name in kind.__dataclass_fields__ if name in values})


__all__ = ["Answer", "AsyncClient", "Client", "Result", "Reviewed", "ServiceError"]
