"""A real server, watched, and a real browser; without Chromium these tests are skipped, saying so."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.app_server import wait_for_address
from helpers.paths import ROOT
from helpers.watched import Watch

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = [
    "--no-sandbox",
    "--disable-dev-shm-usage",
    "--use-gl=angle",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    # Pages are drawn by the processor in any case; by way of the emulated GPU that takes a third more of it.
    "--disable-gpu-compositing",
    "--disable-gpu-rasterization",
    # All pages of a context in one process, which compiles Streamlit's scripts once: half of what opening a page takes.
    "--process-per-site",
]
SIZE = {"width": 1280, "height": 900}


class Server:
    """The app in a process of its own, by default that of this checkout."""

    def __init__(self, folder: Path, script: str = "app.py", root: Path = ROOT, **environment: str) -> None:
        streamlit = ["streamlit", "run", str(root / script), "--server.port", "0", "--server.address", "127.0.0.1"]
        own = ["chemspec.cli", "app", "--headless", "--port", "0"]
        command = [sys.executable, "-m", *(own if script == "app.py" else [*streamlit, "--server.headless", "true"])]
        self.log = folder / "server.log"
        self.watch = Watch(folder / "hook")
        settings = {**self.watch.environment, "CHEMSPEC_WARM_UP": "1", **environment}
        with self.log.open("w") as log:
            self.process = subprocess.Popen(command, cwd=root, stdout=log, stderr=log, env=settings)
        self.url = wait_for_address(self.log, self.process)

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@pytest.fixture(scope="package")
def new_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Server]]:
    """Starts servers of a script, stopped at the end; no page may have asked another machine for anything.

    Keyword arguments are environment variables.
    """
    started: list[Server] = []

    def start(script: str = "app.py", **environment: str) -> Server:
        started.append(Server(tmp_path_factory.mktemp("server"), script, **environment))
        return started[-1]

    yield start
    for server in started:
        server.stop()
    assert [line for server in started for line in server.watch.outside()] == []


@pytest.fixture(scope="package")
def server(new_server: Callable[..., Server], tmp_path_factory: pytest.TempPathFactory) -> Server:
    """One server for all tests of a process, with job and history folders of its own."""
    return new_server(CHEMSPEC_HOME=str(tmp_path_factory.mktemp("home")))


@pytest.fixture(scope="package")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("no Chromium here: apt-get install chromium")
    playwright = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()


class Visitor:
    """A context for the pages of all tests, in which none finds what another has stored.

    The last page stays open, at an address without a script, so that the process of all pages does not end.
    """

    def __init__(self, browser: Any) -> None:
        self.context = browser.new_context()
        self.last: Any = None

    def leave(self, pages: list[Any]) -> None:
        """Close pages, and forget what they stored; files that the browser keeps to load faster stay."""
        kept = next((page for page in pages if page.url.startswith("http")), None)
        for page in pages:
            if page is not kept:
                page.close()
        if kept:
            origin = "/".join(kept.url.split("/")[:3])
            kept.goto(f"{origin}/_stcore/health")
            stored = {"origin": origin, "storageTypes": "all"}
            self.context.new_cdp_session(kept).send("Storage.clearDataForOrigin", stored)
            if self.last:
                self.last.close()
            self.last = kept
        self.context.clear_cookies()


@pytest.fixture(scope="package")
def visitor(browser: Any) -> Visitor:
    return Visitor(browser)


@pytest.fixture
def new_page(visitor: Visitor) -> Iterator[Callable[..., Any]]:
    """Opens pages (`color_scheme=`, `reduced_motion=`, `viewport=`), in a `context=` of their own if one is given.

    At the end of the test every page must have asked nobody but this machine for anything and must have logged no
    error.
    """
    pages: list[Any] = []
    faults: list[str] = []

    def watch(page: Any) -> None:
        page.on("pageerror", lambda error: faults.append(f"error: {error}"))
        page.on("console", lambda line: line.type == "error" and faults.append(line.text))
        page.on("request", lambda request: faults.append(request.url) if foreign(request.url) else 0)

    def open_page(context: Any = None, viewport: Any = SIZE, **media: str) -> Any:
        page = (context or visitor.context).new_page()
        if context is None:
            pages.append(page)
        page.set_viewport_size(viewport)
        page.emulate_media(**media)
        page.set_default_timeout(150_000)  # waits end with the state they wait for; this is for what hangs
        watch(page)
        return page

    yield open_page
    told = list(faults)  # and not what pages say when they are left
    visitor.leave(pages)
    # Streamlit probes where the app begins; on a deep link the first guesses do not exist. It probes every file that a
    # button offers, too, which is gone if the popover around it was closed meanwhile; tests of files download them.
    noise = ("_stcore/health", "_stcore/host-config", "404 (Not Found)", "Download Button source error - 404")
    assert not [fault for fault in told if not any(word in fault for word in noise)]


def foreign(url: str) -> bool:
    """Whether a request leaves this machine."""
    return not url.startswith(("http://127.0.0.1", "ws://127.0.0.1", "data:", "blob:", "about:"))


class App:
    """The app in a browser: a server for all tests, and pages."""

    def __init__(self, server: Server, new_page: Callable[..., Any]) -> None:
        self.server, self.url, self.new_page = server, server.url, new_page

    def open(self, address: str = "", **options: Any) -> Any:
        """Open a page at an address of the app (`color_scheme=`, `viewport=` ...), and wait until it stands still."""
        page = self.new_page(**options)
        self.go(page, address)
        return page

    def go(self, page: Any, address: str) -> None:
        """Go to another address of the app, and wait until the page stands still."""
        page.goto(self.url + address)
        page.wait_for_selector("h1")
        self.settle(page)

    @staticmethod
    def settle(page: Any) -> None:
        """Wait until a page's script has run to its end."""
        page.wait_for_selector("[data-testid=stApp][data-test-script-state=notRunning]")
        page.wait_for_selector("[data-testid=stStatusWidget]", state="detached")


@pytest.fixture
def app(server: Server, new_page: Callable[..., Any]) -> App:
    return App(server, new_page)
