"""Recorded runs as lanes of tokens, each with its origin and the forward pass that emitted it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from chemspec.replay import timing
from chemspec.types import DecodeResult

Kind = Literal["own", "copied", "drafted"]
LEGEND: dict[Kind, str] = {
    "own": "the model's own token",
    "copied": "copied from the query",
    "drafted": "drafted otherwise",
}


class Token(NamedTuple):
    """The text of a token, its origin, and the number (from 0) of the pass that emitted it."""

    text: str
    kind: Kind
    written_by: int


@dataclass(frozen=True)
class Lane:
    """A recorded run."""

    name: str  # name of the decoding mode
    tokens: tuple[Token, ...]  # tokens of the first prediction; the end of the sequence is "end"
    # end of every pass in milliseconds from the start of decoding, or in passes if it is not `timed`
    ends: tuple[float, ...]
    timed: bool = True

    @classmethod
    def from_result(cls, name: str, result: DecodeResult) -> Lane:
        """Build the lane of a prediction; drafted tokens are known for greedy decoding only."""
        kinds = timing.drafted_positions(result)
        first = result.hypotheses[0]
        texts = [*first.tokens, *[timing.END] * (first.ended == "eos")]
        written_by = timing.token_passes(result)
        tokens = (Token(text, kinds.get(at, "own"), written_by[at]) for at, text in enumerate(texts))
        return cls(name, tuple(tokens), tuple(bar.end for bar in timing.pass_timeline(result.trace)))

    def without_times(self) -> Lane:
        """Return the lane with passes of equal length, for runs on a busy machine."""
        return replace(self, ends=tuple(map(float, range(1, len(self.ends) + 1))), timed=False)

    @property
    def milliseconds(self) -> float:
        """End of the last pass."""
        return self.ends[-1]
