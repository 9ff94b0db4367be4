"""Group predictions into cards, with probability, ranking and problems of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from chemspec import chem
from chemspec.chem import formula_balance
from chemspec.chem.parsing import mol_from_smiles
from chemspec.chem.strategy import BYSTANDERS, Strategy, strategy
from chemspec.engine.distinct import echoes_query
from chemspec.metrics import PassCounts
from chemspec.review.forward_check import MIN_CONFIDENCE, gives_target
from chemspec.settings import Task
from chemspec.types import DecodeResult, Hypothesis

CONFIDENT, DOUBTFUL = 0.8, MIN_CONFIDENCE  # chances from which on, and below which, other words are used
NO_PASSES = PassCounts()
TROUBLE = 0.2  # factor on the probability of a retro card with problems, for the ranking


@dataclass(frozen=True)
class Check:
    """The forward model's verdict on proposed reactants.

    Attributes:
        agrees: whether its first answer is the target.
        chance: its probability of that answer.
        product: its first answer; empty where there is none.
        added: SMILES of the reagents that were added to the question; empty if none.
        passes: of the forward model for this opinion.
    """

    agrees: bool
    chance: float
    product: str
    added: str = ""
    passes: PassCounts = NO_PASSES

    @property
    def sure(self) -> bool:
        """Whether it agrees with sufficient probability."""
        return self.agrees and self.chance >= DOUBTFUL


def forward_check(target: str, result: DecodeResult, added: str = "") -> Check:
    """Return the forward model's verdict from its prediction for reactants and `added` reagents."""
    first = next((answer for answer in result.hypotheses if answer.valid), None) if result.status == "ok" else None
    if first is None:
        return Check(False, 0.0, "", added, PassCounts.of_result(result))
    agrees = gives_target(target, first.canonical)
    return Check(agrees, first.probability, first.canonical, added, PassCounts.of_result(result))


@dataclass(frozen=True)
class AnswerCard:
    """A strategy: its best prediction, and others that form the same bonds by the same kind of reaction.

    Attributes:
        rank: its place on the page, from 1.
        best: the answer that stands for it.
        change: what the step does; None where that is unknown.
        twins: the others, with what those do.
        check: of the best answer, where the forward model was asked.
    """

    rank: int
    best: Hypothesis
    change: Strategy | None
    twins: tuple[tuple[Hypothesis, Strategy | None], ...] = ()
    check: Check | None = None

    @property
    def members(self) -> tuple[Hypothesis, ...]:
        """All answers of the card."""
        return (self.best, *(twin for twin, _ in self.twins))

    @property
    def name(self) -> str:
        """The class of the step."""
        if self.change is None:
            return "One step"
        names = {change.name for _, change in self.twins if change} | {self.change.name}
        family = str(self.change.key[0])
        if len(names) > 1 and family.endswith("deprotection"):
            return f"Deprotection of {'nitrogen' if family.startswith('N') else 'oxygen'}"
        return self.change.name

    @property
    def also(self) -> str:
        """How the other predictions of the card differ."""
        if not self.twins:
            return ""
        leaving = self.change.leaving if self.change else ""
        words = dict.fromkeys(
            change.leaving for _, change in self.twins if change and change.leaving not in ("", leaving)
        )
        count = len(self.twins)
        return (
            f"also as {', '.join(list(words)[:3])}" if words else f"{count} more alike" if count > 1 else "1 more alike"
        )


def is_calibrated(card: AnswerCard) -> bool:
    """Return whether the probability of a card is calibrated."""
    return card.best.confidence is not None


def card_probability(card: AnswerCard) -> float:
    """Return the probability that one of a card's predictions is correct, wrong epimers left out."""
    sound = [twin for twin, change in card.twins if not (change and spoils_stereo(change))]
    return min(1.0, sum(map(answer_probability, (card.best, *sound))))


def answer_probability(answer: Hypothesis) -> float:
    """Return the calibrated probability of a prediction, or else the model's."""
    return answer.probability if answer.confidence is None else answer.confidence


def format_percent(odds: float) -> str:
    """Return a probability in whole percent, never 0 or 100."""
    return "under 1 %" if odds < 0.01 else "over 99 %" if odds > 0.99 else f"{100 * odds:.0f} %"


def confidence_word(odds: float) -> str:
    """Return the level of confidence in words."""
    return "high confidence" if odds >= CONFIDENT else "medium confidence" if odds >= DOUBTFUL else "low confidence"


def make_cards(task: Task, query: str, result: DecodeResult) -> list[AnswerCard]:
    """Return the predictions as cards, the likeliest first; for forward, one card per prediction."""
    groups: dict[object, list[tuple[Hypothesis, Strategy | None]]] = {}
    for answer in result.hypotheses:
        if task == "forward":
            change = strategy(query, answer.canonical) if answer.valid and "." not in answer.canonical else None
            groups[answer.smiles] = [(answer, change)]
        else:
            change = strategy(answer.canonical, query) if answer.valid else None
            groups.setdefault(change.key if change else answer.smiles, []).append((answer, change))
    for group in groups.values():
        group.sort(key=lambda member: bool(member[1] and spoils_stereo(member[1])))  # wrong epimers last
    cards = [AnswerCard(0, *group[0], tuple(group[1:])) for group in groups.values()]
    return rank_cards(task, query, cards)


