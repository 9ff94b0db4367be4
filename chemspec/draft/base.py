"""The base class of drafters. A drafter proposes next tokens; a wrong draft costs time but never changes the output.

A text drafter defines `propose` alone, and need not derive from `Drafter`. One with a model of its own is a
`LearnedDrafter` (`learned/network.py`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from operator import index
from typing import TYPE_CHECKING, Any, NoReturn

from chemspec.types import Draft, PluginError, Prefix

if TYPE_CHECKING:
    from chemspec.model.session import Session

HOOKS = ("plan_pass", "prepare", "observe", "watch")  # methods that a drafter without the base class must not define


class Drafter(ABC):
    """A drafting strategy.

    The decoding loop raises ValueError for ids outside the vocabulary, ignores empty drafts, and cuts drafts after eos
    and at `max_new_tokens`.

    Attributes:
        has_hooks: whether the loop calls `plan_pass`, `prepare` and `observe` in every forward pass. Such a drafter is
            created once per run, and runs in the Python loop.
        reads_states: whether it reads the target's last hidden states, from the session given to `watch`.
        calls: number of forward passes of its own models so far.
    """

    has_hooks = False
    reads_states = False
    calls = 0

    @abstractmethod
    def propose(self, source: Sequence[int], prefix: Prefix, max_new_tokens: int) -> Sequence[Draft]:
        """Return continuations of `prefix`, best first.

        Args:
            source: the query's token ids, without bos and eos even if the model reads them
                (`ModelConfig.source_specials`).
            prefix: a prefix requested by the decoder, or one that a beam's look-ahead expects it to request.
            max_new_tokens: maximum useful draft length: one less than the number of tokens left, because no scores are
                needed after the last one.
        """

    def plan_pass(self, requested: int, queries: int, *, waiting: int) -> bool:
        """Return whether to draft in the next forward pass.

        Args:
            requested: number of nodes without drafts.
            queries: number of queries.
            waiting: number of requested prefixes, including those with known scores: a beam requests all of its
                hypotheses.
        """
        return True

    def prepare(self, requested: Sequence[tuple[Sequence[int], Prefix, int]]) -> None:  # noqa: B027
        """Prepare `propose` calls, given source, prefix and `max_new_tokens` of every requested prefix.

        A look-ahead may call `propose` for further prefixes, for which there need not be a draft.
        """

    def observe(self, draft: Draft, accepted: int) -> None:  # noqa: B027
        """Record that the first `accepted` tokens of a draft were accepted and the next one, if any, was rejected.

        Called for drafts after the best hypothesis only.
        """

    def watch(self, session: Session) -> None:
        """Set the session to read hidden states from, if `reads_states`."""
        raise NotImplementedError


@dataclass(frozen=True)
class NoDrafts(Drafter):
    """Drafter `none`: standard decoding without drafts."""

    def propose(self, source: Sequence[int], prefix: Prefix, max_new_tokens: int) -> Sequence[Draft]:
        """Return nothing."""
        return ()


class FunctionDrafter(Drafter):
    """A drafter made of its `propose` function alone."""

    def __init__(self, name: str, function: Callable[[Sequence[int], Prefix, int], Any]) -> None:
        """Wrap a function."""
        self.name, self.function = name, function

    def propose(self, source: Sequence[int], prefix: Prefix, max_new_tokens: int) -> Any:
        """Return what the function proposes; see `Drafter.propose`."""
        return self.function(source, prefix, max_new_tokens)


def as_drafter(value: Any, name: str = "") -> Drafter:
    """Return a drafter for an object with `propose`, which need not derive from `Drafter`.

    The name, by default that of its class, is that of its drafts where they are lists of token ids. Raises TypeError
    for an object without `propose`, or with hooks but not derived from `Drafter`.
    """
    if isinstance(value, Drafter):
        return value
    name = getattr(value, "name", name or type(value).__name__)
    if not callable(getattr(value, "propose", None)):
        raise TypeError(f"the drafter {name!r} has no method `propose`")
    if hooks := [hook for hook in HOOKS if hasattr(value, hook)]:
        raise TypeError(f"the drafter {name!r} has {', '.join(hooks)}; derive it from chemspec.Drafter")
    return FunctionDrafter(name, value.propose)


def read_drafts(drafter: object, drafts: object, vocab_size: int) -> list[Draft]:
    """Return what a drafter has proposed, without empty drafts; a list of token ids becomes a draft of its name.

    Raises PluginError for anything but drafts and sequences of token ids, ValueError for an id outside the vocabulary.
    """
    name, checked = getattr(drafter, "name", type(drafter).__name__), []
    for draft in drafts if isinstance(drafts, Iterable) else _raise_no_drafts(name, drafts):
        try:
            if not isinstance(draft, Draft):
                draft = Draft(tuple(map(index, draft)), name)
            elif type(draft.tokens) is not tuple or set(map(type, draft.tokens)) - {int}:
                draft = replace(draft, tokens=tuple(map(index, draft.tokens)))
            if not all(map(isfinite, draft.probabilities)) or 0 < len(draft.probabilities) < len(draft.tokens):
                raise TypeError
        except TypeError:
            _raise_no_drafts(name, draft)
        if draft.tokens:
            if min(draft.tokens) < 0 or max(draft.tokens) >= vocab_size:
                wrong = next(token for token in draft.tokens if not 0 <= token < vocab_size)
                what = f"the drafter {draft.drafter!r} proposed the token id {wrong}"
                raise ValueError(f"{what}; the vocabulary has {vocab_size} tokens")
            checked.append(draft)
    return checked


def _raise_no_drafts(drafter: str, value: object) -> NoReturn:
    hint = "; one draft is [[id, id, ...]]" if isinstance(value, int) else ""
    raise PluginError(
        f"the drafter {drafter!r} proposed {value!r:.60}; `propose` returns a list of drafts, each a list of token ids "
        f"or a chemspec.Draft, with a probability (`probabilities`) for every token or none{hint}"
    )


def check_draft_size(length: int, count: int) -> None:
    """Raise ValueError for a draft length or number of drafts below 1."""
    if length < 1:
        raise ValueError(f"draft length {length}; it must be at least 1")
    if count < 1:
        raise ValueError(f"{count} drafts; there must be at least 1 (for none choose the drafter none)")
