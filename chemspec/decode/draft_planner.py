"""Plan which drafted nodes to add to a forward pass, for every drafter and every search.

The nodes that a search requests do not depend on drafts, and each is computed once. So a node that will be requested is
worth what a requested node costs: the seconds of the passes so far, divided by the nodes requested in them, recent ones
counting most (`value`). A drafted node is requested with probability p, the product of the acceptance rates along its
path, and b nodes added to a pass of n nodes cost t(n + b) - t(n) by the measured curve t. As many are added as maximise
value x sum of p - cost (`NodeChoice`). Drafting itself takes time: it pauses when passes with drafts have taken longer
than their tokens would have taken without. `compiled/draft_planner.h` is the same in C++.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from math import exp, log
from typing import TYPE_CHECKING

from chemspec.decode.draft_history import FIRST_PAUSE, MAX_IDLE, MAX_PAUSE, POSITION_CLASS, DraftHistory
from chemspec.draft.base import Drafter
from chemspec.draft.calibration import DEFAULT_ACCEPT_RATES
from chemspec.draft.copy import Copy
from chemspec.draft.mixed import Mixed
from chemspec.draft.tree.edit_ngrams import EDGES

if TYPE_CHECKING:
    from chemspec.model.cost import CostCurve

PASS_SECONDS, NODE_SECONDS = 5e-6, 2e-7  # overhead of the compiled loop per forward pass and per node
PLANNING_SECONDS = 6e-6  # its overhead of drafting per forward pass, without the proposed nodes
COMPILED_CALL, PYTHON_CALL = 1.2e-6, 5e-5  # seconds of one proposed node
RECORD_SECONDS = 1e-5  # what drafts in a pass cost outside it: records in Python, a share of building the drafter
MIN_GAIN = 0.03  # smallest gain, in requested nodes, for which anything is added, because cost curves are inexact
NEGLIGIBLE = 0.02  # share of a pass that makes no difference
FREE_COST = 4.0  # negligible shares: if all nodes together cost less, none is too improbable
MIN_WORTH = 0.5  # smallest value x p of a node that is looked at, in costs of the cheapest node
PRIOR_NODES = 10.0  # weight of the prior cost of a requested node, in nodes of every hypothesis
EMA_DECAY = 0.98  # weight of the past per forward pass
CLASS_WEIGHT, POOLED_WEIGHT = 30.0, 8.0  # tokens that priors count for: of one class; of all together
MAX_RATE = 0.99  # highest prior that has been scaled
# Prior acceptance rates of a drafter without probabilities: of the first token of the first, second, third and later
# drafts; of all later tokens.
PRIOR_BY_POSITION = (0.6, 0.25, 0.15, 0.05, 0.8)
KNOWN_RATE = 0.9  # share of the nodes of a look-ahead that follow from known scores and are requested
# Loss in undrafted passes at which drafting pauses, and how the pauses grow, in forward passes.
MAX_LOSS, PAUSE_GROWTH = 3.0, 4.0
# How times correct the curve: share of the difference, most that one pass changes, passes between corrections.
LEARNING_RATE, MAX_LEARNED, LEARNING_PASSES = 0.1, 0.03, 8


def token_class(probabilities: Sequence[float], rank: int, index: int) -> int:
    """Return the class of a drafted token: by its probability, or by its draft's rank and its index there."""
    if probabilities:
        return bisect_right(EDGES, probabilities[index])
    return POSITION_CLASS + (min(rank, 3) if index == 0 else 4)


class AcceptanceRecord:
    """Acceptance rate by class: accepted / verified tokens, which begin with priors.

    The prior of a class is scaled by how all classes have done, so that a model which rejects everything is soon known.
    """

    def __init__(self, priors: Sequence[float], history: DraftHistory) -> None:
        """Continue from a history."""
        self.priors, self.hits, self.tries = tuple(priors), history.hits[:], history.tries[:]
        self.rates = list(self.priors)

    def add_outcome(self, kind: int, hit: bool) -> None:
        """Count a verified token."""
        self.hits[kind] += hit
        self.tries[kind] += 1

    def update_rates(self) -> None:
        """Work out the rates."""
        accepted = expected = POOLED_WEIGHT
        for prior, hits, tries in zip(self.priors, self.hits, self.tries, strict=True):
            accepted += hits
            expected += tries * prior
        for kind, prior in enumerate(self.priors):
            scaled = min(prior * accepted / expected, max(prior, MAX_RATE))
            self.rates[kind] = (self.hits[kind] + CLASS_WEIGHT * scaled) / (self.tries[kind] + CLASS_WEIGHT)


