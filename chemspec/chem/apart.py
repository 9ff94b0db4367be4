"""What is done with RDKit in processes with limits, as it may end them or take too long; `system.forked` starts it."""

from __future__ import annotations

from functools import partial

from chemspec.chem import parsing, shape
from chemspec.system.forked import serve

if __name__ == "__main__":
    reading = {kind: (partial(parsing.try_here, kind), parsing.TRIAL_SECONDS) for kind in parsing.READERS}
    serve({**reading, "shape": (shape.conformer, shape.MOST_SECONDS)})
