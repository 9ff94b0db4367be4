"""What a decoder is: a generator that asks what comes after some prefixes, and goes on when it is told."""

from __future__ import annotations

from collections.abc import Generator, Sequence

from chemspec.tokenizer import BOS, EOS
from chemspec.types import Prefix, Scores, Written

Ask = tuple[Prefix, ...]  # never empty, no prefix twice
Decoder = Generator[Ask, Sequence[Scores], list[Written]]  # answers come in the order of the ask

START: Prefix = (BOS,)


def written(prefix: Prefix, log_probs: Sequence[float]) -> Written:
    """The answer that a prefix holds."""
    return Written(prefix[1:], tuple(log_probs), "eos" if prefix[-1] == EOS else "length")
