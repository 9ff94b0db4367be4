"""Stock lists of InChIKeys, as sorted arrays of 27 bytes per key: a million keys take 27 MB."""

import hashlib
import io
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from chemspec import asset_files
from chemspec.chem.salts import charge_of, group_molecules
from chemspec.io import readers, spreadsheets
from chemspec.plan import prices
from chemspec.plan.prices import KEY, PriceList, inchikey
from chemspec.system import cache

Keys = np.ndarray[Any, np.dtype[np.bytes_]]
MAX_BYTES = 2_000_000_000  # bytes of a decompressed list: seventy million keys
PAROUTES = ("paroutes-n1", "paroutes-n5")
BUILT_IN = ("common", *PAROUTES)
TITLES = {"common": "common chemicals", "paroutes-n1": "PaRoutes", "paroutes-n5": "PaRoutes"}
_COUNTERIONS = {-1: ("[Na+]", "[K+]", "[Li+]"), 1: ("[Cl-]", "[Br-]", "[I-]")}  # the commonest first, by charge
BUY, LISTED, UNLISTED = "● buy", "● in", "○ in no list"


@dataclass(frozen=True, eq=False)
class Stock:
    """Stock lists by name; keys are sorted."""

    lists: Mapping[str, Keys]
    offers: Mapping[str, object] = field(default_factory=dict)  # `prices.Offer` by InChIKey; `str` gives a display text

    def __len__(self) -> int:
        return sum(map(len, self.lists.values()))

    def source(self, smiles: str) -> str:
        """Return the name of the first list with the molecule, with price and supplier; empty if there is none."""
        key = np.bytes_(inchikey(smiles))
        name = next((name for name, keys in self.lists.items() if _contains_key(keys, key)), "") if key else ""
        return ", ".join(filter(None, [name, self.offer(smiles)])) if name and self.offers else name

    def offer(self, smiles: str) -> str:
        """Return price and supplier of a molecule as text; empty if unknown."""
        return str(self.offers.get(inchikey(smiles), ""))


def _contains_key(keys: Keys, key: np.bytes_) -> bool:
    index = int(np.searchsorted(keys, key))
    return index < len(keys) and bool(keys[index] == key)


def stock_mark(smiles: str, stock: Stock) -> str:
    """Return in which list a molecule is, or that it can be bought, and at which price, if that is known."""
    if inchikey(smiles) in stock.offers:
        return ", ".join(filter(None, [BUY, stock.offer(smiles)]))
    name = stock.source(smiles)
    return f"{LISTED} {TITLES.get(name, name)}" if name else UNLISTED


def all_marks(marks: Iterable[str]) -> str:
    """Return one mark for a set of which every molecule is listed or on offer; empty if one is not."""
    named = [mark for mark in marks if mark]
    if not named or UNLISTED in named:
        return ""
    return "● all to buy" if all(mark.startswith(BUY) for mark in named) else "● all in stock lists"


def stock_marks(reactants: str, stock: Stock) -> tuple[str, ...]:
    """Return each molecule's `stock_mark`, in order; a salt has one, at its first ion.

    An ion alone has that of its commonest salt in a list, and none if there is no such salt.
    """
    parts = reactants.split(".")
    marks = [""] * len(parts)
    molecules = group_molecules(parts)
    for molecule in molecules:
        marks[molecule[0]] = stock_mark(".".join(parts[ion] for ion in molecule), stock)
    for ion in {*range(len(parts))}.difference(*molecules):
        salts = (stock_mark(f"{parts[ion]}.{other}", stock) for other in _COUNTERIONS.get(charge_of(parts[ion]), ()))
        marks[ion] = next((mark for mark in salts if mark != UNLISTED), "")
    return tuple(marks)


def load_stock(names: Sequence[str]) -> Stock:
    """Load stock lists, built-in ones (`BUILT_IN`) or files; ValueError for one that is missing, invalid or empty."""
    if not names:
        raise ValueError(f"no stock; give a file of SMILES or InChIKeys, or one of {', '.join(BUILT_IN)}")
    lists: dict[str, Keys] = {}
    offers: dict[str, object] = {}
    for name in names:
        built_in = name in BUILT_IN
        path = asset_files.assets_folder() / "stock" / f"{name}.txt.gz" if built_in else Path(name)
        try:
            raw = path.read_bytes()
        except OSError as error:
            remedy = f"give a file of SMILES or InChIKeys, or {', '.join(BUILT_IN)}"
            raise ValueError(f"stock {name}: {error.strerror}; {remedy}") from error
        label = name if built_in or path.name in lists else path.name
        if built_in or not (priced := parse_offers(raw, path.name)):
            lists[label] = parse_stock(raw, path.name)
        else:
            lists[label] = np.unique(np.array([*priced.offers], dtype="S27"))
            offers |= priced.offers
            for fault in priced.faults:
                warnings.warn(f"stock {name}: {fault}", stacklevel=2)
    return Stock(lists, offers)


def parse_offers(raw: bytes, name: str, *, keep: bool = True) -> PriceList | None:
    """Return the offers in a file's content; None if no table with prices or suppliers (`keep`: `read_price_list`)."""
    if not raw or not name.lower().endswith(prices.ENDINGS):
        return None
    try:
        price_list = prices.read_price_list(raw, name, keep=keep)
    except ValueError:
        return None  # `parse_stock` reports the error, or supports the format
    return price_list if any(map(str, price_list.offers.values())) else None


def parse_stock(raw: bytes, name: str, *, keep: bool = True) -> Keys:
    """Return the sorted keys of a list: a table with a column of InChIKeys or SMILES, or text with one per line.

    The ending of the name determines the format. Other lines are skipped; ValueError if there is no valid one.
    InChIKeys of SMILES take a millisecond each, and are cached on disk if `keep`.
    """
    cache_key = f"stock-{hashlib.sha256(name.encode() + raw).hexdigest()[:16]}.npy"
    if (stored := cache.read_cached(cache_key)) is not None:
        return np.load(io.BytesIO(stored))  # type: ignore[no-any-return]
    ending = Path(name.lower().removesuffix(".gz")).suffix
    content = readers.decompress(raw, f"stock {name}", MAX_BYTES) if raw[:2] == b"\x1f\x8b" else raw
    if ending == spreadsheets.ENDING or ending in readers.TABLES:
        where = f"stock {name}" if ending == spreadsheets.ENDING else name
        cells = _molecule_column(list(prices.read_rows(content, ending, where)), name)
    else:
        cells = readers.decode_text(content).split("\n")
    words = [cell.split()[0] for cell in cells if cell.strip()]
    keys = [word if KEY.fullmatch(word) else inchikey(word) for word in words]
    sorted_keys = np.unique(np.array([key for key in keys if key], dtype="S27"))
    if not len(sorted_keys):
        what = f"none of its {len(words)} lines is an InChIKey or a SMILES" if words else "it is empty"
        raise ValueError(f"stock {name}: {what}; give a .csv, .smi or .txt with one molecule per line")
    if keep and any(key and key != word for key, word in zip(keys, words, strict=True)):
        target = io.BytesIO()
        np.save(target, sorted_keys)
        cache.write_cached(cache_key, target.getvalue())
    return sorted_keys


def _molecule_column(rows: Sequence[list[str]], name: str) -> list[str]:
    head = [cell.strip().lower() for cell in rows[0]]
    index = prices.find_molecule_column(head)
    if index is None:
        if len(head) > 1:
            raise ValueError(f"stock {name} has no column inchikey or smiles; it has {', '.join(rows[0])}")
        return [row[0] for row in rows]  # no header
    return [row[index] for row in rows[1:]]
