"""Check a given reaction against a model: the rank of the given side, and the alternatives.

Forward: the product among the predictions for reactants and agents. Retro: the reactants among the predictions for the
product; a prediction matches if it consists of given molecules and supplies every atom of the product, since agents
are not marked. Reagents: the set of agents, without stereochemistry, among those proposed for reactants and product.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from chemspec import chem
from chemspec.chem import formats
from chemspec.chem.checks.flask_check import missing_or_conflicting
from chemspec.chem.molecules.salts import normal_form
from chemspec.chem.reactions.step_class import classify_step
from chemspec.chem.reactions.stoichiometry import missing_elements
from chemspec.engine.distinct import echoes_query
from chemspec.engine.engine import Engine
from chemspec.io.writers import result_document
from chemspec.precedents import Found
from chemspec.review.forward_check import ForwardCheck, StepChecker, check_document, find_precedents, gives_target
from chemspec.review.suggestions import element_counts
from chemspec.settings import DecodeSettings, Task
from chemspec.tasks import TASKS
from chemspec.types import DecodeResult, Hypothesis

CHECK_SETTINGS = DecodeSettings(decoder="beam", n=10, distinct=True)
_SET = ("The model rather expects others", "The model does not expect these reagents", "this set is")
_SENTENCES = {  # sentences for a lower rank and for no match, and the subject
    "forward": ("The model rather expects another product", "The model does not expect this", "the product is"),
    "retro": ("The model ranks other reactants higher", "The model expects other reactants", "these reactants are"),
}


@dataclass(frozen=True)
class ReactionCheck:
    """Comparison of a reaction with a model's predictions."""

    task: Task  # "forward" checks the product, "retro" the reactants, "reagents" the agents
    query: str  # query of the model
    expected: str  # given other side of the reaction, or its agents
    rank: int  # rank of the expected side among the valid predictions, from 1; 0 if it is missing
    answers: int  # number of valid predictions
    probability: float  # calibrated probability of the prediction at that rank, else the model's; 0 if it is missing
    near: int  # rank of the first near miss if the expected side is missing; 0 if there is none
    nearly: str  # how the near miss differs; empty if there is none
    problem: str  # problem of the reaction itself, independent of the model; empty if there is none
    result: DecodeResult  # all predictions
    forward: ForwardCheck | None = None  # forward check of the given reactants (retro); None if unchecked
    forward_of: Mapping[str, ForwardCheck] = field(default_factory=dict)  # checks of predicted reactants, by SMILES
    precedents: Found | None = None  # patent reactions with the same change (retro); None without an index

    @property
    def agrees(self) -> bool:
        """Whether the expected side is the model's first prediction."""
        return self.rank == 1

    @property
    def others(self) -> tuple[Hypothesis, ...]:
        """The other valid predictions, best first."""
        return tuple(
            answer for rank, answer in enumerate(self.result.hypotheses, 1) if answer.valid and rank != self.rank
        )

    def sentence(self) -> str:
        """Return the result as a sentence."""
        if self.result.status != "ok":
            return f"The model cannot judge this reaction: {self.result.message}"
        lead, unlike, what = _SENTENCES.get(self.task, _SET)
        if self.agrees:
            return f"The model agrees: {what} its first prediction"
        if self.rank:
            return f"{lead}: {what} prediction {self.rank} of {self.answers}"
        near = f"; prediction {self.near} is {self.nearly}" if self.near else ""
        return f"{unlike}: {what} not among its {self.answers} prediction{'s' * (self.answers != 1)}{near}"

    def document(self) -> dict[str, Any]:
        """Return the check as a JSON document."""
        return {
            **vars(self),
            "agrees": self.agrees,
            "probability": self.probability,
            "sentence": self.sentence(),
            "result": result_document(self.result),
            "forward": check_document(self.forward),
            "forward_of": {smiles: check_document(forward) for smiles, forward in self.forward_of.items()},
            "precedents": self.precedents and asdict(self.precedents),
        }


def check_reaction(
    engine: Engine, reaction: str, settings: DecodeSettings = CHECK_SETTINGS, checker: StepChecker | None = None
) -> ReactionCheck:
    """Check a reaction (SMILES, or the content of an RXN, RDF or CDXML file) with one search of a model.

    Its task determines the predicted side; `checker` checks given and predicted reactants with a forward model (retro),
    and finds precedents of the reaction.
    ValueError, with the reason, if this is not a reaction with both sides.
    """
    read, expected = read_reaction(reaction, engine.task)
    check = judge_predictions(engine.task, read.ordered, expected, engine.predict(read.smiles, settings))
    return _with_forward_checks(check, read.smiles, checker) if checker and engine.task == "retro" else check


