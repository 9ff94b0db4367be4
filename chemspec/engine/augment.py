"""Test-time augmentation: predictions for several SMILES variants of a query, merged by rank and frequency.

Every variant is decoded as it would be alone; the merged list is labelled as such (`DecodeResult.variants`,
`Hypothesis.vote`).
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest

from chemspec.types import DecodeResult, Hypothesis, Merged, Pass, Trace, Vote


def rank_by_votes(lists: Sequence[Sequence[Hypothesis]]) -> list[Hypothesis]:
    """Return the distinct valid predictions, best first, each with the SMILES of the variant that ranked it best.

    The score of a prediction is the sum of 1 / (1 + rank) over the variants that predicted it. Ranks start at 0 and
    count distinct valid predictions only (Zhong et al. 2022, root-aligned SMILES, with alpha = 1 as in their code).
    """
    rankings: dict[str, list[tuple[int, int, Hypothesis]]] = {}  # canonical SMILES -> (rank, variant, prediction)
    for number, answers in enumerate(lists):
        different: dict[str, Hypothesis] = {}
        for answer in answers:
            if answer.valid:
                different.setdefault(answer.canonical, answer)
        for rank, answer in enumerate(different.values()):
            rankings.setdefault(answer.canonical, []).append((rank, number, answer))
    merged = []
    for ranks in rankings.values():
        best_rank, number, best = min(ranks, key=lambda ranking: (ranking[0], -ranking[2].log_prob, ranking[1]))
        score = sum(1 / (1 + rank) for rank, _, _ in ranks)
        cast = Vote(score, len(ranks), best_rank + 1, number)
        # Calibrated without augmentation, which does not apply to merged lists.
        merged.append(replace(best, vote=cast, probability=best.model_probability, calibrated=False))
    return sorted(merged, key=_vote_order)


def _vote_order(answer: Hypothesis) -> tuple[float, int, float, str]:
    assert answer.vote is not None
    return -answer.vote.score, answer.vote.best_rank, -answer.log_prob, answer.canonical


def merge_variants(
    query: str, variants: Sequence[DecodeResult], *, requested: int, n: int, trace: Trace, notes: tuple[str, ...] = ()
) -> DecodeResult:
    """Return the merged result of several variants of a query, of which the canonical one is the first.

    If no variant has a valid prediction, the canonical variant's predictions are returned without votes. A small
    molecule has fewer variants than requested. The trace is that of the combined passes, see `combine_passes`.
    """
    answers = [answer for result in variants for answer in result.hypotheses]
    invalid = sum(not answer.valid for answer in answers)
    ranked = rank_by_votes([result.hypotheses for result in variants])[:n] or list(variants[0].hypotheses)
    count = f"{len(variants)} SMILES variant{'s' * (len(variants) != 1)}"
    fewer = f" ({requested} requested)" if len(variants) < requested else ""
    faulty = f"; {invalid} of their {len(answers)} answers are no valid SMILES" if invalid else ""
    note = f"merged from {count} of the query{fewer}{faulty}"
    counts = Merged(requested, len(variants), len(answers), invalid)
    merged = tuple(ranked), trace, (*notes, note), counts, tuple(variants)
    return DecodeResult(query, "ok", "", *merged, smiles=variants[0].smiles)


def combine_passes(passes: Sequence[Pass]) -> Pass:
    """Return the record of one forward pass for a query, summed over its variants.

    Spans, drafts and trees belong to one variant and stay in its own trace.
    """
    counts = ((item.requested, item.computed, item.drafted, item.emitted, item.accepted) for item in passes)
    margin, seconds = min(item.margin for item in passes), (passes[0].draft_seconds, passes[0].model_seconds)
    requested, computed, drafted, emitted, accepted = map(sum, zip(*counts, strict=True))
    return Pass(requested, computed, drafted, emitted, accepted, margin, 1, *seconds)


def passes_per_call(traces: Sequence[Trace]) -> list[Pass]:
    """Return the records of every forward pass of a query, from the traces of its variants.

    All variants take part in every forward pass from the first one until they are finished.
    """
    calls = zip_longest(*(trace.passes for trace in traces))
    return [combine_passes(list(filter(None, call))) for call in calls]
