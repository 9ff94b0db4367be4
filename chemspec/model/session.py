"""The prefix-tree session: a prefix in the cache is not computed again, whoever asks for it and in whatever order.

A query has a tree of prefixes. A node of it is one token at one depth, attends to its ancestors and itself, and keeps
its keys and values in a slot of the cache. Drafts and beams share the nodes that they have in common, and the
encoder's output is neither copied nor computed again. What was cleared away (`compact`) is computed again if asked
for later, with the same result.

A node is known by its whole prefix, a tuple of token ids: simple, but a step costs O(length) per node to copy and hash
it. The compiled loop numbers its nodes instead (`decode/compiled/node_tree.h`) and leaves this tree empty.

The session knows prefixes and slots; a `Runner` knows tensors, and the mask by which a node attends to its ancestors
only (`runners/padded.py`; the compiled kernel walks them instead). Between them go flat lists of nodes (`NodeBatch`).

Shapes: R new nodes of a pass, k candidates kept per node, H watched attention heads, S source tokens, D model width.
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
    """The new nodes of one pass as columns of R entries, grouped by query, parents before their children.

    Attributes:
        queries: number of each node's query.
        tokens: its token id.
        depths: its position in the prefix; 0 for bos.
        parents: slot of its parent in the query's cache, or -1 for bos. A new node takes its query's next slot.
        blocks: empty, or one entry a node: -1 for an ordinary node, else the number of a block of mask tokens. Only the
            Spec-Drafter uses it: its decoder fills k masks after a prefix at once, and runs on the same cached prefixes
            through the same runners. The masks of a query follow its nodes, block by block. A mask attends to its whole
            block, to its parent and to its parent's ancestors, and leaves nothing in the cache.
    """

    queries: list[int] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    depths: list[int] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    blocks: list[int] = field(default_factory=list)

    def add(self, query: int, tree: PrefixTree, prefixes: Sequence[Prefix]) -> None:
        """Append prefixes that are new to a tree, parents first, and give them its next slots."""
        tree.add(prefixes)
        self.queries += [query] * len(prefixes)
        self.tokens += [prefix[-1] for prefix in prefixes]
        self.depths += [len(prefix) - 1 for prefix in prefixes]
        self.parents += [tree.slots.get(prefix[:-1], -1) for prefix in prefixes]


class ScoresError(ValueError):
    """The model's scores are no numbers: no search can rank by them, and none may pretend to."""

    def __init__(self) -> None:
        super().__init__("the model's scores for this query are infinite or undefined; its weights cannot be trusted")


class CompactionThreshold(NamedTuple):
    """How many nodes a query's cache may hold before it is compacted.

    A node is unreachable if it is neither an ancestor nor a descendant of a requested prefix. The cache is compacted,
    which drops these, once it holds more than `factor * kept + fixed + per_root * roots` nodes: `kept` are the nodes
    that the last compaction left, `roots` the requested prefixes whose parents are not requested too.
    """

    factor: float
    fixed: int
    per_root: int


# For runners whose attention covers all slots and masks most: an unreachable node adds to the work of every pass, and a
# compaction costs about as much as a small pass.
DENSE = CompactionThreshold(1.5, 48, 6)

# For runners whose attention visits ancestors only: an unreachable node costs memory and nothing else.
SPARSE = CompactionThreshold(2.0, 2000, 0)


class Runner(Protocol):
    """The device side of one session: the encoder's output, the cache of keys and values, and the pass.

    Attributes:
        compaction_threshold: from when on unreachable nodes cost more than their removal.
        attention: cross-attention of the last pass (R, H, S), heads ordered by layer and number, without bos and eos;
            if `open` was given heads.
        hidden_states: last hidden states of the last pass (R, D), on the runner's device; if `open` was told so.
    """

    compaction_threshold: CompactionThreshold
    attention: Floats | None
    hidden_states: Any

    def run(self, nodes: NodeBatch) -> tuple[Ints, Floats]:
        """Compute new nodes and keep their keys and values.

        Returns:
            The k best next tokens of every node and their log-probs, best first, ties by id; both (R, k).
        """

    def release(self, query: int) -> None:
        """Free what a finished query holds."""

    def compact(self, query: int, slots: Ints) -> None:
        """Move these slots of a query to the front, in this order, and free its others.

        They are ascending, and hold the parent of every slot among them: the compiled kernel moves them in place.
        """


