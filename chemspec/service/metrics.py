"""Prometheus metrics of the service."""

from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from chemspec.metrics import searches_behind, speed_numbers
from chemspec.types import DecodeResult

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Metrics:
    """Counters of one service; rates are derived by the reader (see assets/docs/service.md)."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"chemspec_{name}", text, labels, registry=registry)

        def histogram(name: str, text: str, buckets: Sequence[float], *labels: str) -> Histogram:
            return Histogram(f"chemspec_{name}", text, labels, buckets=buckets, registry=registry)

        self.requests = counter("requests", "HTTP requests answered", "route", "status")
        self.request_seconds = histogram("request_seconds", "Duration of a request", SECONDS, "route")
        self.queries = counter("queries", "Finished queries", "model", "status")
        self.refused = counter("refused_requests", "Refused requests", "reason")
        self.abandoned = counter("abandoned_queries", "Abandoned queries", "reason")
        self.waiting = Gauge("chemspec_queue_queries", "Waiting queries", registry=registry)
        self.waited = histogram("queue_seconds", "Time from a query's arrival to the start of its batch", SECONDS)
        self.batch = histogram("batch_queries", "Queries in a batch", (1, 2, 4, 8, 12, 16, 32, 64, 128), "model")
        self.engine_seconds = histogram("engine_seconds", "Time of the engine for a batch", SECONDS, "model")
        self.passes = counter("passes", "Forward passes of the decoder, summed over queries", "model")
        self.emitted = counter("emitted_tokens", "Emitted tokens", "model")
        self.computed = counter("computed_nodes", "Computed nodes", "model")
        self.drafted = counter("drafted_tokens", "Drafted nodes", "model")
        self.accepted = counter("accepted_tokens", "Accepted drafted tokens", "model")
        self.per_pass = histogram(
            "tokens_per_pass", "Tokens per forward pass of a query", (1, 1.5, 2, 3, 4, 6, 8, 12, 16, 32), "model"
        )

    def count_results(self, model: str, results: Sequence[DecodeResult]) -> None:
        """Count finished queries and their decoding."""
        for result in results:
            self.queries.labels(model, result.status).inc()
            if result.trace.passes:
                self.per_pass.labels(model).observe(speed_numbers([result.trace]).tokens_per_pass)
        total = speed_numbers([search.trace for result in results for search in searches_behind(result)])
        for name in ("passes", "emitted", "computed", "drafted", "accepted"):
            getattr(self, name).labels(model).inc(getattr(total, name))
