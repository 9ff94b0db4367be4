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
from chemspec.draft.calibration import DEFAULT_ACCEPT_RATES
from chemspec.draft.copy import Copy
from chemspec.draft.mixed import Mixed
from chemspec.draft.tree.builder import MIN_PROBABILITY, PROBES, TreeLimits
from chemspec.draft.tree.edit_ngrams import probability_class
from chemspec.types import Draft

if TYPE_CHECKING:
    from chemspec.model.cost import CostCurve

MAX_NODES = 64  # maximum number of nodes that drafts without a look-ahead add after one prefix
PASS_SECONDS, NODE_SECONDS = 5e-6, 2e-7  # overhead of the compiled loop per forward pass and per node
DRAFT_SECONDS = 1.2e-5  # its overhead of drafting per forward pass, without the drafter's calls
COMPILED_CALL, PYTHON_CALL = 2e-6, 5e-5  # seconds of one `propose` call
MIN_GAIN = 1.1  # minimum speed-up if all drafted tokens were accepted
MIN_BEAM_GAIN = 0.05  # the same for a beam, as a share of the cost of a token
EXPECTED_LENGTH = 8  # assumed draft length when deciding before drafting
TESTED_SIZES = (1, 3)  # draft sizes tested for MIN_GAIN: two, because a cost curve may be steep at the start
# Prior acceptance rates: of the first token of the first, second, third and later drafts; of all later tokens.
PRIOR_BY_POSITION = (0.6, 0.25, 0.15, 0.05, 0.8)
# Prior probability that a level is complete, by the class of its guesses' joint probability (500 beams of `retro`).
LEVEL_PRIOR = (0.08, 0.14, 0.18, 0.26, 0.42, 0.5, 0.6, 0.72, 0.83, 0.88, 0.88)
REQUESTED_SHARE = 0.85  # share of an incomplete level's nodes that are requested later
SHARE_DECAY = 0.95  # factor of that share per further level
START_SHARE = 0.4  # value of a token in a beam's first pass, as a share of that pass; no level can be complete there
MIN_LOOK_AHEAD_GAIN = 0.03  # minimum gain of a look-ahead in tokens, because cost curves are inexact
PATIENCE = 2  # consecutive levels without gain after which a look-ahead ends
MIN_LEVEL_PROBABILITY = 0.01
PRIOR_PASSES, PRIOR_SHARE = 10.0, 0.8  # weight of the prior for a token's cost, and the prior, in undrafted passes
EMA_DECAY = 0.98  # weight of the past in exponential moving averages, per forward pass
MAX_LOSS = 2.0  # loss, in undrafted passes, at which drafting pauses
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


