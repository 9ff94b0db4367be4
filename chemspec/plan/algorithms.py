"""Retro* on trees of Syntheseus, with lazy forward checks, protected bonds and intermediates."""

import math
from collections.abc import Callable, KeysView, Sequence
from typing import Any

from syntheseus.interface.bag import Bag
from syntheseus.interface.models import BackwardReactionModel
from syntheseus.interface.molecule import Molecule
from syntheseus.interface.reaction import SingleProductReaction
from syntheseus.search.algorithms.base import AndOrSearchAlgorithm
from syntheseus.search.graph.and_or import AndNode
from syntheseus.search.mol_inventory import BaseMolInventory

from chemspec.chem.reactions.guide import Bonds
from chemspec.plan import constraints
from chemspec.plan.constraints import trace_bonds
from chemspec.plan.expand import Expander, Proposal
from chemspec.plan.routes import shared_part
from chemspec.plan.settings import PlanSettings
from chemspec.stock.lists import Stock

DETOUR_COST = 8.0  # maximum cost in nats of a molecule without any part of the required intermediate


class OrderedReaction(SingleProductReaction):  # type: ignore[misc]
    """Reaction whose reactants become nodes in the order of their SMILES, in that of a set's hashes otherwise.

    The order decides between equals, and Python's hashes of texts differ from process to process.
    """

    @property
    def unique_reactants(self) -> KeysView[Molecule]:
        """The distinct reactants, sorted."""
        return dict.fromkeys(self.reactants).keys()


class ReactionModel(BackwardReactionModel):  # type: ignore[misc]
    """Reaction model of Syntheseus around an expander."""

    def __init__(self, expander: Expander, settings: PlanSettings) -> None:
        super().__init__(use_cache=True, default_num_results=expander.settings.n)
        self.expander = expander
        self._only, self._without, self._avoid = set(settings.only), set(settings.without), settings.avoid
        self._fixed = {reaction.partition(">>")[2] for reaction in settings.only}

    def _get_reactions(self, inputs: list[Molecule], num_results: int) -> list[Sequence[SingleProductReaction]]:
        proposals = self.expander.expand([molecule.smiles for molecule in inputs])
        return [
            [self._reaction(molecule, step) for step in steps if self._is_allowed(molecule.smiles, step)]
            for molecule, steps in zip(inputs, proposals, strict=True)
        ]

    def _reaction(self, product: Molecule, proposal: Proposal) -> SingleProductReaction:
        step = self.expander.with_checks(product.smiles, proposal)
        reactants = Bag([to_syntheseus_molecule(reactant) for reactant in step.reactants])
        # The probability is for searches of Syntheseus; ours asks the proposal.
        metadata = {"probability": step.prior(product.smiles), "proposal": step}
        return OrderedReaction(product=product, reactants=reactants, metadata=metadata)

    def _is_allowed(self, smiles: str, step: Proposal) -> bool:
        reaction = step.reaction(smiles)
        if reaction in self._without or (smiles in self._fixed and reaction not in self._only):
            return False
        return not constraints.need_avoided(step.reactants, self._avoid)


def to_syntheseus_molecule(smiles: str) -> Molecule:
    """Return Syntheseus' molecule of a canonical SMILES."""
    return Molecule(smiles, canonicalize=False, make_rdkit_mol=False)


class Inventory(BaseMolInventory):  # type: ignore[misc]
    """Inventory of Syntheseus around a stock."""

    def __init__(self, stock: Stock) -> None:
        self.stock = stock
        self._known: dict[str, bool] = {}  # a molecule has many nodes

    def is_purchasable(self, mol: Molecule) -> bool:
        """Return whether a molecule is in stock."""
        if mol.smiles not in self._known:
            self._known[mol.smiles] = bool(self.stock.source(mol.smiles))
        return self._known[mol.smiles]


