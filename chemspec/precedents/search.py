"""Search an index: number of patent reactions with the same change, the most similar ones, and their conditions."""

from __future__ import annotations

import re
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from rdkit.Chem.rdMolDescriptors import CalcMolFormula

import chemspec.chem as chem
import chemspec.precedents.index_file as index_file
from chemspec.chem.molecules.parsing import fixed_pattern, mol_from_smiles
from chemspec.chem.molecules.salts import group_molecules
from chemspec.chem.reactions.isotopes import has_labels, strip_labels
from chemspec.chem.reading.names import reagents as tables
from chemspec.chem.reading.names.short_names import match_short_names, with_subscripts
from chemspec.precedents.change import Change, change_of
from chemspec.precedents.index_file import product_fingerprint, product_hash
from chemspec.precedents.patent_years import patent_year
from chemspec.settings import check_range

POOL = 50  # nearest reactions with recorded reagents that are used for conditions
NEAR = 0.7  # similarity from which the conditions of one precedent are right as often as the vote's
MAX_ROWS_FOR_CONDITIONS = 400  # maximum number of reactions read for them
WORK_UP = frozenset(("O", "[Cl-]", "[Na+]", "[NH4+]", "Cl", "CCOC(C)=O", "ClCCl", "CCOCC", "CCCCCC"))
CACHE_SIZE = 2000  # results
CACHED_BLOCKS, CACHED_ROWS = 512, 20_000  # each about 16 kB and 0.5 kB
SUBSTRATE_ATOMS = 9  # heavy atoms from which an aromatic reagent without a name is a starting material
OWN = "yours:"  # what stands before the label of an own reaction in the place of a patent's number
_HALOGENS = {"F", "Cl", "Br", "I"}
_MAGNESIUM_HALIDE = re.compile(r"\[(?:Cl|Br|I)\]\[Mg\]|\[Mg\]\[(?:Cl|Br|I)\]")  # patents write most without it
COPPER_IODIDE = ("I[Cu]I", "[I][Cu][I]")  # copper(II) iodide, as RDKit's versions write it


@dataclass(frozen=True)
class Precedent:
    """A reaction of the index."""

    reactants: str  # canonical SMILES of the molecules that contribute atoms to the product
    product: str  # canonical SMILES
    reagents: str  # canonical SMILES of the others, with solvents and work-up; ions separate. Empty if unknown
    patent: str  # number of the patent, such as "US06765005B2"; empty if unknown
    year: str  # year of the patent, as text; empty if unknown
    similarity: float  # similarity of its product to the query's, 0 to 1 (Tanimoto of circular fingerprints)
    close: bool  # whether the neighbours of the reaction centre agree too
    same: bool  # whether it is the queried reaction itself
    files: tuple[str, ...]  # names of the data files that contain it

    @property
    def text(self) -> str:
        """Names of its reagents, see `Conditions.text`."""
        return in_words(self.reagents)

    @property
    def own(self) -> bool:
        """Whether it is an own reaction (`own`)."""
        return self.patent.startswith(OWN)

    @property
    def source(self) -> str:
        """Number and year of its patent, or the label of an own reaction, for display."""
        return f"{self.patent} ({self.year})" if self.year else self.patent


@dataclass(frozen=True)
class Conditions:
    """Reagents that were used together."""

    reagents: str  # canonical SMILES, joined, to be added to the reactants of a forward model
    count: int  # number of the nearest reactions (at most `POOL`) with exactly these reagents

    @property
    def text(self) -> str:
        """Short names such as "K₂CO₃, DMF", and SMILES of reagents without a name."""
        return in_words(self.reagents)


