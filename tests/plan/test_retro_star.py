"""Retro* with values from below: the order of Syntheseus' own, and its routes in order of cost."""

from __future__ import annotations

import math
from itertools import product
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("syntheseus")

from syntheseus.interface.bag import Bag
from syntheseus.interface.models import BackwardReactionModel
from syntheseus.interface.reaction import SingleProductReaction
from syntheseus.search.algorithms.best_first.retro_star import RetroStarSearch
from syntheseus.search.graph.and_or import AndNode
from syntheseus.search.mol_inventory import BaseMolInventory
from syntheseus.search.node_evaluation.common import ConstantNodeEvaluator, ReactionModelLogProbCost

from chemspec.plan.algorithms import RetroStar, step_cost, to_syntheseus_molecule
from chemspec.plan.expand import Proposal
from chemspec.plan.listing import cheapest_routes

pytestmark = pytest.mark.filterwarnings("ignore:No iteration or time")
DEPTH = 12


class Alkanes(BackwardReactionModel):
    """Alkanes from random shorter ones, from one each if `linear`; all steps are checked, no two equally probable."""

    def __init__(self, rng: Random, length: int, *, linear: bool) -> None:
        super().__init__(use_cache=True)
        self.expander = SimpleNamespace(run_checks=lambda _: None)
        self.steps: dict[str, list[Proposal]] = {}
        for size in range(2, length + 1):
            pairs = {tuple(sorted((cut, size - cut))) for cut in (rng.randrange(1, size) for _ in range(3))}
            shorter = {(rng.randrange(1, size),) for _ in range(3 if linear else 1)}
            self.steps["C" * size] = [
                Proposal(tuple(dict.fromkeys("C" * each for each in sizes)), rng.uniform(0.01, 0.9), round_trip=1.0)
                for sizes in sorted(shorter if linear else pairs | shorter)
            ]

    def _get_reactions(self, inputs: list[Any], num_results: int) -> list[Any]:
        return [
            [
                SingleProductReaction(
                    product=molecule,
                    reactants=Bag(map(to_syntheseus_molecule, step.reactants)),
                    metadata={"proposal": step, "probability": step.prior(molecule.smiles)},  # type: ignore[typeddict-unknown-key]
                )
                for step in self.steps.get(molecule.smiles, [])
            ]
            for molecule in inputs
        ]


class Short(BaseMolInventory):
    def __init__(self, sizes: set[int]) -> None:
        self.sizes = sizes

    def is_purchasable(self, mol: Any) -> bool:
        return len(mol.smiles) in self.sizes


class Theirs(RetroStarSearch):
    order: list[str]
    limit = 0

    def visit_node(self, node: Any, graph: Any) -> Any:
        self.order.append(node.mol.smiles)
        return super().visit_node(node, graph)

    def should_stop_search(self, graph: Any) -> bool:
        return len(self.order) >= self.limit or super().should_stop_search(graph)


class Ours(RetroStar):
    order: list[str]
    limit = 0

    def expand_node(self, node: Any, graph: Any, force_expansion: bool = False) -> Any:
        self.order.append(node.mol.smiles)
        return super().expand_node(node, graph, force_expansion)

    def watch(self, graph: Any) -> bool:
        return len(self.order) >= self.limit


def run(kind: Any, seed: int, limit: int, *, linear: bool = False, **options: Any) -> tuple[list[str], Any]:
    rng = Random(seed)
    model, sizes = Alkanes(rng, 14, linear=linear), {1, *rng.sample(range(2, 9), 2)}
    algorithm = kind(
        reaction_model=model,
        mol_inventory=Short(sizes),
        max_expansion_depth=DEPTH,
        expand_purchasable_target=True,
        prevent_repeat_mol_in_trees=True,
        **options,
    )
    algorithm.order, algorithm.limit = [], limit
    algorithm.reset()
    graph, _ = algorithm.run_from_mol(to_syntheseus_molecule("C" * 14))
    return algorithm.order, graph


VALUES = {"and_node_cost_fn": ReactionModelLogProbCost(), "value_function": ConstantNodeEvaluator(0.0)}


@pytest.mark.parametrize("seed", range(25))
def test_molecules_are_expanded_in_the_order_of_syntheseus(seed: int) -> None:
    theirs, _ = run(Theirs, seed, 60, linear=True, **VALUES)
    ours, _ = run(Ours, seed, 60, linear=True)
    assert ours == theirs


@pytest.mark.parametrize("seed", range(25))
def test_the_cheapest_route_is_that_of_syntheseus(seed: int) -> None:
    """Molecules of one tree are equally good, so the order may differ, but not what is found in the end."""
    theirs, their_graph = run(Theirs, seed, 400, **VALUES)
    ours, our_graph = run(Ours, seed, 400)
    if max(len(ours), len(theirs)) < 400:
        cost = their_graph.root_node.data["retro_star_reaction_number"]
        assert our_graph.root_node.data["cost"] == pytest.approx(cost)
        assert our_graph.root_node.has_solution == their_graph.root_node.has_solution


@pytest.mark.parametrize("seed", range(25))
def test_values_are_those_of_the_whole_tree(seed: int) -> None:
    _, graph = run(Ours, seed, 60)

    def cost(node: Any) -> float:
        below = [cost(child) for child in graph.successors(node)]
        if isinstance(node, AndNode):
            return step_cost(node) + sum(below)
        if node.mol.metadata["is_purchasable"]:
            return 0.0
        if not node.is_expanded and node.depth < DEPTH:
            return 0.0
        return min(below, default=math.inf)

    for node in graph.nodes():
        assert node.data["cost"] == pytest.approx(cost(node))


@pytest.mark.parametrize("seed", range(25))
def test_routes_come_by_cost_each_once(seed: int) -> None:
    _, graph = run(Ours, seed, 25)

    def all_routes(molecule: Any) -> list[tuple[AndNode, ...]]:
        steps = list(graph.successors(molecule))
        if not steps:
            return [()] if molecule.has_solution else []
        return [
            (step, *(node for part in parts for node in part))
            for step in steps
            for parts in product(*map(all_routes, graph.successors(step)))
        ]

    expected = all_routes(graph.root_node)
    listed = list(cheapest_routes(graph, step_cost, math.inf))
    assert len(listed) == len(expected) == len({frozenset(steps) for steps in listed})
    assert {frozenset(steps) for steps in listed} == {frozenset(steps) for steps in expected}
    costs = [sum(map(step_cost, steps)) for steps in listed]
    assert costs == pytest.approx(sorted(costs))
    if listed:
        barred = listed[0][0]
        rest = cheapest_routes(graph, lambda step: math.inf if step is barred else step_cost(step), math.inf)
        assert {frozenset(steps) for steps in rest} == {frozenset(each) for each in expected if barred not in each}
