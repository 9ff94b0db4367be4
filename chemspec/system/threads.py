"""CPU cores that may be used, and torch's number of threads for a while."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock


def usable_cores() -> int:
    """Return on how many CPU cores this process may run: a container, or `taskset`, may allow fewer than there are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_LOCK = Lock()
_open = 0  # scopes under way
_before = 0  # torch's number before the first of them


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Let torch compute with `count` threads inside, and with as many as before at the end.

    torch has one number for the whole process. Where scopes of several Python threads overlap, the number before the
    first of them comes back. Where nobody has imported torch, this does nothing.
    """
    if "torch" not in sys.modules:
        yield
        return
    import torch  # waits, if another thread is at it

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
