"""Draft as much as pays: what, how much and whether at all, by the cost of a pass and the acceptance of drafts.

The wall-time model of Leviathan et al. (2023), used by Xia et al. and Tulsian et al., with a measured cost curve
instead of a constant ratio: a pass with n drafted nodes takes time t(n) and yields 1 + sum of p_i tokens, p_i being the
probability that node i is accepted. Nodes are added in order of p_i, as many as make (1 + sum p_i) / t(n) largest.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise

from chemspec.draft.base import IN_PYTHON, HostCost, Speculation
from chemspec.draft.calibration import BY_MATCH, DrafterCalibration
from chemspec.draft.copy import Copy, TokenClasses
from chemspec.draft.mixed import Mixed
from chemspec.draft.tree.builder import MIN_CHANCE, PROBES, ThroughputStop, TreeLimits
from chemspec.draft.tree.edit_ngrams import chance_class
from chemspec.types import Draft, Prefix

NODES = 64  # of one query in one pass, at most


class AcceptanceRecord:
    """Acceptance rates of drafted tokens by class; they begin as if `weight` tokens of each had been tried."""

    def __init__(self, rates: Sequence[float] = BY_MATCH, weight: float = 30.0) -> None:
        self.hits = [rate * weight for rate in rates]
        self.tries = [weight] * len(self.hits)

    @property
    def chances(self) -> tuple[float, ...]:
        """The acceptance rate of every class."""
        return tuple(hits / tries for hits, tries in zip(self.hits, self.tries, strict=True))

    def chance(self, kind: int) -> float:
        """Return the acceptance rate of a class; classes beyond the last count as the last."""
        index = min(kind, len(self.hits) - 1)
        return self.hits[index] / self.tries[index]

    def add(self, kind: int, hit: bool) -> None:
        """Count one token of a class."""
        index = min(kind, len(self.hits) - 1)
        self.hits[index] += hit
        self.tries[index] += 1


class Auto:
    """The default drafter: as many nodes of `mixed` as pay at the load of the pass, or of `copy` without an edit table.

    One object serves one run of the loop, and learns from it; that changes the number of passes, not an answer.
    """

    SECOND = 0.5  # a further position is tried with this share of the chance that the one before it was wrong
    # Looking ahead multiplies the nodes of a beam, and divides its passes, by about so much (benchmarks.md).
    AHEAD, SAVES = 12, 2.5
    STRIDE = 4  # tokens of a draft after which a look-ahead asks again
    MIN_GAIN = 1.1  # the speed-up that drafts must promise before they are made
    # Sizes of a draft at which it is asked whether it would pay: two, for a curve may be steep at first.
    CERTAIN = (1, 3)

    def __init__(
        self,
        cost: Callable[[float], float],
        *,
        places: int = 3,
        length: int = 24,
        token_classes: TokenClasses = TokenClasses(),
        calibration: DrafterCalibration = DrafterCalibration(),
    ) -> None:
        self.copy = Copy(length=length, count=places, token_classes=token_classes)
        self.cost, self.host = cost, _host(cost)
        self.by_match = AcceptanceRecord(calibration.by_match)
        self.by_chance = AcceptanceRecord(calibration.by_chance, weight=100.0)
        self.mixed = (
            None
            if calibration.edit_table is None
            else Mixed(calibration.edit_table, length=length, token_classes=token_classes)
        )
        self.asked, self.queries, self.beams = 1, 1, False
        self._observed: set[tuple[int, ...]] = set()
        self._loads: dict[tuple[int, int, int], tuple[Speculation, TreeLimits]] = {}
        self.speculation, self.limits = Speculation.DRAFT, self._tree_limits()

    def plan_pass(self, asked: int, queries: int, *, waiting: int) -> Speculation:
        """Choose what pays in the next pass; see `AdaptiveDrafter`."""
        self.asked, self.queries, self.beams = asked, queries, waiting > queries
        self._observed.clear()
        load = asked, queries, waiting
        if load not in self._loads:
            self._loads[load] = self._what_pays(asked, waiting), self._tree_limits()
        self.speculation, self.limits = self._loads[load]
        return self.speculation

    def _what_pays(self, asked: int, waiting: int) -> Speculation:
        # If not even tokens that were certain to be accepted pay, no guess does.
        if not self.beams and not any(map(self._would_pay, self.CERTAIN)):
            return Speculation.OFF
        # How many hypotheses there are tells what a beam's passes cost, not how many of them happen to be unknown.
        nodes = self.AHEAD * max(asked, waiting)
        ahead = self.cost(nodes) + (self.host.start + self.host.ahead * nodes)
        if self.MIN_GAIN * ahead < self.SAVES * (self.cost(max(asked, waiting)) + self.host.start):
            return Speculation.LOOKAHEAD
        return Speculation.OFF if self.beams else Speculation.DRAFT  # a beam fills its passes by itself

    def _would_pay(self, nodes: int) -> bool:
        """Return whether so many nodes a query would pay if all were accepted."""
        seconds = self._seconds[nodes] + self.host.tree * self.queries
        return (1 + nodes) * (self.cost(self.asked) + self.host.start) > self.MIN_GAIN * seconds

    @property
    def _seconds(self) -> Sequence[float]:
        return _seconds(self.cost, self.asked, self.queries)

    def propose(self, source: Sequence[int], prefix: Prefix, max_new_tokens: int) -> Sequence[Draft]:
        """Return drafts for one prefix; see `Drafter.propose`."""
        if self.speculation is Speculation.OFF:
            return ()
        # A look-ahead asks again where a draft ends.
        max_new_tokens = min(max_new_tokens, self.STRIDE) if self.beams else max_new_tokens
        if self.mixed is None:
            if self.beams:
                return self.copy.propose(source, prefix, max_new_tokens)[:1]
            return self._copies(source, prefix, max_new_tokens)
        limits = self.limits._replace(accept_rates=self.by_chance.chances)
        drafts = self.mixed.drafts(source, prefix, max_new_tokens, limits)
        return drafts[:1] if self.beams else drafts

    def _tree_limits(self) -> TreeLimits:
        """Return how far trees may grow at the load of this pass, if all its queries add as many nodes."""
        paths, length = Mixed.PATHS, self.copy.length
        if self.beams:
            return TreeLimits(self.STRIDE, paths, length)
        return TreeLimits(NODES, paths, length, self._min_chance(), pass_seconds=self._seconds)

    def _min_chance(self) -> float:
        """Return the chance below which no node pays: its seconds over those of a token without drafts."""
        seconds = self._seconds
        slopes = [(seconds[b] - seconds[a]) / (b - a) for a, b in pairwise((0, *PROBES))]
        return max(MIN_CHANCE, min(slopes) / seconds[0])

    def _copies(self, source: Sequence[int], prefix: Prefix, max_new_tokens: int) -> Sequence[Draft]:
        ranked = self.copy.ranked(source, prefix)[: self.copy.count]
        nodes: list[tuple[float, int, int]] = []  # (chance, which position, depth)
        left = 1.0
        for which, (position, match) in enumerate(ranked):
            chance = left
            for depth in range(min(self.copy.length, max_new_tokens, len(source) + 1 - position)):
                chance *= self.by_match.chance(match + depth)
                if chance < MIN_CHANCE:
                    break
                nodes.append((chance, which, depth))
            left *= self.SECOND * (1 - self.by_match.chance(match))
        nodes.sort(reverse=True)
        lengths = [0] * len(ranked)
        for _, which, depth in nodes[: self._most([chance for chance, _, _ in nodes])]:
            lengths[which] = max(lengths[which], depth + 1)
        return [
            self.copy.draft(source, prefix, position, match, length)
            for (position, match), length in zip(ranked, lengths, strict=True)
            if length
        ]

    def _most(self, chances: Sequence[float]) -> int:
        """Return how many nodes make tokens per second largest, if all queries of the pass add as many."""
        stop = ThroughputStop(self._seconds)
        for count, chance in enumerate(chances[:NODES]):
            if not stop.more(count, chance):
                break
        return stop.best

    def observe(self, draft: Draft, accepted: int) -> None:
        """Take note of the fate of a draft; see `AdaptiveDrafter`."""
        for place in range(min(accepted + 1, len(draft.tokens))):
            if not draft.chances:
                self.by_match.add(draft.match + place, place < accepted)
                continue
            path = draft.tokens[: place + 1]
            if path not in self._observed:  # paths of a tree have beginnings in common
                self._observed.add(path)
                self.by_chance.add(chance_class(draft.chances[place]), place < accepted)


@lru_cache(maxsize=512)
def _seconds(cost: Callable[[float], float], asked: int, queries: int) -> Sequence[float]:
    """Return the seconds of a pass in which each query adds 0, 1, 2, ... nodes, host time included."""
    added = [queries * nodes for nodes in range(NODES + PROBES[-1] + 1)]
    host = _host(cost)
    return array("d", [cost(asked + nodes) + (host.start + host.node * nodes) for nodes in added])


def _host(cost: Callable[[float], float]) -> HostCost:
    """Return what the loop costs beside a pass, which a `CostCurve` knows."""
    return getattr(cost, "host", IN_PYTHON)
