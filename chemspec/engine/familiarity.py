"""Out-of-distribution notes: rare tokens, length, and similarity to the nearest training product.

The similarity is the Tanimoto similarity of circular fingerprints (radius 2, 256 bits) to the nearest product in the
shipped precedent index; models trained on these reactions have a `familiarity.json`. The confidence does not depend on
it, because the similarity did not reduce its held-out loss.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

import chemspec.chem as chem
from chemspec.asset_files import assets_folder
from chemspec.model.manifest import refresh_manifest
from chemspec.precedents.index_file import product_fingerprint
from chemspec.precedents.installation import NAME
from chemspec.precedents.search import Precedents, count_bits
from chemspec.system.files import write_text_atomic
from chemspec.system.untrusted import read_untrusted_json

FILE = "familiarity.json"
WORDS = {".": "several molecules"}  # meaning of tokens, for messages


@dataclass(frozen=True)
class Familiarity:
    """Statistics of a model's training data."""

    digest: str  # digest of the weights (`Engine.digest`)
    rare: Mapping[str, int]  # rare tokens, with the number of training queries that contain them
    longest: int  # length that nearly all training queries stay below, in tokens
    unlike: float  # similarity that nearly all validation queries reach; 0 if no index contains the training products
    made: str  # command it was made with

    def nearest_similarity(self, smiles: str) -> float | None:
        """Return the similarity of a query to the nearest training product, 0 to 1; None if it is unknown."""
        products = nearest_products() if self.unlike else None
        target = chem.main_product(smiles)
        return None if products is None or target is None else products.nearest_similarity(target)

    def unfamiliarity_notes(self, tokens: Sequence[str], likeness: float | None) -> tuple[str, ...]:
        """Return notes on differences from the training data."""
        rare = [token for token in dict.fromkeys(tokens) if token in self.rare]
        rare_tokens = [f"{WORDS.get(token, token)} (in {self.rare[token] or 'no'} training queries)" for token in rare]
        parts = [f"it has {', '.join(rare_tokens)}"] if rare_tokens else []
        parts += ["for a salt, ask for its acid or base alone"] * ("." in rare)
        if len(tokens) > self.longest:
            parts.append(f"it is longer ({len(tokens)} tokens) than 99 % of it ({self.longest})")
        if likeness is not None and likeness < self.unlike:
            parts.append(f"the nearest product in it is only {likeness:.0%} alike")
        return (f"unlike the model's training data: {'; '.join(parts)}",) if parts else ()

    def save(self, folder: Path) -> None:
        """Write the file to a model folder."""
        write_text_atomic(folder / FILE, json.dumps(asdict(self), indent=1))
        refresh_manifest(folder)


def load_familiarity(folder: Path, digest: str) -> Familiarity | None:
    """Load the statistics of a model folder; returns None if there are none, or for other weights."""
    try:
        familiarity = msgspec.convert(read_untrusted_json(folder / FILE), Familiarity)
    except (OSError, ValueError):
        return None
    return familiarity if familiarity.digest == digest else None


class ProductFingerprints:
    """Fingerprints of the training products, stored by word, so that a search takes a tenth of a millisecond."""

    def __init__(self, prints: NDArray[np.uint8]) -> None:
        self.bits = 8 * prints.shape[1]
        self._words = np.ascontiguousarray(np.ascontiguousarray(prints).view(np.uint64).T)
        self._ones = _bits_per_column(self._words)

    def nearest_similarity(self, smiles: str) -> float:
        """Return the Tanimoto similarity of a valid molecule to the nearest product."""
        fingerprint = product_fingerprint(smiles, self.bits).view(np.uint64)[:, None]
        both = _bits_per_column(self._words & fingerprint)
        return float((both / np.maximum(self._ones + _bits_per_column(fingerprint) - both, 1)).max())


def _bits_per_column(words: NDArray[np.uint64]) -> NDArray[np.uint16]:
    """Return the number of bits set in each column."""
    return count_bits(words).sum(axis=0, dtype=np.uint16)  # type: ignore[no-any-return]


@lru_cache(maxsize=1)
def nearest_products() -> ProductFingerprints | None:
    """Return the fingerprints of the shipped index; None if there is none."""
    path = assets_folder() / "precedents" / NAME
    return ProductFingerprints(Precedents(path).prints) if path.is_file() else None
