"""RDKit work of an engine, parsing queries and canonicalising predictions, in this process or in worker processes."""

import signal
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from threading import Lock
from typing import Any, TypeVar

import chemspec.chem as chem
from chemspec.chem import formats

CHUNK = 64  # number of strings sent to a worker at once
KEPT = 100_000  # number of cached results
RESTARTS = 2  # restarts after a worker has died, before the pool is given up

T = TypeVar("T")
R = TypeVar("R")
Job = tuple[Any, ...]  # "read", text, task and maximum number of characters; or "canonical" and a SMILES


WORK: dict[str, Callable[..., Any]] = {
    "read": lambda text, task, max_chars: formats.read_any(text, task=task, max_chars=max_chars),
    "canonical": lambda smiles: chem.canonical(smiles),
}


def _run_jobs(jobs: Sequence[Job]) -> list[Any]:
    return [WORK[name](*arguments) for name, *arguments in jobs]


class Molecules:
    """Runs jobs in this process, on demand."""

    def prefetch(self, jobs: Iterable[Job]) -> None:
        """Do nothing: there are no workers."""

    def job_result(self, *job: Any) -> Any:
        """Return the result of a job."""
        return WORK[job[0]](*job[1:])

    def map_in_order(self, function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        """Apply a function to all items in order; a pool may start the next item while one waits for its jobs."""
        return map(function, items)


class MoleculePool(Molecules):
    """Runs prefetched jobs in worker processes, each once, and all other jobs in this process.

    If a worker dies, its jobs run in this process, and the pool is restarted.
    """

    def __init__(self, workers: int) -> None:
        """Create a pool, which starts with the first prefetched job."""
        self.workers = workers
        self.sent = 0  # number of prefetched jobs
        self._lock = Lock()
        self._restarts = 0
        self._executors: list[ProcessPoolExecutor] = []  # the current one
        self._known: dict[Job, tuple[Future[list[Any]], int]] = {}  # job -> its chunk's future and its index there
        weakref.finalize(self, _shut_down, self._executors)

    def prefetch(self, jobs: Iterable[Job]) -> None:
        """Send new jobs to the workers."""
        with self._lock:
            new = [job for job in dict.fromkeys(jobs) if job not in self._known]
            for start in range(0, len(new), CHUNK):
                chunk = new[start : start + CHUNK]
                future = self._submit_jobs(chunk)
                if future is None:
                    return
                self.sent += len(chunk)
                self._known.update((job, (future, index)) for index, job in enumerate(chunk))
            while len(self._known) > KEPT + len(new):
                del self._known[next(iter(self._known))]

    def _submit_jobs(self, jobs: list[Job]) -> Future[list[Any]] | None:
        while self._restarts <= RESTARTS:
            if not self._executors:
                # Spawned, because a forked process would inherit locks held by other threads. Ctrl-C is the parent's to
                # handle, which ends the workers.
                ignore = signal.SIGINT, signal.SIG_IGN
                self._executors.append(
                    ProcessPoolExecutor(self.workers, get_context("spawn"), signal.signal, initargs=ignore)
                )
            try:
                return self._executors[0].submit(_run_jobs, jobs)
            except BrokenProcessPool:
                self._restarts += 1
                _shut_down(self._executors)
        return None

    def job_result(self, *job: Any) -> Any:
        """Return the result of a job, from the workers if it was prefetched."""
        future, index = self._known.get(job, (None, 0))
        if future is None:
            return super().job_result(*job)
        try:
            return future.result()[index]
        except BrokenProcessPool:
            with self._lock:
                lost = [lost_job for lost_job, (where, _) in self._known.items() if where is future]
                for lost_job in lost:
                    del self._known[lost_job]
            if lost:
                warnings.warn("a process that reads molecules has died; this one does its work", stacklevel=2)
            return super().job_result(*job)

    def close(self) -> None:
        """Stop the workers; they are started again by the next prefetched job."""
        _shut_down(self._executors)

    def map_in_order(self, function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        """Apply a function to all items in order, two at a time."""
        threads = ThreadPoolExecutor(2)
        try:
            yield from threads.map(function, items)
        finally:
            threads.shutdown(cancel_futures=True)


def _shut_down(executors: list[ProcessPoolExecutor]) -> None:
    while executors:
        executors.pop().shutdown(wait=False, cancel_futures=True)
