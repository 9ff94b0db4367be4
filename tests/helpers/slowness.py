"""How much slower than the machine that limits of processor time are meant for this one is, here and now."""

from __future__ import annotations

import os
import time

LOOP_SECONDS = 0.03  # of the loop below, on the machine that the limits are meant for
LASTING_SECONDS = 2.0  # after which it is measured again


_measured: list[tuple[float, float]] = []  # when, and what


def slowness() -> float:
    """How many times as long as on the idle machine of `LOOP_SECONDS` a test may take here and now; at least 1."""
    now = time.monotonic()
    if not _measured or now - _measured[-1][0] > LASTING_SECONDS:
        _measured[:] = [(now, _measure())]
    return _measured[-1][1]


def _measure() -> float:
    began = time.process_time()
    sum(number * number for number in range(1_000_000))
    slow = max(1.0, (time.process_time() - began) / LOOP_SECONDS)
    # Beside many other programs caches are cold, which that loop, all in registers, does not feel.
    crowded = hasattr(os, "getloadavg") and os.getloadavg()[0] > 2 * (os.cpu_count() or 1)
    return 2 * slow if crowded else slow
