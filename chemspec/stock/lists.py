"""Stock: lists of InChIKeys as sorted arrays of 27 bytes per key (a million keys take 27 MB), and price lists."""

import hashlib
import io
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from chemspec import asset_files
from chemspec.chem.molecules.salts import charge_of, group_molecules
from chemspec.chem.reading.names.reagents import is_cas
from chemspec.io import readers
from chemspec.io.columns import in_english
from chemspec.io.packed_files import decompress
from chemspec.stock.building_blocks import why_intermediate
from chemspec.stock.offers import (
    ENDINGS,
    KEY,
    KINDS,
    SDF,
    SKELETON,
    Offer,
    PriceList,
    cell_to_inchikey,
    find_molecule_columns,
    inchikey,
    read_price_list,
    read_rows,
    skeleton,
)
from chemspec.system import cache
from chemspec.system.lab_files import LabFile, lab_files, split_facts
from chemspec.system.stand_ins import refuse_stand_in

Keys = np.ndarray[Any, np.dtype[np.bytes_]]
MAX_BYTES = 2_000_000_000  # bytes of a decompressed list: seventy million keys
PAROUTES = ("paroutes-n1", "paroutes-n5")
BUILT_IN = ("common", *PAROUTES)
# Not a list of its own: counts the molecules of PaRoutes that are rather intermediates of patents as stock.
INTERMEDIATES = "patent-intermediates"
CHOICES = (*BUILT_IN, INTERMEDIATES)
TITLES = {"common": "common chemicals", **dict.fromkeys(PAROUTES, "PaRoutes"), INTERMEDIATES: "patent intermediates"}
_COUNTERIONS = {-1: ("[Na+]", "[K+]", "[Li+]"), 1: ("[Cl-]", "[Br-]", "[I-]")}  # the commonest first, by charge
BUY, LISTED, UNLISTED = "● buy", "● in", "○ in no list"
NEARLY = "◐"  # begins the mark of what is not sold as it is
INTERMEDIATE = f"{NEARLY} a patent intermediate"


@dataclass(frozen=True)
class Availability:
    """Whether a molecule can be bought, and where."""

    smiles: str
    list: str = ""  # name of the first stock list that has it; empty if none has
    title: str = ""  # title of that list
    price: float | None = None  # price of an offer; None if unknown
    unit: str = ""  # unit of that price, such as "EUR/g"; empty if unknown
    supplier: str = ""  # empty if unknown
    intermediate: bool = False  # whether it is only an intermediate of patents, which is not sold
    shelf: str = ""  # where the lab keeps it; see `Offer`

    def __str__(self) -> str:
        """Return a mark for people: where it is kept, its offer, or the list that it is in."""
        if offer := str(Offer(self.price, self.unit, self.supplier, self.shelf)):
            return f"{'●' if self.list else NEARLY} {offer}" if self.shelf else f"{BUY}, {offer}"
        if self.intermediate:
            return INTERMEDIATE
        return f"{LISTED} {self.title or self.list}" if self.list else UNLISTED


