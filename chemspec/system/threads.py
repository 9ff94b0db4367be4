"""Usable CPU cores, worker processes, and the number of threads of torch within a scope."""

import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from threading import Lock, Thread


def usable_cores() -> int:
    """Return the number of CPU cores that this process may use, as limited by a container or `taskset`."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_LOCK = Lock()
_open = 0  # active scopes
_before = 0  # torch's number of threads before the first of them


@contextmanager
def set_torch_threads(count: int) -> Iterator[None]:
    """Set torch's number of threads within the context, and restore it afterwards.

    The number is global to the process: if scopes of several Python threads overlap, the number before the first of
    them is restored. Does nothing if torch is not imported.
    """
    if not sys.modules.get("torch"):
        yield
        return
    import torch  # waits if another thread is importing it

    global _open, _before
    with _LOCK:
        if not _open:
            _before = torch.get_num_threads()
        _open += 1
    try:
        if torch.get_num_threads() != count:
            torch.set_num_threads(count)
        yield
    finally:
        with _LOCK:
            _open -= 1
            if torch.get_num_threads() != _before:
                torch.set_num_threads(_before)


@contextmanager
def worker_pool(count: int, prepare: Callable[[], object] | None = None) -> Iterator[ProcessPoolExecutor]:
    """Open a pool of processes that end with this one; an error or Ctrl-C ends it at once, not after its last job.

    `prepare` is called first in each process; it must be importable there.
    """
    # Spawned, because forking a process with torch threads can deadlock.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(count, mp_context=context, initializer=_begin, initargs=(prepare,)) as pool:
        try:
            yield pool
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _begin(prepare: Callable[[], object] | None) -> None:
    exit_with_parent()
    if prepare is not None:
        prepare()


def exit_with_parent() -> None:
    """End this worker process when its parent is killed.

    It would wait for jobs forever, since it has both ends of the queue open.
    """

    def wait() -> None:
        parent = multiprocessing.parent_process()
        if parent is not None:
            parent.join()
        os._exit(1)

    Thread(target=wait, daemon=True).start()
