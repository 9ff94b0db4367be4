"""A model of the service for work in a thread, such as a review: its queries wait in the queue like all others."""

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from chemspec.service.limits import RefusedError
from chemspec.service.scheduler import Deadline, Job, Search
from chemspec.service.service import Service
from chemspec.settings import DecodeSettings, Task
from chemspec.types import DecodeResult

CHECK_BATCH = 32  # queries of a review in the queue at once
ROOM_SECONDS = 0.05  # until these are submitted again if the queue is full
LOOP_SECONDS = 5.0  # time that a thread waits for the event loop after the deadline, when that should have answered


@dataclass(frozen=True)
class QueuedModel:
    """A model of the service for a thread: its queries wait in the queue like those of other requests."""

    service: Service
    task: Task
    deadline: Deadline
    loop: asyncio.AbstractEventLoop
    gone: asyncio.Future[None]
    model: str | None = None  # its name; by default that of the task

    @property
    def full_digest(self) -> str:
        """The engine's digest of weights and vocabulary."""
        return self.service.engine(self.model, self.task)[1].full_digest

    @property
    def dtype(self) -> str:
        """The engine's precision."""
        return self.service.engine(self.model, self.task)[1].dtype

    def predict(self, queries: Sequence[str], settings: DecodeSettings) -> list[DecodeResult]:
        """Predict for queries, a part after the other, and wait for the results in this thread."""
        size = min(CHECK_BATCH, self.service.limits.queries)
        # One part after the other: the next one is submitted when the last has its results.
        parts = (queries[start : start + size] for start in range(0, len(queries), size))
        return [result for part in parts for result in self._wait_for(self._decode(part, settings))]

    def _wait_for(self, decoding: Coroutine[Any, Any, list[DecodeResult]]) -> list[DecodeResult]:
        """Wait in this thread for what the event loop decodes."""
        future = asyncio.run_coroutine_threadsafe(decoding, self.loop)
        try:
            return future.result(self.deadline.left + LOOP_SECONDS)
        except TimeoutError:  # the loop itself is busy
            future.cancel()
            raise RefusedError(504, "timeout", self.deadline.message) from None

    async def _decode(self, queries: Sequence[str], settings: DecodeSettings) -> list[DecodeResult]:
        search = Search(*self.service.engine(self.model, self.task), settings, self.deadline)
        jobs = await self._submit(search, queries)
        results = await self.service.results(jobs, self.gone)
        if not self.deadline.left:  # a check that was not finished is no verdict
            raise RefusedError(504, "timeout", self.deadline.message)
        return results

    async def _submit(self, search: Search, queries: Sequence[str]) -> list[Job]:
        """Queue queries as soon as there is room for them: the request that they belong to was accepted."""
        while True:
            try:
                return await self.service.submit(search, queries, self.gone)
            except RefusedError as error:
                if error.status != 429 or self.gone.done() or not self.deadline.left:
                    raise
            await asyncio.sleep(ROOM_SECONDS)
