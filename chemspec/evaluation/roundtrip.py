"""How a proposed step is checked: settings of the forward and the reagents model, and what counts as the target."""

from __future__ import annotations

from chemspec import chem
from chemspec.settings import DecodeSettings

HOW = DecodeSettings(decoder="greedy", n=1, max_len=200, batch_size=32)
UNSURE = 0.3  # below this probability of the target agreement says little
PROPOSE = DecodeSettings(n=10, max_len=200, batch_size=32)  # reagents; greedily, half as many are those of the record


def leads_back(target: str, made: str) -> bool:
    """Return whether what was made is the target."""
    if not made:
        return False
    wanted = chem.main_product(target)
    return wanted is not None and (chem.same_molecules(made, target) or chem.main_product(made) == wanted)
