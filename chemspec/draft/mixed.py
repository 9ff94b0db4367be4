"""Copying and phrases in one tree: the likeliest continuations, node by node, as drafts. See `tree.py`."""

from __future__ import annotations

from collections.abc import Sequence

from chemspec.draft.base import check_size
from chemspec.draft.copy import TokenClasses
from chemspec.draft.tree import native
from chemspec.draft.tree.builder import BuildTree, Tree, TreeLimits, tree_builder
from chemspec.draft.tree.copy_state import CopyTracker
from chemspec.draft.tree.edit_ngrams import EditNgramTable
from chemspec.types import Draft, Prefix


class Mixed:
    """The best `nodes` nodes as one tree.

    One object serves one run: it remembers the queries that it has met.

    Attributes:
        limits: how far a tree grows; its `length` holds for all, however much room there is.
    """

    PATHS = 16  # most leaves of a tree

    def __init__(
        self,
        phrases: EditNgramTable,
        *,
        nodes: int = 20,
        length: int = 32,
        count: int = PATHS,
        marks: TokenClasses = TokenClasses(),
    ) -> None:
        check_size(length, count)
        if nodes < 1:
            raise ValueError(f"{nodes} nodes; there must be at least 1")
        self.phrases, self.marks = phrases, marks
        self.limits = TreeLimits(nodes, count, length)
        self._library = native.library()
        self._growers: dict[tuple[int, ...], BuildTree] = {}

    def propose(self, source: Sequence[int], prefix: Prefix, room: int) -> Sequence[Draft]:
        return self.drafts(source, prefix, room, self.limits)

    def drafts(self, source: Sequence[int], prefix: Prefix, room: int, limits: TreeLimits) -> list[Draft]:
        """The paths from `prefix` to the leaves of a tree within these limits, the one that promises most tokens
        first."""
        tree = self.grow(source, prefix, room, limits)
        inner = set(tree.parents)
        found: list[tuple[float, Draft]] = []
        for leaf in range(len(tree.parents)):
            if leaf in inner:
                continue
            path = [leaf]
            while (parent := tree.parents[path[-1]]) >= 0:
                path.append(parent)
            path.reverse()
            promised = sum([tree.chances[node] for node in path])
            found.append((-promised, _draft(tree, path, len(source))))
        found.sort(key=lambda item: item[0])
        return [draft for _, draft in found]

    def grow(self, source: Sequence[int], prefix: Prefix, room: int, limits: TreeLimits) -> Tree:
        """The likeliest nodes after `prefix`, likeliest and parents first."""
        length = min(limits.length, room)
        if length < limits.length:
            limits = limits._replace(length=length)
        return self._grower(source)(prefix, limits)

    def _grower(self, source: Sequence[int]) -> BuildTree:
        key = tuple(source)
        found = self._growers.get(key)
        if found is None:
            if self._library is not None and len(key) <= native.LONGEST:
                found = native.NativeTreeBuilder(self._library, self.phrases, key, self.marks)
            else:
                found = tree_builder(self.phrases, CopyTracker(key, self.marks))
            self._growers[key] = found
        return found


def _draft(tree: Tree, path: Sequence[int], length: int) -> Draft:
    """One path from the prefix to a leaf, in a query of so many tokens."""
    places = tuple([tree.places[node] for node in path])
    first = places[0]
    whole = first >= 0 and places == tuple(range(first, first + len(places)))
    return Draft(
        tuple([tree.tokens[node] for node in path]),
        "mixed",
        (first, min(first + len(places), length)) if whole else None,
        places=() if whole else places,
        chances=tuple([tree.shares[node] for node in path]),
    )
