"""Refuse HTTP requests triggered by web pages of other sites: wrong Host, foreign Origin, cross-site.

A page of evil.example whose name resolves to 127.0.0.1 for its second request (DNS rebinding) may read the answers of a
server on this machine. Its requests still carry `Host: evil.example`, which pages cannot change, so a server that
accepts only its own names is safe.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocketClose

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
ANY_INTERFACE = ("0.0.0.0", "::", "")
ANY_NAME = "*"
_NAME = re.compile(r"\*|(\*\.)?[a-z0-9_-]+(\.[a-z0-9_-]+)*")


@dataclass(frozen=True)
class AllowedHosts:
    """Host names that a server accepts."""

    names: frozenset[str]  # exact names, `*.` and a domain, or `*`; lower case, without ports
    added: frozenset[str] = frozenset()  # hosts of `--allowed-host`; a proxy may send their pages with another Host
    addresses: bool = False  # whether any IP address is accepted; DNS rebinding does not work with addresses

    @classmethod
    def of(cls, host: str, added: Sequence[str] = ()) -> AllowedHosts:
        """Return the accepted names of a server; ValueError if one of `added` is no host name."""
        further = frozenset(name.strip().lower().rstrip(".") for name in added)
        for name in further:
            if not _NAME.fullmatch(name) and not _is_address(name):
                raise ValueError(
                    f"--allowed-host {name}: give a name such as chem.example.org, without https:// and port"
                )
        names = LOOPBACK | further | {host.lower()}
        if host in ANY_INTERFACE:
            here = socket.gethostname().lower()
            names |= {here, here.partition(".")[0]}
        loopback = host.lower() == "localhost" or (_is_address(host) and ip_address(host).is_loopback)
        return cls(names - set(ANY_INTERFACE), further, addresses=not loopback)

    def allow(self, name: str | None) -> bool:
        """Return whether a host name without port is accepted."""
        return name is not None and (_matches_pattern(name, self.names) or (self.addresses and _is_address(name)))

    def allow_origin(self, name: str | None) -> bool:
        """Return whether pages of another host are accepted; `*` accepts any Host, but no foreign pages."""
        return name is not None and _matches_pattern(name, self.added - {ANY_NAME})


def parse_host_header(host: str) -> str | None:
    """Return the name in a Host header without its port; None if the header is invalid."""
    try:
        parts = urlsplit(f"//{host}")
        name, _ = parts.hostname, parts.port  # an impossible port raises here
    except ValueError:
        return None
    if name is None or parts.netloc != host or "@" in host:
        return None
    return name.rstrip(".")


class HostCheck:
    """ASGI middleware that accepts only requests under an allowed host name."""

    def __init__(self, app: ASGIApp, allowed: AllowedHosts, *, links: bool, refused: Callable[[str], None]) -> None:
        """Wrap an application.

        Args:
            app: ASGI application.
            allowed: accepted host names.
            links: whether links from pages of other sites are accepted.
            refused: called with "host", "origin" or "cross_site" for each refused request.
        """
        self._app, self._allowed, self._links, self._refused = app, allowed, links, refused

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a request, or pass it to the application."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        code, message, host = self._judge(Headers(scope=scope))
        if code:
            self._refused(code)
            await _refusal(scope, code, message)(scope, receive, send)
            return
        headers = [(name, host if name == b"host" else value) for name, value in scope["headers"]]
        await self._app({**scope, "headers": headers}, receive, send)

    def _judge(self, headers: Headers) -> tuple[str, str, bytes]:
        """Return the reason for refusing a request (code and sentence), and the Host to pass on.

        If a proxy has changed the Host, that of the page is passed on, since the application compares the two.
        """
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        if len(hosts) > 1 or len(origins) > 1:
            return "host", "the request has two headers Host or Origin", b""
        host = hosts[0] if hosts else ""  # missing only in requests of programs, such as health checks
        if hosts and not self._allowed.allow(name := parse_host_header(host.lower())):
            shown = name if name and _NAME.fullmatch(name) else "NAME"
            return "host", f"not a name of this server; its owner can add it: --allowed-host {shown}", b""
        if origins:
            page = urlsplit(origins[0].lower()).netloc if "[" not in origins[0] or "]" in origins[0] else ""
            if page and page == host.lower():
                return "", "", host.encode("latin-1")
            if page and self._allowed.allow_origin(parse_host_header(page)):
                return "", "", page.encode("latin-1")
            return "origin", "cross-site requests are refused; allow a site with --allowed-host", b""
        site = {value.strip().lower() for value in headers.getlist("sec-fetch-site")}
        mode = [value.strip().lower() for value in headers.getlist("sec-fetch-mode")]
        if site & {"cross-site", "same-site"} and not (self._links and mode == ["navigate"]):
            return "cross_site", "cross-site requests are refused", b""
        return "", "", host.encode("latin-1")


def _refusal(scope: Scope, code: str, message: str) -> ASGIApp:
    if scope["type"] == "websocket":
        return WebSocketClose(1008)
    headers = {"connection": "close", "x-content-type-options": "nosniff"}
    if "text/html" in Headers(scope=scope).get("accept", ""):
        return PlainTextResponse(f"403: {message}\n", 403, headers)
    return JSONResponse({"detail": message, "code": code}, 403, headers)


def _matches_pattern(name: str, patterns: Collection[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
