"""Drafter protocols. A drafter guesses the next tokens; a wrong guess costs time but never changes the output."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum
from operator import index
from typing import Any, NamedTuple, NoReturn, Protocol, runtime_checkable

from chemspec.types import Draft, Prefix


class Drafter(Protocol):
    """A drafting strategy.

    The decoding loop raises ValueError for ids outside the vocabulary, ignores empty drafts, and cuts drafts after eos
    and at `max_new_tokens`.
    """

    def propose(self, source: Sequence[int], prefix: Prefix, max_new_tokens: int) -> Sequence[Draft]:
        """Return continuations of `prefix`, best first.

        Args:
            source: the query's token ids, without bos and eos even if the model reads them
                (`ModelConfig.source_specials`).
            prefix: a prefix requested by the decoder, or one that a beam's look-ahead expects it to request.
            max_new_tokens: maximum useful draft length: one less than the number of tokens left, because no scores are
                needed after the last one.
        """


class SessionNeeds(NamedTuple):
    """Extra outputs of the target model that a drafter needs.

    Attributes:
        hidden_states: whether it reads the last hidden state.
    """

    hidden_states: bool = False


class SessionView(Protocol):
    """Extra outputs for a drafter that declared its `needs`; None for prefixes that have not been computed."""

    def hidden_state(self, source: tuple[int, ...], prefix: Prefix) -> Any | None:
        """Return the last hidden state (D,) of a prefix."""


@runtime_checkable
class SessionReader(Drafter, Protocol):
    """A drafter that reads extra outputs of the target; create one per run."""

    @property
    def needs(self) -> SessionNeeds:
        """The extra outputs that the session must return."""

    def watch(self, session: SessionView) -> None:
        """Set the session to read from."""


def required_outputs(drafter: Drafter) -> SessionNeeds:
    """Return the extra outputs that a drafter needs from the session."""
    # `hasattr` first, because `isinstance` of a protocol is slow.
    return drafter.needs if hasattr(drafter, "watch") and isinstance(drafter, SessionReader) else SessionNeeds()


class Speculation(IntEnum):
    """How much to draft in the next forward pass.

    DRAFT: the drafts after requested prefixes. LOOKAHEAD: if the decoder has a look-ahead (`ScoreRequest.lookahead`),
    the prefixes it yields for the drafter's guesses; otherwise as DRAFT.
    """

    OFF = 0
    DRAFT = 1
    LOOKAHEAD = 2


@runtime_checkable
class AdaptiveDrafter(Drafter, Protocol):
    """A drafter that adapts to the load of each forward pass and to acceptance; create one per run."""

    def plan_pass(self, requested: int, queries: int, *, waiting: int) -> Speculation:
        """Decide how much to draft in the next forward pass.

        Args:
            requested: number of nodes without drafts.
            queries: number of queries.
            waiting: number of requested prefixes, including those with known scores: a beam requests all of its
                hypotheses.
        """

    def observe(self, draft: Draft, accepted: int) -> None:
        """Record that the first `accepted` tokens of a draft were accepted and the next one, if any, was rejected.

        Called for drafts after the best hypothesis only.
        """


@runtime_checkable
class BatchedDrafter(Drafter, Protocol):
    """A drafter that drafts for all requested prefixes in one batched call. Stateful: create one per run."""

    def prepare(self, requested: Sequence[tuple[Sequence[int], Prefix, int]]) -> None:
        """Prepare `propose` calls, given source, prefix and `max_new_tokens` of every requested prefix.

        A look-ahead may call `propose` for further prefixes, for which there need not be a draft.
        """


@runtime_checkable
class CountingDrafter(Drafter, Protocol):
    """A drafter that counts the forward passes of its own models."""

    @property
    def calls(self) -> int:
        """Number of forward passes so far."""


def read_drafts(drafter: object, drafts: object, vocab_size: int) -> list[Draft]:
    """Return what a drafter has proposed, without empty drafts; a list of token ids becomes a draft of its name.

    Args:
        drafter: the drafter, which is named in errors.
        drafts: what its `propose` has returned.
        vocab_size: token ids must be smaller.

    Raises:
        TypeError: for anything but drafts and sequences of token ids.
        ValueError: for a token id outside the vocabulary.
    """
    name, checked = getattr(drafter, "name", type(drafter).__name__), []
    for draft in drafts if isinstance(drafts, Iterable) else _raise_no_drafts(name, drafts):
        if not isinstance(draft, Draft):
            try:
                draft = Draft(tuple(map(index, draft)), name)
            except TypeError:
                _raise_no_drafts(name, draft)
        if draft.tokens:
            if min(draft.tokens) < 0 or max(draft.tokens) >= vocab_size:
                wrong = next(token for token in draft.tokens if not 0 <= token < vocab_size)
                raise_invalid_token(draft.drafter, wrong, vocab_size)
            checked.append(draft)
    return checked


def _raise_no_drafts(drafter: str, value: object) -> NoReturn:
    raise TypeError(
        f"the drafter {drafter!r} proposed {value!r:.60}; `propose` returns a list of drafts, each a list of token ids "
        "or a chemspec.Draft"
    )


def raise_invalid_token(drafter: str, token: int, vocab_size: int) -> NoReturn:
    """Raise the ValueError of `read_drafts`."""
    raise ValueError(f"the drafter {drafter!r} proposed the token id {token}; the vocabulary has {vocab_size} tokens")


def check_draft_size(length: int, count: int) -> None:
    """Raise ValueError for a draft length or number of drafts below 1."""
    if length < 1:
        raise ValueError(f"draft length {length}; it must be at least 1")
    if count < 1:
        raise ValueError(f"{count} drafts; there must be at least 1 (for none choose the drafter none)")
