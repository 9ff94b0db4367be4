"""Source of single steps: an engine in this process, or a remote service, which needs few packages."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from chemspec.chem.molecules.salts import split_keeping_salts
from chemspec.client import Client


@dataclass(frozen=True)
class Step:
    """A prediction."""

    parts: tuple[str, ...]  # canonical SMILES of its molecules by this RDKit version, one per salt
    probability: float  # probability by the model, uncalibrated
    log_prob: float  # likewise

    @property
    def smiles(self) -> str:
        """All molecules as one SMILES."""
        return ".".join(self.parts)


class StepSource:
    """A local or remote model, loaded or contacted at the first query."""

    def __init__(
        self,
        task: Literal["forward", "retro"],
        *,
        model: str = "",
        server: str = "",
        device: str = "auto",
        threads: int = 0,
        **settings: Any,
    ) -> None:
        """Configure an engine in this process, or a service at an address (`server`, by default CHEMSPEC_SERVER).

        The model is a folder or name, with a service the name of one of its models; by default that of the task. Device
        and threads (0 for all cores) are those of the engine. Settings are fields of `chemspec.DecodeSettings`, and
        `within`: seconds for each molecule, in which the widest exact beam up to the requested width is searched.
        """
        self.task, self.model, self.settings = task, model, settings
        server = server or os.environ.get("CHEMSPEC_SERVER", "")
        self._client = Client(server) if server else None
        self._options: dict[str, Any] = {"device": device, "threads": threads}
        self._engine: Any = None

    @property
    def engine(self) -> Any:
        """The engine; None with a service."""
        if self._client is None and self._engine is None:
            from chemspec.engine.engine import Engine
            from chemspec.engine.registry import default_model

            self._engine = Engine.load(self.model or default_model(self.task), task=self.task, **self._options)
        return self._engine

    def info(self) -> dict[str, str]:
        """Return name and digest of the model."""
        if self._client is None:
            return {"name": self.engine.name, "digest": self.engine.full_digest}
        field, value = ("name", self.model) if self.model else ("task", self.task)
        fitting = [entry for entry in self._client.models() if entry[field] == value]
        # Of several models of a task a service takes the one with its name, else the first.
        info: Any = min(fitting, key=lambda entry: entry["name"] != self.task, default={})
        return {"name": info.get("name", value), "digest": info.get("digest", ""), "server": self._client.url}

    def predict_steps(self, queries: Sequence[str], n: int) -> list[list[Step]]:
        """Return at most `n` distinct valid predictions for every SMILES of a batch, best first; none if refused."""
        if not queries:
            return []
        settings = {"n": n, "decoder": "greedy" if n == 1 else "beam", "distinct": False, **self.settings}
        if self._client is not None:
            answered = self._client.predict(queries, task=self.task, model=self.model, **settings)
            return [_distinct_steps(result.answers) for result in answered]
        results = self.engine.predict(list(queries), **settings)
        return [_distinct_steps(result.hypotheses) for result in results]


def _distinct_steps(answers: Sequence[Any]) -> list[Step]:
    distinct: dict[tuple[str, ...], Step] = {}
    for answer in answers:
        if answer.valid:
            parts = split_keeping_salts(answer.canonical)
            distinct.setdefault(parts, Step(parts, answer.model_probability, answer.log_prob))
    return list(distinct.values())
