"""Compile in the background what is faster but not needed yet: after the first answers, at low priority."""

import atexit
import os
import subprocess
import sys
from contextlib import suppress
from threading import Lock, Timer

from chemspec.system import compiled

SECONDS = 20.0  # after which a program that goes on running compiles; a shorter one does so when it ends
NOTE = (
    "note: faster code for this processor is compiled in the background, for the next start on "
    "(CHEMSPEC_NATIVE=prebuilt: never)\n"
)
_lock = Lock()
_scheduled: set[str] = set()
_started: set[str] = set()


def schedule(module: str) -> None:
    """Run a module that compiles something, once, in a process that outlives this one; nothing without a compiler."""
    if os.environ.get("CHEMSPEC_NATIVE") == "prebuilt" or not compiled.has_compiler():
        return
    with _lock:
        if module in _scheduled:
            return
        _scheduled.add(module)
    timer = Timer(SECONDS, _start, [module])
    timer.daemon = True
    timer.start()
    atexit.register(_start, module)


def _start(module: str) -> None:
    with _lock:
        if module in _started:
            return
        is_first = not _started
        _started.add(module)
    with suppress(OSError, AttributeError):  # no process can be started, or standard error is closed
        subprocess.Popen(
            [sys.executable, "-m", module],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        if is_first:
            sys.stderr.write(NOTE)
