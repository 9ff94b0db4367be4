"""Headers, a log without visitors, and the login."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import tomllib
from base64 import urlsafe_b64decode
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from helpers import pages
from helpers.case_tables import table
from helpers.paths import ROOT

pytest.importorskip("streamlit")

from streamlit.runtime.media_file_storage import MediaFileKind
from streamlit.runtime.memory_media_file_storage import MemoryMediaFileStorage
from streamlit.testing.v1 import AppTest

from chemspec.asset_files import app_script
from chemspec.jobs import jobs, store, uploads
from chemspec.jobs.uploads import Sheet
from chemspec.settings import DecodeSettings
from chemspec.ui.common import escaping, login
from chemspec.ui.launch import middleware

AUTH = {"redirect_uri": "http://localhost/oauth2callback", "cookie_secret": "x", "client_id": "x", "client_secret": "x"}


def sent(*own: tuple[bytes, bytes]) -> dict[str, str]:
    """The headers of a response of an application behind `SecurityHeaders`; without own ones it leaves them out."""
    found: list[Any] = []

    async def inner(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200} | ({"headers": list(own)} if own else {}))
        await send({"type": "http.response.body", "body": b"x"})

    async def keep(message: Any) -> None:
        found.append(message)

    asyncio.run(middleware.SecurityHeaders(inner)({"type": "http"}, None, keep))  # type: ignore[arg-type]
    assert found[1]["body"] == b"x"
    return {name.decode(): value.decode() for name, value in found[0]["headers"]}


def test_every_response_has_the_headers_and_keeps_its_own() -> None:
    headers = sent((b"content-type", b"text/html"), (b"referrer-policy", b"origin"))
    assert headers["content-type"] == "text/html" and headers["referrer-policy"] == "origin"
    policy = dict(rule.split(" ", 1) for rule in headers["content-security-policy"].split("; "))
    sources = {source for rule in policy.values() for source in rule.split()}
    assert sources == {"'self'", "'none'", "'unsafe-inline'", "'unsafe-eval'", "blob:", "data:"}, "no other host"
    assert all(policy[rule] == "'self'" for rule in ("default-src", "frame-ancestors", "base-uri", "form-action"))
    assert policy["object-src"] == "'none'" and "data:" not in policy["script-src"]
    assert headers["x-content-type-options"] == "nosniff"
    assert sent()["referrer-policy"] == "no-referrer"


def test_links_carry_128_random_bits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CHEMSPEC_HOME", str(tmp_path))
    sheet = Sheet(("smiles",), (("C",),))
    facts = {"file": "f.csv", "column": 0, "model": "m", "digest": "d", "task": "retro", "settings": DecodeSettings()}
    for new in (store.new_id, lambda: jobs.create_job(sheet, **facts).id):  # type: ignore[arg-type]
        links = [urlsafe_b64decode(new() + "==") for _ in range(40)]
        assert all(len(link) == 16 for link in links)
        bits = [sum(link[at // 8] >> at % 8 & 1 for link in links) for at in range(128)]
        assert min(bits) > 0 and max(bits) < 40  # none of them is fixed


def test_the_log_tells_kind_and_place_of_an_error_and_not_what_was_asked(caplog: pytest.LogCaptureFixture) -> None:
    middleware.hide_log_messages()
    middleware.hide_log_messages()
    logger = logging.getLogger("streamlit.error_util")
    assert logger.filters.count(middleware.strip_messages) == 1
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
        monkeypatch.setattr(login.st, "user", user)
    app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=240)
    if provider:
        app.secrets["auth"] = AUTH
    app.run()
    assert not app.exception
    return app


@pytest.mark.ui
@pytest.mark.parametrize("page", ["", "batch", "plan"])
def test_who_has_not_logged_in_sees_a_button_and_nothing_else(monkeypatch: pytest.MonkeyPatch, page: str) -> None:
    asked: list[bool] = []
    monkeypatch.setattr(login.st, "login", lambda: asked.append(True))
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
        ("", None, True),  # without the setting nobody is asked
        ("1", {"sub": "x"}, True),
        ("@example.org", {"email": "Jane@Example.org", "email_verified": True}, True),
        ("@example.org", {"email": "jane@example.org", "email_verified": False}, False),
        ("@example.org", {"sub": "x"}, False),
    ],
)
def test_who_has_logged_in_enters_if_invited(
    monkeypatch: pytest.MonkeyPatch, wanted: str, user: dict[str, Any] | None, enters: bool
) -> None:
    app = opened(wanted, monkeypatch, user and {"is_logged_in": True, **user})
    assert app.title[0].value == ("Predict" if enters else "chemspec")
    assert bool(app.error) != enters


@pytest.mark.parametrize(("wanted", "email", "enters"), table("ui/invited_addresses"))
def test_an_address_and_none_of_its_neighbours_may_enter(wanted: str, email: str, enters: bool) -> None:
    assert login.is_allowed({"email": email, "email_verified": True}, wanted) is enters


@pytest.mark.parametrize(("claim", "setting", "enters"), table("ui/verified_addresses"))
def test_an_address_counts_where_the_provider_has_verified_it(
    monkeypatch: pytest.MonkeyPatch, claim: dict[str, Any], setting: str, enters: bool
) -> None:
    monkeypatch.setenv("CHEMSPEC_LOGIN_UNVERIFIED", setting)
    assert login.is_allowed({"email": "jane@example.org", **claim}, "@example.org") is enters


def test_the_settings_keep_errors_and_names_on_this_machine() -> None:
    settings = tomllib.loads((app_script().parent / ".streamlit" / "config.toml").read_text(encoding="utf-8"))
    assert settings["client"]["showErrorLinks"] is False  # buttons that send an error to a search engine
    assert settings["server"]["fileWatcherType"] == "none"  # it looks at every source file again and again
    assert settings["server"]["allowedHosts"] == ["127.0.0.1", "localhost"]
    assert settings["server"]["maxUploadSize"] == uploads.MAX_STOCK_MB
    assert settings["browser"]["gatherUsageStats"] is False


def test_the_secrets_of_a_login_lie_where_the_app_looks_and_git_does_not() -> None:
    folder = app_script().parent  # to which `chemspec app` changes
    assert (folder / ".streamlit" / "config.toml").is_file()
    code = "from streamlit import config; print(*config.get_option('secrets.files'), sep='\\n')"
    shown = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True)
    files = [Path(line) for line in shown.stdout.splitlines()]
    assert files == [base / ".streamlit" / "secrets.toml" for base in (Path.home(), folder)]
    assert "/.streamlit/secrets.toml" in (ROOT / ".gitignore").read_text().splitlines()


def test_the_address_of_a_download_is_a_hash_of_it() -> None:
    storages = [MemoryMediaFileStorage("/media") for _ in range(2)]
    ids = [storage.load_and_get_id(b"x", "text/csv", MediaFileKind.DOWNLOADABLE, "x.csv") for storage in storages]
    assert ids[0] == ids[1] != storages[0].load_and_get_id(b"y", "text/csv", MediaFileKind.DOWNLOADABLE, "x.csv")


# --- uploads ---------------------------------------------------------------------------------------


class Uploads:
    """Streamlit's store of uploaded files behind the limits; a file is kept when its request has ended."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.kept: dict[str, dict[str, Any]] = {}
        self.refused: list[str] = []
        self.waits = asyncio.Event()
        monkeypatch.setattr(middleware, "uploaded_files", lambda: self.kept)
        self.limits = middleware.UploadLimits(self._app, self.refused.append)  # type: ignore[arg-type]

    async def _app(self, scope: Any, receive: Any, send: Any) -> None:
        await self.waits.wait()
        session, name = scope["path"].rsplit("/", 2)[1:]
        whole, more = b"", scope["method"] == "PUT"
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ConnectionError("as Starlette does")
            whole, more = whole + message["body"], message["more_body"]
        self.kept.setdefault(session, {})[name] = SimpleNamespace(data=whole)
        await send({"type": "http.response.start", "status": 204, "headers": []})

    async def put(
        self, session: str, name: str, *, method: str = "PUT", parts: Any = (b"x" * 1000,), told: int | None = None
    ) -> int:
        """Send a file in parts, or with a number of seconds between them; returns the status."""
        sent: list[Any] = []
        coming = iter([*parts, None])

        async def send(message: Any) -> None:
            sent.append(message)

        async def receive() -> Any:
            while isinstance(part := next(coming), float | asyncio.Event):
                await (part.wait() if isinstance(part, asyncio.Event) else asyncio.sleep(part))
            return {"type": "http.request", "body": part or b"", "more_body": part is not None}

        path = f"/base/_stcore/upload_file/{session}/{name}"
        headers = [] if told is None else [(b"content-length", b"%d" % told)]
        await self.limits({"type": "http", "method": method, "path": path, "headers": headers}, receive, send)
        return int(sent[0]["status"])


