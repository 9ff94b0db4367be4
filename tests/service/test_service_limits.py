"""What a service does not take on, and what it does when clients leave, wait too long, or send rubbish."""

from __future__ import annotations

import gzip
import http.client
import json
import logging
import re
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import pytest
from helpers import rawhttp
from helpers.serving import HURRY, Gated, Running, Wrapped, serving, start, until
from pydantic import ValidationError

from chemspec.client import ServiceError
from chemspec.engine.engine import Engine
from chemspec.service import guard, schema, server
from chemspec.service.limits import Limits
from chemspec.service.plan_schema import PlanQuestion

pytest.importorskip("fastapi")

ASK = {"queries": "CCO", "task": "retro", "n": 2, "max_len": 12}
ENDLESS = b"[" * 1_900_000
LONG_NUMBER = b'{"queries": "CCO", "task": "retro", "seed": ' + b"9" * 5000 + b"}"
DEEP = b'{"queries":' + b"[" * 100_000 + b"]" * 100_000 + b"}"


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"null", b"[]", b"3", b'"CCO"', b"\xff\xfe", b'{"queries": }', DEEP, ENDLESS, LONG_NUMBER,
        b'{"queries": ["\\ud800"], "task": "retro"}',
        b'{"queries": "CCO", "task": "retro", "\\ud800": 1}', b'{"queries": [null], "task": "retro"}',
        b'{"queries": "CCO", "task": "retro", "temperature": NaN}', b'{"queries": "CCO", "task": "retro", "n": 1e400}',
        b'{"queries": "CCO", "task": "retro", "seed": 99999999999999999999999}', b'{"queries": [], "task": "retro"}',
    ],
)  # fmt: skip
def test_rubbish_is_refused_with_a_message(running: Running, body: bytes) -> None:
    for path in ("/v1/predict", "/predictions/retro"):
        status, document, _ = running.send("POST", path, body)
        assert status in (400, 422), (path, document)
        assert isinstance(document["detail"], str) and document["detail"] and document["code"]


