"""Backward and forward model for Syntheseus.

from chemspec.planners.syntheseus import ChemspecBackward
from syntheseus import Molecule

model = ChemspecBackward()
(reactions,) = model([Molecule("CC(=O)Nc1ccc(O)cc1")], num_results=10)
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from syntheseus.interface.bag import Bag
from syntheseus.interface.models import BackwardReactionModel, ForwardReactionModel
from syntheseus.interface.molecule import Molecule
from syntheseus.interface.reaction import Reaction, SingleProductReaction
from syntheseus.search.graph.route import SynthesisGraph

from chemspec.planners.source import StepSource

# Options of `StepSource`.
STEP_SOURCE_OPTIONS = ("server", "threads", "drafter", "max_len", "augment", "distinct", "node_budget", "within")


class _StepSourceModel:
    """Mixin of models of Syntheseus: what a source predicts; probabilities are uncalibrated."""

    task: Literal["forward", "retro"]

    def __init__(self, model_dir: str = "", device: str = "auto", *, keep_salts: bool = True, **options: Any) -> None:
        """Configure the model, loaded at the first query: a folder or name, with `server` that of one of its models.

        With `keep_salts` a salt is one molecule, as it is bought, else one per ion, as in the data sets of Syntheseus'
        evaluation. Options are those of Syntheseus (`use_cache`, `default_num_results`, ...) and `StepSource`.
        """
        source_options = {name: options.pop(name) for name in STEP_SOURCE_OPTIONS if name in options}
        super().__init__(**options)
        self.source = StepSource(self.task, model=model_dir, device=device, **source_options)
        self._keep_salts = keep_salts

    def get_parameters(self) -> list[Any]:
        """Return nothing: an engine's weights are not torch parameters."""
        return []

    def get_model_info(self) -> dict[str, Any]:
        """Return the model's name and its digest, of weights, config and vocabulary."""
        return self.source.info()

    def _predict(self, queries: Sequence[str], count: int) -> Iterator[list[tuple[Bag[Molecule], dict[str, float]]]]:
        """Yield for each query the molecules of every prediction, and its probabilities."""
        for steps in self.source.predict_steps(queries, count):
            parts = [step.parts if self._keep_salts else step.smiles.split(".") for step in steps]
            bags = [Bag([Molecule(part) for part in molecules]) for molecules in parts]
            metadata = [{"probability": step.probability, "log_probability": step.log_prob} for step in steps]
            yield list(zip(bags, metadata, strict=True))


class ChemspecBackward(_StepSourceModel, BackwardReactionModel):  # type: ignore[misc]
    """Retro model."""

    task = "retro"

    def _get_reactions(self, inputs: list[Molecule], num_results: int) -> list[Sequence[SingleProductReaction]]:
        predictions = self._predict([molecule.smiles for molecule in inputs], num_results)
        return [
            [SingleProductReaction(product=molecule, reactants=bag, metadata=metadata) for bag, metadata in steps]
            for molecule, steps in zip(inputs, predictions, strict=True)
        ]


class ChemspecForward(_StepSourceModel, ForwardReactionModel):  # type: ignore[misc]
    """Forward model."""

    task = "forward"

    def _get_reactions(self, inputs: list[Bag[Molecule]], num_results: int) -> list[Sequence[Reaction]]:
        queries = [".".join(sorted(molecule.smiles for molecule in bag)) for bag in inputs]
        return [
            [Reaction(reactants=reactants, products=bag, metadata=metadata) for bag, metadata in steps]
            for reactants, steps in zip(inputs, self._predict(queries, num_results), strict=True)
        ]


def read_route(tree: Mapping[str, Any]) -> SynthesisGraph:
    """Convert an entry of `routes` of `chemspec plan` (.json) to a Syntheseus graph; ValueError without a step."""
    if not tree.get("children"):
        raise ValueError("the route has no step")
    graph = SynthesisGraph(_read_reaction(tree))
    waiting = [(graph.root_node, tree)]
    while waiting:
        above, mol = waiting.pop()
        for part in mol["children"][0]["children"]:
            if part.get("children"):
                below = _read_reaction(part)
                graph._graph.add_edge(above, below)
                waiting.append((below, part))
    return graph


def _read_reaction(tree: Mapping[str, Any]) -> SingleProductReaction:
    (step,) = tree["children"]
    reactants = Bag([Molecule(part["smiles"]) for part in step["children"]])
    metadata = {"probability": step.get("metadata", {}).get("policy_probability", 0.0)}
    return SingleProductReaction(product=Molecule(tree["smiles"]), reactants=reactants, metadata=metadata)
