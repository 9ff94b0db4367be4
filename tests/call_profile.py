"""Look at the calls that a piece of work makes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def with_profile(work: Callable[[], Any], record: Callable[[FrameType, str, Any], None]) -> None:
    """Do the work with `record` as the profile function, see `sys.setprofile`."""
    before = sys.getprofile()
    sys.setprofile(record)
    try:
        work()
    finally:
        sys.setprofile(before)
