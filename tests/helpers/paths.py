"""Where the project, and data that is not part of it, lie."""

from __future__ import annotations

import os
from pathlib import Path

TESTS = Path(__file__).parent.parent
ROOT = TESTS.parent
SHARED = Path(os.environ.get("CHEMSPEC_SHARED", ROOT / ".." / "shared"))
DATA = Path(os.environ.get("CHEMSPEC_DATA", SHARED / "data"))
