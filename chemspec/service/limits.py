"""Say how much the service takes on: sizes, waiting and time."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What bounds requests and the queue.

    Attributes:
        batch_size: most queries of a batch, spellings counted.
        queue: most queries that wait; requests beyond it are told to come back (429).
        each: most queries that wait of one client, which is a key or, without keys, an address; 0: half of the queue.
        queries: most queries of a request.
        answers: most answers of a query.
        body: most bytes of a request.
        timeout: seconds after which a request gets what is done; a request may ask for less.
        grace: seconds that a stop waits for what was accepted.
        hang: seconds after which a device that has begun a forward pass and not ended it counts as hung.
        keys: of which a request must show one; none: everybody may ask.
    """

    batch_size: int = 16
    queue: int = 1024
    each: int = 0
    queries: int = 256
    answers: int = 100
    body: int = 2_000_000
    timeout: float = 60.0
    grace: float = 60.0
    hang: float = 300.0
    keys: frozenset[str] = field(default=frozenset(), repr=False)

    def __post_init__(self) -> None:
        for name in ("batch_size", "queue", "queries", "answers", "body", "timeout", "grace", "hang"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be above 0")
        if self.each and not self.queries <= self.each <= self.queue:
            raise ValueError(f"each is {self.each}; give a number from {self.queries} (of a request) to {self.queue}")
        if self.queries > self.queue:
            raise ValueError(f"a request may have {self.queries} queries, the queue only {self.queue}; raise the queue")

    @property
    def of_one(self) -> int:
        """Most queries that wait of one client."""
        return self.each or max(self.queries, self.queue // 2)
