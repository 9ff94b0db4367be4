"""Every task of the registry can be prepared, compared and scored by what its entry says alone."""

from __future__ import annotations

from random import Random
from typing import get_args

import pytest

from chemspec import tasks
from chemspec.chem import canonical
from chemspec.data.reactions import canonical_pair, product_key, product_of, smiles_variants
from chemspec.evaluation.accuracy import in_normal_form
from chemspec.settings import Task
from chemspec.tasks import TASKS

MAPPED = "[CH3:1][C:2](=[O:3])O.[NH2:4][CH3:5]>>[CH3:1][C:2](=[O:3])[NH:4][CH3:5]"
CORE, FLASK, PRODUCT = "CC(=O)O.CN", "CC(=O)O.CCN(CC)CC.CN.ClCCl", "CNC(C)=O"
ROW = {
    "mapped_rxn": MAPPED,
    "mapped_core_rxn": MAPPED,
    "core_reactants": CORE,
    "reactants": CORE,
    "reactants_and_reagents": FLASK,
    "product": PRODUCT,
    "main_product": PRODUCT,
}


def test_the_type_names_what_the_registry_holds() -> None:
    assert tuple(TASKS) == get_args(Task)


@pytest.mark.parametrize("task", list(TASKS))
def test_a_task_says_what_is_made_and_how_it_is_written(task: Task) -> None:
    spec = TASKS[task]
    assert set(spec.columns) | set(spec.mapped) <= set(ROW)
    query, answer = canonical_pair(ROW, task)
    assert product_of(ROW, task) == PRODUCT
    assert product_key(task, query, answer) == PRODUCT
    flask, product = spec.sides(query, answer)
    assert product == PRODUCT and set(CORE.split(".")) <= set(flask.split("."))
    pairs = smiles_variants(ROW, task, count=4, flat_share=0, rng=Random(0))
    assert len(pairs) > 1
    for source, target in pairs:
        assert [canonical(side) for side in spec.sides(source, target)] == [canonical(flask), PRODUCT]
        assert in_normal_form(target, task) == in_normal_form(answer, task)


def test_where_the_core_is_not_known_it_may_be_guessed() -> None:
    row = {**ROW, "core_reactants": "", "mapped_core_rxn": ""}
    assert smiles_variants(row, "reagents", count=1, flat_share=0, rng=Random(0)) == []
    (pair,) = smiles_variants(row, "reagents", count=1, flat_share=0, rng=Random(0), guess=True)
    assert pair == (f"{CORE}>>{PRODUCT}", "CCN(CC)CC.ClCCl")
    bare = {**row, "reactants_and_reagents": CORE}  # nothing is left beside the core
    assert smiles_variants(bare, "reagents", count=1, flat_share=0, rng=Random(0), guess=True) == []
    broken = {**row, "reactants_and_reagents": "CC(=O)(=O)O.CN"}
    assert smiles_variants(broken, "reagents", count=1, flat_share=0, rng=Random(0), guess=True) == []


def test_an_unknown_task_is_refused_with_those_that_there_are() -> None:
    for name in ("both", None, ["retro"]):
        with pytest.raises(ValueError, match=r"is not forward.* or \w+$"):
            tasks.check_task(name)
