"""Suggestions: predictions grouped by strategy, with probability, problems, evidence and ranking."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from chemspec import chem
from chemspec.asset_files import read_asset_table
from chemspec.chem.checks.flask_check import FlaskReport, check_flask
from chemspec.chem.checks.flask_parts import atoms_by_molecule
from chemspec.chem.checks.weapons_convention import refusal
from chemspec.chem.molecules.bottles import as_bottled
from chemspec.chem.molecules.parsing import mol_from_smiles
from chemspec.chem.molecules.query import drop_stereo
from chemspec.chem.reactions.step_class import BYSTANDERS, StepClass
from chemspec.chem.reactions.stereo import drop_geometry, geometry, is_enantiopure_from_achiral, open_stereo
from chemspec.chem.reactions.stoichiometry import (
    classify_whole_step,
    extra_copies,
    lost_labels,
    missing_elements,
    missing_labels,
)
from chemspec.chem.reading.names.reagents import name_in_list
from chemspec.engine.distinct import echoes_query
from chemspec.precedents import Found
from chemspec.review.conditions import FROM_PRECEDENTS, PROPOSED_BY_MODEL, USUAL, recorded_conditions, usable_conditions
from chemspec.review.forward_check import MIN_CONFIDENCE, VARIANTS, ForwardCheck, ReagentSets, Step
from chemspec.settings import Task
from chemspec.stock.lists import Availability
from chemspec.types import DecodeResult, Hypothesis

CONFIDENT, DOUBTFUL = 0.8, MIN_CONFIDENCE  # probabilities that separate high, medium and low confidence
SURE = 0.9  # probability from which SMILES variants of a flask are not compared: they hardly ever disagree
FEW_VARIANTS = 2  # number of variants with the same product, up to which a warning is given
MIN_SHARE = 0.005  # probability from which a tautomer is told
PROBLEM_FACTOR = 0.2  # factor on the probability of a retro suggestion with problems, for the ranking
# What gives atoms in families of reactions, and elsewhere is a solvent, base or counterion.
_SOURCES = {
    family: set(smiles.split()) for family, smiles in read_asset_table(Path(__file__).with_name("atom_sources.tsv"))
}


@dataclass(frozen=True)
class Suggestion:
    """A strategy: its best prediction, and others that form the same bonds by the same kind of reaction.

    Of a forward question it is a product, and the others are its E/Z isomers.
    """

    task: Task  # task of the model
    query: str  # SMILES of the query
    rank: int  # rank in the review, from 1
    best: Hypothesis  # the prediction that stands for it
    alternatives: tuple[tuple[Hypothesis, StepClass | None], ...] = ()  # each with what its reaction does
    check: ForwardCheck | None = None  # forward check of the best prediction; None if unchecked
    precedents: Found | None = None  # patent reactions with the same change; None without an index, or if not looked up
    proposed: ReagentSets = ()  # reagents proposed by a model, the likeliest first; empty if none were
    by_rule: bool = False  # whether it stands above a likelier isomer, which is against a law of stereochemistry
    variants: int | None = None  # SMILES of the flask that give this product, of `VARIANTS`; None if not counted
    # For each molecule of the best prediction whether it can be bought, see `look_up_reactants`; () if not looked up.
    availability: tuple[Availability | None, ...] = ()

    @cached_property
    def step(self) -> StepClass | None:
        """What the reaction does; None if that is unknown."""
        return _step_of(self.task, self.query, self.best)

    @property
    def members(self) -> tuple[Hypothesis, ...]:
        """All predictions."""
        return (self.best, *(answer for answer, _ in self.alternatives))

    @property
    def sides(self) -> tuple[str, str]:
        """Reactants and product."""
        answer = self.best.canonical
        return (self.query, answer) if self.task == "forward" else (answer, self.query)

    @property
    def stock(self) -> tuple[str, ...]:
        """The marks of `availability`, for people."""
        return tuple("" if each is None else str(each) for each in self.availability)

    @property
    def reaction(self) -> Step:
        """Product and reactants, as the forward check takes them."""
        reactants, product = self.sides
        return product, reactants

    @property
    def name(self) -> str:
        """The reaction class."""
        if self.step is None:
            return "One step"
        names = {step.name for _, step in self.alternatives if step} | {self.step.name}
        family = str(self.step.key[0])
        if len(names) > 1 and family.endswith("deprotection"):
            return f"Deprotection of {'nitrogen' if family.startswith('N') else 'oxygen'}"
        return self.step.name

    @property
    def also(self) -> str:
        """How the alternatives differ, in words."""
        if not self.alternatives or self.task == "forward":
            return self.geometry
        leaving = self.step.leaving if self.step else ""
        ring = self.step is not None and str(self.step.key[0]).startswith("ring")  # a ring loses several groups at once
        words = dict.fromkeys(
            step.leaving
            for _, step in self.alternatives
            if step and not ring and step.leaving not in ("", leaving) and step.leaving not in step.name.split()
        )
        count = len(self.alternatives)
        if words:
            return f"other leaving groups under More: {', '.join(list(words)[:3])}"
        return f"{count} similar set{'s' * (count > 1)} of precursors under More"

    @property
    def geometry(self) -> str:
        """The E/Z isomers among the predictions of one product, each with its probability; empty if there is one."""
        if self.task != "forward" or not self.alternatives:
            return ""
        probs: dict[str, float] = {}
        for answer in self.members:
            word = geometry(answer.canonical)
            probs[word] = probs.get(word, 0.0) + answer.probability
        return ", ".join(f"{word} {format_percent(p)}" for word, p in probs.items())

    @cached_property
    def flask_report(self) -> FlaskReport:
        """What speaks against the product of a flask, and repairs; empty for a retro suggestion."""
        is_product = self.task == "forward" and self.best.valid
        return check_flask(self.query, self.best.canonical) if is_product else FlaskReport()

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """Tautomers that were added, stereochemistry from nothing or left open, and solvents of a work-up, in words."""
        left, right = self.sides
        lines = [sentence[:1].upper() + sentence[1:] for sentence in self.flask_report.remarks]
        shares = [format_percent(p) for _, p in self.best.tautomers if p >= MIN_SHARE]
        if len(shares) > 1:
            lines.append(f"{len(shares)} tautomers count as one answer ({' + '.join(shares)} by the model)")
        if self.step is not None and is_enantiopure_from_achiral(left, right):
            lines.append("one enantiomer from achiral reactants: a chiral reagent, catalyst or resolution is needed")
        elif self.task == "forward" and self.step is not None and self.step.from_open:
            lines.append(
                f"the reactants leave open {_centre_numbers(self.step.from_open)}, of which this is one isomer"
            )
        if self.check and _leaves_stereo_open(self.check, right):
            lines.append("the forward model gives this product, and leaves open the stereochemistry that is new")
        if self.task != "forward" or self.step is None:
            return tuple(lines)
        if self.step.left_open:
            who = "this product leaves" if self.step.completed else "the reactants and this product leave"
            lines.append(f"by rule {self.step.left_open}; {who} it open")
        bonds, centres = open_stereo(self.query, self.best.canonical, self.step.origin, self.step.lost_centres)
        if bonds and not self.alternatives:
            lines.append("E/Z is not set" if bonds == 1 else f"E/Z of {bonds} double bonds is not set")
        if centres:
            lines.append("1 stereocentre is not set" if centres == 1 else f"{centres} stereocentres are not set")
        return tuple(lines)

    @property
    def calibrated(self) -> bool:
        """Whether the probability is calibrated."""
        return self.best.calibrated

    @property
    def probability(self) -> float:
        """The probability that one of the predictions is correct, wrong epimers left out."""
        sound = [answer for answer, step in self.alternatives if not (step and spoils_stereo(step))]
        return min(1.0, sum(answer.probability for answer in (self.best, *sound)))

    @cached_property
    def reagents(self) -> tuple[str, str]:
        """SMILES of the card's one set of reagents, and its source: that which confirms the step, else the usable one.

        See `chemspec.review.conditions`. Of a forward question those recorded with the same kind of flask.
        """
        proposed = [reagents for reagents, _ in self.proposed]
        reactants = ".".join(self.givers) if self.task == "forward" else self.sides[0]
        if not self.best.valid or not reactants:
            return "", ""
        if self.task == "forward":
            recorded = recorded_conditions(self.precedents, reactants, self.reaction[0])
            return (recorded, FROM_PRECEDENTS) if recorded else ("", "")
        chosen = usable_conditions(self.precedents, reactants, self.reaction[0], proposed)
        added = self.check.added if self.check and self.check.confirmed else ""
        if added in ("", chosen[0]):
            return chosen
        return added, USUAL if self.step and added == self.step.reagents else PROPOSED_BY_MODEL

    @cached_property
    def givers(self) -> tuple[str, ...]:
        """The molecules of a flask that contribute atoms to the product; empty for a retro question."""
        origin = set(self.step.origin) if self.step and self.task == "forward" else set()
        return tuple(part for part, atoms in atoms_by_molecule(self.query) if atoms & origin)

    @cached_property
    def problems(self) -> tuple[str, ...]:
        """The problems of the best prediction, in words."""
        return tuple(_find_problems(self))


def format_percent(p: float) -> str:
    """Return a probability in whole percent, never 0 or 100."""
    return "under 1 %" if p < 0.01 else "over 99 %" if p > 0.99 else f"{100 * p:.0f} %"


def describe_patents(sources: Iterable[str], close: int) -> str:
    """Return the patents of the nearest precedents; without `close` ones these make only the same bonds."""
    text = "; ".join(dict.fromkeys(filter(None, sources)))
    return text if close or not text else f"the same bonds: {text}"


def describe_check(check: ForwardCheck | None) -> str:
    """Return a forward check for a table: the verdict with the probability of the predicted product; "" for None."""
    if check is None:
        return ""
    return f"{check.text} ({format_percent(check.probability)})" if check.product else check.text


def confidence_word(p: float) -> str:
    """Return the level of a probability in words."""
    return f"{'high' if p >= CONFIDENT else 'medium' if p >= DOUBTFUL else 'low'} probability"


def bottled_answers(result: DecodeResult) -> list[Hypothesis]:
    """Return precursors as what stands in bottles (`chem.molecules.bottles`), the probabilities of equal ones added."""
    answers: dict[str, Hypothesis] = {}
    for answer in result.hypotheses:
        canonical = as_bottled(answer.canonical) if answer.valid else ""
        same = answers.get(canonical)
        if not canonical or same is None:
            answers[canonical or f"invalid {answer.smiles}"] = replace(answer, canonical=canonical)
            continue
        answers[canonical] = replace(
            same,
            probability=min(1.0, same.probability + answer.probability),
            model_probability=min(1.0, same.model_probability + answer.model_probability),
        )
    return list(answers.values())


def group_answers(task: Task, query: str, result: DecodeResult) -> list[Suggestion]:
    """Return the predictions as suggestions, the likeliest first; forward: one per product, E/Z isomers together."""
    groups: dict[object, list[Hypothesis]] = {}
    for answer in bottled_answers(result) if task == "retro" else result.hypotheses:
        if refusal(answer.canonical):
            continue
        if task == "forward":
            has_geometry = "/" in answer.canonical or "\\" in answer.canonical
            step = _step_of(task, query, answer) if has_geometry else None
            turned = step.flipped_bonds if step else ()  # wrong geometry is no isomer of the product
            key: object = (drop_geometry(answer.canonical), turned) if answer.valid else answer.smiles
        else:
            step = _step_of(task, query, answer)
            key = step.key if step else answer.smiles
        groups.setdefault(key, []).append(answer)
    suggestions = []
    for answers in groups.values():
        if len(answers) == 1:  # what a product's reaction does is found for the cards that are looked at
            suggestions.append(Suggestion(task, query, 0, answers[0]))
            continue
        group = [(answer, _step_of(task, query, answer)) for answer in answers]
        group.sort(key=lambda member: bool(member[1] and spoils_stereo(member[1])))  # wrong epimers last
        suggestions.append(Suggestion(task, query, 0, group[0][0], tuple(group[1:])))
    return rank_suggestions(suggestions)


def _step_of(task: Task, query: str, answer: Hypothesis) -> StepClass | None:
    """Return what the reaction of an answer does; None if that is unknown."""
    if not answer.valid or (task == "forward" and "." in answer.canonical):
        return None
    sides = (query, answer.canonical) if task == "forward" else (answer.canonical, query)
    return classify_whole_step(*sides)


def rank_suggestions(suggestions: Sequence[Suggestion]) -> list[Suggestion]:
    """Return suggestions by probability; a retro suggestion with problems counts a fifth.

    Products stay in the model's order unless E/Z isomers were merged; one against a law of stereochemistry goes below
    the isomer that keeps it.
    """
    merged = any(suggestion.alternatives and suggestion.best.vote is None for suggestion in suggestions)

    def weight(suggestion: Suggestion) -> float:
        if suggestion.task != "retro":
            return suggestion.probability if merged else 0.0
        return suggestion.probability * (PROBLEM_FACTOR if suggestion.problems else 1.0)

    ranked = _lawful_first(sorted(suggestions, key=lambda suggestion: -weight(suggestion)))
    return [replace(suggestion, rank=rank) for rank, suggestion in enumerate(ranked, 1)]


def _lawful_first(ranked: list[Suggestion]) -> list[Suggestion]:
    """Return suggestions with a product against a law of stereochemistry below the isomer that keeps the law."""
    for suggestion in [item for item in ranked if _has_stereo(item) and item.step and item.step.lawful]:
        assert suggestion.step
        products = [item.best.canonical for item in ranked]  # an item that was moved up is another object
        position, lawful = products.index(suggestion.best.canonical), suggestion.step.lawful
        if lawful in products[position + 1 :]:
            ranked.insert(position, replace(ranked.pop(products.index(lawful, position)), by_rule=True))
    return ranked


def _has_stereo(suggestion: Suggestion) -> bool:
    """Return whether a product or its flask has stereochemistry: a law may set centres that a product leaves open."""
    return suggestion.task == "forward" and any(mark in side for side in suggestion.sides for mark in "@/\\")


def spoils_stereo(step: StepClass) -> bool:
    """Return whether a step changes a stereocentre or double bond that it should keep, or keeps one that it inverts."""
    return bool(step.inverted_centres or step.new_centres or step.flipped_bonds or step.unlawful)


def _leaves_stereo_open(check: ForwardCheck, product: str) -> bool:
    """Return whether the forward model gives a product but for configurations that it does not set."""
    made = chem.main_product(check.product) if check.product and not check.agrees else None
    if not made or drop_stereo(made) != drop_stereo(product):
        return False
    return bool(mol_from_smiles(product).HasSubstructMatch(mol_from_smiles(made), useChirality=True))


def _find_problems(suggestion: Suggestion) -> Iterator[str]:
    best, change, task = suggestion.best, suggestion.step, suggestion.task
    if best.ended == "length":
        yield f"cut after {len(best.tokens)} tokens"
        return
    if not best.valid:
        yield f"not a valid SMILES: {chem.explain(best.smiles) or ''}"
        return
    left, right = suggestion.sides
    if echoes_query(task, suggestion.query, best.canonical):
        yield "returns the query" if task == "retro" else "returns a starting material"
    sources = _SOURCES.get(str(change.key[0]) if change else "", set())
    supply = f"{left}.O" if "O" in sources else left  # a work-up adds water
    core = _atom_sources(task, supply, change, sources)
    copies = ".".join(extra_copies((core if task == "forward" else "") or left, right))
    if lacking := missing_elements(supply, right):
        yield f"the reactants cannot supply {element_counts(lacking)}"
    elif core and (taken := missing_elements(f"{core}.{copies}".strip("."), right)):
        yield f"{element_counts(taken)} of the product could only come from a solvent, base or counterion"
    elif task == "forward" and change and change.unlikely_change and not change.rearranges_carbon:
        yield change.unlikely_change
    if missing := missing_labels(left, right):
        yield f"isotope label missing: the reactants do not have {element_counts(missing)}"
    elif change and task == "forward" and (lost := lost_labels(left, right, change)):
        yield f"isotope label lost: this product lacks {element_counts(lost)} of the reactants"
    if copies and task == "forward" and not (change and change.key[0] == "homocoupling"):
        reactant = copies.split(".")[0]
        yield f"over-reaction: takes {2 + copies.count('.')} equivalents of {name_in_list(reactant) or reactant}"
    if task == "forward":
        yield from suggestion.flask_report.problems
    if change:
        if change.breaks_carbon_bond:
            yield "a carbon group would have to move to another atom"
        if change.bond_next_to_leaving_group:
            yield "a group leaves one atom, and the new bond is at another"
        if change.inverted_centres:
            yield f"wrong epimer: {_centre_numbers(change.inverted_centres)} would have to invert"
        if change.flipped_bonds:
            yield f"wrong geometry: {_double_bonds(change.flipped_bonds)} would have to turn"
        if change.unlawful:
            yield f"against the rule at {_centre_numbers(change.unlawful)}: {change.law}"
        if change.new_centres and task == "retro":
            yield f"stereo missing: the reactants do not set {_centre_numbers(change.new_centres)}"
        if change.lost_centres and task == "forward":
            yield f"stereo lost: the query sets {_centre_numbers(change.lost_centres)}, this product does not"
        if task == "retro" and change.key[0] == "dehalogenation":
            yield "removes a halogen that would have to be introduced first"
    check = suggestion.check
    if check is None or _leaves_stereo_open(check, right):  # the notes say so
        return
    if check.product and check.verdict == "differs" and drop_stereo(check.product) == drop_stereo(right):
        yield "the forward model expects another stereoisomer"
    elif check.verdict == "differs":
        yield f"the forward model {'expects another' if check.product else 'gives no'} product"
    elif check.verdict == "unsure":
        yield f"the forward model is unsure of it ({format_percent(check.probability)})"


def element_counts(lacking: dict[str, int]) -> str:
    """Return numbers of atoms by element in words, such as "1 C, 2 O"."""
    return ", ".join(f"{count} {element}" for element, count in lacking.items())


def _centre_numbers(atoms: Sequence[int]) -> str:
    return ("centre " if len(atoms) == 1 else "centres ") + ", ".join(map(str, atoms))


def _double_bonds(pairs: Sequence[tuple[int, int]]) -> str:
    named = ", ".join(f"{first}={second}" for first, second in pairs)
    return f"double bond{'s' * (len(pairs) > 1)} {named}"


def _atom_sources(task: Task, left: str, change: StepClass | None, sources: set[str]) -> str:
    """Return the molecules that may supply atoms: no bystander, unless all its atoms react, as in alkylated pyridine.

    A proposed precursor may well be toluene, and no carbonate.
    """
    aside = {part for part in BYSTANDERS - sources if task == "forward" or "-]" in part}
    given = set(change.origin) if change else set()
    molecules = atoms_by_molecule(left)
    return ".".join(part for part, atoms in molecules if part not in aside or (atoms and atoms <= given))


def recorded_rank(shown: Sequence[Suggestion]) -> int | None:
    """Return the rank of the first prediction that a patent records for this very query; None without one.

    A patent without a molecule that the first product contains is about another flask.
    """
    givers = set(shown[0].givers) if shown else set()
    records = [(item.rank, item.precedents.same) for item in shown if item.precedents and item.precedents.same]
    return next((rank for rank, same in records if givers <= {*f"{same.reactants}.{same.reagents}".split(".")}), None)


def doubt_warning(task: Task, query: str, result: DecodeResult, shown: Sequence[Suggestion]) -> str:
    """Return a warning where all predictions are doubtful; empty otherwise."""
    omitted = result.distinct.omitted if result.distinct else ()
    echo = max((answer.probability for answer in omitted if answer.valid), default=0.0)
    if not shown and result.distinct and result.distinct.excluded:
        excluded = f"{len(result.distinct.excluded)} answer{'s' * (len(result.distinct.excluded) > 1)}"
        return f"None of {excluded} meets your constraints; remove a bond mark or a class."
    if not shown:
        what = "No reaction predicted" if task == "forward" else "No precursors predicted"
        return f"{what}: all predictions are the query itself or invalid SMILES."
    best = max(suggestion.probability for suggestion in shown)
    if task == "forward" and "." not in query and best < CONFIDENT:
        return f"Only one molecule, and nothing for it to react with; probability {format_percent(best)}."
    if task == "forward" and echo > shown[0].best.probability:
        return f"The model predicts no reaction: its top prediction is a starting material ({format_percent(echo)})."
    if best < DOUBTFUL and task == "retro":
        return f"Low probability: the best prediction matches the recorded route in {format_percent(best)} of cases."
    if best < DOUBTFUL:
        return f"Low probability: the best prediction has {format_percent(best)}."
    if (count := shown[0].variants) is not None and count <= FEW_VARIANTS:
        return f"Unsure: only {count} of {VARIANTS} ways to write this flask as SMILES give the first product."
    return ""
