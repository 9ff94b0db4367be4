"""Draft as much as pays: which continuations, how long and whether at all, from what a pass costs and how drafts fare.

The wall-time model of Leviathan et al. (2023), used by Xia et al. and Tulsian et al., with a measured cost curve instead of a
constant ratio: a pass with n drafted nodes takes time t(n) and yields 1 + sum of p_i tokens, p_i being the chance that
node i is accepted. Nodes are added in order of p_i, as many as make (1 + sum p_i) / t(n) largest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from chemspec.draft.base import Pays
from chemspec.draft.copy import Copy, Marks
from chemspec.draft.knowledge import BY_MATCH, Knowledge, chance_class
from chemspec.draft.mixed import LEAST, Mixed
from chemspec.types import Draft, Prefix


class Record:
    """How often a drafted token was right, by class: hits and tries, which begin as if `weight` had been tried of each."""

    def __init__(self, rates: Sequence[float] = BY_MATCH, weight: float = 30.0) -> None:
        self.hits = [rate * weight for rate in rates]
        self.tries = [weight] * len(self.hits)

    def chance(self, kind: int) -> float:
        """The share of hits of a class; classes beyond the last count as the last."""
        place = min(kind, len(self.hits) - 1)
        return self.hits[place] / self.tries[place]

    def add(self, kind: int, hit: bool) -> None:
        place = min(kind, len(self.hits) - 1)
        self.hits[place] += hit
        self.tries[place] += 1


class Auto:
    """The default drafter: as many nodes of `mixed` as pay at the load of the pass, or of `copy` where no phrases are known.

    One object serves one run of the loop, and learns from it; what it learns changes the number of passes, not an answer.
    """

    SECOND = 0.5  # a further place is tried with this share of the chance that the place before it was wrong
    # Looking ahead multiplies the nodes of a beam, and divides its passes, by about so much (benchmarks.md).
    AHEAD, SAVES = 12, 2.5
    STRIDE = 4  # tokens of a draft between two questions of a look-ahead
    WORTH = 1.1  # what drafts must promise before they are thought about
    NODES = 64  # of one query in one pass, at most
    # Nodes a query that are tried whether they would pay: two numbers, for a curve may be steep at first.
    CERTAIN = (1, 3)
    # Seconds to think of one more node of a tree, and of a tree at all.
    HOST, HOST_EACH = 1e-5, 3e-5
    HOST_AHEAD = 3e-5  # and of one more node in a look-ahead, which plays the search on
    # Past a node that does not pay, so far ahead it is asked whether others would.
    STEPS = (1, 3, 7, 15, 31)

    def __init__(
        self,
        cost: Callable[[float], float],
        *,
        places: int = 3,
        length: int = 24,
        marks: Marks = Marks(),
        knowledge: Knowledge = Knowledge(),
    ) -> None:
        self.copy = Copy(length=length, count=places, marks=marks)
        self.cost = cost
        self.record = Record(knowledge.by_match)
        self.likely = Record(knowledge.by_chance, weight=100.0)
        self.mixed = (
            None
            if knowledge.phrases is None
            else Mixed(knowledge.phrases, length=length, marks=marks, rate=self._rate)
        )
        self.asked, self.queries, self.beams = 1, 1, False
        self.pays = Pays.DRAFTS
        self._heard: set[tuple[int, ...]] = set()
        self._floors: dict[tuple[int, int], float] = {}

    def begin(self, asked: int, queries: int, *, waiting: int) -> Pays:
        self.asked, self.queries, self.beams = asked, queries, waiting > queries
        self._heard.clear()
        self.pays = self._what_pays(asked, waiting)
        return self.pays

    def _what_pays(self, asked: int, waiting: int) -> Pays:
        # If not even tokens that were certain to be accepted pay, no guess does.
        if not self.beams and not any(map(self._would_pay, self.CERTAIN)):
            return Pays.NOTHING
        # How many hypotheses there are tells what a beam's passes cost, not how many of them happen to be unknown.
        nodes = self.AHEAD * max(asked, waiting)
        ahead = self.cost(nodes) + self.HOST_AHEAD * nodes
        if self.WORTH * ahead < self.SAVES * self.cost(max(asked, waiting)):
            return Pays.AHEAD
        return Pays.NOTHING if self.beams else Pays.DRAFTS  # a beam fills its passes by itself

    def _would_pay(self, nodes: int) -> bool:
        """Whether so many nodes a query would pay if all were accepted."""
        seconds = self._seconds(nodes) + self.HOST_EACH * self.queries
        return (1 + nodes) * self.cost(self.asked) > self.WORTH * seconds

    def _seconds(self, nodes: int) -> float:
        """What a pass takes to which every query adds so many nodes, thinking of them included."""
        added = self.queries * nodes
        return self.cost(self.asked + added) + self.HOST * added

    def propose(self, source: Sequence[int], prefix: Prefix, room: int) -> Sequence[Draft]:
        if self.pays is Pays.NOTHING:
            return ()
        if self.beams:
            # A look-ahead asks again where a draft ends.
            reach = min(room, self.STRIDE)
            if self.mixed is not None:
                grown = self.mixed.grow(source, prefix, reach, lambda nodes, _: nodes < reach)
                return self.mixed.paths(grown, source, prefix)[:1]
            return self.copy.propose(source, prefix, reach)[:1]
        if self.mixed is not None:
            return self._tree(self.mixed, source, prefix, room)
        return self._places(source, prefix, room)

    def _tree(
        self, mixed: Mixed, source: Sequence[int], prefix: Prefix, room: int
    ) -> Sequence[Draft]:
        """As many nodes of the tree as make tokens per second largest, if all queries of the pass add as many."""
        seconds = self._seconds
        best, best_rate, tokens = 0, 1 / seconds(0), 1.0

        def more(nodes: int, chance: float) -> bool:
            nonlocal best, best_rate, tokens
            tokens += chance
            rate = tokens / seconds(nodes + 1)
            if rate > best_rate:
                best, best_rate = nodes + 1, rate
                return nodes < self.NODES
            for step in self.STEPS:
                # No later node is likelier than this one, so that better rates than these are out of reach.
                if tokens + step * chance > best_rate * seconds(nodes + 1 + step):
                    return nodes < self.NODES
            return False

        grown = mixed.grow(source, prefix, room, more, least=self._least())
        return mixed.paths(grown[:best], source, prefix)

    def _least(self) -> float:
        """The chance below which no node pays: it must exceed the node's seconds over those of a token without drafts."""
        load = self.asked, self.queries
        if load not in self._floors:
            cost, (asked, queries) = self.cost, load
            sizes = [asked + queries * nodes for nodes in self.STEPS]
            slopes = [(cost(b) - cost(a)) / (b - a) for a, b in pairwise((asked, *sizes))]
            self._floors[load] = max(LEAST, queries * (min(slopes) + self.HOST) / cost(asked))
        return self._floors[load]

    def _places(self, source: Sequence[int], prefix: Prefix, room: int) -> Sequence[Draft]:
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
        for _, which, depth in nodes[: self._most([chance for chance, _, _ in nodes])]:
            lengths[which] = max(lengths[which], depth + 1)
        return [
            self.copy.draft(source, prefix, place, match, length)
            for (place, match), length in zip(found, lengths, strict=True)
            if length
        ]

    def _most(self, chances: Sequence[float]) -> int:
        """How many nodes make tokens per second largest, if all queries of the pass add as many."""
        best, best_rate, tokens = 0, 1 / self._seconds(0), 1.0
        for count, chance in enumerate(chances, 1):
            tokens += chance
            rate = tokens / self._seconds(count)
            if rate > best_rate:
                best, best_rate = count, rate
        return best

    def _rate(self, chance: float) -> float:
        return self.likely.chance(chance_class(chance))

    def learn(self, draft: Draft, accepted: int) -> None:
        for place in range(min(accepted + 1, len(draft.tokens))):
            if not draft.chances:
                self.record.add(draft.match + place, place < accepted)
                continue
            path = draft.tokens[: place + 1]
            if path not in self._heard:  # paths of a tree have beginnings in common
                self._heard.add(path)
                self.likely.add(chance_class(draft.chances[place]), place < accepted)
