"""The prefix-tree session: every prefix is run through the decoder once, whoever asks for it, in whatever order.

Per query there is a tree of prefixes. A node is one token in one place; its keys and values stay in a slot of the cache.
In a pass, all new nodes of a query form one row with a mask under which each sees its ancestors and itself, with its depth
as position; queries are the batch. So drafts and beams share what they have in common, and the encoder's output is
neither copied nor recomputed.

Shapes: B queries, N new nodes of the widest query, C slots of the cache, k candidates kept per node.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from chemspec.tokenizer import BOS
from chemspec.types import Prefix, Scores

Ints = NDArray[np.int64]
Floats = NDArray[np.floating]


class Runner(Protocol):
    """The device side of one session: the encoder's output, the cache, and the pass. Slots are the session's concern."""

    def run(
        self, tokens: Ints, depths: Ints, sees: NDArray[np.bool_], starts: Ints
    ) -> tuple[Ints, Floats]:
        """Compute new nodes and keep their keys and values.

        Args:
            tokens, depths: (B, N), right-padded.
            sees: (B, N, C + N); the cached slots and the new nodes that each node attends to.
            starts: (B,) slot of each query's first new node; the others follow.

        Returns:
            The k best next tokens of every node and their log-probs, best first, ties by id; both (B, N, k).
        """

    def reserve(self, slots: int) -> None:
        """Make room for at least so many slots."""

    def keep_queries(self, rows: Sequence[int]) -> None:
        """Forget all queries but these, which are numbered anew in this order."""

    def keep_slots(self, row: int, slots: Ints) -> None:
        """Move these slots of a query to the front, in this order."""


class Backend(Protocol):
    """A loaded model on a device; shared, immutable."""

    def open(self, sources: Sequence[Sequence[int]], *, top_k: int) -> Runner:
        """Encode the sources and start an empty cache for them."""


class _Tree:
    """One query's nodes: which slot each prefix has, and which slots each slot sees (its ancestors and itself)."""

    def __init__(self) -> None:
        self.slots: dict[Prefix, int] = {}
        self.needed = 0  # nodes left by the last compaction
        self.sees = np.zeros((64, 64), dtype=np.bool_)

    def reserve(self, count: int) -> None:
        if count > len(self.sees):
            wider = np.zeros((2 * count, 2 * count), dtype=np.bool_)
            wider[: len(self.sees), : len(self.sees)] = self.sees
            self.sees = wider

    def add(self, prefixes: Sequence[Prefix]) -> int:
        """Give new prefixes, parents first, the next slots; returns the first of them."""
        start = len(self.slots)
        self.reserve(start + len(prefixes))
        for slot, prefix in enumerate(prefixes, start):
            parent = self.slots.get(prefix[:-1])
            if parent is not None:
                self.sees[slot] = self.sees[parent]
            self.sees[slot, slot] = True
            self.slots[prefix] = slot
        return start

    def compact(self, wanted: Sequence[Prefix]) -> Ints | None:
        """Drop what is neither ancestor nor descendant of `wanted`; returns the old slots kept, in their new order."""
        live = np.zeros(len(self.slots), dtype=np.bool_)
        found = [self._deepest(prefix) for prefix in wanted]
        for slot in found:
            live |= self.sees[slot, : len(live)]
        below = self.sees[: len(live)][:, sorted(set(found))].any(axis=1)
        kept = np.flatnonzero(live | below)
        if len(kept) == len(live):
            return None
        renumbered = {int(old): new for new, old in enumerate(kept)}
        self.slots = {
            prefix: renumbered[slot] for prefix, slot in self.slots.items() if slot in renumbered
        }
        sees = np.zeros_like(self.sees)
        sees[: len(kept), : len(kept)] = self.sees[np.ix_(kept, kept)]
        self.sees = sees
        return kept

    def _deepest(self, prefix: Prefix) -> int:
        while prefix not in self.slots:
            prefix = prefix[:-1]
        return self.slots[prefix]


