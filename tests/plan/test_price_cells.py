"""Cells of price lists, and lists of building blocks by number, name and InChI."""

from __future__ import annotations

from typing import Any

import pytest
from case_tables import table

from chemspec.plan import prices, stock


@pytest.mark.parametrize("row", table("plan/price_cells"), ids=lambda row: row[0])
def test_prices_are_read_or_a_fault(row: tuple[Any, ...]) -> None:
    *cells, value, unit, fault = row
    price = prices.read_price(*cells)
    assert (price.value, price.unit) == (value, unit)
    assert fault in price.fault and bool(fault) == bool(price.fault)


LISTS = {
    "cas.csv": "CAS,Name\n62-53-3,aniline\n",
    "cas.txt": "62-53-3\n71-43-2\n",
    "inchi.txt": "InChI=1S/C6H7N/c7-6-4-2-1-3-5-6/h1-5H,7H2\n",
    "mfcd.smi": "MFCD00007629 Nc1ccccc1\n",
    "german.csv": "Bezeichnung;Preis;Währung\naniline;12,50;EUR\n",
}


@pytest.mark.parametrize("name", LISTS)
def test_lists_without_smiles_are_read(name: str) -> None:
    keys = stock.parse_stock(LISTS[name].encode(), name, keep=False)
    assert stock.inchikey("Nc1ccccc1").encode() in keys


def test_a_price_per_gram_is_read_from_its_short_heading() -> None:
    listed = stock.read_price_list(b"ppg,smiles,source\n2.5,Nc1ccccc1,Sigma\n", "ppg.csv", keep=False)
    assert str(listed.offers[stock.inchikey("Nc1ccccc1")]) == "2.50 per g, Sigma"
