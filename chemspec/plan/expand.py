"""What a molecule can be made from, and what a forward model thinks of it; both are kept on disk.

A molecule is decoded once for the same weights and settings, in this search or any later one.
"""

from __future__ import annotations

import hashlib
import json
import math
import sqlite3
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from threading import Lock
from typing import Any, Protocol

from chemspec import chem
from chemspec.chem.reagent_sets import balanced
from chemspec.chem.salts import split
from chemspec.evaluation.roundtrip import HOW, PROPOSE, UNSURE, leads_back
from chemspec.settings import DecodeSettings
from chemspec.system import cache
from chemspec.system.files import private_file
from chemspec.types import DecodeResult

VERSION = 3  # of what is kept; raise it when proposals change for the same weights and settings
DISAGREES = 0.1  # what remains of the prior of a step whose product the forward model does not predict
SIZE = 0.1  # nats that a step costs at most because a reactant is as large as its product: a tie-break


class Model(Protocol):
    """What is asked of an engine."""

    @property
    def digest(self) -> str: ...  # noqa: D102
    @property
    def dtype(self) -> str: ...  # noqa: D102
    def predict(self, queries: Sequence[str], settings: DecodeSettings) -> list[DecodeResult]: ...  # noqa: D102


@dataclass(frozen=True)
class Proposal:
    """One way to make a molecule.

    Attributes:
        reactants: canonical SMILES, a salt in one piece.
        chance: that it is the way recorded for this molecule, as calibrated; else the model's probability.
        round_trip: the forward model's probability of its first answer if that is the molecule, 0 if it is not; None
            if it was not asked. It reads the reactants alone, then with proposed reagents; 0 is a doubt and no proof.
        reagents: that a model proposes, SMILES; empty if it was not asked.
    """

    reactants: tuple[str, ...]
    chance: float
    round_trip: float | None = None
    reagents: str = ""

    def reaction(self, product: str) -> str:
        """As reaction SMILES."""
        return f"{'.'.join(self.reactants)}>>{product}"

    @property
    def opinion(self) -> str:
        """What the forward model says: "agrees", "is unsure" or "differs"; empty if it was not asked."""
        if self.round_trip is None:
            return ""
        return "agrees" if self.round_trip >= UNSURE else "is unsure" if self.round_trip else "differs"

    def prior(self, product: str) -> float:
        """What a search goes by: the chance, less where the forward model disagrees and for a large reactant.

        A check can only lower it, so what has not been checked is judged too well, never too badly.
        """
        size = max(map(chem.heavy_atoms, self.reactants)) / max(1, chem.heavy_atoms(product))
        return max(1e-6, self.chance) * (DISAGREES if self.round_trip == 0 else 1.0) * math.exp(-SIZE * min(1.0, size))


@dataclass
class Counts:
    """What expanding has cost so far."""

    molecules: int = 0  # decoded; the rest came from the cache
    checks: int = 0  # reactant sets that the forward model was asked about
    calls: int = 0  # of `Engine.predict` of any model
    passes: int = 0  # of the decoders, summed over queries
    tokens: int = 0
    seconds: float = 0.0  # in the models


