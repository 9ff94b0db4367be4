"""Count what Spec-Verification gains and loses: tables 4 and 6 of Xia et al. (2023) on reactions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from chemspec.bench.sweep import Progress, Setting, sweep
from chemspec.engine.engine import Engine
from chemspec.evaluation.accuracy import KnownReaction, share
from chemspec.io import tables
from chemspec.settings import DecodeSettings


def grid(
    engine: Engine,
    asked: Sequence[KnownReaction],
    drafters: Sequence[str],
    *,
    betas: Sequence[int],
    taus: Sequence[float],
    batch_size: int = 1,
    progress: Progress = lambda *_: None,
) -> list[dict[str, Any]]:
    """Answer greedily under every rule, exactly first; beta = 1 is exact whatever tau is.

    Args:
        engine: of the target.
        asked: queries with their true answers.
        drafters: names.
        betas: how many of the best tokens may be drafted.
        taus: the most log-prob in nats that a drafted token may lack.
        batch_size: queries a model call.
        progress: is told how many rows of how many are done.

    Returns:
        A row for every drafter and rule: `tokens_per_pass`, `acceptance_length` ("Tok." in the paper), `agreement` with
        the target's own answers (the same tokens), and `accuracy` (exact match after canonicalisation), both with 95 %
        intervals.
    """
    base = DecodeSettings(decoder="greedy", n=1, batch_size=batch_size)
    rules = [(1, 0.0)] + [(beta, tau) for beta in betas if beta > 1 for tau in taus]
    settings = [
        Setting(f"{drafter}, {beta}, {tau}", replace(base, drafter=drafter, beta=beta, tau=tau), f"{drafter}, 1, 0.0")
        for drafter in drafters
        for beta, tau in rules
    ]
    rows = []
    for row in sweep(engine, [question.query for question in asked], settings, progress=progress):
        how, counted, same = row.setting.settings, row.counted, row.same(first=True)
        firsts = [result.hypotheses[:1] for result in row.results]
        right = sum(
            any(answer.canonical == question.answer for answer in first)
            for question, first in zip(asked, firsts, strict=True)
        )
        rows.append(
            {
                "drafter": how.drafter,
                "beta": how.beta,
                "tau": how.tau,
                "exact": how.exact,
                "queries": len(asked),
                "passes_per_query": counted.passes_per_query,
                "tokens_per_pass": counted.tokens_per_pass,
                "acceptance_length": counted.acceptance_length,
                "agreement": share(sum(same), len(same)),
                "accuracy": share(right, len(asked)),
            }
        )
    return rows


COLUMNS = {
    "drafter": "{drafter}",
    "beta": "{beta}",
    "tau": "{tau:g}",
    "": "{kind}",
    "passes per query": "{passes_per_query:.2f}",
    "tokens per pass": "{tokens_per_pass:.2f}",
    "agreement": "{agreement[value]:.1%} ({agreement[low]:.1%} to {agreement[high]:.1%})",
    "accuracy": "{accuracy[value]:.1%} ({accuracy[low]:.1%} to {accuracy[high]:.1%})",
}


def markdown(rows: Sequence[dict[str, Any]]) -> str:
    """Return the rows as a table."""
    return tables.markdown(COLUMNS, [{**row, "kind": "exact" if row["exact"] else "relaxed"} for row in rows])