@dataclass(frozen=True, eq=False)
class Stock:
    """Stock lists by name; keys are sorted.

    The lists of PaRoutes are what patents started from. What of them is rather an intermediate than a molecule that is
    sold (`stock.building_blocks`) is no stock, unless `intermediates` is true.
    """

    lists: Mapping[str, Keys]
    offers: Mapping[str, Offer] = field(default_factory=dict)  # offers by InChIKey
    intermediates: bool = False
    titles: Mapping[str, str] = field(default_factory=dict)  # titles of a lab's lists, by name

    def source(self, smiles: str) -> str:
        """Return the name of the first list with the molecule, with price and supplier; empty if it is no stock.

        The name is `INTERMEDIATES` for an intermediate of patents that counts as stock.
        """
        name = self._list_of(smiles)
        if name in PAROUTES and why_intermediate(smiles):
            return INTERMEDIATES * self.intermediates
        return ", ".join(filter(None, [name, self.offer(smiles)])) if name and self.offers else name

    def is_intermediate(self, smiles: str) -> bool:
        """Return whether a molecule is in a list of PaRoutes alone, and rather an intermediate than sold."""
        return self._list_of(smiles) in PAROUTES and bool(why_intermediate(smiles))

    def look_up(self, smiles: str) -> Availability:
        """Return whether a molecule can be bought, and where."""
        offer, intermediate = self.offers.get(inchikey(smiles), Offer()), self.is_intermediate(smiles)
        name = "" if intermediate else self._list_of(smiles)
        if not name and not str(offer):
            offer = self._nearly_on_shelf(smiles)
        title = self.titles.get(name) or TITLES.get(name, name)
        return Availability(smiles, name, title, offer.price, offer.unit, offer.supplier, intermediate, offer.shelf)

    @property
    def on_shelf(self) -> dict[str, Offer]:
        """What the lab has, by InChIKey."""
        return {key: offer for key, offer in self.offers.items() if offer.shelf}

    @cached_property
    def _skeletons(self) -> dict[str, tuple[str, Offer]]:
        """What the lab has, with InChIKeys, by skeleton, for a salt also by that of its largest part."""
        return {
            name: (key, offer)
            for key, offer in reversed(self.on_shelf.items())
            for name in filter(None, (key[:SKELETON], offer.parent))
        }

    def _nearly_on_shelf(self, smiles: str) -> Offer:
        """Return what the lab has of a molecule in another form, with a note; an empty offer for nothing."""
        key = inchikey(smiles)
        having, offer = self._skeletons.get(key[:SKELETON]) or self._skeletons.get(skeleton(smiles), ("", Offer()))
        if not having:
            return Offer()
        as_salt = "as the free molecule" if "." in smiles and not offer.parent else "as a salt"
        note = "other stereochemistry" if having[:SKELETON] == key[:SKELETON] else as_salt
        return Offer(shelf=f"{offer.shelf}, {note}")

    def other_form_here(self, smiles: str) -> str:
        """Return where the lab keeps a molecule in another form, such as a salt; empty if it does not."""
        return str(self._nearly_on_shelf(smiles)) if self.offers else ""

    def _list_of(self, smiles: str) -> str:
        key = np.bytes_(inchikey(smiles))
        return next((name for name, keys in self.lists.items() if _contains_key(keys, key)), "") if key else ""

    def offer(self, smiles: str) -> str:
        """Return price and supplier of a molecule as text; empty if unknown."""
        return str(self.offers.get(inchikey(smiles), ""))


def _contains_key(keys: Keys, key: np.bytes_) -> bool:
    index = int(np.searchsorted(keys, key))
    return index < len(keys) and bool(keys[index] == key)


def stock_mark(smiles: str, stock: Stock) -> str:
    """Return in which list a molecule is, or its offer: a price, a supplier or both."""
    return str(stock.look_up(smiles))


def all_marks(marks: Iterable[str]) -> str:
    """Return one mark for a set of which every molecule is listed or on offer; empty if one is not."""
    named = [mark for mark in marks if mark]
    if not named or any(mark.startswith((UNLISTED, NEARLY)) for mark in named):
        return ""
    return "● all to buy" if all(mark.startswith(BUY) for mark in named) else "● all in stock lists"


def look_up_reactants(reactants: str, stock: Stock) -> tuple[Availability | None, ...]:
    """Return whether each molecule can be bought, in order; of a salt at its first ion, with None at the others.

    An ion alone has that of its commonest salt in a list, and None if there is no such salt.
    """
    parts = reactants.split(".")
    available: list[Availability | None] = [None] * len(parts)
    molecules = group_molecules(parts)
    for molecule in molecules:
        available[molecule[0]] = stock.look_up(".".join(parts[ion] for ion in molecule))
    for ion in {*range(len(parts))}.difference(*molecules):
        others = _COUNTERIONS.get(charge_of(parts[ion]), ())
        salts = (stock.look_up(f"{parts[ion]}.{other}") for other in others)
        available[ion] = next((salt for salt in salts if str(salt) not in (UNLISTED, INTERMEDIATE)), None)
    return tuple(available)


