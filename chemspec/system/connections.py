"""Limits of an HTTP server before a request is complete: size and time of headers, and number of connections.

uvicorn limits none of the three with its usual parser. If all connections are in use, the oldest one without a complete
request is closed, of the address with the most connections. So any number of slow connections cannot lock out clients
that send whole requests.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

HEADER_BYTES = 65_536  # maximum size of a request line and headers
HEADER_SECONDS = 10.0  # from the first byte of a request, or the start of a connection, to the end of the headers
CONNECTIONS = 1000  # maximum number, if the process may open that many files
BACKLOG = 128  # connections queued by the system until they are accepted
LOG_SECONDS = 10.0  # interval between log lines about refusals


def connection_limit() -> int:
    """Return the maximum number of connections; a quarter of the allowed open files is left for other uses."""
    try:
        import resource

        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    except ImportError:  # Windows
        return CONNECTIONS
    return CONNECTIONS if files == resource.RLIM_INFINITY else min(CONNECTIONS, max(8, files * 3 // 4))


class Refusals:
    """Counts refused connections by reason and logs them: the first at once, later ones every `LOG_SECONDS`."""

    def __init__(self, log: Callable[[Mapping[str, int]], None]) -> None:
        self._log = log
        self._counts: Counter[str] = Counter()
        self._quiet = False

    def __call__(self, reason: str) -> None:
        """Count a refusal; requires a running event loop."""
        self._counts[reason] += 1
        if not self._quiet:
            self._log_counts()

    def _log_counts(self) -> None:
        self._quiet = bool(self._counts)
        if self._counts:
            self._log(dict(self._counts))
            self._counts.clear()
            asyncio.get_running_loop().call_later(LOG_SECONDS, self._log_counts)


def limited_protocol(refused: Callable[[str], None]) -> Any:
    """Return uvicorn's HTTP protocol with the limits of this module, for its option `http`.

    `refused` is called with "header_bytes", "header_seconds" or "connections" for each closed connection.
    """
    return partial(_LimitedConnection, refused, connection_limit())


class _LimitedConnection(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    counts = hasattr(AutoHTTPProtocol, "on_headers_complete")  # httptools; h11 has its own limit
    since = 0.0  # start of the connection or of its last request
    _deadline: asyncio.TimerHandle | None = None  # set while waiting for headers
    _heard = False  # whether a byte has arrived since then
    _size = 0  # bytes of incomplete headers or trailers

    def __init__(self, refused: Callable[[str], None], most: int, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._refused, self._most = refused, most  # called with a reason; number of connections, WebSockets included

    def connection_made(self, transport: Any) -> None:
        room = len(self.connections) < self._most or self._make_room()
        super().connection_made(transport)
        if room:
            self._await_headers()
        else:
            self._refuse(503, "connections", "too many connections; try again later")

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_wait()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._deadline is None and self.idle:
            self._await_headers()
        self._heard = True
        for start in range(0, len(data), HEADER_BYTES):
            if self.transport.is_closing():
                return
            part, before = data[start : start + HEADER_BYTES], self.cycle
            self._size += len(part) * self.counts
            super().data_received(part)
            if self.cycle is not before:  # uvicorn has read a request's headers
                self._end_wait()
            if self._size >= HEADER_BYTES:
                self._refuse(431, "header_bytes", f"the headers have more than {HEADER_BYTES} bytes")

    def on_headers_complete(self) -> None:
        self._size = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._size = 0
        super().on_body(body)

    def handle_websocket_upgrade(self, *event: Any) -> None:
        self._end_wait()
        super().handle_websocket_upgrade(*event)

    @property
    def idle(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    @property
    def incomplete(self) -> bool:
        """Whether it has no complete, unanswered request."""
        return self.idle or bool(self.cycle.more_body)

    def _make_room(self) -> bool:
        """Close the oldest incomplete connection of the address with the most; False if there is none."""
        counts = Counter(map(_client_address, self.connections))
        waiting = [each for each in self.connections if isinstance(each, _LimitedConnection) and each.incomplete]
        if not waiting:
            return False
        oldest = max(waiting, key=lambda each: (counts[_client_address(each)], -each.since))
        self._refused("connections")
        self.connections.discard(oldest)
        oldest.transport.abort()
        return True

    def _await_headers(self) -> None:
        self._heard, self.since = False, self.loop.time()
        self._deadline = self.loop.call_later(HEADER_SECONDS, self._late)

    def _end_wait(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _late(self) -> None:
        if self._heard:
            self._refuse(408, "header_seconds", f"the headers did not arrive within {HEADER_SECONDS:g} s")
        else:  # browsers open spare connections and would take an error there as the answer to a later request
            self.transport.close()

    def _refuse(self, status: int, reason: str, message: str) -> None:
        self._end_wait()
        self._refused(reason)
        body = json.dumps({"detail": message, "code": reason})
        head = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\ncontent-type: application/json\r\n"
        head += f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        self.transport.write((head + body).encode())
        self.transport.close()


def _client_address(connection: Any) -> str:
    return connection.client[0] if connection.client else ""
