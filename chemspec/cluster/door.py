"""Stand before the replicas of a service on a cluster: take every request to one of them, and to another if it dies.

Ray's own HTTP proxy would answer 500 for what a dead replica had taken, and 404 while a service stops; here the client
gets its answer from another replica, or 503 with Retry-After. Nothing in this file knows Ray.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from types import SimpleNamespace
from typing import Any, Protocol

from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families
from starlette.applications import Starlette
from starlette.middleware import Middleware

from chemspec.service.guard import OPEN, Guard, Message, Receive, Send, refuse
from chemspec.service.leaving import left
from chemspec.service.limits import Limits
from chemspec.service.metrics import Metrics

TRIES = 3  # replicas that may die over a request; it may be the one that kills
PROBE = 5.0  # seconds for which a probe waits for a replica
MARGIN = 15.0  # seconds beyond the service's own limit for which any other request waits
TOLD = "chemspec.told"  # a message of a replica that is not for the client: what its log would say
OWN = ("chemspec_requests", "chemspec_request_seconds")  # counted here, where all requests come by
SENT = ("type", "asgi", "http_version", "method", "scheme", "path", "raw_path", "query_string", "root_path", "headers")


class Answer(Protocol):
    """The messages with which an application answers a request."""

    def __aiter__(self) -> AsyncIterator[Message]: ...

    def cancel(self) -> Any:
        """Let the replica know that nobody waits."""


class Replicas(Protocol):
    """The service on a cluster; `service_on_ray` has it."""

    died: tuple[type[BaseException], ...]  # errors that say that a replica is no more, or not there yet
    full: tuple[type[BaseException], ...]  # and that all have more to do than they take on

    def ask(self, scope: Message, body: bytes) -> Answer:
        """Have one of them answer a request."""

    async def metrics(self) -> Sequence[tuple[str, bytes]]:
        """Name and numbers of each."""


class Door:
    """The one address of a service on a cluster.

    Attributes:
        limits: of the replicas; keys and sizes are looked at here already.
        metrics: count requests only.
        stopping: set when nothing new is taken on.
        problem: why there are no replicas.
        models: the names of those that answer.
    """

    def __init__(
        self, models: Sequence[str], limits: Limits, deploy: Callable[[], Replicas], remove: Callable[[], None]
    ) -> None:
        """Describe it; nothing is deployed before the application starts.

        Args:
            models: their names.
            limits: of the replicas.
            deploy: starts the replicas and returns when they are ready.
            remove: ends them when they have finished.
        """
        self.models, self.limits, self.metrics = models, limits, Metrics()
        self.stopping = False
        self.problem: Exception | None = None
        self._deploy, self._remove = deploy, remove
        self._replicas: Replicas | None = None

    def create(self, loaded: Callable[[], None]) -> Starlette:
        """Return the ASGI application; `loaded` is called when the replicas are ready, or could not be had."""

        @asynccontextmanager
        async def lifespan(_: Starlette) -> AsyncIterator[None]:
            beginning = asyncio.create_task(self._begin(loaded))
            yield
            self.stopping = True
            await asyncio.to_thread(self._remove)
            await beginning  # what is removed will not be ready

        app = Starlette(lifespan=lifespan, middleware=[Middleware(Guard, service=self)])  # type: ignore[arg-type]
        app.router.default = self._answer  # whatever the address
        return app

    async def _begin(self, loaded: Callable[[], None]) -> None:
        try:
            self._replicas = await asyncio.to_thread(self._deploy)
        except Exception as error:
            if self.stopping:
                return
            self.problem = error
        loaded()

    async def _answer(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request; the guard has read all of its body."""
        path = scope["path"]
        if path == "/healthz" and self.problem is None:  # replicas that are not there yet are no reason for a new door
            await send({"type": "http.response.start", "status": 200, "headers": [JSON]})
            await send({"type": "http.response.body", "body": b'{"status":"ok"}'})
        elif self.stopping:
            await refuse(send, 503, "stopping", "the service is stopping; ask another, or again later", _later(5))
        elif self._replicas is None:
            await refuse(send, 503, "loading", "the models are still being loaded; ask again", _later(2))
        elif path == "/metrics":
            await self._tell(self._replicas, send)
        else:
            await self._forward(self._replicas, scope, receive, send)

    async def _tell(self, replicas: Replicas, send: Send) -> None:
        try:
            text = _joined([("door", self.metrics.text()), *await replicas.metrics()])
        except Exception as error:
            if not isinstance(error, (TimeoutError, *replicas.died)):
                raise
            # Ray does not know of a death yet.
            await refuse(send, 503, "no_replica", "a replica does not tell its numbers; ask again", _later(5))
            return
        await send({"type": "http.response.start", "status": 200, "headers": [TEXT]})
        await send({"type": "http.response.body", "body": text})

    async def _forward(self, replicas: Replicas, scope: Message, receive: Receive, send: Send) -> None:
        """Have a replica answer, unless the client leaves before the end."""
        begun = over = False

        async def watched(message: Message) -> None:
            nonlocal begun, over
            begun, over = True, message["type"] == "http.response.body" and not message.get("more_body")
            await send(message)

        body = (await receive())["body"]
        gone = asyncio.ensure_future(left(receive))
        asking = asyncio.ensure_future(self._ask(replicas, scope, body, watched))
        try:
            await asyncio.wait({gone, asking}, return_when=asyncio.FIRST_COMPLETED)
            if over or asking.done():  # the server calls it leaving, too, when all is sent
                await asking
                return
        finally:
            gone.cancel()
            asking.cancel()
        with suppress(asyncio.CancelledError):
            await asking
        if not begun:
            await refuse(send, 499, "client_gone", "the client has left")

    async def _ask(self, replicas: Replicas, scope: Message, body: bytes, send: Send) -> None:
        asked = {name: scope[name] for name in SENT if name in scope}
        asked["client"] = tuple(scope["client"] or ())
        patience = PROBE if scope["path"] in OPEN else self.limits.timeout + MARGIN
        kind, over = b"", False  # of the answer, once it has begun; whether all of it is out
        for _ in range(TRIES):
            answer = replicas.ask(asked, body)
            try:
                async with asyncio.timeout(patience) as clock:
                    async for message in answer:
                        clock.reschedule(None)
                        if message["type"] == TOLD:
                            scope["route"] = SimpleNamespace(path=message["route"])
                            scope["state"]["told"] |= message["told"]
                            continue
                        if message["type"] == "http.response.start":
                            headers = [one for one in message["headers"] if one[0] != b"x-request-id"]  # the guard's
                            kind = dict(headers).get(b"content-type", b"-")
                            message = {**message, "headers": headers}
                        over = message["type"] == "http.response.body" and not message.get("more_body")
                        await send(message)
                return
            except TimeoutError:
                if not kind:
                    await refuse(send, 503, "no_replica", "no replica of the service answers; ask again", _later(5))
                    return
                raise
            except replicas.full:
                await refuse(send, 503, "queue_full", "too many requests are waiting; ask again", _later(2))
                return
            except replicas.died:
                if over:
                    return
                scope["state"]["told"]["died"] = scope["state"]["told"].get("died", 0) + 1
                if kind.startswith(b"text/event-stream"):  # some of it is out already, so it cannot begin again
                    await send({"type": "http.response.body", "body": LOST_EVENT})
                    return
                if kind:
                    raise
            finally:
                answer.cancel()
        await refuse(send, 503, "lost", LOST, _later(2))


LOST = "the replicas that were answering this died; ask again"
LOST_EVENT = f"event: error\ndata: {json.dumps({'detail': LOST, 'code': 'lost'})}\n\n".encode()
JSON = (b"content-type", b"application/json")
TEXT = (b"content-type", b"text/plain; version=0.0.4")


def _later(seconds: int) -> tuple[bytes, bytes]:
    return b"retry-after", str(seconds).encode()


class _Joined:
    """Numbers of several processes, told apart by a label."""

    def __init__(self, parts: Iterable[tuple[str, bytes]]) -> None:
        self._families: dict[str, Metric] = {}
        for replica, text in parts:
            for family in text_string_to_metric_families(text.decode()):
                if replica != "door" and family.name in OWN:
                    continue
                joined = self._families.setdefault(family.name, Metric(family.name, family.documentation, family.type))
                joined.samples += [one._replace(labels={**one.labels, "replica": replica}) for one in family.samples]

    def collect(self) -> Iterable[Metric]:
        return self._families.values()


def _joined(parts: Iterable[tuple[str, bytes]]) -> bytes:
    return generate_latest(_Joined(parts))  # type: ignore[arg-type]
