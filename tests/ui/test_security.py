"""Headers, a log without visitors, and the login."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from paths import ROOT

pytest.importorskip("streamlit")

from streamlit.testing.v1 import AppTest

from chemspec.ui.common import login, security

AUTH = {"redirect_uri": "http://localhost/oauth2callback", "cookie_secret": "x", "client_id": "x", "client_secret": "x"}


def sent(*own: tuple[bytes, bytes]) -> dict[str, str]:
    """The headers of a response of an application behind `Headers`."""
    found: list[Any] = []

    async def inner(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": list(own)})
        await send({"type": "http.response.body", "body": b"x"})

    async def keep(message: Any) -> None:
        found.append(message)

    asyncio.run(security.Headers(inner)({"type": "http"}, None, keep))  # type: ignore[arg-type]
    assert found[1]["body"] == b"x"
    return {name.decode(): value.decode() for name, value in found[0]["headers"]}


def test_every_response_has_the_headers_and_keeps_its_own() -> None:
    headers = sent((b"content-type", b"text/html"), (b"Referrer-Policy", b"origin"))
    assert headers["content-type"] == "text/html" and headers["Referrer-Policy"] == "origin"
    assert "referrer-policy" not in headers
    policy = dict(part.split(" ", 1) for part in headers["content-security-policy"].split("; "))
    assert policy["default-src"] == policy["frame-ancestors"] == policy["form-action"] == "'self'"
    assert policy["object-src"] == "'none'"
    assert not [
        source for sources in policy.values() for source in sources.split() if source in ("*", "https:", "http:")
    ]


def test_the_log_tells_kind_and_place_of_an_error_and_not_what_was_asked(caplog: pytest.LogCaptureFixture) -> None:
    security.quiet_log()
    security.quiet_log()
    logger = logging.getLogger("streamlit.error_util")
    assert logger.filters.count(security._without_messages) == 1
    secret = "CC(C)(C)OC(=O)NC"
    try:
        raise ValueError(f"over {secret}")
    except ValueError as error:
        record = logger.makeRecord(logger.name, logging.ERROR, "x", 1, "Uncaught app execution", (), None)
        record.exc_info = (type(error), error, error.__traceback__)
    assert logger.filter(record)
    text = logging.Formatter().format(record)
    assert secret not in text and "ValueError" in text and "test_security.py:" in text


def opened(
    wanted: str, monkeypatch: pytest.MonkeyPatch, user: dict[str, Any] | None, *, provider: bool = True
) -> AppTest:
    monkeypatch.setenv("CHEMSPEC_LOGIN", wanted)
    if user is not None:
        monkeypatch.setattr(login, "_user", lambda: user)
    app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=240)
    if provider:
        app.secrets["auth"] = AUTH
    app.run()
    assert not app.exception
    return app


@pytest.mark.ui
def test_without_the_setting_nobody_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    assert opened("", monkeypatch, None).title[0].value == "Predict"


@pytest.mark.ui
@pytest.mark.parametrize("page", ["", "batch", "plan"])
def test_who_has_not_logged_in_sees_a_button_and_nothing_else(monkeypatch: pytest.MonkeyPatch, page: str) -> None:
    asked: list[bool] = []
    monkeypatch.setattr(login, "_login", lambda: asked.append(True))
    app = opened("1", monkeypatch, None)
    if page:
        app.switch_page(f"pages/{page}.py").run()
    assert [one.label for one in app.button] == ["Log in"] and [one.value for one in app.title] == ["chemspec"]
    app.button[0].click().run()
    assert asked == [True]


@pytest.mark.ui
def test_a_login_that_is_not_set_up_lets_nobody_in(monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened("1", monkeypatch, {}, provider=False)
    assert not app.button and "no provider is set up" in app.error[0].value


@pytest.mark.ui
@pytest.mark.parametrize(
    ("wanted", "user", "enters"),
    [
        ("1", {"sub": "x"}, True),
        ("@example.org", {"email": "Jane@Example.org"}, True),
        ("joe@example.com, jane@example.com", {"email": "jane@example.com", "email_verified": True}, True),
        ("@example.org", {"email": "jane@example.com"}, False),
        ("@example.org", {"email": "jane@evil-example.org"}, False),
        ("@example.org", {"email": "jane@example.org", "email_verified": False}, False),
        ("@example.org", {"sub": "x"}, False),
    ],
)
def test_who_has_logged_in_enters_if_invited(
    monkeypatch: pytest.MonkeyPatch, wanted: str, user: dict[str, Any], enters: bool
) -> None:
    app = opened(wanted, monkeypatch, {"is_logged_in": True, **user})
    assert app.title[0].value == ("Predict" if enters else "chemspec")
    assert bool(app.error) != enters
