"""A model on a device: a `Backend` opens runners, and a `Runner` computes the forward passes of one session.

A backend holds the weights. A runner holds the encoder's output and the KV cache of its queries; it takes flat lists of
nodes (`NodeBatch`), one per forward pass, and restricts a node's attention to its ancestors, by a mask (torch) or by
walking the tree (the compiled kernel). The prefixes are kept by the session (`session.py`).

Shapes: R new nodes of a pass, k candidates per node, D model width.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, MutableSequence, Sequence
from ctypes import CFUNCTYPE, POINTER, c_float, c_int, c_int32, c_void_p
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.floating]


@dataclass
class NodeBatch:
    """The new nodes of one forward pass as columns of R entries, grouped by query, parents before their children.

    The compiled loop gives arrays of C integers (`array`), the one in Python lists.

    Attributes:
        queries: query number of each node.
        tokens: token ids.
        depths: positions in the prefix; 0 for bos.
        parents: slot of the parent in the query's KV cache, or -1 for bos. A new node takes its query's next slot.
    """

    queries: MutableSequence[int] = field(default_factory=list)
    tokens: MutableSequence[int] = field(default_factory=list)
    depths: MutableSequence[int] = field(default_factory=list)
    parents: MutableSequence[int] = field(default_factory=list)


@dataclass
class MaskedBatch(NodeBatch):
    """Nodes of the Spec-Drafter, whose decoder fills k masks after a prefix at once; for torch and the kernel only.

    The masks of a query follow its nodes, block by block. A mask attends to its whole block, to its parent and to its
    parent's ancestors, and is not cached.

    Attributes:
        blocks: of each node -1, or the number of the block of a mask.
    """

    blocks: MutableSequence[int] = field(default_factory=list)


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


class KernelPass(NamedTuple):
    """Forward pass as a C function: `chemspec_run` of `runners/native/kernel.cpp`, or one with the same signature."""

    function: int  # its address
    session: int  # its first argument
    top_k: int  # candidates per node

    def prepare(self, nodes: NodeBatch) -> Callable[[], object]:
        """Return a call of it, without blocks, that does nothing else, so that the pass alone can be timed."""
        count = len(nodes.tokens)
        kinds: list[Any] = [c_void_p, c_int, *[POINTER(c_int32)] * 5, c_int, POINTER(c_int32), *[POINTER(c_float)] * 2]
        columns = [(c_int32 * count)(*each) for each in (nodes.queries, nodes.tokens, nodes.depths, nodes.parents)]
        outputs = (c_int32 * (count * self.top_k))(), (c_float * (count * self.top_k))()
        function = CFUNCTYPE(c_int, *kinds)(self.function)
        return partial(function, self.session, count, *columns, None, self.top_k, *outputs, None)


class Runner(ABC):
    """The device side of one session: the encoder's output, the KV cache and the forward pass.

    Attributes:
        compaction_threshold: number of nodes above which evicting unreachable ones pays.
        hidden_states: last hidden states of the last pass (R, D), on the runner's device; None unless requested in
            `Backend.open`.
        can_join: whether queries can be added between passes (continuous batching).
        kernel_pass: the forward pass as a C function that compiled code can call, or None.
    """

    compaction_threshold = DENSE
    hidden_states: Any = None
    can_join = False
    kernel_pass: KernelPass | None = None

    @abstractmethod
    def run(self, nodes: NodeBatch) -> tuple[Ints, Floats]:
        """Run the forward pass of new nodes and cache their keys and values.

        Returns the k best next tokens of every node and their log-probs, best first, ties by id; both (R, k).
        """

    def join(self, sources: Sequence[Sequence[int]]) -> None:
        """Encode more sources (prefill), if `can_join`; they get the next query numbers, which are never reused."""
        raise NotImplementedError

    @abstractmethod
    def release(self, query: int) -> None:
        """Free the memory of a finished query."""

    @abstractmethod
    def compact(self, query: int, slots: Ints) -> None:
        """Move these slots of a query to the front, in this order, and free its others.

        The slots are ascending and include the parent of each: the compiled kernel moves them in place.
        """


class Backend(Protocol):
    """A loaded model on a device; shared, immutable."""

    def open(self, sources: Sequence[Sequence[int]], *, top_k: int) -> Runner:
        """Encode the sources, numbered from 0, and start an empty cache for each.

        Backends of `Transformer` models also take `states`, whether to return the last hidden states. It is not part of
        the protocol, because other networks may have none; `Session` passes it only if a drafter needs them.
        """
