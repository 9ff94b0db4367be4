"""InChIKeys, and price lists: tables of molecules with prices and suppliers, as stock with offers."""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import msgspec
from rdkit import Chem, rdBase

from chemspec.chem import formats
from chemspec.chem.parsing import mol_from_smiles
from chemspec.io import readers, spreadsheets
from chemspec.io.columns import find_query_columns
from chemspec.system import cache

KEY = re.compile(r"[A-Z]{14}-[A-Z]{10}-[A-Z]")
COLUMNS = ("inchikey", "inchi_key", "inchi key")  # of a table, what the column with InChIKeys may be called


@lru_cache(maxsize=100_000)
def inchikey(smiles: str) -> str:
    """Return a molecule's standard InChIKey; empty where there is none."""
    mol = mol_from_smiles(smiles)
    with rdBase.BlockLogs():
        return "" if mol is None else str(Chem.MolToInchiKey(mol))  # type: ignore[no-untyped-call]


ENDINGS = (*readers.TABLES, spreadsheets.ENDING, *(f"{ending}.gz" for ending in (*readers.TABLES, spreadsheets.ENDING)))
MAX_LINES = 200_000
MAX_BYTES = 100_000_000  # bytes of a decompressed list
MAX_FAULTS = 20  # faults listed; further ones are counted
MAX_SHOWN = 40  # characters shown of a supplier or unit
_CURRENCIES = {"€": "EUR", "$": "USD", "£": "GBP", "¥": "JPY"}
_CODES = "EUR|USD|GBP|CHF|JPY|CNY|INR|CAD|AUD|SEK|DKK|NOK|PLN|KRW|SGD"
_MONEY = re.compile(rf"(?<![A-Za-z])(?:{_CODES})(?![A-Za-z])|[€$£¥]", re.IGNORECASE)
_NUMBER = re.compile(r"\d[\d.,' \u00a0]*")
_PER = re.compile(r"(?:/|\bper\b|\bfor\b|_per_)\s*([\d.,]*\s*[A-Za-zµ]{1,5})\b", re.IGNORECASE)
_AMOUNT = re.compile(r"[\d.,]*\s*[A-Za-zµ]{1,5}")


@dataclass(frozen=True)
class Offer:
    """Offer of a supplier for a molecule."""

    price: float | None = None  # None if the list has no valid price
    unit: str = ""  # such as "EUR/g", or "EUR/5 g"; empty if unknown
    supplier: str = ""  # empty if unknown

    def __str__(self) -> str:
        """Return a text such as "12.50 EUR/g, supplier", with the known parts."""
        price = "" if self.price is None else f"{self.price:,.2f} {self.unit}".strip()
        return ", ".join(filter(None, [price, self.supplier]))


@dataclass(frozen=True)
class PriceList:
    """Content of a price list."""

    offers: Mapping[str, Offer]  # offers by InChIKey, the cheapest of those in equal units
    faults: tuple[str, ...]  # messages on invalid lines; if there are many, the first ones and the number of others
    lines: int  # number of lines


def read_price_list(raw: bytes, name: str, *, keep: bool = True) -> PriceList:
    """Return the offers of a table: .csv, .tsv or .xlsx, also as .gz, with a column of SMILES, names or InChIKeys.

    Columns for price, currency, amount and supplier are recognised by headings ("price", "EUR/g", "vendor", ...);
    invalid lines are reported in `faults`. The result of a long list is cached on disk if `keep`. ValueError if it is
    not a table, or has no column of molecules.
    """
    cache_key = f"prices-{hashlib.sha256(name.encode() + raw).hexdigest()[:16]}.json"
    if (content := cache.read_cached(cache_key)) is not None:
        return msgspec.json.decode(content, type=PriceList)
    path = Path(name.lower())
    if path.suffix == ".gz":
        raw, path = readers.decompress(raw, name, MAX_BYTES), path.with_suffix("")
    price_list = price_list_from_rows(read_rows(raw, path.suffix, name), name)
    if keep and price_list.lines > 100:  # parsing takes a millisecond per line
        cache.write_cached(cache_key, msgspec.json.encode(price_list))
    return price_list


def read_rows(raw: bytes, ending: str, where: str) -> Iterator[list[str]]:
    """Yield the rows of a workbook, or of a CSV or TSV; FileError if it is none."""
    if ending == spreadsheets.ENDING:
        return spreadsheets.read_workbook_rows(raw, where)
    return readers.read_table(readers.decode_text(raw), ending if ending in readers.TABLES else ".csv", where)


