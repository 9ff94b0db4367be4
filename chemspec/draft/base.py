"""What a drafter is: a guess at what will be asked next. A wrong guess costs time, never the answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from chemspec.types import Draft, Prefix


class Drafter(Protocol):
    """One strategy. `propose` must be deterministic, and must not propose bos, pad or an empty draft."""

    def propose(self, source: Sequence[int], prefix: Prefix, room: int) -> Sequence[Draft]:
        """Continuations of `prefix`, best first.

        Args:
            source: the query's token ids.
            prefix: a prefix that the decoder waits for.
            room: most tokens a draft can usefully have before the length limit.
        """
