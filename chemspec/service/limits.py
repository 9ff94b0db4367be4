"""Options of the service: where it listens, limits and replicas; and the error of a request beyond the limits.

The texts of the attributes are those of `chemspec serve --help`.
"""

from dataclasses import dataclass, field

from chemspec.settings import DecodeSettings, check_positive, check_range


class RefusedError(Exception):
    """A refused request: HTTP status, error code and message, and after how many seconds to try again."""

    def __init__(self, status: int, code: str, message: str, *, after: int = 0) -> None:
        super().__init__(message)
        self.status, self.code, self.after = status, code, after


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits of requests and the queue.

    Attributes:
        batch_size: maximum number of queries in a batch, including SMILES variants.
        queue: maximum number of waiting queries; further requests get status 429.
        client_queue: maximum number of waiting queries per client, which is a key or, without keys, an address; 0: half
            of the queue, or the queries of a request if these are more.
        queries: maximum number of queries in a request.
        answers: maximum number of predictions for a query.
        body: maximum number of bytes in a request.
        timeout: time limit of a request in seconds, after which finished results are returned.
        plan_timeout: time limit of a search for routes in seconds, with waiting and the list of routes.
        grace: seconds that a stop waits for accepted queries.
    """

    batch_size: int = 16
    queue: int = 1024
    client_queue: int = 0
    queries: int = 256
    answers: int = 100
    body: int = 2_000_000
    timeout: float = 60.0
    plan_timeout: float = 300.0
    grace: float = 60.0
    api_keys: frozenset[str] = field(default=frozenset(), repr=False)  # empty: requests need none

    def __post_init__(self) -> None:
        DecodeSettings(batch_size=self.batch_size)  # raises ValueError out of range
        for name in ("queue", "queries", "answers", "body", "timeout", "plan_timeout", "grace"):
            check_positive(name, getattr(self, name))
        if self.client_queue and not self.queries <= self.client_queue <= self.queue:
            raise ValueError(
                f"client_queue is {self.client_queue}; give 0, or {self.queries} (of a request) to {self.queue}"
            )
        if self.queries > self.queue:
            raise ValueError(f"a request may have {self.queries} queries, the queue only {self.queue}; raise the queue")

    @property
    def per_client(self) -> int:
        """Maximum number of waiting queries per client."""
        return self.client_queue or max(self.queries, self.queue // 2)


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """Where the service listens.

    Attributes:
        host: address to listen on; 0.0.0.0: all addresses of this machine.
        port: port to listen on; 0: any free one, which the log names.
        log --log/--quiet: log requests on standard error.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    allowed_host: list[str] | None = None
    log: bool = True

    def __post_init__(self) -> None:
        check_range("port", self.port, 0, 65535)

    @property
    def address(self) -> str:
        """The address as a URL, for messages."""
        return f"http://{self.host}:{self.port}" if self.port else f"a free port of {self.host}, which the log names"


@dataclass(frozen=True, kw_only=True)
class Replicas:
    """Replicas of the engines on a Ray cluster.

    Attributes:
        ray: run the engines as replicas on a Ray cluster: local, auto or HOST:PORT (extra ray).
        engines: with --ray: maximum number of engines; 0: as many as fit.
        min_engines: with --ray: number of engines that stay up without requests.
    """

    ray: str = ""
    engines: int = 0
    min_engines: int = 1

    def __post_init__(self) -> None:
        if not self.ray and (self.engines or self.min_engines != 1):
            raise ValueError("--engines and --min-engines go with --ray")
        if self.engines < 0:
            raise ValueError(f"--engines is {self.engines}; give a number, or 0 for as many as fit")
        if not 1 <= self.min_engines <= (self.engines or self.min_engines):
            raise ValueError(f"--min-engines is {self.min_engines}; give a number from 1 to --engines")
