"""A program for `test_forked.py`: pieces of work that end well or badly."""

from __future__ import annotations

import os
import time

from chemspec.system.forked import MEMORY_BYTES, serve_requests


def endless(_: str) -> str:
    while True:
        pass


def asleep(_: str) -> str:
    time.sleep(60)
    return ""


def swollen(_: str) -> str:
    return str(len(bytearray(2 * MEMORY_BYTES)))


def wrong(text: str) -> str:
    raise ValueError(text)


def niceness(_: str) -> str:
    return str(os.nice(0))


def noisy(_: str) -> str:
    os.write(1, b"nobody should take this for an answer\n")
    return "x"


def dead(_: str) -> str:
    os.abort()


WORK = {"echo": str, "server": lambda _: str(os.getppid()), "long": lambda text: text * 1_000_000}
WORK |= {work.__name__: work for work in (endless, asleep, swollen, wrong, dead, noisy, niceness)}

if __name__ == "__main__":
    # What takes too much memory has time for it, so that its own limit ends it.
    serve_requests({kind: (work, 20.0 if kind == "swollen" else 0.2) for kind, work in WORK.items()})