class DraftPlanner:
    """Decides how much to draft, from costs and acceptance rates of one run; affects speed, never the output."""

    @classmethod
    def for_drafter(cls, drafter: Drafter, cost: CostCurve) -> DraftPlanner:
        """Return a planner for a run with this drafter."""
        if isinstance(drafter, Mixed):
            return cls(cost, accept_rates=drafter.accept_rates)
        call_seconds = COMPILED_CALL if isinstance(drafter, Copy) else PYTHON_CALL
        return cls(cost, call_seconds=call_seconds, has_probabilities=False)

    def __init__(
        self,
        cost: CostCurve,  # seconds of a forward pass by its number of nodes
        *,
        accept_rates: Sequence[float] = DEFAULT_ACCEPT_RATES,  # prior, by the class of the drafter's probability
        call_seconds: float = COMPILED_CALL,  # time of one `propose` call
        has_probabilities: bool = True,  # whether the drafter returns token probabilities
    ) -> None:
        """Start a run; without token probabilities, average rates decide beforehand whether a look-ahead pays off."""
        self.cost, self.call_seconds, self.has_probabilities = cost, call_seconds, has_probabilities
        self.acceptance_by_probability = AcceptanceRecord(accept_rates, 100.0)
        self.acceptance_by_position = AcceptanceRecord(PRIOR_BY_POSITION, 10.0)
        self.level_completion = AcceptanceRecord(LEVEL_PRIOR, 30.0)
        self.token_seconds = 0.0  # average time per generated token of one query so far
        self._seconds_spent = self._tokens = 0.0
        self._net_savings, self._pause_length, self._pause_left = 0.0, 1, 0
        self._requested = self._waiting = self._queries = 1
        self._observed_paths: set[tuple[int, ...]] = set()

    def may_speed_up(self, hypotheses: int, queries: int = 1) -> bool:
        """Return whether drafts may speed up queries with this many hypotheses each, before the first forward pass.

        For a beam, all guesses of a level are assumed to be in the highest class. If that does not pay off by more than
        the error of a cost curve, it never will, because rates change only by drafting.
        """
        if hypotheses == 1:
            self._requested = queries
            return self.drafts_may_pay
        plain, drafted = (self.seconds_of_pass(count * queries) / queries for count in (hypotheses, 2 * hypotheses))
        extra, token_seconds = drafted - plain, PRIOR_SHARE * plain
        probability = self.level_completion.class_rate(len(LEVEL_PRIOR) - 1)
        gain = token_seconds * probability + extra * REQUESTED_SHARE * (1.0 - probability)
        return gain > extra + MIN_BEAM_GAIN * token_seconds + DRAFT_SECONDS / queries + hypotheses * self.call_seconds

    # Before a pass -----------------------------------------------------------------------------------

    def begin_pass(self, requested: int, queries: int, *, waiting: int, hypotheses: int) -> bool:
        """Record the load of the next forward pass; returns whether to draft at all.

        The load is the numbers of nodes without drafts, of queries, of requested prefixes, including those with known
        scores, and of hypotheses of all decoders together.
        """
        self._requested, self._queries, self._waiting = requested, queries, waiting
        self._observed_paths.clear()
        if not self._tokens:
            self._tokens = PRIOR_PASSES * queries
            self._seconds_spent = PRIOR_PASSES * PRIOR_SHARE * self.seconds_of_pass(hypotheses)
        self.token_seconds = self._seconds_spent / self._tokens
        if self._pause_left:
            self._pause_left -= 1
            return False
        return True

    def seconds_of_pass(self, nodes: int) -> float:
        """Return the seconds of a forward pass with this number of nodes, overhead of the loop included."""
        return _seconds_of_pass(self.cost, nodes)

    def _extra_seconds(self, nodes: int) -> float:
        """Return the added seconds per query if every query adds this number of drafted nodes."""
        drafted = self.seconds_of_pass(self._requested + self._queries * nodes)
        return (drafted - self.seconds_of_pass(self._requested)) / self._queries

    @property
    def pass_seconds(self) -> Sequence[float]:
        """Seconds of this forward pass if 0, 1, 2, ... nodes are added after every requested prefix."""
        return _tabulated_seconds(self.cost, self._requested)

    def look_ahead_pays(self, guesses: int) -> bool:
        """Return whether a look-ahead may pay off if its first level needs this number of guesses, at best."""
        rate = 1.0 if self.has_probabilities else self.acceptance_by_position.class_rate(0)
        probability = self.level_completion.class_rate(probability_class(prod([rate] * guesses)))
        extra = self._extra_seconds(guesses)
        gain = self.token_seconds * probability + extra * REQUESTED_SHARE * (1.0 - probability)
        margin = (MIN_GAIN - 1.0) * self.token_seconds if self.has_probabilities else 0.0
        return gain > extra + margin + DRAFT_SECONDS + guesses * self.call_seconds

    @property
    def drafts_may_pay(self) -> bool:
        """Whether drafts without a look-ahead may pay off: at best, or by average rates without token probabilities."""
        sums = self.pass_seconds
        if self.has_probabilities:
            return any((1 + nodes) * sums[0] > MIN_GAIN * sums[nodes] for nodes in TESTED_SIZES)
        tokens, probability = 1.0, self.acceptance_by_position.class_rate(0)
        for nodes in range(1, EXPECTED_LENGTH + 1):
            tokens += probability
            if tokens * sums[0] > sums[nodes] + self._requested * self.call_seconds:
                return True
            probability *= self.acceptance_by_position.class_rate(4)
        return False

    def tree_limits(self, limits: TreeLimits) -> TreeLimits:
        """Return the limits of the draft tree after each requested prefix."""
        sums = self.pass_seconds
        slopes = [(sums[b] - sums[a]) / (b - a) for a, b in pairwise((0, *PROBES))]
        return limits._replace(
            max_nodes=MAX_NODES,
            min_probability=max(MIN_PROBABILITY, min(slopes) / sums[0]),
            accept_rates=self.acceptance_by_probability.class_rates,
            pass_seconds=sums,
        )

    def guess_limits(self, limits: TreeLimits) -> TreeLimits:
        """Return the limits of a tree of which only the most probable token is used, by a look-ahead."""
        return limits._replace(max_nodes=1, accept_rates=self.acceptance_by_probability.class_rates)

    def token_probability(self, draft: Draft, rank: int, index: int) -> float:
        """Return the acceptance probability of a draft's token, given that those before it are accepted."""
        if draft.chances:
            return self.acceptance_by_probability.class_rate(probability_class(draft.chances[index]))
        return self.acceptance_by_position.class_rate(min(rank, 3) if index == 0 else 4)

    # After a pass ------------------------------------------------------------------------------------

    def observe_draft(self, draft: Draft, rank: int, accepted: int) -> None:
        """Record that the first `accepted` tokens of a draft were accepted and the next one, if any, was rejected."""
        for index in range(min(accepted + 1, len(draft.tokens))):
            path = draft.tokens[: index + 1]
            if path in self._observed_paths:  # paths of a tree share prefixes
                continue
            self._observed_paths.add(path)
            self.acceptance_by_position.add_outcome(min(rank, 3) if index == 0 else 4, index < accepted)
            if draft.chances:
                self.acceptance_by_probability.add_outcome(probability_class(draft.chances[index]), index < accepted)

    def record_pass(self, computed: int, tokens: int, calls: int) -> None:
        """Record nodes, generated tokens and `propose` calls of a pass; losses make drafting pause, ever longer."""
        spent = self.seconds_of_pass(computed) + (DRAFT_SECONDS + calls * self.call_seconds if calls else 0.0)
        self._seconds_spent = EMA_DECAY * self._seconds_spent + spent
        self._tokens = EMA_DECAY * self._tokens + tokens
        standard = self.seconds_of_pass(self._waiting)
        self._net_savings = EMA_DECAY * self._net_savings + tokens * standard / self._queries - spent
        if self._net_savings < -MAX_LOSS * standard:
            self._net_savings, self._pause_left = 0.0, self._pause_length
            self._pause_length = min(2 * self._pause_length, LONGEST_PAUSE)
        elif self._net_savings > MAX_LOSS * standard:
            self._pause_length = 1


