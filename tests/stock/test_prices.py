"""Price lists: whatever the headings and the country, bad lines told and never fatal."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import openpyxl
import pytest
from helpers.case_tables import table
from hypothesis import given
from hypothesis import strategies as st

from chemspec.plan.expand import Proposal
from chemspec.plan.orders import leaf_price, order_routes
from chemspec.plan.routes import Node, Route
from chemspec.stock import lists, offers
from chemspec.stock.lists import load_stock


def offer(text: str, name: str = "a.csv") -> str:
    (found,) = offers.read_price_list(text.encode(), name).offers.values()
    return str(found)


@pytest.mark.parametrize(("text", "told"), table("stock/offers"))
def test_a_line_of_any_country_is_an_offer(text: str, told: str) -> None:
    assert offer(text) == told


@pytest.mark.parametrize(
    "price",
    [
        "1e400",
        "9" * 400,
        "1e-5e3",
        "1.2*10^3",
        "1.2×10³",
        "3x5",
        "3-5 EUR",
        "2 x 12.50",
        "٣٫٥",
        "٣ 5",
        "12.3.4",
        "1,2,3",
        *("0x10 5", "12.50 EUR (2024)", "5²", "१२", "inf", "nan", "-3", "- 3", "−3"),
    ],
)
def test_a_price_that_cannot_be_read_whole_is_told_and_is_none(price: str) -> None:
    found = offers.read_price_list(f"smiles;price;supplier\nCCO;{price};A".encode(), "a.csv")
    (one,) = found.offers.values()
    assert one.price is None and "no price in" in found.faults[0], one


@given(st.floats(0, 1e300), st.sampled_from(["{:e}", "{:.3E}", "{!r}", "{:.2f}", "{:,.2f}"]))
def test_numbers_are_read_as_programs_write_them(number: float, form: str) -> None:
    text = form.format(number)
    (one,) = offers.read_price_list(f"smiles;price\nCCO;{text}".encode(), "a.csv").offers.values()
    assert one.price == pytest.approx(float(text.replace(",", "")))


def test_bad_lines_are_told_and_the_others_read() -> None:
    text = "smiles,price,supplier\nxx,1,A\nCCO,ask,B\nNc1ccccc1,-3,C\n,1,D\nCCN,2 EUR/g,E\n"
    found = offers.read_price_list(text.encode(), "a.csv")
    assert [str(one) for one in found.offers.values()] == ["B", "C", "2.00 EUR/g, E"]
    assert [fault.partition(":")[0] for fault in found.faults] == ["line 2", "line 3", "line 4", "line 5"]
    many = offers.read_price_list(b"smiles,price\n" + b"xx,1\n" * 50, "a.csv")
    assert (len(many.faults), many.faults[-1], many.lines) == (21, "and 30 more lines", 50)


@pytest.mark.parametrize(
    ("raw", "words"), [(b"a,b\n1,2\n", "no column smiles"), (b"", "is empty"), (b'"', "not a table")]
)
def test_what_is_no_list_is_refused(raw: bytes, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        offers.read_price_list(raw, "a.csv")


@given(st.lists(st.lists(st.text(max_size=12), min_size=3, max_size=3), max_size=5))
def test_any_table_is_read_without_an_exception(lines: list[list[str]]) -> None:
    found = offers.price_list_from_rows([["smiles", "price", "supplier"], *lines], "a")
    assert found.lines == len(lines)
    assert all(one.price is None or one.price >= 0 for one in found.offers.values())


def test_that_a_list_was_cut_is_told_before_all_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offers, "MAX_LINES", 30)
    found = offers.price_list_from_rows(
        [["smiles", "price"], *([["no molecule", "1"]] * 25), *([["CCO", "1"]] * 20)], "a"
    )
    assert "only the first 30 lines" in found.faults[0] and "more lines" in found.faults[-1]


def test_stock_of_a_file_knows_its_prices(tmp_path: Path) -> None:
    book, buffer = openpyxl.Workbook(), io.BytesIO()
    for line in (["smiles", "price", "currency", "supplier"], ["CCO", 12.5, "EUR", "Acme"], ["xx", 1, "EUR", ""]):
        book.active.append(line)
    book.save(buffer)
    (tmp_path / "mine.xlsx").write_bytes(buffer.getvalue())
    (tmp_path / "more.csv.gz").write_bytes(gzip.compress(b"smiles,price\nNc1ccccc1,3 USD/g\n"))
    (tmp_path / "plain.csv").write_text("smiles,id\nCCN,1\n")
    with pytest.warns(UserWarning, match="line 3: no molecule is known as 'xx'"):
        found = load_stock([str(tmp_path / name) for name in ("mine.xlsx", "more.csv.gz", "plain.csv")])
    assert (found.source("CCO"), found.offer("OCC")) == ("mine.xlsx, 12.50 EUR, Acme", "12.50 EUR, Acme")
    assert (found.source("Nc1ccccc1"), found.offer("Nc1ccccc1")) == ("more.csv.gz, 3.00 USD/g", "3.00 USD/g")
    assert (found.source("CCN"), found.offer("CCN"), found.source("C")) == ("plain.csv", "", "")


INVENTORY = (
    "Name,Location,Quantity,Ordered,Price\naniline,B3,40 g,2024,\nethanol,Fridge 2,1 L,,9.50 EUR/l\nCCN,,5 g,,\n"
)


def test_a_salt_or_a_stereoisomer_on_the_shelf_is_told_with_a_note_and_is_no_stock() -> None:
    rows = [["smiles", "shelf"], ["C[C@H](N)c1ccccc1", "A1"], ["NCc1ccccc1.Cl", "A2"], ["OC(=O)c1ccccc1", "A3"]]
    have = lists.Stock({}, offers.price_list_from_rows(rows, "lab.csv").offers)
    marks = {
        "C[C@@H](N)c1ccccc1": "◐ here: A1, other stereochemistry",
        "CC(N)c1ccccc1": "◐ here: A1, other stereochemistry",
        "NCc1ccccc1": "◐ here: A2, as a salt",
        "Br.NCc1ccccc1": "◐ here: A2, as a salt",
        "O=C([O-])c1ccccc1.[Na+]": "◐ here: A3, as the free molecule",
        "CCO": lists.UNLISTED,
    }
    for smiles, mark in marks.items():
        assert str(have.look_up(smiles)) == mark
        assert not have.source(smiles) and lists.all_marks([mark, "● buy, 1.00"]) == ""


def test_an_inventory_may_be_an_sdf() -> None:
    from chemspec.chem import formats

    text = formats.to_sdf([{"smiles": "Nc1ccccc1", "Location": "B3", "Quantity": "40 g"}])
    listed = offers.read_price_list(text.encode(), "lab.sdf")
    assert [(str(offer), offer.smiles) for offer in listed.offers.values()] == [("here: B3 · 40 g", "Nc1ccccc1")]


def test_an_inventory_says_where_things_are_at_every_door(tmp_path: Path) -> None:
    (tmp_path / "lab.csv").write_text(INVENTORY)
    (tmp_path / "prices.csv").write_text("smiles,price,supplier\nNc1ccccc1,3 EUR/g,Acme\nCCN,2 EUR/g,Acme\n")
    for names in (["lab.csv", "prices.csv"], ["prices.csv", "lab.csv"]):
        both = load_stock([str(tmp_path / name) for name in names])
        assert both.offer("Nc1ccccc1") == "here: B3 · 40 g · 2024", "a price elsewhere does not hide the shelf"
        assert str(both.look_up("Nc1ccccc1")) == "● here: B3 · 40 g · 2024"
        assert str(both.look_up("CCO")) == "● here: Fridge 2 · 1 L, 9.50 EUR/l"
        assert str(both.look_up("CCN")) == "● buy, 2.00 EUR/g, Acme" or names[-1] == "lab.csv", "no place, no shelf"
    assert both.look_up("Nc1ccccc1").shelf == "B3 · 40 g · 2024"


def test_an_inventory_goes_before_routes_that_need_more_to_be_bought() -> None:
    def route(*stock: str) -> Route:
        leaves = tuple(Node("C" * (2 + number), text) for number, text in enumerate(stock))
        return Route(Node("C" * 9, "", Proposal(tuple(leaf.smiles for leaf in leaves), 0.5), leaves))

    here, there = "lab.csv, here: B3 · 40.00 g", "common"
    assert order_routes([route(there, there), route(here, there), route(here, here)], "shelf") == (
        route(here, here),
        route(here, there),
        route(there, there),
    )
    assert leaf_price(route(here, there).leaves[0]) is None, "an amount is no price"
