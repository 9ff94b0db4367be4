"""Count round trips: proposed reactants from which the forward model makes the target again.

Settings are fixed, so that numbers compare. The forward model reads the proposed reactants alone, without reagents, and
its first answer by greedy decoding (exact, at most 200 tokens) counts: it must hold the target, or its main product
must be the target, stereochemistry included. Asking the same of the true reactants says how much the forward model
itself allows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from chemspec import chem
from chemspec.engine.engine import Engine
from chemspec.evaluation.accuracy import RANKS, KnownReaction, answer_all, share
from chemspec.settings import DecodeSettings

HOW = DecodeSettings(decoder="greedy", n=1, max_len=200, batch_size=32)


def round_trip(
    forward: Engine,
    asked: Sequence[KnownReaction],
    results: Sequence[Mapping[str, Any]],
    out: Path,
    *,
    most: int = 10,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> dict[str, Any]:
    """Ask the forward model about the first `most` different valid answers to each question, and about the true ones.

    Args:
        forward: the forward model.
        asked: retro questions.
        results: answers of a retro model in the form of `writers.brief`.
        out: what the forward model says (.jsonl), resumable.
        most: answers checked of each question.
        progress: is told how many queries of how many are done.

    Returns:
        `kept`: by k, the share of the first k answers that lead back, over all answers; `found`: by k, the share of
        questions with at least one such answer; `truth`: the share of true answers that lead back.

    Raises:
        ValueError: if the model is no forward model.
    """
    if forward.task != "forward":
        raise ValueError(f"model {forward.name!r} is a {forward.task} model; a round trip needs a forward model")
    lists = [
        list(dict.fromkeys(answer["canonical"] for answer in result["hypotheses"] if answer["valid"]))[:most]
        for result in results
    ]
    sets = list(dict.fromkeys(text for item, own in zip(asked, lists, strict=True) for text in (item.answer, *own)))
    told = answer_all(forward, [KnownReaction(text, "") for text in sets], out, HOW, progress=progress)
    made = {text: _first(result) for text, result in zip(sets, told, strict=True)}
    back = [[leads_back(item.query, made[text]) for text in own] for item, own in zip(asked, lists, strict=True)]
    ranks = [k for k in RANKS if k <= most]
    return {
        "forward": {"model": forward.name, "digest": forward.digest},
        "reactions": len(asked),
        "kept": {str(k): share(sum(sum(own[:k]) for own in back), sum(len(own[:k]) for own in back)) for k in ranks},
        "found": {str(k): share(sum(any(own[:k]) for own in back), len(back)) for k in ranks},
        "truth": share(sum(leads_back(item.query, made[item.answer]) for item in asked), len(asked)),
    }


def rows(report: Mapping[str, Any]) -> dict[str, Mapping[str, float]]:
    """Return the shares by name, for a table."""
    named = {f"answers that lead back, first {k}": value for k, value in report["kept"].items()}
    named |= {f"targets with such an answer, first {k}": value for k, value in report["found"].items()}
    return {**named, "true reactants that lead back": report["truth"]}


def _first(result: Mapping[str, Any]) -> str:
    """Return the first answer, empty where there is no valid one."""
    return next((str(answer["canonical"]) for answer in result["hypotheses"][:1] if answer["valid"]), "")


def leads_back(target: str, made: str) -> bool:
    """Return whether what was made is the target."""
    if not made:
        return False
    wanted = chem.main_product(target)
    return wanted is not None and (chem.same_molecules(made, target) or chem.main_product(made) == wanted)
