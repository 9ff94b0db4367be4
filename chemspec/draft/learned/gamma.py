"""How many tokens to draft: the wall-time model of Leviathan et al. 2023, adaptive lengths of Tulsian et al., II.D.2.

If a drafted token is accepted with probability a, and one more of them costs c passes of the target, then drafting g
tokens makes decoding (1 - a^(g+1)) / ((1 - a) (g c + 1)) times as fast.
"""

from __future__ import annotations

from math import log

LONGEST = 32  # tokens of a draft
PROBE = 8  # where no draft pays, one token is drafted every so many passes, to see whether that has changed


def improvement(a: float, g: float, c: float) -> float:
    """Return the wall-time improvement of `g` drafted tokens with acceptance `a` (0 to 1) and cost ratio `c`."""
    tokens: float = g + 1 if a >= 1 else (1 - a ** (g + 1)) / (1 - a)
    return tokens / (g * c + 1)


def slope(a: float, g: float, c: float) -> float:
    """Return the derivative of log `improvement` by `g`, for 0 < a < 1."""
    power: float = a ** (g + 1)
    return -power * log(a) / (1 - power) - c / (g * c + 1)


def ascend(a: float, c: float, start: float = 4.0, *, longest: int = LONGEST) -> float:
    """Find the `g` that makes `improvement` largest, by gradient ascent on its logarithm.

    The improvement rises and then falls (a concave function over a linear one), so that there is one top. Steps double
    until the slope turns, and are halved from then on.

    Args:
        a: acceptance, 0 to 1.
        c: cost ratio.
        start: where to begin.
        longest: upper end of the range, which begins at 0.
    """
    a = min(max(a, 1e-6), 1 - 1e-6)
    g = min(max(start, 0.0), float(longest))
    up, step, turned = slope(a, g, c) > 0, 1.0, False
    while step > 1e-4:
        moved = min(max(g + (step if up else -step), 0.0), float(longest))
        at_edge, g = moved == g, moved
        now = slope(a, g, c) > 0
        if at_edge and now == up:
            break  # uphill is outside
        turned = turned or now != up
        step, up = (step / 2 if turned else step * 2), now
    return g


def best(a: float, c: float, start: float = 4.0, *, longest: int = LONGEST) -> int:
    """Return the whole number of tokens that pays best: the better neighbour of what `ascend` finds."""
    low = int(ascend(a, c, start, longest=longest))
    return max((low, min(low + 1, longest)), key=lambda g: improvement(min(a, 1 - 1e-6), g, c))


class FixedGamma:
    """Always the same number of tokens."""

    def __init__(self, length: int) -> None:
        check(length)
        self._length = length

    def length(self) -> int:
        """Return the tokens to draft in the next pass."""
        return self._length

    def learn(self, accepted: int, refused: int) -> None:
        """Ignore the fate of a draft."""


class AdaptiveGamma:
    """A number of tokens that follows the running acceptance rate.

    Attributes:
        ratio: c; what one more drafted token costs, as a share of the target's pass.
        longest: most tokens.
        hits: accepted tokens so far.
        tries: judged tokens so far.
    """

    WEIGHT = 10.0  # the rate begins as if so many tokens had been tried
    RATE = 0.8  # of a small model of which nothing is known

    def __init__(self, ratio: float, *, rate: float = RATE, longest: int = LONGEST) -> None:
        """Start from a cost ratio and an acceptance rate."""
        check(longest)
        self.ratio, self.longest = ratio, longest
        self.hits, self.tries = rate * self.WEIGHT, self.WEIGHT
        self._passes = 0
        self._top = 4.0

    @property
    def alpha(self) -> float:
        """The share of drafted tokens that were accepted, among those whose fate is known."""
        return self.hits / self.tries

    def length(self) -> int:
        """Return the tokens to draft in the next pass."""
        self._passes += 1
        self._top = ascend(self.alpha, self.ratio, self._top, longest=self.longest)
        chosen = best(self.alpha, self.ratio, self._top, longest=self.longest)
        return chosen if chosen or self._passes % PROBE else 1

    def learn(self, accepted: int, refused: int) -> None:
        """Count accepted tokens, and whether (1 or 0) the token after them was rejected."""
        self.hits += accepted
        self.tries += accepted + refused


Gamma = FixedGamma | AdaptiveGamma


def check(length: int) -> None:
    """Refuse drafts of no length and of more than `LONGEST` tokens.

    Raises:
        ValueError: naming the number and the limits.
    """
    if not 1 <= length <= LONGEST:
        raise ValueError(
            f"draft length {length}: a small model drafts 1 to {LONGEST} tokens a pass; "
            "leave it 0 for a length that adapts"
        )
