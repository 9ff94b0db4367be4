"""Run something in a process that may take so much memory and processor time, and not more."""

from __future__ import annotations

import gc
import os
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

from helpers.slowness import slowness


def outcome(work: Callable[[], Any], error: type[Exception], *, seconds: float, size: int) -> str:
    """Return the message of the error with which something ends, in a fork of this process.

    Args:
        work: what is done.
        error: with which it has to end.
        seconds: of processor time, on the machine that limits are meant for.
        size: bytes that it may take beyond what this process has.

    Raises:
        AssertionError: if it ends in another way, is ended by a limit, or does not end with an error.
    """
    reading, writing = os.pipe()
    allowed = int(seconds * slowness()) + 1  # a fork begins at zero
    if not (child := os.fork()):
        gc.freeze()  # garbage of other tests, collected here, would make room beyond the limit
        taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (taken + size,) * 2)
        resource.setrlimit(resource.RLIMIT_CPU, (allowed,) * 2)
        try:
            work()
            end, message = 4, "no error"
        except error as caught:
            end, message = 3, str(caught)
        except BaseException as caught:
            end, message = 5, repr(caught)
        os.write(writing, message.encode("utf-8", "backslashreplace")[:4000])
        os._exit(end)
    os.close(writing)
    with os.fdopen(reading, "rb") as told:
        message = told.read().decode()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code == 3, f"exit code {code} instead of a {error.__name__}: {message or 'nothing'}"
    return message
