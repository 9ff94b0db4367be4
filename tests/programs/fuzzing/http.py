"""HTTP requests: the service's application, called in this process as a server would call it."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, unquote

from programs.fuzzing.mutate import altered, broken, mutated
from programs.fuzzing.tools import QUERIES, Tools, small_model

if TYPE_CHECKING:
    from chemspec.service.service import Service

T = TypeVar("T")
KEY = "a key of the service"
HOW = {
    "task": "retro", "model": "retro", "n": 2, "decoder": "beam", "drafter": "copy", "exact": True, "max_len": 8,
    "draft_length": 3, "draft_count": 3, "draft_nodes": 9, "dilation": 0,
    "node_budget": 16, "drafting": "planned", "length_penalty": 0.0,
    "beta": 1, "tau": 0.0, "temperature": 1.0, "top_p": 0.9, "seed": 1, "augment": 1, "distinct": False,
    "guide": "break C1-N3; only amide", "timeout": 1.0,
}  # fmt: skip
BODIES: dict[str, dict[str, Any]] = {
    "/v1/predict": {"queries": ["CCO", "CN"], "within": 1.0},
    "/v1/names": {"texts": ["CCO", "THF, NaH"], "task": "forward"},
    "/v1/check": {"reaction": "CCO>>CC=O", "task": "retro"},
    "/v1/plan": {"target": "CCO", "expansions": 1, "check": False},
    "/predictions/retro": {"model_name": "retro", "smiles": ["CCO", "CN"]},
}
OTHERS = (
    *("/v1/models", "/v1/stock", "/v1/plan/none", "/v1/plan/none/events", "/healthz"),
    *("/readyz", "/metrics", "/openapi.json", "/docs", "/"),
)
STATUSES = (200, 201, 202, 307, 400, 401, 404, 405, 413, 422, 429, 499, 504)  # never 500
MAX_SECONDS = 60.0  # seconds on the clock that a request may take; it should give up after its own timeout


def request(random: Random) -> bytes:
    """Return a request as JSON: method, address, headers, parts of the body (in Latin-1), whether the client leaves."""
    path, method, body = random.choice((*BODIES, *BODIES, *OTHERS)), "POST", b""
    document = dict(BODIES.get(path, {}))
    if path.startswith("/v1") and document:
        document |= {key: HOW[key] for key in random.sample([*HOW], random.choice((0, 1, 2, 3, 6)))}
        if random.random() < 0.8:
            document["task"] = "retro"
    for key, value in document.items():
        if isinstance(value, str) and value in QUERIES and random.random() < 0.5:
            document[key] = mutated(random.choice(QUERIES), random)
        elif isinstance(value, list) and random.random() < 0.3:
            document[key] = [random.choice(value)] * random.choice((0, 1, 9, 65))
    text = json.dumps(document) if random.random() < 0.4 else altered(document, random)
    body = text.encode("utf-8", "surrogatepass")
    if random.random() < 0.1:
        body = broken(body, random)
    if path not in BODIES or random.random() < 0.05:
        method = random.choice((*("GET",) * 15, "HEAD", "PUT", "DELETE", "OPTIONS", "POST", "x"))
    if random.random() < 0.1:
        path = quote(mutated(path, random).encode("utf-8", "replace").decode(), safe="/?=&%:.+")
    headers = {
        "content-type": random.choice(("application/json",) * 6 + ("text/plain", "", "application/json; charset=\xff")),
        "x-api-key": random.choice((KEY,) * 40 + ("", "\xff", mutated(KEY, random))),
        random.choice(("accept", "accept-encoding", "range", "content-length")): random.choice(("*", "-1", "x" * 9000)),
    }
    cut, times = random.choice((0, 0, 0, 1, 7)), 1000 if random.random() < 0.01 else 1
    return json.dumps(
        {
            "method": method,
            "target": path,
            "headers": {name: value.encode("latin-1", "replace").decode("latin-1") for name, value in headers.items()},
            "parts": [part.decode("latin-1") for part in (body[:cut], body[cut:] * times)],
            "leaves": random.random() < 0.05,
        }
    ).encode()


class Served:
    """A service with two small models, on an event loop that runs while a request is answered."""

    def __init__(self, tools: Tools) -> None:
        from chemspec.engine.engine import Engine
        from chemspec.service import api
        from chemspec.service.limits import Limits
        from chemspec.service.service import Service

        forward = Engine.load(small_model(tools.home / "models" / "forward", "forward"), device="cpu", threads=1)
        limits = Limits(queue=64, queries=64, body=100_000, timeout=2.0, grace=5.0, api_keys=frozenset({KEY}))
        self.service: Service = Service({"retro": tools.engine, "forward": forward}, limits)
        self.app = api.create_app(self.service)
        # A thread of its own: after a test of pages in the same process, Playwright's loop runs in the main one.
        self._thread, self._loop = ThreadPoolExecutor(1), asyncio.new_event_loop()
        self.wait_for(self._begin())

    def wait_for(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run the event loop until a coroutine has returned."""
        return self._thread.submit(self._loop.run_until_complete, coroutine).result()

    async def _begin(self) -> None:
        self.service.start()

    async def answer(self, case: dict[str, Any]) -> tuple[int, dict[str, str], bytes]:
        """Send a request; return status, headers and body of the response."""
        path, _, query = case["target"].partition("?")
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": case["method"],
            "scheme": "http",
            "path": unquote(path),
            "raw_path": path.encode("latin-1", "replace"),
            "query_string": query.encode("latin-1", "replace"),
            "root_path": "",
            "headers": [(name.encode(), value.encode("latin-1")) for name, value in case["headers"].items()],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 8000),
        }
        parts, over = [part.encode("latin-1") for part in case["parts"]], asyncio.Event()
        starts: list[Any] = []
        body = bytearray()

        async def receive() -> dict[str, Any]:
            if parts:
                return {"type": "http.request", "body": parts.pop(0), "more_body": bool(parts)}
            if not case["leaves"]:
                await over.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                starts.append(message)
            else:
                body.extend(message.get("body", b""))

        await asyncio.wait_for(self.app(scope, receive, send), MAX_SECONDS)
        over.set()
        assert len(starts) == 1 or case["leaves"], f"{len(starts)} responses"
        headers = {name.decode(): value.decode("latin-1") for name, value in starts[0]["headers"]} if starts else {}
        return starts[0]["status"] if starts else 499, headers, bytes(body)


