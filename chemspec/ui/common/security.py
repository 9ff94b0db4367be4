"""Security headers and log redaction."""

from __future__ import annotations

import logging
import traceback
from pathlib import Path

from starlette.types import ASGIApp, Message, Receive, Scope, Send

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
                there = {name.lower() for name, _ in message.get("headers", ())}
                added = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                message["headers"] = [*message.get("headers", ()), *(pair for pair in added if pair[0] not in there)]
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
