"""KV cache organised as a prefix tree: each prefix is computed at most once while it is cached.

Each query has a tree of prefixes. A node is one token at one depth, attends to its ancestors and itself, and stores its
keys and values in a slot of the query's KV cache. Drafts and beams share their common nodes, and the encoder's output
is computed once per query (prefill). Nodes evicted by `compact` are recomputed if requested again, with the same
result.

A node is identified by its whole prefix, a tuple of token ids: simple, but copying and hashing costs O(length) per
node. The compiled loop numbers its nodes instead (`decode/compiled/node_tree.h`) and leaves this tree empty.

The session manages prefixes and slots. A `Runner` manages tensors and restricts a node's attention to its ancestors,
by a mask (`runners/padded.py`) or by walking the tree (the compiled kernel). They exchange flat lists of nodes
(`NodeBatch`), one list per forward pass.

Shapes: R new nodes of a pass, k candidates per node, D model width.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, NamedTuple, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from chemspec.tokenizer import BOS
from chemspec.types import Prefix, Scores

Ints = NDArray[np.int64]
Floats = NDArray[np.floating]
Source = tuple[int, ...]


@dataclass
class NodeBatch:
    """The new nodes of one forward pass as columns of R entries, grouped by query, parents before their children.

    Attributes:
        queries: query number of each node.
        tokens: token ids.
        depths: positions in the prefix; 0 for bos.
        parents: slot of the parent in the query's KV cache, or -1 for bos. A new node takes its query's next slot.
        blocks: empty, or one entry per node: -1 for an ordinary node, else the number of a block of mask tokens. Used
            by the Spec-Drafter only, whose decoder fills k masks after a prefix at once, on the same KV cache and
            runners. The masks of a query follow its nodes, block by block. A mask attends to its whole block, to its
            parent and to its parent's ancestors, and is not cached.
    """

    queries: list[int] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    depths: list[int] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    blocks: list[int] = field(default_factory=list)

    def add(self, query: int, tree: PrefixTree, prefixes: Sequence[Prefix]) -> None:
        """Append new prefixes of a query, parents first, and assign them the next slots of its tree."""
        tree.add(prefixes)
        self.queries += [query] * len(prefixes)
        self.tokens += [prefix[-1] for prefix in prefixes]
        self.depths += [len(prefix) - 1 for prefix in prefixes]
        self.parents += [tree.slots.get(prefix[:-1], -1) for prefix in prefixes]


class ScoresError(ValueError):
    """The model's scores are infinite or undefined, so no search can rank by them."""

    def __init__(self) -> None:
        super().__init__("the model's scores for this query are infinite or undefined; its weights cannot be trusted")


class CompactionThreshold(NamedTuple):
    """Number of nodes in a query's KV cache above which it is compacted.

    A node is unreachable if it is neither an ancestor nor a descendant of a requested prefix. The cache is compacted,
    which evicts these, once it holds more than `factor * kept + fixed + per_root * roots` nodes: `kept` is the number
    of nodes after the last compaction, `roots` that of requested prefixes whose parents are not requested too.
    """

    factor: float
    fixed: int
    per_root: int


# For runners that compute attention over all slots and mask: an unreachable node costs time in every pass, and a
# compaction costs about as much as a small pass.
DENSE = CompactionThreshold(1.5, 48, 6)

# For runners whose attention visits ancestors only: an unreachable node costs memory only.
SPARSE = CompactionThreshold(2.0, 2000, 0)


class Runner(Protocol):
    """The device side of one session: the encoder's output, the KV cache and the forward pass.

    Attributes:
        compaction_threshold: number of nodes above which evicting unreachable ones pays.
        hidden_states: last hidden states of the last pass (R, D), on the runner's device; None unless requested in
            `open`.
    """

    compaction_threshold: CompactionThreshold
    hidden_states: Any

    def run(self, nodes: NodeBatch) -> tuple[Ints, Floats]:
        """Run the forward pass of new nodes and cache their keys and values.

        Returns:
            The k best next tokens of every node and their log-probs, best first, ties by id; both (R, k).
        """

    def release(self, query: int) -> None:
        """Free the memory of a finished query."""

    def compact(self, query: int, slots: Ints) -> None:
        """Move these slots of a query to the front, in this order, and free its others.

        The slots are ascending and include the parent of each: the compiled kernel moves them in place.
        """


