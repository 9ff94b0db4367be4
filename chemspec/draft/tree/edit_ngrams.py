"""What is written where copying ends: a table of edits, learned from training answers.

In a retro answer most tokens are copied, and the rest is a few phrases: `B(O)O` before an aryl bond, `Cl` or `O` after
a carbonyl, `.` and the other half. Which comes, and where, can be read off the last tokens and off the query's text
ahead. The table is a tree over such contexts, as in prediction by partial matching (Cleary and Witten, 1984): look-up
walks down as long as the context has been seen often enough, and gives the likeliest next steps with their
probabilities. "Go on copying" is one of the steps, so the table also predicts where copying ends.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import Any

from chemspec.draft.copy import TokenClasses
from chemspec.draft.tree.copy_state import CopyState, CopyTracker
from chemspec.tokenizer import BOS, EOS, PAD
from chemspec.types import Prefix

COPY = -1  # the step that writes what the query has at the position of the copy state
CHILD_BASE = 1 << 20  # in `EditNgramTable.of`, a child is found under parent * CHILD_BASE + entry
Steps = tuple[tuple[int, float], ...]  # steps with their probabilities, likeliest first
# The probabilities that a table gives fall into classes between these.
EDGES = (0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.95, 0.98)


@lru_cache(maxsize=1024)  # a table knows thousandths
def chance_class(chance: float) -> int:
    """Return the class of a table's probability, from 0 to len(EDGES)."""
    return bisect_right(EDGES, chance)


def _match_class(match: int) -> int:
    """Return the class of a match: 0, 1, 2, 3 to 5, or more tokens."""
    return match if match < 3 else 3 if match < 6 else 4


def edit_context(text: Sequence[int], state: CopyState, prefix: Prefix) -> list[int]:
    """Return what the next step depends on, most telling first: tokens written, the match, the query's text ahead."""
    ahead = (*text[state.position : state.position + 3], PAD, PAD, PAD)
    last = (PAD, PAD, PAD, PAD, PAD, PAD, *prefix[-7:])
    return [
        last[-1],
        _match_class(state.match),
        last[-2],
        ahead[0],
        last[-3],
        ahead[1],
        last[-4],
        ahead[2],
        last[-5],
        last[-6],
        last[-7],
    ]


@dataclass(frozen=True)
class EditNgramTable:
    """The table: a tree over contexts, as arrays that compiled code reads where they lie.

    Nodes are numbered breadth first from the empty context, node 0, so that the children of a node lie side by side, in
    the order of their entries.

    Attributes:
        children: of every node its first child; one more than there are nodes, the last of them the number of nodes.
        entries: of every node the context entry that leads to it from its parent; of node 0 it means nothing.
        starts: where the steps of every node begin, the likeliest first; one more than there are nodes.
        tokens: the token of every step, or `COPY`.
        thousandths: its probability.
    """

    children: array[int]
    entries: array[int]
    starts: array[int]
    tokens: array[int]
    thousandths: array[int]

    @classmethod
    def from_nodes(cls, children: Mapping[int, int], steps: Sequence[Steps]) -> EditNgramTable:
        """Return the table of nodes in any order, parents first.

        Args:
            children: parent * CHILD_BASE + context entry -> node.
            steps: the likeliest next steps of every node.
        """
        below: dict[int, list[tuple[int, int]]] = {}
        for key, node in children.items():
            below.setdefault(key // CHILD_BASE, []).append((key % CHILD_BASE, node))
        order, entries, firsts = [0], [0], [1]
        for node in order:  # which grows meanwhile
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
            array("H", [round(1000 * chance) for _, chance in flat]),
        )

    @property
    def node_count(self) -> int:
        """How many contexts it knows, the empty one included."""
        return len(self.entries)

    def next_edits(self, text: Sequence[int], state: CopyState, prefix: Prefix) -> Steps:
        """Return the likeliest steps after a prefix.

        Args:
            text: the query's tokens and eos.
            state: the prefix aligned with it.
            prefix: what has been written.
        """
        node = 0
        for entry in edit_context(text, state, prefix):
            end = self.children[node + 1]
            child = bisect_left(self.entries, entry, self.children[node], end)
            if child == end or self.entries[child] != entry:
                break
            node = child
        steps = range(self.starts[node], self.starts[node + 1])
        return tuple((self.tokens[at], self.thousandths[at] / 1000) for at in steps)

    @classmethod
    def from_json(cls, values: Any, vocab_size: int) -> EditNgramTable:
        """Read a table as version 0.2 stored it: nodes with parent, entry, and steps as token and thousandths.

        Raises:
            ValueError: for anything else, or another vocabulary's tokens.
        """
        try:
            parents, entries, flat = (values[name] for name in ("parents", "entries", "steps"))
            numbers = [*parents, *entries, *(part for steps in flat for part in steps)]
            if any(type(number) is not int for number in numbers):
                raise ValueError("a number is no whole number")
            pairs = [tuple(zip(steps[::2], steps[1::2], strict=True)) for steps in flat]
            children = {
                parent * CHILD_BASE + entry: node
                for node, (parent, entry) in enumerate(zip(parents, entries, strict=True), 1)
                if 0 <= parent < node and 0 <= entry < max(vocab_size, 5)
            }
        except (TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"the phrases are damaged: {error!r}") from error
        if len(children) + 1 != len(pairs):
            raise ValueError("the phrases are damaged: nodes and steps do not fit together")
        for token, chance in (step for steps in pairs for step in steps):
            if not 0 <= chance <= 1000 or not (token == COPY or token < vocab_size):
                raise ValueError(f"the phrases are of another vocabulary: {token}, {chance}")
            if token in (PAD, BOS) or token < COPY:
                raise ValueError(f"the phrases hold token {token}, which no answer has")
        return cls.from_nodes(children, [tuple((token, chance / 1000) for token, chance in steps) for steps in pairs])


