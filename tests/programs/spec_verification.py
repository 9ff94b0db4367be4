"""Spec-Verification (Xia et al.) beside exact verification: `python tests/programs/spec_verification.py`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from helpers.scripts import option, script

from chemspec.bench.sweep import Setting, sweep_settings
from chemspec.cli import options as opt
from chemspec.engine.engine import Engine
from chemspec.evaluation.accuracy import KnownReaction, read_test_reactions, wilson_interval
from chemspec.io import tables
from chemspec.settings import DecodeSettings
from chemspec.terminal import console
from chemspec.types import Progress

RULE_COLUMNS = {
    "drafter": "{drafter}",
    "beta": "{beta}",
    "tau": "{tau:g}",
    "": "{kind}",
    "passes per query": "{passes_per_query:.2f}",
    "tokens per pass": "{tokens_per_pass:.2f}",
    "agreement": "{agreement[value]:.1%} ({agreement[low]:.1%} to {agreement[high]:.1%})",
    "accuracy": "{accuracy[value]:.1%} ({accuracy[low]:.1%} to {accuracy[high]:.1%})",
}


def spec_verification(
    engine: Engine,
    asked: Sequence[KnownReaction],
    names: Sequence[str],
    *,
    betas: Sequence[int],
    taus: Sequence[float],
    batch_size: int = 1,
    progress: Progress = lambda *_: None,
) -> list[dict[str, Any]]:
    """Answer greedily under every rule of Xia et al. (2023, tables 4 and 6), exactly first; beta = 1 is always exact.

    Args:
        engine: of the target.
        asked: queries with their true answers.
        names: of drafters.
        betas: how many of the best tokens may be drafted.
        taus: the most log-prob in nats that a drafted token may lack.
        batch_size: queries a model call.
        progress: is told how many rows of how many are done.

    Returns:
        A row for every drafter and rule: `tokens_per_pass`, `acceptance_length` ("Tok." in the paper), `agreement` with
        the target's own answers (the same tokens), and `accuracy` (exact match after canonicalisation), both with 95 %
        intervals.
    """
    plain = DecodeSettings(decoder="greedy", n=1, batch_size=batch_size, drafting="fixed")
    rules = [(1, 0.0)] + [(beta, tau) for beta in betas if beta > 1 for tau in taus]
    settings = [
        Setting(f"{name}, {beta}, {tau}", replace(plain, drafter=name, beta=beta, tau=tau), f"{name}, 1, 0.0")
        for name in names
        for beta, tau in rules
    ]
    rows = []
    for row in sweep_settings(engine, [question.query for question in asked], settings, progress=progress):
        same = row.same(first=True)
        right = sum(
            any(answer.canonical == question.answer for answer in result.hypotheses[:1])
            for question, result in zip(asked, row.results, strict=True)
        )
        rows.append(
            {
                **row.pick("drafter", "beta", "tau", "exact"),
                "queries": len(asked),
                **row.pick("passes_per_query", "tokens_per_pass", "acceptance_length"),
                "agreement": wilson_interval(sum(same), len(same)),
                "accuracy": wilson_interval(right, len(asked)),
            }
        )
    return rows


def rule_table(rows: Sequence[dict[str, Any]]) -> str:
    """Return what `spec_verification` counted as Markdown."""
    return tables.markdown(RULE_COLUMNS, [{**row, "kind": "exact" if row["exact"] else "relaxed"} for row in rows])


def main(
    task: str,
    model: str = "",
    source: opt.Source = None,
    limit: Annotated[int, option("A random sample of so many test reactions; 0: all.")] = 1000,
    drafters: Annotated[tuple[str, ...], option("Drafters, with commas.")] = ("copy",),
    betas: Annotated[tuple[int, ...], option("Best tokens that may be drafted; 1 is exact.")] = (3,),
    taus: Annotated[str, option("Most log-prob that a drafted token may lack.")] = "1",
    batch_size: int = 1,
    threads: int = 0,
    device: str = "auto",
    as_json: bool = False,
) -> None:
    """Compare Spec-Verification (Xia et al.) with exact verification: tokens per pass, agreement and accuracy."""
    asked = read_test_reactions(source, task, limit=limit)
    engine = opt.load_engine(task, model, threads=threads, device=device)
    with console.progress_bar("answering") as report:
        rows = spec_verification(
            engine,
            asked,
            drafters,
            betas=betas,
            taus=tuple(map(float, taus.split(","))),
            batch_size=batch_size,
            progress=report,
        )
    if as_json:
        console.print_json({"task": task, "rows": rows})
    else:
        print(rule_table(rows))


app = script(main)
if __name__ == "__main__":
    app()