class DeferredRunner(Runner, Protocol):
    """A runner on a device that computes asynchronously."""

    def start(self, nodes: NodeBatch) -> Callable[[], tuple[Ints, Floats]]:
        """Launch the forward pass of new nodes; returns a function that waits for the result of `Runner.run`.

        That function is called before the session launches its next pass; other sessions may launch passes in between.
        """


class JoinableRunner(Runner, Protocol):
    """A runner that can add queries between passes (continuous batching)."""

    def join(self, sources: Sequence[Sequence[int]]) -> None:
        """Encode more sources (prefill); they get the next query numbers, and numbers are never reused."""


class AddressRunner(Runner, Protocol):
    """A runner with a zero-copy interface for compiled code."""

    def run_at(self, columns: int, count: int) -> tuple[int, int, int]:
        """Run the forward pass of new nodes, as `Runner.run` does.

        Args:
            columns: address of their queries, tokens, depths and parents, (4, R) in 32 bits.
            count: R.

        Returns:
            Addresses of ids and log-probs, both (R, k) in 32 bits, valid until the next pass; and k.
        """


class KernelPass(NamedTuple):
    """Forward pass as a C function: `chemspec_run` of `runners/native/kernel.cpp`, or one with the same signature.

    A runner whose forward pass compiled code can call without returning to Python has one as `kernel_pass`.

    Attributes:
        function: address of the function.
        session: its first argument.
        top_k: candidates per node.
    """

    function: int
    session: int
    top_k: int


class Backend(Protocol):
    """A loaded model on a device; shared, immutable."""

    def open(self, sources: Sequence[Sequence[int]], *, top_k: int) -> Runner:
        """Encode the sources, numbered from 0, and start an empty cache for each.

        Backends of `Transformer` models also take `states`, whether to return the last hidden states. It is not part of
        the protocol, because exported graphs have none; `Session` passes it only if a drafter needs them.
        """


class PrefixTree:
    """The cached prefixes of one query, and their slots."""

    def __init__(self) -> None:
        self.slots: dict[Prefix, int] = {}  # in the order of slots
        self.kept = 0  # nodes left by the last compaction

    def add(self, prefixes: Iterable[Prefix]) -> None:
        """Assign the next slots to new prefixes, parents first."""
        for slot, prefix in enumerate(prefixes, len(self.slots)):
            self.slots[prefix] = slot

    def missing(self, prefixes: Iterable[Prefix]) -> list[Prefix]:
        """Return the prefixes and ancestors that are not cached yet, parents first."""
        missing: dict[Prefix, None] = {}
        for prefix in prefixes:
            assert prefix[0] == BOS, "a prefix starts with bos"
            chain = []
            while prefix and prefix not in self.slots and prefix not in missing:
                chain.append(prefix)
                prefix = prefix[:-1]
            missing.update(dict.fromkeys(reversed(chain)))
        return list(missing)

    def compact(self, requested: Sequence[Prefix]) -> Ints | None:
        """Evict the unreachable nodes: all but the ancestors and descendants of `requested`.

        Returns:
            The old slots of the remaining nodes, ascending, parents included; None if no node was unreachable.
        """
        ancestors: set[Prefix] = set()
        for prefix in requested:
            while prefix and prefix not in ancestors:
                ancestors.add(prefix)
                prefix = prefix[:-1]
        descendants = set(requested)
        for prefix in self.slots:  # parents first
            if prefix[:-1] in descendants:
                descendants.add(prefix)
        reachable = ancestors | descendants
        keep = {prefix: slot for prefix, slot in self.slots.items() if prefix in reachable}
        self.kept = len(keep)
        if len(keep) == len(self.slots):
            return None
        self.slots = {prefix: slot for slot, prefix in enumerate(keep)}
        return np.fromiter(keep.values(), dtype=np.int64)


