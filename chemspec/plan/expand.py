"""Single-step expansion of molecules with forward checks; both are cached on disk for the same weights and settings."""

import hashlib
import json
import math
import sqlite3
import time
import weakref
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from threading import Lock
from typing import Any, Protocol, Unpack

from chemspec import chem
from chemspec.chem.molecules.bottles import as_bottled
from chemspec.chem.molecules.salts import split_keeping_salts
from chemspec.evaluation.loading import COMPANIONS, FastestOptions, load_engines, load_fastest
from chemspec.precedents import Precedents, installed
from chemspec.review.forward_check import Predictor, StepChecker, verdict_of
from chemspec.settings import DecodeSettings
from chemspec.system import cache
from chemspec.system.files import make_private_file
from chemspec.types import DecodeResult

VERSION = 7  # version of the cache; raise it when proposals change for the same weights and settings
DISAGREEMENT_FACTOR = 0.1  # factor of the prior of a step that the forward model does not confirm
MAX_CHECKS = 100_000  # checks cached in memory
SIZE_COST = 0.1  # maximum cost in nats of a reactant as large as the product: a tie-break


class Model(Predictor, Protocol):
    """Interface of engines used in planning."""

    @property
    def full_digest(self) -> str: ...  # noqa: D102
    @property
    def dtype(self) -> str: ...  # noqa: D102


@dataclass(frozen=True)
class Proposal:
    """A proposed retrosynthetic step."""

    reactants: tuple[str, ...]  # canonical SMILES, one per salt
    probability: float  # calibrated, of being the recorded step; the model's probability without calibration
    # forward model's probability of its top prediction if that is the product, 0 if it is not; None if unchecked
    # (`chemspec.review.forward_check`); 0 is a doubt, not a proof
    round_trip: float | None = None
    reagents: str = ""  # suggested reagents as SMILES, or empty
    added: str = ""  # SMILES of the reagents with which the forward model read the reactants; empty if none

    def reaction(self, product: str) -> str:
        """Return the reaction SMILES."""
        return f"{'.'.join(self.reactants)}>>{product}"

    @property
    def opinion(self) -> str:
        """Forward check: "agrees", "is unsure" or "differs"; empty if unchecked."""
        if self.round_trip is None:
            return ""
        verdict = verdict_of(self.round_trip)
        return "is unsure" if verdict == "unsure" else verdict

    def prior(self, product: str) -> float:
        """Return the search prior: the probability, lowered if the forward model disagrees and for large reactants.

        A check can only lower it, so the prior of an unchecked step is an upper bound.
        """
        size = max(map(chem.heavy_atoms, self.reactants)) / max(1, chem.heavy_atoms(product))
        return (
            max(1e-6, self.probability)
            * (DISAGREEMENT_FACTOR if self.round_trip == 0 else 1.0)
            * math.exp(-SIZE_COST * min(1.0, size))
        )


@dataclass
class Counts:
    """Cost of expansions so far."""

    molecules: int = 0  # decoded, the others were cached
    checks: int = 0  # queries to the forward model
    calls: int = 0  # calls of `Engine.predict`
    passes: int = 0  # forward passes, summed over queries
    tokens: int = 0
    seconds: float = 0.0  # time in the models


