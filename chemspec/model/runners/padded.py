"""Base class of runners that use padded batches: the nodes of all queries, right-padded, with an attention mask.

Shapes: B rows of the batch, one per query; N new nodes of the widest query; C slots in use; R new nodes; k candidates.
"""

from abc import abstractmethod
from collections import Counter
from collections.abc import Sequence
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from chemspec.model.runner import Finish, Floats, Ints, NodeBatch, Runner

Mask = NDArray[np.bool_]


class AncestorMask:
    """Attention mask of one query's slots: each attends to its ancestors and itself."""

    def __init__(self) -> None:
        self.count = 0  # slots in use
        self._mask = np.zeros((64, 64), dtype=np.bool_)

    def add(self, parents: Sequence[int], blocks: Sequence[int]) -> Mask:
        """Add nodes, and mask tokens for this pass only; returns the attention mask of these n, (n, slots + n)."""
        start, stop = self.count, self.count + len(parents)
        if stop > len(self._mask):
            grown = np.zeros((2 * stop, 2 * stop), dtype=np.bool_)
            grown[:start, :start] = self._mask[:start, :start]
            self._mask = grown
        mask = self._mask
        for slot, parent in enumerate(parents, start):
            mask[slot] = mask[parent] if parent >= 0 else False
            mask[slot, slot] = True
        slot = start
        for block, members in groupby(blocks):
            first, slot = slot, slot + sum(1 for _ in members)
            if block >= 0:
                mask[first:slot, first:slot] = True
        self.count = start + (blocks.count(-1) if blocks else len(parents))
        return mask[start:stop, :stop]

    def keep(self, slots: Ints) -> None:
        """Keep these slots, in this order."""
        mask = np.zeros_like(self._mask)
        mask[: len(slots), : len(slots)] = self._mask[np.ix_(slots, slots)]
        self._mask, self.count = mask, len(slots)


class PaddedRunner(Runner):
    """Computes padded batches, one row per query; finished rows stay while repacking, which copies, does not pay."""

    REPACK_BELOW = 0.75  # share of active rows below which the batch is repacked

    def __init__(self, queries: int) -> None:
        self._width = queries  # rows of the batch
        self._rows = {query: query for query in range(queries)}  # row of each unfinished query
        self._ancestors = {query: AncestorMask() for query in range(queries)}

    def run(self, nodes: NodeBatch) -> tuple[Ints, Floats]:
        """Compute new nodes; see `Runner.run`."""
        return self.begin(nodes)()

    def begin(self, nodes: NodeBatch) -> Finish:
        """Launch the forward pass of new nodes; see `Runner.start`."""
        if len(self._rows) < self._width and len(self._rows) <= self.REPACK_BELOW * self._width:
            self.gather_rows(list(self._rows.values()))
            self._rows = {query: row for row, query in enumerate(self._rows)}
            self._width = len(self._rows)
        counts = Counter(nodes.queries)  # in the order of the nodes
        width = max(counts.values(), default=0)
        slot_offsets = np.zeros(self._width, dtype=np.int64)
        for query, row in self._rows.items():
            slot_offsets[row] = self._ancestors[query].count
        used = int(slot_offsets.max())
        tokens, depths = np.zeros((2, self._width, width), dtype=np.int64)
        mask = np.zeros((self._width, width, used + width), dtype=np.bool_)
        # Padding attends to itself, or softmax would divide by 0.
        mask[:, np.arange(width), used + np.arange(width)] = True
        start = 0
        for query, count in counts.items():
            row, part = self._rows[query], slice(start, start + count)
            tokens[row, :count], depths[row, :count] = nodes.tokens[part], nodes.depths[part]
            slots = slot_offsets[row]
            attended = self._ancestors[query].add(nodes.parents[part], nodes.blocks[part])
            mask[row, :count, :slots] = attended[:, :slots]
            mask[row, :count, used : used + count] = attended[:, slots:]
            start += count
        self.reserve(used + width)
        # Keys and values of a Spec-Drafter's mask tokens lie past the slots in use; the next pass overwrites them.
        finish = self.begin_padded(tokens, depths, mask, slot_offsets)
        rows = np.repeat([self._rows[query] for query in counts], list(counts.values()))
        columns = np.concatenate([np.arange(count) for count in counts.values()])

        def finish_nodes() -> tuple[Ints, Floats]:
            ids, log_probs = finish()
            if self.hidden_states is not None:
                self.hidden_states = self.hidden_states[rows, columns]
            return ids[rows, columns], log_probs[rows, columns]

        return finish_nodes

    def release(self, query: int) -> None:
        """Free the memory of a finished query; see `Runner.release`."""
        del self._rows[query], self._ancestors[query]

    def compact(self, query: int, slots: Ints) -> None:
        """Move slots to the front; see `Runner.compact`."""
        self._ancestors[query].keep(slots)
        self.gather_slots(self._rows[query], slots)

    @abstractmethod
    def begin_padded(self, tokens: Ints, depths: Ints, attention_mask: Mask, slot_offsets: Ints) -> Finish:
        """Launch the forward pass, which caches keys and values, and sets `hidden_states` if requested.

        Returns a function that waits for the k best next tokens of every node and their log-probs, both (B, N, k).

        Args:
            tokens: (B, N) ids, right-padded.
            depths: (B, N) positions.
            attention_mask: (B, N, C + N), the slots in use and the new nodes that each node attends to.
            slot_offsets: (B,) slot of each query's first new node; the others follow.
        """

    @abstractmethod
    def reserve(self, slots: int) -> None:
        """Grow the KV cache to at least `slots` slots."""

    @abstractmethod
    def gather_rows(self, rows: Sequence[int]) -> None:
        """Keep these rows of the batch, in this order."""

    @abstractmethod
    def gather_slots(self, row: int, slots: Ints) -> None:
        """Move these slots of a row to the front, in this order."""
