"""Plan how many drafted nodes to add to the next forward pass, for every drafter.

Without a look-ahead this is the wall-time model of Leviathan et al. (2023) with a measured cost curve t: a forward pass
of n + b nodes takes t(n + b) and yields 1 + sum of p_i tokens, where p_i is the probability that drafted node i is
accepted. Nodes are added in order of p_i, up to the number that maximises tokens per second.

A beam advances only when all its hypotheses are scored. So its look-ahead is planned by levels: the nodes of one more
token of all hypotheses. A complete level saves the average time of a token so far; a node of an incomplete level is
likely to be requested later and then saves the cost of one node. The sum of both minus the added cost is maximised.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING

from chemspec.draft.base import Drafter
from chemspec.draft.calibration import BY_CHANCE
from chemspec.draft.copy import Copy
from chemspec.draft.mixed import Mixed
from chemspec.draft.tree.builder import MIN_CHANCE, PROBES, TreeLimits
from chemspec.draft.tree.edit_ngrams import chance_class
from chemspec.types import Draft

if TYPE_CHECKING:
    from chemspec.model.cost import CostCurve

NODES = 64  # maximum number of nodes that drafts without a look-ahead add after one prefix
PASS_SECONDS, NODE_SECONDS = 5e-6, 2e-7  # overhead of the compiled loop per forward pass and per node
DRAFT_SECONDS = 1.2e-5  # its overhead of drafting per forward pass, without the drafter's calls
COMPILED_CALL, PYTHON_CALL = 2e-6, 5e-5  # seconds of one `propose` call
MIN_GAIN = 1.1  # minimum speed-up if all drafted tokens were accepted
MIN_BEAM_GAIN = 0.05  # the same for a beam, as a share of the cost of a token
EXPECTED = 8  # assumed draft length when deciding before drafting
CERTAIN = (1, 3)  # draft sizes tested for MIN_GAIN: two, because a cost curve may be steep at the start
# Prior acceptance rates: of the first token of the first, second, third and later drafts; of all later tokens.
BY_PLACE = (0.6, 0.25, 0.15, 0.05, 0.8)
# Prior probability that a level is complete, by the class of its guesses' joint probability (500 beams of `retro`).
BY_LEVEL = (0.08, 0.14, 0.18, 0.26, 0.42, 0.5, 0.6, 0.72, 0.83, 0.88, 0.88)
STILL_RIGHT, DEEPER = 0.85, 0.95  # share of an incomplete level's nodes that are requested; its factor per level
START_SHARE = 0.4  # value of a token in a beam's first pass, as a share of that pass; no level can be complete there
MIN_WORTH = 0.03  # minimum gain of a look-ahead in tokens, because cost curves are inexact
PATIENCE = 2  # consecutive levels without gain after which a look-ahead ends
MIN_LEVEL_CHANCE = 0.01
PRIOR_PASSES, PRIOR_SHARE = 10.0, 0.8  # weight of the prior for a token's cost, and the prior, in undrafted passes
MEMORY = 0.98  # weight of the past in exponential moving averages, per forward pass
LOSS = 2.0  # loss, in undrafted passes, at which drafting pauses
LONGEST_PAUSE = 32  # forward passes


class AcceptanceRecord:
    """Running alpha by class: accepted / verified draft tokens, with a prior of `weight` pseudo-observations."""

    def __init__(self, rates: Sequence[float], weight: float) -> None:
        self.hits = [rate * weight for rate in rates]
        self.tries = [weight] * len(self.hits)

    @property
    def class_rates(self) -> tuple[float, ...]:
        """The alpha of all classes."""
        return tuple(hits / tries for hits, tries in zip(self.hits, self.tries, strict=True))

    def class_rate(self, kind: int) -> float:
        """Return the alpha of a class."""
        return self.hits[kind] / self.tries[kind]

    def add_outcome(self, kind: int, hit: bool) -> None:
        """Count one accepted or rejected token of a class."""
        self.hits[kind] += hit
        self.tries[kind] += 1


class Planner:
    """Decides how much to draft, from costs and acceptance rates of one run; affects speed, never the output."""

    @classmethod
    def for_drafter(cls, drafter: Drafter, cost: CostCurve) -> Planner:
        """Return a planner for a run with this drafter."""
        if isinstance(drafter, Mixed):
            return cls(cost, accept_rates=drafter.accept_rates)
        call_seconds = COMPILED_CALL if isinstance(drafter, Copy) else PYTHON_CALL
        return cls(cost, call_seconds=call_seconds, foresees=False)

    def __init__(
        self,
        cost: CostCurve,  # seconds of a forward pass by its number of nodes
        *,
        accept_rates: Sequence[float] = BY_CHANCE,  # prior acceptance rates by the class of the drafter's probability
        call_seconds: float = COMPILED_CALL,  # time of one `propose` call
        foresees: bool = True,  # whether the drafter returns token probabilities
    ) -> None:
        """Start a run; without token probabilities, average rates decide beforehand whether a look-ahead pays off."""
        self.cost, self.call_seconds, self.foresees = cost, call_seconds, foresees
        self.by_chance = AcceptanceRecord(accept_rates, 100.0)
        self.by_place = AcceptanceRecord(BY_PLACE, 10.0)
        self.by_level = AcceptanceRecord(BY_LEVEL, 30.0)
        self.token_seconds = 0.0  # average time per generated token of one query so far
        self._seconds_spent = self._tokens = 0.0
        self._balance, self._pause, self._paused = 0.0, 1, 0
        self._asked = self._waiting = self._queries = 1
        self._judged: set[tuple[int, ...]] = set()

    def may_speed_up(self, width: int, queries: int = 1) -> bool:
        """Return whether drafts may speed up queries with `width` hypotheses each, before the first forward pass.

        For a beam, all guesses of a level are assumed to be in the highest class. If that does not pay off by more than
        the error of a cost curve, it never will, because rates change only by drafting.
        """
        if width == 1:
            self._asked = queries
            return self.drafts_may_pay
        plain, drafted = (self.seconds_of_pass(count * queries) / queries for count in (width, 2 * width))
        chance, extra, token_seconds = self.by_level.class_rate(len(BY_LEVEL) - 1), drafted - plain, PRIOR_SHARE * plain
        gain = token_seconds * chance + extra * STILL_RIGHT * (1.0 - chance)
        return gain > extra + MIN_BEAM_GAIN * token_seconds + DRAFT_SECONDS / queries + width * self.call_seconds

    # Before a pass -----------------------------------------------------------------------------------

    def begin_pass(self, requested: int, queries: int, *, waiting: int, width: int) -> bool:
        """Record the load of the next forward pass; returns whether to draft at all.

        The load is the numbers of nodes without drafts, of queries, of requested prefixes, including those with known
        scores, and of hypotheses of all decoders together.
        """
        self._asked, self._queries, self._waiting = requested, queries, waiting
        self._judged.clear()
        if not self._tokens:
            self._tokens = PRIOR_PASSES * queries
            self._seconds_spent = PRIOR_PASSES * PRIOR_SHARE * self.seconds_of_pass(width)
        self.token_seconds = self._seconds_spent / self._tokens
        if self._paused:
            self._paused -= 1
            return False
        return True

    def seconds_of_pass(self, nodes: int) -> float:
        """Return the seconds of a forward pass with this number of nodes, overhead of the loop included."""
        return _seconds_of_pass(self.cost, nodes)

    def _extra_seconds(self, nodes: int) -> float:
        """Return the added seconds per query if every query adds this number of drafted nodes."""
        drafted = self.seconds_of_pass(self._asked + self._queries * nodes)
        return (drafted - self.seconds_of_pass(self._asked)) / self._queries

    @property
    def pass_seconds(self) -> Sequence[float]:
        """Seconds of this forward pass if 0, 1, 2, ... nodes are added after every requested prefix."""
        return _tabulated_seconds(self.cost, self._asked)

    def look_ahead_pays(self, guesses: int) -> bool:
        """Return whether a look-ahead may pay off if its first level needs this number of guesses, at best."""
        rate = 1.0 if self.foresees else self.by_place.class_rate(0)
        chance = self.by_level.class_rate(chance_class(prod([rate] * guesses)))
        extra = self._extra_seconds(guesses)
        gain = self.token_seconds * chance + extra * STILL_RIGHT * (1.0 - chance)
        margin = (MIN_GAIN - 1.0) * self.token_seconds if self.foresees else 0.0
        return gain > extra + margin + DRAFT_SECONDS + guesses * self.call_seconds

    @property
    def drafts_may_pay(self) -> bool:
        """Whether drafts without a look-ahead may pay off: at best, or by average rates without token probabilities."""
        sums = self.pass_seconds
        if self.foresees:
            return any((1 + nodes) * sums[0] > MIN_GAIN * sums[nodes] for nodes in CERTAIN)
        tokens, chance = 1.0, self.by_place.class_rate(0)
        for nodes in range(1, EXPECTED + 1):
            tokens += chance
            if tokens * sums[0] > sums[nodes] + self._asked * self.call_seconds:
                return True
            chance *= self.by_place.class_rate(4)
        return False

    def tree_limits(self, limits: TreeLimits) -> TreeLimits:
        """Return the limits of the draft tree after each requested prefix."""
        sums = self.pass_seconds
        slopes = [(sums[b] - sums[a]) / (b - a) for a, b in pairwise((0, *PROBES))]
        return limits._replace(
            max_nodes=NODES,
            min_chance=max(MIN_CHANCE, min(slopes) / sums[0]),
            accept_rates=self.by_chance.class_rates,
            pass_seconds=sums,
        )

    def guess_limits(self, limits: TreeLimits) -> TreeLimits:
        """Return the limits of a tree of which only the most probable token is used, by a look-ahead."""
        return limits._replace(max_nodes=1, accept_rates=self.by_chance.class_rates)

    def token_probability(self, draft: Draft, rank: int, index: int) -> float:
        """Return the acceptance probability of a draft's token, given that those before it are accepted."""
        if draft.chances:
            return self.by_chance.class_rate(chance_class(draft.chances[index]))
        return self.by_place.class_rate(min(rank, 3) if index == 0 else 4)

    # After a pass ------------------------------------------------------------------------------------

    def observe_draft(self, draft: Draft, rank: int, accepted: int) -> None:
        """Record that the first `accepted` tokens of a draft were accepted and the next one, if any, was rejected."""
        for index in range(min(accepted + 1, len(draft.tokens))):
            path = draft.tokens[: index + 1]
            if path in self._judged:  # paths of a tree share prefixes
                continue
            self._judged.add(path)
            self.by_place.add_outcome(min(rank, 3) if index == 0 else 4, index < accepted)
            if draft.chances:
                self.by_chance.add_outcome(chance_class(draft.chances[index]), index < accepted)

    def record_pass(self, computed: int, tokens: int, calls: int) -> None:
        """Record nodes, generated tokens and `propose` calls of a pass; losses make drafting pause, ever longer."""
        spent = self.seconds_of_pass(computed) + (DRAFT_SECONDS + calls * self.call_seconds if calls else 0.0)
        self._seconds_spent = MEMORY * self._seconds_spent + spent
        self._tokens = MEMORY * self._tokens + tokens
        standard = self.seconds_of_pass(self._waiting)
        self._balance = MEMORY * self._balance + tokens * standard / self._queries - spent
        if self._balance < -LOSS * standard:
            self._balance, self._paused = 0.0, self._pause
            self._pause = min(2 * self._pause, LONGEST_PAUSE)
        elif self._balance > LOSS * standard:
            self._pause = 1


