"""Round-trip check of a proposed step: settings of the forward and reagents models, and the comparison."""

from __future__ import annotations

from chemspec import chem
from chemspec.settings import DecodeSettings

FORWARD_SETTINGS = DecodeSettings(decoder="greedy", n=1, max_len=200, batch_size=32)
MIN_CONFIDENCE = 0.3  # minimum probability of the target for a confirmation
REAGENT_SETTINGS = DecodeSettings(
    n=10, max_len=200, batch_size=32
)  # greedy decoding finds half as many recorded reagents


def gives_target(target: str, made: str) -> bool:
    """Return whether a predicted product is the target."""
    if not made:
        return False
    target_product = chem.main_product(target)
    return target_product is not None and (
        chem.same_molecules(made, target) or chem.main_product(made) == target_product
    )
