"""Plan how many nodes drafts add to a forward pass, from what a pass costs and how many drafted tokens are accepted.

The compiled loop plans every node (`compiled/draft_planner.h`), from what a `DraftPlanner` describes. The Python loop
uses one draft length for all hypotheses, by the wall-time model of Leviathan et al. (2023).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from chemspec.draft.base import Drafter
from chemspec.draft.calibration import DEFAULT_ACCEPT_RATES
from chemspec.draft.copy import Copy
from chemspec.draft.learned.gamma import WIDER, AdaptiveGamma, draft_cost_ratio
from chemspec.draft.mixed import Mixed

if TYPE_CHECKING:
    from chemspec.model.cost import CostCurve

PASS_SECONDS, NODE_SECONDS = 5e-6, 2e-7  # overhead of the compiled loop per forward pass and per node
DRAFT_SECONDS = 1.2e-5  # its overhead of drafting per forward pass, without the drafter's calls
COMPILED_CALL, PYTHON_CALL = 2e-6, 5e-5  # seconds of one `propose` call
MIN_GAIN = 1.1  # minimum speed-up if all drafted tokens were accepted
MIN_BEAM_GAIN = 0.05  # the same for a beam, as a share of the cost of a token
TESTED_SIZES = (1, 3)  # draft sizes tested for MIN_GAIN: two, because a cost curve may be steep at the start
EXPECTED_LENGTH = 8  # assumed draft length when deciding before drafting
# Prior acceptance rates: of the first token of the first, second, third and later drafts; of all later tokens.
PRIOR_BY_POSITION = (0.6, 0.25, 0.15, 0.05, 0.8)
# Prior probability that a level is complete, by the class of its guesses' joint probability (500 beams of `retro`).
LEVEL_PRIOR = (0.08, 0.14, 0.18, 0.26, 0.42, 0.5, 0.6, 0.72, 0.83, 0.88, 0.88)
REQUESTED_SHARE = 0.85  # share of an incomplete level's nodes that are requested later
PRIOR_SHARE = 0.8  # prior for the cost of a token, in undrafted passes


class DraftPlanner:
    """Decides how much to draft in one run, which affects speed, never the output."""

    PRIOR_RATE = 0.85  # in the Python loop, prior probability that the next drafted token of all hypotheses is accepted

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
        self.cost, self.accept_rates = cost, tuple(accept_rates)
        self.call_seconds, self.has_probabilities = call_seconds, has_probabilities
        self._gamma = AdaptiveGamma(1.0, rate=self.PRIOR_RATE)  # the cost ratio is set before every forward pass

    def may_speed_up(self, hypotheses: int, queries: int = 1) -> bool:
        """Return whether drafts may speed up queries with this many hypotheses each, before the first forward pass.

        For a beam, all guesses of a level are assumed to be in the highest class. If that does not pay off by more than
        the error of a cost curve, it never will, because rates change only by drafting.
        """
        if hypotheses == 1:
            return self._may_extend(queries)
        plain, drafted = (self._seconds_of_pass(count * queries) / queries for count in (hypotheses, 2 * hypotheses))
        extra, token_seconds = drafted - plain, PRIOR_SHARE * plain
        gain = token_seconds * LEVEL_PRIOR[-1] + extra * REQUESTED_SHARE * (1.0 - LEVEL_PRIOR[-1])
        return gain > extra + MIN_BEAM_GAIN * token_seconds + DRAFT_SECONDS / queries + hypotheses * self.call_seconds

    def _may_extend(self, queries: int) -> bool:
        """Return whether drafts without a look-ahead may pay off, at best or, without probabilities, on average."""
        plain = self._seconds_of_pass(queries)
        if self.has_probabilities:
            return any((1 + n) * plain > MIN_GAIN * self._seconds_of_pass(queries * (1 + n)) for n in TESTED_SIZES)
        first, later = PRIOR_BY_POSITION[0], PRIOR_BY_POSITION[-1]
        tokens = 1.0
        for nodes in range(1, EXPECTED_LENGTH + 1):
            tokens += first * later ** (nodes - 1)
            if tokens * plain > self._seconds_of_pass(queries * (1 + nodes)) + queries * self.call_seconds:
                return True
        return False

    def _seconds_of_pass(self, nodes: int) -> float:
        """Return the seconds of a forward pass with this number of nodes, overhead of the compiled loop included."""
        return self.cost(nodes) + PASS_SECONDS + NODE_SECONDS * nodes

    # In the Python loop ------------------------------------------------------------------------------

    @property
    def cost_ratio(self) -> float:
        """Cost of one more drafted token in the next forward pass, in forward passes."""
        return self._gamma.ratio

    def next_length(self, hypotheses: int) -> int:
        """Return the number of tokens to draft after each hypothesis in the next forward pass, of all queries."""
        self._gamma.ratio = draft_cost_ratio(self.call_seconds * hypotheses / WIDER, self.cost, hypotheses)
        return self._gamma.next_length()

    def record_outcome(self, length: int, emitted: int) -> None:
        """Record by how many tokens a query grew in a forward pass with drafts of this length."""
        accepted = min(length, emitted - 1)
        self._gamma.record_outcome(accepted, int(accepted < length))
