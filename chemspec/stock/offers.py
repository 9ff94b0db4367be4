"""Offers: what a table of prices, or a lab's inventory, says of each molecule."""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

import msgspec
from rdkit import Chem, rdBase

import chemspec.chem as chem
from chemspec.chem import formats
from chemspec.chem.molecules.parsing import mol_from_smiles
from chemspec.io import readers, spreadsheets, structures
from chemspec.io.columns import find_query_columns, in_english
from chemspec.io.packed_files import decompress
from chemspec.stock import prices
from chemspec.system import cache
from chemspec.system.stand_ins import refuse_stand_in

KEY = re.compile(r"[A-Z]{14}-[A-Z]{10}-[A-Z]")
COLUMNS = ("inchikey", "inchi_key", "inchi key")  # names of a table's column with InChIKeys
OTHERS = ("inchi", "cas", "cas number", "compound", "name", "molecule", "product name", "description")
SDF = ".sdf"
KINDS = (*readers.TABLES, spreadsheets.ENDING, SDF)  # read by `read_rows`
TEXTS = (".smi", ".txt")  # one molecule per line
ENDINGS = (*KINDS, *(f"{ending}.gz" for ending in KINDS))
PRICED = (  # headings of prices
    rf"price|cost|^ppg$|^(?:{prices.CODES}|[€$£¥])[\s_]*(?:/|per|$)"
    rf"|^[\d.,]+\s?[munk]?(?:g|l|mol)(?:\b.*(?:{prices.CODES}|[€$£¥])\W*)?$"
)
MAX_LINES = 200_000  # lines of a price list
MAX_PRICE_BYTES = 100_000_000  # bytes of a decompressed price list
MAX_FAULTS = 20  # faults listed; further ones are counted
MAX_SHOWN = 40  # characters shown of a cell
SKELETON = 14  # letters of that block
HERE = "here: "  # what the mark of a molecule on a shelf begins with


@lru_cache(maxsize=100_000)
def inchikey(smiles: str) -> str:
    """Return a molecule's standard InChIKey; empty where there is none."""
    mol = mol_from_smiles(smiles)
    with rdBase.BlockLogs():
        return "" if mol is None else str(Chem.MolToInchiKey(mol))  # type: ignore[no-untyped-call]


def skeleton(smiles: str) -> str:
    """Return the block of the InChIKey for formula and bonds, without stereochemistry, of the largest molecule."""
    return inchikey(max(smiles.split("."), key=lambda part: (chem.heavy_atoms(part), part)))[:SKELETON]


@dataclass(frozen=True)
class Offer:
    """Offer of a supplier for a molecule, or where the lab has it."""

    price: float | None = None  # None if the list has no valid price
    unit: str = ""  # such as "EUR/g", or "EUR/5 g"; empty if unknown
    supplier: str = ""  # empty if unknown
    shelf: str = ""  # where the lab keeps it, such as "B3 · 40 g · 2024"; empty if it has none
    smiles: str = field(default="", compare=False, repr=False)  # as the list has it; empty for an InChIKey
    parent: str = field(default="", compare=False, repr=False)  # of a salt the `skeleton` of its largest part

    def __str__(self) -> str:
        """Return a text such as "12.50 EUR/g, supplier" or "here: B3 · 40 g", with the known parts."""
        price = "" if self.price is None else f"{self.price:,.2f} {self.unit}".strip()
        return ", ".join(filter(None, [self.shelf and HERE + self.shelf, price, self.supplier]))

    def replaces(self, other: "Offer") -> bool:
        """Return whether of two lines of a list this counts: what is on a shelf, then the cheaper in equal units."""
        cheaper = self.price is not None and self.unit == other.unit and self.price < (other.price or 0.0)
        return not other.shelf and (bool(self.shelf) or other.price is None or cheaper)


@dataclass(frozen=True)
class PriceList:
    """Content of a price list."""

    offers: Mapping[str, Offer]  # offers by InChIKey, the cheapest of those in equal units
    faults: tuple[str, ...]  # messages on invalid lines; if there are many, the first ones and the number of others
    lines: int  # number of lines


def read_price_list(raw: bytes, name: str, *, keep: bool = True, currency: str = "") -> PriceList:
    """Return the offers of a table: .csv, .tsv, .xlsx or .sdf, also .gz, with a column of SMILES, names or InChIKeys.

    Columns for price, currency, amount, supplier, place and date are recognised by headings ("EUR/g", "location", ...);
    invalid lines are reported in `faults`; `currency` is that of prices which state none. The result of a long list is
    cached on disk if `keep`. ValueError if it is not a table, or has no column of molecules.
    """
    cache_key = f"offers-3-{hashlib.sha256(name.encode() + currency.encode() + raw).hexdigest()[:16]}.json"
    if (content := cache.read_cached(cache_key)) is not None:
        return msgspec.json.decode(content, type=PriceList)
    refuse_stand_in(raw, name)
    path = Path(name.lower())
    if path.suffix == ".gz":
        raw, path = decompress(raw, name, MAX_PRICE_BYTES), path.with_suffix("")
    price_list = price_list_from_rows(read_rows(raw, path.suffix, name), name, currency)
    if keep and price_list.lines > 100:  # parsing takes a millisecond per line
        cache.write_cached(cache_key, msgspec.json.encode(price_list))
    return price_list


