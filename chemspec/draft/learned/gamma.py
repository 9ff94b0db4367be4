"""Draft length gamma: the wall-time model of Leviathan et al. 2023, adaptive lengths of Tulsian et al., II.D.2.

If a drafted token is accepted with probability a and costs c forward passes of the target, drafting g tokens makes
decoding (1 - a^(g+1)) / ((1 - a) (g c + 1)) times as fast, if a pass costs the same for any number of tokens.
"""

from math import expm1, log

from chemspec.types import Cost

MAX_DRAFT = 32  # maximum draft length
WIDER = 8  # number of added nodes over which the cost of one more node is averaged
PROBE = 8  # while drafts do not pay off, one token is drafted every 8 forward passes to update the rate


def expected_tokens(a: float, g: float) -> float:
    """Return the mean number of tokens of a pass with `g` drafted ones, (1 - a^(g+1)) / (1 - a), precise near a = 1."""
    return expm1((g + 1) * log(a)) / (a - 1) if 0 < a < 1 else 1.0 + g * (a >= 1)


def wall_time_improvement(a: float, g: float, c: float) -> float:
    """Return the wall-time improvement of `g` drafted tokens with acceptance rate `a` and cost ratio `c`."""
    return expected_tokens(a, g) / (g * c + 1)


def best_draft_length(a: float, c: float, *, longest: int = MAX_DRAFT) -> int:
    """Return the draft length, 0 to `longest`, with the largest `wall_time_improvement`; the smallest of equals."""
    return max(range(longest + 1), key=lambda g: wall_time_improvement(a, g, c))


def draft_cost_ratio(small: float, target: Cost, nodes: int) -> float:
    """Return the cost ratio c of the wall-time model: cost of one more drafted token, in forward passes of the target.

    `small` is the time of the draft model for one token after each of the `nodes` of the target's pass. Leviathan et
    al. assume that the cost of a pass does not depend on its number of nodes. On a CPU it does, so the token's node in
    the target's pass is included.
    """
    wider = (target(nodes * (1 + WIDER)) - target(nodes)) / WIDER
    return (small + wider) / target(nodes)


class FixedGamma:
    """A fixed draft length."""

    def __init__(self, length: int) -> None:
        check_draft_length(length)
        self._length = length

    def next_length(self) -> int:
        """Return the tokens to draft in the next pass."""
        return self._length

    def record_outcome(self, accepted: int, rejected: int) -> None:
        """Do nothing: the length is fixed."""


class AdaptiveGamma:
    """A draft length that adapts to the running acceptance rate, for a cost ratio c."""

    WEIGHT = 10.0  # pseudo-observations of the prior rate
    # Prior rate: a query is too short to learn it from, and those of the shipped draft models are 0.92 and 0.96.
    RATE = 0.95

    def __init__(self, ratio: float, *, rate: float = RATE, longest: int = MAX_DRAFT) -> None:
        """Start from a cost ratio and a prior rate."""
        check_draft_length(longest)
        self.ratio, self.longest = ratio, longest
        self.hits, self.tries = rate * self.WEIGHT, self.WEIGHT  # accepted and verified tokens so far
        self._passes = 0

    @property
    def alpha(self) -> float:
        """Share of the verified draft tokens that were accepted (Leviathan et al.)."""
        return self.hits / self.tries

    def next_length(self) -> int:
        """Return the tokens to draft in the next pass."""
        self._passes += 1
        chosen = best_draft_length(self.alpha, self.ratio, longest=self.longest)
        return chosen if chosen or self._passes % PROBE else 1

    def record_outcome(self, accepted: int, rejected: int) -> None:
        """Count accepted tokens, and whether (1 or 0) the token after them was rejected."""
        self.hits += accepted
        self.tries += accepted + rejected


Gamma = FixedGamma | AdaptiveGamma


def check_draft_length(length: int) -> None:
    """Raise ValueError for a draft length below 1 or above `MAX_DRAFT`."""
    if not 1 <= length <= MAX_DRAFT:
        advice = "leave it 0 for a length that adapts"
        raise ValueError(f"draft length {length}: a small model drafts 1 to {MAX_DRAFT} tokens a pass; {advice}")
