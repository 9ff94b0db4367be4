"""Merge the answers to several spellings of one query into one list, by rank and frequency: test-time augmentation.

Every spelling is decoded exactly as it would be alone; only the list made of their answers is a different thing, and is
labelled so (`DecodeResult.spellings`, `Hypothesis.vote`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from chemspec.types import DecodeResult, Hypothesis, Merged, Pass, Trace, Vote

ALPHA = 1.0  # of root-aligned SMILES (Zhong et al. 2022); their code, score.py, has the same default


def vote(lists: Sequence[Sequence[Hypothesis]], *, alpha: float = ALPHA) -> list[Hypothesis]:
    """Return the different valid answers, best first, each as the spelling that ranked it best wrote it.

    An answer's score is the sum of 1 / (1 + alpha * rank) over the spellings that gave it; its rank there counts
    different valid answers from 0, so that neither a faulty nor a repeated one takes a place (Zhong et al. 2022,
    root-aligned SMILES).

    Args:
        lists: of every spelling its answers, best first.
        alpha: how fast an answer's weight falls with its rank.
    """
    places: dict[str, list[tuple[int, int, Hypothesis]]] = {}  # answer -> (rank, spelling, text)
    for number, answers in enumerate(lists):
        different: dict[str, Hypothesis] = {}
        for answer in answers:
            if answer.valid:
                different.setdefault(answer.canonical, answer)
        for rank, answer in enumerate(different.values()):
            places.setdefault(answer.canonical, []).append((rank, number, answer))
    merged = []
    for ranks in places.values():
        best_rank, number, best = min(ranks, key=lambda place: (place[0], -place[2].log_prob, place[1]))
        score = sum(1 / (1 + alpha * rank) for rank, _, _ in ranks)
        cast = Vote(score, len(ranks), best_rank + 1, number)
        # The confidence was measured on the answers to one spelling; of merged ones nothing is known.
        merged.append(replace(best, vote=cast, confidence=None))
    return sorted(merged, key=_order)


def _order(answer: Hypothesis) -> tuple[float, int, float, str]:
    assert answer.vote is not None
    return -answer.vote.score, answer.vote.best_rank, -answer.log_prob, answer.canonical


def merge(
    query: str, spellings: Sequence[DecodeResult], *, asked: int, n: int, trace: Trace, notes: tuple[str, ...] = ()
) -> DecodeResult:
    """Return one result made of those of several spellings of a query.

    Where no spelling has a valid answer there is nothing to vote on: the canonical spelling's own answers stand,
    without votes.

    Args:
        query: as it was asked.
        spellings: the result of each, the canonical spelling's first.
        asked: spellings that were wanted; a small molecule has fewer, and some may not be readable for the model.
        n: answers wanted.
        trace: see `together`.
        notes: on the query itself.
    """
    answers = [answer for result in spellings for answer in result.hypotheses]
    invalid = sum(not answer.valid for answer in answers)
    ranked = vote([result.hypotheses for result in spellings])[:n] or list(spellings[0].hypotheses)
    count = f"{len(spellings)} spelling{'s' * (len(spellings) != 1)}"
    fewer = f" ({asked} asked for)" if len(spellings) < asked else ""
    faulty = f"; {invalid} of their {len(answers)} answers are no valid SMILES" if invalid else ""
    note = f"merged from {count} of the query{fewer}{faulty}"
    return DecodeResult(
        query,
        "ok",
        "",
        tuple(ranked),
        trace,
        (*notes, note),
        Merged(asked, len(spellings), len(answers), invalid),
        tuple(spellings),
        smiles=spellings[0].smiles,
    )


def together(passes: Sequence[Pass], width: int) -> Pass:
    """Return what one model call did for a query, all its spellings together.

    Spans, drafts and trees are about one spelling's tokens and stay in the spelling's own trace.

    Args:
        passes: what it did for each spelling.
        width: queries in the call.
    """
    return Pass(
        asked=sum(item.asked for item in passes),
        computed=sum(item.computed for item in passes),
        drafted=sum(item.drafted for item in passes),
        emitted=sum(item.emitted for item in passes),
        accepted=sum(item.accepted for item in passes),
        margin=min(item.margin for item in passes),
        width=width,
        draft_seconds=passes[0].draft_seconds,
        model_seconds=passes[0].model_seconds,
    )


def calls(traces: Sequence[Sequence[Trace]]) -> list[tuple[Pass, ...]]:
    """Return of every query of a batch what each model call did for it; `traces` has those of its spellings.

    All spellings take part in the batch's first call, and in every one until they are done.
    """
    lengths = [max(len(trace.passes) for trace in spellings) for spellings in traces]
    return [
        tuple(
            together(
                [trace.passes[call] for trace in spellings if call < len(trace.passes)],
                sum(call < other for other in lengths),
            )
            for call in range(length)
        )
        for spellings, length in zip(traces, lengths, strict=True)
    ]
