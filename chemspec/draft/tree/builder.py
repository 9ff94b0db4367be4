"""Tree of the most probable continuations of a prefix.

An edit table (`edit_ngrams`) gives the probability that copying continues, and of the alternatives. The tree grows at
its most probable leaf: node i is accepted with probability p_i, the product of the probabilities on its path, and a
forward pass yields 1 + sum p_i tokens on average. So the n nodes with the largest p_i are the best n to compute.
"""

from heapq import heappop, heappush
from typing import NamedTuple

from chemspec.draft.tree.copy_state import CopyState, CopyTracker
from chemspec.draft.tree.edit_ngrams import COPY, EditNgramTable
from chemspec.tokenizer import EOS
from chemspec.types import Prefix

MIN_PROBABILITY = 0.02  # minimum path probability of a drafted node


class TreeNode(NamedTuple):
    """A drafted node."""

    parent: int  # index of its parent among the nodes of the tree; -1 for the prefix
    token: int
    position: int  # position in the query from which the token was copied, or -1
    step_probability: float  # the table's probability of the token given its parent
    path_probability: float  # probability of the whole path


class TreeLimits(NamedTuple):
    """Limits of a draft tree."""

    max_nodes: int  # maximum number of nodes
    max_paths: int  # maximum number of leaves
    max_length: int  # maximum number of tokens of a path


def build_tree(edit_table: EditNgramTable, tracker: CopyTracker, prefix: Prefix, limits: TreeLimits) -> list[TreeNode]:
    """Return the most probable nodes after a prefix, most probable first, so parents come before their children.

    `decode/compiled/tree.h` computes the same, and with a planner the size that maximises tokens per second.
    """
    # Negative path probability, serial number, node, the parent's copy state: the child's state is computed only for
    # candidates that become nodes.
    heap: list[tuple[float, int, TreeNode, CopyState]] = []
    tree: list[TreeNode] = []
    texts: list[Prefix] = []  # of each node
    inner: set[int] = {-1}  # nodes with children
    serial = paths = 0
    end = len(prefix) + limits.max_length

    def push_children(parent: int, text: Prefix, state: CopyState) -> None:
        """Put the next tokens after a node on the heap."""
        nonlocal serial
        path_probability, pushed = 1.0 if parent < 0 else tree[parent].path_probability, []
        for step, step_probability in edit_table.next_edits(tracker.text, state, text):
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
    while heap and len(tree) < limits.max_nodes:
        _, _, node, parent_state = heappop(heap)
        new_path = node.parent < 0 or node.parent in inner
        if new_path and paths == limits.max_paths:
            continue
        paths += new_path
        inner.add(node.parent)
        text = (*(prefix if node.parent < 0 else texts[node.parent]), node.token)
        texts.append(text)
        tree.append(node)
        if node.token != EOS and len(text) < end:
            push_children(len(tree) - 1, text, tracker.advance_state(parent_state, text))
    return tree
