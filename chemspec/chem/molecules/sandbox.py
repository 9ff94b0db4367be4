"""RDKit tasks that can crash or hang, for a process with limits that `system.forked` starts."""

from functools import partial

import chemspec.chem.molecules.conformer as conformer
import chemspec.chem.molecules.trial as trial
from chemspec.system.forked import serve_requests

if __name__ == "__main__":
    reading = {kind: (partial(trial.parse_and_use, kind), trial.SECONDS) for kind in trial.READERS}
    serve_requests({**reading, "shape": (conformer.conformer, conformer.MAX_SECONDS)})
