"""A lab's own files: stock lists with their titles, names, hazards and classes, by folder or by entry point."""

from __future__ import annotations

import gzip
import importlib.metadata
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from chemspec import chem
from chemspec.chem import formats
from chemspec.chem.checks import flask_check
from chemspec.chem.reactions import step_class
from chemspec.chem.reading.names import lab_names, lookup, reagents
from chemspec.stock.lists import BUILT_IN, default_lists, list_stamps, load_stock, load_usable_stock
from chemspec.system import lab_files

CACHES = (
    *(lab_names.lab_names, reagents.names_by_smiles, lookup.look_up, flask_check.load_hazards, flask_check.hazards),
    *(step_class.load_rules, step_class._rules_that_bind, step_class._rules_that_may_fit, step_class.classify_step),
    *(step_class._product_hits, step_class._reactant_hits, step_class._rules_for_product, lab_files._plugin_files),
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("CHEMSPEC_HOME", str(tmp_path))
    monkeypatch.setenv("CHEMSPEC_CACHE", str(tmp_path / "cache"))
    for kind in ("stock", "names", "hazards", "classes"):
        (tmp_path / kind).mkdir()
    forget()
    yield tmp_path
    forget()


def forget() -> None:
    for cached in CACHES:
        getattr(cached, "cache_clear", lambda: None)()


def test_every_file_of_the_folder_is_a_stock_list_with_title_currency_and_date(home: Path) -> None:
    text = "# title: Freezer\n# currency: CHF\n# date: 2026-11-01\nsmiles,price,supplier\nNc1ccccc1,12.50,Acme\n"
    (home / "stock" / "freezer.csv").write_text(text)
    (home / "stock" / "packed.csv.gz").write_bytes(gzip.compress(text.replace("Freezer", "Packed").encode()))
    (home / "stock" / "shelf.smi").write_text("CCO\n")
    (home / "stock" / ".hidden.smi").write_text("C\n")
    files = lab_files.lab_files("stock")
    assert [*files] == ["freezer.csv", "packed.csv.gz", "shelf.smi"]
    assert files["freezer.csv"].label == "Freezer (2026-11-01, CHF)" and files["packed.csv.gz"].title == "Packed"
    assert files["shelf.smi"].title == "shelf" and files["shelf.smi"].date.startswith("20")
    assert default_lists() == (*files, *BUILT_IN)
    for name in ("freezer.csv", "packed.csv.gz"):
        stock = load_stock([name, "shelf.smi"])
        assert stock.source("Nc1ccccc1") == f"{name}, 12.50 CHF, Acme" and stock.source("CCO") == "shelf.smi"
        found = stock.look_up("Nc1ccccc1")
        assert (found.list, found.title, found.price, found.unit) == (name, files[name].title, 12.5, "CHF")
    assert str(load_stock(["shelf.smi"]).look_up("CCO")) == "● in shelf"


def test_a_price_that_states_its_currency_keeps_it(home: Path) -> None:
    lines = ["# currency: CHF", "smiles,price,amount", "CCO,3 EUR,1 g", "CO,4,1 g"]
    (home / "stock" / "mixed.csv").write_text("\n".join(lines))
    stock = load_stock(["mixed.csv"])
    assert (stock.offer("CCO"), stock.offer("CO")) == ("3.00 EUR/1 g", "4.00 CHF/1 g")


def test_a_list_that_cannot_be_used_costs_no_other(home: Path) -> None:
    (home / "stock" / "bad.smi").write_text("no molecule at all\n")
    (home / "stock" / "good.smi").write_text("CCO\n")
    with pytest.warns(RuntimeWarning, match="stock bad.smi"):
        stock = load_usable_stock(default_lists())
    assert [*stock.lists] == ["good.smi", *BUILT_IN]
    with pytest.raises(ValueError, match=r"bad\.smi"):
        load_stock(["bad.smi"])


def test_a_changed_list_is_another_one_for_caches(home: Path) -> None:
    file = home / "stock" / "mine.smi"
    file.write_text("CCO\n")
    before = list_stamps(["mine.smi", "common"])
    assert before == list_stamps(["mine.smi", "common"])
    file.write_text("CCO\nCO\n")
    assert before != list_stamps(["mine.smi", "common"])


def test_names_of_the_lab_are_read_wherever_names_are(home: Path) -> None:
    (home / "names" / "codes.tsv").write_text(
        "# what we call them\nsmiles\tnames\nCc1ccccc1N\tLAB-0042 | our aniline\n"
    )
    (home / "names" / "more.csv").write_text("CC(=O)Nc1ccccc1,LAB 7\nnonsense((,LAB 8\n")
    with pytest.warns(RuntimeWarning, match=r"names/more\.csv, line 2 .*no SMILES"):
        assert lab_names.lab_names()["lab 7"] == ("CC(=O)Nc1ccccc1", "LAB 7")
    for text in ("LAB-0042", "lab-0042", "Our  Aniline"):
        read = formats.read_input(text, task="retro")
        assert isinstance(read, formats.Input) and read.smiles == "Cc1ccccc1N", text
    flask = formats.read_input("LAB-0042, acetyl chloride", task="forward")
    assert isinstance(flask, formats.Input) and set(flask.smiles.split(".")) == {"Cc1ccccc1N", "CC(=O)Cl"}
    assert reagents.name_of(str(chem.canonical("CC(=O)Nc1ccccc1"))) == "LAB 7"


def test_hazards_and_classes_of_the_lab_come_with_the_others(home: Path) -> None:
    assert not flask_check.hazards("CCO", "CC=O")
    (home / "hazards" / "rules.tsv").write_text("[CH3][CH2][OH]\tour ethanol is denatured\n[C\tno pattern\nonly one\n")
    row = "oxidation\tHouse oxidation\tAs we do it.\t[CX3]=O\t[CX4:1]-[OH:1]\n"
    (home / "classes" / "ours.tsv").write_text(row)
    forget()
    with pytest.warns(RuntimeWarning, match=r"hazards/rules\.tsv, line (2|3)") as warned:
        assert "our ethanol is denatured" in flask_check.hazards("CCO", "CC=O")
    assert len(warned) == 2
    step = step_class.classify_step("CCO", "CC=O")
    assert step is not None and step.name == "House oxidation"


def test_packages_add_files_by_entry_point_and_faulty_ones_are_named(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "catalogue.smi"
    file.write_text("# title: Catalogue\nCCO\n")
    entries = [
        SimpleNamespace(name="catalogue", value="p:f", load=lambda: lambda: file),
        SimpleNamespace(name="lost", value="p:g", load=lambda: str(tmp_path / "nowhere.smi")),
    ]
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: entries if group == "chemspec.stock" else [])
    with pytest.warns(RuntimeWarning, match=r"'lost' of p:g cannot be used"):
        assert lab_files.lab_files("stock")["catalogue.smi"].title == "Catalogue"
    assert load_stock(["catalogue.smi"]).source("CCO") == "catalogue.smi"


@pytest.mark.slow  # a process with a model
def test_the_command_line_uses_the_lab_lists_by_itself(home: Path) -> None:
    (home / "stock" / "everything.csv").write_text("# currency: EUR\nsmiles,price\nCCO,7\n")
    command = [sys.executable, "-m", "chemspec.cli", "predict", "CCOC(C)=O", "--task", "retro", "-n", "5", "--review"]
    done = subprocess.run([*command, "--json"], capture_output=True, text=True, check=True)
    document: Any = json.loads(done.stdout)
    stock = [found for one in document["results"][0]["review"]["suggestions"] for found in one["stock"] if found]
    assert {(found["list"], found["price"]) for found in stock if found["smiles"] == "CCO"} == {("everything.csv", 7.0)}


def test_a_row_with_too_many_or_too_few_cells_is_told_with_its_number(home: Path) -> None:
    (home / "names" / "ours.csv").write_text("brine,[Na+].[Cl-]\nlonely\na,b,c,d,e,f\n")
    with pytest.warns(RuntimeWarning, match="line") as told:
        rows = lab_files.read_lab_table("names", range(2, 4), lambda _: None)
    assert rows == [["brine", "[Na+].[Cl-]"]]
    assert [str(warning.message).split(": ")[1] for warning in told] == [
        "it has 1 cells, not 2 to 3",
        "it has 6 cells, not 2 to 3",
    ]
