"""Compile in the background what is faster but not needed yet: after the first answers, at low priority."""

import atexit
import ctypes
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock, Timer

from chemspec.system import compiled, prebuilt

SECONDS = 20.0  # after which a program that goes on running compiles; a shorter one does so when it ends
NOTE = (
    "note: faster code for this processor is compiled in the background, for the next start on "
    "(CHEMSPEC_NATIVE=prebuilt: never)\n"
)
_lock = Lock()
_scheduled: set[str] = set()
_started: set[str] = set()


def load_or_schedule(source: Path, flags: Sequence[str], module: str) -> ctypes.CDLL | None:
    """Return the library of a source that does without processor levels; None where it is not compiled yet.

    Then `module` is run later to compile it.
    """
    loaded = prebuilt.load(source, flags, suits=lambda _: True)
    if loaded is None and (os.environ.get("CHEMSPEC_NATIVE") == "compile" or compiled.is_cached(source, *flags)):
        with suppress(compiled.NoKernelError):
            loaded = compiled.load_library(source, *flags)
    if loaded is None and os.environ.get("CHEMSPEC_NATIVE") != "0":
        schedule(module)
    return loaded


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


def lower_priority() -> None:
    """Let other processes go first, in a process that compiles in the background."""
    if hasattr(os, "nice"):
        os.nice(10)


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