class Session:
    """Scores prefixes of a batch of queries; queries are identified by their numbers.

    Nodes are added to the trees before the forward pass, so a session must not be used after a pass has failed.

    Attributes:
        trees: prefix tree of every unfinished query, by query number.
    """

    def __init__(self, backend: Backend, sources: Sequence[Sequence[int]], *, top_k: int, states: bool = False) -> None:
        """Encode the sources (prefill).

        Args:
            backend: the model.
            sources: token ids of every query.
            top_k: candidates per prefix.
            states: whether `hidden_state` returns the last hidden state of every node; the backend must support it.
        """
        options: dict[str, Any] = {"states": True} if states else {}
        self.runner = backend.open(sources, top_k=top_k, **options)
        self.compaction_threshold = self.runner.compaction_threshold
        self.trees = {query: PrefixTree() for query in range(len(sources))}
        self._sources = [tuple(source) for source in sources]
        # Stored as long as the session: much smaller than the KV cache, and a drafter may read any prefix.
        self._hidden_states: dict[tuple[Source, Prefix], Any] | None = {} if states else None

    @property
    def is_plain(self) -> bool:
        """Whether the session is unused and returns no extra outputs, so that compiled code can drive its runner."""
        plain = type(self) is Session and self._hidden_states is None
        return plain and not any(tree.slots for tree in self.trees.values())

    @property
    def queries(self) -> list[int]:
        """The numbers of the unfinished queries, ascending."""
        return list(self.trees)

    @property
    def can_join(self) -> bool:
        """Whether queries can be added between passes."""
        return hasattr(self.runner, "join")

    def join(self, sources: Sequence[Sequence[int]]) -> None:
        """Encode more sources, which get the next query numbers; requires `can_join`."""
        cast(JoinableRunner, self.runner).join(sources)
        first = len(self._sources)
        self._sources += [tuple(source) for source in sources]
        self.trees.update((query, PrefixTree()) for query in range(first, len(self._sources)))

    def new_nodes(self, requested: Sequence[Sequence[Prefix]]) -> tuple[NodeBatch, list[list[Prefix]]]:
        """Add uncached prefixes and ancestors to the trees; returns them as nodes to compute, and by query."""
        nodes, entered = NodeBatch(), []
        for (query, tree), prefixes in zip(self.trees.items(), requested, strict=True):
            missing = tree.missing(prefixes)
            nodes.add(query, tree, missing)
            entered.append(missing)
        return nodes, entered

    def score(self, requested: Sequence[Sequence[Prefix]]) -> list[dict[Prefix, Scores]]:
        """Score prefixes in one forward pass.

        Args:
            requested: for every query in `queries`, prefixes starting with bos. Uncached ancestors are added; cached
                prefixes are skipped, since their scores have been returned before.

        Returns:
            For every query the scores of all nodes computed for it.

        Raises:
            ScoresError: if the score of a best token is not finite.
        """
        nodes, to_score = self.new_nodes(requested)
        if not nodes.tokens:
            return [{} for _ in to_score]
        ids, log_probs = (column.tolist() for column in self.runner.run(nodes))  # (R, k) each
        if not all(isfinite(best[0]) for best in log_probs):
            raise ScoresError
        if self._hidden_states is not None:
            grouped = zip(self.trees, to_score, strict=True)
            keys = [(self._sources[query], prefix) for query, prefixes in grouped for prefix in prefixes]
            self._hidden_states.update(zip(keys, self.runner.hidden_states, strict=True))
        scored, start = [], 0
        for prefixes in to_score:
            stop = start + len(prefixes)
            scores = map(Scores, ids[start:stop], log_probs[start:stop])
            scored.append(dict(zip(prefixes, scores, strict=True)))
            start = stop
        return scored

    def hidden_state(self, source: Source, prefix: Prefix) -> Any | None:
        """Return the last hidden state (D,) of a computed prefix, a tensor or an array depending on the runner."""
        return (self._hidden_states or {}).get((source, prefix))

    def release(self, finished: Iterable[int]) -> None:
        """Free the memory of finished queries; released ones are ignored."""
        for query in finished:
            if query in self.trees:
                self.runner.release(query)
                del self.trees[query]

    def compact(self, requested: dict[int, Sequence[Prefix]]) -> None:
        """Evict unreachable nodes from KV caches that exceed their `CompactionThreshold`.

        Args:
            requested: for every query to compact, the prefixes that its decoder currently requests.
        """
        threshold = self.compaction_threshold
        for query, query_prefixes in requested.items():
            tree = self.trees[query]
            limit = threshold.factor * tree.kept + threshold.fixed
            if len(tree.slots) <= limit:
                continue
            prefixes = set(query_prefixes)
            roots = [prefix for prefix in prefixes if prefix[:-1] not in prefixes]
            if len(tree.slots) > limit + threshold.per_root * len(roots):
                slots = tree.compact(roots)
                if slots is not None:
                    self.runner.compact(query, slots)
