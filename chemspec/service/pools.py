"""Pools of threads by kind of work, in which clients take turns.

Reading, reviews and stopping have threads apart, so work that waits for other work never takes the threads that the
other needs. The threads are daemons: one that hangs does not hold up the end of the process.
"""

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import Context, copy_context
from dataclasses import dataclass
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeVar

from chemspec.service.limits import RefusedError
from chemspec.service.scheduler import RETRY_AFTER, Deadline

STUCK_SECONDS = 30.0  # after its deadline, until a running turn counts as stuck; more than a reading process may take
PROBE_SECONDS = 1.0  # time to wait for an empty turn
_PROBE = ""  # the client of such turns, which are next
Returned = TypeVar("Returned")


@dataclass(eq=False)
class _Turn:
    """A function that waits for a thread, or runs in one."""

    client: str
    function: Callable[[], Any]
    context: Context
    result: asyncio.Future[Any]  # cancelled when its request has stopped waiting
    end: float  # deadline on the monotonic clock


class WorkPool:
    """Threads for one kind of work, used by one event loop.

    Of one client only half of the threads run at once, so others always find one soon; clients, and then the requests
    of each client, take turns.
    """

    def __init__(self, work: str, threads: int, *, most: int, per_client: int) -> None:
        """Create a pool without its threads.

        Args:
            work: the kind of work, in the plural, for messages.
            threads: number of threads.
            most: maximum number of pieces of work that are admitted at a time.
            per_client: the same for one client.
        """
        self._work, self._threads, self._most, self._per_client = work, threads, most, per_client
        self._at_once = max(1, threads // 2)
        self._tasks: SimpleQueue[_Turn | None] = SimpleQueue()
        self._waiting: dict[str, deque[_Turn]] = {}  # turns by client, the next one first
        self.running: set[_Turn] = set()
        self.admitted: Counter[str] = Counter()

    def start(self) -> None:
        """Start the threads; requires a running event loop."""
        self._loop = asyncio.get_running_loop()
        for number in range(self._threads):
            Thread(target=self._run_turns, name=f"{self._work} {number}", daemon=True).start()

    def close(self) -> None:
        """End the threads as soon as their turns end."""
        for _ in range(self._threads):
            self._tasks.put(None)

    @contextmanager
    def admit(self, client: str, count: int = 1) -> Iterator[None]:
        """Count pieces of work as admitted within the context; RefusedError (429) beyond a limit."""
        if (refusal := self.refusal(client, count)) is not None:
            raise refusal
        self.admitted[client] += count
        try:
            yield
        finally:
            self.admitted[client] -= count
            self.admitted += Counter()  # drops clients without any

    def refusal(self, client: str, count: int = 1) -> RefusedError | None:
        """Return the error of a client's further pieces of work if they are beyond a limit."""
        admitted = self.admitted[client]
        if admitted + count <= self._per_client and self.admitted.total() + count <= self._most:
            return None
        cause = f"{admitted} of your {self._work}" if admitted else f"too many {self._work}"
        message = f"{cause} are under way; try again in {RETRY_AFTER} s"
        return RefusedError(429, "queue_full", message, after=RETRY_AFTER)

    async def run(
        self,
        client: str,
        function: Callable[[], Returned],
        deadline: Deadline,
        gone: asyncio.Future[None] | None = None,
    ) -> Returned:
        """Run a function in a thread, in the caller's context, when it is the client's turn.

        Raises:
            TimeoutError: at the deadline, or when `gone` is done; a function that has begun goes on.
        """
        turn = _Turn(client, function, copy_context(), self._loop.create_future(), deadline.end)
        self._waiting.setdefault(client, deque()).append(turn)
        self._begin_turns()
        waits: set[asyncio.Future[Any]] = {turn.result} | ({gone} if gone else set())
        try:
            await asyncio.wait(waits, timeout=deadline.left, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not turn.result.done():
                turn.result.cancel()
        if turn.result.cancelled():
            raise TimeoutError(deadline.message)
        returned: Returned = turn.result.result()
        return returned

    @property
    def stuck(self) -> str:
        """Why no turn would begin: every thread has a turn that is far over its deadline; empty if this is not so."""
        late = sum(turn.end + STUCK_SECONDS < time.monotonic() for turn in self.running)
        return f"the threads for {self._work} hang" if late >= self._threads else ""

    async def probe(self) -> str:
        """Run an empty turn; returns why none is run, or an empty text if one is, or the threads are merely busy."""
        with suppress(TimeoutError):
            await self.run(_PROBE, bool, Deadline.after(PROBE_SECONDS))
        return self.stuck

    def _begin_turns(self) -> None:
        while len(self.running) < self._threads and (turn := self._next_turn()) is not None:
            self.running.add(turn)
            self._tasks.put(turn)

    def _next_turn(self) -> _Turn | None:
        running = Counter(turn.client for turn in self.running)
        for client in sorted(self._waiting, key=_PROBE.__ne__):  # stable: the probe, then in order
            turns = self._waiting[client]
            while turns and turns[0].result.cancelled():
                turns.popleft()
            if turns and running[client] >= self._at_once and client != _PROBE:
                continue
            del self._waiting[client]
            if turns:
                turn = turns.popleft()
                if turns:
                    self._waiting[client] = turns  # behind the others
                return turn
        return None

    def _end_turn(self, turn: _Turn, returned: Any, error: BaseException | None) -> None:
        self.running.discard(turn)
        if not turn.result.done():
            if error is None:
                turn.result.set_result(returned)
            else:
                turn.result.set_exception(error)
        self._begin_turns()

    def _run_turns(self) -> None:
        while (turn := self._tasks.get()) is not None:
            returned, error = None, None
            try:
                returned = turn.context.run(turn.function)
            except BaseException as raised:
                error = raised
            with suppress(RuntimeError):  # the event loop is closed
                self._loop.call_soon_threadsafe(self._end_turn, turn, returned, error)
