"""One model at work at a time: a fair queue over everybody who asks, with the place in it visible.

Two predictions at once on the same cores would each take more than twice as long, so they take turns. Jobs of many
queries take a turn for each small part and let visitors who wait at a page go first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from threading import Condition


class Turns:
    """A queue of threads; who is at its head may work."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._line: list[tuple[bool, int]] = []  # (patient, number of the ticket)
        self._at_work: tuple[bool, int] | None = None
        self._numbers = count()

    @contextmanager
    def turn(
        self, *, patient: bool = False, waiting: Callable[[int], None] = lambda _: None, every: float = 0.1
    ) -> Iterator[None]:
        """Wait for a turn and hold it.

        Args:
            patient: let everybody pass who is not.
            waiting: called every `every` seconds while waiting, with the number of turns that come first; what it
                raises leaves the queue.
            every: seconds between two such calls.
        """
        ticket = (patient, next(self._numbers))
        with self._changed:
            self._line.append(ticket)
        try:
            while not self._mine(ticket, every):
                waiting(self._before(ticket))
            yield
        finally:
            with self._changed:
                if self._at_work == ticket:
                    self._at_work = None
                if ticket in self._line:
                    self._line.remove(ticket)
                self._changed.notify_all()

    def __len__(self) -> int:
        """How many wait or work."""
        with self._changed:
            return len(self._line) + (self._at_work is not None)

    def _mine(self, ticket: tuple[bool, int], timeout: float) -> bool:
        with self._changed:
            free = self._changed.wait_for(lambda: self._at_work is None and min(self._line) == ticket, timeout)
            if free:
                self._line.remove(ticket)
                self._at_work = ticket
            return free

    def _before(self, ticket: tuple[bool, int]) -> int:
        with self._changed:
            return sum(other < ticket for other in self._line) + (self._at_work is not None)
