"""Windows of the query that begin with the token written last: the "smart drafts" of Andronov et al. (2025)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from chemspec.types import Draft, Prefix


@dataclass(frozen=True)
class Smart:
    """Pieces of the query after each occurrence of the last token, in order; the query's beginning if there is none.

    Attributes:
        length: most tokens of a draft.
        count: most drafts.
    """

    length: int = 10
    count: int = 10

    def __post_init__(self) -> None:
        if self.length < 1 or self.count < 1:
            raise ValueError(
                f"drafts of length {self.length}, {self.count} of them; both must be at least 1"
            )

    def propose(self, source: Sequence[int], prefix: Prefix, room: int) -> Sequence[Draft]:
        places = [i + 1 for i, token in enumerate(source[:-1]) if token == prefix[-1]] or [0]
        reach = min(self.length, room)
        return [
            Draft(tuple(source[i : i + reach]), "smart", (i, min(i + reach, len(source))))
            for i in places[: self.count]
        ]