class Session:
    """Scores prefixes of several queries, batched, each prefix once; queries are known by their numbers."""

    # A query may keep so many dead nodes, plus so many for every prefix asked for, before they are cleared away: that costs
    # about as much as a small pass, while a dead node costs the others one product each.
    SLACK, SLACK_EACH = 48, 6

    # Rows of finished queries are carried along until so small a share of them is alive: moving the
    # others together copies their whole cache.
    ALIVE = 0.75

    def __init__(self, backend: Backend, sources: Sequence[Sequence[int]], *, top_k: int) -> None:
        self.runner = backend.open(sources, top_k=top_k)
        self.width = len(sources)  # rows of the runner
        self.places = {query: query for query in range(len(sources))}  # query -> row of the runner
        self.trees = {query: _Tree() for query in self.places}

    @property
    def rows(self) -> list[int]:
        """The queries still here, in order."""
        return list(self.places)

    def score(self, asked: Sequence[Sequence[Prefix]]) -> list[dict[Prefix, Scores]]:
        """Run prefixes through the model in one pass.

        Args:
            asked: for every query still here, in order of `rows`, prefixes from bos on. Ancestors that the
                cache lacks are added; prefixes that it holds are not wanted here (their scores have been
                given out).

        Returns:
            For every query, the scores of all nodes computed for it.
        """
        fresh = [self._missing(query, part) for query, part in zip(self.places, asked, strict=True)]
        width = max(map(len, fresh))
        starts = np.zeros(self.width, dtype=np.int64)
        for query, row in self.places.items():
            starts[row] = len(self.trees[query].slots)
        used = int(starts.max())
        tokens = np.zeros((self.width, width), dtype=np.int64)
        depths = np.zeros((self.width, width), dtype=np.int64)
        sees = np.zeros((self.width, width, used + width), dtype=np.bool_)
        # Padding sees itself, or softmax would divide by 0.
        sees[:, np.arange(width), used + np.arange(width)] = True
        for (query, row), prefixes in zip(self.places.items(), fresh, strict=True):
            start, count = self.trees[query].add(prefixes), len(prefixes)
            tokens[row, :count] = [prefix[-1] for prefix in prefixes]
            depths[row, :count] = [len(prefix) - 1 for prefix in prefixes]
            own = self.trees[query].sees[start : start + count]
            sees[row, :count, :start] = own[:, :start]
            sees[row, :count, used : used + count] = own[:, start : start + count]
        self.runner.reserve(used + width)
        ids, log_probs = self.runner.run(tokens, depths, sees, starts)
        return [
            {prefix: Scores(ids[row, i], log_probs[row, i]) for i, prefix in enumerate(prefixes)}
            for row, prefixes in zip(self.places.values(), fresh, strict=True)
        ]

    def _missing(self, query: int, prefixes: Iterable[Prefix]) -> list[Prefix]:
        """The prefixes and their ancestors that have no slot yet, parents first."""
        known = self.trees[query].slots
        missing: dict[Prefix, None] = {}
        for prefix in prefixes:
            assert prefix[0] == BOS, "a prefix starts with bos"
            chain = []
            while prefix and prefix not in known and prefix not in missing:
                chain.append(prefix)
                prefix = prefix[:-1]
            missing.update(dict.fromkeys(reversed(chain)))
        return list(missing)

    def drop(self, finished: Iterable[int]) -> None:
        """Forget queries; those already forgotten are no matter."""
        for query in finished:
            if query in self.places:
                del self.places[query], self.trees[query]
        if self.places and len(self.places) <= self.ALIVE * self.width:
            self.runner.keep_queries(list(self.places.values()))
            self.width = len(self.places)
            self.places = {query: row for row, query in enumerate(self.places)}

    def prune(self, wanted: dict[int, Sequence[Prefix]]) -> None:
        """Drop nodes that are neither ancestors nor descendants of what a query now asks for, if many are."""
        for query, row in self.places.items():
            tree, asked = self.trees[query], set(wanted[query])
            roots = [prefix for prefix in asked if prefix[:-1] not in asked]
            allowed = 1.5 * tree.needed + self.SLACK_EACH * len(roots) + self.SLACK
            if len(tree.slots) > allowed:
                kept = tree.compact(roots)
                tree.needed = len(tree.slots)
                if kept is not None:
                    self.runner.keep_slots(row, kept)
