"""The machine at hand: what a measured time depends on."""

from __future__ import annotations

import os
import platform
from functools import cache
from pathlib import Path


@cache
def processor() -> str:
    """Return the name of the processor, as far as the system tells."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def load() -> float:
    """Return how many programs want to run, on average of the last minute; 0 where the system does not tell."""
    try:
        return os.getloadavg()[0]
    except (OSError, AttributeError):
        return 0.0


def load_per_core() -> float:
    """`load` as a share of the cores."""
    return load() / (os.cpu_count() or 1)
