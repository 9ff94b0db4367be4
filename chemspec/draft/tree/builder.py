"""The tree of the likeliest continuations of a prefix, and how far it is worth growing.

A table learned from training answers (`phrases.py`) says with which chance copying goes on and what is written where it
does not. The tree grows at its likeliest leaf: node i is expected to be accepted with chance p_i, the product of the
chances on
its path, and a pass is expected to yield 1 + sum p_i tokens. So the n nodes with the largest p_i are the best n to
compute.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import NamedTuple

from chemspec.draft.tree.copy_state import CopyState, CopyTracker
from chemspec.draft.tree.edit_ngrams import COPY, EditNgramTable, chance_class
from chemspec.tokenizer import EOS
from chemspec.types import Prefix

LEAST = 0.02  # what is less likely is not drafted, however cheap
# Past a node that does not pay, so far ahead it is asked whether others would.
STEPS = (1, 3, 7, 15, 31)


class Tree(NamedTuple):
    """Drafted tokens, likeliest and parents first.

    Attributes:
        parents: of each node the number of its parent, -1 where that is the prefix.
        places: where in the query it was copied, or -1.
        shares: the table's chance of it given its parent.
        chances: that of the whole path, as `TreeLimits.rates` correct it.
    """

    parents: list[int]
    tokens: list[int]
    places: list[int]
    shares: list[float]
    chances: list[float]


class TreeLimits(NamedTuple):
    """How far a tree may grow.

    Attributes:
        nodes, paths: most nodes, and most leaves.
        length: most tokens of a path.
        least: the chance below which nothing is thought of.
        rates: of each class of the table's chances, what it is in truth; without them, they are taken as they are.
        seconds: of a pass with 0, 1, 2, ... of these nodes, up to `nodes + STEPS[-1]`; if given, the tree is the one
            that
            makes tokens per second largest.
    """

    nodes: int
    paths: int
    length: int
    least: float = LEAST
    rates: Sequence[float] = ()
    seconds: Sequence[float] = ()


# A query's trees: the likeliest nodes after a prefix.
BuildTree = Callable[[Prefix, TreeLimits], Tree]


def tree_builder(phrases: EditNgramTable, reader: CopyTracker) -> BuildTree:
    """Trees of one query, in Python; `tree_native` has the same, compiled."""

    def grow(prefix: Prefix, limits: TreeLimits) -> Tree:
        rates, least, worth = limits.rates, limits.least, ThroughputStop(limits.seconds)
        # Minus the chance, a number, parent, token, its place, its share, the parent's trail: most of them never become
        # nodes.
        heap: list[tuple[float, int, int, int, int, float, CopyState]] = []
        parents, tokens, places, shares, chances = Tree([], [], [], [], [])
        texts: list[Prefix] = []  # of each node
        inner: set[int] = {-1}  # nodes with children
        made = paths = 0
        end = len(prefix) + limits.length

        def widen(parent: int, here: Prefix, trail: CopyState) -> None:
            """Put the next tokens after `here` on the heap."""
            nonlocal made
            chance, met = 1.0 if parent < 0 else chances[parent], []
            for step, share in phrases.after(reader.text, trail, here):
                likely = chance * (rates[chance_class(share)] if rates else share)
                if likely < least:
                    continue
                copies = step == COPY
                token = reader.copied(trail) if copies else step
                if token not in met:
                    met.append(token)
                    made += 1  # of equal chances, the first made goes first
                    place = trail.place if copies else -1
                    heappush(heap, (-likely, made, parent, token, place, share, trail))

        widen(-1, prefix, reader.trail(prefix))
        while heap and len(texts) < limits.nodes:
            less, _, parent, token, place, share, above = heappop(heap)
            branches = parent < 0 or parent in inner
            if branches and paths == limits.paths:
                continue
            if limits.seconds and not worth.more(len(texts), -less):
                break
            paths += branches
            inner.add(parent)
            here = (*(prefix if parent < 0 else texts[parent]), token)
            texts.append(here)
            parents.append(parent)
            tokens.append(token)
            places.append(place)
            shares.append(share)
            chances.append(-less)
            if token != EOS and len(here) < end:
                widen(len(texts) - 1, here, reader.step(above, here))
        count = worth.best if limits.seconds else len(texts)
        return Tree(parents[:count], tokens[:count], places[:count], shares[:count], chances[:count])

    return grow


class ThroughputStop:
    """Nodes come in order of their chances: how many make tokens per second largest?

    Attributes:
        best: the answer so far.
    """

    def __init__(self, seconds: Sequence[float]) -> None:
        self.best = 0
        self._seconds, self._tokens = seconds, 1.0
        self._rate = 1 / seconds[0] if seconds else 0.0

    def more(self, nodes: int, chance: float) -> bool:
        """Whether a node of such a chance, after so many, may belong to the best tree."""
        seconds, self._tokens = self._seconds, self._tokens + chance
        rate = self._tokens / seconds[nodes + 1]
        if rate > self._rate:
            self.best, self._rate = nodes + 1, rate
            return True
        # No later node is likelier than this one, so that better rates than these are out of reach.
        return any(self._tokens + step * chance > self._rate * seconds[nodes + 1 + step] for step in STEPS)
