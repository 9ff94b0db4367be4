"""Plan how many drafted nodes are worth their time in the next pass, for every drafter.

Without a look-ahead this is the wall-time model of Leviathan et al. (2023), used by Xia et al. and Tulsian et al., with
a measured cost curve t in place of a constant ratio: a pass of n + b nodes takes t(n + b) and yields 1 + sum of p_i
tokens, p_i being the probability that drafted node i is accepted. Nodes are taken in order of p_i, as many as make
tokens per second largest.

A beam goes on only when all its hypotheses are known. So its look-ahead is planned by levels: the nodes of one further
token of all hypotheses. A level that is complete is worth the time of a token so far; a node of one that is not is
still requested mostly, and then saves the price of a node. As many nodes are taken as make the sum of both, less what
they add to the pass, largest.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import pairwise
from typing import Protocol

from chemspec.draft.base import Drafter
from chemspec.draft.calibration import BY_CHANCE
from chemspec.draft.copy import Copy
from chemspec.draft.mixed import Mixed
from chemspec.draft.tree.builder import MIN_CHANCE, PROBES, TreeLimits
from chemspec.draft.tree.edit_ngrams import chance_class
from chemspec.draft.windows import Windows
from chemspec.types import Draft

NODES = 64  # that drafts without a look-ahead may add after one prefix
PASS_SECONDS, NODE_SECONDS = 5e-6, 2e-7  # of the compiled loop's own work, beside the model's
DRAFT_SECONDS = 1.2e-5  # of its work in a pass that drafts, without what the drafter takes for each prefix
COMPILED_CALL, PYTHON_CALL = 2e-6, 5e-5  # seconds of asking a drafter about one prefix
MIN_GAIN = 1.1  # the speed-up that drafts must promise if all were accepted
EXPECTED = 8  # tokens of a draft that is judged before it is made
CERTAIN = (1, 3)  # sizes of a draft of which this is asked: two, for a curve may be steep at first
# Shares of first tokens accepted, of the first, second, third and of further drafts; and of later tokens.
BY_PLACE = (0.6, 0.25, 0.15, 0.05, 0.8)
# How often a level is complete, by the class of the product of its guesses' probabilities (500 beams of `retro`).
BY_LEVEL = (0.08, 0.14, 0.18, 0.26, 0.42, 0.5, 0.6, 0.72, 0.83, 0.88, 0.88)
STILL_RIGHT, DEEPER = 0.85, 0.95  # the share of a level's nodes that are requested though it is not complete
START_SHARE = 0.4  # of the first pass of a beam: the worth of a token of its likeliest path, which no level completes
MIN_WORTH = 0.03  # of a token: what a look-ahead must promise, since no curve is exact
PATIENCE = 2  # levels that bring nothing, after which a look-ahead ends
MIN_LEVEL_CHANCE = 0.01
PRIOR_PASSES, PRIOR_SHARE = 10.0, 0.8  # at first a token is taken to cost this share of a pass without drafts
MEMORY = 0.98  # weight of what was before the last pass
LOSS = 2.0  # passes' time that drafts may lose before they pause
LONGEST_PAUSE = 32  # passes


class Curve(Protocol):
    """Seconds of a pass by its nodes: straight lines between points, as `chemspec.model.cost.CostCurve`."""

    @property
    def nodes(self) -> tuple[int, ...]:
        """Sizes, rising."""

    @property
    def seconds(self) -> tuple[float, ...]:
        """The time of each."""

    def __call__(self, count: float) -> float:
        """Return the seconds of a pass with so many nodes."""


class AcceptanceRecord:
    """Acceptance rates by class; they begin as if `weight` guesses of each had been judged."""

    def __init__(self, rates: Sequence[float], weight: float) -> None:
        self.hits = [rate * weight for rate in rates]
        self.tries = [weight] * len(self.hits)

    @property
    def chances(self) -> tuple[float, ...]:
        """The acceptance rate of every class."""
        return tuple(hits / tries for hits, tries in zip(self.hits, self.tries, strict=True))

    def chance(self, kind: int) -> float:
        """Return the acceptance rate of a class."""
        return self.hits[kind] / self.tries[kind]

    def add(self, kind: int, hit: bool) -> None:
        """Count one guess of a class."""
        self.hits[kind] += hit
        self.tries[kind] += 1


class Planner:
    """What is known of costs and acceptance in one run of the loop; it changes the number of passes, never an answer.

    Attributes:
        token_seconds: what a token of one query has cost so far.
    """

    @classmethod
    def of(cls, drafter: Drafter, cost: Curve) -> Planner:
        """Return a planner for a run with this drafter."""
        if isinstance(drafter, Mixed):
            return cls(cost, accept_rates=drafter.accept_rates)
        in_compiled_code = isinstance(drafter, Copy | Windows)
        return cls(cost, call_seconds=COMPILED_CALL if in_compiled_code else PYTHON_CALL, foresees=False)

    def __init__(
        self,
        cost: Curve,
        *,
        accept_rates: Sequence[float] = BY_CHANCE,
        call_seconds: float = COMPILED_CALL,
        foresees: bool = True,
    ) -> None:
        """Start a run.

        Args:
            cost: seconds of a pass by its nodes.
            accept_rates: the share accepted of drafted tokens by the class of the probability that their drafter gave.
            call_seconds: of asking the drafter about one prefix.
            foresees: whether the drafter gives a probability with every token; of one that does not, the planner knows
                before asking whether a look-ahead pays.
        """
        self.cost, self.call_seconds, self.foresees = cost, call_seconds, foresees
        self.by_chance = AcceptanceRecord(accept_rates, 100.0)
        self.by_place = AcceptanceRecord(BY_PLACE, 10.0)
        self.by_level = AcceptanceRecord(BY_LEVEL, 30.0)
        self.token_seconds = 0.0
        self._seconds_spent = self._tokens = 0.0
        self._balance, self._pause, self._paused = 0.0, 1, 0
        self._asked = self._waiting = self._queries = 1
        self._sums: dict[int, Sequence[float]] = {}
        self._judged: set[tuple[int, ...]] = set()

    def may_gain(self, width: int) -> bool:
        """Return whether drafts may make a query faster that keeps so many hypotheses; asked before the first pass.

        Of a beam, if every guess of a level is as sure as can be. Where they cannot, they never will, since rates
        change by drafting alone; so asking for drafts and planning them would only cost time.
        """
        if width == 1:
            return self.drafts_may_pay
        chance, extra = self.by_level.chance(len(BY_LEVEL) - 1), self.seconds(2 * width) - self.seconds(width)
        gain = PRIOR_SHARE * self.seconds(width) * chance + extra * STILL_RIGHT * (1.0 - chance)
        return gain > extra + DRAFT_SECONDS + width * self.call_seconds

    # Before a pass -----------------------------------------------------------------------------------

    def begin_pass(self, asked: int, queries: int, *, waiting: int, width: int) -> bool:
        """Take note of the load of the next pass; returns whether to ask the drafter at all.

        Args:
            asked: nodes that it computes anyway.
            queries: their number.
            waiting: prefixes that the decoders wait for, those with known scores among them.
            width: hypotheses that the decoders keep, all together.
        """
        self._asked, self._queries, self._waiting = asked, queries, waiting
        self._judged.clear()
        if not self._tokens:
            self._tokens = PRIOR_PASSES * queries
            self._seconds_spent = PRIOR_PASSES * PRIOR_SHARE * self.seconds(width)
        self.token_seconds = self._seconds_spent / self._tokens
        if self._paused:
            self._paused -= 1
            return False
        return True

    def seconds(self, nodes: int) -> float:
        """Return the seconds of a pass of so many nodes, the loop's own work included."""
        return self.cost(nodes) + PASS_SECONDS + NODE_SECONDS * nodes

    def extra_seconds(self, nodes: int) -> float:
        """Return the seconds of this pass that are due to so many drafted nodes of a query, if all add as many."""
        return (self.seconds(self._asked + self._queries * nodes) - self.seconds(self._asked)) / self._queries

    @property
    def start_seconds(self) -> float:
        """What a token of a query is worth in the first pass of a beam."""
        return START_SHARE * self.seconds(self._asked) / self._queries

    @property
    def pass_seconds(self) -> Sequence[float]:
        """The seconds of this pass if 0, 1, 2, ... nodes are added after every prefix that is asked about."""
        asked = self._asked
        if asked not in self._sums:
            self._sums[asked] = array("d", [self.seconds(asked + asked * n) for n in range(NODES + PROBES[-1] + 1)])
        return self._sums[asked]

    def look_ahead_pays(self, guesses: int) -> bool:
        """Return whether a look-ahead may pay with so many guesses at first, these being as good as can be hoped."""
        rate = 1.0 if self.foresees else self.by_place.chance(0)
        chance = self.by_level.chance(chance_class(_power(rate, guesses)))
        extra = self.extra_seconds(guesses)
        gain = self.token_seconds * chance + extra * STILL_RIGHT * (1.0 - chance)
        margin = (MIN_GAIN - 1.0) * self.token_seconds if self.foresees else 0.0
        return gain > extra + margin + DRAFT_SECONDS + guesses * self.call_seconds

    @property
    def drafts_may_pay(self) -> bool:
        """Whether drafts without a look-ahead may pay: if all are accepted, or by the rate where there is but that."""
        sums = self.pass_seconds
        if self.foresees:
            return any((1 + nodes) * sums[0] > MIN_GAIN * sums[nodes] for nodes in CERTAIN)
        tokens, chance = 1.0, self.by_place.chance(0)
        for nodes in range(1, EXPECTED + 1):
            tokens += chance
            if tokens * sums[0] > sums[nodes] + self._asked * self.call_seconds:
                return True
            chance *= self.by_place.chance(4)
        return False

    def tree_limits(self, limits: TreeLimits) -> TreeLimits:
        """Return how far a tree may grow after each prefix that is asked about."""
        sums = self.pass_seconds
        slopes = [(sums[b] - sums[a]) / (b - a) for a, b in pairwise((0, *PROBES))]
        return limits._replace(
            max_nodes=NODES,
            min_chance=max(MIN_CHANCE, min(slopes) / sums[0]),
            accept_rates=self.by_chance.chances,
            pass_seconds=sums,
        )

    def guess_limits(self, limits: TreeLimits) -> TreeLimits:
        """Return the limits of a tree of which a look-ahead takes the likeliest token."""
        return limits._replace(max_nodes=1, accept_rates=self.by_chance.chances)

    def chance(self, draft: Draft, rank: int, index: int) -> float:
        """Return how likely a token of a draft is, given those before it.

        Args:
            draft: what was proposed.
            rank: its number among the drafts after the same prefix.
            index: of the token.
        """
        if draft.chances:
            return self.by_chance.chance(chance_class(draft.chances[index]))
        return self.by_place.chance(min(rank, 3) if index == 0 else 4)

    # After it ----------------------------------------------------------------------------------------

    def observe(self, draft: Draft, rank: int, accepted: int) -> None:
        """Learn that the first `accepted` tokens of a draft were right, and the next, if there is one, was not."""
        for index in range(min(accepted + 1, len(draft.tokens))):
            path = draft.tokens[: index + 1]
            if path in self._judged:  # paths of a tree have beginnings in common
                continue
            self._judged.add(path)
            self.by_place.add(min(rank, 3) if index == 0 else 4, index < accepted)
            if draft.chances:
                self.by_chance.add(chance_class(draft.chances[index]), index < accepted)

    def end_pass(self, computed: int, tokens: int, calls: int) -> None:
        """Take note of what a pass cost and brought; where drafts lose, they pause for ever more passes.

        Args:
            computed: its nodes.
            tokens: steps of all decoders.
            calls: prefixes about which the drafter was asked.
        """
        spent = self.seconds(computed) + (DRAFT_SECONDS + calls * self.call_seconds if calls else 0.0)
        self._seconds_spent = MEMORY * self._seconds_spent + spent
        self._tokens = MEMORY * self._tokens + tokens
        standard = self.seconds(self._waiting)
        self._balance = MEMORY * self._balance + tokens * standard / self._queries - spent
        if self._balance < -LOSS * standard:
            self._balance, self._paused = 0.0, self._pause
            self._pause = min(2 * self._pause, LONGEST_PAUSE)
        elif self._balance > LOSS * standard:
            self._pause = 1


