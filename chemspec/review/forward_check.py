"""The forward check: whether a forward model predicts a product from proposed reactants.

One rule for every page, command, route and plan (`StepChecker.check`):

1. The forward model reads the reactants alone.
2. If that is no confirmation, it reads them with the usable conditions (`chemspec.review.conditions`): those of the
   nearest precedents without work-up, or else the usual reagents of the reaction class.
3. If that is none either, it reads them with the likeliest reagents of the model `reagents` that fit the class.

Its first answer by greedy decoding counts. It confirms a step if that answer contains the product with a probability of
at least `MIN_CONFIDENCE`; stereochemistry included, but E/Z that the answer leaves open is no contradiction. Of several
answers the most probable one with the product counts. The verdict is "agrees", "unsure" (the product, but with a lower
probability) or "differs". What the rule measured: assets/docs/measurements.md.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

from chemspec import chem
from chemspec.chem.molecules.parsing import mol_from_smiles
from chemspec.chem.molecules.salts import balance_charges
from chemspec.chem.reactions.stereo import drop_geometry
from chemspec.metrics import NO_SAVINGS, Savings, count_savings
from chemspec.precedents import Found, Precedents
from chemspec.review.conditions import fitting_set, usable_conditions
from chemspec.settings import DecodeSettings
from chemspec.types import DecodeResult

FORWARD_SETTINGS = DecodeSettings(decoder="greedy", n=1, max_len=200, batch_size=32)
MIN_CONFIDENCE = 0.3  # minimum probability of the target for a confirmation
REAGENT_SETTINGS = DecodeSettings(n=10, max_len=200, batch_size=32)  # greedy finds half as many recorded reagents
VARIANTS = 5  # SMILES of a flask, the canonical one included, whose first products are compared
VARIANT_SETTINGS = DecodeSettings(decoder="greedy", n=VARIANTS, augment=VARIANTS, max_len=200, batch_size=32)
MAX_NEAREST = 3  # precedents of a step
MAX_CONDITIONS = 6  # sets of conditions of a step
MAX_SETS = 3  # proposed sets of reagents of a step

Step = tuple[str, str]  # product, reactants
ReagentSets = tuple[tuple[str, float], ...]  # SMILES and probability, the likeliest first
Verdict = Literal["agrees", "unsure", "differs"]


class Predictor(Protocol):
    """The part of an engine that a review needs."""

    def predict(self, queries: Sequence[str], settings: DecodeSettings) -> list[DecodeResult]: ...  # noqa: D102


@dataclass(frozen=True)
class ForwardCheck:
    """The forward model's verdict on proposed reactants."""

    agrees: bool  # whether its first answer is the target, with any probability
    probability: float  # its probability of that answer
    product: str  # its first answer; empty if there is none
    added: str = ""  # SMILES of the reagents added to the reactants; empty if none
    geometry_open: bool = False  # whether the answer is the target but for E/Z that it does not set

    @property
    def confirmed(self) -> bool:
        """Whether it agrees with sufficient probability."""
        return self.verdict == "agrees"

    @property
    def verdict(self) -> Verdict:
        """The verdict in a word."""
        return verdict_of(self.probability if self.agrees else 0.0)

    @property
    def text(self) -> str:
        """The verdict for a table."""
        if self.agrees:
            return ("agrees" if self.confirmed else "unsure of it") + ", E/Z left open" * self.geometry_open
        return f"gives {self.product}" if self.product else "gives no product"


def check_document(check: ForwardCheck | None) -> dict[str, Any] | None:
    """Return a forward check as a JSON document; None for None."""
    names = ("verdict", "probability", "product", "added", "geometry_open")
    return None if check is None else {name: getattr(check, name) for name in names}


def verdict_of(round_trip: float) -> Verdict:
    """Return the verdict from the probability of the target, 0 if the forward model predicts another product."""
    return "agrees" if round_trip >= MIN_CONFIDENCE else "unsure" if round_trip else "differs"