class Expander:
    """Ask a retro model for steps, and a forward model about those that matter.

    Args:
        retro: the model that proposes.
        forward: the model that checks; None for no check.
        settings: how to decode; `n` proposals are asked for.
        reagents: the model of what else is in the flask; None for no reagents.
        keep: whether answers are kept on disk between runs.
    """

    def __init__(
        self,
        retro: Model,
        forward: Model | None = None,
        settings: DecodeSettings | None = None,
        *,
        reagents: Model | None = None,
        keep: bool = True,
    ) -> None:
        self.retro, self.forward, self.reagents = retro, forward, reagents
        self.settings = settings or DecodeSettings(n=10)
        self.counts = Counts()
        self.refused: dict[str, str] = {}  # why the retro model does not answer for a molecule
        self._known: dict[str, tuple[Proposal, ...]] = {}
        self._back: dict[str, float | None] = {}  # round trips, by reaction; None where none has been asked yet
        self._beside: dict[str, str] = {}  # proposed reagents, by reaction
        self._lock = Lock()
        self._store = self._open() if keep else None

    def _open(self) -> sqlite3.Connection | None:
        """Return the table of these weights and settings; None where nothing can be kept."""
        # Drafts change no answer, and neither does what else is in the batch.
        how = asdict(replace(self.settings, drafter="none", batch_size=1, node_budget=0))
        models = [[model.digest, model.dtype] for model in (self.retro, self.forward, self.reagents) if model]
        which = [VERSION, models, how]
        name = f"plan-{hashlib.sha256(json.dumps(which).encode()).hexdigest()[:16]}.sqlite"
        path = cache.cache_dir() / name
        for _ in range(2):
            try:
                cache.make_folder()
                store = sqlite3.connect(private_file(path), check_same_thread=False, isolation_level=None)
                store.execute("CREATE TABLE IF NOT EXISTS answers (question TEXT PRIMARY KEY, answer TEXT)")
                return store
            except sqlite3.OperationalError:  # no room, no right, or somebody holds it
                return None
            except sqlite3.DatabaseError:  # cut off or overwritten: begin anew
                with suppress(OSError):
                    path.unlink()
            except OSError:
                return None
        return None

    def _read(self, question: str) -> Any:
        """Return what is kept on disk, if anything."""
        if self._store is not None:
            with self._lock, suppress(sqlite3.Error, ValueError):
                row = self._store.execute("SELECT answer FROM answers WHERE question = ?", (question,)).fetchone()
                return row and json.loads(row[0])
        return None

    def _write(self, question: str, answer: Any) -> None:
        if self._store is not None:
            with self._lock, suppress(sqlite3.Error):  # a full disk makes the next search slower and nothing else
                self._store.execute("INSERT OR REPLACE INTO answers VALUES (?, ?)", (question, json.dumps(answer)))

    def knows(self, smiles: str) -> bool:
        """Return whether a molecule can be expanded without asking the model."""
        if smiles not in self._known and (kept := self._read(smiles)) is not None:
            self._known[smiles] = tuple(Proposal(tuple(reactants), chance) for reactants, chance in kept)
        return smiles in self._known

    def expand(self, molecules: Sequence[str]) -> list[tuple[Proposal, ...]]:
        """Return the proposals for each molecule, best first; those not known are decoded in one batch."""
        missing = [smiles for smiles in dict.fromkeys(molecules) if not self.knows(smiles)]
        for smiles, answer in zip(missing, self._ask(self.retro, missing, self.settings), strict=True):
            self._known[smiles] = found = _sound(smiles, answer)
            if answer.status == "ok":
                self._write(smiles, [[one.reactants, one.chance] for one in found])
            else:
                self.refused[smiles] = answer.message
        self.counts.molecules += len(missing)
        return [self._known[smiles] for smiles in molecules]

    def checked(self, smiles: str, proposal: Proposal) -> Proposal:
        """Return a step for a molecule with what the other models say of it, as far as they have been asked before."""
        reaction = proposal.reaction(smiles)
        if reaction not in self._back:
            self._back[reaction] = self._read(reaction)
        known, beside = self._back[reaction], self._beside.get(reaction, "")
        same = (proposal.round_trip, proposal.reagents) == (known, beside)
        return proposal if same else replace(proposal, round_trip=known, reagents=beside)

    def check(self, steps: Sequence[tuple[str, Proposal]]) -> None:
        """Ask the forward model about steps, each the product and the proposal, in one batch; see `checked`.

        Those that it denies it is asked about once more, with the reagents that are proposed for them.
        """
        if self.forward is None:
            return
        missing = {
            proposal.reaction(smiles): (smiles, proposal)
            for smiles, proposal in steps
            if self.checked(smiles, proposal).round_trip is None
        }
        back = self._round_trips({one: (smiles, ".".join(way.reactants)) for one, (smiles, way) in missing.items()})
        denied = [missing[reaction] for reaction, chance in back.items() if chance == 0]
        self.propose(denied)
        flasks = {
            reaction: (smiles, ".".join((*way.reactants, self._beside[reaction])))
            for smiles, way in denied
            if self._beside.get(reaction := way.reaction(smiles))
        }
        for reaction, chance in (back | self._round_trips(flasks)).items():
            self._back[reaction] = chance
            self._write(reaction, chance)

    def _round_trips(self, flasks: Mapping[str, tuple[str, str]]) -> dict[str, float]:
        """Return the forward model's chance of each reaction's product, from product and flask."""
        assert self.forward is not None
        queries = list(dict.fromkeys(flask for _, flask in flasks.values()))
        made = dict(zip(queries, self._ask(self.forward, queries, self._as(HOW)), strict=True))
        self.counts.checks += len(queries)
        return {reaction: _leads_back(smiles, made[flask]) for reaction, (smiles, flask) in flasks.items()}

    def propose(self, steps: Sequence[tuple[str, Proposal]]) -> bool:
        """Ask for the reagents of steps, each the product and the proposal; return whether any were not known."""
        if self.reagents is None:
            return False
        lacking = [one for smiles, way in steps if (one := way.reaction(smiles)) not in self._beside]
        for reaction in lacking:
            if (kept := self._read(f"reagents of {reaction}")) is not None:
                self._beside[reaction] = kept
        asked = list(dict.fromkeys(one for one in lacking if one not in self._beside))
        for reaction, result in zip(asked, self._ask(self.reagents, asked, self._as(PROPOSE)), strict=True):
            self._beside[reaction] = next((balanced(one.canonical) for one in result.hypotheses[:1] if one.valid), "")
            self._write(f"reagents of {reaction}", self._beside[reaction])
        return bool(lacking)

    def _as(self, how: DecodeSettings) -> DecodeSettings:
        return replace(how, drafter=self.settings.drafter, batch_size=self.settings.batch_size)

    def _ask(self, model: Model, queries: Sequence[str], settings: DecodeSettings) -> list[DecodeResult]:
        if not queries:
            return []
        began = time.perf_counter()
        results = model.predict(queries, settings)
        self.counts.calls += 1
        self.counts.seconds += time.perf_counter() - began
        for result in results:
            self.counts.passes += len(result.trace.passes)
            self.counts.tokens += sum(one.emitted for one in result.trace.passes)
        return results


