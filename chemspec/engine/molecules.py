"""Read queries and write up answers with RDKit: in this process, or in others beside the decoding."""

from __future__ import annotations

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
from chemspec.settings import Task

CHUNK = 64  # strings that a process is sent at once
KEPT = 100_000  # strings whose result is kept
RESTARTS = 2  # of a pool of which a process has died, before all is done here

T = TypeVar("T")
R = TypeVar("R")
Job = tuple[Any, ...]  # "read", text, task and most characters; or "canonical" and a SMILES


def _read(text: str, task: Task, max_chars: int) -> formats.Input | chem.Fault:
    return formats.read_any(text, task=task, max_chars=max_chars)


def _canonical(smiles: str) -> str | None:
    return chem.canonical(smiles)


WORK: dict[str, Callable[..., Any]] = {"read": _read, "canonical": _canonical}


def _done(jobs: Sequence[Job]) -> list[Any]:
    return [WORK[name](*arguments) for name, *arguments in jobs]


def _ignore_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle, which ends this process


class Molecules:
    """Does all of it here, when it is asked for."""

    def expect(self, jobs: Iterable[Job]) -> None:
        """Be told what will be asked for soon."""

    def get(self, *job: Any) -> Any:
        """Return what a job gives."""
        return WORK[job[0]](*job[1:])

    def each(self, function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        """Do a function for all items, in order; while the molecules of one are waited for, the next may begin."""
        return map(function, items)


class MoleculePool(Molecules):
    """Does what is expected in other processes, each string once, and here only what nobody expected.

    A process that dies takes nothing with it: what it was asked is done here, and others take its place.
    """

    def __init__(self, workers: int) -> None:
        """Start when something is expected.

        Args:
            workers: processes.
        """
        self.workers = workers
        self.sent = 0  # strings, for those who count
        self._lock = Lock()
        self._restarts = 0
        self._executors: list[ProcessPoolExecutor] = []  # the one in use
        self._known: dict[Job, tuple[Future[list[Any]], int]] = {}  # where the result of a job will be
        weakref.finalize(self, _close, self._executors)

    def expect(self, jobs: Iterable[Job]) -> None:
        """Send what is not known yet to the processes."""
        with self._lock:
            new = [job for job in dict.fromkeys(jobs) if job not in self._known]
            for start in range(0, len(new), CHUNK):
                chunk = new[start : start + CHUNK]
                future = self._submit(chunk)
                if future is None:
                    return
                self.sent += len(chunk)
                self._known.update((job, (future, place)) for place, job in enumerate(chunk))
            while len(self._known) > KEPT + len(new):
                del self._known[next(iter(self._known))]

    def _submit(self, jobs: list[Job]) -> Future[list[Any]] | None:
        while self._restarts <= RESTARTS:
            if not self._executors:
                # Spawned, because a forked process cannot use what threads of its parent hold.
                self._executors.append(
                    ProcessPoolExecutor(self.workers, mp_context=get_context("spawn"), initializer=_ignore_interrupts)
                )
            try:
                return self._executors[0].submit(_done, jobs)
            except BrokenProcessPool:
                self._restarts += 1
                _close(self._executors)
        return None

    def get(self, *job: Any) -> Any:
        """Return what a job gives, from the processes if it was expected."""
        future, place = self._known.get(job, (None, 0))
        if future is None:
            return super().get(*job)
        try:
            return future.result()[place]
        except BrokenProcessPool:
            with self._lock:
                lost = [one for one, (where, _) in self._known.items() if where is future]
                for one in lost:
                    del self._known[one]
            if lost:
                warnings.warn("a process that reads molecules has died; this one does its work", stacklevel=2)
            return super().get(*job)

    def close(self) -> None:
        """End the processes; what is expected later starts others."""
        _close(self._executors)

    def each(self, function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        """Do a function for all items, two at a time, in order."""
        threads = ThreadPoolExecutor(2)
        try:
            yield from threads.map(function, items)
        finally:
            threads.shutdown(cancel_futures=True)


def _close(executors: list[ProcessPoolExecutor]) -> None:
    while executors:
        executors.pop().shutdown(wait=False, cancel_futures=True)