class RetroStar(AndOrSearchAlgorithm):  # type: ignore[misc]
    """Retro* with stopping, protected bonds, and lazy forward checks of what its next choice depends on.

    A check can only raise the cost of a step. So the molecule with the lowest cost is the right one to expand as soon
    as all steps of the cheapest tree through it have been checked, as in lazy A*; other steps remain unchecked.

    Each node has two numbers in `data`, which depend on what is below it only, so that a change concerns the nodes
    above it: "cost", of the cheapest tree below (Retro*'s reaction number), and "slack", by how much more costly the
    cheapest tree is that has a molecule to expand (infinite if there is none). Of equals the first counts.
    """

    watch: Callable[[Any], bool]
    keep: Bonds = ()
    through = ""

    def reset(self) -> None:
        """Forget what was expanded."""
        super().reset()
        self.expanded: set[str] = set()  # SMILES; in the tree a molecule may have many nodes

    def set_node_values(self, nodes: Any, graph: Any) -> Any:
        """Set depth, stock and values of new nodes, given from the root downwards."""
        for node in nodes:
            above = next(iter(graph.predecessors(node)), None)
            node.depth = above.depth + 1 if above else 0
            self._fill_molecule_metadata(node, graph)
        for node in reversed([*nodes]):
            self._set_values(node, graph)
        return nodes

    def _set_values(self, node: Any, graph: Any) -> bool:
        """Set cost, slack and whether there is a solution from what is below a node; returns whether any changed."""
        data, below = node.data, list(graph.successors(node))
        before = data.get("cost"), data.get("slack"), node.has_solution
        if isinstance(node, AndNode):
            node.has_solution = all(child.has_solution for child in below)
            data["cost"] = step_cost(node) + sum(child.data["cost"] for child in below)
            data["slack"] = min((child.data["slack"] for child in below), default=math.inf)
        else:
            bought = node.mol.metadata["is_purchasable"]
            can_expand = self.can_expand_node(node, graph)
            node.has_solution = bought or any(step.has_solution for step in below)
            least = min((step.data["cost"] for step in below), default=0.0 if can_expand else math.inf)
            data["cost"] = cost = 0.0 if bought else least
            data["slack"] = self._detour(node, graph) if can_expand else math.inf
            for step in below:
                if step.data["cost"] < math.inf:
                    data["slack"] = min(data["slack"], step.data["cost"] - cost + step.data["slack"])
        return before != (data["cost"], data["slack"], node.has_solution)

    def _update_above(self, node: Any, graph: Any) -> None:
        """Update the values of a node and of those above it."""
        for above in path_to_root(node, graph):
            if not self._set_values(above, graph):
                return

    def _run_from_graph_after_setup(self, graph: Any) -> None:
        while not self.watch(graph):
            node = self._next_molecule(graph)
            if node is None:
                return
            raised = [step for step in self._check_cheapest_tree(node, graph) if self._raises_cost(step)]
            for step in raised:
                self._update_above(step, graph)
            if not raised:  # otherwise another molecule may be the cheapest now
                self.expanded.add(node.mol.smiles)
                self.set_node_values(self.expand_node(node, graph), graph)
                self._update_above(node, graph)

    def _next_molecule(self, graph: Any) -> Any:
        """Return the molecule to expand, of the cheapest tree; None if there is none."""
        node = graph.root_node
        if node.data["slack"] == math.inf:
            return None
        while node.is_expanded:
            below = [step for step in graph.successors(node) if step.data["cost"] < math.inf]
            step = min(below, key=lambda step: step.data["cost"] + step.data["slack"])
            node = min(graph.successors(step), key=lambda child: child.data["slack"])
        return node

    def _filter_reactions(self, reactions: Any, node: Any, graph: Any) -> Any:
        """Remove reactions that form a protected bond; the others store the bonds traced to their reactants."""
        allowed = super()._filter_reactions(reactions, node, graph)
        if not self.keep:
            return allowed
        parents = list(graph.predecessors(node))
        bonds = parents[0].reaction.metadata["kept"].get(node.mol.smiles, ()) if parents else self.keep
        traceable = []
        for reaction in allowed:
            traced = trace_bonds(proposal_of(reaction).reactants, reaction.product.smiles, bonds)
            if traced is not None:
                metadata = {**reaction.metadata, "kept": traced}
                reactants, product = reaction.reactants, reaction.product
                traceable.append(OrderedReaction(reactants=reactants, product=product, metadata=metadata))
        return traceable

    def _detour(self, node: Any, graph: Any) -> float:
        """Return the additional cost of a molecule to expand: with an intermediate required, likely ways first."""
        if not self.through:
            return 0.0
        if "detour" not in node.data:
            node.data["detour"] = DETOUR_COST * self._unlikeness(node, graph)
        return float(node.data["detour"])

    def _unlikeness(self, node: Any, graph: Any) -> float:
        """Return the share of the required intermediate that a molecule lacks; 0 below it and for its partners."""
        for step in path_to_root(node, graph)[1::2]:
            if any(constraints.is_intermediate(child.mol.smiles, self.through) for child in graph.successors(step)):
                return 0.0
        return 1.0 - shared_part(self.through, node.mol.smiles)

    def _check_cheapest_tree(self, node: Any, graph: Any) -> list[AndNode]:
        """Check the unchecked steps of the cheapest tree through a molecule, and return them."""
        path = path_to_root(node, graph)
        tree_steps = path[1::2]
        below = [child for step in tree_steps for child in graph.successors(step) if child not in path]
        while below:
            best = min(graph.successors(below.pop()), key=_tree_cost, default=None)
            if best is not None and _tree_cost(best) < math.inf:
                tree_steps.append(best)
                below += graph.successors(best)
        unchecked = [and_node for and_node in tree_steps if proposal_of(and_node.reaction).round_trip is None]
        self.reaction_model.expander.run_checks(
            [(node.reaction.product.smiles, proposal_of(node.reaction)) for node in unchecked]
        )
        return unchecked

    def _raises_cost(self, step: AndNode) -> bool:
        product, old = step.reaction.product.smiles, proposal_of(step.reaction)
        step.reaction.metadata["proposal"] = new = self.reaction_model.expander.with_checks(product, old)
        step.data["step_cost"] = -math.log(new.prior(product))
        return bool(new.prior(product) < old.prior(product))


def step_cost(step: AndNode) -> float:
    """Return the cost of a step in nats, as it was when its node was made or checked."""
    if "step_cost" not in step.data:
        step.data["step_cost"] = -math.log(proposal_of(step.reaction).prior(step.reaction.product.smiles))
    return float(step.data["step_cost"])


def path_to_root(node: Any, graph: Any) -> list[Any]:
    """Return a node and those above it, molecules and steps in turn."""
    path = [node]
    while parents := list(graph.predecessors(path[-1])):
        path.append(parents[0])
    return path


def _tree_cost(step: AndNode) -> float:
    return float(step.data["cost"])


def proposal_of(reaction: SingleProductReaction) -> Proposal:
    """Return the proposed step of a reaction in the graph."""
    return reaction.metadata["proposal"]  # type: ignore[no-any-return]


def build_algorithm(settings: PlanSettings, expander: Expander, stock: Stock) -> Any:
    """Build the search of the settings; its `watch` is called with the graph before every step."""
    algorithm: Any = RetroStar(
        reaction_model=ReactionModel(expander, settings),
        mol_inventory=Inventory(stock),
        max_expansion_depth=2 * settings.depth,  # reactions are nodes too
        expand_purchasable_target=True,
        prevent_repeat_mol_in_trees=True,
    )
    algorithm.through, algorithm.keep = settings.through, settings.keep
    return algorithm
