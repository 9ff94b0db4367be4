"""What a decoder is: a generator that asks what comes after some prefixes, and goes on when it is told."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence

from chemspec.tokenizer import BOS, EOS
from chemspec.types import FinishedSequence, Prefix, Scores

Guess = Callable[[Prefix], int | None]  # the likeliest next token, or none if there is no idea
LookAhead = Callable[[Mapping[Prefix, Scores], Guess], Iterator[Prefix]]


class ScoreRequest(tuple[Prefix, ...]):
    """Prefixes of which the decoder wants the scores; never empty, none twice.

    A decoder that needs several at once may add `ahead`: given the scores known and guesses for others, it tells which
    prefixes it would ask later if the guesses were right, in the order in which it would.
    """

    lookahead: LookAhead | None = None

    @classmethod
    def of(cls, prefixes: Sequence[Prefix], ahead: LookAhead) -> ScoreRequest:
        ask = cls(prefixes)
        ask.lookahead = ahead
        return ask


Decoder = Generator[tuple[Prefix, ...], Sequence[Scores], list[FinishedSequence]]  # answers in the order asked

START: Prefix = (BOS,)


def finished(prefix: Prefix, log_probs: Sequence[float]) -> FinishedSequence:
    """The answer that a prefix holds."""
    return FinishedSequence(prefix[1:], tuple(log_probs), "eos" if prefix[-1] == EOS else "length")
