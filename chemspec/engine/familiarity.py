"""How like the training data a query is: tokens that the model has hardly seen, length, and the nearest known product.

Likeness is the Tanimoto similarity of circular fingerprints (radius 2, 256 bits) to the nearest of the products in the
index of precedents that ships; for a model whose training data these are, `familiarity.json` lies beside the weights.
A query that is less alike, longer or made of rarer tokens than nearly all of the validation data has a note that says
so; the confidence does not depend on it, because likeness did not lower its held-out loss.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

import chemspec.chem as chem
from chemspec.asset_files import assets
from chemspec.precedents import default
from chemspec.precedents.rows import product_fingerprint
from chemspec.precedents.search import Precedents, count_bits
from chemspec.system.files import write_text_atomic
from chemspec.system.untrusted import read_untrusted_json

FILE = "familiarity.json"
WORDS = {".": "several molecules"}  # what a token means that says little by itself


@dataclass(frozen=True)
class Familiarity:
    """What a model's training data were like.

    Attributes:
        digest: of the weights that were trained on them (`Engine.digest`).
        rare: tokens that few training queries have, and how many.
        longest: tokens that nearly all training queries keep to.
        unlike: likeness that nearly all validation queries reach; 0 where no index has the training products.
        made: the command.
    """

    digest: str
    rare: Mapping[str, int]
    longest: int
    unlike: float
    made: str

    def likeness(self, smiles: str) -> float | None:
        """Return how like the nearest training product a query is, from 0 to 1; None where that cannot be told."""
        products = nearest_products() if self.unlike else None
        target = chem.main_product(smiles)
        return None if products is None or target is None else products.likeness(target)

    def notes(self, tokens: Sequence[str], likeness: float | None) -> tuple[str, ...]:
        """Return what is unlike the training data, in words; nothing where all is as usual."""
        rare = [token for token in dict.fromkeys(tokens) if token in self.rare]
        seen = {token: f"in {self.rare[token]} queries" if self.rare[token] else "in no query" for token in rare}
        told = [f"{WORDS.get(token, token)} ({seen[token]})" for token in rare]
        parts = [f"it has {', '.join(told)}"] if told else []
        if len(tokens) > self.longest:
            parts.append(f"it is longer ({len(tokens)} tokens) than 99 % of it ({self.longest})")
        if likeness is not None and likeness < self.unlike:
            parts.append(f"the nearest product in it is only {likeness:.0%} alike")
        return (f"unlike the model's training data: {'; '.join(parts)}",) if parts else ()

    def save(self, folder: Path) -> None:
        """Write it into a model folder."""
        write_text_atomic(folder / FILE, json.dumps(asdict(self), indent=1))


def load(folder: Path, digest: str) -> Familiarity | None:
    """Return what a model folder holds; None where it holds nothing of the kind, or that of other weights."""
    try:
        found = msgspec.convert(read_untrusted_json(folder / FILE), Familiarity)
    except (OSError, ValueError):
        return None
    return found if found.digest == digest else None


class Products:
    """Fingerprints of known products, word by word, so that one is compared with all in a tenth of a millisecond."""

    def __init__(self, prints: NDArray[np.uint8]) -> None:
        self.bits = 8 * prints.shape[1]
        self._words = np.ascontiguousarray(np.ascontiguousarray(prints).view(np.uint64).T)
        self._ones = _sum(self._words)

    def likeness(self, smiles: str) -> float:
        """Return the Tanimoto similarity of a valid molecule to the nearest product."""
        one = product_fingerprint(smiles, self.bits).view(np.uint64)[:, None]
        both = _sum(self._words & one)
        return float((both / np.maximum(self._ones + _sum(one) - both, 1)).max())


def _sum(words: NDArray[np.uint64]) -> NDArray[np.uint16]:
    """Return the bits set in each column."""
    counted: NDArray[np.uint16] = count_bits(words).sum(axis=0, dtype=np.uint16)
    return counted


@lru_cache(maxsize=1)
def nearest_products() -> Products | None:
    """Return the products of the index that ships; None where there is none."""
    path = assets() / "precedents" / default.NAME
    return Products(Precedents.open(path).prints) if path.is_file() else None
