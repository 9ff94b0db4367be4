"""Accept drafted tokens by a rule: which may stand where the target would write its best one.

`TopBeta` is the Spec-Verification of Xia et al. (2023, Eq. 8 to 10): any drafted token among the target's best beta
whose log-prob is at most tau below that of the best. With beta = 1 it is their exact rule (Eq. 2), the target's best
token and no other; otherwise the answer depends on the drafts, and callers must say so.
"""

from __future__ import annotations

from dataclasses import dataclass

from chemspec.types import Scores


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

    def accepts(self, scores: Scores, token: int) -> bool:
        """Return whether a drafted token may stand, by the target's scores there."""
        for rank, candidate in enumerate(scores.ids[: self.beta]):
            if int(candidate) == token:
                return float(scores.log_probs[0]) - float(scores.log_probs[rank]) <= self.tau
        return False
