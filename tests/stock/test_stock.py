"""Lists of what can be bought: any format, exact membership, small."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import openpyxl
import pytest
from helpers.case_tables import table
from hypothesis import given
from hypothesis import strategies as st

from chemspec import chem
from chemspec.io import readers
from chemspec.stock.lists import (
    BUILT_IN,
    INTERMEDIATE,
    INTERMEDIATES,
    PAROUTES,
    Stock,
    all_marks,
    load_stock,
    parse_stock,
    stock_mark,
)
from chemspec.stock.offers import inchikey

ETHANOL, ANILINE = "LFQSCWFLJHTTHZ-UHFFFAOYSA-N", "PAYRUJLWNCNPSJ-UHFFFAOYSA-N"


@pytest.mark.parametrize(("name", "text"), table("stock/stock_formats"))
def test_every_format_gives_the_same_keys(name: str, text: str) -> None:
    wanted = sorted([ETHANOL, ANILINE])
    assert [key.decode() for key in parse_stock(text.encode(), name)] == wanted
    assert [key.decode() for key in parse_stock(gzip.compress(text.encode()), name + ".gz")] == wanted
    assert [key.decode() for key in parse_stock(text.encode(), name)] == wanted, "from the disk"


@pytest.mark.parametrize(
    ("name", "raw", "words"),
    [
        ("a.smi", b"", "it is empty"),
        ("a.csv", b"", "is empty"),
        ("a.txt", b"hello world\nwhat\n", "none of its 2 lines"),
        ("a.csv", b"a,b\n1,2\n", "no column inchikey or smiles; it has a, b"),
        ("a.smi.gz", b"\x1f\x8bbroken", "cannot be unpacked"),
        ("a.xlsx", b"PK\x03\x04" + bytes(range(200)), "is not a readable workbook"),
    ],
)
def test_what_is_no_stock_is_refused(name: str, raw: bytes, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_stock(raw, name)


def test_a_list_of_keys_is_loaded_without_reading_its_titles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nine thousand titles that are SMILES would take three seconds, in each command that checks or plans."""
    read: list[str] = []
    monkeypatch.setattr(readers, "is_title", lambda text: read.append(text.chars))
    monkeypatch.setattr(chem, "is_valid", lambda text: read.append(text))
    assert load_stock(BUILT_IN).lists.keys() == set(BUILT_IN) and not read
    parse_stock(b"CCO of a title", "a.smi")
    assert read


def test_lists_are_named_and_missing_ones_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.smi").write_text("CCO")
    stock = load_stock([*BUILT_IN, str(tmp_path / "mine.smi")])
    assert stock.source("OCC") == "mine.smi"  # a file names what the built-in lists have, too
    assert stock.source("CN") in BUILT_IN
    assert stock.source("C" * 40) == "" and stock.source("not a molecule") == ""
    with pytest.raises(ValueError, match="paroutes-n1"):
        load_stock(["nowhere.smi"])
    with pytest.raises(ValueError, match="no stock"):
        load_stock([])


@pytest.fixture(scope="module")
def built_in() -> Stock:
    return load_stock(BUILT_IN)


@pytest.mark.parametrize(("name", "smiles"), table("plan/everyday"))
def test_everyday_building_blocks_are_stock(name: str, smiles: str, built_in: Stock) -> None:
    assert built_in.source(smiles), name


def test_intermediates_of_patents_are_no_stock_unless_chosen(tmp_path: Path) -> None:
    large, small = "O=C(O)c1cc(Cc2n[nH]c(=O)c3ccccc23)ccc1F", "Brc1ccc2[nH]ccc2c1"
    keys = parse_stock(f"{inchikey(large)}\n{inchikey(small)}".encode(), "list.txt")
    for name in PAROUTES:
        stock = Stock({name: keys})
        assert stock.source(small) == name and stock.source(large) == ""
        assert stock.is_intermediate(large) and not stock.is_intermediate(small)
        marks = [stock_mark(smiles, stock) for smiles in (small, large)]
        assert marks[1] == INTERMEDIATE and all_marks(marks[:1]) and not all_marks(marks)
        chosen = Stock({name: keys}, intermediates=True)
        assert chosen.source(large) == INTERMEDIATES and stock_mark(large, chosen) == INTERMEDIATE
    own = Stock({"mine": keys, PAROUTES[0]: keys})
    assert own.source(large) == "mine" and not own.is_intermediate(large), "one's own list is believed"
    assert load_stock([*BUILT_IN, INTERMEDIATES]).intermediates and not load_stock(BUILT_IN).intermediates
    with pytest.raises(ValueError, match="no stock"):
        load_stock([INTERMEDIATES])


def test_files_of_one_name_are_two_lists(tmp_path: Path) -> None:
    files = [tmp_path / folder / "list.smi" for folder in ("one", "other")]
    for file, smiles in zip(files, ("CCO", "CN"), strict=True):
        file.parent.mkdir()
        file.write_text(smiles)
    stock = load_stock([str(file) for file in files])
    assert stock.source("CCO") == "list.smi" and stock.source("CN") == str(files[1])


@given(st.lists(st.sampled_from(["C" * n for n in range(1, 30)]), min_size=1), st.integers(1, 40))
def test_membership_is_that_of_a_set(bought: list[str], asked: int) -> None:
    stock = Stock({"list": parse_stock("\n".join(map(inchikey, bought)).encode(), "list.txt")})
    assert bool(stock.source("C" * asked)) == ("C" * asked in bought)


@pytest.mark.parametrize(
    "family",
    [
        ["C[C@H](N)C(=O)O", "C[C@@H](N)C(=O)O", "CC(N)C(=O)O"],  # enantiomers, and the one that does not say
        ["CC(=O)O", "CC(=O)[O-]"],
        ["CO", "[2H]C([2H])([2H])O", "[13CH3]O"],
        ["C/C=C/C", "C/C=C\\C"],
    ],
    ids=["enantiomers", "charge", "isotope", "double bond"],
)
def test_one_molecule_is_not_bought_for_its_like(family: list[str]) -> None:
    """The first 14 letters of their keys, those of the skeleton, are the same."""
    assert len({inchikey(smiles)[:14] for smiles in family}) == 1
    for bought in family:
        stock = Stock({"list": parse_stock(bought.encode(), "list.smi")})
        assert [smiles for smiles in family if stock.source(smiles)] == [bought]


def test_a_million_keys_take_less_than_fifty_megabytes() -> None:
    numbers = np.char.zfill(np.arange(1_000_000).astype("S27"), 27)
    keys = np.append(numbers, np.bytes_(ETHANOL))  # letters sort behind figures
    assert (
        keys.nbytes < 50e6
        and Stock({"many": keys}).source("CCO") == "many"
        and not Stock({"many": keys}).source("CCCO")
    )


def test_a_workbook_needs_no_prices(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    for row in (["name", "smiles"], ["ethanol", "CCO"], ["aniline", "Nc1ccccc1"]):
        book.active.append(row)
    book.save(tmp_path / "mine.xlsx")
    stock = load_stock([str(tmp_path / "mine.xlsx")])
    assert stock.source("OCC") == stock.source("c1ccccc1N") == "mine.xlsx" and not stock.source("C")
