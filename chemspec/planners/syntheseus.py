"""Be a backward and a forward model of Syntheseus, in its searches, its evaluation and its commands.

    from chemspec.planners.syntheseus import ChemspecBackward
    from syntheseus import Molecule

    model = ChemspecBackward()
    (reactions,) = model([Molecule("CC(=O)Nc1ccc(O)cc1")], num_results=10)

Its commands take a model of a closed list only; `python -m chemspec.planners.syntheseus search ...` and `... eval ...`
are the same commands with ours in the list.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from omegaconf import MISSING
from syntheseus.interface.bag import Bag
from syntheseus.interface.models import BackwardReactionModel, ForwardReactionModel
from syntheseus.interface.molecule import Molecule
from syntheseus.interface.reaction import Reaction, SingleProductReaction
from syntheseus.search.graph.route import SynthesisGraph

from chemspec.planners.source import Source, Step

OURS = ("server", "threads", "drafter", "max_len", "augment", "distinct", "node_budget")  # of a source


class ChemspecBackward(BackwardReactionModel):  # type: ignore[misc]
    """What a molecule can be made from; the probabilities are the model's own."""

    def __init__(
        self, model_dir: str = "retro", device: str = "auto", *, keep_salts: bool = True, **options: Any
    ) -> None:
        """Describe the model; it is loaded at the first question.

        Args:
            model_dir: a model folder or name; with `server` the name of one of its models.
            device: of the engine.
            keep_salts: whether a salt is one molecule, as it is bought; its ions are several where it is false, as in
                the data sets that Syntheseus' evaluation reads.
            options: of Syntheseus (`use_cache`, `default_num_results`, ...) and of `Source` (`server`, `drafter`, ...).
        """
        own = {name: options.pop(name) for name in OURS if name in options}
        super().__init__(**options)
        self.source = Source("retro", model=model_dir, device=device, **own)
        self._keep_salts = keep_salts

    def get_parameters(self) -> list[Any]:
        """Return nothing: an engine keeps its weights in its own format, a service elsewhere."""
        return []

    def get_model_info(self) -> dict[str, Any]:
        """Return the model's name and the digest of its weights."""
        return self.source.info()

    def _get_reactions(self, inputs: list[Molecule], num_results: int) -> list[Sequence[SingleProductReaction]]:
        found = self.source.ask([one.smiles for one in inputs], num_results)
        return [
            [
                SingleProductReaction(
                    product=one, reactants=_bag(step, keep_salts=self._keep_salts), metadata=_told(step)
                )
                for step in steps
            ]
            for one, steps in zip(inputs, found, strict=True)
        ]


class ChemspecForward(ForwardReactionModel):  # type: ignore[misc]
    """What forms from molecules; the probabilities are the model's own."""

    def __init__(
        self, model_dir: str = "forward", device: str = "auto", *, keep_salts: bool = True, **options: Any
    ) -> None:
        """Describe the model; see `ChemspecBackward`."""
        own = {name: options.pop(name) for name in OURS if name in options}
        super().__init__(**options)
        self.source = Source("forward", model=model_dir, device=device, **own)
        self._keep_salts = keep_salts

    def get_parameters(self) -> list[Any]:
        """Return nothing, as `ChemspecBackward` does."""
        return []

    def get_model_info(self) -> dict[str, Any]:
        """Return the model's name and the digest of its weights."""
        return self.source.info()

    def _get_reactions(self, inputs: list[Bag[Molecule]], num_results: int) -> list[Sequence[Reaction]]:
        queries = [".".join(sorted(one.smiles for one in bag)) for bag in inputs]
        return [
            [
                Reaction(reactants=bag, products=_bag(step, keep_salts=self._keep_salts), metadata=_told(step))
                for step in steps
            ]
            for bag, steps in zip(inputs, self.source.ask(queries, num_results), strict=True)
        ]


def _bag(step: Step, *, keep_salts: bool) -> Bag[Molecule]:
    parts = step.parts if keep_salts else step.smiles.split(".")
    return Bag([Molecule(part) for part in parts])


def _told(step: Step) -> dict[str, float]:
    return {"probability": step.probability, "log_probability": step.log_prob}


