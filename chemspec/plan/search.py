"""Multi-step search: progress, deadlines, the routes of the current graph, and the plan."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from typing import Any

from syntheseus.search.graph.and_or import AndNode

from chemspec import chem
from chemspec.chem import formats
from chemspec.plan import constraints
from chemspec.plan.algorithms import build_algorithm, path_to_root, proposal_of, to_syntheseus_molecule
from chemspec.plan.expand import Counts, Expander, Proposal
from chemspec.plan.listing import cheapest_routes
from chemspec.plan.routes import Plan, Route, build_tree, group_routes, leaf_name, rank_routes
from chemspec.plan.settings import PlanSettings
from chemspec.stock.lists import Stock

MAX_PLACES = 100  # of a required intermediate in the tree, whose routes are listed
LISTING_SHARE = 0.1  # share of a deadline that is left for listing the routes
CHECKS_AT_ONCE = 8  # steps checked between two looks at the clock, with a deadline


@dataclass
class RouteSearch:
    """A running search, whose current results can be read at any time."""

    target: str  # canonical SMILES
    expander: Expander  # proposes and checks steps
    stock: Stock  # purchasable molecules
    settings: PlanSettings  # limits and constraints
    clock: Callable[[], float] = time.perf_counter  # returns seconds

    def __post_init__(self) -> None:
        self.counts = self.expander.counts = Counts()  # cost of the models so far
        self._graph: Any = None
        self._algorithm: Any = None
        self._began = self.clock()
        self._longest_step = 0.0

    def run(self, watch: Watch = lambda _: False) -> Plan:
        """Search until a limit is reached, nothing is left to expand, `watch` (before each step) is true, or Ctrl-C."""
        self._algorithm = algorithm = build_algorithm(self.settings, self.expander, self.stock)
        ended = "search space exhausted"
        last = self.seconds

        def stop(graph: Any) -> bool:
            nonlocal ended, last
            self._graph = graph
            self._longest_step, last = max(self._longest_step, self.seconds - last), self.seconds
            limits = {
                "stopped": bool(watch(self)),
                f"the limit of {self.settings.seconds:g} s": self.seconds >= self.settings.seconds,
                f"the deadline of {self.settings.within:g} s": self._is_late(self._longest_step),
                f"the limit of {self.settings.expansions} expansions": self.expansions >= self.settings.expansions,
                f"the limit of {self.settings.nodes} nodes": len(graph) >= self.settings.nodes,
            }
            ended = next((reason for reason, reached in limits.items() if reached), ended)
            return any(limits.values())

        algorithm.watch = stop
        algorithm.reset()
        try:
            algorithm.run_from_mol(to_syntheseus_molecule(self.target))
        except KeyboardInterrupt:
            return replace(self.result("interrupted"), interrupted=True)
        return self.result(ended)

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return self.clock() - self._began

    def _is_late(self, reserve: float) -> bool:
        """Return whether the deadline comes within `reserve` seconds, and the time to list the routes."""
        return self.seconds + reserve >= (1.0 - LISTING_SHARE) * self.settings.within

    @property
    def solved(self) -> bool:
        """Whether there is a route of at least one step from stock, through a required intermediate or not."""
        graph = self._graph
        return graph is not None and any(step.has_solution for step in graph.successors(graph.root_node))

    @property
    def expansions(self) -> int:
        """Number of different molecules expanded so far."""
        return len(self._algorithm.expanded) if self._algorithm else 0

    def routes(self) -> tuple[Route, ...]:
        """Return the best routes so far with checked steps; if none is solved, the closest one."""
        if self._graph is None:
            return ()
        began = self.seconds
        while True:  # until checks change nothing
            limit = 5 * self.settings.routes
            most_seconds = LISTING_SHARE * self.settings.within
            candidates = [self._steps_to(steps) for steps in self._solved_routes(limit, most_seconds)]
            if not any(candidates) and (closest := self._closest_steps()):
                candidates = [closest]
            trees = [build_tree(self.target, steps, self.stock) for steps in candidates if steps]
            routes = [Route(tree, avoid=self.settings.avoid) for tree in trees]
            if through := self.settings.through:  # the closest may be without it
                routes = [route for route in routes if route.contains(through)]
            best = rank_routes(routes, self.settings.routes)
            steps = [(node.smiles, node.step) for item in best for node in item.steps if node.step]
            unchecked = [(item, step) for item, step in steps if step.round_trip is None]
            self._longest_step, began = max(self._longest_step, self.seconds - began), self.seconds
            if self._is_late(self._longest_step):
                return group_routes(best)
            if unchecked and self.expander.forward is not None:
                self.expander.run_checks(unchecked if self.settings.within == math.inf else unchecked[:CHECKS_AT_ONCE])
            elif not self.expander.suggest_reagents(steps):
                return group_routes(best)

    def _solved_routes(self, limit: int, seconds: float) -> list[list[AndNode]]:
        """Return the steps of the cheapest solved routes; of those through the intermediate, if one is required."""
        graph = self._graph
        if not self.settings.through:
            return list(islice(cheapest_routes(graph, self._cost, seconds), limit))
        routes: list[list[AndNode]] = []
        ends = time.perf_counter() + seconds
        intermediates = (
            node
            for node in graph.nodes()
            if self._is_required(node) and not any(map(self._is_required, graph.predecessors(node)))
        )
        required = [*islice(intermediates, MAX_PLACES)]  # the first that were reached
        for node in required:  # for each, only routes through this node
            branch = path_to_root(node, graph)
            others = {other for above in branch[2::2] for other in graph.successors(above)} - {*branch}
            listed = cheapest_routes(graph, partial(self._cost, barred=others), ends - time.perf_counter())
            routes += islice(listed, max(self.settings.routes, limit // len(required)))
        return routes

    def _cost(self, step: AndNode, barred: Collection[AndNode] = ()) -> float:
        """Return the cost of a step in nats, with the checks so far; infinite for a barred one."""
        if step in barred:
            return math.inf
        product, proposal = step.reaction.product.smiles, proposal_of(step.reaction)
        if proposal.round_trip is None:  # another node of this reaction may have been checked
            proposal = self.expander.with_checks(product, proposal)
        before, cost = step.data.get("listed", (None, 0.0))
        if before is not proposal:
            cost = -math.log(proposal.prior(product))
            step.data["listed"] = (proposal, cost)
        return float(cost)

    def _is_required(self, node: Any) -> bool:
        through = self.settings.through
        return not isinstance(node, AndNode) and constraints.is_intermediate(node.mol.smiles, through)

    def _steps_to(self, nodes: Any) -> dict[str, Proposal]:
        reactions = [node.reaction for node in nodes if isinstance(node, AndNode)]
        steps_by_product = {reaction.product.smiles: proposal_of(reaction) for reaction in reactions}
        checked = {product: self.expander.with_checks(product, step) for product, step in steps_by_product.items()}
        for product, step in checked.items():
            if constraints.need_avoided(step.reagents.split("."), self.settings.avoid):
                checked[product] = replace(step, reagents="")
        return checked

    def _closest_steps(self) -> dict[str, Proposal]:
        """Return the steps of the route with the fewest unavailable heavy atoms, one through the intermediate first."""
        graph = self._graph

        def closest(node: Any) -> tuple[bool, int, float, list[AndNode]]:
            """Return whether the part below lacks the intermediate, its unavailable atoms, its cost and its steps."""
            below = [closest(child) for child in graph.successors(node)]
            if isinstance(node, AndNode):
                lacking, atoms, costs, steps = zip(*below, strict=True)
                cost = -math.log(proposal_of(node.reaction).prior(node.reaction.product.smiles))
                return all(lacking), sum(atoms), cost + sum(costs), [node, *chain(*steps)]
            lacks = bool(self.settings.through) and not self._is_required(node)
            ways = [(lacks and entry[0], *entry[1:]) for entry in below]
            if not ways or node is not graph.root_node:
                missing = 0 if node.mol.metadata.get("is_purchasable") else chem.heavy_atoms(node.mol.smiles)
                ways.append((lacks, missing, 0.0, []))
            return min(ways, key=lambda entry: entry[:3])

        return self._steps_to(closest(graph.root_node)[3])

    def result(self, ended: str) -> Plan:
        """Return the current result as a plan."""
        routes, stock_name = self.routes(), self.stock.source(self.target)
        solved = sum(route.solved for route in routes)
        outcome = f"{solved} route{'s' * (solved != 1)} from stock" if solved else "no route from stock"
        if not routes:
            outcome = "the model proposes no valid step for the target" if self.expansions else "nothing expanded yet"
            if self.settings.avoid and self.expansions:
                outcome += " without a substructure to avoid"
            if self.settings.through and self._graph is not None and len(self._graph) > 1:
                outcome = f"no route contains {self.settings.through}, which the search has not reached"
        elif not solved:
            lacking = ", ".join(leaf_name(leaf) for leaf in routes[0].leaves if not leaf.stock)
            outcome += f"; the closest route lacks {lacking}"
        prefix = f"the target itself is in stock ({stock_name}); " if stock_name else ""
        message = f"{prefix}{outcome} ({self.expansions} expansions, {self.seconds:.1f} s; {ended})"
        status, counts = "solved" if solved else "open", replace(self.counts)
        return Plan(self.target, status, message, routes, stock_name, self.expansions, self.seconds, counts)


Watch = Callable[[RouteSearch], object]


def plan(
    target: str,
    expander: Expander,
    stock: Stock,
    settings: PlanSettings | None = None,
    watch: Watch = lambda _: False,
    *,
    clock: Callable[[], float] = time.perf_counter,
) -> Plan:
    """Search routes to one molecule, given as SMILES, name, or text of any other format that is read.

    `watch` is called with the search before every step; it returns whether to stop. `clock` returns seconds. If the
    plan is "refused", its message states the fault of the target.
    """
    query = formats.read_input(target, task="retro")
    if isinstance(query, chem.Fault):
        return Plan(target, "refused", str(query))
    if "." in query.smiles:
        return Plan(query.smiles, "refused", "the target is several molecules; give one")
    if settings and settings.through and constraints.is_intermediate(query.smiles, settings.through):
        return Plan(query.smiles, "refused", "the required intermediate is the target itself")
    result = RouteSearch(query.smiles, expander, stock, settings or PlanSettings(), clock).run(watch)
    if message := expander.refused.get(query.smiles):
        result = replace(result, status="refused", message=message)
    return replace(result, notes=query.notes)
