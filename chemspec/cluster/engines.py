"""Engines on a Ray cluster: one actor per GPU or group of cores, replaced when it dies.

Ray starts processes, detects their deaths and transfers texts and tables; `dispatch.py` assigns the work. Usage
statistics and dashboard are off, and a local Ray listens on the loopback interface only.
"""

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
POLL = 2.0  # seconds between two checks for machines
PATIENCE = 600.0  # seconds without any engine


@contextmanager
def connect_cluster(address: str, cores: int = 0) -> Iterator[Any]:
    """Connect to a Ray cluster, or start a local one for the duration of the context; yields the module `ray`.

    The address is "local" (with that many cores; 0: all), "auto" (the one running on this machine) or HOST:PORT of its
    head. ClusterError if there is no cluster.
    """
    extras.require_packages("ray", "pyarrow", what="many machines")
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    if address == LOCAL:
        # Makes Ray use the loopback interface on Linux too; otherwise it listens on all interfaces.
        os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
        os.environ.pop("RAY_ADDRESS", None)
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    logging.getLogger("ray").setLevel(logging.ERROR)
    import ray

    if ray.is_initialized():  # by the caller, who also shuts it down
        yield ray
        return
    folder = ""
    options: dict[str, Any] = {"address": address}
    if address == LOCAL:
        folder = tempfile.mkdtemp(prefix="chemspec-ray-")  # Ray's logs and sockets
        options |= {"num_cpus": cores or usable_cores(), "object_store_memory": STORE, "_temp_dir": folder}
        options["include_dashboard"] = False
    try:
        try:
            ray.init(**options, log_to_driver=False, logging_level=logging.ERROR)
        except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
            raise ClusterError(f"no Ray cluster is available at {address!r}: {error}") from error
        yield ray
    finally:
        ray.shutdown()
        if folder:
            shutil.rmtree(folder, ignore_errors=True)


def engines_get_gpu(ray: Any, device: str) -> bool:
    """Return whether every engine gets a GPU; ValueError for an unknown device."""
    if device not in ("auto", "cpu", "cuda"):
        raise ValueError(f"--device {device} names one GPU; on a cluster every engine gets its own: cuda, cpu or auto")
    return device == "cuda" or (device == "auto" and ray.cluster_resources().get("GPU", 0) >= 1)


