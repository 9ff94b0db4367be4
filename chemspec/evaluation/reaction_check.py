"""Check a reaction that somebody wrote down: does the model expect it, at which rank, and what else does it expect.

Forward: the product among the answers to reactants and agents. Retro: the reactants among the answers to the product,
where an answer counts that holds nothing but molecules of the flask and supplies every atom of the product, since
nobody writes down which of them are agents. Reagents: the set of agents, without stereochemistry, among those proposed
for reactants and product.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from chemspec import chem
from chemspec.chem import formats
from chemspec.chem.reagent_sets import normal_form
from chemspec.chem.strategy import strategy
from chemspec.engine.distinct import echoes_query
from chemspec.engine.engine import Engine
from chemspec.evaluation.roundtrip import leads_back
from chemspec.settings import DecodeSettings, Task
from chemspec.tasks import TASKS
from chemspec.types import DecodeResult, Hypothesis

HOW = DecodeSettings(decoder="beam", n=10, distinct=True)
_SET = ("The model rather expects others", "The model does not expect these reagents", "this set is")
_SAID = {  # of an answer that is not the first, of none, and what is looked for
    "forward": ("The model rather expects another product", "The model does not expect this", "the product is"),
    "retro": ("The model puts other ways before", "The model does not think of this way", "these reactants are"),
}


@dataclass(frozen=True)
class ReactionCheck:
    """What a model says of a reaction.

    Attributes:
        task: "forward" judges the product, "retro" the reactants, "reagents" the agents.
        query: what the model was asked.
        expected: what else was written: on the other side of the arrow, or between its ends.
        rank: place of that among the answers, from 1; 0 if it is not there.
        answers: how many there were to look through.
        chance: of the answer of that rank, as measured, else the model's own probability; 0 where there is none.
        near: place of the first answer that is nearly it, if it is not there; 0 if none is.
        nearly: in what that one differs; empty if none is.
        problem: what is wrong with the reaction as written, whatever a model says; empty if nothing is.
        result: all that the model answered.
    """

    task: Task
    query: str
    expected: str
    rank: int
    answers: int
    chance: float
    near: int
    nearly: str
    problem: str
    result: DecodeResult

    @property
    def agrees(self) -> bool:
        """Whether it is the model's first answer."""
        return self.rank == 1

    @property
    def others(self) -> tuple[Hypothesis, ...]:
        """What else the model expects, best first."""
        return tuple(one for place, one in enumerate(self.result.hypotheses, 1) if one.valid and place != self.rank)

    def sentence(self) -> str:
        """What came of it, in words."""
        if self.result.status != "ok":
            return f"The model cannot judge this reaction: {self.result.message}"
        lead, unlike, what = _SAID.get(self.task, _SET)
        if self.agrees:
            return f"The model agrees: {what} its first answer"
        if self.rank:
            return f"{lead}: {what} answer {self.rank} of {self.answers}"
        near = f"; answer {self.near} is {self.nearly}" if self.near else ""
        return f"{unlike}: {what} not among its {self.answers} answers{near}"


def check(engine: Engine, reaction: str, settings: DecodeSettings = HOW) -> ReactionCheck:
    """Ask a model about a whole reaction; one search, no more.

    Args:
        engine: its task says which side is asked for.
        reaction: reaction SMILES, or the content of an RXN, RDF or CDXML file.
        settings: of the search; its answers are what is looked through.

    Raises:
        ValueError: if this is no reaction with both sides, saying why.
    """
    read = formats.read_any(reaction, task=engine.task)
    if isinstance(read, chem.Fault):
        raise ValueError(f"this reaction cannot be read: {read}")
    if expected := read.agents or read.other:
        return judge(engine.task, read.ordered, expected, engine.predict(read.smiles, settings))
    if TASKS.lookup(engine.task).whole:
        raise ValueError("this reaction has no agents that could be judged; write reactants>agents>product")
    for why in (note for note in read.notes if note.startswith(formats.OTHER_SIDE)):
        raise ValueError(f"this reaction cannot be read: {why}")
    raise ValueError("this is no whole reaction; write reactants>>product, or give an RXN file")


def judge(task: Task, query: str, expected: str, result: DecodeResult) -> ReactionCheck:
    """Look for the other side of a reaction among answers to one side of it.

    Args:
        task: of the model.
        query: what was asked.
        expected: what was written down beside it.
        result: the answers.
    """
    answers = [one for one in result.hypotheses if one.valid]
    ranks = [rank for rank, one in enumerate(answers, 1) if is_it(task, query, expected, one.canonical)]
    found = ReactionCheck(task, query, expected, 0, len(answers), 0.0, 0, "", _problem(task, query, expected), result)
    if ranks:
        one = answers[ranks[0] - 1]
        chance = one.probability if one.confidence is None else one.confidence
        return replace(found, rank=ranks[0], chance=chance)
    for rank, one in enumerate(answers, 1):
        if how := _nearly(task, query, expected, one.canonical):
            return replace(found, near=rank, nearly=how)
    return found


def is_it(task: Task, query: str, expected: str, answer: str) -> bool:
    """Return whether an answer is what was written down."""
    if task == "forward":
        return leads_back(expected, answer)
    if TASKS.lookup(task).whole:
        return normal_form(answer) == normal_form(expected)
    flask, parts = chem.canonical_parts(expected), chem.canonical_parts(answer)
    return bool(flask and parts and set(parts) <= set(flask) and not chem.formula_balance(answer, query))


def _nearly(task: Task, query: str, expected: str, answer: str) -> str:
    """Return in what an answer differs from what was written down, if that is little; empty otherwise."""
    flat, found = chem.drop_stereo(expected), chem.drop_stereo(answer)
    if flat is None or found is None:
        return ""
    if TASKS.lookup(task).whole:
        parts, others = set(flat.split(".")), set(found.split("."))
        lacking, more = ".".join(parts - others), ".".join(others - parts)
        near = len(parts ^ others) == 1
        return (f"the same without {lacking}" if lacking else f"the same with {more} besides") if near else ""
    if is_it(task, chem.drop_stereo(query) or query, flat, found):
        return "the same but for stereochemistry"
    if task == "forward":
        mine, other = chem.main_product(expected) or "", chem.main_product(answer) or ""
        isomers = chem.formula_balance(mine, other) == {} and chem.formula_balance(other, mine) == {}
        return "an isomer of it, or differs in hydrogen only" if isomers else ""
    wanted, step = strategy(expected, query), strategy(answer, query)
    alike = wanted and step and wanted.made and wanted.key == step.key
    return "the same idea with other reactants" if alike else ""


def _problem(task: Task, query: str, expected: str) -> str:
    """Return what is wrong with a reaction as it is written."""
    flask, product = TASKS[task].sides(query, expected)
    if lacking := chem.formula_balance(flask, product):
        atoms = ", ".join(f"{count} {element}" for element, count in lacking.items())
        return f"the reactants cannot supply {atoms} of the product"
    if echoes_query("forward", flask, product):
        return "the product is one of the starting materials"
    return ""
