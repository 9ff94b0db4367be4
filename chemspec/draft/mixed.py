"""Drafter `mixed`: a tree of the most probable continuations by copying and learned edits.

An edit table (`tree/edit_ngrams.py`) gives the probability that copying continues, and of the alternatives. The tree
grows at its most probable leaf: node i is accepted with probability p_i, the product of the probabilities on its path,
and a forward pass yields 1 + sum p_i tokens on average. So the n nodes with the largest p_i are the best n to compute.
"""

from collections.abc import Sequence
from heapq import heappop, heappush
from typing import NamedTuple

from chemspec.draft.base import Drafter, check_draft_size
from chemspec.draft.calibration import DEFAULT_ACCEPT_RATES
from chemspec.draft.copy import CopyState, CopyTracker, TokenClasses, copied_draft
from chemspec.draft.tree.edit_ngrams import COPY, EditNgramTable
from chemspec.tokenizer import EOS
from chemspec.types import Draft, Prefix

MIN_PROBABILITY = 0.02  # minimum path probability of a drafted node


class TreeNode(NamedTuple):
    """A drafted node."""

    parent: int  # index of its parent among the nodes of the tree; -1 for the prefix
    token: int
    position: int  # position in the query from which the token was copied, or -1
    step_probability: float  # the table's probability of the token given its parent
    path_probability: float  # probability of the whole path


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
        self.nodes, self.length, self.count = nodes, length, count
        self._trackers: dict[Prefix, CopyTracker] = {}

    def propose(self, source: Sequence[int], prefix: Prefix, max_new_tokens: int) -> Sequence[Draft]:
        """Return the paths from the prefix to the leaves of a tree, ordered by expected accepted tokens."""
        tracker = self._trackers.get(key := tuple(source))
        if tracker is None:
            tracker = self._trackers[key] = CopyTracker(key, self.token_classes)
        tree = self._build_tree(tracker, prefix, min(self.length, max_new_tokens))
        ranked: list[tuple[float, Draft]] = []
        for leaf in sorted(set(range(len(tree))).difference(node.parent for node in tree)):
            path = [tree[leaf]]
            while path[0].parent >= 0:
                path.insert(0, tree[path[0].parent])
            expected_tokens = 0.0
            for node in path:  # not `sum`, which since Python 3.12 rounds differently from compiled code
                expected_tokens += node.path_probability
            _, tokens, positions, probs, _ = zip(*path, strict=True)
            end = len(tracker.text) - 1
            ranked.append((-expected_tokens, copied_draft(tokens, "mixed", positions, end, probabilities=probs)))
        ranked.sort(key=lambda pair: pair[0])
        return [draft for _, draft in ranked]

    def _build_tree(self, tracker: CopyTracker, prefix: Prefix, max_length: int) -> list[TreeNode]:
        """Return the most probable nodes after a prefix, most probable first, so parents come before their children.

        `decode/compiled/tree.h` computes the same, and with a planner the size that maximises tokens per second.
        """
        # Negative path probability, serial number, node, the parent's copy state: the child's state is computed only
        # for candidates that become nodes.
        heap: list[tuple[float, int, TreeNode, CopyState]] = []
        tree: list[TreeNode] = []
        texts: list[Prefix] = []  # text of each node
        inner: set[int] = {-1}  # nodes with children
        serial = paths = 0

        def push_children(parent: int, text: Prefix, state: CopyState) -> None:
            """Put the next tokens after a node on the heap."""
            nonlocal serial
            path_probability, pushed = 1.0 if parent < 0 else tree[parent].path_probability, []
            for step, step_probability in self.edit_table.next_edits(tracker, state, text):
                p = path_probability * step_probability
                if p < MIN_PROBABILITY:
                    continue
                token = tracker.copied_token(state) if step == COPY else step
                if token not in pushed:
                    pushed.append(token)
                    serial += 1  # breaks ties: the candidate pushed first goes first
                    position = state.position if step == COPY else -1
                    heappush(heap, (-p, serial, TreeNode(parent, token, position, step_probability, p), state))

        push_children(-1, prefix, tracker.state_after(prefix))
        while heap and len(tree) < self.nodes:
            _, _, node, parent_state = heappop(heap)
            new_path = node.parent < 0 or node.parent in inner
            if new_path and paths == self.count:
                continue
            paths += new_path
            inner.add(node.parent)
            text = (*(prefix if node.parent < 0 else texts[node.parent]), node.token)
            texts.append(text)
            tree.append(node)
            if node.token != EOS and len(text) < len(prefix) + max_length:
                push_children(len(tree) - 1, text, tracker.advance_state(parent_state, text))
        return tree
