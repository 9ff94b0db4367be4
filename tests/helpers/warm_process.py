"""A process that has imported what commands need, and runs each in a fork of itself: a start of Python costs more.

For `python -m MODULE ...` where the test is about what the command does; a few tests of each command start it anew.
"""

from __future__ import annotations

import atexit
import os
import pickle
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from typing import Any

PYTHON = sys.executable
IMPORTED = ("chemspec.jobs.uploads", "pyarrow.parquet", "openpyxl")


class Warm:
    """The process; it ends with this one."""

    def __init__(self, modules: Sequence[str] = IMPORTED) -> None:
        command = [PYTHON, "-W", "ignore", __file__, *modules]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        atexit.register(self._process.kill)

    def run(self, command: Sequence[str], given: bytes) -> subprocess.CompletedProcess[bytes]:
        """Run a module with arguments and standard input, with the environment that this process has now."""
        assert self._process.stdin and self._process.stdout
        pickle.dump((command[2:], given, dict(os.environ)), self._process.stdin)
        self._process.stdin.flush()
        return subprocess.CompletedProcess([*command], *pickle.load(self._process.stdout))


_warm = cache(Warm)
_run = subprocess.run


def run(command: Sequence[str], **options: Any) -> subprocess.CompletedProcess[Any]:
    """`subprocess.run`, but for the modules that are imported there by the warm process."""
    warm = hasattr(os, "fork") and command[:2] == [PYTHON, "-m"] and command[2] in IMPORTED
    return _warm().run(command, options["input"]) if warm else _run(command, **options)


def _serve() -> None:
    while True:
        try:
            words, given, environment = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        with tempfile.TemporaryFile() as standard, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            standard.write(given)
            standard.seek(0)
            if not (child := os.fork()):
                _become(words, environment, [file.fileno() for file in (standard, out, err)])
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            texts = [file.seek(0) or file.read() for file in (out, err)]
        pickle.dump((code, *texts), sys.stdout.buffer)
        sys.stdout.flush()


def _become(words: Sequence[str], environment: dict[str, str], files: Sequence[int]) -> None:
    """Run a module in this fork, and end."""
    code = 1
    try:
        for number, file in enumerate(files):
            os.dup2(file, number)
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
        os.environ.clear()
        os.environ.update(environment)
        module, *sys.argv[1:] = words
        del sys.modules[module]
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1 if end.code else 0
        if isinstance(end.code, str):
            sys.stderr.write(end.code)
    finally:
        with suppress(OSError, ValueError, MemoryError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        with suppress(ModuleNotFoundError):
            import_module(name)
    _serve()