class PassCosts:
    """Seconds of a forward pass by its number of nodes: a cost curve, corrected by the times of the passes of a run.

    A curve has the best times of passes that do nothing else; a pass of a search finds other work on the machine and
    less in the caches, which changes large passes more than small ones. Each size has a factor, and so has planning.
    """

    def __init__(self, curve: CostCurve, factors: Sequence[float]) -> None:
        """Continue from factors that were learned before, or from none."""
        self.curve, self.factors = curve, list(factors) or [1.0] * (len(curve.nodes) + 1)
        self._passes = 0
        self._correct()

    def __call__(self, nodes: float) -> float:
        """Return the seconds of a pass with this number of nodes, overhead of the loop included."""
        return self._corrected(nodes) + PASS_SECONDS + NODE_SECONDS * nodes

    def planning(self, proposed: int, call_seconds: float) -> float:
        """Return the seconds of planning before a pass, given the number of proposed nodes."""
        return self.factors[-1] * (PLANNING_SECONDS + proposed * call_seconds)

    def add_times(self, nodes: int, seconds: float, planning: float, expected_planning: float) -> bool:
        """Learn from a pass and, unless nothing is expected of it, from its planning; returns whether costs changed."""
        if not self.curve.measured:
            return False
        step, sizes = _step(seconds, self(nodes)), self.curve.nodes
        upper = min(max(bisect_left(sizes, nodes), 1), len(sizes) - 1)
        share = min(max((nodes - sizes[upper - 1]) / (sizes[upper] - sizes[upper - 1]), 0.0), 1.0)
        self.factors[upper - 1] *= exp(step * (1.0 - share))
        self.factors[upper] *= exp(step * share)
        if expected_planning > 0.0:
            self.factors[-1] *= exp(_step(planning, expected_planning))
        self._passes += 1
        if self._passes % LEARNING_PASSES:
            return False
        self._correct()
        return True

    def _correct(self) -> None:
        times = (factor * seconds for factor, seconds in zip(self.factors, self.curve.seconds, strict=False))
        self._corrected = replace(self.curve, seconds=tuple(accumulate(times, max)))


def _step(seconds: float, expected: float) -> float:
    return min(max(LEARNING_RATE * log(max(seconds, 1e-9) / expected), -MAX_LEARNED), MAX_LEARNED)


class AddedCost:
    """What nodes cost that are added to one pass, per query."""

    def __init__(self, seconds: Sequence[float], negligible: float) -> None:
        """Take the seconds of 0, 1, ... added nodes, and those that are too few to be measured."""
        self.seconds, self.negligible = seconds, negligible
        self.corners: list[int] = []  # corners of the lower convex hull of these points; the first is 0
        for added in range(len(seconds)):
            while len(self.corners) > 1 and self._slope(*self.corners[-2:]) >= self._slope(self.corners[-1], added):
                self.corners.pop()
            self.corners.append(added)

    def _slope(self, start: int, end: int) -> float:
        return (self.seconds[end] - self.seconds[start]) / (end - start)

    @property
    def cheapest_node(self) -> float:
        """Seconds of the cheapest node; 0 if even the largest number of nodes costs next to nothing."""
        is_free = len(self.corners) < 2 or self.seconds[-1] <= FREE_COST * self.negligible
        return 0.0 if is_free else self._slope(0, self.corners[1])


class NodeChoice:
    """Finds the number of nodes, `best`, with the largest gain.

    Of sizes whose gains differ negligibly it is the largest: the probabilities of unlikely nodes are too small, because
    a node that is requested later saves time, too.
    """

    def __init__(self, cost: AddedCost, value: float) -> None:
        """Start without nodes; `value` is that of a requested node in seconds."""
        self._cost, self._value, self._gain = cost, value, MIN_GAIN * value
        self.best = self._count = 0
        self._saved = 0.0

    def add(self, probability: float) -> bool:
        """Add the next node; returns whether there is room for another one."""
        self._saved += self._value * probability
        self._count += 1
        now = self._saved - self._cost.seconds[self._count]
        if now > self._gain:
            self._gain, self.best = now, self._count
        elif self.best and now > self._gain - self._cost.negligible:
            self.best = self._count
        return self._count + 1 < len(self._cost.seconds)


