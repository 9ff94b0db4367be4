"""Draft as much as pays: candidates, lengths and whether to draft at all, from what a pass costs and how drafts fare.

The wall-time model of Leviathan et al. (2023), used by Xia et al. and Tulsian et al., with a measured cost curve instead of a
constant ratio: a pass with n drafted nodes takes time t(n) and yields 1 + sum of p_i tokens, p_i being the chance that
node i is accepted. Nodes are added in order of p_i, as many as make (1 + sum p_i) / t(n) largest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from chemspec.draft.copy import Copy, Marks
from chemspec.types import Draft, Prefix

REACH = 8  # matches of this length or longer are counted as one class


class Record:
    """How often a token copied after a match of m tokens was right: hits and tries by m."""

    def __init__(self, prior: Sequence[tuple[float, float]] = (), weight: float = 30.0) -> None:
        # Without measurements: after no match one in three is right, after one token two in three, and so on.
        start = list(prior) or [
            (1 / 3, 1.0),
            (0.62, 1.0),
            (0.75, 1.0),
            (0.82, 1.0),
            (0.86, 1.0),
            (0.9, 1.0),
        ]
        start += [(0.93, 1.0)] * (REACH + 1 - len(start))
        self.hits = [rate * weight for rate, _ in start]
        self.tries = [weight] * (REACH + 1)

    def chance(self, match: int) -> float:
        place = min(match, REACH)
        return self.hits[place] / self.tries[place]

    def add(self, match: int, hit: bool) -> None:
        place = min(match, REACH)
        self.hits[place] += hit
        self.tries[place] += 1


class Auto:
    """The default drafter: `copy` with as many places and tokens as pay at the load of the pass.

    One object serves one run of the loop, and learns from it; what it learns changes the number of passes, not an answer.
    """

    SECOND = 0.5  # a further place is tried with this share of the chance that the place before it was wrong
    AHEAD = 12  # looking ahead multiplies the nodes of a beam by about so much (benchmarks.md)
    STRIDE = 4  # tokens of a draft between two questions of a look-ahead

    def __init__(
        self,
        cost: Callable[[float], float],
        *,
        places: int = 3,
        length: int = 24,
        marks: Marks = Marks(),
    ) -> None:
        self.copy = Copy(length=length, count=places, marks=marks)
        self._cost = cost
        self._costs: dict[int, float] = {}
        self.record = Record()
        self.asked, self.queries = 1, 1
        self.ahead = False

    def cost(self, nodes: int) -> float:
        """Seconds of a pass of so many nodes."""
        if nodes not in self._costs:
            self._costs[nodes] = self._cost(nodes)
        return self._costs[nodes]

    def begin(self, asked: int, queries: int) -> bool:
        self.asked, self.queries = asked, queries
        # It divides the passes of a beam by three.
        self.ahead = self.cost(self.AHEAD * asked) < 2 * self.cost(asked)
        return self.ahead

    def propose(self, source: Sequence[int], prefix: Prefix, room: int) -> Sequence[Draft]:
        if self.asked > self.queries:
            # A beam fills its passes by itself, unless nodes are cheap; a look-ahead asks again where a draft ends.
            reach = min(room, self.STRIDE)
            return self.copy.propose(source, prefix, reach)[:1] if self.ahead else ()
        found = self.copy.ranked(source, prefix)[: self.copy.count]
        nodes: list[tuple[float, int, int]] = []  # (chance, which place, how deep)
        left = 1.0
        for which, (place, match) in enumerate(found):
            chance = left
            for depth in range(min(self.copy.length, room, len(source) + 1 - place)):
                chance *= self.record.chance(match + depth)
                if chance < 0.02:
                    break
                nodes.append((chance, which, depth))
            left *= self.SECOND * (1 - self.record.chance(match))
        nodes.sort(reverse=True)
        lengths = [0] * len(found)
        for _, which, depth in nodes[: self._pays([chance for chance, _, _ in nodes])]:
            lengths[which] = max(lengths[which], depth + 1)
        return [
            self.copy.draft(source, prefix, place, match, length)
            for (place, match), length in zip(found, lengths, strict=True)
            if length
        ]

    def _pays(self, chances: Sequence[float]) -> int:
        """How many nodes make tokens per second largest, if all queries of the pass add as many."""
        best, best_rate, tokens = 0, 1 / self.cost(self.asked), 1.0
        for count, chance in enumerate(chances, 1):
            tokens += chance
            rate = tokens / self.cost(self.asked + self.queries * count)
            if rate > best_rate:
                best, best_rate = count, rate
        return best

    def learn(self, draft: Draft, accepted: int) -> None:
        for place in range(min(accepted + 1, len(draft.tokens))):
            self.record.add(draft.match + place, place < accepted)
