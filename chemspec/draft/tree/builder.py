"""The tree of the likeliest continuations of a prefix, and how far it is worth growing.

A table learned from training answers (`edit_ngrams`) gives the probability that copying goes on, and of what is
written where it does not. The tree grows at its likeliest leaf: node i is expected to be accepted with probability p_i,
the product of the probabilities on its path, and a pass is expected to yield 1 + sum p_i tokens. So the n nodes with
the largest p_i are the best n to compute.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import NamedTuple

from chemspec.draft.tree.copy_state import CopyState, CopyTracker
from chemspec.draft.tree.edit_ngrams import COPY, EditNgramTable, chance_class
from chemspec.tokenizer import EOS
from chemspec.types import Prefix

MIN_CHANCE = 0.02  # what is less likely is not drafted, however cheap
# Past a node that does not pay, `ThroughputStop` asks so many nodes ahead whether others would.
PROBES = (1, 3, 7, 15, 31)


class Tree(NamedTuple):
    """Drafted tokens as columns, likeliest first and so parents before their children.

    Attributes:
        parents: index of each node's parent, -1 where that is the prefix.
        tokens: its token id.
        positions: where in the query it was copied, or -1.
        step_chances: the table's probability of it given its parent.
        path_chances: that of its whole path, as `TreeLimits.accept_rates` correct it.
    """

    parents: list[int]
    tokens: list[int]
    positions: list[int]
    step_chances: list[float]
    path_chances: list[float]


class TreeLimits(NamedTuple):
    """How far a tree may grow.

    Attributes:
        max_nodes: most nodes.
        max_paths: most leaves.
        max_length: most tokens of a path.
        min_chance: probability of a path below which it is not followed.
        accept_rates: of each class of the table's probabilities, the share accepted in truth; without them, the
            probabilities are taken as they are.
        pass_seconds: of a pass with 0, 1, 2, ... of these nodes, up to `max_nodes + PROBES[-1]`; if given, the tree
            is the one that makes tokens per second largest.
    """

    max_nodes: int
    max_paths: int
    max_length: int
    min_chance: float = MIN_CHANCE
    accept_rates: Sequence[float] = ()
    pass_seconds: Sequence[float] = ()


# Builds the tree of the likeliest nodes after a prefix, for one query.
TreeBuilder = Callable[[Prefix, TreeLimits], Tree]


def python_tree_builder(edit_table: EditNgramTable, tracker: CopyTracker) -> TreeBuilder:
    """Return a builder in Python; `native.NativeTreeBuilder` is the same, compiled."""

    def build(prefix: Prefix, limits: TreeLimits) -> Tree:
        rates, stop = limits.accept_rates, ThroughputStop(limits.pass_seconds)
        # Minus the path's chance, a serial number, parent, token, position, step's chance, the parent's state: most
        # candidates never become nodes.
        heap: list[tuple[float, int, int, int, int, float, CopyState]] = []
        tree = Tree([], [], [], [], [])
        texts: list[Prefix] = []  # of each node
        inner: set[int] = {-1}  # nodes with children
        serial = paths = 0
        end = len(prefix) + limits.max_length

        def push_children(parent: int, text: Prefix, state: CopyState) -> None:
            """Put the next tokens after a node on the heap."""
            nonlocal serial
            path_chance, pushed = 1.0 if parent < 0 else tree.path_chances[parent], []
            for step, step_chance in edit_table.next_edits(tracker.text, state, text):
                chance = path_chance * (rates[chance_class(step_chance)] if rates else step_chance)
                if chance < limits.min_chance:
                    continue
                token = tracker.copied_token(state) if step == COPY else step
                if token not in pushed:
                    pushed.append(token)
                    serial += 1  # of equal chances, the first pushed goes first
                    position = state.position if step == COPY else -1
                    heappush(heap, (-chance, serial, parent, token, position, step_chance, state))

        push_children(-1, prefix, tracker.state_after(prefix))
        while heap and len(texts) < limits.max_nodes:
            negative, _, parent, token, position, step_chance, parent_state = heappop(heap)
            new_path = parent < 0 or parent in inner
            if new_path and paths == limits.max_paths:
                continue
            if limits.pass_seconds and not stop.should_continue(len(texts), -negative):
                break
            paths += new_path
            inner.add(parent)
            text = (*(prefix if parent < 0 else texts[parent]), token)
            texts.append(text)
            tree.parents.append(parent)
            tree.tokens.append(token)
            tree.positions.append(position)
            tree.step_chances.append(step_chance)
            tree.path_chances.append(-negative)
            if token != EOS and len(text) < end:
                push_children(len(texts) - 1, text, tracker.advance_state(parent_state, text))
        count = stop.best if limits.pass_seconds else len(texts)
        return Tree(*(column[:count] for column in tree))  # type: ignore[arg-type]

    return build


class ThroughputStop:
    """Decide how many nodes make tokens per second largest, given one by one in falling order of their chances.

    Attributes:
        best: the answer so far.
    """

    def __init__(self, pass_seconds: Sequence[float]) -> None:
        self.best = 0
        self._seconds, self._tokens = pass_seconds, 1.0
        self._rate = 1 / pass_seconds[0] if pass_seconds else 0.0

    def should_continue(self, nodes: int, chance: float) -> bool:
        """Return whether a node of this chance, after so many others, may belong to the best tree."""
        seconds, self._tokens = self._seconds, self._tokens + chance
        rate = self._tokens / seconds[nodes + 1]
        if rate > self._rate:
            self.best, self._rate = nodes + 1, rate
            return True
        # No later node is likelier than this one, so that better rates than these are out of reach.
        return any(self._tokens + ahead * chance > self._rate * seconds[nodes + 1 + ahead] for ahead in PROBES)
