"""What can be bought, by built-in lists and a visitor's own prices."""

from __future__ import annotations

import gzip
import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import openpyxl
import pytest

pytest.importorskip("streamlit")


from chemspec.io.readers import FileError
from chemspec.jobs import uploads
from chemspec.stock import lists, offers
from chemspec.system import cache
from chemspec.ui.common import stock_menu

LIST = "smiles,price,currency,amount,supplier\nNc1ccccc1,12.50,EUR,g,Acme\nxx,1,EUR,g,A\nCC(=O)[O-].[Na+],3,EUR,kg,B\n"


def upload(state: Any, name: str, raw: bytes) -> None:
    state.stock_file = SimpleNamespace(name=name, getvalue=lambda: raw)
    stock_menu.read_uploaded_list()


def test_prices_stand_under_precursors_and_a_salt_has_one() -> None:
    have = lists.Stock({}, offers.read_price_list(LIST.encode(), "a.csv").offers)
    marks = lists.stock_marks("CC(=O)[O-].Nc1ccccc1.[Na+].CCO", have)
    assert marks == ("● buy, 3.00 EUR/kg, B", "● buy, 12.50 EUR/g, Acme", "", "○ in no list")
    assert lists.stock_marks("CC(=O)[O-].[OH-]", have) == ("● buy, 3.00 EUR/kg, B", "")  # ions alone


def test_an_uploaded_list_is_stock_of_this_visit_and_bad_ones_say_why(state: Any) -> None:
    before = stock_menu.visitor_lists()
    upload(state, "mine.csv", LIST.encode())
    assert state.stock_fault == "" and stock_menu.visitor_lists() != before
    assert stock_menu.visitor_stock().offer("Nc1ccccc1") == "12.50 EUR/g, Acme"
    assert stock_menu.visitor_stock().source("Nc1ccccc1") == "mine.csv, 12.50 EUR/g, Acme"  # not "common, ..."
    own = state[stock_menu.OWN]
    assert own.prices.faults == ("line 3: no molecule is known as 'xx'",)
    for name, raw, words in (
        ("b.csv", b"a,b\n1,2\n", "no column inchikey or smiles"),
        ("b.csv", b"smiles,price\nxx,1\n", "none of its 1 lines"),
        ("b.xlsx", b"PK", "not a readable workbook"),
        ("b.csv", b"x" * (uploads.MAX_STOCK_MB * 1_000_000 + 1), "limit"),
    ):
        upload(state, name, raw)
        assert words in state.stock_fault and state.stock_fault.count(name) == 1
    assert state[stock_menu.OWN] is own  # the good one stays


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever reads a list in this process fails."""
    for name in ("read_price_list", "price_list_from_rows"):
        monkeypatch.setattr(offers, name, None)
    for name in ("parse_stock", "parse_offers"):
        monkeypatch.setattr(lists, name, None)


def test_price_lists_are_read_by_a_process_of_their_own(elsewhere: None) -> None:
    book, buffer = openpyxl.Workbook(), io.BytesIO()
    for line in (["smiles", "EUR/g", "vendor"], ["CCO", 12.5, "=1+1"]):
        book.active.append(line)
    book.save(buffer)
    for name, raw in (
        ("a.xlsx", buffer.getvalue()),
        ("a.csv", b"smiles,EUR/g\nCCO,12.5\n"),
        ("-a\0\ud800.csv.gz", gzip.compress(b"smiles,EUR/g\nCCO,12.5\n", mtime=0)),
    ):
        own = stock_menu.read_own_list(raw, name)
        assert own.stock.source("CCO") == f"{name}, 12.50 EUR/g" and own.stock.offer("CCO") == "12.50 EUR/g"
    shelf = stock_menu.read_own_list(b"smiles,shelf\nCCO,A3\n", "shelf.csv").stock
    assert lists.stock_mark("CCO", shelf) == "● here: A3"  # no offer, so not "buy"
    own = stock_menu.read_own_list(b"name,price\naniline,1\nfoo,2\n", "a.csv")
    assert own.prices.faults == ("line 3: no molecule is known as 'foo'",)
    with pytest.raises(FileError, match="workbook"):
        stock_menu.read_own_list(b"PK", "a.xlsx")


def test_a_stock_list_is_read_by_a_process_of_its_own_and_leaves_nothing(elsewhere: None) -> None:
    kept = sorted(cache.cache_dir().rglob("*"))
    have = stock_menu.read_own_list("\n".join("C" * size for size in range(1, 200)).encode(), "mine.smi").stock
    assert len(have.lists["mine.smi"]) == 199 and have.source("CCC") == "mine.smi" and not have.source("CCO")
    assert sorted(cache.cache_dir().rglob("*")) == kept
    with pytest.raises(FileError, match="none of its 1 lines"):
        stock_menu.read_own_list(b"what", "mine.txt")


def test_a_list_that_is_kept_is_one_of_the_lab_for_everybody(
    state: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHEMSPEC_HOME", str(tmp_path))
    raw = b"smiles,price,currency\nNc1ccccc1,12.50,EUR\n"
    monkeypatch.setattr(stock_menu, "is_local_only", lambda: False)
    state.stock_keep = True
    upload(state, "mine.csv", raw)
    assert not (tmp_path / "stock").exists() and state[stock_menu.OWN].name == "mine.csv", "others are served, too"
    monkeypatch.setattr(stock_menu, "is_local_only", lambda: True)
    upload(state, "mine.csv", raw)
    assert (tmp_path / "stock" / "mine.csv").read_bytes() == raw and stock_menu.OWN not in state
    assert stock_menu.visitor_stock().offer("Nc1ccccc1") == "12.50 EUR"
    upload(state, "mine.csv", raw.replace(b"12.50", b"9"))
    assert sorted(path.name for path in (tmp_path / "stock").iterdir()) == ["mine-2.csv", "mine.csv"]
    upload(state, "../../evil name?.csv", b"smiles\nCCO\n")
    assert all(path.parent == tmp_path / "stock" for path in (tmp_path / "stock").iterdir())
    assert not list(tmp_path.parent.glob("*evil*"))