def read_rows(raw: bytes, ending: str, where: str) -> Iterator[list[str]]:
    """Yield the rows of a workbook, an SDF, or a CSV or TSV; FileError if it is none."""
    if ending == SDF:
        return structures.read_structure_rows(readers.decode_text(raw), where)
    if ending == spreadsheets.ENDING:
        return spreadsheets.read_workbook_rows(raw, where)
    return readers.read_table(readers.decode_text(raw), ending if ending in readers.TABLES else ".csv", where)


def price_list_from_rows(rows: Iterable[Sequence[str]], name: str, currency: str = "") -> PriceList:
    """Return the offers of the rows of a table, the first being its header; see `read_price_list`."""
    lines = iter(rows)
    head = list(next(lines))
    names = [*map(in_english, head)]
    molecules = find_molecule_columns(names)
    columns = _find_columns(names, molecules[:1])
    if not molecules:
        raise ValueError(f"{name} has no column smiles or inchikey; it has {', '.join(head)[:300]}")
    offers: dict[str, Offer] = {}
    faults: list[str] = []
    taken = [index for kind, index in columns.items() if kind != "price"]
    named = enumerate(map(in_english, head))
    priced = [index for index, name in named if index not in taken and re.search(PRICED, name, re.IGNORECASE)]
    number = 1
    for number, row in enumerate(lines, 2):
        if number > MAX_LINES + 1:
            faults.insert(0, f"only the first {MAX_LINES:,} lines are read")  # the most important fault
            break
        cells = {kind: row[index].strip() for kind, index in columns.items()}
        written = [cell for index in molecules if (cell := row[index].strip())]
        key, smiles = next((read for cell in written if (read := _read_molecule(cell))[0]), ("", ""))
        if not key:
            known_as = f" is known as {' or '.join(repr(cell[:MAX_SHOWN]) for cell in written)}" if written else ""
            faults.append(f"line {number}: no molecule{known_as}")
            continue
        # The first pack with a price.
        at = next((index for index in priced if row[index].strip()), columns.get("price"))
        cells |= {"price": row[at].strip()} if at is not None else {}
        offer, fault = _read_offer(cells, "" if at is None else in_english(head[at]) or head[at], currency)
        if fault:
            faults.append(f"line {number}: {fault}")
        if key not in offers or offer.replaces(offers[key]):
            offers[key] = replace(offer, smiles=smiles, parent=skeleton(smiles) if "." in smiles else "")
    if len(faults) > MAX_FAULTS:
        faults = [*faults[:MAX_FAULTS], f"and {len(faults) - MAX_FAULTS:,} more lines"]
    return PriceList(offers, tuple(faults), number - 1)


def find_molecule_columns(names: Sequence[str]) -> list[int]:
    """Return the columns of molecules by their English names: InChIKeys, SMILES, then InChIs, CAS numbers and names.

    Where a cell of one holds no known molecule, as an unlisted CAS number, the next one counts.
    """
    keys, others = ([names.index(name) for name in listed if name in names] for listed in (COLUMNS, OTHERS))
    return [*dict.fromkeys([*keys, *find_query_columns(names)[:1], *others])]


def _find_columns(names: Sequence[str], taken: Sequence[int]) -> dict[str, int]:
    """Return the columns of a price list besides those taken, by what they hold."""
    columns: dict[str, int] = {}
    patterns = {
        "price": PRICED,
        "supplier": "supplier|vendor|seller|source|catalog",
        "currency": "currency",
        "amount": "amount|quantity|^qty|pack|size|^unit",
        "unit": "^unit|^uom$",
        "place": "shelf|location|storage|stored|cabinet|cupboard|freezer|fridge|position|^room",
        "since": "ordered|purchased|received|opened|date",
    }
    for kind, pattern in patterns.items():
        for index, name in enumerate(names):
            if index not in (*taken, *columns.values()) and re.search(pattern, name, re.IGNORECASE):
                columns[kind] = index
                break
    return columns


def cell_to_inchikey(text: str) -> str:
    """Return the InChIKey of a cell: an InChIKey, or what `predict` reads; empty for other text."""
    return _read_molecule(text)[0]


def _read_molecule(text: str) -> tuple[str, str]:
    if KEY.fullmatch(text):
        return text, ""
    read = formats.read_input(text, task="retro") if text else None
    return (inchikey(read.smiles), read.smiles) if isinstance(read, formats.Input) else ("", "")


def _read_offer(cells: Mapping[str, str], heading: str, usual: str) -> tuple[Offer, str]:
    """Return the offer of a line, and a message if its price is invalid or a range."""
    supplier = cells.get("supplier", "")[:MAX_SHOWN]
    currency = cells.get("currency") or ("" if prices.MONEY.search(heading) else usual)
    amount = f"{cells.get('amount', '')} {cells.get('unit', '')}".strip()
    price = prices.read_price(cells.get("price", ""), heading, currency, amount)
    cells_of_shelf = (cells.get("place"), amount, cells.get("since"))
    shelf = " · ".join(cell[:MAX_SHOWN] for cell in cells_of_shelf if cell) if cells_of_shelf[0] else ""
    return Offer(price.value, price.unit, supplier, shelf), price.fault
