"""Run tasks that may crash or hang in forked processes, with limits of time and memory.

A server process has imported the needed modules, so a task costs a fork and not a start of Python. Without `fork` the
server runs the task itself, and ends with it.
"""

import atexit
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from queue import LifoQueue
from threading import Lock, Timer
from typing import Any

WALL_SECONDS = 20.0  # wall-clock limit of a task, in addition to its CPU limit
MEMORY_BYTES = 400_000_000  # memory of a task in addition to the server's
NICE = 10  # added to the niceness: where all cores are busy, what decodes comes first
Work = Mapping[str, tuple[Callable[[str], str], float]]  # function and CPU seconds by kind


class Forked:
    """Servers of tasks: the first is started on first use, further ones when all are busy."""

    def __init__(self, module: str, *, most: int = 1) -> None:
        """Create at most `most` servers of a module, not yet started."""
        self._servers = [_Server(module) for _ in range(most)]
        self._idle: LifoQueue[_Server] = LifoQueue()  # so that one which is running comes first
        for server in reversed(self._servers):
            self._idle.put(server)
        atexit.register(self.close)

    def start(self) -> None:
        """Start a server ahead of the first task; returns at once."""
        self._servers[0].start()

    def ask(self, kind: str, text: str) -> str | None:
        """Run a task and return its result; None if it raised an error, crashed or exceeded its limits."""
        server = self._idle.get()
        try:
            return server.ask(kind, text)
        finally:
            self._idle.put(server)

    def close(self) -> None:
        """End the servers."""
        for server in self._servers:
            server.close()


class _Server:
    """A server of tasks; started on first use, and restarted after it has ended."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._lock = Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._parent = 0

    def start(self) -> None:
        with self._lock:
            self._running()

    def ask(self, kind: str, text: str) -> str | None:
        with self._lock:
            process = self._running()
            assert process.stdin is not None and process.stdout is not None
            timer = Timer(WALL_SECONDS, process.kill)
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
                if not line.endswith(b"\n"):  # it has ended or timed out
                    self._end()
        answer: str | None = json.loads(line) if line.endswith(b"\n") else None
        return answer

    def close(self) -> None:
        with self._lock:
            self._end()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._parent != os.getpid():  # forked; the server is the parent's
            self._process.returncode = 0
            self._process = None
        if self._process is None:
            command = [sys.executable, "-W", "ignore", "-m", self._module]
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},  # threads interfere with fork
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
            with suppress(OSError):  # unsent data
                if stream is not None:
                    stream.close()


def serve_requests(work: Work) -> None:
    """Serve the tasks of a `Forked` in the parent process until that ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # keeps other output out of the answers
    for line in sys.stdin.buffer:
        kind, text = json.loads(line)
        function, seconds = work[kind]
        done = _run_in_fork(lambda: function(text), seconds, answers) if hasattr(os, "fork") else function(text)  # noqa: B023
        answers.write(json.dumps(done).encode() + b"\n")
        answers.flush()


def _run_in_fork(function: Callable[[], str], seconds: float, answers: Any) -> str | None:
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            answers.close()  # else readers would wait for this process, too
            os.close(reading)
            limit_process(seconds)
            with os.fdopen(writing, "wb") as result:
                result.write(function().encode("utf-8", "replace"))
            os._exit(0)
        finally:
            os._exit(1)
    os.close(writing)
    with os.fdopen(reading, "rb") as result:
        text = result.read().decode()
    return None if os.waitpid(child, 0)[1] else text


def limit_process(seconds: float, memory: int = MEMORY_BYTES) -> None:
    """Limit the CPU time and memory of this process, and let others compute first, as far as the system supports it.

    Args:
        seconds: CPU seconds from now.
        memory: bytes in addition to the current use.
    """
    try:
        import resource
    except ImportError:
        return  # not Unix
    os.nice(NICE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except OSError:
        return  # not Linux
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    most = taken + memory if hard == resource.RLIM_INFINITY else min(taken + memory, hard)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