@pytest.mark.parametrize("name", ["queue", "queries", "answers", "body", "timeout", "grace"])
@pytest.mark.parametrize("value", [0, -1, float("inf"), float("nan")])
def test_a_limit_is_a_finite_number(name: str, value: float) -> None:
    """An infinite one is no number in JSON, and no time after which a stop ends."""
    with pytest.raises(ValueError, match=f"{name} is .*; it must be above 0 and finite"):
        Limits(**{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("encoding", ["br", "deflate, gzip", "zstd", "gzip, gzip"])
def test_other_encodings_than_gzip_are_refused_by_name(running: Running, encoding: str) -> None:
    status, document, _ = running.send("POST", "/v1/predict", gzip.compress(b"{}"), {"Content-Encoding": encoding})
    assert (status, document["code"]) == (415, "encoding") and "as gzip" in document["detail"]
    assert running.send("POST", "/v1/predict", ASK, {"Content-Encoding": "identity"})[0] == 200


@pytest.mark.parametrize("encoding", ["gzip", "GZIP"])
def test_a_gzipped_body_is_that_body(running: Running, encoding: str) -> None:
    plain = running.send("POST", "/v1/predict", ASK)[1]["results"]
    body = gzip.compress(json.dumps(ASK).encode())
    status, document, _ = running.send("POST", "/v1/predict", body, {"Content-Encoding": encoding})
    assert status == 200
    for one, other in zip(plain, document["results"], strict=True):
        assert one["hypotheses"] == other["hypotheses"]


@pytest.mark.parametrize(
    "body", [b"{}", gzip.compress(b"{}", mtime=0)[:-1], gzip.compress(b"{}", mtime=0) + b"more", b""]
)
def test_what_is_no_whole_gzip_is_malformed(running: Running, body: bytes) -> None:
    status, document, _ = running.send("POST", "/v1/predict", body, {"Content-Encoding": "gzip"})
    assert (status, document["code"]) == (400, "malformed") and "gzip" in document["detail"]


def test_a_bomb_is_unpacked_up_to_the_limit_of_a_body_and_no_further() -> None:
    for size, told in ((1000, 1000), (1001, 1001), (50_000_000, 1001)):
        assert len(guard.decompress(gzip.compress(b" " * size), 1000)) == told


def test_a_bomb_is_refused(engines: Mapping[str, Engine]) -> None:
    with serving(engines, body=100_000) as service:
        bomb = gzip.compress(b" " * 50_000_000)
        status, document, _ = service.send("POST", "/v1/predict", bomb, {"Content-Encoding": "gzip"})
        assert len(bomb) < 100_000 and (status, document["code"]) == (413, "too_large")


def test_of_a_body_without_an_end_so_much_is_read_and_no_more(engines: dict[str, Engine]) -> None:
    with serving(engines, body=10_000) as service, rawhttp.connected(service.port) as connection:
        headers = {"Host": "localhost", "Transfer-Encoding": "chunked", "Content-Type": "application/json"}
        connection.sendall(rawhttp.head("/v1/predict", headers, method="POST"))
        sent = 0
        try:
            while sent < 40 * guard.DRAIN_FACTOR * 10_000:
                connection.sendall(b"1000\r\n" + b"x" * 4096 + b"\r\n")
                sent += 4096
        except OSError:
            pass
        # What the system keeps in its buffers on both sides comes on top.
        assert guard.DRAIN_FACTOR * 10_000 - 4096 <= sent < 40 * guard.DRAIN_FACTOR * 10_000
        assert service.count("refused_requests_total", reason="body") == 1


def test_a_form_is_told_to_be_json_and_another_route_says_so_as_fastapi_does(running: Running) -> None:
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    assert "application/json" in running.send("POST", "/v1/predict", b"queries=CCO", headers)[1]["detail"]
    # The gateway of ASKCOS knows a backend by this very body.
    assert running.send("GET", "/nowhere")[:2] == (404, {"detail": "Not Found"})
    for method, path, error in (("GET", "/v1/predict", (405, "method")), ("GET", "/v1/nowhere", (404, "no_route"))):
        status, document, _ = running.send(method, path)
        assert (status, document["code"]) == error and "/docs" in document["detail"]


@pytest.mark.parametrize("told", [True, False], ids=["length told", "in chunks"])
def test_a_body_of_ten_megabytes_is_refused_and_the_client_hears_it(running: Running, told: bool) -> None:
    text = json.dumps({**ASK, "queries": ["C" * 1000] * 10_000}).encode()
    connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=HURRY)
    body: Any = text if told else iter([text[at : at + 65536] for at in range(0, len(text), 65536)])
    connection.request("POST", "/v1/predict", body, {"Content-Type": "application/json"}, encode_chunked=not told)
    response = connection.getresponse()
    assert (response.status, json.loads(response.read())["code"]) == (413, "too_large")
    connection.close()
    assert running.client().predict("CCO", task="retro", n=1, max_len=5).status == "ok"


@pytest.mark.parametrize(
    "body",
    [
        {"queries": [1] * 400_000}, {"queries": [[]] * 400_000}, {"smiles": [None] * 300_000},
        {"texts": [{}] * 400_000},
        {"queries": "C", **{f"x{number}": 1 for number in range(100_000)}}, {"queries": "C", "n": [[]] * 400_000},
        {"target": "C", "avoid": [1] * 400_000}, {"queries": "C", "stock": [1] * 400_000},
    ],
    ids=["numbers", "lists", "smiles", "texts", "fields", "n", "avoid", "stock"],
)  # fmt: skip
def test_of_a_body_with_a_million_faults_few_are_collected(body: dict[str, Any]) -> None:
    """Each would be a message: 1.8 MB of numbers took 4 s and a gigabyte, while nobody else was answered."""
    for request in (schema.PredictQuestion, schema.ReviewQuestion, schema.PredictionsQuestion, schema.NamesQuestion,
                    schema.CheckQuestion, PlanQuestion):  # fmt: skip
        with pytest.raises(ValidationError) as refused:
            request.model_validate(body)
        assert refused.value.error_count() <= 6


def test_of_one_client_so_many_bytes_are_held_and_small_requests_find_room(engines: dict[str, Engine]) -> None:
    size, large = 100_000, {**ASK, "queries": ["C" * 90_000]}
    with serving(engines, body=size) as service, ExitStack() as opened:
        assert service.send("POST", "/v1/predict", large)[0] == 200
        for _ in range(guard.BODIES // 2):
            connection = opened.enter_context(rawhttp.connected(service.port))
            connection.sendall(rawhttp.post("/v1/predict", b"x" * size)[:-1])
        until(lambda: service.send("POST", "/v1/predict", large)[0] == 429, "a refusal")
        status, document, headers = service.send("POST", "/v1/predict", large)
        assert (status, document["code"]) == (429, "queue_full") and int(headers["retry-after"]) >= 1
        assert "too many bytes" in document["detail"]
        assert service.send("POST", "/v1/predict", ASK)[0] == 200
        opened.close()
        until(lambda: service.send("POST", "/v1/predict", large)[0] == 200, "room")


def test_a_query_may_be_long_and_a_request_have_many_up_to_a_limit(running: Running) -> None:
    (result,) = running.client().predict(["C" * 50_000], task="retro")
    assert result.status == "too_long"
    status, document, _ = running.send("POST", "/v1/predict", {**ASK, "queries": ["C" * 100_001]})
    assert (status, document["code"]) == (422, "malformed")
    status, document, _ = running.send("POST", "/v1/predict", {**ASK, "queries": ["C"] * 257})
    assert (status, document["code"]) == (413, "too_many_queries")


def test_a_full_queue_says_when_to_come_back_and_then_goes_on(engines: dict[str, Engine]) -> None:
    gated = Gated(engines["retro"])
    with serving({"retro": gated}, queue=2, queries=2, batch_size=1) as service:
        done: list[Any] = []

        def ask(query: str, retry_seconds: float = 0.0) -> threading.Thread:
            return start(lambda: done.append(service.client(retry_seconds=retry_seconds).predict(query, **HOW)))

        threads = [ask("CCO")]
        until(lambda: gated.batches, "a batch")
        threads += [ask("CCN"), ask("CCC")]
        until(lambda: service.count("queue_queries") == 2, "a full queue")
        status, document, headers = service.send("POST", "/v1/predict", ASK)
        assert (status, document["code"]) == (429, "queue_full")
        assert 1 <= int(headers["retry-after"]) <= 60
        assert service.count("refused_requests_total", reason="queue_full") == 1
        # A client with patience comes back by itself.
        threads.append(ask("CCF", retry_seconds=HURRY))
        until(lambda: service.count("refused_requests_total", reason="queue_full") == 2, "the patient client")
        gated.gate.set()
        for thread in threads:
            thread.join()
        assert [result.status for result in done] == ["ok"] * 4
        assert service.count("queue_queries") == 0


HOW: dict[str, Any] = {"task": "retro", "n": 2, "max_len": 8}


def test_who_waits_too_long_is_told_and_is_decoded_no_further(engines: dict[str, Engine]) -> None:
    gated = Gated(engines["retro"])
    with serving({"retro": gated}) as service:
        replies: list[Any] = []
        late = start(lambda: replies.append(service.send("POST", "/v1/predict", {**ASK, "timeout": 1.0})))
        until(lambda: gated.batches, "the batch")  # else it gave up before there was anything to end
        late.join()
        ((status, document, _),) = replies
        assert (status, document["code"]) == (504, "timeout")
        until(lambda: gated.ended, "the end of the batch")
        assert gated.ended[0] is not None  # it did not run to its end
        # What is done by then is not lost: a query that needs no model is.
        status, document, _ = service.send("POST", "/v1/predict", {**ASK, "queries": ["CC(", "CCO"], "timeout": 0.5})
        assert [one["status"] for one in document["results"]] == ["invalid", "failed"]
        assert "no result within" in document["results"][1]["message"]
        gated.gate.set()
        assert service.client().predict("CCO", **HOW).status == "ok"


class SlowReader(Wrapped):
    """An engine that takes a twentieth of a second to read a query."""

    read = 0

    def prepare(self, text: str) -> Any:
        time.sleep(0.05)
        self.read += 1
        return self._engine.prepare(text)


def test_reading_queries_ends_at_the_deadline_too(engines: dict[str, Engine]) -> None:
    slow = SlowReader(engines["retro"])
    with serving({"retro": slow}) as service:
        status, document, _ = service.send("POST", "/v1/predict", {**ASK, "queries": ["CC("] * 200, "timeout": 0.5})
        # The time is over before the first query is read.
        assert service.send("POST", "/v1/predict", {**ASK, "timeout": 1e-9})[0] == 504
        (widest,) = service.send("POST", "/v1/predict", {**ASK, "within": 1e-9})[1]["results"]
        assert (widest["status"], widest["within"]["width"]) == ("failed", 0)
    statuses = [one["status"] for one in document["results"]]
    told = statuses.count("invalid")
    assert status == 200 and slow.read - 1 <= told <= slow.read <= 10  # nobody waits for the one that is being read
    assert statuses == ["invalid"] * told + ["failed"] * (200 - told)
    assert "no result within 0.5 s" in document["results"][-1]["message"]


def test_a_server_may_allow_fewer_answers_and_less_time(engines: dict[str, Engine]) -> None:
    with serving({"retro": Gated(engines["retro"])}, timeout=0.05) as service:
        assert service.send("POST", "/v1/predict", {**ASK, "timeout": 1000})[0] == 504
    with serving({"retro": engines["retro"]}, answers=3) as service:
        status, document, _ = service.send("POST", "/v1/predict", {"task": "retro", "queries": "CCO", "n": 4})
        assert (status, document["code"]) == (422, "too_many_answers")
        assert "the limit here is 3" in document["detail"]
        status, answers, _ = service.send("POST", "/predictions/retro", {"smiles": ["CCO"]})
        assert status == 200 and len(answers[0]["products"]) <= 3


def test_who_leaves_is_decoded_no_further(engines: dict[str, Engine]) -> None:
    gated = Gated(engines["retro"])
    with serving({"retro": gated}, batch_size=1) as service:
        with rawhttp.connected(service.port) as client:
            client.sendall(rawhttp.post("/v1/predict", json.dumps({**ASK, "queries": ["CCO", "CCN"]}).encode()))
            until(lambda: gated.batches, "the batch")
        until(lambda: gated.ended, "the end of the batch")
        assert gated.ended[0] is not None
        until(lambda: service.count("queue_queries") == 0, "an empty queue")
        assert gated.batches == [["CCO"]]
        assert service.count("abandoned_queries_total", reason="client gone") == 2


def test_who_leaves_does_not_take_the_others_of_the_batch_along(engines: dict[str, Engine]) -> None:
    gated = Gated(engines["retro"])
    with serving({"retro": gated}) as service:
        found: list[Any] = []
        first = start(lambda: service.client().predict("CCC", **HOW))
        until(lambda: gated.batches, "a batch")
        stays = start(lambda: found.append(service.client().predict("CCN", **HOW)))
        until(lambda: service.count("queue_queries") == 1, "the one that stays")
        with pytest.raises(ServiceError):
            service.client().predict("CCO", timeout=0.05, **HOW)
        gated.gate.set()
        stays.join()
        first.join()
        assert found[0].status == "ok"


# --- keys ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def locked(engines: dict[str, Engine]) -> Any:
    with serving(engines, api_keys=frozenset({"open sesame", "other"})) as service:
        yield service


KEYS = [{"X-API-Key": "open sesame"}, {"Authorization": "Bearer other"}, {"authorization": "other"}]


@pytest.mark.parametrize("headers", KEYS)
def test_a_key_opens(locked: Running, headers: dict[str, str]) -> None:
    assert locked.send("POST", "/v1/predict", ASK, headers)[0] == 200


@pytest.mark.parametrize("headers", [{}, {"X-API-Key": ""}, {"X-API-Key": "open sesam"}, {"Authorization": "Bearer "}])
def test_without_a_key_nothing_but_probes_is_answered(locked: Running, headers: dict[str, str]) -> None:
    for path in ("/v1/predict", "/v1/models", "/predictions/retro", "/nowhere"):
        question = ASK if "predict" in path else None
        status, document, told = locked.send("POST" if question else "GET", path, question, headers)
        assert (status, document["code"], told["www-authenticate"]) == (401, "key", "Bearer")
        assert "needs a valid API key" in document["detail"]
    for path in ("/healthz", "/readyz", "/metrics", "/openapi.json"):
        assert locked.send("GET", path, None, headers)[0] == 200


def test_all_keys_are_compared_in_constant_time(locked: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    import hmac

    compared: list[int] = []
    honest = hmac.compare_digest

    def compare(one: bytes, other: bytes) -> bool:
        compared.append(len(one))
        return honest(one, other)

    monkeypatch.setattr(hmac, "compare_digest", compare)
    for key in ("open sesame", "o", "open sesame and more"):
        locked.send("GET", "/v1/models", None, {"X-API-Key": key})
    assert compared == [32] * 6  # digests, so that not even a length shows


# --- log, metrics, probes ------------------------------------------------------------------------


def logged(caplog: pytest.LogCaptureFixture, replies: Sequence[tuple[int, Any, Mapping[str, str]]]) -> list[Any]:
    """The one record of each reply: a line is written after it is sent, so one of an earlier test may still come."""
    ids = [{key.lower(): value for key, value in headers.items()}["x-request-id"] for _, _, headers in replies]

    def found() -> list[Any]:
        return [record for record in caplog.records if getattr(record, "log_fields", {}).get("id") in ids]

    until(lambda: len(found()) >= len(ids), "the log")
    assert sorted(record.log_fields["id"] for record in found()) == sorted(set(ids))
    return sorted(found(), key=lambda record: ids.index(record.log_fields["id"]))


def test_the_log_has_a_line_a_request_and_never_a_query(running: Running, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "chemspec.service")
    secret = "CC(C)(C)OC(=O)NC"
    replies = [
        running.send("POST", "/v1/predict", {**ASK, "queries": [secret, "CC("]}),
        running.send("GET", f"/{secret}"),
        running.send("POST", "/v1/predict", {**ASK, "queries": [secret, 3]}),
        running.send("GET", "/healthz"),
    ]
    records = logged(caplog, replies)
    told = [record.log_fields for record in records]
    routes = ["/v1/predict", "unknown", "/v1/predict", "/healthz"]
    assert [(one["route"], one["status"]) for one in told] == list(zip(routes, (200, 404, 422, 200), strict=True))
    assert (told[0]["queries"], told[0]["ok"], told[0]["invalid"]) == (2, 1, 1)
    assert not any(part in json.dumps(told) for part in (secret, "CC(", "127.0.0.1"))
    assert len({one["client"] for one in told}) == 1 and re.fullmatch("[0-9a-f]{12}", told[0]["client"])
    assert [record.levelname for record in records].count("DEBUG") == 1


def test_a_client_is_the_last_address_that_a_proxy_of_this_machine_gives(
    running: Running, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "chemspec.service")
    given = ["192.0.2.1", "192.0.2.2", "192.0.2.9, 192.0.2.1", ""]
    replies = [running.send("GET", "/healthz", headers={"X-Forwarded-For": address}) for address in given]
    first, second, claimed, none = [record.log_fields["client"] for record in logged(caplog, replies)]
    assert first == claimed and len({first, second, none}) == 3, "what a client itself has claimed does not count"


def test_a_fault_of_ours_is_told_without_what_was_asked(
    running: Running, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("over CCO")

    monkeypatch.setattr(running.service, "engine", broken)
    caplog.set_level(logging.INFO, "chemspec.service")
    reply = running.send("POST", "/v1/predict", ASK)
    status, document, _ = reply
    assert (status, document["code"]) == (500, "internal")
    (record,) = logged(caplog, [reply])
    assert record.log_fields["error"] == "RuntimeError" and "test_service_limits.py" in record.log_fields["at"]
    assert "CCO" not in json.dumps([document, record.log_fields])


def test_the_log_of_a_library_has_kind_and_place_and_no_message() -> None:
    try:
        raise RuntimeError("over CC(C)(C)OC(=O)NC")
    except RuntimeError as error:
        record = logging.LogRecord(
            "uvicorn.error", logging.ERROR, "x", 1, "Exception in ASGI application\n", (), (type(error), error, None)
        )
        record.exc_info = (type(error), error, error.__traceback__)
    line = json.loads(server._JsonFormatter().format(record))
    assert (line["event"], line["error"]) == ("Exception in ASGI application", "RuntimeError")
    assert "test_service_limits.py:" in line["at"] and "CC(C)" not in json.dumps(line)


def test_metrics_count_what_was_done(engines: dict[str, Engine]) -> None:
    with serving(engines) as service:
        results = service.client().predict(["CCO", "CC(=O)Nc1ccccc1", "CC("], task="retro", n=1, max_len=20)
        text = service.send("GET", "/metrics")[1]

        def number(name: str) -> float:
            return sum(map(float, re.findall(rf"^chemspec_{name}(?:{{.*}})? (\S+)$", text, re.MULTILINE)))

        assert number("passes_total") == sum(result.passes for result in results)
        assert number("emitted_tokens_total") == sum(result.tokens for result in results)
        assert number("computed_nodes_total") >= number("passes_total")
        assert number("drafted_tokens_total") >= number("accepted_tokens_total")
        assert service.count("queries_total", model="retro", status="ok") == 2
        assert service.count("queries_total", model="retro", status="invalid") == 1
        assert number("batch_queries_count") == 1 and number("batch_queries_sum") == 2
        for name, some in (("queue_seconds", {0.5, 1, 2.5}), ("tokens_per_pass", {2, 3, 4})):
            limits = re.findall(rf'^chemspec_{name}_bucket{{.*le="([^"]+)"', text, re.MULTILINE)
            assert some <= {*map(float, limits)}
        assert number("queue_seconds_count") == 2 and number("tokens_per_pass_count") == 2
        assert service.count("requests_total", route="/v1/predict", status="200") == 1


def test_a_service_that_stops_takes_nothing_on(engines: dict[str, Engine]) -> None:
    with serving(engines) as service:
        service.service.stopping = True
        status, document, headers = service.send("POST", "/v1/predict", ASK)
        assert (status, document["code"]) == (503, "stopping") and int(headers["retry-after"]) >= 1
        assert service.send("GET", "/readyz")[0] == 503


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_service_whose_thread_has_died_says_so(engines: dict[str, Engine]) -> None:
    class Dying(Gated):
        def decode_continuously(self, *_: Any, **__: Any) -> Any:
            raise SystemExit  # ends a thread without a word

    # Long enough for the thread to begin: what is given up before kills nobody.
    with serving({"retro": Dying(engines["retro"])}, timeout=2.0) as service:
        service.send("POST", "/v1/predict", ASK)
        until(lambda: service.service.broken, "the end of the thread")
        assert service.send("GET", "/healthz")[0] == 503
        status, document, _ = service.send("GET", "/readyz")
        assert status == 503 and document["detail"] == "the thread that decodes has ended"


# --- one client and the others -------------------------------------------------------------------


def test_one_client_cannot_take_the_queue_of_the_others(engines: dict[str, Engine]) -> None:
    gated = Gated(engines["retro"])
    keys = frozenset({"a key", "another key"})
    with serving({"retro": gated}, queue=40, queries=4, client_queue=4, batch_size=1, api_keys=keys) as service:
        done: list[str] = []

        def ask(key: str, queries: list[str]) -> threading.Thread:
            def run() -> None:
                for result in service.client(key=key).predict(queries, **HOW):
                    done.append(result.query)

            return start(run)

        threads = [ask("a key", ["CCO"])]
        until(lambda: gated.batches, "a batch")
        many = ["CN", "CCN", "CCCN", "CCCCN"]
        threads.append(ask("a key", many))
        until(lambda: service.count("queue_queries") == 4, "four that wait")
        status, document, headers = service.send("POST", "/v1/predict", ASK, {"X-API-Key": "a key"})
        assert (status, document["code"], int(headers["retry-after"]) >= 1) == (429, "queue_full", True)
        assert "4 of your queries are waiting" in document["detail"]
        threads.append(ask("another key", ["CO"]))
        until(lambda: service.count("queue_queries") == 5, "the other client")
        gated.gate.set()
        for thread in threads:
            thread.join()
        assert [query for batch in gated.batches for query in batch] == ["CCO", "CN", "CO", *many[1:]], (
            "the other comes after the first of the four"
        )
