"""Tables for spreadsheets: no cell is taken for a formula."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chemspec.io import spreadsheets

EVIL = ['=HYPERLINK("http://x")', "+1+1", "-1+1|x", "@SUM(A1)", "\t=1", " =1", "＝1", "%0A=1", "\r=1"]
GOOD = ["", "CCO", "-3.5", "+1", "1e-9", "-.5", "[Na+]", "name", "<script>", "'", "(C)"]


@pytest.mark.parametrize("text", EVIL)
def test_formulas_are_made_harmless(text: str) -> None:
    assert spreadsheets.escape_formula(text) == "'" + text


@pytest.mark.parametrize("text", GOOD)
def test_other_cells_stay_as_they_are(text: str) -> None:
    assert spreadsheets.escape_formula(text) == text


@given(st.text(" \t\r\n\f\u2003", max_size=3), st.sampled_from("=+-@＝＋－＠|%"), st.text())
def test_no_cell_begins_like_a_formula(blanks: str, sign: str, rest: str) -> None:
    text = blanks + sign + rest
    found = spreadsheets.escape_formula(text)
    if found != "'" + text:
        assert found == text
        float(text.replace(",", "."))  # the one thing that may begin with a sign


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\uff1d", " =", "\n=", "|", "%"])
def test_a_table_of_answers_has_no_formulas_and_a_line_an_answer(start: str) -> None:
    text = spreadsheets.rows_to_csv([{"query": f'{start}HYPERLINK("http://x","y")', "note": "two\nlines"}])
    assert len(text.splitlines()) == 2
    (row,) = csv.DictReader(io.StringIO(text))
    assert row["query"].startswith("'") and row["note"] == "two lines"


def test_only_of_further_sheets_there_is_a_note() -> None:
    notes: list[str] = []
    raw = spreadsheets.write_workbook(["smiles"], [["CCO"], ["CCC"]])
    assert [*spreadsheets.read_workbook_rows(raw, "x.xlsx", note=notes.append)] == [["smiles"], ["CCO"], ["CCC"]]
    assert notes == []
