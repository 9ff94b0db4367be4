"""Variable-order n-gram model (PPM) of the edits between query and output, learned from training data.

In a retro prediction most tokens are copied, and the rest is a few phrases: `B(O)O` before an aryl bond, `Cl` or `O`
after a carbonyl, `.` and the other half. Which one comes, and where, depends on the last tokens and the query's next
ones. The table is a tree over such contexts, as in prediction by partial matching (Cleary and Witten, 1984). One of the
next steps is "continue copying", so the table also predicts where copying ends.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple

from chemspec.draft.copy import CopyState, CopyTracker, TokenClasses
from chemspec.tokenizer import BOS, EOS, PAD
from chemspec.types import Prefix

COPY = -1  # the step that copies the query's token at the position of the copy state
Steps = tuple[tuple[int, float], ...]  # steps with their probabilities, most probable first
# Boundaries of the classes of a table's probabilities.
EDGES = (0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.95, 0.98)


def probability_class(probability: float) -> int:
    """Return the class of a table's probability, from 0 to len(EDGES)."""
    return bisect_right(EDGES, probability)


def edit_context(tracker: CopyTracker, state: CopyState, prefix: Prefix) -> list[int]:
    """Return the context of the next step, most informative first: last tokens, match class, next query tokens."""
    ahead = tracker.tokens_ahead(state)
    last = (PAD, PAD, PAD, PAD, PAD, PAD, *prefix[-7:])
    match = state.match if state.match < 3 else 3 if state.match < 6 else 4  # 0, 1, 2, 3 to 5, or more tokens
    return [last[-1], match, last[-2], ahead[0], last[-3], ahead[1], last[-4], ahead[2], last[-5], last[-6], last[-7]]


class Node(NamedTuple):
    """A context on the way to a table."""

    steps: Steps
    below: dict[int, Node]  # longer contexts, by their last entry


@dataclass(frozen=True)
class EditNgramTable:
    """Edit table: a tree over contexts, as arrays that compiled code reads in place.

    Nodes are numbered breadth-first from the empty context, node 0, so the children of a node are adjacent, in the
    order of their entries.
    """

    children: array[int]  # first child of every node, and at the end the number of nodes
    entries: array[int]  # context entry that leads to every node from its parent; unused for node 0
    starts: array[int]  # start of every node's steps, most probable first, and at the end the number of steps
    tokens: array[int]  # token of every step, or `COPY`
    thousandths: array[int]  # probability of every step

    @classmethod
    def from_tree(cls, root: Node) -> EditNgramTable:
        """Return a table of a node and all below it."""
        order, entries, firsts = [root], [0], [1]
        for node in order:  # grows during iteration
            for entry, child in sorted(node.below.items()):
                order.append(child)
                entries.append(entry)
            firsts.append(len(order))
        flat = [step for node in order for step in node.steps]
        return cls(
            array("i", firsts),
            array("i", entries),
            array("i", accumulate((len(node.steps) for node in order), initial=0)),
            array("i", [token for token, _ in flat]),
            array("H", [round(1000 * probability) for _, probability in flat]),
        )

    @property
    def node_count(self) -> int:
        """Number of contexts, the empty one included."""
        return len(self.entries)

    def next_edits(self, tracker: CopyTracker, state: CopyState, prefix: Prefix) -> Steps:
        """Return the most probable steps after a prefix."""
        node = 0
        for entry in edit_context(tracker, state, prefix):
            end = self.children[node + 1]
            child = bisect_left(self.entries, entry, self.children[node], end)
            if child == end or self.entries[child] != entry:
                break
            node = child
        steps = range(self.starts[node], self.starts[node + 1])
        return tuple((self.tokens[at], self.thousandths[at] / 1000) for at in steps)


def count_edits(
    pairs: Iterable[tuple[Sequence[int], Sequence[int]]],
    token_classes: TokenClasses,
    *,
    min_visits: int = 8,  # visits of a context
    min_change: float = 0.4,
    max_steps: int = 3,  # steps per context
) -> EditNgramTable:
    """Train an edit table by counting which steps follow which contexts, in pairs of queries and outputs.

    The probabilities of a context must differ from those of the shorter one by `min_change`, summed over the steps. In
    trials this removed two thirds of a table without costing forward passes.
    """
    root = _Context()
    for source, target in pairs:
        tracker = CopyTracker(source, token_classes)
        prefix: Prefix = (BOS,)
        state = tracker.state_after(prefix)
        for token in (*target, EOS):
            step = COPY if tracker.copied_token(state) == token else token
            context = root
            context.counts[step] += 1
            for entry in edit_context(tracker, state, prefix):
                is_new = entry not in context.below
                context = context.below.setdefault(entry, _Context())
                context.counts[step] += 1
                if is_new:  # a context grows by one entry per visit: one seen once needs no longer path
                    break
            if token != EOS:
                prefix = (*prefix, token)
                state = tracker.advance_state(state, prefix)

    def smoothed_shares(counts: Counter[int], shorter: dict[int, float]) -> dict[int, float]:
        """Return relative frequencies, smoothed by the shorter context with a weight of two visits."""
        weight = 2.0 if shorter else 0.0
        total = counts.total() + weight
        shares = {step: (counts[step] + weight * shorter.get(step, 0.0)) / total for step in {*counts, *shorter}}
        return dict(sorted(shares.items(), key=lambda pair: (-pair[1], pair[0]))[:max_steps])

    def prune(context: _Context, shares: dict[int, float]) -> Node:
        """Return a context with those below it that differ enough."""
        below = {}
        for entry, longer in context.below.items():
            if longer.counts.total() < min_visits:
                continue
            longer_shares = smoothed_shares(longer.counts, shares)
            node = prune(longer, longer_shares)
            change = sum(abs(longer_shares.get(s, 0) - shares.get(s, 0)) for s in {*longer_shares, *shares})
            if node.below or change > min_change:
                below[entry] = node
        return Node(tuple((step, share) for step, share in shares.items() if share >= 0.01), below)

    return EditNgramTable.from_tree(prune(root, smoothed_shares(root.counts, {})) if root.counts else Node((), {}))


@dataclass(slots=True)
class _Context:
    """How often each step followed a context, and the longer contexts by their last entry."""

    counts: Counter[int] = field(default_factory=Counter)
    below: dict[int, _Context] = field(default_factory=dict)


# The table of a model without calibration: no edits, copying only.
COPY_ONLY = EditNgramTable.from_tree(Node(((COPY, 0.9),), {}))
