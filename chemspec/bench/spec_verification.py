"""What Spec-Verification gains and loses: table 4 (and, as agreement, table 6) of Xia et al. (2023) on reactions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from chemspec.engine.engine import Engine
from chemspec.evaluation.accuracy import Question, share
from chemspec.metrics import numbers
from chemspec.settings import DecodeSettings
from chemspec.types import DecodeResult

Row = dict[str, Any]


def grid(
    engine: Engine,
    asked: Sequence[Question],
    drafters: Sequence[str],
    *,
    betas: Sequence[int],
    taus: Sequence[float],
    batch_size: int = 1,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> list[Row]:
    """Greedy answers under every rule beside the exact ones, which come first; beta = 1 is exact whatever tau is.

    Returns:
        A row for every drafter and rule: `tokens_per_pass`, `acceptance_length` ("Tok." in the paper), `agreement` with
        the
        target's own answers (the same tokens), and `accuracy` (exact match after canonicalisation), both with 95 %
        intervals.
    """
    base = DecodeSettings(decoder="greedy", n=1, batch_size=batch_size)
    rules = [(1, 0.0)] + [(beta, tau) for beta in betas if beta > 1 for tau in taus]
    queries = [item.query for item in asked]
    rows: list[Row] = []
    total = len(drafters) * len(rules) * len(queries)
    for drafter in drafters:
        own: list[tuple[str, ...]] = []
        for beta, tau in rules:
            how = replace(base, drafter=drafter, beta=beta, tau=tau)
            before = len(rows) * len(queries)
            results = engine.predict(
                queries,
                how,
                progress=lambda done, before=before: progress(before + done, total),  # type: ignore[misc]
            )
            written = [_first(result) for result in results]
            own = own or written
            found = numbers([result.trace for result in results])
            right = [_right(item, result) for item, result in zip(asked, results, strict=True)]
            rows.append(
                {
                    "drafter": drafter,
                    "beta": beta,
                    "tau": tau,
                    "exact": how.exact,
                    "queries": len(queries),
                    "passes_per_query": found.passes_per_query,
                    "tokens_per_pass": found.tokens_per_pass,
                    "acceptance_length": found.acceptance_length,
                    "agreement": share(sum(a == b for a, b in zip(written, own, strict=True)), len(own)),
                    "accuracy": share(sum(right), len(right)),
                }
            )
    return rows


def _first(result: DecodeResult) -> tuple[str, ...]:
    return result.hypotheses[0].tokens if result.hypotheses else ()


def _right(item: Question, result: DecodeResult) -> bool:
    return bool(result.hypotheses) and result.hypotheses[0].canonical == item.answer


def markdown(rows: Sequence[Row]) -> str:
    """The rows as a table."""
    head = "| drafter | beta | tau | | passes per query | tokens per pass | agreement | accuracy |\n|---|---|---|---|---|---|---|---|\n"

    def percent(value: dict[str, float]) -> str:
        return f"{100 * value['value']:.1f}% ({100 * value['low']:.1f} to {100 * value['high']:.1f})"

    return head + "".join(
        f"| {row['drafter']} | {row['beta']} | {row['tau']:g} "
        f"| {'exact' if row['exact'] else 'relaxed'} | {row['passes_per_query']:.2f} | {row['tokens_per_pass']:.2f} "
        f"| {percent(row['agreement'])} | {percent(row['accuracy'])} |\n"
        for row in rows
    )
