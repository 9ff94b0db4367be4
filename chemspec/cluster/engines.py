"""Engines on a Ray cluster: one actor a GPU or a group of cores, replaced when it dies.

Ray only starts processes, notices their deaths and carries texts and tables; who answers what is decided in
`dispatch.py`. Nothing is reported to anybody, no dashboard is started, and a local Ray listens on this machine only.
"""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow

from chemspec.cluster.dispatch import Answered, ClusterError, Lost, Piece
from chemspec.cluster.shards import SCHEMA
from chemspec.io import writers
from chemspec.settings import DecodeSettings
from chemspec.system import extras
from chemspec.system.threads import usable_cores
from chemspec.types import DecodeResult
from chemspec.version import __version__

LOCAL = "local"
STORE = 200_000_000  # bytes of shared memory of a local Ray: a few shards of texts and answers
POLL = 2.0  # seconds between two looks at which machines there are
PATIENCE = 600.0  # seconds without any engine


@contextmanager
def cluster(address: str, cores: int = 0) -> Iterator[Any]:
    """Connect to a Ray cluster, or start one on this machine that ends with the `with`; yields the module `ray`.

    Args:
        address: "local", "auto" (the one running on this machine) or HOST:PORT of its head.
        cores: of this machine that a local one may use; 0: all.

    Raises:
        ClusterError: if there is none at the address.
    """
    extras.require("ray", "pyarrow", what="many machines")
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    if address == LOCAL:
        # What makes Ray take the loopback address on Linux too; otherwise it listens on all interfaces.
        os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
        os.environ.pop("RAY_ADDRESS", None)
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    logging.getLogger("ray").setLevel(logging.ERROR)
    import ray

    if ray.is_initialized():  # by the caller, who also ends it
        yield ray
        return
    folder = ""
    how: dict[str, Any] = {"address": address}
    if address == LOCAL:
        folder = tempfile.mkdtemp(prefix="chemspec-ray-")  # Ray's logs and sockets
        how |= {"num_cpus": cores or usable_cores(), "object_store_memory": STORE, "_temp_dir": folder}
        how["include_dashboard"] = False
    try:
        try:
            ray.init(**how, log_to_driver=False, logging_level=logging.ERROR)
        except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
            raise ClusterError(f"no Ray cluster could be had at {address!r}: {error}") from error
        yield ray
    finally:
        ray.shutdown()
        if folder:
            shutil.rmtree(folder, ignore_errors=True)


def gets_gpu(ray: Any, device: str) -> bool:
    """Return whether every engine gets a GPU.

    Args:
        ray: the module, connected.
        device: "cpu", "cuda" or "auto" (if any machine has one).

    Raises:
        ValueError: for another device.
    """
    if device not in ("auto", "cpu", "cuda"):
        raise ValueError(f"--device {device} names one GPU; on a cluster every engine gets its own: cuda, cpu or auto")
    return device == "cuda" or (device == "auto" and ray.cluster_resources().get("GPU", 0) >= 1)


