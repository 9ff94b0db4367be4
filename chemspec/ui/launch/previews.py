"""The route of previews: a visitor's newest request is answered, earlier ones are dropped, one at a time in all."""

import json
from collections.abc import Mapping
from itertools import count
from typing import Any

import anyio
import anyio.to_thread
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from chemspec.ui.common import login

MAX_BYTES = 8000  # bytes of a request
MAX_SESSIONS = 1000


class Previews:
    """Answers requests for previews of the visitors' sessions."""

    def __init__(self) -> None:
        self._numbers = count()
        self.newest: dict[str, int] = {}  # newest request of each session
        self._turn: anyio.CapacityLimiter | None = None  # made in the server's event loop

    async def answer(self, request: Request) -> Response:
        """Answer with a preview; 204 where there is none, or a newer request of the session has come."""
        values = await _read_values(request)
        if values is None:
            return Response(status_code=400)
        session = str(values.get("session", ""))
        if not login.is_visitor(session):
            return Response(status_code=403)
        number = self.newest[session] = next(self._numbers)
        while len(self.newest) > MAX_SESSIONS:
            self.newest.pop(next(iter(self.newest)))
        self._turn = self._turn or anyio.CapacityLimiter(1)
        html = await anyio.to_thread.run_sync(self._make, session, number, values, limiter=self._turn)
        return JSONResponse({"html": html}) if html else Response(status_code=204)

    def _make(self, session: str, number: int, values: Mapping[str, Any]) -> str:
        if self.newest.get(session) != number:
            return ""
        from chemspec.ui.common import preview  # here, so that the server is there before all of it is imported

        text, task, model = (str(values.get(name, "")) for name in ("text", "task", "model"))
        return preview.preview_html(text, task, model, dark=values.get("dark") is True)


async def _read_values(request: Request) -> Mapping[str, Any] | None:
    """Return the JSON object of a request; None where it is none, or too large."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > MAX_BYTES:
            return None
    try:
        values = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return values if isinstance(values, dict) else None


def preview_route() -> Route:
    """Return the route, of which pages are told."""
    login.previews_offered.set()
    return Route("/preview", Previews().answer, methods=["POST"])
