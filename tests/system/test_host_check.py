"""The names under which a server answers."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest
from helpers.case_tables import table

from chemspec.system.host_check import AllowedHosts, HostCheck, parse_host_header


@pytest.mark.parametrize(("host", "added", "asked", "allowed"), table("system/names_of_servers"))
def test_a_server_answers_under_its_names_only(
    host: str, added: tuple[str, ...], asked: tuple[str, ...], allowed: bool
) -> None:
    hosts = AllowedHosts.of(host, added)
    for name in asked:
        assert hosts.allow(parse_host_header(name.format(here=socket.gethostname()).lower())) is allowed, name


@pytest.mark.parametrize("name", ["https://chem.example.org", "chem.example.org:443", "a b", "", "*.*", "é.example"])
def test_what_is_no_name_is_told(name: str) -> None:
    with pytest.raises(ValueError, match="give a name such as"):
        AllowedHosts.of("127.0.0.1", (name,))


def passed_on(
    allowed: AllowedHosts, headers: dict[str, str], *twice: tuple[str, str], **how: Any
) -> list[tuple[bytes, bytes]] | str:
    """The headers that an application sees, or for what reason it sees none."""
    seen: list[Any] = []
    reasons: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.extend(scope["headers"])

    async def send(message: Any) -> None:
        assert message.get("status", 403) == 403

    guard = HostCheck(app, allowed, refused=reasons.append, **{"links": True, **how})
    pairs = [(name.encode(), value.encode()) for name, value in (*headers.items(), *twice)]
    asyncio.run(guard({"type": "http", "headers": pairs}, None, send))  # type: ignore[arg-type]
    assert bool(seen) != bool(reasons)
    return seen or reasons[0]


OWN = AllowedHosts.of("127.0.0.1", ("chem.example.org",))


@pytest.mark.parametrize(("headers", "reason"), table("system/requests_of_other_sites"))
def test_what_a_page_of_another_site_sends_is_refused(headers: dict[str, str], reason: str) -> None:
    assert passed_on(OWN, headers) == reason
    if reason != "host":
        assert passed_on(AllowedHosts.of("127.0.0.1", ("*",)), headers) == reason


@pytest.mark.parametrize("name", ["host", "origin"])
def test_a_second_host_or_origin_is_refused_even_if_both_are_good(name: str) -> None:
    own = {"host": "127.0.0.1:8501", "origin": "http://127.0.0.1:8501"}
    assert passed_on(OWN, own, (name, own[name])) == "host"


def test_a_page_under_an_ipv6_address_asks_its_own_server() -> None:
    own = {"host": "[::1]:8501", "origin": "http://[::1]:8501"}
    assert dict(passed_on(OWN, own))[b"host"] == b"[::1]:8501"


def test_links_from_other_sites_lead_to_pages_and_to_no_service() -> None:
    link = {"host": "localhost", "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    assert isinstance(passed_on(OWN, link), list)
    assert passed_on(OWN, link, links=False) == "cross_site"


def test_a_page_of_an_added_name_asks_under_that_name_whatever_host_its_proxy_writes() -> None:
    own = {"host": "127.0.0.1:8501", "origin": "http://127.0.0.1:8501"}
    assert dict(passed_on(OWN, own))[b"host"] == b"127.0.0.1:8501"
    proxied = {"host": "127.0.0.1:8501", "origin": "https://chem.example.org:444", "sec-fetch-site": "cross-site"}
    assert dict(passed_on(OWN, proxied))[b"host"] == b"chem.example.org:444"
