"""What a molecule costs and who sells it, from a table that somebody made: a price list becomes stock with offers."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from chemspec.chem import formats
from chemspec.io import readers, spreadsheets
from chemspec.plan.stock import COLUMNS, KEY, inchikey
from chemspec.system import cache

ENDINGS = (*readers.TABLES, spreadsheets.ENDING, *(f"{ending}.gz" for ending in (*readers.TABLES, spreadsheets.ENDING)))
MOST_LINES = 200_000
MOST_TEXT = 100_000_000  # bytes of an unpacked list
MOST_FAULTS = 20  # told; more are counted
LONGEST = 40  # characters of a supplier or unit that are shown
_CURRENCIES = {"€": "EUR", "$": "USD", "£": "GBP", "¥": "JPY"}
_CODES = "EUR|USD|GBP|CHF|JPY|CNY|INR|CAD|AUD|SEK|DKK|NOK|PLN|KRW|SGD"
_MONEY = re.compile(rf"(?<![A-Za-z])(?:{_CODES})(?![A-Za-z])|[€$£¥]", re.IGNORECASE)
_NUMBER = re.compile(r"\d[\d.,' \u00a0]*")
_PER = re.compile(r"(?:/|\bper\b|\bfor\b|_per_)\s*([\d.,]*\s*[A-Za-zµ]{1,5})\b", re.IGNORECASE)
_AMOUNT = re.compile(r"[\d.,]*\s*[A-Za-zµ]{1,5}")


@dataclass(frozen=True)
class Offer:
    """What a supplier asks for a molecule.

    Attributes:
        price: None where the list has none that can be read.
        unit: such as "EUR/g", or "EUR/5 g"; empty if unknown.
        supplier: empty if unknown.
    """

    price: float | None = None
    unit: str = ""
    supplier: str = ""

    def __str__(self) -> str:
        """Return "12.50 EUR/g, supplier", as far as it is known."""
        price = "" if self.price is None else f"{self.price:,.2f} {self.unit}".strip()
        return ", ".join(filter(None, [price, self.supplier]))


@dataclass(frozen=True)
class PriceList:
    """A list that was read.

    Attributes:
        offers: by InChIKey, of several for a molecule in equal units the cheapest.
        faults: what could not be read and where; the first of them, the last saying how many more there are.
        lines: how many there were to read.
    """

    offers: Mapping[str, Offer]
    faults: tuple[str, ...]
    lines: int


def read(raw: bytes, name: str, *, keep: bool = True) -> PriceList:
    """Return the offers of a table: .csv, .tsv or .xlsx, also as .gz, with a column of SMILES, names or InChIKeys.

    Columns for price, currency, amount and supplier are known by their headings ("price", "EUR/g", "vendor", ...);
    lines that cannot be read are told, never fatal.

    Args:
        raw: the bytes of the file.
        name: of the file; its ending says what it is.
        keep: keep what was found of a long list on disk, for the next time.

    Raises:
        ValueError: if it is no table, or has no column of molecules.
    """
    kept = f"prices-{hashlib.sha256(name.encode() + raw).hexdigest()[:16]}.json"
    if (known := cache.read(kept)) is not None:
        return msgspec.json.decode(known, type=PriceList)
    path = Path(name.lower())
    if path.suffix == ".gz":
        raw, path = readers.decompress(raw, name, MOST_TEXT), path.with_suffix("")
    if path.suffix == spreadsheets.ENDING:
        found = from_rows(spreadsheets.read_workbook_rows(raw, name), name)
    else:
        ending = path.suffix if path.suffix in readers.TABLES else ".csv"
        found = from_rows(readers.read_table(readers.decode_text(raw), ending, name), name)
    if keep and found.lines > 100:  # a millisecond a line
        cache.write(kept, msgspec.json.encode(found))
    return found


def from_rows(rows: Iterable[Sequence[str]], name: str) -> PriceList:
    """Return the offers of the rows of a table, the first being its header; see `read`."""
    lines = iter(rows)
    head = list(next(lines))
    places = _places(head)
    if "molecule" not in places:
        raise ValueError(f"{name} has no column smiles or inchikey; it has {', '.join(head)[:300]}")
    offers: dict[str, Offer] = {}
    faults: list[str] = []
    number = 1
    for number, row in enumerate(lines, 2):
        if number > MOST_LINES + 1:
            faults.insert(0, f"only the first {MOST_LINES:,} lines are read")  # most of all
            break
        cells = {what: row[place].strip() for what, place in places.items()}
        key = _key(cells["molecule"])
        if not key:
            faults.append(f"line {number}: {cells['molecule'][:LONGEST]!r} is no molecule")
            continue
        offer, fault = _offer(cells, head[places["price"]] if "price" in places else "")
        if fault:
            faults.append(f"line {number}: {fault}")
        offers[key] = _better(offers.get(key), offer)
    if len(faults) > MOST_FAULTS:
        faults = [*faults[:MOST_FAULTS], f"and {len(faults) - MOST_FAULTS:,} more lines"]
    return PriceList(offers, tuple(faults), number - 1)


def _places(head: Sequence[str]) -> dict[str, int]:
    """Return which column holds what, by headings."""
    names = [name.strip().lower() for name in head]
    found: dict[str, int] = {}
    molecule = next((names.index(column) for column in COLUMNS if column in names), readers.find_smiles_column(names))
    if molecule is None:
        molecule = next((names.index(column) for column in ("compound", "name", "molecule") if column in names), None)
    if molecule is not None:
        found["molecule"] = molecule
    patterns = {
        "price": rf"price|cost|^(?:{_CODES}|[€$£¥])\s*(?:/|per|$)",
        "supplier": "supplier|vendor|seller|source|catalog",
        "currency": "currency",
        "amount": "amount|quantity|pack|size|^unit",
    }
    for what, pattern in patterns.items():
        for place, name in enumerate(names):
            if place not in found.values() and re.search(pattern, name, re.IGNORECASE):
                found[what] = place
                break
    return found


def _key(text: str) -> str:
    if KEY.fullmatch(text):
        return text
    read = formats.read_any(text, task="retro") if text else None
    return inchikey(read.smiles) if isinstance(read, formats.Input) else ""


def _offer(cells: Mapping[str, str], heading: str) -> tuple[Offer, str]:
    """Return the offer of a line, and what is wrong with its price."""
    text = cells.get("price", "")
    supplier = cells.get("supplier", "")[:LONGEST]
    number = _NUMBER.search(text)
    price = _price(number[0]) if number and not text.startswith("-") else None
    if price is None:
        return Offer(supplier=supplier), f"no price in {text[:LONGEST]!r}" if text else ""
    money = next(
        (match[0] for where in (text, cells.get("currency", ""), heading) if (match := _MONEY.search(where))), ""
    )
    per = next((match[1] for where in (text, heading) if (match := _PER.search(where.replace("_", " ")))), "")
    if not per and (amount := _AMOUNT.fullmatch(cells.get("amount", ""))):
        per = amount[0]
    currency = _CURRENCIES.get(money, money.upper())
    unit = "/".join(filter(None, [currency, per.strip()])) if currency else f"per {per.strip()}" if per else ""
    return Offer(price, unit[:LONGEST], supplier), ""


def _price(text: str) -> float | None:
    """Return a number in the way of any country: 1,250.00 and 1.250,00 and 12,5."""
    digits = re.sub(r"[' \u00a0]", "", text).strip(".,")
    comma, point = digits.rfind(","), digits.rfind(".")
    if comma > point and (point >= 0 or len(digits) - comma != 4):
        digits = digits.replace(".", "").replace(",", ".")
    try:
        return float(digits.replace(",", ""))
    except ValueError:
        return None


def _better(known: Offer | None, new: Offer) -> Offer:
    if known is None or known.price is None:
        return new
    cheaper = new.price is not None and new.unit == known.unit and new.price < known.price
    return new if cheaper else known