def _seconds_of_pass(cost: CostCurve, nodes: int) -> float:
    return cost(nodes) + PASS_SECONDS + NODE_SECONDS * nodes


@lru_cache(maxsize=256)
def _tabulated_seconds(cost: CostCurve, requested: int) -> Sequence[float]:
    """Return the seconds of a pass with 0, 1, 2, ... drafted nodes per requested prefix; the same for all runs."""
    return array("d", [_seconds_of_pass(cost, requested + requested * n) for n in range(MAX_NODES + PROBES[-1] + 1)])


class LookAheadPlan:
    """Decides how many nodes of a look-ahead pay off; nodes are added one by one."""

    def __init__(self, planner: DraftPlanner, depth: int, budget: int, *, first_pass: bool = False) -> None:
        """Start at the requested prefixes, which have `depth` tokens, with a maximum number of nodes.

        `first_pass`: whether it is the first pass of a beam, whose only prefix is bos.
        """
        self.best = 0  # number of nodes with the largest gain so far
        self.level_classes: dict[int, int] = {}  # length of a level's prefixes -> class of the level's probability
        self._planner, self._depth, self._budget = planner, depth, budget
        self._start = depth
        self._joint_probability = 1.0  # joint probability of the guesses since the previous level
        self._probability = self._previous_probability = 1.0  # that this and the previous level is complete
        self._nodes = self._level_nodes = self._steps = 0
        self._saved_seconds = 0.0  # by complete levels, expected
        self._requested_later = 0.0  # expected number of nodes of incomplete levels that are requested later
        first_token_value = START_SHARE * planner.seconds_of_pass(planner._requested) / planner._queries
        self._token_value = first_token_value if first_pass else planner.token_seconds  # of a token, in seconds
        self._best_gain = MIN_LOOK_AHEAD_GAIN * self._token_value
        self._requested_share, self._levels_without_gain, self._level_gained = REQUESTED_SHARE, 0, False

    def add_guess(self, probability: float) -> None:
        """Add the probability of a guessed token; 0 if there is no guess."""
        self._joint_probability *= probability

    def add_node(self, depth: int) -> bool:
        """Add a node with a prefix of `depth` tokens; returns whether to continue."""
        if depth > self._depth and not self._open_level(depth):
            return False
        if self._nodes == self._budget:
            return False
        self._nodes += 1
        self._level_nodes += 1
        self._requested_later += self._requested_share * (1.0 - self._probability)
        self._update_best(self._requested_share * self._probability * self._level_nodes)
        return True

    def close_last_level(self) -> None:
        """End the plan when the look-ahead has no more nodes."""
        if self._depth != self._start:
            self._close_level()

    def _open_level(self, depth: int) -> bool:
        self.close_last_level()
        if self._levels_without_gain == PATIENCE:
            return False
        kind = probability_class(self._joint_probability)
        self.level_classes[depth] = kind
        self._probability = self._previous_probability * self._planner.level_completion.class_rate(kind)
        call_seconds = self._level_nodes * self._planner.call_seconds
        self._joint_probability, self._level_nodes, self._level_gained = 1.0, 0, False
        self._steps, self._depth = depth - self._depth, depth
        return self._probability >= MIN_LEVEL_PROBABILITY and self._probability * self._token_value > call_seconds

    def _close_level(self) -> None:
        self._saved_seconds += self._token_value * self._probability * self._steps
        self._update_best(0.0)
        self._previous_probability = self._probability
        self._requested_share *= SHARE_DECAY
        self._levels_without_gain = 0 if self._level_gained else self._levels_without_gain + 1

    def _update_best(self, requested_later: float) -> None:
        """Update `best`; `requested_later`: expected number of nodes of the current level, if it is incomplete."""
        extra = self._planner._extra_seconds(self._nodes)
        gain = self._saved_seconds + extra / self._nodes * (self._requested_later + requested_later) - extra
        if gain > self._best_gain:
            self.best, self._best_gain, self._level_gained = self._nodes, gain, True
