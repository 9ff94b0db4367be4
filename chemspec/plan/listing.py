"""The solved routes of a search tree, the cheapest first, found one at a time."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from typing import Any

from syntheseus.search.graph.and_or import AndNode

Entry = tuple[float, list[AndNode]]  # cost of a route, and its steps
Cost = Callable[[AndNode], float]  # cost of a step; infinite for one that no route may have


def cheapest_routes(graph: Any, cost: Cost, seconds: float) -> Iterator[list[AndNode]]:
    """Yield the steps of the solved routes of a tree by increasing cost, for at most some seconds.

    A molecule with steps is made by one of them, even if it is in stock.
    """
    ends = time.perf_counter() + seconds
    routes, rank = _RoutesTo(graph, graph.root_node, cost), 0
    while time.perf_counter() < ends and (entry := routes.get(rank)):
        yield entry[1]
        rank += 1


class _RoutesTo:
    """The routes to a molecule by increasing cost, each found when it is needed.

    A candidate is a step with the rank of the route to each of its reactants; the next ones have one of these ranks
    raised by one, from the last that was raised, so that none comes twice.
    """

    def __init__(self, graph: Any, molecule: Any, cost: Cost) -> None:
        self._routes: list[Entry] = []
        self._candidates: list[tuple[float, int, AndNode, tuple[int, ...], Sequence[_RoutesTo]]] = []
        self._number = 0  # orders equal ones
        steps = list(graph.successors(molecule))
        if not steps and molecule.has_solution:
            self._routes.append((0.0, []))
        for step in steps:
            if step.has_solution and (alone := cost(step)) < math.inf:
                below = [_RoutesTo(graph, reactant, cost) for reactant in graph.successors(step)]
                if all(routes.get(0) for routes in below):
                    total = alone + sum(routes._routes[0][0] for routes in below)
                    self._candidates.append((total, self._number, step, (0,) * len(below), below))
                    self._number += 1
        heapify(self._candidates)

    def get(self, rank: int) -> Entry | None:
        """Return the route of a rank, from 0; None if there are fewer."""
        while len(self._routes) <= rank and self._candidates:
            total, _, step, ranks, below = heappop(self._candidates)
            entries = [routes._routes[each] for routes, each in zip(below, ranks, strict=True)]
            self._routes.append((total, [step, *(node for _, steps in entries for node in steps)]))
            raised = max((k for k, each in enumerate(ranks) if each), default=0)
            for k in range(raised, len(ranks)):
                if following := below[k].get(ranks[k] + 1):
                    more = total - entries[k][0] + following[0]
                    new_ranks = (*ranks[:k], ranks[k] + 1, *ranks[k + 1 :])
                    heappush(self._candidates, (more, self._number, step, new_ranks, below))
                    self._number += 1
        return self._routes[rank] if rank < len(self._routes) else None
