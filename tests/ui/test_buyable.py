"""What can be bought, by built-in lists and a visitor's own prices."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any

import openpyxl
import pytest

pytest.importorskip("streamlit")

import streamlit as st

from chemspec.io.readers import FileError
from chemspec.plan.prices import PriceList
from chemspec.ui.common import buyable, uploads

LIST = "smiles,price,currency,amount,supplier\nNc1ccccc1,12.50,EUR,g,Acme\nxx,1,EUR,g,A\nCC(=O)[O-].[Na+],3,EUR,kg,B\n"


@pytest.fixture
def state(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A visitor's session."""

    class State(dict[str, Any]):
        def __getattr__(self, name: str) -> Any:
            return self[name]

        def __setattr__(self, name: str, value: Any) -> None:
            self[name] = value

    kept = State()
    monkeypatch.setattr(st, "session_state", kept)
    return kept


def upload(state: Any, name: str, raw: bytes) -> None:
    state.stock_file = SimpleNamespace(name=name, getvalue=lambda: raw)
    buyable._uploaded()


def test_prices_stand_under_precursors_and_a_salt_has_one() -> None:
    from chemspec.plan import prices
    from chemspec.plan.stock import Stock

    have = Stock({}, prices.read_price_list(LIST.encode(), "a.csv").offers)
    marks = buyable.marks("CC(=O)[O-].Nc1ccccc1.[Na+].CCO", have)
    assert marks == ("● buy, 3.00 EUR/kg, B", "● buy, 12.50 EUR/g, Acme", "", "○ make")


def test_an_uploaded_list_is_stock_of_this_visit_and_bad_ones_say_why(state: Any) -> None:
    before = buyable.key()
    upload(state, "mine.csv", LIST.encode())
    assert state.stock_fault == "" and buyable.key() != before
    assert buyable.stock().offer("Nc1ccccc1") == "12.50 EUR/g, Acme"
    own: PriceList = state[buyable._OWN][1]
    assert own.faults == ("line 3: 'xx' is not a molecule",)
    for name, raw, words in (
        ("b.csv", b"a,b\n1,2\n", "no column smiles"),
        ("b.csv", b"smiles,price\nxx,1\n", "none of its 1 lines"),
        ("b.xlsx", b"PK", "not a readable workbook"),
        ("b.csv", b"x" * (uploads.MOST_MB * 1_000_000 + 1), "limit"),
    ):
        upload(state, name, raw)
        assert words in state.stock_fault
    assert state[buyable._OWN][1] is own  # the good one stays


def test_a_workbook_is_read_by_a_process_of_its_own() -> None:
    book, buffer = openpyxl.Workbook(), io.BytesIO()
    for line in (["smiles", "EUR/g", "vendor"], ["CCO", 12.5, "=1+1"]):
        book.active.append(line)
    book.save(buffer)
    assert [str(one) for one in buyable.read(buffer.getvalue(), "a.xlsx").offers.values()] == ["12.50 EUR/g"]
    with pytest.raises(FileError):
        buyable.read(b"PK", "a.xlsx")
