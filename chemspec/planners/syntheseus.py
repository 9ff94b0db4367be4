"""Backward and forward model for Syntheseus: searches, evaluation and commands.

    from chemspec.planners.syntheseus import ChemspecBackward
    from syntheseus import Molecule

    model = ChemspecBackward()
    (reactions,) = model([Molecule("CC(=O)Nc1ccc(O)cc1")], num_results=10)

Its commands accept models of a closed list only; `python -m chemspec.planners.syntheseus search ...` and `... eval ...`
are the same commands with chemspec's models in the list.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal

from omegaconf import MISSING
from syntheseus.interface.bag import Bag
from syntheseus.interface.models import BackwardReactionModel, ForwardReactionModel
from syntheseus.interface.molecule import Molecule
from syntheseus.interface.reaction import Reaction, SingleProductReaction
from syntheseus.search.graph.route import SynthesisGraph

from chemspec.planners.source import Source

# Options of `Source`.
SOURCE_OPTIONS = ("server", "threads", "drafter", "max_len", "augment", "distinct", "node_budget", "within")


class _SourceModel:
    """Mixin of models of Syntheseus: what a source predicts; probabilities are uncalibrated."""

    task: Literal["forward", "retro"]

    def __init__(self, model_dir: str = "", device: str = "auto", *, keep_salts: bool = True, **options: Any) -> None:
        """Configure the model, loaded at the first query: a folder or name, with `server` that of one of its models.

        With `keep_salts` a salt is one molecule, as it is bought, else one per ion, as in the data sets of Syntheseus'
        evaluation. Options are those of Syntheseus (`use_cache`, `default_num_results`, ...) and `Source`.
        """
        source_options = {name: options.pop(name) for name in SOURCE_OPTIONS if name in options}
        super().__init__(**options)
        self.source = Source(self.task, model=model_dir or self.task, device=device, **source_options)
        self._keep_salts = keep_salts

    def get_parameters(self) -> list[Any]:
        """Return nothing: an engine's weights are not torch parameters."""
        return []

    def get_model_info(self) -> dict[str, Any]:
        """Return the model's name and the digest of its weights."""
        return self.source.info()

    def _predict(self, queries: Sequence[str], count: int) -> Iterator[list[tuple[Bag[Molecule], dict[str, float]]]]:
        """Yield for each query the molecules of every prediction, and its probabilities."""
        for steps in self.source.predict_steps(queries, count):
            parts = [step.parts if self._keep_salts else step.smiles.split(".") for step in steps]
            bags = [Bag([Molecule(part) for part in molecules]) for molecules in parts]
            odds = [{"probability": step.probability, "log_probability": step.log_prob} for step in steps]
            yield list(zip(bags, odds, strict=True))


class ChemspecBackward(_SourceModel, BackwardReactionModel):  # type: ignore[misc]
    """Retro model."""

    task = "retro"

    def _get_reactions(self, inputs: list[Molecule], num_results: int) -> list[Sequence[SingleProductReaction]]:
        predictions = self._predict([molecule.smiles for molecule in inputs], num_results)
        return [
            [SingleProductReaction(product=molecule, reactants=bag, metadata=odds) for bag, odds in steps]
            for molecule, steps in zip(inputs, predictions, strict=True)
        ]


class ChemspecForward(_SourceModel, ForwardReactionModel):  # type: ignore[misc]
    """Forward model."""

    task = "forward"

    def _get_reactions(self, inputs: list[Bag[Molecule]], num_results: int) -> list[Sequence[Reaction]]:
        queries = [".".join(sorted(molecule.smiles for molecule in bag)) for bag in inputs]
        return [
            [Reaction(reactants=flask, products=bag, metadata=odds) for bag, odds in steps]
            for flask, steps in zip(inputs, self._predict(queries, num_results), strict=True)
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


class BackwardClass(Enum):
    """Backward models for the commands."""

    Chemspec = ChemspecBackward


class ForwardClass(Enum):
    """Forward models for the commands."""

    Chemspec = ChemspecForward


def search(arguments: Sequence[str]) -> None:
    """Run `syntheseus search` with chemspec's models; arguments are `key=value` and `--config`."""
    from syntheseus.cli import search as command

    # Imported as a module, because annotations of config classes are evaluated there.
    model, forward = _model_config(BackwardClass, "retro"), _model_config(ForwardClass, MISSING)
    filtering = _combine_configs(forward, command.ForwardFilterConfig)
    config = _combine_configs(model, command.BaseSearchConfig, forward_filter=filtering)
    plain = {"use_gpu": "false", "num_routes_to_plot": "0"}  # an engine selects its device; plots need graphviz
    command.main([*_unset_defaults(plain, arguments), *arguments], config_cls=config)


def evaluate(arguments: Sequence[str]) -> None:
    """Run `syntheseus eval-single-step` with chemspec's models; salts are split, as in its data sets."""
    from syntheseus.cli import eval_single_step as command
    from syntheseus.reaction_prediction.utils.config import get_config

    model, forward = _model_config(BackwardClass, "retro"), _model_config(ForwardClass, MISSING)
    config = _combine_configs(model, command.BaseEvalConfig, back_translation_config=forward)
    plain = {"num_gpus": "0", "model_kwargs.keep_salts": "false"}
    command.run_from_config(
        get_config(argv=[*_unset_defaults(plain, arguments), *arguments], config_cls=config), extra_steps=[]
    )


def _unset_defaults(values: dict[str, str], arguments: Sequence[str]) -> list[str]:
    names_set = {argument.partition("=")[0] for argument in arguments}
    return [f"{name}={value}" for name, value in values.items() if name not in names_set]


def _model_config(classes: type[Enum], folder: str) -> Any:
    from syntheseus.reaction_prediction.inference.config import ModelConfig

    default = next(iter(classes)) if folder is not MISSING else MISSING
    body = {"__annotations__": {"model_class": classes, "model_dir": str}, "model_class": default, "model_dir": folder}
    return dataclass(type("OurModelConfig", (ModelConfig,), body))


def _combine_configs(model: Any, base: Any, **nested: Any) -> Any:
    from dataclasses import field

    body: dict[str, Any] = {"__annotations__": nested}
    body |= {name: field(default_factory=kind) for name, kind in nested.items()}
    return dataclass(type("OurConfig", (model, base), body))


def main() -> None:
    """Run a command."""
    commands = {"search": search, "eval": evaluate}
    if len(sys.argv) < 2 or sys.argv[1] not in commands:
        raise SystemExit("usage: python -m chemspec.planners.syntheseus search|eval KEY=VALUE ... [--config FILE]")
    commands[sys.argv[1]](sys.argv[2:])


if __name__ == "__main__":
    main()
