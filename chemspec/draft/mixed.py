"""Copying and phrases in one tree: the likeliest continuations, node by node, as far as they are worth a node.

A table learned from training answers (`phrases.py`) says with which chance copying goes on and what is written where it
does not. The tree grows at its likeliest leaf: node i is expected to be accepted with chance p_i, the product of the chances on
its path, and a pass is expected to yield 1 + sum p_i tokens. So the n nodes with the largest p_i are the best n to compute.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush

from chemspec.draft.base import check_size
from chemspec.draft.copy import Marks
from chemspec.draft.phrases import COPY, Phrases
from chemspec.draft.trail import Reader, Trail
from chemspec.tokenizer import EOS
from chemspec.types import Draft, Prefix

LEAST = 0.02  # what is less likely is not drafted, however cheap

Rate = Callable[[float], float]  # a table's chance -> the chance in truth
More = Callable[[int, float], bool]  # (nodes so far, chance of the next) -> whether to go on


class Node:
    """One drafted token: where it hangs, the place in the query that it copies (or -1), and how likely it is.

    `share` is the table's chance given its parent, `chance` that of the whole path, as corrected by `Mixed.rate`.
    """

    __slots__ = ("chance", "leaf", "parent", "place", "prefix", "share", "token")

    def __init__(
        self, parent: Node | None, prefix: Prefix, place: int, share: float, chance: float
    ) -> None:
        self.parent, self.prefix, self.place = parent, prefix, place
        self.token = prefix[-1]
        self.share, self.chance = share, chance
        self.leaf = True


class Mixed:
    """The best `nodes` nodes as one tree.

    One object serves one run: it remembers the trails of the prefixes that it has met.

    Attributes:
        nodes: most nodes of the tree.
        length: most tokens of a path.
        count: most paths.
        rate: what to make of the table's chances; none takes them as they are.
    """

    def __init__(
        self,
        phrases: Phrases,
        *,
        nodes: int = 20,
        length: int = 32,
        count: int = 16,
        marks: Marks = Marks(),
        rate: Rate | None = None,
    ) -> None:
        check_size(length, count)
        if nodes < 1:
            raise ValueError(f"{nodes} nodes; there must be at least 1")
        self.phrases, self.marks = phrases, marks
        self.nodes, self.length, self.count = nodes, length, count
        self.rate = rate
        self._readers: dict[tuple[int, ...], Reader] = {}

    def propose(self, source: Sequence[int], prefix: Prefix, room: int) -> Sequence[Draft]:
        most = self.nodes
        return self.paths(
            self.grow(source, prefix, room, lambda nodes, _: nodes < most), source, prefix
        )

    def grow(
        self,
        source: Sequence[int],
        prefix: Prefix,
        room: int,
        more: More,
        *,
        least: float = LEAST,
    ) -> list[Node]:
        """The likeliest nodes after `prefix`, likeliest and parents first, as long as `more` says so.

        Args:
            least: what is less likely is not even thought of.
        """
        reader = self._reader(source)
        # Minus the chance, a number, parent, token, its place, its share, the parent's trail: most of them never become nodes.
        heap: list[tuple[float, int, Node | None, int, int, float, Trail]] = []
        grown: list[Node] = []
        made = paths = 0
        end, rate = len(prefix) + min(self.length, room), self.rate

        def widen(parent: Node | None, here: Prefix, trail: Trail) -> None:
            """Put the next tokens after `here` on the heap."""
            nonlocal made
            chance, met = parent.chance if parent else 1.0, []
            for step, share in self.phrases.after(reader.text, trail, here):
                likely = chance * (share if rate is None else rate(share))
                if likely < least:
                    continue
                copies = step == COPY
                token = reader.copied(trail) if copies else step
                if token not in met:
                    met.append(token)
                    made += 1  # of equal chances, the first made goes first
                    place = trail.place if copies else -1
                    heappush(heap, (-likely, made, parent, token, place, share, trail))

        widen(None, prefix, reader.trail(prefix))
        while heap:
            less, _, parent, token, place, share, above = heappop(heap)
            branches = parent is None or not parent.leaf
            if branches and paths == self.count:
                continue
            if not more(len(grown), -less):
                break
            paths += branches
            here = prefix
            if parent is not None:
                parent.leaf = False
                here = parent.prefix
            node = Node(parent, (*here, token), place, share, -less)
            grown.append(node)
            if node.token != EOS and len(node.prefix) < end:
                widen(node, node.prefix, reader.step(above, node.prefix))
        return grown

    def paths(self, nodes: Sequence[Node], source: Sequence[int], prefix: Prefix) -> list[Draft]:
        """The paths from `prefix` to the leaves of a tree, the one that promises most tokens first."""
        inner = {id(node.parent) for node in nodes}
        found: list[tuple[float, Draft]] = []
        for leaf in nodes:
            if id(leaf) in inner:
                continue
            path: list[Node] = []
            node: Node | None = leaf
            while node is not None:
                path.append(node)
                node = node.parent
            path.reverse()
            places = tuple(node.place for node in path)
            first = places[0]
            whole = first >= 0 and places == tuple(range(first, first + len(places)))
            span = (first, min(first + len(places), len(source))) if whole else None
            draft = Draft(
                leaf.prefix[len(prefix) :],
                "mixed",
                span,
                places=() if whole else places,
                chances=tuple(node.share for node in path),
            )
            found.append((-sum(node.chance for node in path), draft))
        found.sort(key=lambda item: item[0])
        return [draft for _, draft in found]

    def _reader(self, source: Sequence[int]) -> Reader:
        key = tuple(source)
        reader = self._readers.get(key)
        if reader is None:
            reader = self._readers[key] = Reader(key, self.marks)
        return reader
