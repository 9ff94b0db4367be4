"""Let Syntheseus search for routes; likely next molecules are decoded in one call with the one that is asked for.

That is speculation one level up: Retro* asks for one molecule after the other, but which ones come next can be guessed
from its own values. A wrong guess costs a decode, never a route: the search sees only answers to what it asked.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from syntheseus.interface.bag import Bag
from syntheseus.interface.models import BackwardReactionModel
from syntheseus.interface.molecule import Molecule
from syntheseus.interface.reaction import SingleProductReaction
from syntheseus.search.algorithms.best_first.retro_star import RetroStarSearch
from syntheseus.search.algorithms.breadth_first import AndOr_BreadthFirstSearch
from syntheseus.search.algorithms.mcts.base import pucb_bound
from syntheseus.search.algorithms.mcts.molset import MolSetMCTS
from syntheseus.search.analysis.route_extraction import iter_routes_cost_order
from syntheseus.search.graph.and_or import AndNode, OrNode
from syntheseus.search.mol_inventory import BaseMolInventory
from syntheseus.search.node_evaluation.common import (
    ConstantNodeEvaluator,
    HasSolutionValueFunction,
    ReactionModelLogProbCost,
    ReactionModelProbPolicy,
)

from chemspec import chem
from chemspec.plan.bonds import Bonds, inherit
from chemspec.plan.expand import Counts, Expander, Proposal
from chemspec.plan.routes import Plan, Route, grouped, grow, ranked
from chemspec.plan.stock import Stock
from chemspec.plan.tree import Seen, likeliest

ALGORITHMS = ("retro-star", "mcts", "breadth-first")
EXTRACTION = 5.0  # most seconds of reading routes off the graph


@dataclass(frozen=True, kw_only=True)
class PlanSettings:
    """How to search, and how far.

    Attributes:
        algorithm: one of `ALGORITHMS`.
        seconds: most time, of the search without loading.
        expansions: most molecules expanded (of mcts: visits).
        depth: most steps one after the other.
        nodes: most nodes of the graph, which bounds the memory: about 4 kB each.
        routes: most routes that are kept.
        ahead: most further open molecules that are decoded in one call with the one that is asked for; pays where a
            wider batch costs no more time, as on a GPU.
        only: reactions (SMILES, as `Proposal.reaction` writes them) by which their products are made and no others.
        without: reactions that are not used.
        keep: bonds of the target that no step makes (not with mcts).
    """

    algorithm: str = "retro-star"
    seconds: float = 60.0
    expansions: int = 200
    depth: int = 6
    nodes: int = 50_000
    routes: int = 20
    ahead: int = 0
    only: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    keep: Bonds = ()

    def __post_init__(self) -> None:
        if self.algorithm not in ALGORITHMS:
            raise ValueError(f"no algorithm {self.algorithm!r}; there are {', '.join(ALGORITHMS)}")
        for name in ("seconds", "expansions", "depth", "nodes", "routes"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be above 0")
        if self.keep and self.algorithm == "mcts":
            raise ValueError("mcts cannot keep bonds; choose retro-star or breadth-first")
        if self.ahead < 0:
            raise ValueError(f"ahead is {self.ahead}; it must not be negative")


class _Answers(BackwardReactionModel):  # type: ignore[misc]
    """An expander as Syntheseus asks it."""

    def __init__(self, expander: Expander, how: PlanSettings) -> None:
        super().__init__(use_cache=True, default_num_results=expander.settings.n)
        self.expander = expander
        self._only, self._without = set(how.only), set(how.without)
        self._fixed = {reaction.partition(">>")[2] for reaction in how.only}

    def _get_reactions(self, inputs: list[Molecule], num_results: int) -> list[Sequence[SingleProductReaction]]:
        found = self.expander.expand([one.smiles for one in inputs])
        return [
            [_reaction(one, self.expander.checked(one.smiles, way)) for way in ways if self._allows(one.smiles, way)]
            for one, ways in zip(inputs, found, strict=True)
        ]

    def _allows(self, smiles: str, way: Proposal) -> bool:
        reaction = way.reaction(smiles)
        return reaction not in self._without and (smiles not in self._fixed or reaction in self._only)


def _molecule(smiles: str) -> Molecule:
    return Molecule(smiles, canonicalize=False, make_rdkit_mol=False)  # ours are canonical


def _reaction(product: Molecule, way: Proposal) -> SingleProductReaction:
    metadata = {"probability": way.prior(product.smiles), "proposal": way}
    return SingleProductReaction(
        product=product, reactants=Bag([_molecule(one) for one in way.reactants]), metadata=metadata
    )


class _Inventory(BaseMolInventory):  # type: ignore[misc]
    """A stock as Syntheseus asks it."""

    def __init__(self, stock: Stock) -> None:
        self.stock = stock

    def is_purchasable(self, mol: Molecule) -> bool:
        return bool(self.stock.source(mol.smiles))


class _Watched:
    """An algorithm that tells how far it is, stops when asked, and looks ahead."""

    watch: Callable[[Any], bool]
    expansions = 0
    ahead = 0
    keep: Bonds = ()

    def should_stop_search(self, graph: Any) -> bool:
        return self.watch(graph) or bool(super().should_stop_search(graph))  # type: ignore[misc]

    def expand_node(self, node: Any, graph: Any, force_expansion: bool = False) -> Any:
        algorithm: Any = self
        if algorithm.can_expand_node(node, graph):
            self.expansions += 1
            expander = algorithm.reaction_model.expander
            if self.ahead and isinstance(node, OrNode) and not expander.knows(node.mol.smiles):
                unknown = (one.mol.smiles for one in self._next(graph) if not expander.knows(one.mol.smiles))
                expander.expand(list(dict.fromkeys([node.mol.smiles, *islice(unknown, self.ahead)])))
        return super().expand_node(node, graph, force_expansion)  # type: ignore[misc]

    def _filter_reactions(self, reactions: Any, node: Any, graph: Any) -> Any:
        """Leave out what makes a bond that is to be kept; the others note where the bonds are below."""
        allowed = super()._filter_reactions(reactions, node, graph)  # type: ignore[misc]
        parents = list(graph.predecessors(node)) if self.keep else []
        bonds = parents[0].reaction.metadata["kept"].get(node.mol.smiles, ()) if parents else self.keep
        if not self.keep:
            return allowed
        below = [(one, inherit(_way_of(one).reactants, one.product.smiles, bonds)) for one in allowed]
        return [
            SingleProductReaction(product=one.product, reactants=one.reactants, metadata={**one.metadata, "kept": kept})
            for one, kept in below
            if kept is not None
        ]

    def _next(self, graph: Any) -> Iterator[OrNode]:
        """The open molecules in the order in which they would be expanded if nothing changed."""
        algorithm: Any = self
        leaves = [one for one in graph.nodes() if isinstance(one, OrNode) and algorithm.can_expand_node(one, graph)]
        return iter(sorted(leaves, key=lambda one: one.data.get("retro_star_value", 0.0)))


class _RetroStar(_Watched, RetroStarSearch):  # type: ignore[misc]
    """Retro* that asks the forward model only about steps on which its next choice rests.

    A check can only make a step dearer. So the molecule with the least cost is the right one to expand as soon as all
    steps of the cheapest tree through it have been checked, as in a lazy A*; nobody asks about the others.
    """

    def visit_node(self, node: Any, graph: Any) -> Any:
        dearer = [step for step in self._tree(node, graph) if self._is_dearer(step, graph)]
        if dearer:  # no visit: all of them go back into the queue with their new values
            return list(self.set_node_values(dearer, graph))
        return super().visit_node(node, graph)

    def _tree(self, node: Any, graph: Any) -> list[AndNode]:
        """The steps of the cheapest tree through a molecule that have not been checked; now they are."""
        expander, found = self.reaction_model.expander, []
        while parents := list(graph.predecessors(node)):
            below = [one for one in graph.successors(parents[0]) if one is not node]
            found.append(parents[0])
            while below:
                ways = list(graph.successors(below.pop()))
                if ways and (best := min(ways, key=_cost)) and _cost(best) < math.inf:
                    found.append(best)
                    below += graph.successors(best)
            (node,) = graph.predecessors(parents[0])
        unchecked = [one for one in found if _way(one).round_trip is None]
        expander.check([(one.reaction.product.smiles, _way(one)) for one in unchecked])
        return unchecked

    def _is_dearer(self, step: AndNode, graph: Any) -> bool:
        product, before = step.reaction.product.smiles, _way(step)
        step.reaction.metadata["proposal"] = now = self.reaction_model.expander.checked(product, before)
        step.reaction.metadata["probability"] = now.prior(product)
        (step.data["retro_star_rxn_cost"],) = self.and_node_cost_fn([step], graph=graph)
        return bool(now.prior(product) < before.prior(product))


def _cost(step: AndNode) -> float:
    return float(step.data["retro_star_reaction_number"])


def _left(mol: Molecule) -> int:
    return 0 if mol.metadata.get("is_purchasable") else chem.heavy_atoms(mol.smiles)


def _way(step: AndNode) -> Proposal:
    return _way_of(step.reaction)


def _way_of(reaction: SingleProductReaction) -> Proposal:
    return reaction.metadata["proposal"]  # type: ignore[no-any-return]


class _BreadthFirst(_Watched, AndOr_BreadthFirstSearch):  # type: ignore[misc]
    pass


class _Mcts(_Watched, MolSetMCTS):  # type: ignore[misc]
    pass


@dataclass
class Search:
    """A search under way: what it has found can be read at any time.

    Attributes:
        target: canonical SMILES.
        expander: answers.
        stock: what can be bought.
        settings: how far to go.
    """

    target: str
    expander: Expander
    stock: Stock
    settings: PlanSettings

    def __post_init__(self) -> None:
        self._before = replace(self.expander.counts)
        self._graph: Any = None
        self._algorithm: Any = None
        self._began = time.perf_counter()

    def run(self, watch: Watch = lambda _: False) -> Plan:
        """Search until a limit is reached, nothing is left to expand, or `watch`, called before every step, says stop.

        A KeyboardInterrupt ends the search too, and what has been found is returned.
        """
        self._algorithm = algorithm = self._build()
        ended = "all that could be tried was tried"

        def stop(graph: Any) -> bool:
            nonlocal ended
            self._graph = graph
            limits = {
                "stopped": bool(watch(self)),
                f"the limit of {self.settings.seconds:g} s": self.seconds >= self.settings.seconds,
                f"the limit of {self.settings.expansions} expansions": algorithm.expansions >= self.settings.expansions,
                f"the limit of {self.settings.nodes} nodes": len(graph) >= self.settings.nodes,
            }
            ended = next((what for what, reached in limits.items() if reached), ended)
            return any(limits.values())

        algorithm.watch = stop
        algorithm.reset()
        try:
            algorithm.run_from_mol(_molecule(self.target))
        except KeyboardInterrupt:
            return replace(self.result("interrupted"), interrupted=True)
        return self.result(ended)

    def _build(self) -> Any:
        how = self.settings
        common: dict[str, Any] = {
            "reaction_model": _Answers(self.expander, how),
            "mol_inventory": _Inventory(self.stock),
            "max_expansion_depth": how.depth * (1 if how.algorithm == "mcts" else 2),  # reactions are nodes too
            "limit_iterations": 100 * how.expansions,  # most visits of mcts lead to what is expanded already
            "time_limit_s": how.seconds,
            "expand_purchasable_target": True,
            "prevent_repeat_mol_in_trees": True,
        }
        algorithm: Any
        if how.algorithm == "retro-star":
            costs = ReactionModelLogProbCost()
            algorithm = _RetroStar(and_node_cost_fn=costs, value_function=ConstantNodeEvaluator(0.0), **common)
        elif how.algorithm == "mcts":
            algorithm = _Mcts(
                reward_function=HasSolutionValueFunction(),
                value_function=ConstantNodeEvaluator(0.5),
                policy=ReactionModelProbPolicy(),
                bound_function=pucb_bound,
                **common,
            )
        else:
            algorithm = _BreadthFirst(**common)
        algorithm.ahead, algorithm.keep = how.ahead, how.keep
        return algorithm

    @property
    def seconds(self) -> float:
        """Since it began."""
        return time.perf_counter() - self._began

    @property
    def expansions(self) -> int:
        """Molecules expanded so far."""
        return self._algorithm.expansions if self._algorithm else 0

    @property
    def counts(self) -> Counts:
        """What the models did so far."""
        now, before = vars(self.expander.counts), vars(self._before)
        return Counts(**{name: now[name] - before[name] for name in now})

    def routes(self) -> tuple[Route, ...]:
        """The best routes so far, all steps checked; if none is solved, the one that is closest."""
        if self._graph is None:
            return ()
        while True:  # until checks change nothing any more
            for node in self._graph.nodes():
                node.data["route_cost"] = sum(-math.log(way.prior(one)) for one, way in self._ways([node]).items())
            wanted = 5 * self.settings.routes
            found = [self._ways(one) for one in iter_routes_cost_order(self._graph, wanted, max_time_s=EXTRACTION)]
            if not any(found) and (closest := self._closest()):
                found = [closest]
            best = ranked([self._route(steps) for steps in found if steps], self.settings.routes)
            steps = [(node.smiles, node.step) for one in best for node in one.steps if node.step]
            unchecked = [(one, way) for one, way in steps if way.round_trip is None]
            if unchecked and self.expander.forward is not None:
                self.expander.check(unchecked)
            elif not self.expander.propose(steps):
                return grouped(best)

    def tree(self) -> Seen:
        """The likeliest part of what has been tried so far."""
        found: dict[str, dict[tuple[str, ...], Proposal]] = {}
        for node in self._graph.nodes() if self._graph is not None else ():
            for product, way in self._ways([node]).items():
                found.setdefault(product, {})[way.reactants] = way
        steps = {product: list(ways.values()) for product, ways in found.items()}
        return likeliest(self.target, steps, self.stock.source)

    def _ways(self, nodes: Any) -> dict[str, Proposal]:
        """The steps that lead into these nodes, by product."""
        inside = self._graph._graph
        reactions = [
            node.reaction if isinstance(node, AndNode) else inside.edges[parent, node].get("reaction")
            for node in nodes
            for parent in self._graph.predecessors(node)
        ]
        ways = {one.product.smiles: one.metadata["proposal"] for one in reactions if one is not None}
        return {product: self.expander.checked(product, way) for product, way in ways.items()}

    def _route(self, steps: dict[str, Proposal]) -> Route:
        molecules = {one for step in steps.values() for one in step.reactants}
        return Route(grow(self.target, steps, {one: self.stock.source(one) for one in molecules}))

    def _closest(self) -> dict[str, Proposal]:
        """The steps of the route that leaves the fewest heavy atoms to be made, then the best score."""
        graph = self._graph
        if not isinstance(graph.root_node, OrNode):
            nodes = [node for node in graph.nodes() if node is not graph.root_node]
            if not nodes:
                return {}
            node = min(nodes, key=lambda one: (sum(map(_left, one.mols)), one.depth))
            line = [node]
            while parents := list(graph.predecessors(line[-1])):
                line.append(parents[0])
            return self._ways(line)
        best: dict[Any, tuple[int, float, list[AndNode]]] = {}
        for node in sorted(graph.nodes(), key=lambda one: -one.depth):  # from the leaves up
            if isinstance(node, AndNode):
                below = [best[child] for child in graph.successors(node)]
                cost = -math.log(_way(node).prior(node.reaction.product.smiles))
                chosen = [node, *(one for child in below for one in child[2])]
                best[node] = sum(one[0] for one in below), cost + sum(one[1] for one in below), chosen
            else:
                ways = [best[child] for child in graph.successors(node)]
                if not ways or node is not graph.root_node:
                    ways.append((_left(node.mol), 0.0, []))
                best[node] = min(ways, key=lambda one: one[:2])
        return self._ways(best[graph.root_node][2])

    def result(self, ended: str) -> Plan:
        """What has been found, as a value."""
        found, bought = self.routes(), self.stock.source(self.target)
        solved = sum(route.solved for route in found)
        what = f"{solved} route{'s' * (solved != 1)} from stock" if solved else "no route from stock"
        if not found:
            what = "the model proposes no usable step for the target"
        elif not solved:
            what += "; the closest has " + ", ".join(one.smiles for one in found[0].leaves if not one.stock) + " left"
        told = f"the target itself is in stock ({bought}); " if bought else ""
        work = f"{self.expansions} expansions, {self.seconds:.1f} s; {ended}"
        message = f"{told}{what} ({work})"
        status = "solved" if solved else "open"
        work_done = (self.expansions, self.seconds, self.counts)
        return Plan(self.target, status, message, found, bought, *work_done, tree=self.tree())


Watch = Callable[[Search], object]


def plan(
    target: str, expander: Expander, stock: Stock, settings: PlanSettings | None = None, watch: Watch = lambda _: False
) -> Plan:
    """Search routes to one molecule.

    Args:
        target: SMILES.
        expander: says what a molecule can be made from.
        stock: says what can be bought.
        settings: the limits.
        watch: is given the search before every step, and returns whether it shall stop.

    Returns:
        Always a plan; one that is "refused" says in its message what is wrong with the target.
    """
    query = chem.read_query(target, "retro")
    if isinstance(query, chem.Fault):
        return Plan(target, "refused", str(query))
    if "." in query.smiles:
        return Plan(query.smiles, "refused", "the target is several molecules; give one")
    found = Search(query.smiles, expander, stock, settings or PlanSettings()).run(watch)
    message = expander.refused.get(query.smiles)
    return replace(found, status="refused", message=message) if message else found
