"""Drafter `mixed`: a tree of the most probable continuations by copying and learned edits (`draft/tree/builder.py`)."""

from collections.abc import Sequence

from chemspec.draft.base import Drafter, check_draft_size
from chemspec.draft.calibration import DEFAULT_ACCEPT_RATES
from chemspec.draft.copy import TokenClasses
from chemspec.draft.tree.builder import TreeLimits, TreeNode, build_tree
from chemspec.draft.tree.copy_state import CopyTracker
from chemspec.draft.tree.edit_ngrams import EditNgramTable
from chemspec.types import Draft, Prefix


class Mixed(Drafter):
    """Drafts a tree of the most probable nodes after a prefix; create one per run, since it caches queries."""

    PATHS = 16  # maximum number of leaves of a tree

    def __init__(
        self,
        edit_table: EditNgramTable,
        *,
        nodes: int = 20,  # maximum number of nodes of a tree
        length: int = 32,  # maximum draft length in tokens
        count: int = PATHS,  # maximum number of drafts, which are the leaves of a tree
        token_classes: TokenClasses = TokenClasses(),
        accept_rates: Sequence[float] = DEFAULT_ACCEPT_RATES,  # prior, by the class of the table's probability
    ) -> None:
        """Draft from an edit table, which gives the probabilities; raises ValueError for a size below 1."""
        check_draft_size(length, count)
        if nodes < 1:
            raise ValueError(f"{nodes} nodes; there must be at least 1")
        self.edit_table, self.token_classes, self.accept_rates = edit_table, token_classes, tuple(accept_rates)
        self.limits = TreeLimits(nodes, count, length)  # `max_length` applies even if `max_new_tokens` is larger
        self._trackers: dict[Prefix, CopyTracker] = {}

    def propose(self, source: Sequence[int], prefix: Prefix, max_new_tokens: int) -> Sequence[Draft]:
        """Return the paths from the prefix to the leaves of a tree, ordered by expected accepted tokens."""
        tracker = self._trackers.get(key := tuple(source))
        if tracker is None:
            tracker = self._trackers[key] = CopyTracker(key, self.token_classes)
        limits = self.limits._replace(max_length=min(self.limits.max_length, max_new_tokens))
        tree = build_tree(self.edit_table, tracker, prefix, limits)
        ranked: list[tuple[float, Draft]] = []
        for leaf in sorted(set(range(len(tree))).difference(node.parent for node in tree)):
            path = [tree[leaf]]
            while path[0].parent >= 0:
                path.insert(0, tree[path[0].parent])
            expected_tokens = 0.0
            for node in path:  # not `sum`, which since Python 3.12 rounds differently from compiled code
                expected_tokens += node.path_probability
            ranked.append((-expected_tokens, _draft_of_path(path, len(source))))
        ranked.sort(key=lambda pair: pair[0])
        return [draft for _, draft in ranked]


def _draft_of_path(path: Sequence[TreeNode], length: int) -> Draft:
    """Return the path from the prefix to a leaf as a draft; `length` is the query's number of tokens."""
    _, tokens, positions, probs, _ = zip(*path, strict=True)
    first = positions[0]
    if first >= 0 and positions == tuple(range(first, first + len(positions))):  # copied in one piece
        return Draft(tokens, "mixed", (first, min(first + len(positions), length)), chances=probs)
    return Draft(tokens, "mixed", places=positions, chances=probs)
