"""Limits of an HTTP server before a request is complete: size and time of headers, and number of connections.

Requests are parsed by h11. uvicorn's usual parser, httptools, takes the body of a request with a header `Upgrade`, as
Java's default client and `curl --http2` send it, for a second request.

If all connections are in use, the oldest one without a complete request, or with an answer that is not taken, is
closed, of the address with the most connections. So any number of slow connections cannot lock out clients that send
whole requests.
"""

import asyncio
import json
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEADER_BYTES = 65_536  # maximum size of a request line and headers
HEADER_SECONDS = 10.0  # time from the first byte of a request, or the start of a connection, to the end of the headers
MESSAGE_BYTES = 4_000_000  # bytes of a WebSocket's message from the client; it is held as a whole (Streamlit: 200 MB)
CONNECTIONS = 1000  # maximum number, if the process may open that many files
MIN_CONNECTIONS, RESERVED = 4, 16  # connections, whatever the number of files; files for other uses, at least
BACKLOG = 128  # connections queued by the system until they are accepted
LOG_SECONDS = 10.0  # interval between log lines about refusals


def connection_limit() -> int:
    """Return the maximum number of connections; of the files that may still be opened a quarter is left for others."""
    try:
        import resource

        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        still_free = files - sum(1 for _ in Path("/dev/fd").iterdir())
    except (ImportError, OSError):  # Windows, and where files are not listed
        return CONNECTIONS
    unlimited = files == resource.RLIM_INFINITY
    return CONNECTIONS if unlimited else min(CONNECTIONS, max(MIN_CONNECTIONS, still_free - max(RESERVED, files // 4)))


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


class _Parser(h11.Connection):
    """h11's parser, which also refuses what other servers in front may read differently, and long complete headers."""

    def next_event(self) -> Any:
        event = super().next_event()
        if isinstance(event, h11.Request):
            if event.http_version not in (b"1.0", b"1.1"):
                raise h11.RemoteProtocolError("not a version of HTTP/1", error_status_hint=505)
            names = {name for name, _ in event.headers}
            if {b"content-length", b"transfer-encoding"} <= names:
                raise h11.RemoteProtocolError("Content-Length and Transfer-Encoding in one request")
            if len(event.target) + sum(len(name) + len(value) + 4 for name, value in event.headers) > HEADER_BYTES:
                raise h11.RemoteProtocolError("the headers are too long", error_status_hint=431)
        return event


class _LimitedConnection(H11Protocol):
    since = 0.0  # start of the connection or of its last request
    _deadline: asyncio.TimerHandle | None = None  # set while waiting for headers
    _heard = False  # whether a byte has arrived since then

    def __init__(self, refused: Callable[[str], None], most: int, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.conn = _Parser(h11.SERVER, HEADER_BYTES)
        # Without the name of the server, for which Streamlit has no option; the second are for this second's answers.
        for headers in (self.config.encoded_headers, self.server_state.default_headers):
            headers[:] = [pair for pair in headers if pair[0] != b"server"]
        self.config.ws_max_size = min(self.config.ws_max_size, MESSAGE_BYTES)
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
        if self.transport.is_closing():
            return
        if self._deadline is None and self.idle:
            self._await_headers()
        self._heard = True
        if data[:1] in (b"\r", b"\n") and self.conn.their_state is h11.IDLE and not self.conn.trailing_data[0]:
            data = data.lstrip(b"\r\n")  # blank lines before a request, as old clients send them behind a body
            if not data:  # h11 takes it for the end of the connection
                return
        before = self.cycle
        super().data_received(data)
        if self.cycle is not before:  # uvicorn has read a request's headers
            self._end_wait()

    def send_400_response(self, msg: str) -> None:
        """Answer what h11 refuses, in the form of other errors."""
        error = sys.exc_info()[1]  # uvicorn calls this where it handles the error
        status = getattr(error, "error_status_hint", 400)
        if status == 431:
            self._refuse(431, "header_bytes", f"the headers have more than {HEADER_BYTES} bytes")
        else:
            self._refuse(status, "malformed", f"{msg} {error}" if isinstance(error, h11.ProtocolError) else msg)

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        self._end_wait()
        super().handle_websocket_upgrade(event)

    def _unsupported_upgrade_warning(self) -> None:
        """Log nothing: clients that would like another protocol, such as Java's, are answered in this one."""

    @property
    def idle(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    @property
    def incomplete(self) -> bool:
        """Whether it has no complete, unanswered request, or its client does not take the answer."""
        return self.idle or bool(self.cycle.more_body) or self.flow.write_paused

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
        if not self.idle and self.cycle.response_started:  # what follows would be taken for its body
            self.transport.close()
            return
        body = json.dumps({"detail": message, "code": reason})
        head = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\ncontent-type: application/json\r\n"
        head += f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        self.transport.write((head + body).encode())
        self.transport.close()


def _client_address(connection: Any) -> str:
    return connection.client[0] if connection.client else ""
