"""Accept drafted tokens by a rule: which may stand where the target would write its best one.

`EXACT` takes the target's best token and no other, as in Eq. 2 of Xia et al. (2023). `TopBeta` is their
Spec-Verification (Eq. 8 to 10): any drafted token among the target's best beta whose log-prob is at most tau below that
of the best. With beta = 1 it is the exact rule; otherwise the answer depends on the drafts, and callers must say so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from chemspec.types import Scores


class Rule(Protocol):
    """Whether a drafted token stands."""

    @property
    def exact(self) -> bool:
        """Whether the answers are those of the standard algorithm, whatever was drafted."""

    def accepts(self, scores: Scores, token: int) -> bool:
        """Whether `token` may follow a prefix, by the target's scores after it."""


@dataclass(frozen=True)
class Exact:
    """The target's best token only."""

    @property
    def exact(self) -> bool:
        """Whether the answers are those of the standard algorithm."""
        return True

    def accepts(self, scores: Scores, token: int) -> bool:
        """Return whether `token` may stand."""
        return int(scores.ids[0]) == token


@dataclass(frozen=True)
class TopBeta:
    """A token among the best `beta` (Eq. 8) whose log-prob is at most `tau` below that of the best (Eq. 9)."""

    beta: int
    tau: float

    def __post_init__(self) -> None:
        if self.beta < 1:
            raise ValueError(f"beta is {self.beta}; it must be at least 1 (which is exact)")
        if not self.tau >= 0:
            raise ValueError(f"tau is {self.tau}; it must not be negative")

    @property
    def exact(self) -> bool:
        """Whether the answers are those of the standard algorithm."""
        return self.beta == 1

    def accepts(self, scores: Scores, token: int) -> bool:
        """Return whether `token` may stand."""
        for rank, candidate in enumerate(scores.ids[: self.beta]):
            if int(candidate) == token:
                return float(scores.log_probs[0]) - float(scores.log_probs[rank]) <= self.tau
        return False


EXACT = Exact()
