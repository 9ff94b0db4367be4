"""Models of a remote service (CHEMSPEC_SERVER), with the interface of local engines."""

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import streamlit as st

from chemspec.client import Client, ServiceError
from chemspec.settings import DecodeSettings, Task
from chemspec.types import DecodeResult, Pass, result_from_json
from chemspec.ui.common import escaping

PATIENCE = 10.0  # seconds of retries while the service is full
COUNTS = ("asked", "computed", "drafted", "emitted", "accepted", "width")
OTHERS = ("batch_size", "record")  # settings that the service chooses, or that are sent separately


@dataclass(frozen=True, eq=False)
class RemoteEngine:
    """A model of a remote service: the part of `Engine` that Predict, Plan and Step through use.

    Attributes:
        client: that asks.
        name, task, digest, dtype, runtime: of the model, as the service tells them.
        drafters: that it can use there.
    """

    client: Client
    name: str
    task: Task
    digest: str
    dtype: str
    runtime: str
    drafters: tuple[str, ...]

    def predict(self, queries: str | Sequence[str], settings: DecodeSettings | None = None, **overrides: Any) -> Any:
        """Predict as `Engine.predict` does; queries that the service refuses or loses have the status "failed"."""
        if isinstance(queries, str):
            return self.predict([queries], settings, **overrides)[0]
        settings = replace(settings or DecodeSettings(), **overrides)
        options = {**self._request_options(settings), "record": settings.record}

        def ask(part: list[str]) -> list[DecodeResult]:
            try:
                response = self.client.request("POST", "/v1/predict", {"queries": part, **options})
                return [result_from_json(json.dumps(result)) for result in response["documents"]]
            except (ServiceError, ValueError) as error:
                if isinstance(error, ServiceError) and error.code == "too_many_queries" and len(part) > 1:
                    raise  # retried in smaller parts
                return [_failed_result(query, error) for query in part]

        return [result for batch in self.client.in_parts(queries, ask) for result in batch]

    def stream(self, query: str, settings: DecodeSettings, **overrides: Any) -> Iterator[Pass | DecodeResult]:
        """Stream one query as `Engine.stream` does, with the counts of every pass only."""
        settings = replace(settings, **overrides)
        if settings.record:  # such a trace is not streamed
            yield self.predict(query, settings)
            return
        try:
            for name, data in self.client.events("/v1/stream", {"query": query, **self._request_options(settings)}):
                if name == "pass":
                    counts = {field: data[field] for field in COUNTS}
                    yield Pass(**counts, margin=float("inf"), draft_seconds=0.0, model_seconds=0.0)
                elif name == "document":
                    yield result_from_json(json.dumps(data))
        except (ServiceError, ValueError) as error:
            yield _failed_result(query, error)

    def _request_options(self, settings: DecodeSettings) -> dict[str, Any]:
        plain = {name: value for name, value in asdict(settings).items() if name not in OTHERS}
        return {"model": self.name, "exact": False, "trace": True, **plain}


def _failed_result(query: str, error: Exception) -> DecodeResult:
    return DecodeResult(query, "failed", f"the service cannot answer: {error}")


def service_address() -> str:
    """Return the address of the remote service; empty if predictions run on this machine."""
    return os.environ.get("CHEMSPEC_SERVER", "").rstrip("/")


def remote_engines() -> dict[str, RemoteEngine]:
    """Return the models of the service by name; none without a service. Ends the page if it cannot be reached."""
    address = service_address()
    if not address:
        return {}
    try:
        return _fetch_engines(address)
    except (ServiceError, ValueError) as error:
        reason = escaping.plain_text(str(error))
        st.error(f"The prediction service cannot be reached; reload the page later. ({reason})")
        st.stop()


@st.cache_resource(show_spinner=False, ttl=60)
def _fetch_engines(address: str) -> dict[str, RemoteEngine]:
    client = Client(address, patience=PATIENCE)
    fields = ("name", "task", "digest", "dtype", "runtime")
    return {
        model["name"]: RemoteEngine(client, **{name: model[name] for name in fields}, drafters=tuple(model["drafters"]))
        for model in client.models()
    }


def privacy_note() -> str:
    """Return a sentence on where queries are sent."""
    if address := service_address():
        return f"Queries are sent to the service at {address}, and nowhere else."
    return f"Runs on this {machine_word()}; nothing leaves it."


def machine_word() -> str:
    """Return "computer" or "server", as a visitor calls the machine that runs the app."""
    return "computer" if is_local_only() else "server"


def is_local_only() -> bool:
    """Return whether the app listens on this machine only."""
    return st.get_option("server.address") in ("127.0.0.1", "localhost", "::1")


def note_local_models() -> None:
    """Note that this page uses local models, where a remote service is set."""
    if service_address():
        st.caption(
            f"Predict, Plan and Step through use the service at {service_address()}. This page needs the model itself: "
            "it computes on this machine, with the models installed here."
        )