def gives_target(target: str, made: str) -> bool:
    """Return whether a predicted product is the target."""
    if not made:
        return False
    main = chem.main_product(target)
    return main is not None and (chem.same_molecules(made, target) or chem.main_product(made) == main)


def leaves_geometry_open(target: str, made: str) -> bool:
    """Return whether a predicted product is the target without E/Z of some of its double bonds."""
    whole, open_one = chem.main_product(target) or "", chem.main_product(made) or ""
    if whole == open_one or drop_geometry(whole) != drop_geometry(open_one):
        return False
    return bool(mol_from_smiles(whole).HasSubstructMatch(mol_from_smiles(open_one), useChirality=True))


def read_check(target: str, result: DecodeResult, added: str = "") -> ForwardCheck:
    """Return the verdict from the forward model's prediction for reactants and `added` reagents."""
    first = next((answer for answer in result.hypotheses if answer.valid), None) if result.status == "ok" else None
    if first is None:
        return ForwardCheck(False, 0.0, "", added)
    same = gives_target(target, first.canonical)
    is_open = not same and leaves_geometry_open(target, first.canonical)
    return ForwardCheck(same or is_open, first.model_probability, first.canonical, added, is_open)


def find_precedents(index: Precedents | None, step: Step) -> Found | None:
    """Return the precedents of a step; None without an index that can be read."""
    product, reactants = step
    try:
        precedents = index.find(reactants, product, n=MAX_CONDITIONS) if index else None
        return precedents and replace(precedents, nearest=precedents.nearest[:MAX_NEAREST])
    except ValueError:  # its texts are damaged
        return None


@dataclass
class _Cached:
    """What is known of a step."""

    checks: tuple[ForwardCheck, ...] = ()  # checks with different reagents
    proposed: ReagentSets | None = None  # None if no reagents were predicted
    savings: Savings = NO_SAVINGS