def count_edits(
    pairs: Iterable[tuple[Sequence[int], Sequence[int]]],
    token_classes: TokenClasses,
    *,
    min_visits: int = 8,
    min_change: float = 0.4,
    max_steps: int = 3,
) -> EditNgramTable:
    """Count which steps follow which contexts.

    Args:
        pairs: queries and answers, without special tokens.
        token_classes: what is known of the vocabulary.
        min_visits: visits that a context needs to be kept.
        min_change: how much the probabilities of a context must differ from those of the shorter one (summed over the
            steps) to be kept. In trials two thirds of a table went without any loss of passes.
        max_steps: steps kept of a context.
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
                    # A context grows by one entry a visit: what is seen once needs no path of its own.
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

    def chances(node: int, shorter: dict[int, float]) -> dict[int, float]:
        """Return shares, smoothed by those of the shorter context as if that had been seen twice."""
        seen, weight = counts[node], 2.0 if shorter else 0.0
        total = sum(seen.values()) + weight
        shares = {step: (seen.get(step, 0) + weight * shorter.get(step, 0.0)) / total for step in {*seen, *shorter}}
        return dict(sorted(shares.items(), key=lambda pair: (-pair[1], pair[0]))[:max_steps])

    def keep(node: int, shares: dict[int, float], number: int) -> None:
        """Write a node's steps and its children worth keeping."""
        steps[number] = tuple((step, share) for step, share in shares.items() if share >= 0.01)
        for entry, child in sorted(below[node].items()):
            new = len(steps)
            if sum(counts[child].values()) < min_visits:
                continue
            child_shares = chances(child, shares)
            children[number * CHILD_BASE + entry] = new
            steps.append(())
            keep(child, child_shares, new)
            change = sum(abs(child_shares.get(s, 0) - shares.get(s, 0)) for s in {*child_shares, *shares})
            if len(steps) == new + 1 and change <= min_change:
                steps.pop()
                del children[number * CHILD_BASE + entry]

    if counts[0]:
        keep(0, chances(0, {}), 0)
    return EditNgramTable.from_nodes(children, steps)


# The table of a model that was not calibrated: it knows no edits, only that copying goes on.
COPY_ONLY = EditNgramTable.from_nodes({}, [((COPY, 0.9),)])