def _power(rate: float, exponent: int) -> float:
    """Return a power as compiled code computes it, factor by factor."""
    power = 1.0
    for _ in range(exponent):
        power *= rate
    return power


class LookAheadPlan:
    """How many of the nodes that a look-ahead names are worth their time; they are told one by one.

    Attributes:
        best: the number so far.
        kinds: of every level, by the tokens of its prefixes: the class of its probability.
    """

    def __init__(self, planner: Planner, depth: int, budget: int, *, starts: bool = False) -> None:
        """Begin after the prefixes of so many tokens that the decoder waits for.

        Args:
            planner: of the run.
            depth: tokens of these prefixes.
            budget: most nodes.
            starts: whether a decoder of several hypotheses has but the first prefix.
        """
        self.best, self.kinds = 0, dict[int, int]()
        self._planner, self._depth, self._budget = planner, depth, budget
        self._start = depth
        self._product = 1.0  # of the probabilities guessed since the level before
        self._chance = self._reached = 1.0  # that this level, and the one before, is complete
        self._nodes = self._in_level = self._steps = 0
        self._value = self._useful = 0.0
        self._worth = planner.start_seconds if starts else planner.token_seconds
        self._best_value = MIN_WORTH * self._worth
        self._right, self._fruitless, self._gained = STILL_RIGHT, 0, False

    def guess(self, chance: float) -> None:
        """Take note of the probability of a guessed token; 0 where there is no guess."""
        self._product *= chance

    def add(self, depth: int) -> bool:
        """Take note of a further node, of so many tokens; returns whether to go on."""
        planner = self._planner
        if depth > self._depth and not self._open(depth):
            return False
        if self._nodes == self._budget:
            return False
        self._nodes += 1
        self._in_level += 1
        self._useful += self._right * (1.0 - self._chance)
        self._weigh(self._value, self._right * self._chance * self._in_level, planner.extra_seconds(self._nodes))
        return True

    def end(self) -> None:
        """Take note that there are no further nodes."""
        if self._depth != self._start:
            self._close()

    def _open(self, depth: int) -> bool:
        self.end()
        if self._fruitless == PATIENCE:
            return False
        kind = chance_class(self._product)
        self.kinds[depth] = kind
        self._chance = self._reached * self._planner.by_level.chance(kind)
        asking = self._in_level * self._planner.call_seconds
        self._product, self._in_level, self._gained = 1.0, 0, False
        self._steps, self._depth = depth - self._depth, depth
        return self._chance >= MIN_LEVEL_CHANCE and self._chance * self._worth > asking

    def _close(self) -> None:
        self._value += self._worth * self._chance * self._steps
        self._weigh(self._value, 0.0, self._planner.extra_seconds(self._nodes))
        self._reached = self._chance
        self._right *= DEEPER
        self._fruitless = 0 if self._gained else self._fruitless + 1

    def _weigh(self, value: float, useful: float, extra: float) -> None:
        """Compare what the nodes so far are worth with the best number of them."""
        value = value + extra / self._nodes * (self._useful + useful) - extra
        if value > self._best_value:
            self.best, self._best_value, self._gained = self._nodes, value, True
