"""Count what the service does, for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from chemspec.metrics import numbers, searches
from chemspec.types import DecodeResult

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Metrics:
    """The numbers of one service; rates are for the reader to derive (assets/docs/service.md says how)."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"chemspec_{name}", text, labels, registry=registry)

        def histogram(name: str, text: str, buckets: Sequence[float], *labels: str) -> Histogram:
            return Histogram(f"chemspec_{name}", text, labels, buckets=buckets, registry=registry)

        self.requests = counter("requests", "HTTP requests answered", "route", "status")
        self.request_seconds = histogram("request_seconds", "From a request's start to its end", SECONDS, "route")
        self.queries = counter("queries", "Queries that are done", "model", "status")
        self.refused = counter("refused_requests", "Requests not taken on", "reason")
        self.abandoned = counter("abandoned_queries", "Queries that nobody waited for any more", "reason")
        self.waiting = Gauge("chemspec_queue_queries", "Queries that wait", registry=registry)
        self.decoding = Gauge("chemspec_decoding_queries", "Queries being decoded", registry=registry)
        self.waited = histogram("queue_seconds", "From a query's arrival to the start of its batch", SECONDS)
        self.batch = histogram("batch_queries", "Queries of a batch", (1, 2, 4, 8, 12, 16, 32, 64, 128), "model")
        self.engine_seconds = histogram("engine_seconds", "Time of a batch in the engine", SECONDS, "model")
        self.passes = counter("passes", "Passes of the model's decoder, as every query saw them", "model")
        self.emitted = counter("emitted_tokens", "Tokens written into answers", "model")
        self.computed = counter("computed_nodes", "Nodes run through the model", "model")
        self.drafted = counter("drafted_tokens", "Nodes among them that were drafted", "model")
        self.accepted = counter("accepted_tokens", "Drafted tokens that stand in an answer", "model")
        self.per_pass = histogram("tokens_per_pass", "Of a query", (1, 1.5, 2, 3, 4, 6, 8, 12, 16, 32), "model")

    def watch(self, waiting: Callable[[], float], decoding: Callable[[], float]) -> None:
        """Ask these functions for the two gauges."""
        self.waiting.set_function(waiting)
        self.decoding.set_function(decoding)

    def answered(self, model: str, results: Sequence[DecodeResult]) -> None:
        """Count queries that are done, and what decoding them took."""
        for result in results:
            self.queries.labels(model, result.status).inc()
            if result.trace.passes:
                self.per_pass.labels(model).observe(numbers([result.trace]).tokens_per_pass)
        total = numbers([search.trace for result in results for search in searches(result)])
        for name in ("passes", "emitted", "computed", "drafted", "accepted"):
            getattr(self, name).labels(model).inc(getattr(total, name))

    def text(self) -> bytes:
        """Return all numbers as Prometheus reads them."""
        return generate_latest(self.registry)
