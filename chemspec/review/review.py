"""Review the predictions for a query: strategies with problems, forward check, reagents, precedents and stock."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

from chemspec import precedents
from chemspec.chem.molecules.query import drop_stereo
from chemspec.chem.reactions.guide import Guide
from chemspec.precedents import Precedents
from chemspec.review.conditions import FROM_PRECEDENTS
from chemspec.review.forward_check import ForwardCheck, Predictor, StepChecker, find_precedents
from chemspec.review.selectivity import Selectivity, find_selectivity
from chemspec.review.suggestions import DOUBTFUL, SURE, Suggestion, doubt_warning, group_answers, rank_suggestions
from chemspec.settings import DecodeSettings, Task
from chemspec.stock.lists import Stock, look_up_reactants
from chemspec.tasks import TASKS
from chemspec.types import DecodeResult, Hypothesis

DEFAULT_SETTINGS = DecodeSettings(n=10, distinct=True)
MAX_CHECKED = 8  # suggestions of a query with a forward check, in the app
MAX_CACHED = 10_000  # steps of a `Reviewer`


@dataclass(frozen=True)
class Review:
    """Reviewed predictions for a query."""

    task: Task  # task of the model
    query: str  # the query as SMILES; as entered if it cannot be read
    result: DecodeResult  # the predictions
    suggestions: tuple[Suggestion, ...] = ()  # one per strategy, the likeliest first; empty if the status is not "ok"
    checks: Mapping[str, ForwardCheck] = field(default_factory=dict)  # checks by canonical SMILES of the reactants

    @property
    def warning(self) -> str:
        """A warning if all predictions are doubtful; empty otherwise."""
        return doubt_warning(self.task, self.query, self.result, self.suggestions) if self.result.status == "ok" else ""

    @cached_property
    def selectivity(self) -> tuple[Selectivity, ...]:
        """The atoms of a reactant that get the new bond in different products (forward); empty without a choice."""
        return find_selectivity(self.query, self.suggestions)

    def check_of(self, answer: Hypothesis) -> ForwardCheck | None:
        """Return the forward check of a prediction; None if it was not checked."""
        return self.checks.get(answer.canonical)


def review(
    engines: Mapping[Task, Predictor],
    task: Task,
    query: str,
    settings: DecodeSettings = DEFAULT_SETTINGS,
    *,
    guide: Guide | str = "",
    stock: Stock | None = None,
    index: Precedents | Literal["installed"] | None = "installed",
) -> Review:
    """Predict for a query (SMILES, name, or text of any other format that is read) and review the predictions.

    Engines by task (see `load_engines`) are that of `task` ("forward" or "retro"), "forward" for the forward check, and
    "reagents" for proposed reagents. A guide is constraints on a retro step, and replaces that of the settings. Without
    a stock nothing is looked up; the index of precedents is by default the installed one. ValueError for another task,
    settings that the engine does not support, or a damaged index.
    """
    if guide:
        settings = replace(settings, guide=str(guide), distinct=True)
    reviewer = Reviewer(task, engines, stock, precedents.installed() if index == "installed" else index)
    return reviewer.review(engines[task].predict([query], settings))[0]


def review_result(
    task: Task,
    result: DecodeResult,
    checker: StepChecker,
    *,
    query: str = "",
    stock: Stock | None = None,
    heads: int | None = None,
    described: int | None = None,
) -> Review:
    """Review predictions of the task "forward" or "retro" with a checker's models and precedents.

    `described`: number of first suggestions with precedents, reagents, stock and checks; default: all. `heads`: number
    of first suggestions of which the best prediction may be checked; default: every prediction is, whatever its rank.
    `query`: SMILES; default: that of the result. `stock`: building blocks that can be bought; None: not looked up.
    """
    queries = [query] if query else []
    return review_results(task, [result], checker, queries=queries, stock=stock, heads=heads, described=described)[0]


def review_results(
    task: Task,
    results: Sequence[DecodeResult],
    checker: StepChecker,
    *,
    queries: Sequence[str] = (),
    stock: Stock | None = None,
    heads: int | None = None,
    described: int | None = None,
) -> list[Review]:
    """Review the predictions for several queries as `review_result` does, with each model's calls in few batches."""
    queries = queries or [result.smiles or result.query for result in results]
    reviews = [
        Review(task, query, result, tuple(group_answers(task, query, result)) if result.status == "ok" else ())
        for query, result in zip(queries, results, strict=True)
    ]
    reviews = _add_checks(reviews, checker, heads, described) if task == "retro" else _count_variants(reviews, checker)
    reviews = [_add_precedents(review, checker.index, described) for review in reviews]
    if task == "retro":
        items = [item for review in reviews for item in review.suggestions[:described] if item.best.valid]
        checker.propose(item.reaction for item in items if item.reagents[1] != FROM_PRECEDENTS)
        reviews = [_add_reagents(review, checker, stock, described) for review in reviews]
    return reviews


