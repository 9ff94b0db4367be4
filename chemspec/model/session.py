"""The prefix-tree session: every prefix is run through the decoder once, whoever asks for it, in whatever order.

Per query there is a tree of prefixes. A node is one token in one place; its keys and values stay in a slot of the
cache.
In a pass, all new nodes of a query form one row with a mask under which each sees its ancestors and itself, with its
depth
as position; queries are the batch. So drafts and beams share what they have in common, and the encoder's output is
neither copied nor recomputed.

Shapes: B queries, N new nodes of the widest query, C slots of the cache, k candidates kept per node.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from chemspec.tokenizer import BOS
from chemspec.types import Prefix, Scores

Ints = NDArray[np.int64]
Floats = NDArray[np.floating]


class Runner(Protocol):
    """The device side of one session: the encoder's output, the cache, and the pass. Slots are the session's
    concern."""

    flat: Literal[False]

    def run(self, tokens: Ints, depths: Ints, sees: NDArray[np.bool_], starts: Ints) -> tuple[Ints, Floats]:
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


class ExposesAttention(Runner, Protocol):
    """A runner that tells where some heads looked in the last pass: `looks` is (B, N, heads, S); flat: (R, heads,
    S)."""

    looks: Floats


class ExposesHiddenStates(Runner, Protocol):
    """A runner that keeps the last hidden states of the last pass: `states` is (B, N, D), on its device; flat: (R,
    D)."""

    states: Any


class FlatRunner(Protocol):
    """A runner that takes nodes in one list, finds ancestors by parents, and pays nothing for what it does not
    visit."""

    flat: Literal[True]

    def run_nodes(
        self,
        rows: Sequence[int],
        tokens: Sequence[int],
        depths: Sequence[int],
        parents: Sequence[int],
        blocks: Sequence[int] = (),
    ) -> tuple[Ints, Floats]:
        """Compute new nodes, grouped by query, each in the next slot of its query; see `native.runner`."""

    def forget(self, row: int) -> None:
        """Free what a finished query holds."""

    def keep_slots(self, row: int, slots: Ints) -> None:
        """Move these slots of a query to the front, in this order."""


class Backend(Protocol):
    """A loaded model on a device; shared, immutable."""

    def open(self, sources: Sequence[Sequence[int]], *, top_k: int) -> Runner | FlatRunner:
        """Encode the sources and start an empty cache for them."""


class PrefixTree:
    """One query's nodes: which slot each prefix has and, for runners that want masks, which slots it sees."""

    def __init__(self, *, masks: bool) -> None:
        self.slots: dict[Prefix, int] = {}  # in the order of slots
        self.needed = 0  # nodes left by the last compaction
        # (slots, slots), of each slot its ancestors and itself
        self.sees = np.zeros((64, 64), dtype=np.bool_) if masks else None

    def add(self, prefixes: Sequence[Prefix]) -> int:
        """Give new prefixes, parents first, the next slots; returns the first of them."""
        start = len(self.slots)
        for slot, prefix in enumerate(prefixes, start):
            self.slots[prefix] = slot
        if self.sees is not None:
            self._see(self.sees, prefixes, start)
        return start

    def _see(self, sees: NDArray[np.bool_], prefixes: Sequence[Prefix], start: int) -> None:
        count = start + len(prefixes)
        if count > len(sees):
            self.sees = np.zeros((2 * count, 2 * count), dtype=np.bool_)
            self.sees[: len(sees), : len(sees)] = sees
            sees = self.sees
        for slot, prefix in enumerate(prefixes, start):
            parent = self.slots.get(prefix[:-1])
            if parent is not None:
                sees[slot] = sees[parent]
            sees[slot, slot] = True

    def compact(self, wanted: Sequence[Prefix]) -> Ints | None:
        """Drop what is neither ancestor nor descendant of `wanted`; returns the old slots kept, in their new order."""
        near: set[Prefix] = set()
        for prefix in wanted:
            while prefix and prefix not in near:
                near.add(prefix)
                prefix = prefix[:-1]
        below = set(wanted)
        for prefix in self.slots:  # parents first
            if prefix[:-1] in below:
                below.add(prefix)
        near |= below
        kept = np.array([slot for prefix, slot in self.slots.items() if prefix in near], dtype=np.int64)
        if len(kept) == len(self.slots):
            return None
        left = [prefix for prefix in self.slots if prefix in near]
        self.slots = {prefix: slot for slot, prefix in enumerate(left)}
        if self.sees is not None:
            sees = np.zeros_like(self.sees)
            sees[: len(kept), : len(kept)] = self.sees[np.ix_(kept, kept)]
            self.sees = sees
        return kept


