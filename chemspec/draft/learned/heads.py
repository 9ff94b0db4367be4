"""Draft what heads on the target's last hidden state predict: Blockwise Decoding, and Medusa's tree.

The last hidden state that was computed belongs to the token before the newest one: the newest was written from it. The
heads predict what comes after that, without having seen it. Where nothing was computed yet, as before the first pass,
there is no draft.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from math import exp
from typing import Any

from chemspec.draft.base import SessionNeeds, SessionView, check_draft_size
from chemspec.draft.learned.spec_drafter import sequential_draft
from chemspec.tokenizer import BOS, EOS, PAD, UNK
from chemspec.types import Draft, Prefix

# The last hidden state (D,) of a query's prefix; None if that has not been computed.
ReadState = Callable[[tuple[int, ...], Prefix], Any]
# The best tokens of each head after each state and their log-probs, best first: (states, heads, candidates) each.
Predict = Callable[[Sequence[Any], int], tuple[Sequence[Sequence[Sequence[int]]], Sequence[Sequence[Sequence[float]]]]]
NEVER = (PAD, BOS, UNK)


class HeadDrafts:
    """What both have in common; one object serves one run.

    Attributes:
        needs: the last hidden states of the session.
        read_state: gives them; see `watch`.
        calls: runs of the heads so far.
    """

    needs = SessionNeeds(hidden_states=True)
    CANDIDATES = 4  # best tokens of a head; three of them may never be drafted

    def __init__(self, predict: Predict, *, heads: int, length: int = 0) -> None:
        """Draft with the heads of one model.

        Args:
            predict: gives the heads' best tokens.
            heads: how many there are.
            length: most tokens of a draft; 0 drafts with all heads.

        Raises:
            ValueError: for drafts longer than there are heads.
        """
        self.predict, self.length = predict, length or heads
        check_draft_size(self.length, 1)
        if self.length > heads:
            raise ValueError(f"draft length {length}; this drafter has {heads} heads, one a token")
        self.read_state: ReadState = lambda *_: None  # before there is a session
        self.calls = 0
        self._predicted: dict[tuple[tuple[int, ...], Prefix], list[list[tuple[int, float]]]] = {}

    def watch(self, session: SessionView) -> None:
        """Read the hidden states from this session."""
        self.read_state = session.hidden_state

    def prepare(self, requested: Sequence[tuple[Sequence[int], Prefix, int]]) -> None:
        """Draft for all prefixes of a pass at once; see `BatchedDrafter.prepare`."""
        self._predicted = {}
        keys, states = [], []
        for source, prefix, max_new_tokens in requested:
            key = tuple(source), prefix
            state = self.read_state(key[0], prefix[:-1]) if max_new_tokens > 0 else None
            if state is not None:
                keys.append(key)
                states.append(state)
        if not states:
            return
        self.calls += 1
        ids, log_probs = self.predict(states, self.CANDIDATES)
        for key, tokens, chances in zip(keys, ids, log_probs, strict=True):
            self._predicted[key] = [
                [pair for pair in zip(*head, strict=True) if pair[0] not in NEVER]
                for head in zip(tokens[: self.length], chances[: self.length], strict=True)
            ]


class Blockwise(HeadDrafts):
    """One draft: the best token of every head (Stern et al. 2018), as far as they are likely enough."""

    MIN_CHANCE = 0.02

    def propose(self, source: Sequence[int], prefix: Prefix, max_new_tokens: int) -> Sequence[Draft]:
        """Return drafts for one prefix; see `Drafter.propose`."""
        predicted = self._predicted.get((tuple(source), prefix), [])[:max_new_tokens]
        draft = sequential_draft(
            [head[0][0] for head in predicted], [head[0][1] for head in predicted], "blockwise", self.MIN_CHANCE
        )
        return (draft,) if draft.tokens else ()


class Medusa(HeadDrafts):
    """A tree of the heads' best tokens, the likeliest combinations first (Cai et al. 2024).

    The chance of a path is the product of its heads' chances, as though these were independent. The authors choose one
    tree by the averages of that; here it is chosen anew for every prefix.
    """

    MIN_CHANCE = 0.02

    def __init__(self, predict: Predict, *, heads: int, length: int = 0, count: int = 0, nodes: int = 24) -> None:
        """Draft with the heads of one model.

        Args:
            predict: gives the heads' best tokens.
            heads: how many there are.
            length: most tokens of a draft; 0 drafts with all heads.
            count: most paths; 0 does not limit them.
            nodes: most nodes of the tree.
        """
        super().__init__(predict, heads=heads, length=length)
        self.count, self.nodes = count, nodes

    def propose(self, source: Sequence[int], prefix: Prefix, max_new_tokens: int) -> Sequence[Draft]:
        """Return drafts for one prefix; see `Drafter.propose`."""
        predicted = self._predicted.get((tuple(source), prefix), [])[:max_new_tokens]
        grown = self._likeliest_paths(predicted)
        inner = {path[:-1] for path in grown}
        leaves = [path for path in grown if path not in inner][: self.count or None]
        return [
            Draft(tuple(token for token, _ in path), "medusa", chances=tuple(share for _, share in path))
            for path in leaves
        ]

    def _likeliest_paths(self, predicted: Sequence[Sequence[tuple[int, float]]]) -> list[tuple[tuple[int, float], ...]]:
        """Return the likeliest paths of (token, chance), likeliest first and so parents before their children."""
        heap: list[tuple[float, int, tuple[tuple[int, float], ...]]] = [(-1.0, 0, ())]
        grown: list[tuple[tuple[int, float], ...]] = []
        made = 0  # of equal chances, the first made goes first
        while heap and len(grown) < self.nodes:
            negative, _, path = heappop(heap)
            if path:
                grown.append(path)
                if path[-1][0] == EOS:
                    continue
            for token, log_prob in predicted[len(path)] if len(path) < len(predicted) else ():
                share = exp(log_prob)
                if -negative * share >= self.MIN_CHANCE:
                    made += 1
                    heappush(heap, (negative * share, made, (*path, (token, share))))
        return grown
