"""Work that may end its process or never end, each piece in a process forked for it, with limits of time and memory.

A server process, started once, has imported what the work needs, so a piece costs a fork and not a start of Python.
Where a process cannot fork, the server does it itself, and ends with it.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Lock, Timer
from typing import Any

PATIENCE = 20.0  # seconds on the clock for a piece of work, whatever its limit of computing
MEMORY = 400_000_000  # bytes on top of what the server takes
Work = Mapping[str, tuple[Callable[[str], str], float]]  # by kind; the seconds are of computing


class Forked:
    """A server of pieces of work; started when it is first needed, and anew when it has ended."""

    def __init__(self, module: str) -> None:
        """Start nothing yet.

        Args:
            module: a program that calls `serve`.
        """
        self._module = module
        self._lock = Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._parent = 0
        atexit.register(self.close)

    def start(self) -> None:
        """Start the server, so that the first piece of work need not wait for it; returns at once."""
        with self._lock:
            self._running()

    def ask(self, kind: str, text: str) -> str | None:
        """Return what a piece of work gives; None where it raised something, or its limits or a crash ended it."""
        with self._lock:
            process = self._running()
            assert process.stdin is not None and process.stdout is not None
            timer = Timer(PATIENCE, process.kill)
            timer.daemon = True
            timer.start()
            line = b""
            try:
                process.stdin.write(json.dumps([kind, text]).encode() + b"\n")
                process.stdin.flush()
                line = process.stdout.readline()
            except OSError:
                pass
            finally:
                timer.cancel()
                if not line.endswith(b"\n"):  # it has ended, or whoever waited does not any more
                    self._end()
        answer: str | None = json.loads(line) if line.endswith(b"\n") else None
        return answer

    def close(self) -> None:
        """End the server."""
        with self._lock:
            self._end()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._parent != os.getpid():  # this process was forked: it is another's
            self._process.returncode = 0
            self._process = None
        if self._process is None:
            command = [sys.executable, "-W", "ignore", "-m", self._module]
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},  # its threads would be in the way of a fork
            )
            self._parent = os.getpid()
        return self._process

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None or self._parent != os.getpid():
            return
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            try:
                if stream is not None:
                    stream.close()
            except OSError:  # what was not sent yet
                pass


def serve(work: Work) -> None:
    """Do what a `Forked` in the parent asks for, until that has ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle, whose end is this one's
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # nothing else is written there
    for line in sys.stdin.buffer:
        kind, text = json.loads(line)
        function, seconds = work[kind]
        done = _forked(lambda: function(text), seconds, answers) if hasattr(os, "fork") else function(text)  # noqa: B023
        answers.write(json.dumps(done).encode() + b"\n")
        answers.flush()


def _forked(function: Callable[[], str], seconds: float, answers: Any) -> str | None:
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            answers.close()  # else who waits would wait for this process too
            os.close(reading)
            limit(seconds)
            with os.fdopen(writing, "wb") as result:
                result.write(function().encode("utf-8", "replace"))
            os._exit(0)
        finally:
            os._exit(1)
    os.close(writing)
    with os.fdopen(reading, "rb") as result:
        text = result.read().decode()
    return None if os.waitpid(child, 0)[1] else text


def limit(seconds: float, memory: int = MEMORY) -> None:
    """End this process after so much computing, and let it take no more memory; as far as the system can do so.

    Args:
        seconds: from now on.
        memory: bytes on top of what it takes now.
    """
    try:
        import resource
    except ImportError:
        return  # not Unix
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except OSError:
        return  # not Linux
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    most = taken + memory if hard == resource.RLIM_INFINITY else min(taken + memory, hard)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
