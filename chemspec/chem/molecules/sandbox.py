"""RDKit tasks that can crash or hang, for a process with limits that `system.forked` starts."""

from functools import partial

import chemspec.chem.molecules.conformer as conformer
import chemspec.chem.molecules.rdkit_tasks as rdkit_tasks
from chemspec.system.forked import serve_requests

if __name__ == "__main__":
    reading = {kind: (partial(rdkit_tasks.parse_and_use, kind), rdkit_tasks.SECONDS) for kind in rdkit_tasks.READERS}
    serve_requests({**reading, "shape": (conformer.conformer, conformer.MAX_SECONDS)})
