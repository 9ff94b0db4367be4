"""Detect that the client of a request has disconnected."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

Receive = Callable[[], Awaitable[Any]]  # of an ASGI application, after the request body


@contextmanager
def watch_disconnect(receive: Receive) -> Iterator[asyncio.Future[None]]:
    """Yield a future that is done when the client disconnects; it is cancelled at the end of the context."""
    gone = asyncio.ensure_future(wait_for_disconnect(receive))
    try:
        yield gone
    finally:
        gone.cancel()


async def wait_for_disconnect(receive: Receive) -> None:
    """Wait until the client disconnects."""
    while (await receive())["type"] != "http.disconnect":
        pass