def count_fitting_engines(ray: Any, gpu: bool, threads: int) -> int:
    """Return the number of engines, with a GPU or `threads` cores each, that fit on the current machines."""
    kind, each = ("GPU", 1) if gpu else ("CPU", threads)
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    return sum(int(node.get(kind, 0) // each) for node in nodes)


def results_to_table(first: int, results: Sequence[DecodeResult]) -> pyarrow.Table:
    """Return the rows of a shard as a table; `first` is the index of its first row in the input."""
    rows = [{"row": first + number, **writers.result_document(result)} for number, result in enumerate(results)]
    return pyarrow.Table.from_pylist(rows, schema=SCHEMA)


class EngineActor:
    """An engine in a separate process, on any machine of the cluster."""

    def load(self, model: str, options: dict[str, Any]) -> dict[str, str]:
        """Load the model; returns the properties that all engines of a job must share."""
        from chemspec.engine.engine import Engine

        engine = self.engine = Engine.load(model, **options)
        same = {"name": engine.name, "task": engine.task, "digest": engine.digest}
        return {**same, "dtype": engine.dtype, "version": __version__}

    def answer(self, first: int, queries: Sequence[str], settings: DecodeSettings) -> pyarrow.Table:
        """Predict rows; failing ones get a status without affecting others."""
        size = settings.batch_size * writers.BATCHES
        parts = []
        for start in range(0, len(queries), size):  # traces are large, so only a few batches at a time
            results = writers.predict_isolating_failures(self.engine, queries[start : start + size], settings)
            parts.append(results_to_table(first + start, results))
        return pyarrow.concat_tables(parts).combine_chunks()


class RayEngines:
    """As many engines as fit on the cluster; see `dispatch.Engines`. `start` sets `facts`, their common properties."""

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
        """Prepare to start at most `most` engines (0: as many as fit), each with a GPU or `threads` cores (0: one).

        Model and options are those of `Engine.load`; a path must exist on every machine. The device is "cpu", "cuda" or
        "auto" (GPUs if any machine has one); ValueError for another.
        """
        self._ray, self._settings, self._most = ray, settings, most
        self._threads = threads or 1
        self._gpu = engines_get_gpu(ray, device)
        options |= {"device": "cuda" if self._gpu else "cpu", "threads": self._threads}
        self._model, self._options = model, options
        self._actor = ray.remote(EngineActor).options(
            num_cpus=self._threads, num_gpus=int(self._gpu), max_restarts=0, max_task_retries=0
        )
        self.facts: dict[str, str] = {}
        self._loading: dict[Any, Any] = {}  # actors by the references of their results
        self._free: list[Any] = []
        self._busy: dict[Any, tuple[Any, Piece]] = {}
        self._looked = -POLL
        self._alive = time.monotonic()  # time when an engine last existed

    def start(self) -> None:
        """Wait for the first engine; ClusterError if none loads."""
        deaths = 0
        while not self._free:
            for event in self.wait():
                deaths += 1
                if deaths > 4 * max(4, self.size()):
                    assert isinstance(event, Lost)
                    raise ClusterError(f"no engine lives long enough to load, at last: {event.why}")

    def free(self) -> int:
        """Return the number of idle engines."""
        return len(self._free)

    def busy(self) -> int:
        """Return the number of pieces in progress."""
        return len(self._busy)

    def size(self) -> int:
        """Return the number of engines, including those that are loading."""
        return len(self._loading) + len(self._free) + len(self._busy)

    def give(self, piece: Piece) -> None:
        """Assign a piece to an idle engine."""
        actor = self._free.pop()
        self._busy[actor.answer.remote(piece.first, piece.queries, self._settings)] = actor, piece

    def wait(self) -> list[Answered[pyarrow.Table] | Lost]:
        """Wait for events, at most some seconds.

        ClusterError if there has been no engine for long, or engines on other machines differ; ValueError for settings
        or a model that an engine refuses.
        """
        self._start_engines()
        if self._free or self._busy:
            self._alive = time.monotonic()
        elif time.monotonic() - self._alive > PATIENCE:
            raise ClusterError(
                f"there has been no engine for {PATIENCE:.0f} seconds; the same command can be resumed later"
            )
        awaited = [*self._busy, *self._loading]
        if not awaited:
            time.sleep(POLL)
            return []
        ready, _ = self._ray.wait(awaited, timeout=POLL)
        events: list[Answered[pyarrow.Table] | Lost] = []
        for ref in ready:
            if ref in self._loading:
                events += self._finish_loading(ref)
            else:
                events.append(self._finish_piece(ref))
        return events

    def _start_engines(self) -> None:
        """Start engines where they fit: at first, after deaths, and on new machines."""
        if time.monotonic() - self._looked < POLL:
            return
        self._looked = time.monotonic()
        room = count_fitting_engines(self._ray, self._gpu, self._threads)
        for _ in range(self.size(), min(room, self._most or room)):
            actor = self._actor.remote()
            self._loading[actor.load.remote(self._model, self._options)] = actor

    def _finish_loading(self, ref: Any) -> list[Lost]:
        actor = self._loading.pop(ref)
        try:
            facts = self._get_result(ref)
        except _DeathError as death:
            self._kill(actor)
            return [Lost(None, str(death))]
        self.facts = self.facts or facts
        if facts != self.facts:
            differences = ", ".join(f"{name} {facts[name]!r}, not {self.facts[name]!r}" for name in facts)
            raise ClusterError(f"an engine on another machine differs: {differences}")
        self._free.append(actor)
        return []

    def _finish_piece(self, ref: Any) -> Answered[pyarrow.Table] | Lost:
        actor, piece = self._busy.pop(ref)
        try:
            rows = self._get_result(ref)
        except _DeathError as death:
            self._kill(actor)
            return Lost(piece, str(death))
        self._free.append(actor)
        return Answered(piece, rows)

    def _kill(self, actor: Any) -> None:
        """Kill an actor for certain: an unreachable one would keep its cores."""
        self._ray.kill(actor, no_restart=True)
        self._looked = -POLL

    def _get_result(self, ref: Any) -> Any:
        errors = self._ray.exceptions
        try:
            return self._ray.get(ref)
        except errors.RayTaskError as error:  # raised by chemspec
            cause = error.cause
            if isinstance(cause, ValueError | ModuleNotFoundError):
                raise cause from error  # other engines would raise the same
            raise _DeathError(f"{type(cause).__name__}: {cause}") from error
        except errors.RayError as error:
            lines = [line.strip() for line in str(error).splitlines() if line.strip()]
            telling = (line for line in lines if "died" in line or "dead" in line or "unavailable" in line)
            raise _DeathError(next(telling, lines[0])[:300]) from error


class _DeathError(Exception):
    """The cause of an engine's death."""
