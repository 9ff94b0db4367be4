"""Score proposed reagents: not only whole sets, but each true reagent.

Answers and truths are sets in normal form (`chemspec.chem.reagent_sets`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from chemspec.evaluation.accuracy import RANKS, share


def scores(truths: Sequence[str], results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return `recall`: by k, the share of all true reagents that are in one of the first k different valid answers."""
    lists = [
        list(dict.fromkeys(answer["canonical"] for answer in result["hypotheses"] if answer["valid"]))
        for result in results
    ]
    return {"recall": recall(truths, lists)}


def recall(truths: Sequence[str], lists: Sequence[Sequence[str]]) -> dict[str, dict[str, float]]:
    """Return by k the share of all true reagents that stand in one of the first k sets of a list."""
    wanted = [set(truth.split(".")) for truth in truths]
    return {
        str(k): share(
            sum(len(own & set(".".join(found[:k]).split("."))) for own, found in zip(wanted, lists, strict=True)),
            sum(map(len, wanted)),
        )
        for k in RANKS
    }
