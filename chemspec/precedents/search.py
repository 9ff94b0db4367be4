"""Ask an index: how many patent reactions make a change, which are nearest, and under which conditions."""

from __future__ import annotations

import zlib
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

import numpy as np
from numpy.typing import NDArray

import chemspec.chem as chem
import chemspec.precedents.index_file as index_file
from chemspec.chem.formats import reagents as tables
from chemspec.chem.formats.short_names import recognise
from chemspec.chem.salts import pair
from chemspec.precedents.change import change_of
from chemspec.precedents.hashing import product_hash
from chemspec.precedents.rows import fingerprint

POOL = 50  # nearest reactions with recorded reagents that conditions are taken from
LOOKED_AT = 400  # most reactions read for them
WORK_UP = frozenset(("O", "[Cl-]", "[Na+]", "[NH4+]", "Cl", "CCOC(C)=O", "ClCCl", "CCOCC", "CCCCCC"))
KEPT = 2000  # answers


@dataclass(frozen=True)
class Precedent:
    """A reaction of the index.

    Attributes:
        reactants: canonical SMILES of the molecules that give atoms to the product.
        product: canonical SMILES.
        reagents: of what else was in the flask, solvents and work-up among them; ions are apart. Empty if not recorded.
        patent: number of the patent, such as "US06765005B2"; empty where the data do not tell.
        year: of the patent, as text; empty likewise.
        similarity: of its product to the one asked about, 0 to 1 (Tanimoto on circular fingerprints).
        close: whether what is bonded to the atoms that take part is alike, too.
        same: whether it is the very reaction asked about.
        files: names of the data files that have it.
    """

    reactants: str
    product: str
    reagents: str
    patent: str
    year: str
    similarity: float
    close: bool
    same: bool
    files: tuple[str, ...]

    @property
    def text(self) -> str:
        """Its reagents in words, as `Conditions.text`."""
        return in_words(self.reagents)

    @property
    def source(self) -> str:
        """Number and year of its patent."""
        return f"{self.patent} ({self.year})" if self.year else self.patent


@dataclass(frozen=True)
class Conditions:
    """Reagents that were used together.

    Attributes:
        reagents: canonical SMILES, joined; what forward models expect beside the reactants.
        count: how many of the nearest reactions (at most `POOL`) were recorded with just these.
    """

    reagents: str
    count: int

    @property
    def text(self) -> str:
        """Their short names, such as "K₂CO₃, DMF", and the SMILES of those that have none."""
        return in_words(self.reagents)


@dataclass(frozen=True)
class Found:
    """What an index knows of a reaction.

    Attributes:
        close: how many reactions make this change, also as to what is bonded to the atoms that take part.
        wide: how many make it at all, those included.
        nearest: the most similar ones; the close ones first.
        conditions: recorded with the nearest ones, the likeliest first.
        same: the very reaction; None if the index does not have it.
        product: how many reactions of the index make this product.
    """

    close: int = 0
    wide: int = 0
    nearest: tuple[Precedent, ...] = ()
    conditions: tuple[Conditions, ...] = ()
    same: Precedent | None = None
    product: int = 0

    @property
    def in_words(self) -> str:
        """How many there are, in one line."""
        if not self.wide:
            return "no patent reaction at hand"
        if not self.close:
            return f"{_reactions(self.wide)} a change of this kind, none just this one"
        return f"{_reactions(self.close)} this change"

    def seen_by(self, task: str) -> bool:
        """Whether this very reaction is in data of the kind that models of a task were trained on."""
        return self.same is not None and any(name.startswith(f"{task}_") for name in self.same.files)


def _reactions(count: int) -> str:
    return f"{count:,} patent reaction{'s make' if count > 1 else ' makes'}"


def in_words(reagents: str) -> str:
    """Return names of joined reagents, and the SMILES of those that have none; the ions of a salt are one."""
    parts = reagents.split(".") if reagents else []
    rest, names = recognise(parts)
    others = [parts[place] for place in rest]
    salts = [chem.canonical(".".join(others[ion] for ion in ions)) or "" for ions in pair(others)]
    return ", ".join((*names, *dict.fromkeys(tables.name_of(salt) or salt for salt in salts)))


