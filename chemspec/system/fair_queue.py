"""A fair queue of predictions: one model runs at a time, and everyone sees their position.

Two predictions at once on the same cores would each take more than twice as long. Of several queries of one visitor,
in several tabs, the second lets other visitors go first. A full queue refuses at once.
"""

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from itertools import count
from threading import Condition

MAX_WAITING = 100  # turns that wait
MAX_OF_ONE_VISITOR = 8  # waiting turns of one visitor
REPORT_SECONDS = 0.1  # seconds between two reports of a position
LATER = 100  # others that may come before a visitor's next question, for each question that waits; so none can starve


class BusyError(Exception):
    """The queue is full, or one visitor has too many requests; the message says what to do."""


class FairQueue:
    """A queue of threads; the first one may run."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._line: list[tuple[int, int, Hashable]] = []  # order, number and visitor of those that wait
        self._busy = False
        self._numbers = count()

    @contextmanager
    def wait_for_turn(
        self, *, visitor: Hashable = None, waiting: Callable[[int], None] = lambda _: None
    ) -> Iterator[None]:
        """Wait for a turn and hold it.

        Args:
            visitor: id of the visitor; None for an unknown one, who counts as a new visitor.
            waiting: called every `REPORT_SECONDS` while waiting, with the number of turns that come first; what it
                raises leaves the queue.

        Raises:
            BusyError: if too many wait, in all or of this visitor.
        """
        with self._changed:
            number = next(self._numbers)
            who = number if visitor is None else visitor
            waiting_count = sum(other == who for _, _, other in self._line)
            if waiting_count >= MAX_OF_ONE_VISITOR:
                raise BusyError(f"{MAX_OF_ONE_VISITOR} of your queries are waiting already; wait for one, or stop one")
            if len(self._line) >= MAX_WAITING:
                raise BusyError(f"{MAX_WAITING} queries are waiting already; try again in a minute")
            last = max((turn for turn, _, other in self._line if other == who), default=-1)
            ticket = max(number + waiting_count * LATER, last + 1), number, who  # after this visitor's earlier ones
            self._line.append(ticket)
        try:
            while not self._is_next(ticket):
                with self._changed:
                    ahead = sum(other < ticket for other in self._line) + self._busy
                waiting(ahead)
            yield
        finally:
            with self._changed:
                if ticket in self._line:
                    self._line.remove(ticket)
                else:
                    self._busy = False
                self._changed.notify_all()

    @contextmanager
    def take_free_turn(self, seconds: float = 0.0) -> Iterator[bool]:
        """Hold a turn if within some seconds the queue is empty; yields whether it is held.

        For what must delay no visitor: it has no position among those that wait.
        """
        with self._changed:
            free = self._changed.wait_for(lambda: not self._busy and not self._line, seconds)
            self._busy |= free
        try:
            yield free
        finally:
            if free:
                with self._changed:
                    self._busy = False
                    self._changed.notify_all()

    def __len__(self) -> int:
        """Number of waiting and running threads."""
        with self._changed:
            return len(self._line) + self._busy

    def _is_next(self, ticket: tuple[int, int, Hashable]) -> bool:
        with self._changed:
            free = self._changed.wait_for(lambda: not self._busy and min(self._line) == ticket, REPORT_SECONDS)
            if free:
                self._line.remove(ticket)
                self._busy = True
            return free