def price_list_from_rows(rows: Iterable[Sequence[str]], name: str) -> PriceList:
    """Return the offers of the rows of a table, the first being its header; see `read_price_list`."""
    lines = iter(rows)
    head = list(next(lines))
    columns = _find_columns(head)
    if "molecule" not in columns:
        raise ValueError(f"{name} has no column smiles or inchikey; it has {', '.join(head)[:300]}")
    offers: dict[str, Offer] = {}
    faults: list[str] = []
    number = 1
    for number, row in enumerate(lines, 2):
        if number > MAX_LINES + 1:
            faults.insert(0, f"only the first {MAX_LINES:,} lines are read")  # the most important fault
            break
        cells = {field: row[index].strip() for field, index in columns.items()}
        key = _cell_to_inchikey(cells["molecule"])
        if not key:
            faults.append(f"line {number}: {cells['molecule'][:MAX_SHOWN]!r} is not a molecule")
            continue
        offer, fault = _read_offer(cells, head[columns["price"]] if "price" in columns else "")
        if fault:
            faults.append(f"line {number}: {fault}")
        offers[key] = _cheaper_offer(offers.get(key), offer)
    if len(faults) > MAX_FAULTS:
        faults = [*faults[:MAX_FAULTS], f"and {len(faults) - MAX_FAULTS:,} more lines"]
    return PriceList(offers, tuple(faults), number - 1)


def find_molecule_column(names: Sequence[str]) -> int | None:
    """Return the index of the column with InChIKeys or else SMILES, by its name in lower case."""
    indices = [names.index(column) for column in COLUMNS if column in names] or find_query_columns(names)
    return indices[0] if indices else None


def _find_columns(head: Sequence[str]) -> dict[str, int]:
    names = [name.strip().lower() for name in head]
    columns: dict[str, int] = {}
    molecule = find_molecule_column(names)
    if molecule is None:
        molecule = next((names.index(column) for column in ("compound", "name", "molecule") if column in names), None)
    if molecule is not None:
        columns["molecule"] = molecule
    patterns = {
        "price": rf"price|cost|^(?:{_CODES}|[€$£¥])\s*(?:/|per|$)",
        "supplier": "supplier|vendor|seller|source|catalog",
        "currency": "currency",
        "amount": "amount|quantity|pack|size|^unit",
    }
    for field, pattern in patterns.items():
        for index, name in enumerate(names):
            if index not in columns.values() and re.search(pattern, name, re.IGNORECASE):
                columns[field] = index
                break
    return columns


def _cell_to_inchikey(text: str) -> str:
    if KEY.fullmatch(text):
        return text
    read = formats.read_any(text, task="retro") if text else None
    return inchikey(read.smiles) if isinstance(read, formats.Input) else ""


def _read_offer(cells: Mapping[str, str], heading: str) -> tuple[Offer, str]:
    """Return the offer of a line, and a message if its price is invalid."""
    text = cells.get("price", "")
    supplier = cells.get("supplier", "")[:MAX_SHOWN]
    number = _NUMBER.search(text)
    price = _parse_number(number[0]) if number and not text.startswith("-") else None
    if price is None:
        return Offer(supplier=supplier), f"no price in {text[:MAX_SHOWN]!r}" if text else ""
    money = next(
        (match[0] for source in (text, cells.get("currency", ""), heading) if (match := _MONEY.search(source))), ""
    )
    per = next((match[1] for source in (text, heading) if (match := _PER.search(source.replace("_", " ")))), "")
    if not per and (amount := _AMOUNT.fullmatch(cells.get("amount", ""))):
        per = amount[0]
    currency = _CURRENCIES.get(money, money.upper())
    unit = "/".join(filter(None, [currency, per.strip()])) if currency else f"per {per.strip()}" if per else ""
    return Offer(price, unit[:MAX_SHOWN], supplier), ""


def _parse_number(text: str) -> float | None:
    """Parse a number in any national format: 1,250.00 and 1.250,00 and 12,5."""
    digits = re.sub(r"[' \u00a0]", "", text).strip(".,")
    comma, point = digits.rfind(","), digits.rfind(".")
    if comma > point and (point >= 0 or len(digits) - comma != 4):
        digits = digits.replace(".", "").replace(",", ".")
    try:
        return float(digits.replace(",", ""))
    except ValueError:
        return None


def _cheaper_offer(current: Offer | None, new: Offer) -> Offer:
    if current is None or current.price is None:
        return new
    cheaper = new.price is not None and new.unit == current.unit and new.price < current.price
    return new if cheaper else current
