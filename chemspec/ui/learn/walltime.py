"""When drafting pays: the wall-time model of Leviathan et al. (2023), which Xia et al. and Tulsian et al. use too.

A draft of gamma tokens is checked in one pass. Each of its tokens is right with probability alpha, whatever the others
are; after the first wrong one the rest is lost. Time is counted in passes over one token:

    alpha      chance that a drafted token is accepted
    gamma      tokens in a draft
    c          cost of drafting one token
    pass_cost  cost of a pass by its number of new tokens; the papers take it to be 1, whatever the number

Pure functions; nothing is measured here.
"""

from collections.abc import Callable

MAX_GAMMA = 24  # longest draft considered; the drafter `auto` goes no further

Cost = Callable[[float], float]


def flat_cost(_count: float) -> float:
    """Return 1: the papers' assumption: checking a draft costs no more than writing one token."""
    return 1.0


def relative_cost(seconds: Cost) -> Cost:
    """Return a measured curve (seconds by tokens of a pass) in units of a pass over one token."""
    single_token = seconds(1)
    return lambda count: seconds(count) / single_token


def expected_tokens(alpha: float, gamma: int) -> float:
    """Return tokens that a pass yields on average: (1 - alpha^(gamma+1)) / (1 - alpha)."""
    # Summed up rather than divided: at alpha = 1 the formula is 0 / 0.
    return sum(alpha**position for position in range(gamma + 1))


def expected_speedup(alpha: float, gamma: int, c: float, pass_cost: Cost = flat_cost) -> float:
    """Return how many times faster than standard decoding: (1 - alpha^(gamma+1)) / ((1 - alpha) (gamma c + 1)).

    With a measured `pass_cost` the 1 of the denominator becomes the cost of a pass over gamma + 1 tokens.
    """
    return expected_tokens(alpha, gamma) / (gamma * c + pass_cost(gamma + 1))


def best_gamma(alpha: float, c: float, pass_cost: Cost = flat_cost, most: int = MAX_GAMMA) -> int:
    """Return the draft length with the largest improvement, the shortest of equals; 0 means: do not draft."""
    return max(range(most + 1), key=lambda gamma: (expected_speedup(alpha, gamma, c, pass_cost), -gamma))
