"""KV cache organised as a prefix tree: each prefix is computed at most once while it is cached.

Each query has a tree of prefixes. A node is one token at one depth, attends to its ancestors and itself, and stores its
keys and values in a slot of the query's KV cache. Drafts and beams share their common nodes, and the encoder's output
is computed once per query (prefill). Evicted nodes are recomputed if requested again, with the same result.

A node is identified by its whole prefix, a tuple of token ids: simple, but copying and hashing costs O(length) per
node. The compiled loop numbers its nodes instead (`decode/compiled/node_tree.h`) and uses `EncodedQueries` alone.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from math import isfinite
from typing import Any

import numpy as np

from chemspec.model.runner import Backend, Ints, NodeBatch, Runner
from chemspec.tokenizer import BOS
from chemspec.types import Prefix, Scores, SourceIds


class ScoresError(ValueError):
    """The model's scores are infinite or undefined, so no search can rank by them."""

    def __init__(self, queries: Sequence[int] = ()) -> None:
        """Create the error of the queries with these numbers."""
        self.queries = tuple(queries)
        super().__init__("the model's scores for this query are infinite or undefined; its weights cannot be trusted")


class PrefixTree:
    """The cached prefixes of one query, and their slots."""

    def __init__(self) -> None:
        self.slots: dict[Prefix, int] = {}  # prefixes in the order of slots
        self.kept = 0  # nodes left by the last compaction

    def add_to_batch(self, nodes: NodeBatch, query: int, prefixes: Sequence[Prefix]) -> None:
        """Assign the next slots to new prefixes, parents first, and append them to the nodes of a pass."""
        self.slots |= {prefix: slot for slot, prefix in enumerate(prefixes, len(self.slots))}
        nodes.queries += [query] * len(prefixes)
        nodes.tokens += [prefix[-1] for prefix in prefixes]
        nodes.depths += [len(prefix) - 1 for prefix in prefixes]
        nodes.parents += [self.slots.get(prefix[:-1], -1) for prefix in prefixes]

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
        """Evict all but the ancestors and descendants of `requested`.

        Returns the old slots of the remaining nodes, ascending, parents included; None if no node was unreachable.
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


class EncodedQueries:
    """Queries in a runner's memory: numbered in the order in which they were encoded, unfinished until released.

    This is all that the compiled loop needs, which has a tree of its own.
    """

    def __init__(self, runner: Runner, sources: Sequence[Sequence[int]]) -> None:
        """Number the sources, token ids of every query, for which the runner was opened."""
        self.runner = runner
        self.compaction_threshold = runner.compaction_threshold
        self.sources: dict[int, SourceIds] = {}  # token ids of the unfinished queries by their numbers, ascending
        self._count = 0  # queries so far
        self._number(sources)

    def _number(self, sources: Sequence[Sequence[int]]) -> range:
        numbers = range(self._count, self._count + len(sources))
        self.sources.update(zip(numbers, map(tuple, sources), strict=True))
        self._count = numbers.stop
        return numbers

    @property
    def queries(self) -> list[int]:
        """The numbers of the unfinished queries, ascending."""
        return list(self.sources)

    def join(self, sources: Sequence[Sequence[int]]) -> range:
        """Encode more sources, which get the next query numbers; returns these. Requires `Runner.can_join`."""
        self.runner.join(sources)
        return self._number(sources)

    def release(self, finished: Iterable[int]) -> None:
        """Free the memory of finished queries; released ones are ignored."""
        for query in finished:
            if query in self.sources:
                self.runner.release(query)
                del self.sources[query]


class Session(EncodedQueries):
    """Scores prefixes of a batch of queries, and keeps them in one `PrefixTree` per query.

    Nodes are added to the trees before the forward pass, so a session must not be used after a pass has failed.
    """

    def __init__(self, backend: Backend, sources: Sequence[Sequence[int]], *, top_k: int, states: bool = False) -> None:
        """Encode the sources, token ids of every query (prefill); `top_k` are the candidates per prefix.

        With `states`, `hidden_state` returns the last hidden state of every node; the backend must support it.
        """
        options: dict[str, Any] = {"states": True} if states else {}
        super().__init__(backend.open(sources, top_k=top_k, **options), sources)
        self.trees: defaultdict[int, PrefixTree] = defaultdict(PrefixTree)  # of the queries that were scored
        # Stored as long as the session: much smaller than the KV cache, and a drafter may read any prefix.
        self._hidden_states: dict[tuple[SourceIds, Prefix], Any] | None = {} if states else None

    @property
    def is_plain(self) -> bool:
        """Whether nothing was scored and there are no extra outputs, so that compiled code can drive the runner."""
        return self._hidden_states is None and not self.trees

    def new_nodes(self, requested: Sequence[Sequence[Prefix]]) -> tuple[NodeBatch, list[list[Prefix]]]:
        """Add uncached prefixes and ancestors to the trees; returns them as nodes to compute, and by query."""
        nodes, entered = NodeBatch(), []
        for query, prefixes in zip(self.sources, requested, strict=True):
            tree = self.trees[query]
            missing = tree.missing(prefixes)
            tree.add_to_batch(nodes, query, missing)
            entered.append(missing)
        return nodes, entered

    def score(self, requested: Sequence[Sequence[Prefix]]) -> list[dict[Prefix, Scores]]:
        """Score prefixes, which start with bos, for every query in `queries` in one forward pass.

        Uncached ancestors are added; cached prefixes are skipped, since their scores have been returned before. Returns
        for every query the scores of all nodes computed for it. Raises ScoresError if a best score is not finite.
        """
        nodes, to_score = self.new_nodes(requested)
        if not nodes.tokens:
            return [{} for _ in to_score]
        ids, log_probs = (column.tolist() for column in self.runner.run(nodes))  # (R, k) each
        if not all(isfinite(best[0]) for best in log_probs):
            failed = {query for query, best in zip(nodes.queries, log_probs, strict=True) if not isfinite(best[0])}
            raise ScoresError(sorted(failed))
        if self._hidden_states is not None:
            grouped = zip(self.sources.values(), to_score, strict=True)
            keys = [(source, prefix) for source, prefixes in grouped for prefix in prefixes]
            self._hidden_states.update(zip(keys, self.runner.hidden_states, strict=True))
        scored, start = [], 0
        for prefixes in to_score:
            stop = start + len(prefixes)
            scores = map(Scores, ids[start:stop], log_probs[start:stop])
            scored.append(dict(zip(prefixes, scores, strict=True)))
            start = stop
        return scored

    def hidden_state(self, source: SourceIds, prefix: Prefix) -> Any | None:
        """Return the last hidden state (D,) of a computed prefix, a tensor or an array depending on the runner."""
        return (self._hidden_states or {}).get((source, prefix))

    def release(self, finished: Iterable[int]) -> None:
        """Free the memory of finished queries, their trees included; released ones are ignored."""
        finished = [*finished]
        super().release(finished)
        for query in finished:
            self.trees.pop(query, None)

    def compact(self, requested: dict[int, Sequence[Prefix]]) -> None:
        """Evict nodes that the `requested` prefixes do not reach from KV caches above their `CompactionThreshold`."""
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