class Expander:
    """Expands molecules with a retro model, checks steps with a forward model, and suggests reagents with a third.

    Without one of the last two there are no checks or no reagents; without precedents (`index`) no recorded conditions
    in checks. `settings` have `n` proposals. With `keep` results are cached on disk.
    """

    def __init__(
        self,
        retro: Model,
        forward: Model | None = None,
        settings: DecodeSettings | None = None,
        *,
        reagents: Model | None = None,
        index: Precedents | None = None,
        keep: bool = True,
    ) -> None:
        self.retro, self.forward, self.reagents = retro, forward, reagents
        self.settings = settings or DecodeSettings(n=10)
        self.counts = Counts()
        self.refused: dict[str, str] = {}  # messages of molecules that the retro model refuses
        # Answers so far, None if not on disk: proposals by molecule, round trip and added reagents of "check of" a
        # reaction, and the suggested "reagents of" it.
        self._answers: dict[str, Any] = {}
        checking, proposing = (_CountedModel(self, model) if model else None for model in (forward, reagents))
        self._checker = StepChecker(checking, proposing, index, most=MAX_CHECKS)
        self._retro = _CountedModel(self, retro)
        self._lock = Lock()
        self._store = self._open() if keep else None
        if self._store is not None:
            weakref.finalize(self, self._store.close)

    @property
    def models(self) -> list[tuple[str, str]]:
        """Full digest and precision of each model, on which the proposals depend."""
        return [(model.full_digest, model.dtype) for model in (self.retro, self.forward, self.reagents) if model]

    def _open(self) -> sqlite3.Connection | None:
        """Open the cache of these weights and settings; None if the disk is not usable."""
        # Drafts and batches do not change predictions.
        settings = asdict(replace(self.settings, drafter="none", batch_size=1, node_budget=0))
        index = self._checker.index
        key = [VERSION, self.models, settings, [len(index), index.files] if index else None]
        name = f"plan-{hashlib.sha256(json.dumps(key).encode()).hexdigest()[:16]}.sqlite"
        path = cache.cache_dir() / name
        for _ in range(2):
            try:
                cache.make_cache_folder()
                store = sqlite3.connect(make_private_file(path), check_same_thread=False, isolation_level=None)
                # A search stores hundreds of answers; so none waits for the disk, and a power cut costs only the last.
                store.execute("PRAGMA journal_mode = WAL")
                store.execute("PRAGMA synchronous = NORMAL")
                store.execute("CREATE TABLE IF NOT EXISTS answers (question TEXT PRIMARY KEY, answer TEXT)")
                return store
            except (OSError, sqlite3.OperationalError):  # disk full, no permission, or locked
                return None
            except sqlite3.Error:  # damaged: start with an empty one
                store.close()
                with suppress(OSError):
                    path.unlink()
        return None

    def _read(self, question: str) -> Any:
        if question not in self._answers:
            self._answers[question] = None
            if self._store is not None:
                with self._lock, suppress(sqlite3.Error, ValueError):
                    row = self._store.execute("SELECT answer FROM answers WHERE question = ?", (question,)).fetchone()
                    self._answers[question] = row and json.loads(row[0])
        return self._answers[question]

    def _write(self, question: str, answer: Any) -> None:
        self._answers[question] = answer
        if self._store is not None:
            with self._lock, suppress(sqlite3.Error):  # a full disk only makes the next search slower
                self._store.execute("INSERT OR REPLACE INTO answers VALUES (?, ?)", (question, json.dumps(answer)))

    def expand(self, molecules: Sequence[str]) -> list[tuple[Proposal, ...]]:
        """Return the proposals for each molecule, best first; uncached ones are decoded in one batch."""
        missing = [smiles for smiles in dict.fromkeys(molecules) if self._read(smiles) is None]
        for smiles, answer in zip(missing, self._retro.predict(missing, self.settings), strict=True):
            if answer.status == "ok":
                proposals = _valid_proposals(smiles, answer)
                self._write(smiles, [[proposal.reactants, proposal.probability] for proposal in proposals])
            else:
                self._answers[smiles], self.refused[smiles] = [], answer.message
        self.counts.molecules += len(missing)
        return [tuple(Proposal(tuple(parts), p) for parts, p in self._answers[smiles]) for smiles in molecules]

    def with_checks(self, smiles: str, proposal: Proposal) -> Proposal:
        """Return a step with its cached round trip and reagents, without calling a model."""
        reaction = proposal.reaction(smiles)
        round_trip, added = self._read(f"check of {reaction}") or (None, "")
        reagents = self._read(f"reagents of {reaction}") or ""
        checked = replace(proposal, round_trip=round_trip, reagents=reagents, added=added)
        return proposal if checked == proposal else checked

    def run_checks(self, steps: Sequence[tuple[str, Proposal]]) -> None:
        """Check steps, (product, proposal) pairs, by the rule of the forward check; see `with_checks`."""
        missing = self._lacking("check of", steps) if self.forward else {}
        for (reaction, step), check in zip(missing.items(), self._checker.check([*missing.values()]), strict=True):
            if check is None:  # the forward model failed; in this search it is not run again
                self._answers[f"check of {reaction}"] = (0.0, "")
                continue
            self._write(f"check of {reaction}", (check.probability if check.agrees else 0.0, check.added))
            self._store_reagents(reaction, step)

    def suggest_reagents(self, steps: Sequence[tuple[str, Proposal]]) -> bool:
        """Suggest reagents for steps, (product, proposal) pairs; returns whether any were uncached."""
        lacking = self._lacking("reagents of", steps) if self.reagents else {}
        self._checker.propose(lacking.values())
        for reaction, step in lacking.items():
            self._store_reagents(reaction, step)
        return bool(lacking)

    def _lacking(self, question: str, steps: Sequence[tuple[str, Proposal]]) -> dict[str, tuple[str, str]]:
        """Return the steps without an answer, (product, reactants) by reaction."""
        return {
            reaction: (smiles, ".".join(step.reactants))
            for smiles, step in steps
            if self._read(f"{question} {(reaction := step.reaction(smiles))}") is None
        }

    def _store_reagents(self, reaction: str, step: tuple[str, str]) -> None:
        """Store the reagents proposed for a step, (product, reactants), if any were predicted."""
        if (sets := self._checker.proposed_sets(step)) is not None:
            self._write(f"reagents of {reaction}", next((reagents for reagents, _ in sets), ""))


