"""Tables with a molecule per column, headings in other languages, and workbooks of several sheets."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.case_tables import table

from chemspec.io import FileError, columns
from chemspec.io.readers import read_queries

openpyxl = pytest.importorskip("openpyxl")
Sheets = list[tuple[str, list[list[str]], str]]


def workbook(path: Path, sheets: Sheets) -> Path:
    book = openpyxl.Workbook()
    book.remove(book.active)
    for title, rows, state in sheets:
        sheet = book.create_sheet(title)
        sheet.sheet_state = state
        for row in rows:
            sheet.append(row)
    book.save(path)
    return path


@pytest.mark.parametrize(("names", "task", "meant"), table("io/headings_by_language"))
def test_headings_in_other_languages(names: tuple[str, ...], task: str, meant: tuple[str, ...]) -> None:
    assert tuple(names[index] for index in columns.find_query_columns(names, task)) == meant


def test_one_molecule_per_column(tmp_path: Path) -> None:
    file = tmp_path / "hte.csv"
    file.write_text(
        "reactant_000,reactant_001,agent_000,solvent_000,product_000,yield_000\n"
        "CC(=O)Cl,Nc1ccccc1,CCN(CC)CC,ClCCl,CC(=O)Nc1ccccc1,90\n"
        "CC(=O)Cl,Nc1ccccc1,,DCM,CC(=O)Nc1ccccc1,90\n"
    )
    for task in ("forward", "retro", "reagents"):
        assert [*read_queries(file, task=task)] == [
            "CC(=O)Cl.Nc1ccccc1.CCN(CC)CC.ClCCl>>CC(=O)Nc1ccccc1",
            "CC(=O)Cl.Nc1ccccc1; DCM>>CC(=O)Nc1ccccc1",
        ]


TABLE = [["ID", "SMILES"], ["1", "CCO"]]
OTHER = [["ID", "SMILES"], ["2", "CCN"]]
COVER = [["A title"], ["contact", "a@b.c"]]
SHEETS: list[tuple[Sheets, list[str], str]] = [
    ([("Read me", COVER, "visible"), ("Data", TABLE, "visible")], ["CCO"], "not read: Read me"),
    ([("Batch 1", TABLE, "visible"), ("Batch 2", OTHER, "visible")], ["CCO", "CCN"], "sheets Batch 1, Batch 2"),
    ([("Old", OTHER, "hidden"), ("New", TABLE, "visible")], ["CCO"], "hidden: Old"),
    ([("S", [["Date", "2026-11-01"], ["Project", "P-12"], *TABLE], "visible")], ["CCO"], ""),
    ([("S", [["Structure"], *TABLE], "visible")], ["CCO"], ""),
]


@pytest.mark.parametrize(("sheets", "queries", "note"), SHEETS)
@pytest.mark.parametrize("column", ["", "SMILES"])
def test_sheets_of_a_workbook(tmp_path: Path, sheets: Sheets, queries: list[str], note: str, column: str) -> None:
    notes: list[str] = []
    assert [*read_queries(workbook(tmp_path / "b.xlsx", sheets), column, "retro", notes.append)] == queries
    assert note in " ".join(notes)


def test_a_title_that_is_a_usual_heading_is_no_header(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("Reaction\nReactant SMILES,Product SMILES,Yield\nCCO,CC=O,5\n")
    assert [*read_queries(tmp_path / "t.csv", task="retro")] == ["CC=O"]


def test_a_workbook_named_csv_is_refused_by_what_it_is(tmp_path: Path) -> None:
    workbook(tmp_path / "b.xlsx", [("S", TABLE, "visible")]).rename(tmp_path / "b.csv")
    with pytest.raises(FileError, match="Excel workbook"):
        read_queries(tmp_path / "b.csv")