def test_one_visit_keeps_so_many_files_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CHEMSPEC_LOGIN", raising=False)

    async def visit() -> None:
        uploads, most = Uploads(monkeypatch), middleware.VISIT_FILES
        at_once = [asyncio.create_task(uploads.put("a", f"f{number}")) for number in range(2 * most)]
        await asyncio.sleep(0)  # all have begun, none has ended
        uploads.waits.set()
        assert sorted([await one for one in at_once]) == [204] * most + [413] * most
        assert await uploads.put("a", "another") == 413
        assert await uploads.put("a", "f0") == 204  # once more
        assert await uploads.put("b", "f0") == 204  # of another visit
        del uploads.kept["a"]["f0"]
        assert await uploads.put("a", "another") == 204
        assert uploads.refused == ["upload"] * (most + 1)
        monkeypatch.setattr(middleware, "ALL_BYTES", 5000)
        assert await uploads.put("c", "f0") == 503
        assert await uploads.put("c", "f0", method="DELETE") == 204

    asyncio.run(visit())


def test_what_arrives_counts_from_its_first_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many visitors at once; what is announced and does not come keeps nobody out."""
    monkeypatch.delenv("CHEMSPEC_LOGIN", raising=False)
    monkeypatch.setattr(middleware, "ALL_BYTES", 10_000)

    async def visit() -> None:
        uploads, rest = Uploads(monkeypatch), asyncio.Event()
        uploads.waits.set()
        slow = [asyncio.create_task(uploads.put(f"v{k}", "f", parts=(b"x" * 900, rest, b"x"))) for k in range(9)]
        silent = [asyncio.create_task(uploads.put(f"w{k}", "f", parts=(rest,), told=1000)) for k in range(9)]
        await asyncio.sleep(0.01)
        assert uploads.limits.bytes_held() == 8100
        assert await uploads.put("a", "f", told=2000) == 503, "at once"
        assert await uploads.put("a", "f", parts=(b"x" * 1000, b"x" * 1000)) == 503, "when it is too much"
        assert await uploads.put("a", "f", parts=(b"x" * 1000,), told=1000) == 204
        rest.set()
        assert [await one for one in (*slow, *silent)] == [204] * 18
        assert uploads.limits.bytes_held() == 9 * 901 + 1000 and not uploads.limits.coming
        assert uploads.refused == ["upload"] * 2

    asyncio.run(visit())


@pytest.mark.parametrize(("silent", "whole"), [(0.05, 600.0), (60.0, 0.05)])
def test_a_file_that_arrives_too_slowly_is_ended(monkeypatch: pytest.MonkeyPatch, silent: float, whole: float) -> None:
    monkeypatch.delenv("CHEMSPEC_LOGIN", raising=False)
    monkeypatch.setattr(middleware, "SILENT_SECONDS", silent)
    monkeypatch.setattr(middleware, "WHOLE_SECONDS", whole)

    async def visit() -> None:
        uploads = Uploads(monkeypatch)
        uploads.waits.set()
        assert await uploads.put("a", "f", parts=(b"x", 30.0)) == 408
        assert await uploads.put("a", "f", parts=(b"x", *[0.02] * 1000) if whole < 1 else (b"x", 30.0)) == 408
        assert await uploads.put("a", "f", parts=(b"x", 0.001, b"x")) == 204
        assert not uploads.limits.coming

    asyncio.run(visit())


# --- WebSockets --------------------------------------------------------------------------------------


class Sockets:
    """A WebSocket application behind the limits, which reads until its client leaves."""

    def __init__(self, most: int = 3) -> None:
        self.refused: list[str] = []
        self.limits = middleware.SocketLimits(self._app, self.refused.append, most)

    async def _app(self, scope: Any, receive: Any, send: Any) -> None:
        assert (await receive())["type"] == "websocket.connect"
        await send({"type": "websocket.accept"})
        while (await receive())["type"] != "websocket.disconnect":
            pass

    async def open(self, address: str, *parts: Any, protocols: str = "streamlit") -> list[str]:
        """Open one, and send messages, or wait for events or seconds; returns what comes back."""
        sent: list[Any] = []
        coming = iter([{"type": "websocket.connect"}, *parts, {"type": "websocket.disconnect"}])

        async def receive() -> Any:
            while isinstance(part := next(coming), float | asyncio.Event):
                await (part.wait() if isinstance(part, asyncio.Event) else asyncio.sleep(part))
            return part if isinstance(part, dict) else {"type": "websocket.receive", "text": part}

        async def send(message: Any) -> None:
            sent.append(message)

        headers = [(b"sec-websocket-protocol", protocols.encode())]
        scope = {"type": "websocket", "client": (address, 1), "headers": headers}
        await self.limits(scope, receive, send)
        return [message["type"].removeprefix("websocket.") for message in sent]


def test_of_one_address_so_many_websockets_are_open_and_no_more() -> None:
    async def visit() -> None:
        sockets, end = Sockets(3), asyncio.Event()
        held = [asyncio.create_task(sockets.open("1.2.3.4", "rerun", end)) for _ in range(3)]
        await asyncio.sleep(0.01)
        assert await sockets.open("1.2.3.4", "rerun") == ["close"]
        assert await sockets.open("5.6.7.8", "rerun") == ["accept"]
        end.set()
        assert [await one for one in held] == [["accept"]] * 3
        assert await sockets.open("1.2.3.4", "rerun") == ["accept"]
        assert sockets.refused == ["websockets"] and not sockets.limits.open_sockets

    asyncio.run(visit())


def test_a_websocket_without_a_message_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(middleware, "FIRST_SECONDS", 0.05)

    async def visit() -> None:
        sockets = Sockets()
        assert await sockets.open("1.2.3.4", 30.0) == ["accept", "close"]
        assert await sockets.open("1.2.3.4", "rerun", 0.2, "rerun") == ["accept"], "one that has spoken may be silent"
        assert await sockets.open("1.2.3.4", 0.2, protocols="streamlit, , abc") == ["accept"], "it returns"
        assert await sockets.open("1.2.3.4", 30.0, protocols="streamlit, abc, ") == ["accept", "close"]
        assert sockets.refused == ["silent_websockets"] * 2

    asyncio.run(visit())


def test_nothing_is_uploaded_before_a_login(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHEMSPEC_LOGIN", "1")
    monkeypatch.setattr(login, "_admitted", {"in"})

    async def visit() -> None:
        uploads = Uploads(monkeypatch)
        uploads.waits.set()
        assert await uploads.put("out", "f") == 401
        assert await uploads.put("in", "f") == 204

    asyncio.run(visit())


# --- what a link or somebody's text says -------------------------------------------------------------

LURE = "[Log in again](https://evil.example)"
SAID = ("warning", "error", "info", "success", "markdown", "caption", "title", "header", "subheader")


@pytest.mark.ui
@pytest.mark.parametrize(("page", "told"), [("predict", True), ("learn", True), ("batch", False), ("plan", False)])
def test_a_link_puts_no_link_into_what_a_page_says(page: str, told: bool) -> None:
    names = ("task", "smi", "job", "plan", "use", "drop", "keep", "guide", "decoder", "n", "drafts")
    app = pages.open_page(page, dict.fromkeys(names, LURE))
    said = [str(one.value) for kind in SAID for one in getattr(app, kind)]
    assert not [text for text in said if LURE in text or "](https://evil" in text]
    assert any(escaping.plain_text(LURE) in one.value for one in app.warning) is told


@pytest.mark.parametrize(("text", "escaped"), table("ui/escaped_markdown"))
def test_markdown_of_strangers_stays_text(text: str, escaped: str) -> None:
    assert escaping.plain_text(text) == escaped