class Precedents:
    """An index of reactions; safe to use from several threads."""

    def __init__(self, path: Path, arrays: index_file.Arrays, files: tuple[str, ...]) -> None:
        self.path, self.files = path, files
        self._arrays = arrays
        self._kept: OrderedDict[tuple[str, str, int], Found] = OrderedDict()
        self._lock = Lock()

    @classmethod
    def open(cls, path: str | Path) -> Precedents:
        """Map an index into memory.

        Raises:
            ValueError: naming the file, where it is something else, cut off or damaged.
            OSError: where it cannot be read.
        """
        arrays, about = index_file.read(Path(path))
        return cls(Path(path), arrays, tuple(about["files"]))

    def __len__(self) -> int:
        return len(self._arrays["close"])

    @property
    def prints(self) -> NDArray[np.uint8]:
        """The packed fingerprints of the products."""
        return self._arrays["prints"]

    def find(self, reactants: str, product: str, n: int = 3) -> Found:
        """Return what is known of a reaction; nothing where it cannot be read or changes nothing.

        Args:
            reactants: SMILES, with or without agents.
            product: SMILES of one molecule, or of several of which the largest counts.
            n: precedents wanted, and as many conditions.
        """
        key = (reactants, product, n)
        with self._lock:
            if (known := self._kept.get(key)) is not None:
                self._kept.move_to_end(key)
                return known
        found = self._find(reactants, product, n)
        with self._lock:
            self._kept[key] = found
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return found

    def conditions(self, reactants: str, product: str, n: int = 3) -> tuple[Conditions, ...]:
        """Return conditions recorded for the reactions nearest to this one, the likeliest first."""
        return self.find(reactants, product, n).conditions

    def _find(self, reactants: str, product: str, n: int) -> Found:
        target = chem.main_product(product)
        flask = chem.canonical(reactants)
        if target is None or flask is None:
            return Found()
        made = np.flatnonzero(self._arrays["products"] == product_hash(target))
        print_ = fingerprint(target, 8 * self._arrays["prints"].shape[1])
        parts = set(flask.split("."))
        makers = [(row, line) for row in made.tolist() if (line := self._line(row))[0] == target]
        exact = [row for row, line in makers if parts.issuperset(line[1].split("."))]
        change = change_of(flask, target)
        if change is None:
            same = self._precedent(exact[0], 1.0, exact=True) if exact else None
            return Found(same=same, nearest=(same,) if same else (), product=len(makers))
        first, last = self._group(change.wide)
        close = np.asarray(self._arrays["close"][first:last]) == np.uint32(change.close & 0xFFFFFFFF)
        alike = _tanimoto(self._arrays["prints"][first:last], print_)
        rank = np.isin(np.arange(first, last), exact) * 4.0 + close * 2.0 + alike
        order = np.argsort(-rank, kind="stable")
        nearest = [
            self._precedent(first + int(k), float(alike[k]), close=bool(close[k]), exact=first + int(k) in exact)
            for k in order[:n]
        ]
        same = next((one for one in nearest if one.same), None)
        if same is None and exact:  # its maps were other ones
            same = self._precedent(exact[0], 1.0, exact=True)
            nearest = [same, *nearest[: n - 1]]
        voted = self._conditions((first + int(k), float(alike[k])) for k in order[:LOOKED_AT])
        return Found(int(close.sum()), last - first, tuple(nearest), voted[:n], same, len(makers))

    def _group(self, wide: int) -> tuple[int, int]:
        """Return where the reactions of a wide change begin and end."""
        keys = self._arrays["wide"]
        place = int(np.searchsorted(keys, np.uint64(wide)))
        if place == len(keys) or int(keys[place]) != wide:
            return 0, 0
        first, last = self._arrays["starts"][place : place + 2].tolist()
        return first, last

    def _conditions(self, nearest: Iterator[tuple[int, float]]) -> tuple[Conditions, ...]:
        """Return what the nearest reactions were recorded with, the likeliest first.

        Each votes by its similarity for its own set of reagents, and for others as far as they share these (Jaccard),
        because patents list one procedure in many ways. Work-up does not part one set from another, and a set that is
        nothing else says nothing unless all are such.
        """
        weights: defaultdict[frozenset[str], float] = defaultdict(float)
        counts: Counter[frozenset[str]] = Counter()
        written: dict[frozenset[str], Counter[str]] = {}
        for row, alike in nearest:
            reagents = self._line(row)[2]
            if not reagents:
                continue
            parts = frozenset(reagents.split("."))
            kind = parts - WORK_UP or parts
            weights[kind] += alike**2 + 1e-9
            counts[kind] += 1
            written.setdefault(kind, Counter())[reagents] += 1
            if counts.total() == POOL:
                break
        telling = [kind for kind in weights if kind - WORK_UP] or list(weights)
        votes = {
            kind: weights[kind] + sum(weights[one] * len(kind & one) / len(kind | one) for one in telling)
            for kind in telling
        }
        found = []
        for kind in sorted(telling, key=lambda one: (-votes[one], sorted(one))):
            ways = written[kind]  # of equally frequent ones that with least work-up
            found.append(Conditions(min((-count, len(text), text) for text, count in ways.items())[2], counts[kind]))
        return tuple(found)

    def _precedent(self, row: int, similarity: float, *, close: bool = True, exact: bool) -> Precedent:
        product, reactants, reagents, patent = self._line(row)
        number, _, year = patent.partition(" ")
        flags = int(self._arrays["flags"][row])
        files = tuple(name for bit, name in enumerate(self.files) if flags >> bit & 1)
        return Precedent(reactants, product, reagents, number, year, similarity, close, exact, files)

    def _line(self, row: int) -> tuple[str, str, str, str]:
        block, place = divmod(row, index_file.BLOCK)
        try:
            product, reactants, reagents, patent = self._block(block)[place].split("\t")
        except (zlib.error, ValueError, IndexError) as error:  # it was whole when it was opened
            raise ValueError(f"{self.path} has been changed or damaged: {error}") from error
        return product, reactants, reagents, patent

    def _block(self, block: int) -> list[str]:
        return index_file.unpack(self._arrays, block)


def _tanimoto(prints: NDArray[np.uint8], one: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Return the similarity of each fingerprint to one."""
    words, word = np.ascontiguousarray(prints).view(np.uint64), one.view(np.uint64)
    both = _ones(words & word)
    either = _ones(words | word)
    return both / np.maximum(either, 1)


_BYTES = np.array([bin(byte).count("1") for byte in range(256)], np.uint8)


def _ones(words: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return how many bits are set in each row."""
    count: NDArray[np.int64] = count_bits(words).sum(axis=1, dtype=np.int64)
    return count


def count_bits(words: NDArray[np.uint64]) -> NDArray[np.uint8]:
    """Return how many bits are set in each number."""
    if hasattr(np, "bitwise_count"):
        return np.bitwise_count(words)
    counted: NDArray[np.uint8] = _BYTES[np.ascontiguousarray(words).view(np.uint8).reshape(*words.shape, 8)].sum(
        axis=-1, dtype=np.uint8
    )
    return counted