@dataclass(frozen=True)
class Found:
    """Search result for a reaction."""

    close: int = 0  # number of reactions with the same change including neighbours of the reaction centre
    wide: int = 0  # number of reactions with the same change of the reaction centre, close ones included
    nearest: tuple[Precedent, ...] = ()  # the most similar reactions, close ones first
    conditions: tuple[Conditions, ...] = ()  # those of the nearest reaction if it is near, then the likeliest
    same: Precedent | None = None  # the queried reaction itself, or None
    product: int = 0  # number of reactions that form this product
    own: int = 0  # number of the close ones that are own reactions, see `own`

    @property
    def in_words(self) -> str:
        """The number of precedents, as a line of text."""
        if self.own:
            others = f" and {_count_text(self.close - self.own).rpartition(' ')[0]}" if self.close > self.own else ""
            return f"{self.own:,} of your reactions{others} make this change"
        if not self.wide:
            return "no patent reaction at hand"
        if not self.close:
            return f"none with these neighbours; {_count_text(self.wide)} the same bonds at others"
        return f"{_count_text(self.close)} this change"

    @property
    def count_text(self) -> str:
        """The number of close precedents, and where there is none of those that make the same bonds, for a table."""
        return f"{self.close:,}" if self.close else f"0 ({self.wide:,} make the same bonds)" if self.wide else "0"

    def seen_by(self, task: str) -> bool:
        """Whether the queried reaction is in training data of a task."""
        return self.same is not None and any(name.startswith(f"{task}_") for name in self.same.files)


def _count_text(count: int) -> str:
    return f"{count:,} patent reaction{'s make' if count > 1 else ' makes'}"


def in_words(reagents: str, *, formulas: bool = False) -> str:
    """Return names of joined reagents, or SMILES of those without a name; with `formulas` what these are.

    The ions of a salt are combined; an ion without a counterion, which text mining leaves behind, is not named.
    """
    parts = reagents.split(".") if reagents else []
    rest, names = match_short_names(parts)
    others = [parts[index] for index in rest]
    molecules = [chem.canonical(".".join(others[ion] for ion in ions)) or "" for ions in group_molecules(others)]
    nameless = _nameless if formulas else str
    return ", ".join((*names, *dict.fromkeys(tables.name_of(smiles) or nameless(smiles) for smiles in molecules)))


def _nameless(smiles: str) -> str:
    """Return what a reagent without a name is: a ligand, or its formula."""
    mol = mol_from_smiles(smiles)
    if mol is None:
        return smiles
    if mol.HasSubstructMatch(fixed_pattern("[PX3]([#6,#7,O])([#6,#7,O])[#6,#7,O]")):
        return "a phosphorus ligand"
    return with_subscripts(str(CalcMolFormula(mol)))