def stock_marks(reactants: str, stock: Stock) -> tuple[str, ...]:
    """Return the marks of `look_up_reactants`, empty for None."""
    return tuple("" if each is None else str(each) for each in look_up_reactants(reactants, stock))


def load_stock(names: Sequence[str]) -> Stock:
    """Load lists, files before built-in ones (`CHOICES`); ValueError for one that is missing, invalid or empty.

    A name is that of a built-in list, of a list of the lab (`lab_files`), or a path. `INTERMEDIATES` among the names
    counts those of PaRoutes as stock.
    """
    if not {*names} - {INTERMEDIATES}:
        raise ValueError(f"no stock; give a file of SMILES or InChIKeys, or one of {', '.join(BUILT_IN)}")
    return _load_lists(names, skips_faulty=False)


def load_usable_stock(names: Iterable[str]) -> Stock:
    """Load lists as `load_stock` does, but without those of the lab that cannot be used, each with a warning."""
    return _load_lists([*names], skips_faulty=True)


def load_chosen_stock(names: Sequence[str]) -> Stock:
    """Load the lists of these names; without any those of the lab that can be used, and the built-in ones."""
    return load_stock(names) if names else load_usable_stock(default_lists())


def _load_lists(names: Sequence[str], *, skips_faulty: bool) -> Stock:
    lists: dict[str, Keys] = {}
    offers: dict[str, Offer] = {}
    titles: dict[str, str] = {}
    of_lab = lab_files("stock")
    for name in sorted(
        set(names).difference([INTERMEDIATES]), key=lambda name: (name in BUILT_IN, [*names].index(name))
    ):
        try:
            file_name, title, keys, priced = _load_list(name, of_lab.get(name))
        except ValueError as error:
            if not skips_faulty or name not in of_lab:
                raise
            warnings.warn(str(error), RuntimeWarning, stacklevel=3)
            continue
        label = name if name in BUILT_IN or file_name in lists else file_name
        lists[label] = keys
        offers = merge_offers(offers, priced)
        if title:
            titles[label] = title
    return Stock(lists, offers, INTERMEDIATES in names, titles) if lists else Stock({})


def merge_offers(first: Mapping[str, Offer], then: Mapping[str, Offer]) -> dict[str, Offer]:
    """Return the offers of two lists; the second has the word, but what is on a shelf stays there."""
    on_shelf = {key: offer for key, offer in first.items() if offer.shelf and not then.get(key, offer).shelf}
    return {**first, **then, **on_shelf}


def _load_list(name: str, of_lab: LabFile | None) -> tuple[str, str, Keys, dict[str, Offer]]:
    """Return the file's name, the title of a list, the keys of its molecules, and their offers."""
    built_in = name in BUILT_IN
    path = (
        asset_files.assets_folder() / "stock" / f"{name}.txt.gz" if built_in else of_lab.path if of_lab else Path(name)
    )
    try:
        raw, facts = _read_list(path)
    except OSError as error:
        remedy = f"give a file of SMILES or InChIKeys, or {', '.join(BUILT_IN)}"
        raise ValueError(f"stock {name}: {error.strerror}; {remedy}") from error
    title = facts.get("title") or (of_lab.title if of_lab else "")
    inner = path.name.removesuffix(".gz") if facts else path.name
    if built_in or not (priced := parse_offers(raw, inner, facts.get("currency", ""))):
        return path.name, title, parse_stock(raw, inner), {}
    for fault in priced.faults:
        warnings.warn(f"stock {name}: {fault}", stacklevel=4)
    return path.name, title, np.array(sorted(priced.offers), dtype="S27"), dict(priced.offers)


def default_lists() -> tuple[str, ...]:
    """Return the names of the lists that are used where none is chosen: those of the lab, and the built-in ones."""
    return (*lab_files("stock"), *BUILT_IN)


def list_stamps(names: Iterable[str]) -> tuple[tuple[str, tuple[int, int]], ...]:
    """Return names of lists with what changes when a list of the lab changes, as a key of caches."""
    of_lab = lab_files("stock")
    return tuple((name, of_lab[name].stamp if name in of_lab else (0, 0)) for name in names)


