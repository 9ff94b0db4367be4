"""No test reaction and no test product is trained on: the recipes' rows against the test sets, by canonical keys.

All rows are compared by `python tests/programs/leaks.py`; here a part of them, so that the tests stay quick.
"""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest
from helpers.case_tables import table
from helpers.paths import DATA
from programs.leaks import check_arrays, check_rows, others_key

from chemspec.data.prepare import prepare
from chemspec.data.reactions import product_key
from chemspec.data.settings import DataSettings
from chemspec.settings import Task
from chemspec.train.recipe import model_recipe


@pytest.mark.parametrize(("name", "every", "limit"), [("retro-50k", 40, 0), ("forward-mit", 40, 30_000)])
def test_no_test_product_is_in_the_rows_of_a_recipe(name: str, every: int, limit: int, tmp_path: Path) -> None:
    recipe = model_recipe(name)
    files = [DATA / file for file in recipe.train_files]
    tests = DATA / f"{recipe.task}_test.csv.gz"
    for file in (*files, tests):
        if not file.is_file():
            pytest.skip(f"no {file}; set CHEMSPEC_DATA to the folder that holds the data sets")
    tests = _head(tests, tmp_path / "t.csv", 2000)
    found = check_rows(files, tests, replace(recipe.data, limit=limit), every=every)
    assert found.checked > 500 and found.tests > 1000
    assert (found.reactions, found.products) == (0, 0), found.examples


def _head(file: Path, out: Path, count: int) -> Path:
    import gzip

    with gzip.open(file, "rt", encoding="utf-8") as lines:
        out.write_text("".join(line for line, _ in zip(lines, range(count), strict=False)))
    return out


COLUMNS = {
    "retro": ("product", "reactants", "mapped_rxn", "product_in_test"),
    "forward": ("reactants_and_reagents", "main_product", "mapped_core_rxn", "core_reactants", "f"),
}
FINE = dict(table("programs/no_leaks"))
# The same molecules written otherwise, one stereo centre drawn in the forward row.
PLANTED = dict(table("programs/planted_leaks"))
TESTS = {
    "retro": ("c1ccccc1C(N)=O", "ClC(=O)c1ccccc1.N", "", "0"),
    "forward": ("BrP(Br)Br.CCC(C)O", "CCC(C)Br", "", "", "0"),
}


def write(file: Path, task: Task, *rows: tuple[str, ...]) -> Path:
    with file.open("w", newline="") as out:
        csv.writer(out).writerows([COLUMNS[task], *rows])
    return file


@pytest.mark.parametrize("task", ["retro", "forward"])
def test_a_planted_leak_is_found(task: Task, tmp_path: Path) -> None:
    tests = write(tmp_path / "test.csv", task, TESTS[task])
    clean = write(tmp_path / "clean.csv", task, FINE[task])
    assert check_rows([clean], tests, DataSettings(task=task)).products == 0
    leaky = write(tmp_path / "leaky.csv", task, FINE[task], PLANTED[task])
    found = check_rows([leaky], tests, DataSettings(task=task))
    assert (found.tests, found.checked, found.reactions, found.products) == (1, 2, 1, 1)
    assert len(found.examples) == 1
    # The flag that says so keeps it out; a part of the rows may miss it.
    marked = write(tmp_path / "marked.csv", task, FINE[task], (*PLANTED[task][:-1], "1"))
    flag = COLUMNS[task][-1]
    assert check_rows([marked], tests, DataSettings(task=task, leave_out=(flag,))).products == 0
    found = check_rows([leaky, marked], tests, DataSettings(task=task, only=(flag,)))  # only the row with the flag
    assert (found.checked, found.products) == (1, 1)
    assert check_rows([leaky], tests, DataSettings(task=task), every=2).checked == 1


@pytest.mark.parametrize("task", ["retro", "forward"])
def test_a_leak_in_the_arrays_is_found(task: Task, tmp_path: Path) -> None:
    tests = write(tmp_path / "test.csv", task, TESTS[task])
    settings = DataSettings(task=task, variants=3, min_count=1, flat_share=0.5)
    for name, rows, leaks in (("a", [FINE[task]], 0), ("b", [FINE[task], PLANTED[task]], 1)):
        file = write(tmp_path / f"{name}.csv", task, *rows)
        prepare([file], tmp_path / name, settings, workers=1)
        found = check_arrays(tmp_path / name, tests, task)
        assert bool(found.products) == bool(found.reactions) == bool(leaks)


def test_another_way_to_the_same_product_is_a_leak_of_the_product_only(tmp_path: Path) -> None:
    tests = write(tmp_path / "test.csv", "retro", TESTS["retro"])
    other = write(tmp_path / "o.csv", "retro", ("NC(=O)c1ccccc1", "N#Cc1ccccc1", "", "0"))
    found = check_rows([other], tests, DataSettings(task="retro"))
    assert (found.reactions, found.products) == (0, 1)


def test_keys_are_of_molecules() -> None:
    assert others_key("retro", "CC=O", "OCC.Cl") == others_key("retro", "CC=O", "Cl.CCO")
    assert product_key("retro", "[Na+].C(C)O", "C") == product_key("retro", "CCO", "N") == "CCO"
    assert product_key("retro", "C[C@H](N)O", "C") != product_key("retro", "C[C@@H](N)O", "C")
    assert product_key("forward", "C", "C[C@H](N)O") == product_key("forward", "C", "C[C@@H](N)O")
    assert product_key("retro", "CC(", "C") == others_key("retro", "C", "CC(") == ""
