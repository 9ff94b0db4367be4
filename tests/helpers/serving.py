"""A service on tiny models: in this process, behind a real port, or as a process of its own."""

from __future__ import annotations

import http.client
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from chemspec.client import Client, Result, ServiceError
from chemspec.engine.engine import Engine
from helpers.paths import ROOT
from helpers.small import QUERIES

HURRY = 60.0  # seconds after which a state that does not come is a failure


def until(state: Callable[[], Any], what: str = "the state", seconds: float = HURRY) -> Any:
    """Wait for a state."""
    ends = time.monotonic() + seconds
    while not (found := state()):
        assert time.monotonic() < ends, f"{what} did not come"
        time.sleep(0.005)
    return found


def start(ask: Callable[[], Any]) -> threading.Thread:
    """Run something beside the test."""
    thread = threading.Thread(target=ask)
    thread.start()
    return thread


class Wrapped:
    """An engine that differs from another one in what a subclass says."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)


class Gated(Wrapped):
    """An engine that decodes only while its gate is open, and says what it was given."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self.gate = threading.Event()
        self.batches: list[list[str]] = []  # begun
        self.ended: list[BaseException | None] = []
        self.break_over: str | None = None

    def decode_continuously(
        self,
        more: Callable[[int], Sequence[Any]],
        ready: Callable[[Any], Any],
        settings: Any,
        *,
        before_pass: Callable[[], None],
    ) -> Iterator[tuple[Any, Any]]:
        """Decode when the gate opens, likewise."""

        def asked(room: int) -> Sequence[Any]:
            rows = more(room)
            if rows:
                self.batches.append([ready(row).text for row in rows])
            return rows

        def before() -> None:
            while not self.gate.wait(0.002):
                before_pass()
            before_pass()
            if self.break_over in self.batches[-1]:
                raise RuntimeError("broken")

        try:
            yield from self._engine.decode_continuously(asked, ready, settings, before_pass=before)
        except BaseException as error:
            self.ended.append(error)
            raise
        self.ended.append(None)

    def decode(self, ready: Sequence[Any], settings: Any, **how: Any) -> Any:
        """Decode what was broken over once more."""
        if self.break_over in [one.text for one in ready]:
            raise RuntimeError("broken")
        return self._engine.decode(ready, settings, **how)


class Running:
    """A service behind a port."""

    def __init__(self, service: Any, server: Any, port: int) -> None:
        self.service, self.server, self.port = service, server, port
        self.url = f"http://127.0.0.1:{port}"

    def client(self, **options: Any) -> Client:
        """Return a client."""
        return Client(self.url, **{"retry_seconds": 0.0, **options})

    def send(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, Any, Mapping[str, str]]:
        """Send a request and return status, document (or text) and headers."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=HURRY)
        try:
            data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
            connection.request(method, path, data, {"Content-Type": "application/json", **(headers or {})})
            response = connection.getresponse()
            text = response.read().decode()
            told = {name.lower(): value for name, value in response.getheaders()}
            return response.status, json.loads(text) if "json" in told.get("content-type", "") else text, told
        finally:
            connection.close()

    def count(self, name: str, **labels: str) -> float:
        """Return a number of /metrics."""
        return self.service.metrics.registry.get_sample_value(f"chemspec_{name}", labels) or 0.0


@contextmanager
def serving(engines: Mapping[str, Any], **limits: Any) -> Iterator[Running]:
    """Run a service in this process."""
    import uvicorn

    from chemspec.service import api
    from chemspec.service import server as http
    from chemspec.service.limits import Endpoint, Limits
    from chemspec.service.service import Service

    service = Service(engines, Limits(**limits))
    app = api.create_app(service)
    server = uvicorn.Server(http.build_server_config(service, app, Endpoint(port=0)))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    until(lambda: server.started, "the service")
    try:
        yield Running(service, server, server.servers[0].sockets[0].getsockname()[1])
    finally:
        for engine in engines.values():
            if isinstance(engine, Gated):
                engine.gate.set()
        server.should_exit = True
        thread.join(HURRY)
        assert not thread.is_alive(), "the service did not stop"


class Process:
    """`chemspec serve` as a process of its own."""

    def __init__(
        self,
        folder: Path,
        models: Sequence[Path],
        *options: str,
        port: int = 0,
        seconds: float = HURRY,
        program: Sequence[str] = ("-m", "chemspec.cli"),
    ) -> None:
        self._log = folder / "log"
        words = [*program, "serve", "--port", str(port), "--threads", "1"]
        words += [word for model in models for word in ("--model", str(model))]
        before = self.log()
        with self._log.open("ab") as log:
            self.process = subprocess.Popen([sys.executable, *words, *options], cwd=ROOT, stderr=log)
        ready = until(lambda: self._ready(before) or self.process.poll() is not None, "the process", seconds)
        assert ready is not True, self.log()
        self.port = ready
        self.url = f"http://127.0.0.1:{self.port}"

    def _ready(self, before: str) -> int | None:
        for line in self.log().removeprefix(before).splitlines():
            if '"event": "ready"' in line:
                return int(json.loads(line)["port"])
        return None

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()

    def log(self) -> str:
        """Return what it has written on standard error."""
        return self._log.read_text() if self._log.exists() else ""

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and return the exit code."""
        self.process.send_signal(number)
        return self.process.wait(HURRY)


class Load:
    """Clients that ask until they are told to stop."""

    def __init__(self, url: str, count: int, *, retry_seconds: float) -> None:
        self.answered: list[Result] = []
        self.failed: list[Exception] = []
        self.stop = threading.Event()
        self._client = Client(url, retry_seconds=retry_seconds)
        self._request_options: dict[str, Any] = {"task": "retro", "n": 3, "max_len": 30}
        self._threads = [start(partial(self._ask, number)) for number in range(count)]

    def _ask(self, number: int) -> None:
        while not self.stop.is_set():
            try:
                self.answered.append(self._client.predict(QUERIES[number % len(QUERIES)], **self._request_options))
            except ServiceError as error:
                self.failed.append(error)
                return
            number += 1

    def end(self) -> None:
        """Tell them to stop, and wait for them."""
        self.stop.set()
        for thread in self._threads:
            thread.join(HURRY)