class Precedents:
    """An index of reactions; safe to use from several threads."""

    def __init__(self, path: Path) -> None:
        """Read an index; ValueError, naming the file, if it is missing or damaged, OSError if it cannot be read."""
        self._arrays, about = index_file.read_index(path)
        self.path, self.files = path, tuple(about["files"])
        self.own: tuple[Precedents, ...] = ()  # indexes of own reactions, which are searched too
        self._cached_search = lru_cache(CACHE_SIZE)(self._search)
        self._read_block = lru_cache(CACHED_BLOCKS)(partial(index_file.unpack_block, self._arrays))
        self._read_row = lru_cache(CACHED_ROWS)(self._parse_row)

    def __len__(self) -> int:
        return len(self._arrays["close"])

    @property
    def prints(self) -> NDArray[np.uint8]:
        """The packed fingerprints of the products."""
        return self._arrays["prints"]

    @cached_property
    def _set_bits(self) -> NDArray[np.uint16]:
        """The number of set bits in each fingerprint."""
        return count_set_bits(self.prints)

    def sample(self, count: int, seed: int) -> list[tuple[str, str, str]]:
        """Return product, reactants and reagents of random reactions, the same for a seed."""
        rows = np.random.default_rng(seed).choice(len(self), min(count, len(self)), replace=False)
        return [self._read_row(row)[:3] for row in sorted(rows.tolist())]

    def find(self, reactants: str, product: str, n: int = 3) -> Found:
        """Search precedents of a reaction; the result is empty if it is invalid or changes nothing.

        Of several products the largest counts. Returns at most `n` precedents and conditions; ValueError for `n` < 0.
        A reaction with isotope labels has those of the same reaction without, if there are none with them.
        """
        check_range("n", n, 0)
        precedents = self._cached_search(reactants, product, n)
        if not precedents.nearest and has_labels(f"{reactants}{product}"):
            precedents = self._cached_search(strip_labels(reactants), strip_labels(product), n)
        for index in self.own:
            precedents = _with_own(precedents, index.find(reactants, product, n), n)
        return precedents

    def _search(self, reactants: str, product: str, n: int) -> Found:
        target = chem.main_product(product)
        flask = chem.canonical(reactants)
        if target is None or flask is None:
            return Found()
        rows_of_product = np.flatnonzero(self._arrays["products"] == product_hash(target))
        makers = [row for row in rows_of_product.tolist() if self._read_row(row).product == target]
        parts = set(flask.split("."))
        exact = [row for row in makers if parts.issuperset(self._read_row(row).reactants.split("."))]
        change = self._change_as_recorded(flask, target)
        if change is None:
            same = self._build_precedent(exact[0], 1.0, exact=True) if exact else None
            return Found(same=same, nearest=(same,) if same else (), product=len(makers))
        first, last = self._rows_with_change(change.wide)
        close = np.asarray(self._arrays["close"][first:last]) == np.uint32(change.close & 0xFFFFFFFF)
        similarity = self._similarity(target, first, last)
        rank = close * 2.0 + similarity
        rank[[row - first for row in exact if first <= row < last]] += 4.0
        order = highest_scores(rank, max(n, MAX_ROWS_FOR_CONDITIONS))
        nearest = [
            self._build_precedent(first + k, float(similarity[k]), close=bool(close[k]), exact=first + k in exact)
            for k in order[:n].tolist()
        ]
        same = next((precedent for precedent in nearest if precedent.same), None)
        if same is None and exact:  # its atom maps differ
            same = self._build_precedent(exact[0], 1.0, exact=True)
            nearest = [same, *nearest[: n - 1]]
        lost = lost_atoms(".".join(change.givers), target)

        def comparable_reagents() -> Iterator[tuple[str, float]]:
            for k in order[:MAX_ROWS_FOR_CONDITIONS].tolist():
                row = self._read_row(first + k)
                if close[k] or lost_atoms(row.reactants, row.product) == lost:
                    yield row.reagents, float(similarity[k])

        voted = vote_conditions(comparable_reagents())
        return Found(int(close.sum()), last - first, tuple(nearest), voted[:n], same, len(makers))

    def _change_as_recorded(self, flask: str, target: str) -> Change | None:
        """Return the change of a reaction; of a Grignard's, with its halide or without, the one with more rows."""
        variants = dict.fromkeys((flask, _MAGNESIUM_HALIDE.sub("[Mg+]", flask)))
        changes = [change for text in variants if (change := change_of(text, target)) is not None]
        if len(changes) < 2:
            return changes[0] if changes else None
        return max(changes, key=lambda change: np.ptp(self._rows_with_change(change.wide)))

    def _rows_with_change(self, wide: int) -> tuple[int, int]:
        keys = self._arrays["wide"]
        index = int(np.searchsorted(keys, np.uint64(wide)))
        if index == len(keys) or int(keys[index]) != wide:
            return 0, 0
        return int(self._arrays["starts"][index]), int(self._arrays["starts"][index + 1])

    def _similarity(self, product: str, first: int, last: int) -> NDArray[np.float64]:
        """Return the Tanimoto similarity of a product to those of some rows."""
        query = product_fingerprint(product, 8 * self.prints.shape[1])
        return tanimoto_similarity(self.prints[first:last], self._set_bits[first:last], query)

    def _build_precedent(self, row: int, similarity: float, *, close: bool = True, exact: bool) -> Precedent:
        entry = self._read_row(row)
        number, _, year = entry.patent.partition(" ")
        flags = int(self._arrays["flags"][row])
        files = tuple(name for bit, name in enumerate(self.files) if flags >> bit & 1)
        reactants, product, reagents = entry.reactants, entry.product, entry.reagents
        year = year or patent_year(number)
        return Precedent(reactants, product, reagents, number, year, similarity, close, exact, files)

    def _parse_row(self, row: int) -> _Row:
        block, offset = divmod(row, index_file.BLOCK)
        try:
            product, reactants, reagents, patent = self._read_block(block)[offset].split("\t")
        except (zlib.error, ValueError, IndexError) as error:  # the checksums do not tell this
            raise ValueError(f"{self.path} is damaged: {error}") from error
        return _Row(product, reactants, without_mining_errors(reagents, product), patent)


