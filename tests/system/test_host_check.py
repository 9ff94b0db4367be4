"""The names under which a server answers."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from chemspec.system.host_check import AllowedHosts, HostCheck, parse_host_header

HERE = socket.gethostname().lower()


@pytest.mark.parametrize(
    ("host", "added", "asked", "allowed"),
    [
        *[
            ("127.0.0.1", (), name, True)
            for name in ("localhost", "127.0.0.1", "[::1]", "LOCALHOST.", "localhost:8501")
        ],
        *[("127.0.0.1", (), name, False) for name in ("evil.example", "localhost.evil.example", "10.0.0.7", "", HERE)],
        *[("127.0.0.1", (), name, False) for name in ("a@localhost", "localhost/x", "localhost:x", "localhost:99999")],
        *[("localhost", (), name, False) for name in ("evil.example", "10.0.0.7")],
        *[("0.0.0.0", (), name, True) for name in ("localhost", "10.0.0.7:8501", "[fe80::1]:80", HERE)],
        *[("0.0.0.0", (), name, False) for name in ("evil.example", "10.0.0.7.evil.example", f"x{HERE}")],
        *[("::", (), name, True) for name in ("[::1]:8501", "10.0.0.7")],
        *[("gpu-box", (), name, True) for name in ("gpu-box:8000", "localhost", "10.0.0.7")],
        ("127.0.0.1", ("chem.example.org",), "Chem.Example.Org:443", True),
        ("127.0.0.1", ("chem.example.org",), "sub.chem.example.org", False),
        ("127.0.0.1", ("*.example.org",), "a.b.example.org", True),
        ("127.0.0.1", ("*.example.org",), "evil-example.org", False),
        ("127.0.0.1", ("*.example.org",), "example.org", False),
        ("127.0.0.1", ("*",), "evil.example", True),
    ],
)
def test_a_server_answers_under_its_names_only(host: str, added: tuple[str, ...], asked: str, allowed: bool) -> None:
    assert AllowedHosts.of(host, added).allow(parse_host_header(asked.lower())) is allowed


@pytest.mark.parametrize("name", ["https://chem.example.org", "chem.example.org:443", "a b", "", "*.*", "é.example"])
def test_what_is_no_name_is_told(name: str) -> None:
    with pytest.raises(ValueError, match="give a name such as"):
        AllowedHosts.of("127.0.0.1", (name,))


def passed_on(allowed: AllowedHosts, headers: dict[str, str], **how: Any) -> list[tuple[bytes, bytes]] | str:
    """The headers that an application sees, or for what reason it sees none."""
    seen: list[Any] = []
    reasons: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.extend(scope["headers"])

    async def send(message: Any) -> None:
        assert message.get("status", 403) == 403

    guard = HostCheck(app, allowed, refused=reasons.append, **{"links": True, **how})
    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    asyncio.run(guard({"type": "http", "headers": pairs}, None, send))  # type: ignore[arg-type]
    assert bool(seen) != bool(reasons)
    return seen or reasons[0]


OWN = AllowedHosts.of("127.0.0.1", ("chem.example.org",))


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ({"host": "evil.example:8501", "origin": "http://evil.example:8501"}, "host"),  # rebound
        ({"host": "127.0.0.1:8501", "origin": "http://evil.example"}, "origin"),
        ({"host": "127.0.0.1:8501", "origin": "http://127.0.0.1:3000"}, "origin"),  # another server of this machine
        ({"host": "127.0.0.1:8501", "origin": "null"}, "origin"),
        ({"host": "127.0.0.1:8501", "origin": "http://[::1"}, "origin"),
        ({"host": "127.0.0.1:8501", "sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}, "cross_site"),
        ({"host": "127.0.0.1:8501", "sec-fetch-site": "same-site", "sec-fetch-mode": "cors"}, "cross_site"),
    ],
)
def test_what_a_page_of_another_site_sends_is_refused(headers: dict[str, str], reason: str) -> None:
    assert passed_on(OWN, headers) == reason
    if reason != "host":
        assert passed_on(AllowedHosts.of("127.0.0.1", ("*",)), headers) == reason


def test_links_from_other_sites_lead_to_pages_and_to_no_service() -> None:
    link = {"host": "localhost", "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    assert isinstance(passed_on(OWN, link), list)
    assert passed_on(OWN, link, links=False) == "cross_site"


def test_a_page_of_an_added_name_asks_under_that_name_whatever_host_its_proxy_writes() -> None:
    own = {"host": "127.0.0.1:8501", "origin": "http://127.0.0.1:8501"}
    assert dict(passed_on(OWN, own))[b"host"] == b"127.0.0.1:8501"
    proxied = {"host": "127.0.0.1:8501", "origin": "https://chem.example.org:444", "sec-fetch-site": "cross-site"}
    assert dict(passed_on(OWN, proxied))[b"host"] == b"chem.example.org:444"