class _Lines(logging.Handler):
    """Keeps what the service's log tells, instead of its own handlers, while one is in it."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []
        self._logger = logging.getLogger("chemspec.service")

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(json.dumps(record.__dict__.get("told", {})))

    def __enter__(self) -> list[str]:
        logger = self._logger
        self._count_before = logger.handlers, logger.propagate, logger.level
        logger.handlers, logger.propagate = [self], False
        logger.setLevel(logging.DEBUG)
        return self.lines

    def __exit__(self, *_: object) -> None:
        self._logger.handlers, self._logger.propagate = self._count_before[:2]
        self._logger.setLevel(self._count_before[2])


_SERVED: dict[int, Served] = {}


def answer(case: bytes, tools: Tools) -> None:
    """Answer a request, and hold the response to what every response promises."""
    if id(tools) not in _SERVED:
        _SERVED[id(tools)] = Served(tools)
    served, asked = _SERVED[id(tools)], json.loads(case)
    with _Lines() as lines:
        status, headers, body = served.wait_for(served.answer(asked))
    log = "".join(lines)
    assert '"error"' not in log, log
    assert not any(query in log for query in QUERIES if len(query) > 5), "the log holds a query"
    assert status in STATUSES, f"{status}: {body[:200]!r}"
    if "json" in headers.get("content-type", "") and asked["method"] != "HEAD":
        document = json.loads(body, parse_constant=_no_number)
        assert status < 400 or document["detail"], "a refusal says why"
    elif "event-stream" in headers.get("content-type", "") and not asked["leaves"]:
        lines = [line.removeprefix("data: ") for line in body.decode().split("\n") if line.startswith("data: ")]
        assert lines, "a stream ends with a result or an error"
        for line in lines:
            json.loads(line, parse_constant=_no_number)


def _no_number(text: str) -> None:
    raise AssertionError(f"{text} in JSON")
