"""Requests byte by byte, as browsers and attackers send them and no library does."""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping

SECONDS = 60.0  # after which a state that does not come is a failure
WEBSOCKET = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}


def connected(port: int) -> socket.socket:
    """A connection to a port of this machine."""
    return socket.create_connection(("127.0.0.1", port), timeout=SECONDS)


def listening(port: int) -> bool:
    """Whether a server is reached from other machines too: here, by another address of this one."""
    with socket.socket() as asks:
        return asks.connect_ex(("127.0.0.2", port)) == 0


def head(path: str, headers: Mapping[str, str], *, method: str = "GET", version: str = "1.1") -> bytes:
    """A request without its body."""
    lines = [f"{method} {path} HTTP/{version}", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    return "\r\n".join(lines).encode()


def post(path: str, body: bytes) -> bytes:
    """A request with JSON."""
    headers = {"Host": "localhost", "Content-Type": "application/json", "Content-Length": str(len(body))}
    return head(path, headers, method="POST") + body


def answer(connection: socket.socket) -> tuple[int, str]:
    """Status and text of an answer, of a stream its beginning; 0 where the connection is closed without a word."""
    text = ""
    try:
        while "\r\n\r\n" not in text or len(text.partition("\r\n\r\n")[2]) < _length(text):
            piece = connection.recv(100_000).decode("latin-1")
            if not piece:
                break
            text += piece
    except ConnectionResetError:
        pass
    return int(text.split(" ", 2)[1]) if text else 0, text


def _length(text: str) -> int:
    found = re.search(r"\r\ncontent-length: (\d+)", text.partition("\r\n\r\n")[0], re.IGNORECASE)
    return int(found[1]) if found else 0


def get(port: int, path: str, headers: Mapping[str, str], **how: str) -> tuple[int, str]:
    """Send a request without a body and return the status of its answer, and all that comes."""
    with connected(port) as connection:
        connection.sendall(head(path, headers, **how))
        return answer(connection)


def pour(connection: socket.socket, piece: bytes, total: int) -> None:
    """Send a piece again and again until so many bytes are sent, or the other side has closed."""
    try:
        for _ in range(total // len(piece)):
            connection.sendall(piece)
    except OSError:
        pass
