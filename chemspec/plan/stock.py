"""What can be bought: lists of InChIKeys, each a sorted array of 27 bytes a key, so that a million take 27 MB."""

from __future__ import annotations

import hashlib
import io
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rdkit import Chem, rdBase

from chemspec import asset_files
from chemspec.chem.parsing import mol_from_smiles
from chemspec.io import readers, spreadsheets
from chemspec.system import cache

if TYPE_CHECKING:
    from chemspec.plan.prices import PriceList

KEY = re.compile(r"[A-Z]{14}-[A-Z]{10}-[A-Z]")
COLUMNS = ("inchikey", "inchi_key", "inchi key")
Keys = np.ndarray[Any, np.dtype[np.bytes_]]
MOST_TEXT = 2_000_000_000  # bytes of an unpacked list: seventy million keys
BUILT_IN = ("paroutes-n1", "paroutes-n5")


@dataclass(frozen=True, eq=False)
class Stock:
    """Lists of what can be bought, by name; each sorted."""

    lists: Mapping[str, Keys]
    offers: Mapping[str, object] = field(default_factory=dict)  # by InChIKey, what `prices` knows; `str` is for people

    def __len__(self) -> int:
        return sum(map(len, self.lists.values()))

    def source(self, smiles: str) -> str:
        """Return the name of the first list that has the molecule, with price and supplier; empty if none has."""
        key = np.bytes_(inchikey(smiles))
        name = next((name for name, keys in self.lists.items() if _holds(keys, key)), "") if key else ""
        return ", ".join(filter(None, [name, self.offer(smiles)])) if name and self.offers else name

    def offer(self, smiles: str) -> str:
        """Return price and supplier of a molecule, in words; empty where they are not known."""
        return str(self.offers.get(inchikey(smiles), ""))


def _holds(keys: Keys, key: np.bytes_) -> bool:
    place = int(np.searchsorted(keys, key))
    return place < len(keys) and bool(keys[place] == key)


@lru_cache(maxsize=100_000)
def inchikey(smiles: str) -> str:
    """Return a molecule's standard InChIKey; empty where there is none."""
    with rdBase.BlockLogs():
        mol = mol_from_smiles(smiles)
        return "" if mol is None else str(Chem.MolToInchiKey(mol))  # type: ignore[no-untyped-call]


def load(names: Sequence[str]) -> Stock:
    """Return the stock of these lists: names of built-in ones (`BUILT_IN`), or files.

    Raises:
        ValueError: for a list that cannot be found or read, or is empty.
    """
    if not names:
        raise ValueError(f"no stock; give a file of SMILES or InChIKeys, or one of {', '.join(BUILT_IN)}")
    found: dict[str, Keys] = {}
    offers: dict[str, object] = {}
    for name in names:
        short = Path(name).name
        label = name if name in BUILT_IN or short in found else short
        if name in BUILT_IN or not (priced := _priced(name)):
            found[label] = _load(name)
        else:
            found[label] = np.unique(np.array([*priced.offers], dtype="S27"))
            offers |= priced.offers
            for fault in priced.faults:
                warnings.warn(f"stock {name}: {fault}", stacklevel=2)
    return Stock(found, offers)


def _priced(name: str) -> PriceList | None:
    """Return the offers of a file; None where it is no table with prices or suppliers."""
    from chemspec.plan import prices  # which stands on this module

    try:
        return offers_of(Path(name).read_bytes(), Path(name).name) if name.lower().endswith(prices.ENDINGS) else None
    except OSError:
        return None  # `_load` says why


def offers_of(raw: bytes, name: str) -> PriceList | None:
    """Return the offers of a file's content; None where it is no table with prices or suppliers."""
    from chemspec.plan import prices

    try:
        found = prices.read(raw, name) if raw and name.lower().endswith(prices.ENDINGS) else None
    except ValueError:
        return None  # `parse` says why, or knows better
    return found if found and any(map(str, found.offers.values())) else None


def _load(name: str) -> Keys:
    path = asset_files.assets() / "stock" / f"{name}.txt.gz" if name in BUILT_IN else Path(name)
    try:
        return parse(path.read_bytes(), path.name)
    except OSError as error:
        shown = ", ".join(BUILT_IN)
        raise ValueError(f"stock {name}: {error.strerror}; give a file of SMILES or InChIKeys, or {shown}") from error


def parse(raw: bytes, name: str) -> Keys:
    """Return the sorted keys of a list: a table with a column of InChIKeys or SMILES, or text with one of them a line.

    Lines that are neither are left out. Making InChIKeys of SMILES takes a millisecond each; they are kept on disk.

    Raises:
        ValueError: if nothing can be read from it.
    """
    kept = f"stock-{hashlib.sha256(name.encode() + raw).hexdigest()[:16]}.npy"
    if (known := cache.read(kept)) is not None:
        return np.load(io.BytesIO(known))  # type: ignore[no-any-return]
    ending = Path(name.lower().removesuffix(".gz")).suffix
    content = readers.decompress(raw, f"stock {name}", MOST_TEXT) if raw[:2] == b"\x1f\x8b" else raw
    if ending == spreadsheets.ENDING:
        cells = _column(spreadsheets.read_workbook_rows(content, f"stock {name}"), name)
    elif ending in readers.TABLES:
        cells = _column(readers.read_table(readers.decode_text(content), ending, name), name)
    else:
        cells = readers.decode_text(content).split("\n")
    words = [cell.split()[0] for cell in cells if cell.strip()]
    keys = [word if KEY.fullmatch(word) else inchikey(word) for word in words]
    found = np.unique(np.array([key for key in keys if key], dtype="S27"))
    if not len(found):
        what = f"none of its {len(words)} lines is an InChIKey or a SMILES" if words else "it is empty"
        raise ValueError(f"stock {name}: {what}; give a .csv, .smi or .txt with one molecule a line")
    if any(key and key != word for key, word in zip(keys, words, strict=True)):
        target = io.BytesIO()
        np.save(target, found)
        cache.write(kept, target.getvalue())
    return found


def _column(table: Iterable[list[str]], name: str) -> list[str]:
    rows = list(table)
    head = [cell.strip().lower() for cell in rows[0]]
    place = next((head.index(column) for column in COLUMNS if column in head), readers.find_smiles_column(head))
    if place is None:
        if len(head) > 1:
            raise ValueError(f"stock {name} has no column inchikey or smiles; it has {', '.join(rows[0])}")
        return [row[0] for row in rows]  # a list without header
    return [row[place] for row in rows[1:]]
