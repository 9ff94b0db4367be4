"""A likely shape of a molecule in three dimensions; the same SMILES always gets the same, unless the time runs out."""

from functools import lru_cache

from chemspec.system.forked import Forked

_APART = Forked("chemspec.chem.apart")  # not `parsing.APART`: a structure should never wait for a picture


@lru_cache(maxsize=200)  # which keeps no exceptions: a busy machine may have more time later
def in_time(smiles: str) -> str:
    """Return `conformer.conformer`, computed in a process of its own; raises TimeoutError where it takes too long."""
    if block := _APART.ask("shape", smiles):
        return block
    raise TimeoutError
