"""ASGI applications around Streamlit: security headers and limits of uploads; and log redaction.

Streamlit keeps each uploaded file until its visitor takes it away or has been gone for some minutes, however many there
are.
"""

import logging
import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from starlette.datastructures import MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from streamlit import runtime

from chemspec.ui.common import login

VISIT_FILES = 5  # of one visitor, each of at most server.maxUploadSize
ALL_BYTES = 500_000_000  # of all visitors
ADDRESS = "/_stcore/upload_file/"  # and then the visitor's session and the file's name


class UploadLimits:
    """An ASGI application around Streamlit's, which refuses files beyond the limits and those before a login."""

    def __init__(self, app: ASGIApp, refused: Callable[[str], None]) -> None:
        self._app, self._refused = app, refused
        self._coming: Counter[str] = Counter()  # files on their way, by session

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or pass it on."""
        if scope["type"] != "http" or scope["method"] != "PUT" or ADDRESS not in scope["path"]:
            await self._app(scope, receive, send)
            return
        session, _, file = scope["path"].partition(ADDRESS)[2].partition("/")
        if problem := self._problem(session, file):
            self._refused("upload")
            status, message = problem
            response = JSONResponse({"detail": message}, status, headers={"connection": "close"})
            await response(scope, receive, send)
            return
        self._coming[session] += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._coming[session] -= 1
            self._coming += Counter()  # drops those without any

    def _problem(self, session: str, file: str) -> tuple[int, str] | None:
        if not login.may_upload(session):
            return 401, "log in first"
        held = uploaded_files()
        others = set(held.get(session, ())) - {file}
        if len(others) + self._coming[session] >= VISIT_FILES:
            return 413, f"{VISIT_FILES} files are stored already; remove one, or reload the page"
        if sum(len(upload.data) for session_files in held.values() for upload in session_files.values()) > ALL_BYTES:
            return 503, "this server holds too many uploaded files; try again in some minutes"
        return None


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


class SecurityHeaders:
    """An ASGI application around another, which adds `HEADERS` to its responses."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message.setdefault("headers", [])  # which ASGI lets an application leave out
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, with_headers)


def hide_log_messages() -> None:
    """Log only type and location of unexpected errors; their messages may quote a visitor's query."""
    logger = logging.getLogger("streamlit.error_util")
    if _strip_messages not in logger.filters:
        logger.addFilter(_strip_messages)


def _strip_messages(record: logging.LogRecord) -> bool:
    if record.exc_info and (error := record.exc_info[1]) is not None:
        frames = [f"{Path(at.filename).name}:{at.lineno}" for at in traceback.extract_tb(error.__traceback__)[-8:]]
        record.msg, record.args = "Uncaught %s at %s", (type(error).__name__, " < ".join(reversed(frames)))
        record.exc_info, record.exc_text = None, None
    return True