def room_for(ray: Any, gpu: bool, threads: int) -> int:
    """Return how many engines of a GPU, or of so many cores, there is room for on the machines that there are."""
    kind, each = ("GPU", 1) if gpu else ("CPU", threads)
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    return sum(int(node.get(kind, 0) // each) for node in nodes)


def table(first: int, results: Sequence[DecodeResult]) -> pyarrow.Table:
    """The rows of a shard, `first` being the place of the first one in the input."""
    rows = [{"row": first + number, **writers.result_document(result)} for number, result in enumerate(results)]
    return pyarrow.Table.from_pylist(rows, schema=SCHEMA)


class EngineActor:
    """An engine in a process of its own, on whatever machine it was put."""

    def load(self, model: str, options: dict[str, Any]) -> dict[str, str]:
        """Load the model; return what has to be the same for all engines of a job."""
        from chemspec.engine.engine import Engine

        engine = self.engine = Engine.load(model, **options)
        same = {"name": engine.name, "task": engine.task, "digest": engine.digest}
        return {**same, "dtype": engine.dtype, "version": __version__}

    def answer(self, first: int, queries: Sequence[str], settings: DecodeSettings) -> pyarrow.Table:
        """Answer rows; bad ones get a status and harm no other."""
        size = settings.batch_size * writers.BATCHES
        parts = []
        for start in range(0, len(queries), size):  # traces are large: only a few batches' at a time
            results = writers.predict_isolating_failures(self.engine, queries[start : start + size], settings)
            parts.append(table(first + start, results))
        return pyarrow.concat_tables(parts).combine_chunks()


class RayEngines:
    """As many engines as the cluster has room for; see `dispatch.Engines`.

    Attributes:
        facts: what the engines have in common, once `start` has returned.
    """

    def __init__(
        self,
        ray: Any,
        model: str,
        settings: DecodeSettings,
        *,
        device: str = "auto",
        threads: int = 0,
        most: int = 0,
        **options: Any,
    ) -> None:
        """Prepare to start engines.

        Args:
            ray: the module, connected.
            model: as for `Engine.load`; a path must be there on every machine.
            settings: how to answer.
            device: "cpu", "cuda" (a GPU each) or "auto" (a GPU each if any machine has one).
            threads: cores of an engine; 0: one.
            most: engines; 0: as many as there is room for.
            options: of `Engine.load`.

        Raises:
            ValueError: for another device.
        """
        self._ray, self._settings, self._most = ray, settings, most
        self._threads = threads or 1
        self._gpu = gets_gpu(ray, device)
        options |= {"device": "cuda" if self._gpu else "cpu", "threads": self._threads}
        self._model, self._options = model, options
        self._actor = ray.remote(EngineActor).options(
            num_cpus=self._threads, num_gpus=int(self._gpu), max_restarts=0, max_task_retries=0
        )
        self.facts: dict[str, str] = {}
        self._loading: dict[Any, Any] = {}  # actors by what they will return
        self._free: list[Any] = []
        self._busy: dict[Any, tuple[Any, Piece]] = {}
        self._looked = -POLL
        self._alive = time.monotonic()  # when there was an engine last

    def start(self) -> None:
        """Wait for the first engine.

        Raises:
            ClusterError: if none loads.
        """
        deaths = 0
        while not self._free:
            for event in self.wait():
                deaths += 1
                if deaths > 4 * max(4, self.size()):
                    assert isinstance(event, Lost)
                    raise ClusterError(f"no engine lives long enough to load, at last: {event.why}")

    def free(self) -> int:
        """How many wait for a piece."""
        return len(self._free)

    def busy(self) -> int:
        """How many pieces are being answered."""
        return len(self._busy)

    def size(self) -> int:
        """How many engines there are, those that load included."""
        return len(self._loading) + len(self._free) + len(self._busy)

    def give(self, piece: Piece) -> None:
        """Let a free engine answer a piece."""
        actor = self._free.pop()
        self._busy[actor.answer.remote(piece.first, piece.queries, self._settings)] = actor, piece

    def wait(self) -> list[Answered[pyarrow.Table] | Lost]:
        """Return what has happened since, at the latest after some seconds.

        Raises:
            ClusterError: if there has been no engine for long, or those on other machines are of another kind.
            ValueError: whatever an engine says of the settings or the model.
        """
        self._grow()
        if self._free or self._busy:
            self._alive = time.monotonic()
        elif time.monotonic() - self._alive > PATIENCE:
            raise ClusterError(f"there has been no engine for {PATIENCE:.0f} seconds; the same command goes on later")
        awaited = [*self._busy, *self._loading]
        if not awaited:
            time.sleep(POLL)
            return []
        ready, _ = self._ray.wait(awaited, timeout=POLL)
        events: list[Answered[pyarrow.Table] | Lost] = []
        for ref in ready:
            if ref in self._loading:
                events += self._loaded(ref)
            else:
                events.append(self._done(ref))
        return events

    def _grow(self) -> None:
        """Start engines where there is room: at first, after deaths, and on machines that have come since."""
        if time.monotonic() - self._looked < POLL:
            return
        self._looked = time.monotonic()
        for _ in range(self.size(), self._room()):
            actor = self._actor.remote()
            self._loading[actor.load.remote(self._model, self._options)] = actor

    def _room(self) -> int:
        room = room_for(self._ray, self._gpu, self._threads)
        return min(room, self._most) if self._most else room

    def _loaded(self, ref: Any) -> list[Lost]:
        actor = self._loading.pop(ref)
        try:
            facts = self._get(ref)
        except _DeathError as death:
            self._kill(actor)
            return [Lost(None, str(death))]
        self.facts = self.facts or facts
        if facts != self.facts:
            told = ", ".join(f"{name} {facts[name]!r}, not {self.facts[name]!r}" for name in facts)
            raise ClusterError(f"an engine on another machine is of another kind: {told}")
        self._free.append(actor)
        return []

    def _done(self, ref: Any) -> Answered[pyarrow.Table] | Lost:
        actor, piece = self._busy.pop(ref)
        try:
            found = self._get(ref)
        except _DeathError as death:
            self._kill(actor)
            return Lost(piece, str(death))
        self._free.append(actor)
        return Answered(piece, found)

    def _kill(self, actor: Any) -> None:
        """Make sure that it is dead: one that only cannot be reached would keep its cores."""
        self._ray.kill(actor, no_restart=True)
        self._looked = -POLL

    def _get(self, ref: Any) -> Any:
        errors = self._ray.exceptions
        try:
            return self._ray.get(ref)
        except errors.RayTaskError as error:  # raised by our code
            cause = error.cause
            if isinstance(cause, ValueError | ModuleNotFoundError):
                raise cause from error  # the other engines would say the same
            raise _DeathError(f"{type(cause).__name__}: {cause}") from error
        except errors.RayError as error:
            raise _DeathError(_short(error)) from error


class _DeathError(Exception):
    """Why an engine is no more."""


def _short(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return next((line for line in lines if "died" in line or "dead" in line or "unavailable" in line), lines[0])[:300]
