"""Ask a chemspec service from anywhere: the standard library alone, no package of ours or of others.

    from chemspec.client import Client

    client = Client("http://localhost:8000")
    for result in client.predict(["CC(=O)Nc1ccc(O)cc1", "CCO"], task="retro", n=5):
        print(result.query, [answer.smiles for answer in result.answers], result.message)

Questions are sent in parts, and again where the service is busy or away for a moment.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, overload
from urllib.parse import urlsplit

Document = TypeVar("Document")

PART = 64  # queries of a request, where the service takes so many; more are asked in several
RETRIED = (429, 502, 503)  # asking again may help; a question can be asked twice without harm
NO_CODE = 500  # likewise where no code comes with it: not the service says so, but a proxy whose replica died
LOST = (http.client.HTTPException, ConnectionError)


class ServiceError(Exception):
    """The service refused a request, or cannot be reached.

    Attributes:
        status: of HTTP; 0 where there was no answer.
        code: for programs: "queue_full", "unknown_model", ...
        after: seconds after which to ask again, where the service says so.
    """

    def __init__(self, message: str, status: int = 0, code: str = "", after: float = 0.0) -> None:
        super().__init__(message)
        self.status, self.code, self.after = status, code, after


@dataclass(frozen=True)
class Answer:
    """One answer; `canonical` is empty where it is no valid SMILES, `confidence` None where it is not known."""

    smiles: str
    canonical: str
    valid: bool
    log_prob: float
    probability: float
    confidence: float | None = None


@dataclass(frozen=True)
class Result:
    """What became of one query: answers best first, or another status than "ok" and a message."""

    query: str
    status: str
    message: str
    answers: tuple[Answer, ...] = ()
    passes: int = 0
    tokens: int = 0
    seconds: float = 0.0

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> Result:
        """Read a result of the service; fields that this version does not know are left out."""
        answers = tuple(_known_fields(Answer, hypothesis) for hypothesis in document.get("hypotheses", ()))
        result: Result = _known_fields(cls, {**document, "answers": answers})
        return result


class Client:
    """A service; safe to share between threads, each of which keeps a connection of its own."""

    def __init__(self, url: str = "", *, key: str = "", timeout: float = 120.0, patience: float = 60.0) -> None:
        """Say where the service is; nothing is asked yet.

        Args:
            url: such as "http://localhost:8000"; by default CHEMSPEC_SERVER.
            key: where the service wants one; by default CHEMSPEC_API_KEY.
            timeout: seconds without a sign of life after which a request fails.
            patience: seconds for which a service that is full, starting or gone is asked again.

        Raises:
            ValueError: if there is no usable address.
        """
        self.url = (url or os.environ.get("CHEMSPEC_SERVER", "")).rstrip("/")
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{self.url!r} is no address of a service; give one as http://HOST:PORT")
        self._secure, self._host, self._port = parts.scheme == "https", parts.hostname, parts.port
        self._path = parts.path
        self._key = key or os.environ.get("CHEMSPEC_API_KEY", "")
        self._timeout, self._patience = timeout, patience
        self._local = threading.local()
        self._part = PART

    def __repr__(self) -> str:
        return f"<Client {self.url}>"

    @overload
    def predict(self, queries: str, *, task: str = ..., model: str = ..., n: int = ..., **settings: Any) -> Result: ...

    @overload
    def predict(
        self, queries: Sequence[str], *, task: str = ..., model: str = ..., n: int = ..., **settings: Any
    ) -> list[Result]: ...

    def predict(
        self, queries: str | Sequence[str], *, task: str = "", model: str = "", n: int = 5, **settings: Any
    ) -> Result | list[Result]:
        """Answer queries; a bad one gets a status and a message, and does not harm the others.

        Args:
            queries: SMILES, one or several; many are asked in several requests.
            task: "forward" (what forms?) or "retro" (what from?).
            model: its name, where the service has several for a task.
            n: answers wanted.
            settings: fields of `chemspec.DecodeSettings`, `exact`, and `timeout` in seconds.

        Returns:
            One result for a string, a list in the order of the queries for a sequence.

        Raises:
            ServiceError: if the service refuses the question or cannot be reached.
        """
        if isinstance(queries, str):
            return self.predict([queries], task=task, model=model, n=n, **settings)[0]
        options = _request_options(task, model, {"n": n, **settings})
        parts = self.in_parts(queries, lambda part: self.request("POST", "/v1/predict", {"queries": part, **options}))
        return [Result.from_document(document) for response in parts for document in response["results"]]

    def in_parts(self, queries: Sequence[str], ask: Callable[[list[str]], Document]) -> Iterator[Document]:
        """Yield what `ask` returns for each part of the queries; parts become smaller where the service takes fewer.

        Raises:
            ServiceError: what `ask` raises, but for a part that was too long.
        """
        start = 0
        while start < len(queries):
            part = list(queries[start : start + self._part])
            try:
                response = ask(part)
            except ServiceError as error:
                if error.code != "too_many_queries" or len(part) == 1:
                    raise
                self._part = len(part) // 2
            else:
                yield response
                start += len(part)

    def stream(
        self, query: str, *, task: str = "", model: str = "", **settings: Any
    ) -> Iterator[dict[str, Any] | Result]:
        """Answer one query; yields of every pass what it did and the text so far, and the result at the end.

        Args:
            query: SMILES.
            task: as for `predict`.
            model: as for `predict`.
            settings: as for `predict`.

        Raises:
            ServiceError: if the service refuses the question, cannot be reached, or leaves in between.
        """
        for name, data in self.events("/v1/stream", {"query": query, **_request_options(task, model, settings)}):
            if name == "pass":
                yield data
            elif name == "result":
                yield Result.from_document(data)
                return

    def models(self) -> list[dict[str, Any]]:
        """Return the models that answer: name, task, digest, drafters, ..."""
        listed: list[dict[str, Any]] = self.request("GET", "/v1/models")["models"]
        return listed

    def ready(self) -> bool:
        """Return whether the service answers questions now."""
        try:
            self._request_once("GET", "/readyz", None)
        except (ServiceError, *LOST, OSError):
            return False
        return True

    def close(self) -> None:
        """Close this thread's connection; the next request opens another."""
        self._local.kept = None

    def request(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request and return the document that comes back; while the service is full or gone, again.

        Args:
            method: of HTTP.
            path: from the service's address on.
            body: a value to send as JSON.

        Raises:
            ServiceError: if the service refuses it, or cannot be reached for as long as there is patience.
        """
        return self._with_retries(lambda: self._request_once(method, path, body))

    def _with_retries(self, ask: Callable[[], Document]) -> Document:
        """Ask until the service is neither full nor gone, or patience ends; see `request`."""
        ends = time.monotonic() + self._patience
        pause = 0.05
        while True:
            try:
                return ask()
            except ServiceError as error:
                retried = error.status in RETRIED or (error.status == NO_CODE and not error.code)
                if not retried or time.monotonic() >= ends:
                    raise
                wait = error.after or pause
            except LOST as error:
                if time.monotonic() >= ends:
                    raise ServiceError(f"{self.url} cannot be reached: {error!r}") from error
                wait = pause
            except OSError as error:  # timed out, most likely: to ask again would only add to the load
                self.close()
                raise ServiceError(f"{self.url}: {error}") from error
            time.sleep(max(0.0, min(wait, ends - time.monotonic())))
            pause = min(2.0, 2 * pause)

    def events(self, path: str, body: Any) -> Iterator[tuple[str, Any]]:
        """Send a request, as `request` does, and yield the server-sent events of its answer, as names and documents.

        Args:
            path: from the service's address on.
            body: a value to send as JSON.

        Raises:
            ServiceError: if the service refuses it, or an event says that it failed.
        """
        connection, response = self._with_retries(lambda: self._open_event_stream(path, body))
        try:
            name = ""
            for raw in response:
                line = raw.decode().rstrip("\n")
                if line.startswith("event: "):
                    name = line[7:]
                elif line.startswith("data: "):
                    data = json.loads(line[6:])
                    if name == "error":
                        raise ServiceError(data["detail"], 200, data["code"])
                    yield name, data
        except (*LOST, OSError) as error:
            raise ServiceError(f"{self.url}: {error!r}") from error
        finally:
            connection.close()

    def _open_event_stream(self, path: str, body: Any) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        connection = self._open_connection()  # one of its own: whoever stops reading in between closes it
        try:
            response = self._send_request(connection, "POST", path, body)
            if response.status != 200:
                raise _service_error(response.status, response.read(), response.headers)
        except BaseException:
            connection.close()
            raise
        return connection, response

    def _request_once(self, method: str, path: str, body: Any) -> Any:
        previous: _OpenConnection | None = getattr(self._local, "kept", None)
        connection = self._local.kept = previous or _OpenConnection(self._open_connection())
        try:
            response = self._send_request(connection.opened, method, path, body)
            text = response.read()
        except LOST:
            self.close()
            if previous is None:
                raise
            return self._request_once(method, path, body)  # the service had closed a connection that was idle
        if response.status >= 400:
            raise _service_error(response.status, text, response.headers)
        return json.loads(text)

    def _open_connection(self) -> http.client.HTTPConnection:
        kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
        connection = kind(self._host, self._port, timeout=self._timeout)
        connection.connect()
        connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def _send_request(
        self, connection: http.client.HTTPConnection, method: str, path: str, body: Any
    ) -> http.client.HTTPResponse:
        headers = {"Content-Type": "application/json", **({"X-API-Key": self._key} if self._key else {})}
        connection.request(method, self._path + path, None if body is None else json.dumps(body), headers)
        return connection.getresponse()


class _OpenConnection:
    """A connection that is closed when its thread or its client ends."""

    def __init__(self, opened: http.client.HTTPConnection) -> None:
        self.opened = opened
        weakref.finalize(self, opened.close)  # in a cycle, the socket's own finalizer would come first


def _service_error(status: int, text: bytes, headers: Any) -> ServiceError:
    try:
        document = json.loads(text)
        message, code = str(document["detail"]), str(document.get("code", ""))
    except (ValueError, KeyError, TypeError, AttributeError):  # whatever stands between here and the service
        message, code = f"HTTP status {status}", ""
    after = headers.get("Retry-After", "")
    return ServiceError(message, status, code, float(after) if after.isdigit() else 0.0)


def _request_options(task: str, model: str, settings: dict[str, Any]) -> dict[str, Any]:
    return {**({"task": task} if task else {}), **({"model": model} if model else {}), **settings}


def _known_fields(kind: Any, values: dict[str, Any]) -> Any:
    return kind(**{name: values[name] for name in kind.__dataclass_fields__ if name in values})


__all__ = ["Answer", "Client", "Result", "ServiceError"]
