"""Draft what heads on the target's last hidden state foretell: Blockwise Decoding, and Medusa's tree.

The state of the last place that was computed belongs to the token before the newest one: it is the state from which the
newest
one was written. The heads foretell what comes after that, without having seen it. Where nothing was computed yet, as
before
the first pass, there is no draft.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from math import exp
from typing import Any

from chemspec.draft.base import SessionNeeds, SessionView, check_size
from chemspec.draft.learned.spec_drafter import line
from chemspec.tokenizer import BOS, EOS, PAD, UNK
from chemspec.types import Draft, Prefix

# The last hidden state of a query's prefix that has been computed.
State = Callable[[tuple[int, ...], Prefix], Any]
# Of every state the best tokens of each head and their log-probs, best first: (states, heads, candidates) each.
Foretell = Callable[[Sequence[Any], int], tuple[Sequence[Sequence[Sequence[int]]], Sequence[Sequence[Sequence[float]]]]]
NEVER = (PAD, BOS, UNK)


def nothing_kept(source: tuple[int, ...], prefix: Prefix) -> None:
    """Nobody keeps states: what stands in where no session is at hand."""


class HeadDrafts:
    """What both have in common; one object serves one run.

    Attributes:
        needs: the last hidden states of the session.
        states: gives them; see `watch`.
    """

    needs = SessionNeeds(hidden_states=True)
    CANDIDATES = 4  # best tokens of a head; three of them may never be drafted

    def __init__(self, foretell: Foretell, *, heads: int, length: int = 0) -> None:
        """Use so many heads.

        Args:
            length: most tokens of a draft; 0 drafts with all heads.

        Raises:
            ValueError: for drafts longer than there are heads.
        """
        self.foretell, self.length = foretell, length or heads
        check_size(self.length, 1)
        if self.length > heads:
            raise ValueError(f"draft length {length}; this drafter has {heads} heads, one a token")
        self.states: State = nothing_kept
        self.calls = 0  # of the heads
        self._told: dict[tuple[tuple[int, ...], Prefix], list[list[tuple[int, float]]]] = {}

    def watch(self, session: SessionView) -> None:
        """Read the hidden states from this session."""
        self.states = session.hidden_state

    def prepare(self, asked: Sequence[tuple[Sequence[int], Prefix, int]]) -> None:
        self._told = {}
        keys, states = [], []
        for source, prefix, room in asked:
            key = tuple(source), prefix
            state = self.states(key[0], prefix[:-1]) if room > 0 else None
            if state is not None:
                keys.append(key)
                states.append(state)
        if not states:
            return
        self.calls += 1
        ids, log_probs = self.foretell(states, self.CANDIDATES)
        for key, own, chances in zip(keys, ids, log_probs, strict=True):
            self._told[key] = [
                [pair for pair in zip(*head, strict=True) if pair[0] not in NEVER]
                for head in zip(own[: self.length], chances[: self.length], strict=True)
            ]


class Blockwise(HeadDrafts):
    """One draft: the best token of every head (Stern et al. 2018), as far as they are likely enough."""

    LEAST = 0.02

    def propose(self, source: Sequence[int], prefix: Prefix, room: int) -> Sequence[Draft]:
        told = self._told.get((tuple(source), prefix), [])[:room]
        draft = line([head[0][0] for head in told], [head[0][1] for head in told], "blockwise", self.LEAST)
        return (draft,) if draft.tokens else ()


class Medusa(HeadDrafts):
    """A tree of the heads' best tokens, the likeliest combinations first (Cai et al. 2024).

    The chance of a path is the product of its heads' chances, as though these were independent: what the authors choose
    their
    tree by, on average; here it is chosen anew for every prefix.
    """

    LEAST = 0.02

    def __init__(self, foretell: Foretell, *, heads: int, length: int = 0, count: int = 0, nodes: int = 24) -> None:
        """Use so many heads.

        Args:
            count: most paths; 0 does not limit them.
            nodes: most nodes of the tree.
        """
        super().__init__(foretell, heads=heads, length=length)
        self.count, self.nodes = count, nodes

    def propose(self, source: Sequence[int], prefix: Prefix, room: int) -> Sequence[Draft]:
        told = self._told.get((tuple(source), prefix), [])[:room]
        grown = self._grow(told)
        inner = {path[:-1] for path in grown}
        leaves = [path for path in grown if path not in inner][: self.count or None]
        return [
            Draft(tuple(token for token, _ in path), "medusa", chances=tuple(share for _, share in path))
            for path in leaves
        ]

    def _grow(self, told: Sequence[Sequence[tuple[int, float]]]) -> list[tuple[tuple[int, float], ...]]:
        """The likeliest paths of (token, chance), likeliest first, and so parents before their children."""
        heap: list[tuple[float, int, tuple[tuple[int, float], ...]]] = [(-1.0, 0, ())]
        grown: list[tuple[tuple[int, float], ...]] = []
        made = 0  # of equal chances, the first made goes first
        while heap and len(grown) < self.nodes:
            negative, _, path = heappop(heap)
            if path:
                grown.append(path)
                if path[-1][0] == EOS:
                    continue
            for token, log_prob in told[len(path)] if len(path) < len(told) else ():
                share = exp(log_prob)
                if -negative * share >= self.LEAST:
                    made += 1
                    heappush(heap, (negative * share, made, (*path, (token, share))))
        return grown