class DraftPlanner:
    """Decides how much to draft in one run, which affects speed, never the output."""

    @classmethod
    def for_drafter(cls, drafter: Drafter, cost: CostCurve, history: DraftHistory | None = None) -> DraftPlanner:
        """Return a planner for a run with this drafter, which continues a history and adds to it."""
        call_seconds = COMPILED_CALL if isinstance(drafter, Copy | Mixed) else PYTHON_CALL
        rates = drafter.accept_rates if isinstance(drafter, Mixed) else DEFAULT_ACCEPT_RATES
        return cls(cost, accept_rates=rates, call_seconds=call_seconds, history=history)

    def __init__(
        self,
        cost: CostCurve,  # seconds of a forward pass by its number of nodes
        *,
        accept_rates: Sequence[float] = DEFAULT_ACCEPT_RATES,  # prior, by the class of the drafter's probability
        call_seconds: float = COMPILED_CALL,  # time of one proposed node
        history: DraftHistory | None = None,
    ) -> None:
        """Start a run."""
        self.curve, self.call_seconds, self.history = cost, call_seconds, history or DraftHistory()
        self.seconds_of_pass = PassCosts(cost, self.history.factors)
        self.priors = (*accept_rates, *PRIOR_BY_POSITION)
        self._before = past = self.history.copy()
        self.acceptance = AcceptanceRecord(self.priors, past)
        self._net_gain, self._pause, self._pause_left = past.net_gain, past.pause, past.pause_left
        self._value_share, self._spent, self._needed = past.value_share, 0.0, 0.0
        self._drafts, self._queries, self._requested = False, 1, 0
        self._idle, self._idle_left = 0, 0  # planned passes in a row without drafts; passes not planned therefore
        self._has_added = False  # since the history was stored
        self._costs: dict[tuple[int, int, int], AddedCost] = {}
        self.value = 0.0  # value of a requested node, in seconds
        self.min_probability = 0.0  # least probability of a node that may pay off
        self.cost = AddedCost((0.0,), 0.0)  # cost of nodes added to this pass

    # Only the Python loop uses what follows; the compiled one has its own ---------------------------

    def begin_pass(self, requested: int, queries: int, hypotheses: int, *, budget: int) -> bool:
        """Return whether to draft in the next pass, given its requested nodes, queries and hypotheses."""
        self._queries, self._requested = queries, requested
        standard = self.seconds_of_pass(hypotheses) / hypotheses
        if not self._needed:
            self._needed = PRIOR_NODES * hypotheses
            self._spent = self._needed * self._value_share * standard
        self.value = self._spent / self._needed
        self._value_share = self.value / standard
        self._drafts = self._pause_left <= 0 and self._idle_left <= 0
        if not self._drafts:
            self._pause_left, self._idle_left = self._pause_left - (self._pause_left > 0), self._idle_left - 1
            return False
        self.acceptance.update_rates()
        self.cost = self._added_cost(requested, budget)
        self.min_probability = MIN_WORTH * self.cost.cheapest_node / self.value
        return True

    def choose(self, probabilities: Sequence[float]) -> int:
        """Return how many nodes to add, given the probabilities of those that could be, the first ones first."""
        choice = NodeChoice(self.cost, self.value)
        for probability in probabilities[: len(self.cost.seconds) - 1]:
            choice.add(probability)
        return choice.best

    def record_pass(
        self,
        *,
        computed: int,
        needed: int,
        proposed: int,
        tokens: int,
        waiting: int,
        seconds: float,
        planning_seconds: float,
    ) -> None:
        """Record a pass.

        Args:
            computed: number of nodes in it.
            needed: nodes that were requested for the first time after it.
            proposed: calls of the drafter before it.
            tokens: growth of the longest hypothesis of each query, summed.
            waiting: prefixes that were requested before it, with or without scores.
            seconds: time that it took.
            planning_seconds: time that planning took before it.
        """
        planning = self.seconds_of_pass.planning(proposed, self.call_seconds) if self._drafts else 0.0
        if self.seconds_of_pass.add_times(computed, seconds, planning_seconds, planning):
            self._costs.clear()
        spent = self.seconds_of_pass(computed) + planning
        self._spent = EMA_DECAY * self._spent + spent
        self._needed = EMA_DECAY * self._needed + needed
        if not self._drafts:
            return
        self._idle = 0 if computed > self._requested else self._idle + 1
        self._has_added |= computed > self._requested
        self._idle_left = self._idle if self._idle >= MAX_IDLE else 0
        records = RECORD_SECONDS * self._queries if computed > self._requested else 0.0
        gain = tokens / self._queries - (spent + records) / self.seconds_of_pass(waiting)
        self._net_gain = EMA_DECAY * self._net_gain + gain
        if self._net_gain < -MAX_LOSS:
            self._net_gain, self._pause_left = 0.0, self._pause
            self._pause = min(PAUSE_GROWTH * self._pause, MAX_PAUSE)
        elif self._net_gain > MAX_LOSS:
            self._pause = FIRST_PAUSE

    def store_history(self) -> None:
        """Add what this run has learned since the last call to its history."""
        record = self.acceptance
        idle, self._has_added = float(not self._has_added), False
        numbers = self._net_gain, self._pause, self._pause_left, self._value_share, idle
        factors = self.seconds_of_pass.factors[:]
        before, self._before = self._before, DraftHistory(*numbers, record.hits[:], record.tries[:], factors)
        self.history.add_run(before, self._before)

    def _added_cost(self, requested: int, budget: int) -> AddedCost:
        key, queries = (requested, self._queries, budget), self._queries
        if key not in self._costs:
            plain = self.seconds_of_pass(requested)
            sizes = (requested + queries * added for added in range(budget + 1))
            seconds = [(self.seconds_of_pass(size) - plain) / queries for size in sizes]
            self._costs[key] = AddedCost(seconds, NEGLIGIBLE * plain / queries)
        return self._costs[key]
