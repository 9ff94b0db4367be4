"""When drafting pays: the wall-time model of Leviathan et al. (2023), which Xia et al. and Tulsian et al. use too.

A draft of gamma tokens is checked in one pass. Each of its tokens is right with probability alpha, whatever the others
are; after the first wrong one the rest is lost. Time is counted in passes over one token:

    alpha      chance that a drafted token is accepted
    gamma      tokens in a draft
    c          cost of drafting one token

A pass is taken to cost the same whatever the number of its tokens.
"""

MAX_GAMMA = 24  # longest draft considered; the drafter `auto` goes no further


def expected_tokens(alpha: float, gamma: int) -> float:
    """Return tokens that a pass yields on average: (1 - alpha^(gamma+1)) / (1 - alpha)."""
    # Summed up rather than divided: at alpha = 1 the formula is 0 / 0.
    return sum(alpha**position for position in range(gamma + 1))


def expected_speedup(alpha: float, gamma: int, c: float) -> float:
    """Return how many times faster than standard decoding: (1 - alpha^(gamma+1)) / ((1 - alpha) (gamma c + 1))."""
    return expected_tokens(alpha, gamma) / (gamma * c + 1)


def best_gamma(alpha: float, c: float) -> int:
    """Return the draft length with the largest improvement, the shortest of equals; 0 means: do not draft."""
    return max(range(MAX_GAMMA + 1), key=lambda gamma: (expected_speedup(alpha, gamma, c), -gamma))
