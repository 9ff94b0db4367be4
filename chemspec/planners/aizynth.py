"""Expansion strategy for AiZynthFinder 4.4.

In its YAML:

    expansion:
      chemspec:
        type: chemspec.planners.aizynth.ChemspecExpansion
        server: http://localhost:8000   # a service; without, an engine in this process
        n: 10

With a service, this module needs `chemspec.client` and RDKit, which AiZynthFinder brings along.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

from aizynthfinder.chem import SmilesBasedRetroReaction, TreeMolecule
from aizynthfinder.context.policy import ExpansionStrategy
from aizynthfinder.utils.exceptions import MoleculeException

from chemspec.chem.molecules.salts import split_keeping_salts
from chemspec.planners.source import Step, StepSource

CACHE_SIZE = 100_000  # molecules whose steps are cached, over all targets; then the cache begins again


class SaltKeepingReaction(SmilesBasedRetroReaction):  # type: ignore[misc]
    """A step whose salts are single molecules: their ions cannot be bought separately."""

    def _apply(self) -> tuple[tuple[TreeMolecule, ...], ...]:
        taken = set(self.mol.mapping_to_index.keys())
        update = partial(self._remap, exclude_nums=taken)
        try:
            parts = tuple(
                TreeMolecule(parent=self.mol, smiles=part, sanitize=True, mapping_update_callback=update)
                for part in split_keeping_salts(self.reactants_str)
            )
        except MoleculeException:
            self._reactants: tuple[tuple[TreeMolecule, ...], ...] = ()
        else:
            self._reactants = (parts,)
        return self._reactants


class ChemspecExpansion(ExpansionStrategy):  # type: ignore[misc]
    """Steps of a retro model; the uncached molecules of a call are decoded in one batch."""

    def __init__(self, key: str, config: Any, **options: Any) -> None:
        """Configure the strategy; the model is loaded, or the service contacted, at the first molecule.

        Options are `n` (predictions per molecule, 10), `cutoff` (minimum probability of a step, 0), and those of
        `StepSource`: `model`, `server`, `device`, `threads`, `drafter`, ...
        """
        options.pop("type", None)
        super().__init__(key, config, **options)
        self._n, self._cutoff = int(options.pop("n", 10)), float(options.pop("cutoff", 0.0))
        self.source = StepSource("retro", **options)
        self._steps_of: dict[str, list[Step]] = {}

    def get_actions(
        self, molecules: Sequence[TreeMolecule], cache_molecules: Sequence[TreeMolecule] | None = None
    ) -> tuple[list[SmilesBasedRetroReaction], list[float]]:
        """Return the steps for all molecules, and their probabilities; further ones are decoded in the same batch."""
        for molecule in (*molecules, *(cache_molecules or ())):
            molecule.sanitize()  # makes its SMILES canonical
        self._cache_steps([molecule.smiles for molecule in (*molecules, *(cache_molecules or ()))])
        actions, priors = [], []
        for molecule in molecules:
            for rank, step in enumerate(self._steps_of[molecule.smiles]):
                metadata = {
                    "policy_probability": round(step.probability, 4),
                    "policy_probability_rank": rank,
                    "policy_name": self.key,
                    "log_prob": step.log_prob,
                }
                actions.append(SaltKeepingReaction(molecule, metadata=metadata, reactants_str=step.smiles))
                priors.append(step.probability)
        return actions, priors

    def _cache_steps(self, queries: Sequence[str]) -> None:
        if len(self._steps_of) > CACHE_SIZE:
            self._steps_of.clear()
        missing = [smiles for smiles in dict.fromkeys(queries) if smiles not in self._steps_of]
        for smiles, steps in zip(missing, self.source.predict_steps(missing, self._n), strict=True):
            self._steps_of[smiles] = [
                step for step in steps if step.probability >= self._cutoff and smiles not in step.parts
            ]
