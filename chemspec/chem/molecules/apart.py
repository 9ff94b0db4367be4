"""What is done with RDKit in processes with limits, as it may end them or take too long; `system.forked` starts it."""

from functools import partial

import chemspec.chem.molecules.conformer as conformer
import chemspec.chem.molecules.trial as trial
from chemspec.system.forked import serve_requests

if __name__ == "__main__":
    reading = {kind: (partial(trial.try_here, kind), trial.SECONDS) for kind in trial.READERS}
    serve_requests({**reading, "shape": (conformer.conformer, conformer.MAX_SECONDS)})
