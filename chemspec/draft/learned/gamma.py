"""How many tokens to draft: the wall-time model of Leviathan et al. 2023, adaptive lengths of Tulsian et al., II.D.2.

If a drafted token is accepted with probability a, and one more of them costs c passes of the target, then drafting g
tokens makes decoding (1 - a^(g+1)) / ((1 - a) (g c + 1)) times as fast.
"""

from __future__ import annotations

LONGEST = 32  # tokens of a draft
PROBE = 8  # where no draft pays, one token is drafted every so many passes, to see whether that has changed


def wall_time_improvement(a: float, g: float, c: float) -> float:
    """Return the wall-time improvement of `g` drafted tokens with acceptance `a` (0 to 1) and cost ratio `c`."""
    tokens: float = g + 1 if a >= 1 else (1 - a ** (g + 1)) / (1 - a)
    return tokens / (g * c + 1)


def best_draft_length(a: float, c: float, *, longest: int = LONGEST) -> int:
    """Return the number of tokens, 0 to `longest`, that makes `improvement` largest: of equals the smallest."""
    a = min(max(a, 1e-6), 1 - 1e-6)
    return max(range(longest + 1), key=lambda g: wall_time_improvement(a, g, c))


class FixedGamma:
    """Always the same number of tokens."""

    def __init__(self, length: int) -> None:
        check_draft_length(length)
        self._length = length

    def next_length(self) -> int:
        """Return the tokens to draft in the next pass."""
        return self._length

    def record_outcome(self, accepted: int, refused: int) -> None:
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
        check_draft_length(longest)
        self.ratio, self.longest = ratio, longest
        self.hits, self.tries = rate * self.WEIGHT, self.WEIGHT
        self._passes = 0

    @property
    def alpha(self) -> float:
        """The share of drafted tokens that were accepted, among those whose fate is known."""
        return self.hits / self.tries

    def next_length(self) -> int:
        """Return the tokens to draft in the next pass."""
        self._passes += 1
        chosen = best_draft_length(self.alpha, self.ratio, longest=self.longest)
        return chosen if chosen or self._passes % PROBE else 1

    def record_outcome(self, accepted: int, refused: int) -> None:
        """Count accepted tokens, and whether (1 or 0) the token after them was rejected."""
        self.hits += accepted
        self.tries += accepted + refused


Gamma = FixedGamma | AdaptiveGamma


def check_draft_length(length: int) -> None:
    """Refuse drafts of no length and of more than `LONGEST` tokens.

    Raises:
        ValueError: naming the number and the limits.
    """
    if not 1 <= length <= LONGEST:
        raise ValueError(
            f"draft length {length}: a small model drafts 1 to {LONGEST} tokens a pass; "
            "leave it 0 for a length that adapts"
        )
