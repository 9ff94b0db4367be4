"""Ask for single steps: an engine in this process, or a service somewhere else, which needs none of our packages."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from chemspec.chem.salts import split
from chemspec.client import Client


@dataclass(frozen=True)
class Step:
    """One answer to one query.

    Attributes:
        parts: canonical SMILES of its molecules, in this RDKit's spelling; a salt in one piece.
        probability, log_prob: the model's own.
    """

    parts: tuple[str, ...]
    probability: float
    log_prob: float

    @property
    def smiles(self) -> str:
        """All molecules in one text."""
        return ".".join(self.parts)


class Source:
    """A model that answers, here or elsewhere; loaded or reached at the first question."""

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
        """Describe it.

        Args:
            task: what is asked.
            model: a folder or name; of a service, the name of one of its models; by default the task's.
            server: the address of a service; by default CHEMSPEC_SERVER, and where that is empty an engine here.
            device: of the engine.
            threads: of the engine; 0 for all cores.
            settings: fields of `chemspec.DecodeSettings`.
        """
        self.task, self.model, self.settings = task, model, settings
        server = server or os.environ.get("CHEMSPEC_SERVER", "")
        self._client = Client(server) if server else None
        self._options: dict[str, Any] = {"device": device, "threads": threads}
        self._engine: Any = None

    @property
    def engine(self) -> Any:
        """The engine; None where a service answers."""
        if self._client is None and self._engine is None:
            from chemspec.engine.engine import Engine

            self._engine = Engine.load(self.model or self.task, **self._options)
            if self._engine.task != self.task:
                raise ValueError(f"the model {self._engine.name} answers {self._engine.task}, not {self.task}")
        return self._engine

    def info(self) -> dict[str, str]:
        """Return what tells one model from another."""
        if self._client is None:
            return {"name": self.engine.name, "digest": self.engine.digest}
        names = (self.model or self.task,)
        found = next((one for one in self._client.models() if one["name"] in names), {})
        return {"name": found.get("name", names[0]), "digest": found.get("digest", ""), "server": self._client.url}

    def ask(self, queries: Sequence[str], n: int) -> list[list[Step]]:
        """Return for every query its different valid answers, best first; none for one that cannot be answered.

        Args:
            queries: SMILES; decoded in one batch.
            n: most answers of each, and the width of the beam.
        """
        if not queries:
            return []
        how = {"n": n, "decoder": "greedy" if n == 1 else "beam", **self.settings}
        results: Sequence[Any]
        if self._client is not None:
            results = self._client.predict(queries, task=self.task, model=self.model, **how)
            return [_steps(result.answers) for result in results]
        results = self.engine.predict(list(queries), **how)
        return [_steps(result.hypotheses) for result in results]


def _steps(answers: Sequence[Any]) -> list[Step]:
    found: dict[tuple[str, ...], Step] = {}
    for one in answers:
        if one.valid:
            parts = split(one.canonical)
            found.setdefault(parts, Step(parts, one.probability, one.log_prob))
    return list(found.values())