class DeferredRunner(Runner, Protocol):
    """A runner on a device that computes while the host goes on."""

    def start(self, nodes: NodeBatch) -> Callable[[], tuple[Ints, Floats]]:
        """Let new nodes be computed; returns what waits for them and returns what `Runner.run` does.

        It is called before the next pass of this session is started; other sessions' may be started meanwhile.
        """


class JoinableRunner(Runner, Protocol):
    """A runner that takes on queries while others are under way."""

    def join(self, sources: Sequence[Sequence[int]]) -> None:
        """Encode more sources; they get the numbers after the last one's, for no number is given twice."""


class AddressRunner(Runner, Protocol):
    """A runner that compiled code feeds: nothing is copied on the way to the pass and back."""

    def run_at(self, columns: int, count: int) -> tuple[int, int, int]:
        """Compute new nodes, as `Runner.run` does.

        Args:
            columns: address of their queries, tokens, depths and parents, (4, R) in 32 bits.
            count: R.

        Returns:
            Addresses of ids and log-probs, both (R, k) in 32 bits, which are good until the next pass; and k.
        """


class KernelPass(NamedTuple):
    """A pass that compiled code may call itself: `chemspec_run` of `runners/native/kernel.cpp`, or what takes the same.

    Attributes:
        function: its address.
        session: its first argument.
        top_k: candidates kept per node.
    """

    function: int
    session: int
    top_k: int


class KernelRunner(AddressRunner, Protocol):
    """A runner whose passes compiled code may do in a row, without coming back to Python."""

    kernel_pass: KernelPass


class Backend(Protocol):
    """A loaded model on a device; shared, immutable."""

    def open(self, sources: Sequence[Sequence[int]], *, top_k: int) -> Runner:
        """Encode the sources, numbered from 0, and start an empty cache for each.

        Backends of this project's own models also take `heads`, (layer, head) of the cross-attention to watch, and
        `states`, whether to keep the last hidden states. They are not part of the protocol, because a backend of
        foreign models or an exported graph has neither; `Session` passes them on only where a drafter needs them.
        """