def _with_own(others: Found, added: Found, n: int) -> Found:
    """Return precedents with those of an index of own reactions, which come first where they are as near."""
    nearest = sorted((*added.nearest, *others.nearest), key=lambda each: (-each.same, -each.close, -each.similarity))
    conditions = {each.reagents: each for each in (*(added.conditions if added.close else ()), *others.conditions)}
    return Found(
        added.close + others.close,
        added.wide + others.wide,
        tuple(nearest[:n]),
        tuple(conditions.values())[:n],
        others.same or added.same,
        added.product + others.product,
        added.close + others.own,
    )


class _Row(NamedTuple):
    """A row of the index: SMILES, and the patent with its year."""

    product: str
    reactants: str
    reagents: str
    patent: str


def highest_scores(values: NDArray[np.float64], count: int) -> NDArray[np.intp]:
    """Return the indices of the highest values in descending order, equal ones in theirs."""
    if len(values) <= count:
        return np.argsort(-values, kind="stable")
    least = np.partition(values, len(values) - count)[len(values) - count]
    candidates = np.flatnonzero(values >= least)
    return candidates[np.argsort(-values[candidates], kind="stable")][:count]


# `chem.elements` would parse the SMILES, too slow for `MAX_ROWS_FOR_CONDITIONS` reactions of a search.
_HEAVY_ATOM = re.compile(r"\[\d*(?:[A-Z][a-z]?|[a-z][a-z]?)[^\]]*\]|Cl|Br|[BCNOPSFIbcnops]")
_SYMBOL = re.compile(r"[A-Z][a-z]?|[a-z][a-z]?")


@lru_cache(maxsize=CACHED_ROWS)
def lost_atoms(reactants: str, product: str) -> Mapping[str, int]:
    """Return the number of heavy atoms of each element that leave, less those that come instead; halogens are one "X".

    Where only the reaction centre agrees, a benzyl group would else lend its conditions to a tert-butyl group.
    """
    tokens: dict[str, int] = Counter(_HEAVY_ATOM.findall(reactants))
    for token, count in Counter(_HEAVY_ATOM.findall(product)).items():
        tokens[token] = tokens.get(token, 0) - count
    counts: dict[str, int] = {}
    for token, count in tokens.items():
        if count and (element := _element_of(token)) != "H":
            counts[element] = counts.get(element, 0) + count
    return {element: count for element, count in counts.items() if count}


@cache
def _element_of(token: str) -> str:
    match = _SYMBOL.search(token)
    element = match[0].capitalize() if match else ""
    return "X" if element in _HALOGENS else element


