"""Learn from training queries what is rare among them and how long they are (`chemspec.engine.familiarity`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from chemspec.engine.familiarity import Familiarity
from chemspec.tokenizer import SPECIALS, TokenError, split_smiles

SELDOM = 20  # training queries; a token that fewer have is rare
MOST = 0.99  # of training queries keep to the length beyond which a query is told as long
LEAST = 0.02  # of validation queries are less alike than what is told as unlike


def of_training(
    queries: Iterable[str], vocabulary: Sequence[str], likeness: Sequence[float], *, digest: str, made: str
) -> Familiarity:
    """Return what there is to know of training queries.

    Args:
        queries: what was trained on, one spelling of each.
        vocabulary: the model's tokens.
        likeness: of validation queries; none where no index has the training products.
        digest: of the weights.
        made: the command.
    """
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
        raise ValueError("there is no training query to look at")
    rare = {token: counts[token] for token in vocabulary[len(SPECIALS) :] if counts[token] < SELDOM}
    unlike = float(np.quantile(likeness, LEAST)) if len(likeness) else 0.0
    return Familiarity(digest, rare, int(np.quantile(lengths, MOST)), unlike, made)
