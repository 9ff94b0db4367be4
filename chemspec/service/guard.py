"""Do for every request what does not depend on its route: keys, size of the body, log, metrics.

A plain ASGI application around another. What it logs never holds a query, nor the address that a query may stand in,
nor who asks: a client has a name that means nothing and is another after a restart.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import logging
import secrets
import time
import uuid
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from chemspec.service.service import CLIENT, Service

LOG = logging.getLogger("chemspec.service")
OPEN = ("/healthz", "/readyz", "/metrics", "/openapi.json")  # without a key; they say nothing of queries
DRAINED = 32  # bodies of the allowed size that are read and thrown away, so that the client hears why
SLOWEST = 30.0  # seconds in which a body must arrive

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]


class Guard:
    """What stands between the server and the routes."""

    def __init__(self, app: App, service: Service) -> None:
        self._app, self._service = app, service
        self._keys = [hashlib.sha256(key.encode()).digest() for key in service.limits.keys]
        self._salt = secrets.token_bytes(16)  # so that what names a client says nothing else, and only until a restart

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer one request, or pass it on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        scope["state"] = {**scope.get("state", {}), "id": uuid.uuid4().hex[:16], "told": {}}
        status = 0

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), (b"x-request-id", scope["state"]["id"].encode())]
            await send(message)

        CLIENT.set(self._client(scope))
        try:
            await self._pass_on(scope, receive, watched)
        except asyncio.CancelledError:
            status = status or 499
            raise
        except Exception as error:  # a fault of ours; its message may hold a query, so only its place is logged
            scope["state"]["told"] |= {"error": type(error).__name__, "at": _place(error)}
            if not status:
                await refuse(watched, 500, "internal", "the service failed over this request; the fault is ours")
        finally:
            self._log(scope, status, time.perf_counter() - began)

    async def _pass_on(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"])
        if self._keys and scope["path"] not in OPEN and not self._knows(headers):
            self._service.metrics.refused.labels("key").inc()
            message = "this service wants a key: send the header X-API-Key, or Authorization: Bearer KEY"
            await refuse(send, 401, "key", message, (b"www-authenticate", b"Bearer"))
            return
        most = self._service.limits.body
        body, size = bytearray(), 0
        ends = time.monotonic() + SLOWEST
        while True:
            try:
                part = await asyncio.wait_for(receive(), max(0.0, ends - time.monotonic()))
            except TimeoutError:
                await refuse(send, 408, "slow", f"the request did not arrive within {SLOWEST:g} s", CLOSE)
                return
            if part["type"] == "http.disconnect":
                return
            size += len(part.get("body", b""))
            if size <= most:
                body += part.get("body", b"")
            else:
                body.clear()
            if not part.get("more_body") or size > DRAINED * most:
                break
        if size > most:
            self._service.metrics.refused.labels("body").inc()
            await refuse(send, 413, "too_large", f"the request has more than {most} bytes; send fewer queries", CLOSE)
            return
        first = True

        async def replay() -> Message:
            nonlocal first
            if first:
                first = False
                return {"type": "http.request", "body": bytes(body), "more_body": False}
            return await receive()

        await self._app(scope, replay, send)

    def _client(self, scope: MutableMapping[str, Any]) -> str:
        """Return a name for who asks: by the key where keys are wanted, else by the address."""
        known = _shown(dict(scope["headers"])) if self._keys else str((scope.get("client") or ("",))[0]).encode()
        return hashlib.blake2b(known, key=self._salt, digest_size=6).hexdigest()

    def _knows(self, headers: dict[bytes, bytes]) -> bool:
        """Whether a request shows a key; all are compared, in constant time."""
        digest = hashlib.sha256(_shown(headers)).digest()
        return sum(hmac.compare_digest(digest, key) for key in self._keys) > 0  # looks at all of them

    def _log(self, scope: MutableMapping[str, Any], status: int, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", "unknown")
        metrics = self._service.metrics
        metrics.requests.labels(route, str(status)).inc()
        metrics.request_seconds.labels(route).observe(seconds)
        level = logging.DEBUG if scope["path"] in OPEN else logging.INFO
        LOG.log(
            level,
            "request",
            extra={
                "told": {
                    "id": scope["state"]["id"],
                    "method": scope["method"],
                    "route": route,
                    "status": status,
                    "ms": round(1000 * seconds, 1),
                    "client": CLIENT.get(),
                    **scope["state"]["told"],
                }
            },
        )


def _shown(headers: dict[bytes, bytes]) -> bytes:
    """Return the key that a request shows."""
    shown = headers.get(b"x-api-key") or headers.get(b"authorization", b"")
    kind, _, rest = shown.partition(b" ")
    return rest.strip() if kind.lower() == b"bearer" else shown.strip()


CLOSE = (b"connection", b"close")


async def refuse(send: Send, status: int, code: str, message: str, *headers: tuple[bytes, bytes]) -> None:
    """Send an error as all routes do."""
    body = json.dumps({"detail": message, "code": code}).encode()
    basic = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": [*basic, *headers]})
    await send({"type": "http.response.body", "body": body})


def _place(error: BaseException) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace is not None else ""