def rank_cards(task: Task, query: str, cards: Sequence[AnswerCard]) -> list[AnswerCard]:
    """Return cards by probability; a retro card with problems counts a fifth."""

    def weight(card: AnswerCard) -> float:
        return card_probability(card) * (TROUBLE if task == "retro" and find_problems(task, query, card) else 1.0)

    ranked = sorted(cards, key=lambda card: -weight(card)) if task == "retro" else cards
    return [replace(card, rank=rank) for rank, card in enumerate(ranked, 1)]


def spoils_stereo(change: Strategy) -> bool:
    """Return whether a step changes a stereocentre or double bond outside the reaction centre."""
    return bool(change.inverted or change.unset or change.flipped)


def find_problems(task: Task, query: str, card: AnswerCard) -> list[str]:
    """Return the problems of a prediction, in words."""
    best, change = card.best, card.change
    if best.ended == "length":
        return [f"cut after {len(best.tokens)} tokens"]
    if not best.valid:
        return [f"not a valid SMILES: {chem.explain(best.smiles) or ''}"]
    problems = []
    left, right = (query, best.canonical) if task == "forward" else (best.canonical, query)
    if echoes_query(task, query, best.canonical):
        problems.append("returns the query" if task == "retro" else "returns a starting material")
    if lacking := formula_balance(left, right):
        problems.append(f"the reactants cannot supply {_element_counts(lacking)}")
    elif (core := _atom_sources(task, left, change)) and (taken := formula_balance(core, right)):
        problems.append(f"{_element_counts(taken)} of the product could only come from a solvent, base or counterion")
    if change:
        if change.inverted:
            problems.append(f"wrong epimer: {_centre_numbers(change.inverted)} would have to invert")
        if change.flipped:
            problems.append(f"wrong geometry: {_double_bonds(change.flipped)} would have to turn")
        if change.unset and task == "retro":
            problems.append(f"stereo missing: {_centre_numbers(change.unset)} is not set in the reactants")
        if change.lost and task == "forward":
            problems.append(f"stereo lost: {_centre_numbers(change.lost)} is set in the flask and not here")
        if task == "retro" and change.key[0] == "dehalogenation":
            problems.append("removes a halogen that would have to be introduced first")
    if card.check and not card.check.agrees:
        problems.append("the forward model expects another product")
    elif card.check and not card.check.sure:
        problems.append(f"the forward model is unsure of it ({format_percent(card.check.chance)})")
    return problems


def _element_counts(lacking: dict[str, int]) -> str:
    return ", ".join(f"{count} {element}" for element, count in lacking.items())


def _centre_numbers(atoms: Sequence[int]) -> str:
    return ("centre " if len(atoms) == 1 else "centres ") + ", ".join(str(atom + 1) for atom in atoms)


def _double_bonds(pairs: Sequence[tuple[int, int]]) -> str:
    named = ", ".join(f"{first + 1}={second + 1}" for first, second in pairs)
    return f"double bond{'s' * (len(pairs) > 1)} {named}"


def _atom_sources(task: Task, left: str, change: Strategy | None) -> str:
    """Return the molecules that may supply atoms: no bystander, unless all its atoms react, as in alkylated pyridine.

    A proposed precursor may well be toluene, and no carbonate.
    """
    aside = BYSTANDERS if task == "forward" else {part for part in BYSTANDERS if "-]" in part}
    if change and change.key[0] == "formylation":
        aside = aside - {"CN(C)C=O"}
    given, start, parts = set(change.origin) if change else set(), 0, []
    for part in left.split("."):
        mol = mol_from_smiles(part)
        atoms = range(start, start + (mol.GetNumAtoms() if mol else 0))
        start = atoms.stop
        if part not in aside or (atoms and given.issuperset(atoms)):
            parts.append(part)
    return ".".join(parts)


def doubt_warning(task: Task, query: str, result: DecodeResult, shown: Sequence[AnswerCard]) -> str:
    """Return a warning where all predictions are doubtful; empty otherwise."""
    aside = result.distinct.aside if result.distinct else ()
    echo = max((answer.probability for answer in aside if answer.valid), default=0.0)
    if not shown and result.distinct and result.distinct.barred:
        return f"None of {len(result.distinct.barred)} answers meets your constraints; remove a bond mark or a class."
    if not shown:
        what = "No reaction predicted" if task == "forward" else "No precursors predicted"
        return f"{what}: all predictions are the query itself or invalid SMILES."
    best = max(map(card_probability, shown))
    if task == "forward" and echo > shown[0].best.probability:
        return f"The model predicts no reaction: its top prediction is a starting material ({format_percent(echo)})."
    if task == "forward" and "." not in query and best < CONFIDENT:
        return f"Only one molecule, and nothing for it to react with; probability {format_percent(best)}."
    if best < DOUBTFUL and task == "retro":
        return f"Low confidence: the best prediction matches the recorded route in {format_percent(best)} of cases."
    if best < DOUBTFUL:
        return f"Low confidence: the probability of the best prediction is {format_percent(best)}."
    return ""
