"""Cells of price lists, and lists of building blocks by number, name and InChI."""

from __future__ import annotations

from typing import Any

import pytest
from helpers.case_tables import table

from chemspec.stock import lists, offers, prices


@pytest.mark.parametrize("row", table("stock/price_cells"), ids=lambda row: row[0])
def test_prices_are_read_or_a_fault(row: tuple[Any, ...]) -> None:
    *cells, value, unit, fault = row
    price = prices.read_price(*cells)
    assert (price.value, price.unit) == (value, unit)
    assert fault in price.fault and bool(fault) == bool(price.fault)


@pytest.mark.parametrize("digits", ["1", "1,", "1 ", "1."])
def test_a_cell_of_many_digits_is_refused_unread(digits: str) -> None:
    """Its cost was quadratic: 30,000 digits took 50 s, in a list of prices."""
    assert "30,000 characters" in prices.read_price((digits * 30_000)[:30_000]).fault


LISTS = {
    "cas.csv": "CAS,Name\n62-53-3,aniline\n",
    "cas.txt": "62-53-3\n71-43-2\n",
    "inchi.txt": "InChI=1S/C6H7N/c7-6-4-2-1-3-5-6/h1-5H,7H2\n",
    "mfcd.smi": "MFCD00007629 Nc1ccccc1\n",
    "headless.tsv": "Aniline\t62-53-3\nEthanol\t64-17-5\n",
    "german.csv": "Bezeichnung;Preis;Währung\naniline;12,50;EUR\n",
}


@pytest.mark.parametrize("name", LISTS)
def test_lists_without_smiles_are_read(name: str) -> None:
    keys = lists.parse_stock(LISTS[name].encode(), name, keep=False)
    assert lists.inchikey("Nc1ccccc1").encode() in keys


def test_a_price_per_gram_is_read_from_its_short_heading() -> None:
    listed = offers.read_price_list(b"ppg,smiles,source\n2.5,Nc1ccccc1,Sigma\n", "ppg.csv", keep=False)
    assert str(listed.offers[lists.inchikey("Nc1ccccc1")]) == "2.50 per g, Sigma"


PRICED = {
    "SMILES,1g price USD,5g price USD\nNc1ccccc1,10,40\n": "10.00 USD/1 g",
    "SMILES,1g price USD,5g price USD\nNc1ccccc1,,40\n": "40.00 USD/5 g",
    "Struktur;Preis 1 g (EUR);Preis 5 g (EUR)\nNc1ccccc1;10,50;45,00\n": "10.50 EUR/1 g",
    "CAS-Nr.;Stoffname;Einzelpreis in EUR;Packungsinhalt\n62-53-3;Anilin;12,50;25 g\n": "12.50 EUR/25 g",
    "Numéro CAS;Nom du produit;Prix unitaire (€);Contenance\n62-53-3;aniline;12,50;25 g\n": "12.50 EUR/25 g",
    "Número CAS;Nombre del producto;Precio (EUR);Tamaño del envase\n62-53-3;anilina;12,50;25 g\n": "12.50 EUR/25 g",
    "CAS 号,产品名称,价格(元),包装规格\n62-53-3,苯胺,125.0,25g\n": "125.00 CNY/25g",
    "CAS RN,品名,価格（円）,容量\n62-53-3,アニリン,1250,25g\n": "1,250.00 JPY/25g",
    "CAS,price\n62-53-3,¥320/25g\n": "320.00 ¥/25g",  # of China or of Japan
    "Product,CAS,1g,5g,Currency\nAniline,62-53-3,10,25,EUR\n": "10.00 EUR/1 g",
    "SMILES;Packungsgröße;Einheit;Preis €\nNc1ccccc1;100;mL;17,90\n": "17.90 EUR/100 mL",
    "CAS,Qty,Unit,Price,Currency\n62-53-3,25,g,12.50,EUR\n": "12.50 EUR/25 g",
    "SMILES,250mg USD,1g USD,5g USD\nNc1ccccc1,25,60,200\n": "25.00 USD/250 mg",
    "SMILES,usd_per_gram\nNc1ccccc1,3.2\n": "3.20 USD/g",
    "SMILES;Preis pro Gramm\nNc1ccccc1;1,50 €\n": "1.50 EUR/g",
    "CAS,每克价格(元)\n62-53-3,12\n": "12.00 CNY/g",
    "CAS;Preis je g (EUR)\n62-53-3;1,50\n": "1.50 EUR/g",
    "CAS;Preis pro Kilogramm\n62-53-3;120,50 €\n": "120.50 EUR/kg",
    "CAS;Preis per 100 Gramm\n62-53-3;9 €\n": "9.00 EUR/100 g",
    "CAS,价格(元/克)\n62-53-3,35\n": "35.00 CNY/g",
    "CAS,单价(元/公斤)\n62-53-3,260\n": "260.00 CNY/kg",
    "CAS,価格(円/g)\n62-53-3,980\n": "980.00 JPY/g",
    "CAS,1gあたりの価格(円)\n62-53-3,300\n": "300.00 JPY/1g",
    "CAS;prix au kg\n62-53-3;45 €\n": "45.00 EUR/kg",
    "CAS;coût au litre (€)\n62-53-3;18\n": "18.00 EUR/L",
    "CAS;precio por gramo\n62-53-3;3,20 €\n": "3.20 EUR/g",
    "CAS,Price (USD/mol)\n62-53-3,5\n": "5.00 USD/mol",
    "CAS,USD per kilo\n62-53-3,80\n": "80.00 USD/kg",
    "CAS;Preis\n62-53-3;12 € pro Kilogramm\n": "12.00 EUR/kg",
    "CAS,价格\n62-53-3,35元/克\n": "35.00 CNY/g",
}


@pytest.mark.parametrize("text", PRICED)
def test_packs_in_columns_and_headings_of_other_languages(text: str) -> None:
    listed = offers.read_price_list(text.encode(), "x.csv", keep=False)
    assert str(listed.offers[lists.inchikey("Nc1ccccc1")]) == PRICED[text] and not listed.faults