def read_route(tree: Mapping[str, Any]) -> SynthesisGraph:
    """Return a route that `chemspec plan` has written (.json, one of its `routes`) as Syntheseus' own value.

    Raises:
        ValueError: for a tree without a step.
    """
    if not tree.get("children"):
        raise ValueError("the route has no step")
    graph = SynthesisGraph(_reaction(tree))
    waiting = [(graph.root_node, tree)]
    while waiting:
        above, mol = waiting.pop()
        for part in mol["children"][0]["children"]:
            if part.get("children"):
                below = _reaction(part)
                graph._graph.add_edge(above, below)
                waiting.append((below, part))
    return graph


def _reaction(tree: Mapping[str, Any]) -> SingleProductReaction:
    (step,) = tree["children"]
    reactants = Bag([Molecule(part["smiles"]) for part in step["children"]])
    metadata = {"probability": step.get("metadata", {}).get("policy_probability", 0.0)}
    return SingleProductReaction(product=Molecule(tree["smiles"]), reactants=reactants, metadata=metadata)


# The commands ------------------------------------------------------------------------------------


class BackwardClass(Enum):
    """The backward models that our commands know."""

    Chemspec = ChemspecBackward


class ForwardClass(Enum):
    """The forward models that our commands know."""

    Chemspec = ChemspecForward


def search(arguments: Sequence[str]) -> None:
    """Run `syntheseus search` with our models: `key=value` and `--config`, as it takes them."""
    from syntheseus.cli import search as command

    # Read by name: annotations of such classes are evaluated where they stand.
    model, forward = _model_config(BackwardClass, "retro"), _model_config(ForwardClass, MISSING)
    filtering = _mixed(forward, command.ForwardFilterConfig)
    config = _mixed(model, command.BaseSearchConfig, forward_filter=filtering)
    plain = {"use_gpu": "false", "num_routes_to_plot": "0"}  # an engine finds its device; plots need graphviz
    command.main([*_defaults(plain, arguments), *arguments], config_cls=config)


def evaluate(arguments: Sequence[str]) -> None:
    """Run `syntheseus eval-single-step` with our models; salts are taken apart, as its data sets do."""
    from syntheseus.cli import eval_single_step as command
    from syntheseus.reaction_prediction.utils.config import get_config

    model, forward = _model_config(BackwardClass, "retro"), _model_config(ForwardClass, MISSING)
    config = _mixed(model, command.BaseEvalConfig, back_translation_config=forward)
    plain = {"num_gpus": "0", "model_kwargs.keep_salts": "false"}
    command.run_from_config(
        get_config(argv=[*_defaults(plain, arguments), *arguments], config_cls=config), extra_steps=[]
    )


def _defaults(values: dict[str, str], arguments: Sequence[str]) -> list[str]:
    given = {one.partition("=")[0] for one in arguments}
    return [f"{name}={value}" for name, value in values.items() if name not in given]


def _model_config(classes: type[Enum], folder: str) -> Any:
    """Return a config class for our models, in the form that Syntheseus wants."""
    from syntheseus.reaction_prediction.inference.config import ModelConfig

    default = next(iter(classes)) if folder is not MISSING else MISSING
    body = {"__annotations__": {"model_class": classes, "model_dir": str}, "model_class": default, "model_dir": folder}
    return dataclass(type("OurModelConfig", (ModelConfig,), body))


def _mixed(model: Any, base: Any, **nested: Any) -> Any:
    from dataclasses import field

    body: dict[str, Any] = {"__annotations__": nested}
    body |= {name: field(default_factory=kind) for name, kind in nested.items()}
    return dataclass(type("OurConfig", (model, base), body))


def main() -> None:
    """Run one of the two commands."""
    commands = {"search": search, "eval": evaluate}
    if len(sys.argv) < 2 or sys.argv[1] not in commands:
        raise SystemExit("usage: python -m chemspec.planners.syntheseus search|eval KEY=VALUE ... [--config FILE]")
    commands[sys.argv[1]](sys.argv[2:])


if __name__ == "__main__":
    main()