def _valid_proposals(smiles: str, answer: DecodeResult) -> tuple[Proposal, ...]:
    """Return the distinct valid predictions that supply all atoms and do not contain the molecule itself."""
    distinct: dict[tuple[str, ...], Proposal] = {}
    for hypothesis in answer.hypotheses:
        reactants = split_keeping_salts(as_bottled(hypothesis.canonical)) if hypothesis.valid else ()
        if reactants and smiles not in reactants and not chem.formula_balance(hypothesis.canonical, smiles):
            probability = hypothesis.probability
            distinct.setdefault(reactants, Proposal(reactants, probability))
    return tuple(sorted(distinct.values(), key=lambda proposal: (-proposal.prior(smiles), proposal.reactants)))


@dataclass(frozen=True)
class _CountedModel:
    """A model with the drafter and the batch size of the search, whose cost is added to the counts of the expander."""

    expander: Expander
    model: Model

    def predict(self, queries: Sequence[str], settings: DecodeSettings) -> list[DecodeResult]:
        if not queries:
            return []
        counts, same = self.expander.counts, self.expander.settings
        began = time.perf_counter()
        results = self.model.predict(queries, replace(settings, drafter=same.drafter, batch_size=same.batch_size))
        counts.seconds += time.perf_counter() - began
        counts.calls += 1
        counts.checks += len(queries) * (self.model is self.expander.forward)
        for result in results:
            counts.passes += len(result.trace.passes)
            counts.tokens += sum(item.emitted for item in result.trace.passes)
        return results


def load_expander(
    model: str | Path = "retro",
    settings: DecodeSettings | None = None,
    *,
    check: bool = True,
    **options: Unpack[FastestOptions],
) -> Expander:
    """Load a retro model, those of forward checks and reagents, and the installed precedents.

    Without `check` steps stay unchecked, else ValueError if no forward model is installed. Options are those of
    `load_fastest`.
    """
    retro = load_fastest(model, task="retro", **options)
    others = load_engines(COMPANIONS if check else ("reagents",), **options)
    if check and "forward" not in others:
        raise ValueError("no model named forward is installed to check the steps; leave them unchecked: --no-check")
    reagents = others.get("reagents")
    return Expander(retro, others.get("forward"), settings, reagents=reagents, index=installed())
