"""Training-set statistics for warnings on out-of-distribution queries (`chemspec.engine.familiarity`)."""

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from chemspec.engine.familiarity import Familiarity
from chemspec.tokenizer import SPECIALS, TokenError, split_smiles

RARE_BELOW = 20  # training queries; tokens in fewer of them are rare
LENGTH_QUANTILE = 0.99  # quantile of training lengths beyond which a query counts as long
SIMILARITY_QUANTILE = 0.02  # quantile of validation similarities below which a query counts as unlike


def training_statistics(
    queries: Iterable[str], vocabulary: Sequence[str], likeness: Sequence[float], *, digest: str, made: str
) -> Familiarity:
    """Compute the statistics of training queries."""
    counts: Counter[str] = Counter()
    lengths = []
    for query in queries:
        try:
            tokens = split_smiles(query)
        except TokenError:
            continue
        counts.update(set(tokens))
        lengths.append(len(tokens))
    if not lengths:
        raise ValueError("there are no training queries")
    rare = {token: counts[token] for token in vocabulary[len(SPECIALS) :] if counts[token] < RARE_BELOW}
    unlike = float(np.quantile(likeness, SIMILARITY_QUANTILE)) if len(likeness) else 0.0
    return Familiarity(digest, rare, int(np.quantile(lengths, LENGTH_QUANTILE)), unlike, made)
