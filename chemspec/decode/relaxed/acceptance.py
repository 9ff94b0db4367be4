"""Relaxed acceptance: which drafted tokens are accepted instead of the target's argmax.

`TopBeta` is the Spec-Verification of Xia et al. (2023, Eq. 8 to 10): any drafted token among the target's best beta
whose log-prob is at most tau below that of the best. With beta = 1 it is their exact rule (Eq. 2), the target's argmax
only; otherwise the output depends on the drafts, and callers must label it.
"""

from __future__ import annotations

from dataclasses import dataclass

from chemspec.types import Scores


@dataclass(frozen=True)
class TopBeta:
    """Accepts a token among the best `beta` (Eq. 8) whose log-prob is at most `tau` below the best one's (Eq. 9)."""

    beta: int
    tau: float

    def __post_init__(self) -> None:
        if self.beta < 1:
            raise ValueError(f"beta is {self.beta}; it must be at least 1 (which is exact)")
        if not self.tau >= 0:
            raise ValueError(f"tau is {self.tau}; it must not be negative")

    def accepts_token(self, scores: Scores, token: int) -> bool:
        """Return whether a drafted token is accepted, given the target's scores."""
        for rank, candidate in enumerate(scores.ids[: self.beta]):
            if int(candidate) == token:
                return float(scores.log_probs[0]) - float(scores.log_probs[rank]) <= self.tau
        return False