def _seconds_of_pass(cost: CostCurve, nodes: int) -> float:
    return cost(nodes) + PASS_SECONDS + NODE_SECONDS * nodes


@lru_cache(maxsize=256)
def _tabulated_seconds(cost: CostCurve, requested: int) -> Sequence[float]:
    """Return the seconds of a pass with 0, 1, 2, ... drafted nodes per requested prefix; the same for all runs."""
    return array("d", [_seconds_of_pass(cost, requested + requested * n) for n in range(NODES + PROBES[-1] + 1)])


class LookAheadPlan:
    """Decides how many nodes of a look-ahead pay off; nodes are added one by one."""

    def __init__(self, planner: Planner, depth: int, budget: int, *, starts: bool = False) -> None:
        """Start at the requested prefixes, which have `depth` tokens, with a maximum number of nodes.

        `starts` tells whether this is the first pass of a beam, whose only prefix is bos.
        """
        self.best = 0  # number of nodes
        self.kinds: dict[int, int] = {}  # length of a level's prefixes -> class of the level's probability
        self._planner, self._depth, self._budget = planner, depth, budget
        self._start = depth
        self._product = 1.0  # joint probability of the guesses since the previous level
        self._chance = self._reached = 1.0  # probability that this level, and the previous one, is complete
        self._nodes = self._in_level = self._steps = 0
        self._value = self._useful = 0.0
        start_worth = START_SHARE * planner.seconds_of_pass(planner._asked) / planner._queries
        self._worth = start_worth if starts else planner.token_seconds  # of a token, in seconds
        self._best_value = MIN_WORTH * self._worth
        self._right, self._fruitless, self._gained = STILL_RIGHT, 0, False

    def add_guess(self, chance: float) -> None:
        """Add the probability of a guessed token; 0 if there is no guess."""
        self._product *= chance

    def add_node(self, depth: int) -> bool:
        """Add a node with a prefix of `depth` tokens; returns whether to continue."""
        planner = self._planner
        if depth > self._depth and not self._open_level(depth):
            return False
        if self._nodes == self._budget:
            return False
        self._nodes += 1
        self._in_level += 1
        self._useful += self._right * (1.0 - self._chance)
        self._update_best(self._value, self._right * self._chance * self._in_level, planner._extra_seconds(self._nodes))
        return True

    def close_last_level(self) -> None:
        """End the plan when the look-ahead has no more nodes."""
        if self._depth != self._start:
            self._close_level()

    def _open_level(self, depth: int) -> bool:
        self.close_last_level()
        if self._fruitless == PATIENCE:
            return False
        kind = chance_class(self._product)
        self.kinds[depth] = kind
        self._chance = self._reached * self._planner.by_level.class_rate(kind)
        asking = self._in_level * self._planner.call_seconds
        self._product, self._in_level, self._gained = 1.0, 0, False
        self._steps, self._depth = depth - self._depth, depth
        return self._chance >= MIN_LEVEL_CHANCE and self._chance * self._worth > asking

    def _close_level(self) -> None:
        self._value += self._worth * self._chance * self._steps
        self._update_best(self._value, 0.0, self._planner._extra_seconds(self._nodes))
        self._reached = self._chance
        self._right *= DEEPER
        self._fruitless = 0 if self._gained else self._fruitless + 1

    def _update_best(self, value: float, useful: float, extra: float) -> None:
        """Update the best number of nodes with the value of the nodes so far."""
        value = value + extra / self._nodes * (self._useful + useful) - extra
        if value > self._best_value:
            self.best, self._best_value, self._gained = self._nodes, value, True
