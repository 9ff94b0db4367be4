"""Textbook reactions: each has its class, or a general one, and no false warning, with its reagents and without."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from helpers.paths import TESTS
from helpers.thinned import every

from chemspec import chem
from chemspec.chem.reactions.step_class import NO_CLASS, family_of
from chemspec.chem.reactions.stoichiometry import classify_whole_step
from chemspec.review.suggestions import Suggestion
from chemspec.types import Hypothesis

FILES = sorted((TESTS / "data").glob("named_reactions_*.tsv"))
PARTS = 3  # of a file, each a test of its own
GENERAL = {NO_CLASS, "Functional group change", "Ring closure", "Ring synthesis"}
# Of reactants without their reagents, which may supply atoms: water, a halide, an oxidant.
WITHOUT_REAGENTS = "the reactants cannot supply"


@pytest.mark.parametrize("part", every(PARTS, range(PARTS)))  # all of them take 15 s
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_textbook_reactions_are_named_and_raise_no_false_warning(file: Path, part: int) -> None:
    faults, verdicts = [], Counter[str]()
    lines = [line.split("\t") for line in file.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    for name, given, after, accepted, *warnings in lines[part::PARTS]:
        product = chem.canonical(after) or ""
        bonds = set()
        for task, side in (("forward", given.replace(">", ".")), ("retro", given.split(">")[0])):
            reactants = chem.canonical(side) or ""
            query, answer = (reactants, product) if task == "forward" else (product, reactants)
            step = classify_whole_step(reactants, product)
            assert step, name
            names = step.name.split(" + ")
            wrong = [part for part in names if part not in GENERAL and not part.endswith(" bond formation")]
            right = step.name in accepted.split("|") or family_of(step) in accepted.split("|")
            verdicts["right" if right else "wrong" if wrong else "general"] += 1
            bonds.add(step.made)
            shown = Suggestion(task, query, 1, Hypothesis(answer, answer, True, (), (), 0.0, 1.0, 1.0))  # type: ignore[arg-type]
            problems = [text for text in shown.problems if text not in "".join(warnings)]
            if wrong and not right:
                faults.append((name, task, step.name))
            faults += [(name, task, text) for text in problems if not text.startswith(WITHOUT_REAGENTS)]
        if len(bonds) > 1:
            faults.append((name, "bonds", str(bonds)))
    assert not faults, faults
    assert verdicts["right"] > 10 * verdicts["general"], verdicts
