"""Compare rules of the forward check: `python tests/programs/forward_rule.py --source FOLDER --limit 300`.

A rule says with what the forward model reads proposed reactants, one after the other until it confirms them: alone,
with the conditions of the nearest precedents or else the usual reagents of the class, with the reagents model's first
set. Of recorded reactants as many as possible should be confirmed; of the retro model's answers, more of the confirmed
than of the other ones should be the recorded ones.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from helpers.scripts import script

from chemspec.cli import options as opt
from chemspec.evaluation.accuracy import read_test_reactions, wilson_interval
from chemspec.precedents import installed
from chemspec.review import load_engines
from chemspec.review.forward_check import FORWARD_SETTINGS, ForwardCheck, Step, StepChecker, read_check
from chemspec.review.reaction_check import matches_expected
from chemspec.settings import DecodeSettings
from chemspec.terminal import console

RULES = {"alone": "A", "with proposed": "AP", "with usual": "AU", "with usual, then proposed": "AUP"}
LIMITS = (0.0, 0.3, 0.5)  # minimum probabilities


def all_checks(checker: StepChecker, steps: Sequence[Step]) -> dict[Step, dict[str, ForwardCheck]]:
    """What the forward model says of each step alone, with usual and with proposed reagents, whatever came before."""
    assert checker.forward is not None
    checker.propose(steps)
    sources: dict[str, Callable[[Step], str]] = {
        "A": lambda _: "",
        "U": checker._usual_reagents,
        "P": checker._likeliest_proposal,
    }
    found: dict[Step, dict[str, ForwardCheck]] = {step: {} for step in steps}
    for letter, reagents_of in sources.items():
        added = {step: reagents_of(step) for step in steps}
        asked = [step for step in steps if added[step] or letter == "A"]
        flasks = [".".join(filter(None, (step[1], added[step]))) for step in asked]
        for step, result in zip(asked, checker.forward.predict(flasks, FORWARD_SETTINGS), strict=True):
            found[step][letter] = read_check(step[0], result, added[step])
    return found


def shares(confirmed: Callable[[Step], bool], lists: Sequence[tuple[Step, list[tuple[Step, bool]]]]) -> dict[str, Any]:
    """Return the share of recorded reactants that are confirmed, and that of recorded ones among answers of a kind."""
    counts: dict[str, Any] = {
        "recorded reactants confirmed": wilson_interval(sum(confirmed(truth) for truth, _ in lists), len(lists))
    }
    for most in (1, 5):
        answers = [answer for _, answers in lists for answer in answers[:most]]
        for name, kind in (("confirmed", True), ("unconfirmed", False)):
            chosen = [recorded for step, recorded in answers if confirmed(step) == kind]
            counts[f"first {most}: {name} and recorded, of {len(chosen)}"] = wilson_interval(sum(chosen), len(chosen))
    return counts


def main(source: opt.Source = None, limit: int = 300, seed: int = 0, threads: int = 1, as_json: bool = False) -> None:
    """Print for each rule and minimum probability what it confirms, on reactions of the USPTO-50K test part."""
    known = read_test_reactions(source, "retro", limit=limit, seed=seed)
    engines = load_engines(threads=threads)
    results = engines["retro"].predict([item.query for item in known], DecodeSettings(n=5, distinct=True))
    lists = [
        (
            (item.query, item.answer),
            [
                ((item.query, answer.canonical), matches_expected("retro", item.query, item.answer, answer.canonical))
                for answer in result.hypotheses
                if answer.valid
            ],
        )
        for item, result in zip(known, results, strict=True)
    ]
    steps = list(dict.fromkeys(step for truth, answers in lists for step in (truth, *(step for step, _ in answers))))
    checker = StepChecker(engines["forward"], engines["reagents"], installed(), most=len(steps))
    checks = all_checks(checker, steps)
    report = {}
    for least in LIMITS:
        for name, letters in RULES.items():

            def confirmed(step: Step, letters: str = letters, least: float = least) -> bool:
                tries = [check for letter in letters if (check := checks[step].get(letter))]
                return any(check.agrees and check.probability >= least for check in tries)

            report[f"{name}, at least {least:g}"] = shares(confirmed, lists)
    if as_json:
        console.print_json(report)
        return
    for name, row in report.items():
        console.print_proportions(row, name)


app = script(main)
if __name__ == "__main__":
    app()
