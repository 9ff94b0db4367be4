"""Read a text from standard input with RDKit in a process that may die of it; started by `parsing.trial`."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from chemspec.chem import parsing

MEMORY = 400_000_000  # bytes on top of what Python and RDKit take


def limit() -> None:
    """End this process after so much computing, or when it asks for more memory."""
    try:
        import resource

        taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (taken + MEMORY, taken + MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.setitimer(signal.ITIMER_PROF, parsing.TRIAL_SECONDS)
    except (ImportError, OSError, AttributeError):
        return  # not Linux: whoever waits for this process ends it


if __name__ == "__main__":
    content = sys.stdin.buffer.read().decode()
    limit()
    parsing.try_here(sys.argv[1], content)