def vote_conditions(nearest: Iterable[tuple[str, float]]) -> tuple[Conditions, ...]:
    """Return conditions, the likeliest first, of the joined reagents of the nearest reactions and their similarities.

    Each reaction votes for its set of reagents, weighted by its similarity, and for similar sets by Jaccard
    similarity, because patents list the same procedure differently. Work-up is ignored when comparing sets, and
    sets of work-up only are ignored unless all are. The set of the nearest reaction comes first if that is near.
    """
    weights: defaultdict[frozenset[str], float] = defaultdict(float)
    counts: Counter[frozenset[str]] = Counter()
    variants_of: dict[frozenset[str], Counter[str]] = {}
    near, read = [], 0  # the nearest first; reactions that voted
    for reagents, similarity in nearest:
        if not reagents:
            continue
        parts = frozenset(reagents.split("."))
        kind = parts - WORK_UP or parts
        weights[kind] += similarity**2 + 1e-9
        near += [kind] if similarity >= NEAR else []
        counts[kind] += 1
        variants_of.setdefault(kind, Counter())[reagents] += 1
        read += 1
        if read == POOL:
            break
    telling = [kind for kind in weights if kind - WORK_UP] or list(weights)
    bits: dict[str, int] = {}  # sets as numbers, as they are compared pair by pair
    masks = [sum(1 << bits.setdefault(part, len(bits)) for part in kind) for kind in telling]
    votes = {}
    for kind, mask in zip(telling, masks, strict=True):
        votes[kind] = weights[kind] + sum(
            weights[other] * (mask & its).bit_count() / (mask | its).bit_count()
            for other, its in zip(telling, masks, strict=True)
            if mask & its
        )
    first = next((kind for kind in near if kind in telling), None)
    conditions = []
    for kind in sorted(telling, key=lambda other: (other != first, -votes[other], sorted(other))):
        variants = variants_of[kind]  # ties: the set with least work-up
        commonest = min((-count, len(text), text) for text, count in variants.items())[2]
        conditions.append(Conditions(commonest, counts[kind]))
    return tuple(conditions)


@lru_cache(maxsize=CACHED_ROWS)
def without_mining_errors(reagents: str, product: str) -> str:
    """Return joined reagents without the product and substrates; copper(II) iodide, which does not exist, is CuI."""
    parts = reagents.split(".")
    if reagents.count("+") <= reagents.count("-"):
        parts = [str(chem.canonical("[Cu]I")) if part in COPPER_IODIDE else part for part in parts]
    return ".".join(part for part in parts if part != product and not _is_substrate(part))


@lru_cache(maxsize=10_000)
def _is_substrate(smiles: str) -> bool:
    """Return whether a recorded reagent is rather a starting material: large, aromatic, uncharged and without a name.

    So are parts of 2 % of the recorded reagent sets; phosphines and other ligands stay.
    """
    bare = re.sub(r"\[(?:nH|C@@?H?)\]", "C", smiles)
    if "P" in bare or "[" in bare or "c" not in bare or len(_HEAVY_ATOM.findall(bare)) < SUBSTRATE_ATOMS:
        return False
    return not match_short_names([smiles])[1] and not tables.name_of(smiles)


def tanimoto_similarity(
    prints: NDArray[np.uint8], set_bits: NDArray[np.uint16], query: NDArray[np.uint8]
) -> NDArray[np.float64]:
    """Return the similarity of the query to each fingerprint, 0 to 1."""
    both = count_set_bits(prints & query).astype(np.int64)
    similarity: NDArray[np.float64] = both / np.maximum(set_bits + count_set_bits(query[None]) - both, 1)
    return similarity


def count_set_bits(prints: NDArray[np.uint8]) -> NDArray[np.uint16]:
    """Return the number of set bits in each packed fingerprint."""
    counts: NDArray[np.uint16] = count_bits(np.ascontiguousarray(prints).view(np.uint64)).sum(axis=1, dtype=np.uint16)
    return counts


_BITS_OF_BYTE = np.array([byte.bit_count() for byte in range(256)], np.uint8)


def count_bits(words: NDArray[np.uint64]) -> NDArray[np.uint8]:
    """Return the number of set bits in each integer."""
    if hasattr(np, "bitwise_count"):
        return np.bitwise_count(words)
    in_bytes = _BITS_OF_BYTE[np.ascontiguousarray(words).view(np.uint8).reshape(*words.shape, 8)]  # numpy 1
    return in_bytes.sum(axis=-1, dtype=np.uint8)  # type: ignore[no-any-return]