def read_reaction(reaction: str, task: Task) -> tuple[formats.Input, str]:
    """Return a reaction as the query of a task, and the side that is to be predicted; ValueError if there is none."""
    read = formats.read_input(reaction, task=task)
    if isinstance(read, chem.Fault):
        raise ValueError(f"this reaction cannot be read: {read}")
    if expected := read.agents or read.other:
        return read, expected
    if TASKS.lookup(task).whole:
        raise ValueError("this reaction has no agents that could be judged; write reactants>agents>product")
    for why in (note for note in read.notes if note.startswith(formats.OTHER_SIDE)):
        raise ValueError(f"this reaction cannot be read: {why}")
    raise ValueError("this is no whole reaction; write reactants>>product, or give an RXN file")


def _with_forward_checks(check: ReactionCheck, product: str, checker: StepChecker) -> ReactionCheck:
    predicted = [answer.canonical for answer in check.result.hypotheses if answer.valid]
    forward, *others = checker.check([(product, reactants) for reactants in (check.expected, *predicted)])
    forward_of = {reactants: other for reactants, other in zip(predicted, others, strict=True) if other}
    precedents = find_precedents(checker.index, (product, check.expected))
    return replace(check, forward=forward, forward_of=forward_of, precedents=precedents)


def judge_predictions(task: Task, query: str, expected: str, result: DecodeResult) -> ReactionCheck:
    """Find the expected side of a reaction among the predictions for the other side."""
    answers = [answer for answer in result.hypotheses if answer.valid]
    ranked = list(enumerate(answers, 1))
    rank = next((n for n, answer in ranked if matches_expected(task, query, expected, answer.canonical)), 0)
    probability = answers[rank - 1].probability if rank else 0.0
    misses = ((n, _describe_near_miss(task, query, expected, answer.canonical)) for n, answer in ranked)
    near, nearly = (0, "") if rank else next((miss for miss in misses if miss[1]), (0, ""))
    problem = _find_problem(task, query, expected)
    return ReactionCheck(task, query, expected, rank, len(answers), probability, near, nearly, problem, result)


def matches_expected(task: Task, query: str, expected: str, answer: str) -> bool:
    """Return whether a prediction is the expected side."""
    if task == "forward":
        return gives_target(expected, answer)
    if TASKS.lookup(task).whole:
        return normal_form(answer) == normal_form(expected)
    flask, parts = chem.canonical_parts(expected), chem.canonical_parts(answer)
    return bool(flask and parts and set(parts) <= set(flask) and not chem.formula_balance(answer, query))


def _describe_near_miss(task: Task, query: str, expected: str, answer: str) -> str:
    """Describe how a prediction differs from the expected side, if only slightly; else empty."""
    flat, answer_flat = (chem.drop_stereo(side) or side for side in (expected, answer))
    if TASKS.lookup(task).whole:
        parts, others = set(flat.split(".")), set(answer_flat.split("."))
        lacking, more = ".".join(parts - others), ".".join(others - parts)
        near = len(parts ^ others) == 1
        return (f"the same without {lacking}" if lacking else f"the same with {more} besides") if near else ""
    if matches_expected(task, chem.drop_stereo(query) or query, flat, answer_flat):
        return "the same but for stereochemistry"
    if task == "forward":
        product, other = chem.main_product(expected) or "", chem.main_product(answer) or ""
        isomers = chem.formula_balance(product, other) == {} and chem.formula_balance(other, product) == {}
        return "an isomer of it, or differs in hydrogen only" if isomers else ""
    expected_step, step = classify_step(expected, query), classify_step(answer, query)
    alike = expected_step and step and expected_step.made and expected_step.key == step.key
    return "the same idea with other reactants" if alike else ""


def _find_problem(task: Task, query: str, expected: str) -> str:
    flask, product = TASKS[task].sides(query, expected)
    if lacking := missing_elements(chem.canonical(flask) or flask, chem.canonical(product) or product):
        return f"the reactants cannot supply {element_counts(lacking)} of the product"
    if echoes_query("forward", flask, product):
        return "the product is one of the starting materials"
    if task == "forward":
        return "; ".join(missing_or_conflicting(chem.canonical(flask) or flask, product))
    return ""