@dataclass
class Sample:
    """What decoding again took, in seconds, as it is done and with standard decoding; whether answers were the same."""

    molecules: int = 0
    checks: int = 0
    ours: float = 0.0
    standard: float = 0.0
    same: bool = True


def compare(expander: Expander, steps: Sequence[tuple[str, Proposal]], *, most: int = 6) -> Sample:
    """Decode a sample of a search again, as it was and with standard decoding, by turns; nothing of it is kept.

    Args:
        expander: whose models and settings.
        steps: of the search, each the product and the proposal.
        most: molecules of the sample; and as many checks, where there is a forward model.
    """
    sample = Sample()
    asked = [(expander.retro, one, expander.settings) for one in dict.fromkeys(one for one, _ in steps)][:most]
    sample.molecules = len(asked)
    if expander.forward is not None:
        how = replace(HOW, drafter=expander.settings.drafter)
        reactants = list(dict.fromkeys(".".join(way.reactants) for _, way in steps))[:most]
        asked += [(expander.forward, one, how) for one in reactants]
        sample.checks = len(reactants)
    for model, query, settings in asked:
        plain = replace(settings, drafter="none")
        results: dict[DecodeSettings, list[DecodeResult]] = {settings: [], plain: []}
        for way in (settings, plain, plain, settings):  # neither always comes first; the faster one of two counts
            results[way] += model.predict([query], way)
        sample.ours += min(one.trace.seconds for one in results[settings])
        sample.standard += min(one.trace.seconds for one in results[plain])
        texts = [[one.tokens for one in found[0].hypotheses] for found in results.values()]
        sample.same &= texts[0] == texts[-1]
    return sample


def _sound(smiles: str, answer: DecodeResult) -> tuple[Proposal, ...]:
    """The different answers that are molecules, supply all atoms and do not contain the molecule itself."""
    found: dict[tuple[str, ...], Proposal] = {}
    need = _supplied((smiles,)) if answer.hypotheses else Counter()
    for one in answer.hypotheses:
        reactants = split(one.canonical) if one.valid else ()
        if reactants and smiles not in reactants and not need - _supplied(reactants):
            chance = one.probability if one.confidence is None else one.confidence
            found.setdefault(reactants, Proposal(reactants, chance))
    return tuple(sorted(found.values(), key=lambda way: (-way.prior(smiles), way.reactants)))


def _supplied(reactants: Sequence[str]) -> Counter[str]:
    return sum((chem.elements(one) or Counter() for one in reactants), Counter())


def _leads_back(smiles: str, answer: DecodeResult) -> float:
    first = next((one for one in answer.hypotheses[:1] if one.valid), None)
    if first is None:
        return 0.0
    single = "." not in first.canonical and "." not in smiles  # then equal spellings decide, and nothing need be read
    same = first.canonical == smiles if single else leads_back(smiles, first.canonical)
    return first.probability if same else 0.0