def _read_list(path: Path) -> tuple[bytes, dict[str, str]]:
    """Return the content of a list without the lines that state facts on it, then unpacked, and these facts."""
    raw = path.read_bytes()
    content = decompress(raw, f"stock {path.name}", MAX_BYTES) if raw[:2] == b"\x1f\x8b" else raw
    facts, rest = split_facts(content, path.name.lower().removesuffix(".gz"))
    return (rest, facts) if facts else (raw, facts)


def parse_offers(raw: bytes, name: str, currency: str = "") -> PriceList | None:
    """Return the offers in a file's content; None if it is no table with prices or suppliers."""
    if not raw or not name.lower().endswith(ENDINGS):
        return None
    try:
        price_list = read_price_list(raw, name, currency=currency)
    except ValueError:
        return None  # `parse_stock` reports the error, or supports the format
    return price_list if any(map(str, price_list.offers.values())) else None


def parse_stock(raw: bytes, name: str, *, keep: bool = True) -> Keys:
    """Return the sorted keys of a list: a table with a column of InChIKeys or SMILES, or text with one per line.

    The ending of the name determines the format, but for structure files, which may have any. Other lines are skipped;
    ValueError if there is no valid one. InChIKeys of SMILES take a millisecond each, and are cached on disk if `keep`.
    """
    cache_key = f"stock-2-{hashlib.sha256(name.encode() + raw).hexdigest()[:16]}.npy"
    if (stored := cache.read_cached(cache_key)) is not None:
        return np.load(io.BytesIO(stored))  # type: ignore[no-any-return]
    refuse_stand_in(raw, f"stock {name}")
    ending = Path(name.lower().removesuffix(".gz")).suffix
    content = decompress(raw, f"stock {name}", MAX_BYTES) if raw[:2] == b"\x1f\x8b" else raw
    lines = [] if ending in KINDS else readers.decode_text(content).splitlines()
    if readers.is_structure_file(lines[: readers.HEAD]):
        ending = SDF
    if ending in KINDS:
        where = name if ending in readers.TABLES else f"stock {name}"
        rows = _molecule_cells(list(read_rows(content, ending, where)), name)
    else:
        rows = [[cell] for cell in readers.read_list(lines, titled=True) if cell.strip()]
    words = [row[0].split()[0] for row in rows]
    keys = [next(filter(None, map(_line_to_inchikey, row)), "") for row in rows]
    sorted_keys = np.array(sorted({*filter(None, keys)}), dtype="S27")  # `np.unique` imports masked arrays
    if not len(sorted_keys):
        what = (
            f"none of its {len(words)} lines is an InChIKey, a SMILES, an InChI, a CAS number or a name"
            if words
            else "it is empty"
        )
        raise ValueError(f"stock {name}: {what}; give a .csv, .smi or .txt with one molecule per line")
    if keep and any(key and key != word for key, word in zip(keys, words, strict=True)):
        target = io.BytesIO()
        np.save(target, sorted_keys)
        cache.write_cached(cache_key, target.getvalue())
    return sorted_keys


def _molecule_cells(rows: Sequence[list[str]], name: str) -> list[list[str]]:
    """Return for each row the cells that may hold its molecule, the best first; without rows that have none."""
    head = [in_english(cell) for cell in rows[0]]
    indices = find_molecule_columns(head)
    numbers = [index for index, cell in enumerate(rows[0]) if KEY.fullmatch(cell) or is_cas(cell)]
    if not indices and not numbers and len(head) > 1:
        raise ValueError(f"stock {name} has no column inchikey or smiles; it has {', '.join(rows[0])}")
    rows, indices = (rows[1:], indices) if indices else (rows, numbers or [0])  # without a header
    cells = ([row[index] for index in indices if row[index].strip()] for row in rows)
    return [row for row in cells if row]


def _line_to_inchikey(line: str) -> str:
    """Return the InChIKey of a line: of an InChIKey or SMILES before other words, or of what `predict` reads."""
    word = line.split()[0]
    return word if KEY.fullmatch(word) else inchikey(word) or cell_to_inchikey(line.strip())
