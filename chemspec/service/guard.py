"""ASGI middleware for all routes: API keys, body size, log, metrics.

The log never contains queries, URLs (which may contain queries) or client addresses: clients are identified by a salted
hash that changes with every restart.
"""

import asyncio
import hashlib
import hmac
import logging
import secrets
import time
import uuid
import zlib
from collections import Counter
from traceback import walk_tb

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from chemspec.service.limits import RefusedError
from chemspec.service.scheduler import RETRY_AFTER, stopping_error
from chemspec.service.service import CLIENT, Service

LOG = logging.getLogger("chemspec.service")
OPEN = ("/healthz", "/readyz", "/metrics", "/openapi.json", "/docs")  # need no key: no word on queries
DRAIN_FACTOR = 32  # multiple of the allowed body size that is read and discarded, so that the client receives the error
BODIES = 32  # times the allowed body size are held for all requests, of one client half
SMALL_BODY = 65_536  # bytes for which there is always room
BODY_TIMEOUT = 30.0  # seconds in which a body must arrive


class Guard:
    """Middleware between server and routes."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app, self._service = app, service
        self._keys = [hashlib.sha256(key.encode()).digest() for key in service.limits.api_keys]
        self._held: Counter[str] = Counter()  # bytes of bodies by client
        self._salt = secrets.token_bytes(16)  # client names are meaningless and valid until a restart

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request, or pass it on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        scope["state"] = {**scope.get("state", {}), "id": uuid.uuid4().hex[:16], "log_fields": {}}
        status = 0

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), (b"x-request-id", scope["state"]["id"].encode())]
            await send(message)

        CLIENT.set(self._client_name(scope))
        try:
            await self._check_and_forward(scope, receive, watched)
        except asyncio.CancelledError:  # the server cancels at the end of a stop's grace, Ray for a client that left
            if not status:
                await problem_response(stopping_error())(scope, receive, watched)
            status = status or 499
            raise
        except Exception as error:
            scope["state"]["log_fields"] |= locate_error(error)
            if not status:
                await error_response(500, "internal", "internal error of the service")(scope, receive, watched)
        finally:
            self._log_request(scope, status, time.perf_counter() - began)

    async def _check_and_forward(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._keys and scope["path"] not in OPEN and not self._has_valid_key(scope):
            self._service.metrics.refused.labels("key").inc()
            message = "this service needs a valid API key in the header X-API-Key, or as Authorization: Bearer KEY"
            await error_response(401, "key", message, {"www-authenticate": "Bearer"})(scope, receive, send)
            return
        encoding = dict(scope["headers"]).get(b"content-encoding", b"").strip().lower()
        if encoding not in (b"", b"identity", b"gzip"):
            message = "send the body as it is, without Content-Encoding, or as gzip"
            await error_response(415, "encoding", message, CLOSE)(scope, receive, send)
            return
        client, body = CLIENT.get(), bytearray()
        try:
            refusal = await self._read_body(scope, receive, body, encoding)
            whole: list[Message] = [{"type": "http.request", "body": bytes(body), "more_body": False}]

            async def replay() -> Message:
                return whole.pop() if whole else await receive()

            if refusal is None:
                await self._app(scope, replay, send)
            else:
                await refusal(scope, receive, send)
        except ClientDisconnect:
            pass
        finally:
            self._held[client] -= len(body)
            self._held += Counter()  # drops clients without any

    async def _read_body(self, scope: Scope, receive: Receive, body: bytearray, encoding: bytes) -> Response | None:
        """Read the body of a request, and unpack it; returns the response that refuses it, or None."""
        refused, limits, size = self._service.metrics.refused, self._service.limits, 0
        full = self._service.refusal(CLIENT.get()) if scope["method"] == "POST" else None
        try:
            async with asyncio.timeout(BODY_TIMEOUT):
                async for part in Request(scope, receive).stream():
                    size += len(part)
                    if size <= limits.body and full is None:
                        full = self._hold(part, body)
                    elif size > DRAIN_FACTOR * limits.body:
                        break
        except TimeoutError:
            return error_response(408, "slow", f"the request did not arrive within {BODY_TIMEOUT:g} s", CLOSE)
        if encoding == b"gzip" and full is None and size <= limits.body:
            try:
                content = decompress(bytes(body), limits.body)
            except ValueError as error:
                return error_response(400, "malformed", str(error), CLOSE)
            if (size := len(content)) <= limits.body:
                self._held[CLIENT.get()] -= len(body)
                body.clear()
                full = self._hold(content, body)
        if size > limits.body:
            refused.labels("body").inc()
            message = f"the request has more than {limits.body} bytes; send fewer queries"
            return error_response(413, "too_large", message, CLOSE)
        if full is not None:
            refused.labels(full.code).inc()
            return problem_response(full)
        return None

    def _hold(self, part: bytes, body: bytearray) -> RefusedError | None:
        """Append a part to a body; returns an error instead if large bodies take all the memory for them."""
        client, most = CLIENT.get(), BODIES * self._service.limits.body
        held = self._held[client] + len(part)
        if len(body) + len(part) > SMALL_BODY and (held > most // 2 or self._held.total() + len(part) > most):
            message = f"too many bytes of requests are under way; try again in {RETRY_AFTER} s"
            return RefusedError(429, "queue_full", message, after=RETRY_AFTER)
        self._held[client] = held
        body += part
        return None

    def _client_name(self, scope: Scope) -> str:
        """Return an anonymous client name, from the key if keys are required, else from the address."""
        address = str((scope.get("client") or ("",))[0]).encode()
        identity = _key_of_request(scope) if self._keys else address
        return hashlib.blake2b(identity, key=self._salt, digest_size=6).hexdigest()

    def _has_valid_key(self, scope: Scope) -> bool:
        """Return whether a request has a valid key, comparing all keys in constant time."""
        digest = hashlib.sha256(_key_of_request(scope)).digest()
        return sum(hmac.compare_digest(digest, key) for key in self._keys) > 0  # no short circuit

    def _log_request(self, scope: Scope, status: int, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", "unknown")
        metrics = self._service.metrics
        metrics.requests.labels(route, str(status)).inc()
        metrics.request_seconds.labels(route).observe(seconds)
        level = logging.DEBUG if scope["path"] in OPEN else logging.INFO
        fields = {
            "id": scope["state"]["id"],
            "method": scope["method"],
            "route": route,
            "status": status,
            "ms": round(1000 * seconds, 1),
            "client": CLIENT.get(),
        }
        LOG.log(level, "request", extra={"log_fields": fields | scope["state"]["log_fields"]})


def _key_of_request(scope: Scope) -> bytes:
    headers: dict[bytes, bytes] = dict(scope["headers"])
    shown = headers.get(b"x-api-key") or headers.get(b"authorization", b"")
    kind, _, rest = shown.partition(b" ")
    return rest.strip() if kind.lower() == b"bearer" else shown.strip()


CLOSE = {"connection": "close"}


def decompress(body: bytes, limit: int) -> bytes:
    """Return a gzipped body, of which at most one byte more than `limit`; ValueError if it is damaged or no gzip."""
    reader = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    try:
        content = reader.decompress(body, limit + 1)
    except zlib.error:
        raise ValueError("the body is no gzip, though its Content-Encoding says so") from None
    if len(content) <= limit and (not reader.eof or reader.unused_data):
        raise ValueError("the body is not one whole gzip stream")
    return content


def locate_error(error: BaseException) -> dict[str, str]:
    """Return kind and place of an error for the log; its message is left out, since it may contain a query."""
    frames = [f"{frame.f_code.co_filename}:{line}" for frame, line in walk_tb(error.__traceback__)]
    return {"error": type(error).__name__, "at": frames[-1] if frames else ""}


def problem_response(error: RefusedError) -> JSONResponse:
    """Return the response for a refused request."""
    return error_response(
        error.status, error.code, str(error), {"Retry-After": str(error.after)} if error.after else None
    )


def error_response(status: int, code: str, message: str, headers: dict[str, str] | None = None) -> JSONResponse:
    """Return an error in the format of all routes."""
    return JSONResponse({"detail": message, "code": code}, status, headers)