class Session:
    """Scores prefixes of several queries, batched, each prefix once; queries are known by their numbers."""

    # A query may keep so many dead nodes, plus so many for every prefix asked for and half as many as the last clearing
    # left,
    # before they are cleared away: that costs about as much as a small pass, while a dead node costs the others one
    # product each.
    SLACK, SLACK_EACH = 48, 6

    # For a runner that visits ancestors only, dead nodes cost memory and nothing else.
    SLACK_FLAT = 2000

    # Rows of finished queries are carried along until so small a share of them is alive: moving the
    # others together copies their whole cache.
    ALIVE = 0.75

    def __init__(
        self,
        backend: Backend,
        sources: Sequence[Sequence[int]],
        *,
        top_k: int,
        heads: Sequence[tuple[int, int]] = (),
        states: bool = False,
    ) -> None:
        """Open a session.

        Args:
            heads: layer and number of the heads of the cross-attention that `look` tells of; the backend's
                `open` must know them.
            states: keep the last hidden state of every node for `state`; likewise.
        """
        wanted: dict[str, Any] = {"heads": heads} if heads else {}
        if states:
            wanted["states"] = True
        self.runner = backend.open(sources, top_k=top_k, **wanted)
        self.sources = [tuple(source) for source in sources] if heads or states else []
        self._seen: dict[tuple[tuple[int, ...], Prefix], Floats] = {}
        self._looks, self._keeps = bool(heads), states
        self._states: dict[tuple[tuple[int, ...], Prefix], Any] = {}
        self.width = len(sources)  # rows of the runner
        self.places = {query: query for query in range(len(sources))}  # query -> row of the runner
        self.trees = {query: PrefixTree(masks=not self.runner.flat) for query in self.places}

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
        return self._score_flat(fresh) if self.runner.flat else self._score_padded(fresh)

    def _score_flat(self, fresh: Sequence[Sequence[Prefix]]) -> list[dict[Prefix, Scores]]:
        runner = self.runner
        assert runner.flat
        rows: list[int] = []
        tokens: list[int] = []
        depths: list[int] = []
        parents: list[int] = []
        for (query, row), prefixes in zip(self.places.items(), fresh, strict=True):
            tree = self.trees[query]
            tree.add(prefixes)
            rows += [row] * len(prefixes)
            tokens += [prefix[-1] for prefix in prefixes]
            depths += [len(prefix) - 1 for prefix in prefixes]
            parents += [tree.slots.get(prefix[:-1], -1) for prefix in prefixes]
        ids, log_probs = (part.tolist() for part in runner.run_nodes(rows, tokens, depths, parents))
        if self._keeps:
            self._note(self._states, fresh, cast(Any, runner).states)
        if self._looks:
            self._note(self._seen, fresh, cast(Any, runner).looks)
        scored, start = [], 0
        for prefixes in fresh:
            stop = start + len(prefixes)
            best = map(Scores, ids[start:stop], log_probs[start:stop])
            scored.append(dict(zip(prefixes, best, strict=True)))
            start = stop
        return scored

    def _note(
        self, what: dict[tuple[tuple[int, ...], Prefix], Any], fresh: Sequence[Sequence[Prefix]], found: Iterable[Any]
    ) -> None:
        values = iter(found)
        for query, prefixes in zip(self.places, fresh, strict=True):
            for prefix in prefixes:
                what[self.sources[query], prefix] = next(values)

    def _score_padded(self, fresh: Sequence[Sequence[Prefix]]) -> list[dict[Prefix, Scores]]:
        runner = self.runner
        assert not runner.flat
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
            seen = self.trees[query].sees
            assert seen is not None
            own = seen[start : start + count]
            sees[row, :count, :start] = own[:, :start]
            sees[row, :count, used : used + count] = own[:, start : start + count]
        runner.reserve(used + width)
        ids, log_probs = (part.tolist() for part in runner.run(tokens, depths, sees, starts))
        if self._keeps:
            states = cast(ExposesHiddenStates, runner).states
            for (query, row), prefixes in zip(self.places.items(), fresh, strict=True):
                for node, prefix in enumerate(prefixes):
                    self._states[self.sources[query], prefix] = states[row, node]
        if self._looks:
            looks = cast(ExposesAttention, runner).looks
            for (query, row), prefixes in zip(self.places.items(), fresh, strict=True):
                for prefix, look in zip(prefixes, looks[row], strict=False):
                    self._seen[self.sources[query], prefix] = look
        return [
            dict(zip(prefixes, map(Scores, ids[row], log_probs[row]), strict=False))  # then padding
            for row, prefixes in zip(self.places.values(), fresh, strict=True)
        ]

    def look(self, source: tuple[int, ...], prefix: Prefix) -> list[list[float]] | None:
        """The attention of each head, by layer and number, to each token of `source` after a prefix that was
        computed."""
        seen = self._seen.get((source, prefix))
        return None if seen is None else seen.tolist()

    def state(self, source: tuple[int, ...], prefix: Prefix) -> Any | None:
        """The last hidden state (D,) after a prefix that was computed, as the runner keeps it (a tensor or an
        array)."""
        return self._states.get((source, prefix))

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
                if self.runner.flat:
                    self.runner.forget(self.places[query])
                del self.places[query], self.trees[query]
        if not self.runner.flat and self.places and len(self.places) <= self.ALIVE * self.width:
            self.runner.keep_queries(list(self.places.values()))
            self.width = len(self.places)
            self.places = {query: row for row, query in enumerate(self.places)}

    def prune(self, wanted: dict[int, Sequence[Prefix]]) -> None:
        """Drop nodes that are neither ancestors nor descendants of what a query now asks for, if many are."""
        times, slack, each = (2.0, self.SLACK_FLAT, 0) if self.runner.flat else (1.5, self.SLACK, self.SLACK_EACH)
        for query, row in self.places.items():
            tree = self.trees[query]
            allowed = times * tree.needed + slack
            if len(tree.slots) <= allowed:
                continue
            asked = set(wanted[query])
            roots = [prefix for prefix in asked if prefix[:-1] not in asked]
            if len(tree.slots) > allowed + each * len(roots):
                kept = tree.compact(roots)
                tree.needed = len(tree.slots)
                if kept is not None:
                    self.runner.keep_slots(row, kept)
