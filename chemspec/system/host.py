"""Processor and load of this machine, recorded with measured times."""

import os
import platform
from functools import cache
from pathlib import Path


@cache
def processor_name() -> str:
    """Return the name of the processor, if the system provides it."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def load_average() -> float:
    """Return the load average of the last minute; 0 if the system does not provide it."""
    try:
        return os.getloadavg()[0]
    except (OSError, AttributeError):
        return 0.0


def load_per_core() -> float:
    """Return the load average divided by the number of cores."""
    return load_average() / (os.cpu_count() or 1)
