"""Notice when the client of a request leaves, whose question then needs no answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

Receive = Callable[[], Awaitable[Any]]  # of an ASGI application whose request has been read


@contextmanager
def watching(receive: Receive) -> Iterator[asyncio.Future[None]]:
    """Give what is done when the client has left; nobody looks any more after the `with`."""
    gone = asyncio.ensure_future(left(receive))
    try:
        yield gone
    finally:
        gone.cancel()


async def left(receive: Receive) -> None:
    """Wait until the client leaves."""
    while (await receive())["type"] != "http.disconnect":
        pass
