"""Draft as much as pays: which continuations, how long and whether at all, from what a pass costs and how drafts fare.

The wall-time model of Leviathan et al. (2023), used by Xia et al. and Tulsian et al., with a measured cost curve
instead of a
constant ratio: a pass with n drafted nodes takes time t(n) and yields 1 + sum of p_i tokens, p_i being the chance that
node i is accepted. Nodes are added in order of p_i, as many as make (1 + sum p_i) / t(n) largest.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise

from chemspec.draft.base import Speculation
from chemspec.draft.calibration import BY_MATCH, DrafterCalibration
from chemspec.draft.copy import Copy, TokenClasses
from chemspec.draft.mixed import Mixed
from chemspec.draft.tree.builder import LEAST, STEPS, ThroughputStop, TreeLimits
from chemspec.draft.tree.edit_ngrams import chance_class
from chemspec.types import Draft, Prefix

NODES = 64  # of one query in one pass, at most
HOST = 1e-5  # seconds to think of one more node of a tree, and to keep account of it


class Record:
    """How often a drafted token was right, by class: hits and tries, which begin as if `weight` had been tried of
    each."""

    def __init__(self, rates: Sequence[float] = BY_MATCH, weight: float = 30.0) -> None:
        self.hits = [rate * weight for rate in rates]
        self.tries = [weight] * len(self.hits)

    @property
    def chances(self) -> tuple[float, ...]:
        """The share of hits of every class."""
        return tuple(hits / tries for hits, tries in zip(self.hits, self.tries, strict=True))

    def chance(self, kind: int) -> float:
        """The share of hits of a class; classes beyond the last count as the last."""
        place = min(kind, len(self.hits) - 1)
        return self.hits[place] / self.tries[place]

    def add(self, kind: int, hit: bool) -> None:
        place = min(kind, len(self.hits) - 1)
        self.hits[place] += hit
        self.tries[place] += 1


class Auto:
    """The default drafter: as many nodes of `mixed` as pay at the load of the pass, or of `copy` where no phrases are
    known.

    One object serves one run of the loop, and learns from it; what it learns changes the number of passes, not an
    answer.
    """

    SECOND = 0.5  # a further place is tried with this share of the chance that the place before it was wrong
    # Looking ahead multiplies the nodes of a beam, and divides its passes, by about so much (benchmarks.md).
    AHEAD, SAVES = 12, 2.5
    STRIDE = 4  # tokens of a draft between two questions of a look-ahead
    WORTH = 1.1  # what drafts must promise before they are thought about
    # Nodes a query that are tried whether they would pay: two numbers, for a curve may be steep at first.
    CERTAIN = (1, 3)
    EACH = 3e-5  # seconds to think of a tree
    HOST_AHEAD = 3e-5  # and of one more node in a look-ahead, which plays the search on

    def __init__(
        self,
        cost: Callable[[float], float],
        *,
        places: int = 3,
        length: int = 24,
        marks: TokenClasses = TokenClasses(),
        knowledge: DrafterCalibration = DrafterCalibration(),
    ) -> None:
        self.copy = Copy(length=length, count=places, marks=marks)
        self.cost = cost
        self.record = Record(knowledge.by_match)
        self.likely = Record(knowledge.by_chance, weight=100.0)
        self.mixed = None if knowledge.phrases is None else Mixed(knowledge.phrases, length=length, marks=marks)
        self.asked, self.queries, self.beams = 1, 1, False
        self._heard: set[tuple[int, ...]] = set()
        self._loads: dict[tuple[int, int, int], tuple[Speculation, TreeLimits]] = {}
        self.pays, self._limits = Speculation.DRAFT, self._growth()

    def plan_pass(self, asked: int, queries: int, *, waiting: int) -> Speculation:
        self.asked, self.queries, self.beams = asked, queries, waiting > queries
        self._heard.clear()
        load = asked, queries, waiting
        if load not in self._loads:
            self._loads[load] = self._what_pays(asked, waiting), self._growth()
        self.pays, self._limits = self._loads[load]
        return self.pays

    def _what_pays(self, asked: int, waiting: int) -> Speculation:
        # If not even tokens that were certain to be accepted pay, no guess does.
        if not self.beams and not any(map(self._would_pay, self.CERTAIN)):
            return Speculation.OFF
        # How many hypotheses there are tells what a beam's passes cost, not how many of them happen to be unknown.
        nodes = self.AHEAD * max(asked, waiting)
        ahead = self.cost(nodes) + self.HOST_AHEAD * nodes
        if self.WORTH * ahead < self.SAVES * self.cost(max(asked, waiting)):
            return Speculation.LOOKAHEAD
        return Speculation.OFF if self.beams else Speculation.DRAFT  # a beam fills its passes by itself

    def _would_pay(self, nodes: int) -> bool:
        """Whether so many nodes a query would pay if all were accepted."""
        seconds = self._seconds[nodes] + self.EACH * self.queries
        return (1 + nodes) * self.cost(self.asked) > self.WORTH * seconds

    @property
    def _seconds(self) -> Sequence[float]:
        return _seconds(self.cost, self.asked, self.queries)

    def propose(self, source: Sequence[int], prefix: Prefix, room: int) -> Sequence[Draft]:
        if self.pays is Speculation.OFF:
            return ()
        # A look-ahead asks again where a draft ends.
        room = min(room, self.STRIDE) if self.beams else room
        if self.mixed is None:
            if self.beams:
                return self.copy.propose(source, prefix, room)[:1]
            return self._places(source, prefix, room)
        limits = self._limits._replace(rates=self.likely.chances)
        drafts = self.mixed.drafts(source, prefix, room, limits)
        return drafts[:1] if self.beams else drafts

    def _growth(self) -> TreeLimits:
        """How far trees may grow at the load of this pass, if all its queries add as many nodes."""
        paths, length = Mixed.PATHS, self.copy.length
        if self.beams:
            return TreeLimits(self.STRIDE, paths, length)
        return TreeLimits(NODES, paths, length, self._least(), seconds=self._seconds)

    def _least(self) -> float:
        """The chance below which no node pays: it must exceed the node's seconds over those of a token without
        drafts."""
        seconds = self._seconds
        slopes = [(seconds[b] - seconds[a]) / (b - a) for a, b in pairwise((0, *STEPS))]
        return max(LEAST, min(slopes) / seconds[0])

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
        worth = ThroughputStop(self._seconds)
        for count, chance in enumerate(chances[:NODES]):
            if not worth.more(count, chance):
                break
        return worth.best

    def observe(self, draft: Draft, accepted: int) -> None:
        for place in range(min(accepted + 1, len(draft.tokens))):
            if not draft.chances:
                self.record.add(draft.match + place, place < accepted)
                continue
            path = draft.tokens[: place + 1]
            if path not in self._heard:  # paths of a tree have beginnings in common
                self._heard.add(path)
                self.likely.add(chance_class(draft.chances[place]), place < accepted)


@lru_cache(maxsize=512)
def _seconds(cost: Callable[[float], float], asked: int, queries: int) -> Sequence[float]:
    """What a pass takes in which each of so many queries computes 0, 1, 2, ... more nodes, thinking of them
    included."""
    added = [queries * nodes for nodes in range(NODES + STEPS[-1] + 1)]
    return array("d", [cost(asked + nodes) + HOST * nodes for nodes in added])
