"""The app's server as `chemspec app` starts it: who may ask, what it asks of others, and how it ends. Real sockets."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from helpers import rawhttp
from helpers.app_server import wait_for_address
from helpers.paths import ROOT
from helpers.serving import HURRY, until
from helpers.watched import Watch

pytest.importorskip("streamlit")

from chemspec.asset_files import assets_folder
from chemspec.system import connections
from chemspec.ui.common import nav
from chemspec.ui.launch import server

PROXY = "chem.example.org"
COMMAND = ("chemspec.cli", "app", "--headless", "--port", "0")
STREAMLIT = ("streamlit", "run", "app.py", "--server.headless", "true", "--server.port", "0")


@dataclass
class App:
    """A server in a process of its own."""

    process: subprocess.Popen[bytes]
    port: int
    log: Path
    watch: Watch

    def handshake(self, host: str, origin: str | None) -> int:
        """Ask for the WebSocket as a browser does; returns the status."""
        headers = {"Host": host, **rawhttp.WEBSOCKET, **({"Origin": origin} if origin else {})}
        return rawhttp.get(self.port, "/_stcore/stream", headers)[0]


@contextmanager
def started(folder: Path, *options: str, command: tuple[str, ...] = COMMAND, files: int = 0) -> Iterator[App]:
    """Run `chemspec app` with these options, watched; `files` are as many as it may open."""
    watch = Watch(folder / "hook")
    log = folder / "log"
    settings = {**watch.environment, "CHEMSPEC_WARM_UP": "0", "CHEMSPEC_HOME": str(folder / "home")}
    limited = ["bash", "-c", f'ulimit -n {files} && exec "$@"', "bash"] if files else []
    words = [*limited, sys.executable, "-m", *command, *options]
    with log.open("wb") as out:
        process = subprocess.Popen(words, stdout=out, stderr=out, cwd=ROOT, env=settings)
    try:
        yield App(process, int(wait_for_address(log, process).rpartition(":")[2]), log, watch)
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    folder = tmp_path_factory.mktemp("app")
    with started(folder, "--host", "0.0.0.0", "--allowed-host", PROXY) as running:
        yield running


@pytest.mark.parametrize(
    "host", ["127.0.0.1", pytest.param("203.0.113.7", marks=pytest.mark.slow)]
)  # in use; no address of this machine, whose process takes a second more
def test_an_address_that_cannot_be_used_is_told_in_one_line(app: App, host: str) -> None:
    command = [sys.executable, "-m", *COMMAND[:-1], str(app.port), "--host", host]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    advice = "choose another --port or --host"
    assert done.stderr == f"error: port {app.port} of {host} is in use or unusable; {advice}\n"


def test_only_pages_of_the_app_itself_open_its_websocket(app: App) -> None:
    own = f"127.0.0.1:{app.port}"
    for _ in range(2):  # not only the first time
        assert app.handshake(own, f"http://{own}") == 101
        assert app.handshake(own, None) == 101
        assert app.handshake(f"evil.example:{app.port}", f"http://evil.example:{app.port}") == 403  # rebound
        assert app.handshake(own, "http://evil.example") == 403
        assert app.handshake(own, "http://127.0.0.1:3000") == 403
        assert app.handshake(own, "null") == 403


def test_a_proxy_may_change_the_host_or_keep_it(app: App) -> None:
    assert app.handshake(PROXY, f"https://{PROXY}") == 101
    assert app.handshake(f"127.0.0.1:{app.port}", f"https://{PROXY}") == 101
    assert app.handshake(f"127.0.0.1:{app.port}", f"https://{PROXY}.evil.example") == 403


@pytest.mark.parametrize("path", ["/media/file.csv", "/_stcore/upload_file/session/file", "/static/file.js"])
def test_files_are_sent_and_taken_under_the_names_of_the_server_only(app: App, path: str) -> None:
    for method in ("GET", "PUT", "DELETE"):
        own = {"Host": f"127.0.0.1:{app.port}", "Content-Length": "0"}
        answered = rawhttp.get(app.port, path, own, method=method)[1]
        for header, value in (("Host", "evil.example"), ("Origin", "http://evil.example")):
            status, text = rawhttp.get(app.port, path, {**own, header: value}, method=method)
            assert status == 403 and "--allowed-host" in text and "--allowed-host" not in answered


@pytest.mark.parametrize("path", ["/", "/collections", "/_stcore/health", "/_stcore/host-config"])
def test_pages_are_sent_under_the_names_of_the_server_only(app: App, path: str) -> None:
    for host in (f"127.0.0.1:{app.port}", "localhost", "10.1.2.3", socket.gethostname(), PROXY):
        status, text = rawhttp.get(app.port, path, {"Host": host})
        assert status == 200 and "content-security-policy" in text and "referrer-policy: no-referrer" in text
    status, text = rawhttp.get(app.port, path, {"Host": "evil.example", "Accept": "text/html"})
    assert status == 403 and "--allowed-host evil.example" in text and "content-security-policy" in text
    own = {"Host": f"127.0.0.1:{app.port}", "Sec-Fetch-Site": "cross-site"}
    assert rawhttp.get(app.port, path, {**own, "Sec-Fetch-Mode": "navigate"})[0] == 200
    assert rawhttp.get(app.port, path, {**own, "Sec-Fetch-Mode": "no-cors"})[0] == 403
    assert rawhttp.get(app.port, path, {**own, "Origin": "http://evil.example"})[0] == 403


def test_every_page_comes_with_its_styles_and_the_first_by_its_name_too(app: App) -> None:
    styles = [(assets_folder() / "web" / name).read_bytes().decode("latin-1") for name in server.EARLY]
    for path in ("/", *(f"/{name}" for name, _ in nav.PAGES[1:])):
        status, text = rawhttp.get(app.port, path, {"Host": "localhost"})
        early = text.partition("<body><style>")[2]
        assert status == 200 and all(style in early for style in styles)
    status, text = rawhttp.get(app.port, f"/{nav.PAGES[0][0]}?task=retro&smi=CC%23N", {"Host": "localhost"})
    assert status == 307 and "location: ./?task=retro&smi=CC%23N" in text


def test_headers_without_an_end_are_refused(app: App) -> None:
    with rawhttp.connected(app.port) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Value: ")
        rawhttp.pour(connection, 1000 * b"x", 1_000_000)
        assert rawhttp.answer(connection)[0] in (431, 400, 0)
    until(lambda: "header_bytes" in app.log.read_text(), "the line in the log")
    assert "127.0.0.1" not in app.log.read_text()


def test_connections_without_a_request_give_way_and_a_websocket_does_not(tmp_path: Path) -> None:
    with started(tmp_path, files=160) as app, rawhttp.connected(app.port) as websocket, ExitStack() as stack:
        headers = {"Host": f"127.0.0.1:{app.port}", **rawhttp.WEBSOCKET}
        websocket.sendall(rawhttp.head("/_stcore/stream", headers))
        assert rawhttp.answer(websocket)[0] == 101
        for _ in range(160):
            slow = stack.enter_context(rawhttp.connected(app.port))
            slow.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n")
        assert rawhttp.get(app.port, "/_stcore/health", {"Host": "localhost"})[0] == 200
        assert re.search(r"refused: .*connections", app.log.read_text())
        websocket.sendall(b"\x89\x80" + bytes(4))  # a ping
        received = b""
        while b"\x8a\x00" not in received:
            received += (piece := websocket.recv(10_000))
            assert piece, "closed"


def test_one_visitors_websockets_leave_room_for_others(tmp_path: Path) -> None:
    with started(tmp_path, files=200) as app, ExitStack() as stack:
        headers = {"Host": f"127.0.0.1:{app.port}", **rawhttp.WEBSOCKET}
        statuses = []
        for _ in range(150):
            websocket = stack.enter_context(rawhttp.connected(app.port))
            websocket.sendall(rawhttp.head("/_stcore/stream", headers))
            statuses.append(rawhttp.answer(websocket)[0])
        opened = statuses.count(101)
        assert 10 <= opened <= 50 and statuses == [101] * opened + [403] * (150 - opened)
        for path in ("/", "/_stcore/health"):
            assert rawhttp.get(app.port, path, {"Host": "localhost"})[0] == 200
        assert re.search(r"refused: .*websockets", app.log.read_text())


@pytest.mark.parametrize(("size", "code"), [(connections.MESSAGE_BYTES + 1, 1009), (200_000_000, 1009), (3, 1002)])
def test_a_message_of_a_websocket_has_a_limit(app: App, size: int, code: int) -> None:
    headers = {"Host": f"127.0.0.1:{app.port}", **rawhttp.WEBSOCKET}
    with rawhttp.connected(app.port) as websocket:
        websocket.sendall(rawhttp.head("/_stcore/stream", headers))
        assert rawhttp.answer(websocket)[0] == 101
        # A binary frame, masked with zeros; the three bytes are no message of Streamlit.
        websocket.sendall(b"\x82\xff" + size.to_bytes(8, "big") + bytes(4) + b"\xff" * min(size, 3))
        received = b""
        while b"\x88" not in received or len(received.partition(b"\x88")[2]) < 3:
            received += (part := websocket.recv(1000))
            assert part, received
        assert received.partition(b"\x88")[2][1:3] == code.to_bytes(2, "big")


def test_neither_streamlits_numbers_nor_the_servers_name_are_shown(app: App) -> None:
    for path in ("/_stcore/metrics", "/_stcore/metrics/", "/_stcore/metrics?families=session_state"):
        assert rawhttp.get(app.port, path, {"Host": "localhost"})[0] == 404
    for path in ("/", "/_stcore/health", "/_stcore/metrics"):
        assert "\r\nserver:" not in rawhttp.get(app.port, path, {"Host": "localhost"})[1].lower()


def test_a_wish_for_another_protocol_costs_no_request_its_body(app: App) -> None:
    second = rawhttp.head("/_stcore/health", {"Host": "localhost"})
    headers = {"Host": "localhost", "Connection": "Upgrade", "Upgrade": "h2c", "Content-Length": str(len(second))}
    with rawhttp.connected(app.port) as connection:
        connection.sendall(rawhttp.head("/_stcore/health", headers))
        time.sleep(0.01)  # a segment apart
        connection.sendall(second)
        assert rawhttp.answer(connection)[0] == 200
        connection.sendall(rawhttp.head("/_stcore/metrics", {"Host": "localhost"}))
        status, text = rawhttp.answer(connection)
        assert status == 404 and text.count("HTTP/1.1 ") == 1


def test_what_streamlit_starts_itself_checks_the_websocket_only(tmp_path: Path) -> None:
    with started(tmp_path, command=STREAMLIT) as app:
        own = f"127.0.0.1:{app.port}"
        assert app.handshake(own, f"http://{own}") == 101
        assert app.handshake(f"evil.example:{app.port}", f"http://evil.example:{app.port}") == 403
        assert app.handshake(own, "http://evil.example") == 403
        status, text = rawhttp.get(app.port, "/", {"Host": "evil.example"})
        assert status == 200 and "content-security-policy" not in text


def test_nothing_is_asked_of_another_machine(app: App) -> None:
    assert rawhttp.listening(app.port)  # as asked for
    assert rawhttp.get(app.port, "/", {"Host": "localhost"})[0] == 200
    for host, origin in (("evil.example", "http://evil.example"), ("localhost", "http://evil.example")):
        app.handshake(host, origin)
    assert app.watch.outside() == []


@pytest.mark.skipif(os.name == "nt", reason="there the server is a process of its own")
@pytest.mark.parametrize("number", [pytest.param(signal.SIGTERM, marks=pytest.mark.slow), signal.SIGKILL])
def test_who_kills_the_app_ends_its_server(tmp_path: Path, number: int) -> None:
    with started(tmp_path) as app:
        assert app.handshake("10.1.2.3", "http://10.1.2.3") == 403  # by default it answers under this machine's names
        assert not rawhttp.listening(app.port)  # and at its own address
        app.process.send_signal(number)
        app.process.wait(HURRY)
        with socket.socket() as asks:
            until(lambda: asks.connect_ex(("127.0.0.1", app.port)), "the end of the server")
        assert app.watch.outside() == []
