"""Define a drafter: it guesses what will be requested next. A wrong guess costs time, never the answer."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any, NamedTuple, Protocol, runtime_checkable

from chemspec.types import Draft, Prefix


class Drafter(Protocol):
    """A strategy of drafting.

    It must not propose an id beyond the vocabulary, for which the loop raises ValueError. Empty drafts are left out,
    and what goes beyond `max_new_tokens` or follows eos is cut.
    """

    def propose(self, source: Sequence[int], prefix: Prefix, max_new_tokens: int) -> Sequence[Draft]:
        """Return continuations of `prefix`, best first.

        Args:
            source: the query's token ids, without bos and eos even where the model reads them
                (`ModelConfig.source_specials`).
            prefix: a prefix that the decoder waits for, or one that a beam's look-ahead guesses it will wait for.
            max_new_tokens: most tokens of a draft that are of use: one fewer than may still be written, for nothing is
                asked after the last one.
        """


class SessionNeeds(NamedTuple):
    """What a drafter reads of the target beside its scores.

    Attributes:
        heads: layer and number of the cross-attention heads whose attention it reads.
        hidden_states: whether it reads the last hidden state.
    """

    heads: tuple[tuple[int, int], ...] = ()
    hidden_states: bool = False


class SessionView(Protocol):
    """What the session shows to a drafter that declared its needs; None of a prefix that has not been computed."""

    def attention(self, source: tuple[int, ...], prefix: Prefix) -> Sequence[Sequence[float]] | None:
        """Return the attention of each head wanted to each token of `source` after a prefix."""

    def hidden_state(self, source: tuple[int, ...], prefix: Prefix) -> Any | None:
        """Return the last hidden state (D,) after a prefix."""


@runtime_checkable
class SessionReader(Drafter, Protocol):
    """A drafter that reads more of the target than its scores; one object serves one run."""

    @property
    def needs(self) -> SessionNeeds:
        """What the session must keep for it."""

    def watch(self, session: SessionView) -> None:
        """Read from this session from now on."""


def required_outputs(drafter: Drafter) -> SessionNeeds:
    """Return what the session of a run with this drafter must keep."""
    # Looking at the names first: `isinstance` of a protocol takes longer than what is around it.
    return drafter.needs if hasattr(drafter, "watch") and isinstance(drafter, SessionReader) else SessionNeeds()


class Speculation(IntEnum):
    """What is worth its time in the next pass.

    DRAFT: the drafts after what was asked. LOOKAHEAD: where a decoder can look ahead (`ScoreRequest.lookahead`), the
    prefixes that it then names instead, with the drafter's guesses; otherwise as DRAFT.
    """

    OFF = 0
    DRAFT = 1
    LOOKAHEAD = 2


@runtime_checkable
class AdaptiveDrafter(Drafter, Protocol):
    """A drafter that is told the load of each pass and the fate of its drafts; one object serves one run."""

    def plan_pass(self, requested: int, queries: int, *, waiting: int) -> Speculation:
        """Return what pays in the next pass.

        Args:
            requested: nodes that it computes anyway.
            queries: their number.
            waiting: prefixes that the decoders wait for, those with known scores among them: a beam waits for all of
                its hypotheses, however many are known.
        """

    def observe(self, draft: Draft, accepted: int) -> None:
        """Learn that the first `accepted` tokens of a draft were right, and the next, if there is one, was not.

        Told of drafts after the leading hypothesis only.
        """


@runtime_checkable
class BatchedDrafter(Drafter, Protocol):
    """A drafter with a model of its own, which thinks of all prefixes of a pass at once; one object serves one run."""

    def prepare(self, requested: Sequence[tuple[Sequence[int], Prefix, int]]) -> None:
        """Get ready for `propose`: source, prefix and `max_new_tokens` of every prefix that a decoder waits for.

        A look-ahead may ask about other prefixes besides; for them there need not be a draft.
        """


@runtime_checkable
class CountingDrafter(Drafter, Protocol):
    """A drafter that counts the runs of its own models."""

    @property
    def calls(self) -> int:
        """Runs so far."""


def check_draft_size(length: int, count: int) -> None:
    """Refuse drafts of no length, and no drafts.

    Raises:
        ValueError: naming the number and the remedy.
    """
    if length < 1:
        raise ValueError(f"draft length {length}; it must be at least 1")
    if count < 1:
        raise ValueError(f"{count} drafts; there must be at least 1 (for none choose the drafter none)")
