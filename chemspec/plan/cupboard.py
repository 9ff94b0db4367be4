"""What can be made from what is there: pairs of an inventory for a kind of reaction, and their products, ranked.

Partners are found by patterns written by hand, products by the forward model; a product counts if it is of that kind.
"""

import csv
import io
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

from rdkit import rdBase

import chemspec.chem as chem
from chemspec.asset_files import read_asset_table
from chemspec.chem.checks.flask_check import check_flask
from chemspec.chem.molecules.parsing import fixed_pattern, mol_from_smiles
from chemspec.chem.reactions.stoichiometry import classify_whole_step
from chemspec.precedents import in_words
from chemspec.review.forward_check import FORWARD_SETTINGS, Predictor
from chemspec.stock.lists import Stock
from chemspec.types import DecodeResult, Progress, ignore

MAX_PAIRS = 300  # pairs that are predicted: two seconds of a core
SEED = 7  # of the choice among more pairs
BATCH = 32  # pairs predicted between two reports


@dataclass(frozen=True)
class Kind:
    """A kind of reaction of two partners."""

    name: str  # for a command
    title: str
    step: str  # part of the name of the class that the product must have
    partners: tuple[str, str]  # in words
    patterns: tuple[Any, Any]
    reagents: str  # SMILES of what is added


@dataclass(frozen=True)
class Bottle:
    """A molecule of an inventory."""

    smiles: str
    shelf: str  # such as "B3 · 40 g"


Pair = tuple[Bottle, Bottle]


@dataclass(frozen=True)
class Made:
    """A product that can be made from a pair."""

    pair: Pair
    reagents: str  # SMILES of what is added
    product: str
    probability: float  # of the forward model, calibrated if the model is
    problems: tuple[str, ...]  # of the flask check
    mark: str  # where the product is in stock; empty if nowhere

    @property
    def flask(self) -> str:
        """The question to the forward model."""
        return ".".join((*(bottle.smiles for bottle in self.pair), self.reagents))


@cache
def kinds() -> dict[str, Kind]:
    """Return the kinds of reactions by name."""
    rows = read_asset_table(Path(__file__).with_name("partners.tsv"))
    return {
        name: Kind(name, title, step, (first, second), (fixed_pattern(left), fixed_pattern(right)), reagents)
        for name, title, step, first, left, second, right, reagents in rows
    }


def find_kind(text: str) -> Kind:
    """Return a kind by its name, the beginning of that, or a part of its title; ValueError lists them."""
    word = text.strip().lower()
    named = [kind for kind in kinds().values() if word and kind.name.startswith(word)]
    titled = [kind for kind in kinds().values() if word and word in kind.title.lower()]
    if hits := [*filter(None, [kinds().get(word)]), *named, *titled]:
        return hits[0]
    raise ValueError(f"no kind of reaction {text!r}; choose one of {', '.join(kinds())}")


def bottles(stock: Stock) -> tuple[Bottle, ...]:
    """Return what is on a shelf; of a stock without shelves everything that its lists name with a structure."""
    listed = stock.on_shelf or stock.offers
    return tuple(Bottle(offer.smiles, offer.shelf) for offer in listed.values() if offer.smiles)


def count_pairs(have: Sequence[Bottle]) -> list[tuple[Kind, int, int, int]]:
    """Return for each kind that has pairs its numbers of first and second partners and of pairs, the most first."""
    counts = []
    for kind in kinds().values():
        first, second = (len(side) for side in partners(kind, have))
        if pairs := len(find_pairs(kind, have)):
            counts.append((kind, first, second, pairs))
    return sorted(counts, key=lambda count: -count[3])


def partners(kind: Kind, have: Iterable[Bottle]) -> tuple[list[Bottle], list[Bottle]]:
    """Return the bottles that can be the first and the second partner: with one place to react, and not both."""
    sides: tuple[list[Bottle], list[Bottle]] = ([], [])
    with rdBase.BlockLogs():
        for bottle in have:
            mol = mol_from_smiles(bottle.smiles)
            sites = [len(mol.GetSubstructMatches(pattern)) if mol else 0 for pattern in kind.patterns]
            for side, count, other in zip(sides, sites, reversed(sites), strict=True):
                if count == 1 and not other:
                    side.append(bottle)
    return sides


def find_pairs(kind: Kind, have: Iterable[Bottle], using: str = "") -> list[Pair]:
    """Return all pairs of a kind, with one molecule (canonical SMILES) if `using` names it."""
    first, second = partners(kind, have)
    return [pair for pair in product(first, second) if not using or using in (bottle.smiles for bottle in pair)]


def choose_pairs(pairs: Sequence[Pair], most: int = MAX_PAIRS) -> list[Pair]:
    """Return the pairs to predict: all, or of more than `most` (0: no limit) random ones, the same each time."""
    return [*pairs] if not most or len(pairs) <= most else random.Random(SEED).sample(pairs, most)


def make(
    kind: Kind, pairs: Sequence[Pair], forward: Predictor, stock: Stock, *, progress: Progress = ignore
) -> list[Made]:
    """Predict the products of pairs and return those of the right kind: without problems first, then the likeliest."""
    made: dict[str, Made] = {}
    for start in range(0, len(pairs), BATCH):
        part = pairs[start : start + BATCH]
        flasks = [".".join((first.smiles, second.smiles, kind.reagents)) for first, second in part]
        for pair, result in zip(part, forward.predict(flasks, FORWARD_SETTINGS), strict=True):
            item = _read_product(kind, pair, result, stock)
            if item and (item.product not in made or _rank(item) < _rank(made[item.product])):
                made[item.product] = item
        progress(min(start + BATCH, len(pairs)), len(pairs))
    return sorted(made.values(), key=_rank)


def _rank(item: Made) -> tuple[bool, float, str]:
    return bool(item.problems), -item.probability, item.product


def _read_product(kind: Kind, pair: Pair, result: DecodeResult, stock: Stock) -> Made | None:
    """Return the product of a pair; None if it is no new molecule from both, or of another kind."""
    answer = next((each for each in result.hypotheses if each.valid), None) if result.status == "ok" else None
    main = chem.main_product(answer.canonical) if answer else None
    if answer is None or main is None or any(main == bottle.smiles for bottle in pair):
        return None
    left = ".".join(bottle.smiles for bottle in pair)
    step = classify_whole_step(left, main)
    if step is None or kind.step not in step.name:
        return None
    problems = check_flask(f"{left}.{kind.reagents}", main).problems
    available = stock.look_up(main)
    mark = str(available) if available.list or available.shelf else ""
    return Made(pair, kind.reagents, main, answer.probability, problems, mark)


def rows_as_csv(rows: Sequence[dict[str, str]]) -> str:
    """Return the rows of a table as CSV."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, rows[0] if rows else ("product",), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def made_rows(made: Iterable[Made]) -> list[dict[str, str]]:
    """Return products as rows of a table."""
    return [
        {
            "product": item.product,
            "probability": f"{item.probability:.3f}",
            "from": " + ".join(bottle.smiles for bottle in item.pair),
            "places": " + ".join(bottle.shelf or "?" for bottle in item.pair),
            "added": in_words(item.reagents),
            "product in stock": item.mark,
            "problems": "; ".join(item.problems),
        }
        for item in made
    ]
