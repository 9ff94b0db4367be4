"""Parse a text from standard input with RDKit in a process that may crash; started by `parsing.try_in_process`."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from chemspec.chem import parsing

MEMORY = 400_000_000  # bytes in addition to Python and RDKit


def set_limits() -> None:
    """Limit the processor time and memory of this process."""
    try:
        import resource

        taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (taken + MEMORY, taken + MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.setitimer(signal.ITIMER_PROF, parsing.TRIAL_SECONDS)
    except (ImportError, OSError, AttributeError):
        return  # not Linux: the parent process enforces a timeout


if __name__ == "__main__":
    content = sys.stdin.buffer.read().decode()
    set_limits()
    parsing.run_trial(sys.argv[1], content)