class PrefixTree:
    """The prefixes of one query that are in the cache, and their slots."""

    def __init__(self) -> None:
        self.slots: dict[Prefix, int] = {}  # in the order of slots
        self.kept = 0  # nodes left by the last compaction

    def add(self, prefixes: Iterable[Prefix]) -> None:
        """Give new prefixes, parents first, the next slots."""
        for slot, prefix in enumerate(prefixes, len(self.slots)):
            self.slots[prefix] = slot

    def missing(self, prefixes: Iterable[Prefix]) -> list[Prefix]:
        """Return those of the prefixes and their ancestors that have no slot yet, parents first."""
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
        """Remove the unreachable nodes: all but the ancestors and descendants of `requested`.

        Returns:
            The old slots of the nodes left, ascending, parents included; None if none was unreachable.
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
    """Scores prefixes of several queries, batched; queries are known by their numbers.

    Nodes are entered in the trees before the pass, so after an exception in it the session must not be used further.

    Attributes:
        trees: the prefix tree of every query that is not finished, by its number.
    """

    def __init__(
        self,
        backend: Backend,
        sources: Sequence[Sequence[int]],
        *,
        top_k: int,
        heads: Sequence[tuple[int, int]] = (),
        states: bool = False,
    ) -> None:
        """Encode the sources.

        Args:
            backend: the model.
            sources: token ids of every query.
            top_k: candidates kept per prefix.
            heads: (layer, head) of the cross-attention that `attention` is to return; the backend must support it.
            states: whether to keep the last hidden state of every node for `hidden_state`; likewise.
        """
        options: dict[str, Any] = {"heads": heads} if heads else {}
        if states:
            options["states"] = True
        self.runner = backend.open(sources, top_k=top_k, **options)
        self.compaction_threshold = self.runner.compaction_threshold
        self.trees = {query: PrefixTree() for query in range(len(sources))}
        self._sources = [tuple(source) for source in sources]
        # Kept as long as the session: small beside keys and values, and a drafter may ask about any prefix.
        self._attention: dict[tuple[Source, Prefix], Floats] | None = {} if heads else None
        self._hidden_states: dict[tuple[Source, Prefix], Any] | None = {} if states else None

    @property
    def is_plain(self) -> bool:
        """Whether it is new and has no views: then others may keep the trees, and drive the runner."""
        views = self._attention is not None or self._hidden_states is not None
        return type(self) is Session and not views and not any(tree.slots for tree in self.trees.values())

    @property
    def queries(self) -> list[int]:
        """The numbers of the queries that are not finished, rising."""
        return list(self.trees)

    @property
    def can_join(self) -> bool:
        """Whether it takes on queries while others are under way."""
        return hasattr(self.runner, "join")

    def join(self, sources: Sequence[Sequence[int]]) -> None:
        """Encode more sources, if it `can_join`; their queries get the numbers after the last one's."""
        cast(JoinableRunner, self.runner).join(sources)
        first = len(self._sources)
        self._sources += [tuple(source) for source in sources]
        self.trees.update((query, PrefixTree()) for query in range(first, len(self._sources)))

    def new_nodes(self, requested: Sequence[Sequence[Prefix]]) -> tuple[NodeBatch, list[list[Prefix]]]:
        """Enter prefixes and ancestors that the cache lacks into the trees: as nodes to be run now, and by query."""
        nodes, entered = NodeBatch(), []
        for (query, tree), prefixes in zip(self.trees.items(), requested, strict=True):
            missing = tree.missing(prefixes)
            nodes.add(query, tree, missing)
            entered.append(missing)
        return nodes, entered

    def score(self, requested: Sequence[Sequence[Prefix]]) -> list[dict[Prefix, Scores]]:
        """Run prefixes through the model in one pass.

        Args:
            requested: for every query in `queries`, prefixes from bos on. Ancestors that the cache lacks are added;
                prefixes that it holds are left out, for their scores have been returned before.

        Returns:
            For every query the scores of all nodes computed for it.

        Raises:
            ScoresError: where the best token's are not finite.
        """
        nodes, to_score = self.new_nodes(requested)
        if not nodes.tokens:
            return [{} for _ in to_score]
        ids, log_probs = (column.tolist() for column in self.runner.run(nodes))  # (R, k) each
        if not all(isfinite(best[0]) for best in log_probs):
            raise ScoresError
        if self._attention is not None or self._hidden_states is not None:
            self._keep_views(to_score)
        scored, start = [], 0
        for prefixes in to_score:
            stop = start + len(prefixes)
            scores = map(Scores, ids[start:stop], log_probs[start:stop])
            scored.append(dict(zip(prefixes, scores, strict=True)))
            start = stop
        return scored

    def _keep_views(self, scored_prefixes: Sequence[Sequence[Prefix]]) -> None:
        """Keep attention and hidden states of the last pass."""
        grouped = zip(self.trees, scored_prefixes, strict=True)
        keys = [(self._sources[query], prefix) for query, prefixes in grouped for prefix in prefixes]
        if self._attention is not None:
            assert self.runner.attention is not None
            self._attention.update(zip(keys, self.runner.attention, strict=True))
        if self._hidden_states is not None:
            self._hidden_states.update(zip(keys, self.runner.hidden_states, strict=True))

    def attention(self, source: Source, prefix: Prefix) -> list[list[float]] | None:
        """Return each watched head's attention to the source (H, S) at the last token of a computed prefix."""
        found = (self._attention or {}).get((source, prefix))
        return None if found is None else found.tolist()

    def hidden_state(self, source: Source, prefix: Prefix) -> Any | None:
        """Return the last hidden state (D,) of a computed prefix, a tensor or an array as the runner keeps it."""
        return (self._hidden_states or {}).get((source, prefix))

    def release(self, finished: Iterable[int]) -> None:
        """Free what finished queries hold; those released before are ignored."""
        for query in finished:
            if query in self.trees:
                self.runner.release(query)
                del self.trees[query]

    def compact(self, requested: dict[int, Sequence[Prefix]]) -> None:
        """Remove unreachable nodes from the caches that exceed the threshold; see `CompactionThreshold`.

        Args:
            requested: for every query to compact, the prefixes that its decoder requests now.
        """
        threshold = self.compaction_threshold
        for query, wanted in requested.items():
            tree = self.trees[query]
            limit = threshold.factor * tree.kept + threshold.fixed
            if len(tree.slots) <= limit:
                continue
            prefixes = set(wanted)
            roots = [prefix for prefix in prefixes if prefix[:-1] not in prefixes]
            if len(tree.slots) > limit + threshold.per_root * len(roots):
                slots = tree.compact(roots)
                if slots is not None:
                    self.runner.compact(query, slots)