def _add_checks(
    reviews: Sequence[Review], checker: StepChecker, heads: int | None, described: int | None
) -> list[Review]:
    """Check the best predictions of the first `heads` suggestions, or by default all, and rank the suggestions.

    With `heads` only those are checked that come to be among the first `described`: as a check can only lower a
    suggestion, it does not matter for these what the checks of all below them would say.
    """
    unchecked = [
        {answer.canonical for item in review.suggestions[:heads] for answer in _checkable(item, heads)}
        for review in reviews
    ]
    shown = None if heads is None else described
    ranked = list(reviews)
    while lacking := [
        (number, answer.canonical)
        for number, review in enumerate(ranked)
        for item in review.suggestions[:shown]
        for answer in _checkable(item, heads)
        if answer.canonical in unchecked[number]
    ]:
        verdicts = checker.check([(reviews[number].query, reactants) for number, reactants in lacking])
        checks: dict[int, dict[str, ForwardCheck]] = {}
        for (number, reactants), check in zip(lacking, verdicts, strict=True):
            unchecked[number].discard(reactants)
            checks.setdefault(number, {}).update({reactants: check} if check else {})
        for number, made in checks.items():
            ranked[number] = _rank_checked(reviews[number], {**ranked[number].checks, **made})
    return ranked


def _checkable(item: Suggestion, heads: int | None) -> list[Hypothesis]:
    return [answer for answer in (item.members if heads is None else (item.best,)) if answer.valid]


def _rank_checked(review: Review, checks: Mapping[str, ForwardCheck]) -> Review:
    items = [replace(item, check=checks.get(item.best.canonical)) for item in review.suggestions]
    return replace(review, suggestions=tuple(rank_suggestions(items)), checks=checks)


def _count_variants(reviews: Sequence[Review], checker: StepChecker) -> list[Review]:
    """Count, for first products that are neither sure nor doubtful, how many SMILES of the flask give them.

    In any configuration, which has laws of its own: those of a right one may be few, as after an inversion by law.
    """
    firsts = [review.suggestions[0] for review in reviews if review.suggestions]
    flasks = [first.query for first in firsts if first.best.valid and DOUBTFUL <= first.probability < SURE]
    products = dict(zip(flasks, checker.variant_products(flasks), strict=True))
    counted = []
    for review in reviews:
        if review.suggestions and (seen := products.get(review.query)):
            first, *others = review.suggestions
            names = {name for member in first.members for name in (member.canonical, *dict(member.tautomers))}
            flat = set(map(drop_stereo, names))
            first = replace(first, variants=sum(count for name, count in seen.items() if drop_stereo(name) in flat))
            review = replace(review, suggestions=(first, *others))
        counted.append(review)
    return counted


def _add_precedents(review: Review, index: Precedents | None, described: int | None) -> Review:
    items = [
        replace(item, precedents=find_precedents(index, item.reaction)) if item.best.valid else item
        for item in review.suggestions[:described]
    ]
    return replace(review, suggestions=(*items, *review.suggestions[len(items) :]))


def _add_reagents(review: Review, checker: StepChecker, stock: Stock | None, described: int | None) -> Review:
    """Add proposed reagents, and which reactants are in stock."""
    items = []
    for item in review.suggestions[:described]:
        if item.best.valid:
            bought = () if stock is None else look_up_reactants(item.best.canonical, stock)
            item = replace(item, proposed=checker.proposed_sets(item.reaction) or (), availability=bought)
        items.append(item)
    return replace(review, suggestions=(*items, *review.suggestions[len(items) :]))


class Reviewer:
    """Reviews predictions for many queries, with the forward checks of several queries in one batch.

    The task is "forward" or "retro". Engines by task: "forward" for the forward check, "reagents" for proposed
    reagents. Without a stock or precedents (`index`) there are none in the review.
    """

    def __init__(
        self, task: Task, engines: Mapping[Task, Predictor], stock: Stock | None, index: Precedents | None
    ) -> None:
        if TASKS.lookup(task).whole:
            raise ValueError(f"there is no review of {task}; it is for products and precursors")
        self.task, self.stock = task, stock
        self.checker = StepChecker(engines.get("forward"), engines.get("reagents"), index, most=MAX_CACHED)

    def review(self, results: Sequence[DecodeResult]) -> list[Review]:
        """Review the predictions for several queries."""
        return review_results(self.task, results, self.checker, stock=self.stock)
