"""ASGI applications around Streamlit: security headers, limits of uploads and WebSockets; and log redaction.

Streamlit keeps each uploaded file until its visitor takes it away or has been gone for some minutes, however many there
are.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocketClose
from streamlit import runtime

from chemspec.system.error_places import describe_error
from chemspec.ui.common import login

VISIT_FILES = 5  # files of one visitor, each of at most server.maxUploadSize
ALL_BYTES = 500_000_000  # bytes of all visitors, stored and arriving
SILENT_SECONDS, WHOLE_SECONDS = 60.0, 600.0  # time without a byte of a file, and until all of it is there
FULL = 503, "this server holds too many uploaded files; try again in some minutes"
FIRST_SECONDS = 10.0  # until the first message of a WebSocket; pages send it at once
ADDRESS = "/_stcore/upload_file/"  # and then the visitor's session and the file's name


@dataclass(eq=False)
class _Upload:
    """A file that is arriving."""

    session: str
    size: int = 0  # bytes that have arrived
    problem: tuple[int, str] | None = None  # status and message, once it is refused
    end: float = field(default_factory=lambda: time.monotonic() + WHOLE_SECONDS)  # time on the monotonic clock


class UploadLimits:
    """An ASGI application around Streamlit's, which refuses files beyond the limits and those before a login.

    Files count from their first byte, and one that arrives too slowly is ended.
    """

    def __init__(self, app: ASGIApp, refused: Callable[[str], None]) -> None:
        self._app, self._refused = app, refused
        self.coming: set[_Upload] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or pass it on."""
        if scope["type"] != "http" or scope["method"] != "PUT" or ADDRESS not in scope["path"]:
            await self._app(scope, receive, send)
            return
        session, _, file = scope["path"].partition(ADDRESS)[2].partition("/")
        upload, answered = _Upload(session), False

        async def receive_within_limits() -> Message:
            message = await self._receive_part(upload, receive)
            upload.size += len(message.get("body", b""))
            if not upload.problem and self.bytes_held() > ALL_BYTES:
                upload.problem = FULL
            return {"type": "http.disconnect"} if upload.problem else message

        async def send_unless_refused(message: Message) -> None:
            nonlocal answered
            if not upload.problem:
                answered = True
                await send(message)

        upload.problem = self._problem(upload, file, Headers(scope=scope))
        if not upload.problem:
            self.coming.add(upload)
            try:
                await self._app(scope, receive_within_limits, send_unless_refused)
            except Exception:
                if not upload.problem:  # else it is about the disconnection
                    raise
            finally:
                self.coming.discard(upload)
        if upload.problem and not answered:
            self._refused("upload")
            status, message = upload.problem
            await JSONResponse({"detail": message}, status, headers={"connection": "close"})(scope, receive, send)

    async def _receive_part(self, upload: _Upload, receive: Receive) -> Message:
        """Return the next part of a body; the upload gets a problem if it does not come in time."""
        try:
            async with asyncio.timeout(max(0.0, min(SILENT_SECONDS, upload.end - time.monotonic()))):
                return await receive()
        except TimeoutError:
            upload.problem = 408, "the file arrives too slowly; try again"
            return {"type": "http.disconnect"}

    def _problem(self, upload: _Upload, file: str, headers: Headers) -> tuple[int, str] | None:
        if not login.may_upload(upload.session):
            return 401, "log in first"
        others = set(uploaded_files().get(upload.session, ())) - {file}
        if len(others) + sum(other.session == upload.session for other in self.coming) >= VISIT_FILES:
            return 413, f"{VISIT_FILES} files are stored already; remove one, or reload the page"
        size = headers.get("content-length", "")
        if self.bytes_held() + (int(size) if size.isdigit() else 0) > ALL_BYTES:
            return FULL
        return None

    def bytes_held(self) -> int:
        """Return the bytes of all files, stored and arriving."""
        stored = (len(each.data) for files in uploaded_files().values() for each in files.values())
        return sum(stored) + sum(upload.size for upload in self.coming)