class StepChecker:
    """Checks steps by the rule of this module; results are cached, so that no query is decoded twice.

    Without a forward model nothing is checked, without one of reagents none are proposed. At most `most` steps are
    cached, or those of one call if these are more; the oldest are dropped.
    """

    def __init__(
        self,
        forward: Predictor | None,
        reagents: Predictor | None = None,
        index: Precedents | None = None,
        *,
        most: int = 500,
    ) -> None:
        self.forward, self.reagents, self.index = forward, reagents, index
        self._most = most
        self._cache: defaultdict[Step, _Cached] = defaultdict(_Cached)
        self._of_variants: dict[str, Counter[str]] = {}

    def check(self, steps: Sequence[Step]) -> list[ForwardCheck | None]:
        """Return the verdict on each step, (product, reactants); None without a forward model, or if it failed."""
        if self.forward is None:
            return [None] * len(steps)
        keys = self._refresh(steps)
        self._run_checks(dict.fromkeys(keys, ""))
        self._check_again(keys, self._usual_reagents)
        self._propose(self._doubtful(keys))
        self._check_again(keys, self._likeliest_proposal)
        return [best_check(self._cache[key].checks) for key in keys]

    def variant_products(self, flasks: Sequence[str]) -> list[Counter[str]]:
        """Return the products that a forward model predicts first from `VARIANTS` SMILES of each flask, with numbers.

        Without a forward model the counts are empty.
        """
        lacking = [flask for flask in dict.fromkeys(flasks) if flask not in self._of_variants]
        if self.forward is not None and lacking:
            while self._of_variants and len(self._of_variants) + len(lacking) > self._most:
                self._of_variants.pop(next(iter(self._of_variants)))
            for flask, result in zip(lacking, self.forward.predict(lacking, VARIANT_SETTINGS), strict=True):
                self._of_variants[flask] = Counter(
                    {answer.canonical: answer.vote.variants for answer in result.hypotheses if answer.vote}
                )
        return [self._of_variants.get(flask, Counter()) for flask in flasks]

    def savings(self, steps: Iterable[Step]) -> Savings:
        """Return tokens and forward passes of the checks of these steps and of the reagents proposed for them."""
        return sum((self._cache[_canonical_step(step)].savings for step in steps), NO_SAVINGS)

    def propose(self, steps: Iterable[Step]) -> None:
        """Predict reagents for steps without proposals, in one batch."""
        self._propose(self._refresh(steps))

    def _propose(self, steps: Iterable[Step]) -> None:
        lacking = [step for step in dict.fromkeys(steps) if self._cache[step].proposed is None]
        if self.reagents is None or not lacking:
            return
        reactions = [f"{reactants}>>{product}" for product, reactants in lacking]
        for step, result in zip(lacking, self.reagents.predict(reactions, REAGENT_SETTINGS), strict=True):
            self._cache[step].proposed = _reagent_sets(result)
            self._add_savings(step, result)

    def proposed_sets(self, step: Step) -> ReagentSets | None:
        """Return the reagents proposed for a step so far; None if none were predicted."""
        return self._cache[_canonical_step(step)].proposed

    def _usual_reagents(self, step: Step) -> str:
        """Return usable conditions of the nearest precedents, else the usual reagents of the class; may be empty."""
        product, reactants = step
        return usable_conditions(find_precedents(self.index, step), reactants, product)[0]

    def _likeliest_proposal(self, step: Step) -> str:
        product, reactants = step
        return fitting_set((reagents for reagents, _ in self.proposed_sets(step) or ()), reactants, product)

    def _doubtful(self, steps: Iterable[Step]) -> list[Step]:
        return [step for step in dict.fromkeys(steps) if not any(check.confirmed for check in self._cache[step].checks)]

    def _check_again(self, steps: Iterable[Step], reagents_of: Callable[[Step], str]) -> None:
        """Check doubtful steps again with these reagents, if there are any."""
        self._run_checks({step: reagents for step in self._doubtful(steps) if (reagents := reagents_of(step))})

    def _run_checks(self, reagents_by_step: Mapping[Step, str]) -> None:
        """Run the forward model on the reactants of steps with added reagents, unless that is cached."""
        assert self.forward is not None
        unchecked = {
            step: added
            for step, added in reagents_by_step.items()
            if all(check.added != added for check in self._cache[step].checks)
        }
        if not unchecked:
            return
        flasks = [".".join(filter(None, (reactants, added))) for (_, reactants), added in unchecked.items()]
        for (step, added), result in zip(
            unchecked.items(), self.forward.predict(flasks, FORWARD_SETTINGS), strict=True
        ):
            if result.status != "failed":  # another time it may go well
                self._cache[step].checks += (read_check(step[0], result, added),)
                self._add_savings(step, result)

    def _add_savings(self, step: Step, result: DecodeResult) -> None:
        if result.status == "ok":
            self._cache[step].savings += count_savings(result)

    def _refresh(self, steps: Iterable[Step]) -> list[Step]:
        """Make these steps the newest of the cache, and drop the oldest beyond its size; returns their keys."""
        keys = [_canonical_step(step) for step in steps]
        for key in dict.fromkeys(keys):
            self._cache[key] = self._cache.pop(key, _Cached())
        while len(self._cache) > max(self._most, len(keys)):  # none of these steps
            del self._cache[next(iter(self._cache))]
        return keys


def _canonical_step(step: Step) -> Step:
    product, reactants = step
    return chem.canonical(product) or product, chem.canonical(reactants) or reactants


def best_check(checks: Sequence[ForwardCheck]) -> ForwardCheck | None:
    """Return the most probable check that agrees, else the last with a product: some reagents cannot be read."""
    return max(
        reversed(checks),
        key=lambda check: (check.agrees, check.probability if check.agrees else bool(check.product)),
        default=None,
    )


def _reagent_sets(result: DecodeResult) -> ReagentSets:
    sets: dict[str, float] = {}
    for answer in result.hypotheses:
        if answer.valid:
            sets.setdefault(balance_charges(answer.canonical), answer.model_probability)
    return tuple(sets.items())[:MAX_SETS]
