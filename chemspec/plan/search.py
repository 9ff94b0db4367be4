"""Multi-step search with Syntheseus; molecules that are likely to be expanded next are decoded in the same batch.

This is speculation on the level of the search: Retro* expands one molecule after the other, but its values predict the
next ones. A wrong prediction costs a decode, but does not change the routes: the search only sees what it requests.
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
from chemspec.chem import formats
from chemspec.plan import constraints
from chemspec.plan.bonds import Bonds, trace_bonds
from chemspec.plan.expand import Counts, Expander, Proposal
from chemspec.plan.routes import Plan, Route, build_tree, group_routes, rank_routes, shared_part
from chemspec.plan.stock import Stock
from chemspec.plan.tree import Seen, likeliest_subtree

ALGORITHMS = ("retro-star", "mcts", "breadth-first")
EXTRACTION_SECONDS = 5.0  # maximum seconds for extracting routes from the graph
LISTING_SHARE = 0.1  # share of a deadline that is left for listing the routes
DETOUR_COST = 8.0  # maximum cost in nats of a molecule without any part of the required intermediate
CHECKS_AT_ONCE = 8  # steps checked between two looks at the clock, with a deadline


@dataclass(frozen=True, kw_only=True)
class PlanSettings:
    """Algorithm and limits of a search.

    Attributes:
        algorithm: one of `ALGORITHMS`.
        seconds: time limit of the search, without loading and without listing the routes.
        within: time limit of the plan, the list of routes included: nothing is begun that would end later if it took as
            long as the longest step so far, and steps that cannot be checked in time stay unchecked.
        expansions: maximum number of molecules expanded (mcts: visits).
        depth: maximum length of the longest linear sequence.
        nodes: maximum number of nodes of the graph, which limits the memory: about 4 kB each.
        routes: maximum number of routes returned.
        ahead: maximum number of further open molecules decoded in the same batch; useful if a wider batch takes no
            longer, as on a GPU.
        only: reactions (SMILES in the form of `Proposal.reaction`) that are the only steps to their products.
        without: excluded reactions.
        keep: protected bonds of the target, which no step forms (not with mcts).
        through: an intermediate or building block that every route contains, as SMILES, name or another format; without
            stereochemistry, it stands for all its stereoisomers.
        avoid: substructures as SMARTS that no molecule of a route has, except the target.
    """

    algorithm: str = "retro-star"
    seconds: float = 60.0
    within: float = math.inf
    expansions: int = 200
    depth: int = 6
    nodes: int = 50_000
    routes: int = 20
    ahead: int = 0
    only: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    keep: Bonds = ()
    through: str = ""
    avoid: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.algorithm not in ALGORITHMS:
            raise ValueError(f"no algorithm {self.algorithm!r}; available: {', '.join(ALGORITHMS)}")
        for name in ("seconds", "within", "expansions", "depth", "nodes", "routes"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be above 0")
        if self.keep and self.algorithm == "mcts":
            raise ValueError("mcts does not support protected bonds (keep); choose retro-star or breadth-first")
        if self.ahead < 0:
            raise ValueError(f"ahead is {self.ahead}; it must not be negative")
        constraints.check_patterns(self.avoid)
        if self.through:
            object.__setattr__(self, "through", constraints.read_intermediate(self.through))
            if constraints.is_avoided(self.through, self.avoid):
                raise ValueError(f"the intermediate {self.through} has a substructure that is to be avoided")


class _ReactionModel(BackwardReactionModel):  # type: ignore[misc]
    """Reaction model of Syntheseus around an expander."""

    def __init__(self, expander: Expander, settings: PlanSettings) -> None:
        super().__init__(use_cache=True, default_num_results=expander.settings.n)
        self.expander = expander
        self._only, self._without, self._avoid = set(settings.only), set(settings.without), settings.avoid
        self._fixed = {reaction.partition(">>")[2] for reaction in settings.only}

    def _get_reactions(self, inputs: list[Molecule], num_results: int) -> list[Sequence[SingleProductReaction]]:
        proposals = self.expander.expand([molecule.smiles for molecule in inputs])
        return [
            [
                _to_syntheseus(molecule, self.expander.with_checks(molecule.smiles, step))
                for step in steps
                if self._is_allowed(molecule.smiles, step)
            ]
            for molecule, steps in zip(inputs, proposals, strict=True)
        ]

    def _is_allowed(self, smiles: str, step: Proposal) -> bool:
        reaction = step.reaction(smiles)
        if reaction in self._without or (smiles in self._fixed and reaction not in self._only):
            return False
        return not constraints.need_avoided(step.reactants, self._avoid)


def _to_molecule(smiles: str) -> Molecule:
    return Molecule(smiles, canonicalize=False, make_rdkit_mol=False)  # already canonical


def _to_syntheseus(product: Molecule, step: Proposal) -> SingleProductReaction:
    metadata = {"probability": step.prior(product.smiles), "proposal": step}
    return SingleProductReaction(
        product=product, reactants=Bag([_to_molecule(reactant) for reactant in step.reactants]), metadata=metadata
    )


class _Inventory(BaseMolInventory):  # type: ignore[misc]
    """Inventory of Syntheseus around a stock."""

    def __init__(self, stock: Stock) -> None:
        self.stock = stock

    def is_purchasable(self, mol: Molecule) -> bool:
        return bool(self.stock.source(mol.smiles))


class _WatchedSearch:
    """Mixin of algorithms: progress, stopping, look-ahead and protected bonds."""

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
            if self.ahead and isinstance(node, OrNode) and not expander.is_cached(node.mol.smiles):
                unknown = (
                    open_node.mol.smiles
                    for open_node in self._next_open(graph)
                    if not expander.is_cached(open_node.mol.smiles)
                )
                expander.expand(list(dict.fromkeys([node.mol.smiles, *islice(unknown, self.ahead)])))
        return super().expand_node(node, graph, force_expansion)  # type: ignore[misc]

    def _filter_reactions(self, reactions: Any, node: Any, graph: Any) -> Any:
        """Remove reactions that form a protected bond; the others store the bonds traced to their reactants."""
        allowed = super()._filter_reactions(reactions, node, graph)  # type: ignore[misc]
        parents = list(graph.predecessors(node)) if self.keep else []
        bonds = parents[0].reaction.metadata["kept"].get(node.mol.smiles, ()) if parents else self.keep
        if not self.keep:
            return allowed
        below = [
            (reaction, trace_bonds(_proposal_of_reaction(reaction).reactants, reaction.product.smiles, bonds))
            for reaction in allowed
        ]
        return [
            SingleProductReaction(
                product=reaction.product, reactants=reaction.reactants, metadata={**reaction.metadata, "kept": traced}
            )
            for reaction, traced in below
            if traced is not None
        ]

    def _next_open(self, graph: Any) -> Iterator[OrNode]:
        """Return the open molecules in the order of their current values."""
        algorithm: Any = self
        leaves = [
            open_node
            for open_node in graph.nodes()
            if isinstance(open_node, OrNode) and algorithm.can_expand_node(open_node, graph)
        ]
        values = {leaf: leaf.data.get("retro_star_value", 0.0) + leaf.data.get("detour", 0.0) for leaf in leaves}
        return iter(sorted(leaves, key=values.__getitem__))


class _RetroStar(_WatchedSearch, RetroStarSearch):  # type: ignore[misc]
    """Retro* with lazy forward checks, of the steps on which its next choice depends.

    A check can only raise the cost of a step. So the molecule with the lowest cost is the right one to expand as soon
    as all steps of the cheapest tree through it have been checked, as in lazy A*; other steps remain unchecked.
    """

    through = ""

    def priority_function(self, node: Any, graph: Any) -> float:
        """Return the cost of the cheapest tree through a molecule; with an intermediate required, likely ways first."""
        cost = float(super().priority_function(node, graph))
        if self.through and "detour" not in node.data:
            node.data["detour"] = DETOUR_COST * self._unlikeness(node, graph)
        return cost + float(node.data.get("detour", 0.0))

    def _unlikeness(self, node: Any, graph: Any) -> float:
        """Return the share of the required intermediate that a molecule lacks; 0 below it and for its partners."""
        above = node
        while parents := list(graph.predecessors(above)):
            partners = [child.mol.smiles for child in graph.successors(parents[0])]
            if any(constraints.is_intermediate(smiles, self.through) for smiles in partners):
                return 0.0
            (above,) = graph.predecessors(parents[0])
        return 1.0 - shared_part(self.through, node.mol.smiles)

    def visit_node(self, node: Any, graph: Any) -> Any:
        raised = [step for step in self._check_cheapest_tree(node, graph) if self._raises_cost(step, graph)]
        if raised:  # not visited: the nodes return to the queue with their new values
            return list(self.set_node_values(raised, graph))
        return super().visit_node(node, graph)

    def _check_cheapest_tree(self, node: Any, graph: Any) -> list[AndNode]:
        """Check the unchecked steps of the cheapest tree through a molecule, and return them."""
        expander, tree_steps = self.reaction_model.expander, []
        while parents := list(graph.predecessors(node)):
            below = [and_node for and_node in graph.successors(parents[0]) if and_node is not node]
            tree_steps.append(parents[0])
            while below:
                alternatives = list(graph.successors(below.pop()))
                if alternatives and (best := min(alternatives, key=_tree_cost)) and _tree_cost(best) < math.inf:
                    tree_steps.append(best)
                    below += graph.successors(best)
            (node,) = graph.predecessors(parents[0])
        unchecked = [and_node for and_node in tree_steps if _proposal_of_node(and_node).round_trip is None]
        expander.run_checks([(and_node.reaction.product.smiles, _proposal_of_node(and_node)) for and_node in unchecked])
        return unchecked

    def _raises_cost(self, step: AndNode, graph: Any) -> bool:
        product, old = step.reaction.product.smiles, _proposal_of_node(step)
        step.reaction.metadata["proposal"] = new = self.reaction_model.expander.with_checks(product, old)
        step.reaction.metadata["probability"] = new.prior(product)
        (step.data["retro_star_rxn_cost"],) = self.and_node_cost_fn([step], graph=graph)
        return bool(new.prior(product) < old.prior(product))


def _tree_cost(step: AndNode) -> float:
    return float(step.data["retro_star_reaction_number"])


def _missing_atoms(mol: Molecule) -> int:
    return 0 if mol.metadata.get("is_purchasable") else chem.heavy_atoms(mol.smiles)


def _proposal_of_node(step: AndNode) -> Proposal:
    return _proposal_of_reaction(step.reaction)


def _proposal_of_reaction(reaction: SingleProductReaction) -> Proposal:
    return reaction.metadata["proposal"]  # type: ignore[no-any-return]


class _BreadthFirst(_WatchedSearch, AndOr_BreadthFirstSearch):  # type: ignore[misc]
    pass


class _Mcts(_WatchedSearch, MolSetMCTS):  # type: ignore[misc]
    pass


@dataclass
class Search:
    """A running search, whose current results can be read at any time.

    Attributes:
        target: canonical SMILES.
        expander: proposes and checks steps.
        stock: purchasable molecules.
        settings: algorithm and limits.
        clock: returns seconds.
    """

    target: str
    expander: Expander
    stock: Stock
    settings: PlanSettings
    clock: Callable[[], float] = time.perf_counter

    def __post_init__(self) -> None:
        self._before = replace(self.expander.counts)
        self._graph: Any = None
        self._algorithm: Any = None
        self._began = self.clock()
        self._longest_step = 0.0

    def run(self, watch: Watch = lambda _: False) -> Plan:
        """Search until a limit is reached, nothing is left to expand, or `watch`, called before each step, is true.

        A KeyboardInterrupt ends the search too, and the current result is returned.
        """
        self._algorithm = algorithm = self._build_algorithm()
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
                f"the limit of {self.settings.expansions} expansions": algorithm.expansions >= self.settings.expansions,
                f"the limit of {self.settings.nodes} nodes": len(graph) >= self.settings.nodes,
            }
            ended = next((reason for reason, reached in limits.items() if reached), ended)
            return any(limits.values())

        algorithm.watch = stop
        algorithm.reset()
        try:
            algorithm.run_from_mol(_to_molecule(self.target))
        except KeyboardInterrupt:
            return replace(self.result("interrupted"), interrupted=True)
        return self.result(ended)

    def _build_algorithm(self) -> Any:
        settings = self.settings
        common: dict[str, Any] = {
            "reaction_model": _ReactionModel(self.expander, settings),
            "mol_inventory": _Inventory(self.stock),
            "max_expansion_depth": settings.depth
            * (1 if settings.algorithm == "mcts" else 2),  # reactions are nodes too
            "limit_iterations": 100 * settings.expansions,  # most visits of mcts reach expanded nodes
            "expand_purchasable_target": True,
            "prevent_repeat_mol_in_trees": True,
        }
        algorithm: Any
        if settings.algorithm == "retro-star":
            costs = ReactionModelLogProbCost()
            algorithm = _RetroStar(and_node_cost_fn=costs, value_function=ConstantNodeEvaluator(0.0), **common)
            algorithm.through = settings.through
        elif settings.algorithm == "mcts":
            algorithm = _Mcts(
                reward_function=HasSolutionValueFunction(),
                value_function=ConstantNodeEvaluator(0.5),
                policy=ReactionModelProbPolicy(),
                bound_function=pucb_bound,
                **common,
            )
        else:
            algorithm = _BreadthFirst(**common)
        algorithm.ahead, algorithm.keep = settings.ahead, settings.keep
        return algorithm

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return self.clock() - self._began

    def _is_late(self, reserve: float = 0.0) -> bool:
        """Return whether the deadline comes within `reserve` seconds, and the time to list the routes."""
        return self.seconds + reserve >= (1.0 - LISTING_SHARE) * self.settings.within

    @property
    def solved(self) -> bool:
        """Whether there is a route of at least one step from stock, through a required intermediate or not."""
        graph = self._graph
        return graph is not None and any(step.has_solution for step in graph.successors(graph.root_node))

    @property
    def expansions(self) -> int:
        """Number of molecules expanded so far."""
        return self._algorithm.expansions if self._algorithm else 0

    @property
    def counts(self) -> Counts:
        """Cost of the models so far."""
        now, before = vars(self.expander.counts), vars(self._before)
        return Counts(**{name: now[name] - before[name] for name in now})

    def routes(self) -> tuple[Route, ...]:
        """Return the best routes so far with checked steps; if none is solved, the closest one."""
        if self._graph is None:
            return ()
        began = self.seconds
        while True:  # until checks change nothing
            for node in self._graph.nodes():
                node.data["route_cost"] = sum(
                    -math.log(step.prior(item)) for item, step in self._steps_to([node]).items()
                )
            limit = 5 * self.settings.routes
            most_seconds = min(EXTRACTION_SECONDS, LISTING_SHARE * self.settings.within)
            candidates = [self._steps_to(item) for item in self._solved_routes(limit, most_seconds)]
            if not any(candidates) and (closest := self._closest_steps()):
                candidates = [closest]
            routes = [self._build_route(steps) for steps in candidates if steps]
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

    def _solved_routes(self, limit: int, seconds: float) -> list[Any]:
        """Return the nodes of the cheapest solved routes; of those through the intermediate, if one is required."""
        graph, routes = self._graph, []
        if not self.settings.through:
            return list(iter_routes_cost_order(graph, limit, max_time_s=seconds))
        ends = time.perf_counter() + seconds
        required = [
            node
            for node in graph.nodes()
            if self._is_required(node) and not any(map(self._is_required, graph.predecessors(node)))
        ]
        for node in required:  # for each, only routes through this node are extracted: other branches cost infinity
            branch = self._branch(node)
            choices = [graph.successors(above) for above in branch[1:] if not isinstance(above, AndNode)]
            others = {other: other.data["route_cost"] for group in choices for other in group if other not in branch}
            for other in others:
                other.data["route_cost"] = math.inf
            most = max(self.settings.routes, limit // len(required))
            routes += iter_routes_cost_order(graph, most, max_time_s=ends - time.perf_counter())
            for other, cost in others.items():
                other.data["route_cost"] = cost
        return routes

    def _is_required(self, node: Any) -> bool:
        """Return whether a node is, or is a set with, the required intermediate."""
        mols = [] if isinstance(node, AndNode) else [node.mol] if isinstance(node, OrNode) else node.mols
        return any(constraints.is_intermediate(mol.smiles, self.settings.through) for mol in mols)

    def tree(self) -> Seen:
        """Return the likeliest part of the current search tree."""
        steps_of: dict[str, dict[tuple[str, ...], Proposal]] = {}
        for node in self._graph.nodes() if self._graph is not None else ():
            for product, step in self._steps_to([node]).items():
                steps_of.setdefault(product, {})[step.reactants] = step
        steps = {product: list(alternatives.values()) for product, alternatives in steps_of.items()}
        return likeliest_subtree(self.target, steps, self.stock.source)

    def _steps_to(self, nodes: Any) -> dict[str, Proposal]:
        """Return the steps that lead to these nodes, by product."""
        inside = self._graph._graph
        reactions = [
            node.reaction if isinstance(node, AndNode) else inside.edges[parent, node].get("reaction")
            for node in nodes
            for parent in self._graph.predecessors(node)
        ]
        steps_by_product = {
            reaction.product.smiles: reaction.metadata["proposal"] for reaction in reactions if reaction is not None
        }
        return {product: self.expander.with_checks(product, step) for product, step in steps_by_product.items()}

    def _build_route(self, steps: dict[str, Proposal]) -> Route:
        molecules = {smiles for step in steps.values() for smiles in step.reactants}
        return Route(build_tree(self.target, steps, {smiles: self.stock.source(smiles) for smiles in molecules}))

    def _closest_steps(self) -> dict[str, Proposal]:
        """Return the steps of the route with the fewest unavailable heavy atoms, then the best score.

        One through the required intermediate comes first.
        """
        graph = self._graph
        if not isinstance(graph.root_node, OrNode):
            branches = [self._branch(node) for node in graph.nodes() if node is not graph.root_node]
            if not branches:
                return {}
            missing = [(self._lacks_required(nodes), sum(map(_missing_atoms, nodes[0].mols))) for nodes in branches]
            return self._steps_to(
                branches[min(range(len(branches)), key=lambda k: (*missing[k], branches[k][0].depth))]
            )
        best: dict[Any, tuple[bool, int, float, list[AndNode]]] = {}
        for node in sorted(graph.nodes(), key=lambda entry: -entry.depth):  # from the leaves to the root
            if isinstance(node, AndNode):
                below = [best[child] for child in graph.successors(node)]
                cost = -math.log(_proposal_of_node(node).prior(node.reaction.product.smiles))
                chosen = [node, *(entry for child in below for entry in child[3])]
                cost += sum(entry[2] for entry in below)
                best[node] = all(entry[0] for entry in below), sum(entry[1] for entry in below), cost, chosen
            else:
                lacks = self._lacks_required([node])
                alternatives = [
                    (lacks and entry[0], *entry[1:]) for entry in map(best.__getitem__, graph.successors(node))
                ]
                if not alternatives or node is not graph.root_node:
                    alternatives.append((lacks, _missing_atoms(node.mol), 0.0, []))
                best[node] = min(alternatives, key=lambda entry: entry[:3])
        return self._steps_to(best[graph.root_node][3])

    def _branch(self, node: Any) -> list[Any]:
        """Return a node and all above it."""
        branch = [node]
        while parents := list(self._graph.predecessors(branch[-1])):
            branch.append(parents[0])
        return branch

    def _lacks_required(self, nodes: Sequence[Any]) -> bool:
        return bool(self.settings.through) and not any(map(self._is_required, nodes))

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
            outcome += (
                "; the closest has " + ", ".join(leaf.smiles for leaf in routes[0].leaves if not leaf.stock) + " left"
            )
        prefix = f"the target itself is in stock ({stock_name}); " if stock_name else ""
        work = f"{self.expansions} expansions, {self.seconds:.1f} s; {ended}"
        message = f"{prefix}{outcome} ({work})"
        status = "solved" if solved else "open"
        work_done = (self.expansions, self.seconds, self.counts)
        return Plan(self.target, status, message, routes, stock_name, *work_done, tree=self.tree())


Watch = Callable[[Search], object]


def plan(
    target: str,
    expander: Expander,
    stock: Stock,
    settings: PlanSettings | None = None,
    watch: Watch = lambda _: False,
    *,
    clock: Callable[[], float] = time.perf_counter,
) -> Plan:
    """Search routes to one molecule.

    Args:
        target: SMILES, name, or text of any other format that is read.
        expander: proposes and checks steps.
        stock: purchasable molecules.
        settings: algorithm and limits.
        watch: called with the search before every step; returns whether to stop.
        clock: returns seconds.

    Returns:
        A plan; if it is "refused", its message states the fault of the target.
    """
    query = formats.read_any(target, task="retro")
    if isinstance(query, chem.Fault):
        return Plan(target, "refused", str(query))
    if "." in query.smiles:
        return Plan(query.smiles, "refused", "the target is several molecules; give one")
    if settings and settings.through and constraints.is_intermediate(query.smiles, settings.through):
        return Plan(query.smiles, "refused", "the required intermediate is the target itself")
    result = Search(query.smiles, expander, stock, settings or PlanSettings(), clock).run(watch)
    message = expander.refused.get(query.smiles)
    return replace(result, status="refused", message=message) if message else result
