"""What this process uses and runs on."""

from __future__ import annotations

import os
import platform
import sys
from dataclasses import dataclass
from pathlib import Path

import torch


@dataclass(frozen=True)
class Machine:
    """Memory in bytes (None where the system does not tell), and what computes."""

    memory: int | None
    peak: int | None
    cores: int
    gpu: str
    versions: str


def machine() -> Machine:
    """Return what is so now."""
    memory, peak = _memory()
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else ""
    versions = f"Python {platform.python_version()}, torch {torch.__version__}"
    return Machine(memory, peak, os.cpu_count() or 1, gpu, versions)


def _memory(status: Path = Path("/proc/self/status")) -> tuple[int | None, int | None]:
    """Return memory in use and its peak."""
    try:
        lines = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
        now, peak = (int(lines[name].split()[0]) * 1024 for name in ("VmRSS", "VmHWM"))
        return now, peak
    except (OSError, KeyError, ValueError, IndexError):
        return None, _peak()


def _peak() -> int | None:
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
