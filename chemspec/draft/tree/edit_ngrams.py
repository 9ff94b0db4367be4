"""Variable-order n-gram model (PPM) of the edits between query and output, learned from training data.

In a retro prediction most tokens are copied, and the rest is a few phrases: `B(O)O` before an aryl bond, `Cl` or `O`
after a carbonyl, `.` and the other half. Which one comes, and where, depends on the last tokens and the query's next
ones. The table is a tree over such contexts, as in prediction by partial matching (Cleary and Witten, 1984). One of the
next steps is "continue copying", so the table also predicts where copying ends.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

from chemspec.draft.copy import CopyState, CopyTracker, TokenClasses
from chemspec.tokenizer import BOS, EOS, PAD
from chemspec.types import Prefix

COPY = -1  # the step that copies the query's token at the position of the copy state
CHILD_BASE = 1 << 20  # in `EditNgramTable.from_nodes`, the key of a child is parent * CHILD_BASE + entry
Steps = tuple[tuple[int, float], ...]  # steps with their probabilities, most probable first
# Boundaries of the classes of a table's probabilities.
EDGES = (0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.95, 0.98)


@lru_cache(maxsize=1024)  # a table stores thousandths
def probability_class(probability: float) -> int:
    """Return the class of a table's probability, from 0 to len(EDGES)."""
    return bisect_right(EDGES, probability)


def edit_context(text: Sequence[int], state: CopyState, prefix: Prefix) -> list[int]:
    """Return the context of the next step, most informative first: last tokens, match class, next query tokens."""
    ahead = (*text[state.position : state.position + 3], PAD, PAD, PAD)
    last = (PAD, PAD, PAD, PAD, PAD, PAD, *prefix[-7:])
    match = state.match if state.match < 3 else 3 if state.match < 6 else 4  # 0, 1, 2, 3 to 5, or more tokens
    return [last[-1], match, last[-2], ahead[0], last[-3], ahead[1], last[-4], ahead[2], last[-5], last[-6], last[-7]]


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
    def from_nodes(cls, children: Mapping[int, int], steps: Sequence[Steps]) -> EditNgramTable:
        """Return a table from the most probable next steps of its nodes, which may be in any order, parents first.

        `children` maps parent * CHILD_BASE + context entry to a node.
        """
        below: dict[int, list[tuple[int, int]]] = {}
        for key, node in children.items():
            below.setdefault(key // CHILD_BASE, []).append((key % CHILD_BASE, node))
        order, entries, firsts = [0], [0], [1]
        for node in order:  # grows during iteration
            for entry, child in sorted(below.get(node, ())):
                order.append(child)
                entries.append(entry)
            firsts.append(len(order))
        flat = [step for node in order for step in steps[node]]
        return cls(
            array("i", firsts),
            array("i", entries),
            array("i", accumulate((len(steps[node]) for node in order), initial=0)),
            array("i", [token for token, _ in flat]),
            array("H", [round(1000 * probability) for _, probability in flat]),
        )

    @property
    def node_count(self) -> int:
        """Number of contexts, the empty one included."""
        return len(self.entries)

    def next_edits(self, text: Sequence[int], state: CopyState, prefix: Prefix) -> Steps:
        """Return the most probable steps after a prefix."""
        node = 0
        for entry in edit_context(text, state, prefix):
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
    min_visits: int = 8,  # of a context
    min_change: float = 0.4,
    max_steps: int = 3,  # per context
) -> EditNgramTable:
    """Train an edit table by counting which steps follow which contexts, in pairs of queries and outputs.

    The probabilities of a context must differ from those of the shorter one by `min_change`, summed over the steps. In
    trials this removed two thirds of a table without costing forward passes.
    """
    counts: list[dict[int, int]] = [{}]
    below: list[dict[int, int]] = [{}]
    for source, target in pairs:
        tracker = CopyTracker(source, token_classes)
        prefix: Prefix = (BOS,)
        state = tracker.state_after(prefix)
        for token in (*target, EOS):
            step = COPY if tracker.copied_token(state) == token else token
            node = 0
            counts[0][step] = counts[0].get(step, 0) + 1
            for entry in edit_context(tracker.text, state, prefix):
                child = below[node].get(entry)
                is_new = child is None
                if child is None:
                    # A context grows by one entry per visit: a context seen once needs no longer path.
                    child = below[node][entry] = len(counts)
                    counts.append({})
                    below.append({})
                counts[child][step] = counts[child].get(step, 0) + 1
                node = child
                if is_new:
                    break
            if token != EOS:
                prefix = (*prefix, token)
                state = tracker.advance_state(state, prefix)
    return _prune_table(counts, below, min_visits, min_change, max_steps)


def _prune_table(
    counts: list[dict[int, int]], below: list[dict[int, int]], min_visits: int, min_change: float, max_steps: int
) -> EditNgramTable:
    children: dict[int, int] = {}
    steps: list[Steps] = [()]

    def smoothed_shares(node: int, shorter: dict[int, float]) -> dict[int, float]:
        """Return relative frequencies, smoothed by the shorter context with a weight of two visits."""
        seen, weight = counts[node], 2.0 if shorter else 0.0
        total = sum(seen.values()) + weight
        shares = {step: (seen.get(step, 0) + weight * shorter.get(step, 0.0)) / total for step in {*seen, *shorter}}
        return dict(sorted(shares.items(), key=lambda pair: (-pair[1], pair[0]))[:max_steps])

    def keep(node: int, shares: dict[int, float], number: int) -> None:
        """Store a node's steps and those of its children that differ enough."""
        steps[number] = tuple((step, share) for step, share in shares.items() if share >= 0.01)
        for entry, child in sorted(below[node].items()):
            new = len(steps)
            if sum(counts[child].values()) < min_visits:
                continue
            child_shares = smoothed_shares(child, shares)
            children[number * CHILD_BASE + entry] = new
            steps.append(())
            keep(child, child_shares, new)
            change = sum(abs(child_shares.get(s, 0) - shares.get(s, 0)) for s in {*child_shares, *shares})
            if len(steps) == new + 1 and change <= min_change:
                steps.pop()
                del children[number * CHILD_BASE + entry]

    if counts[0]:
        keep(0, smoothed_shares(0, {}), 0)
    return EditNgramTable.from_nodes(children, steps)


# The table of a model without calibration: no edits, copying only.
COPY_ONLY = EditNgramTable.from_nodes({}, [((COPY, 0.9),)])