class SocketLimits:
    """An ASGI application around Streamlit's, which refuses and closes WebSockets that would take others' places.

    Of one address at most a quarter of the connections are WebSockets, and one without a first message is closed.
    """

    def __init__(self, app: ASGIApp, refused: Callable[[str], None], most: int) -> None:
        """Wrap an application; `most` is the number of WebSockets of one address."""
        self._app, self._refused, self._most = app, refused, most
        self.open_sockets: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a WebSocket, or pass it on."""
        if scope["type"] != "websocket":
            await self._app(scope, receive, send)
            return
        address = str((scope.get("client") or ("",))[0])
        if self.open_sockets[address] >= self._most:
            self._refused("websockets")
            await WebSocketClose(1013)(scope, receive, send)
            return
        protocols = Headers(scope=scope).get("sec-websocket-protocol", "").split(",")
        returns = len(protocols) > 2 and bool(protocols[2].strip())  # to a session, in which it may have no news
        self.open_sockets[address] += 1
        try:
            await self._app(scope, receive if returns else self._with_first_message(receive, send), send)
        finally:
            self.open_sockets[address] -= 1
            self.open_sockets += Counter()  # drops addresses without any

    def _with_first_message(self, receive: Receive, send: Send) -> Receive:
        """Return a `receive` that closes the WebSocket if its first message does not come in time."""
        heard = False

        async def receive_or_close() -> Message:
            nonlocal heard
            if heard:
                return await receive()
            try:
                async with asyncio.timeout(FIRST_SECONDS):
                    message = await receive()
            except TimeoutError:
                self._refused("silent_websockets")
                await send({"type": "websocket.close", "code": 1008})
                return {"type": "websocket.disconnect", "code": 1008}
            heard = message["type"] != "websocket.connect"
            return message

        return receive_or_close


def uploaded_files() -> dict[str, dict[str, Any]]:
    """Return the files that Streamlit keeps, by session and name."""
    storage: Mapping[str, Mapping[str, Any]] = runtime.get_instance().uploaded_file_mgr.file_storage  # type: ignore[attr-defined]
    return {session: dict(uploads) for session, uploads in list(storage.items())}


# Streamlit's own pages need inline scripts, and its charts and the sketcher `eval`. What this stops: scripts, frames,
# pictures and connections of other hosts, forms that lead elsewhere, and other sites that show the app in a frame.
POLICY = "; ".join(
    (
        "default-src 'self'",
        "script-src 'self' 'unsafe-inline' 'unsafe-eval' blob:",
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data: blob:",
        "font-src 'self' data:",
        "connect-src 'self' data: blob:",
        "worker-src 'self' blob:",
        "frame-src 'self' blob: data:",
        "frame-ancestors 'self'",
        "base-uri 'self'",
        "form-action 'self'",
        "object-src 'none'",
    )
)
HEADERS = {
    "content-security-policy": POLICY,
    "referrer-policy": "no-referrer",  # the link of a job is a secret
    "x-content-type-options": "nosniff",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}


METRICS = "/_stcore/metrics"  # numbers and names of caches and sessions


class SecurityHeaders:
    """An ASGI application around another, which adds `HEADERS` to its responses, and hides Streamlit's metrics."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message.setdefault("headers", [])  # ASGI lets an application leave it out
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        hidden = scope["type"] == "http" and scope.get("path", "").rstrip("/").endswith(METRICS)
        await (PlainTextResponse("404: Not Found", 404) if hidden else self._app)(scope, receive, with_headers)


def hide_log_messages() -> None:
    """Log only type and location of unexpected errors; their messages may quote a visitor's query."""
    logger = logging.getLogger("streamlit.error_util")
    if strip_messages not in logger.filters:
        logger.addFilter(strip_messages)


def strip_messages(record: logging.LogRecord) -> bool:
    """Take what visitors entered out of a log record; keeps every record."""
    if record.exc_info and (error := record.exc_info[1]) is not None:
        record.msg, record.args = "Uncaught %s", (describe_error(error),)
        record.exc_info, record.exc_text = None, None
    return True
