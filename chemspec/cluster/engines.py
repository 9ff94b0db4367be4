"""Engines on a Ray cluster: one per GPU or group of cores, in processes that Ray starts where there is room.

Ray also detects their deaths and transfers texts and tables; `dispatch.py` assigns the work. Usage statistics and
dashboard are off, and a local Ray listens on the loopback interface only.
"""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pyarrow

from chemspec.cluster.dispatch import ClusterError, Piece
from chemspec.cluster.shards import SCHEMA
from chemspec.io import writers
from chemspec.settings import DecodeSettings
from chemspec.system import extras
from chemspec.system.threads import usable_cores
from chemspec.types import DecodeResult
from chemspec.version import __version__

if TYPE_CHECKING:  # slow imports
    from chemspec.engine.engine import Engine

LOCAL = "local"
STORE = 200_000_000  # bytes of shared memory of a local Ray: a few shards of texts and answers
POLL = 2.0  # seconds between two checks for machines
PATIENCE = 600.0  # seconds without any machine
STARTS = 16  # times that the first engine may die


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

    if ray.is_initialized():  # the caller did it, who also shuts it down
        yield ray
        return
    folder = ""
    options: dict[str, Any] = {"address": address}
    if address == LOCAL:
        folder = tempfile.mkdtemp(prefix="chemspec-ray-")  # Ray's logs and sockets
        options |= {"num_cpus": cores or usable_cores(), "object_store_memory": STORE, "_temp_dir": folder}
        options["include_dashboard"] = False
    try:
        with without_messages_of_ray():
            try:
                ray.init(**options, log_to_driver=False, logging_level=logging.ERROR)
            except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
                raise ClusterError(f"no Ray cluster is available at {address!r}: {error}") from error
            yield ray
    finally:
        ray.shutdown()
        if folder:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def without_messages_of_ray() -> Iterator[None]:
    """Drop what Ray prints to standard output of workers that died, whatever `log_to_driver`: notes tell it shortly."""
    from ray._private import worker

    prints = getattr(worker, "print_to_stdstream", None)
    if prints is None:  # another version of Ray
        yield
        return
    worker.print_to_stdstream = lambda *_, **__: None
    try:
        yield
    finally:
        worker.print_to_stdstream = prints


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


@lru_cache(maxsize=1)
def load_engine(model: str, options: tuple[tuple[str, Any], ...]) -> Engine:
    """Load the model of this worker once."""
    from chemspec.engine.engine import Engine

    return Engine.load(model, **dict(options))


def load_facts(model: str, options: tuple[tuple[str, Any], ...]) -> dict[str, str]:
    """Load the model in this process; returns the properties that all engines of a job must share."""
    engine = load_engine(model, options)
    same = {"name": engine.name, "task": engine.task, "digest": engine.full_digest}
    return {**same, "dtype": engine.dtype, "version": __version__}


def predict_piece(
    model: str, options: tuple[tuple[str, Any], ...], expected: dict[str, str], piece: Piece, settings: DecodeSettings
) -> pyarrow.Table:
    """Predict rows; failing ones get a status without affecting others.

    ClusterError if the model of this machine has not the expected facts.
    """
    facts = load_facts(model, options)
    if facts != expected:
        differences = ", ".join(f"{name} {facts[name]!r}, not {expected[name]!r}" for name in facts)
        raise ClusterError(f"an engine on another machine differs: {differences}")
    size = settings.batch_size * writers.BATCHES
    parts = []
    for start in range(0, len(piece.queries), size):  # traces are large, so only a few batches at a time
        queries = piece.queries[start : start + size]
        results = writers.predict_isolating_failures(load_engine(model, options), queries, settings)
        parts.append(results_to_table(piece.first + start, results))
    return pyarrow.concat_tables(parts).combine_chunks()


class RayEngines:
    """As many engines as fit on the cluster, for `dispatch_pieces`; `start` comes first."""

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
        """Prepare at most `most` engines (0: as many as fit), each with a GPU or `threads` cores (0: one).

        Model and options are those of `Engine.load`; a path must exist on every machine. The device is "cpu", "cuda" or
        "auto" (GPUs if any machine has one); ValueError for another.
        """
        self._ray, self._settings, self._most = ray, settings, most
        self._threads = threads or 1
        self._gpu = engines_get_gpu(ray, device)
        options |= {"device": "cuda" if self._gpu else "cpu", "threads": self._threads}
        self._loading = model, tuple(options.items())
        # Ray keeps the process of a task, and with it the loaded model, for the next one; `max_calls`: on a GPU too.
        resources = {"num_cpus": self._threads, "num_gpus": int(self._gpu)}
        keep_process = ray.remote(max_calls=0)
        self._load_facts = keep_process(load_facts).options(**resources, max_retries=STARTS)
        self._predict_piece = keep_process(predict_piece).options(**resources, max_retries=0)
        self._in_progress: dict[Any, Piece] = {}
        self._facts: dict[str, str] = {}

    def start(self) -> dict[str, str]:
        """Load a first engine and return its facts, which all others must share.

        ClusterError if there is no machine or engines die while loading; ValueError for a model that cannot be loaded.
        """
        self.size()
        self._facts, death = self._get_result(self._load_facts.remote(*self._loading))
        if death:
            raise ClusterError(f"no engine lives long enough to load, at last: {death}")
        return self._facts

    def size(self) -> int:
        """Return the number of pieces that can be in progress; waits for a machine.

        ClusterError if there has been none for long.
        """
        began = time.monotonic()
        while not (room := count_fitting_engines(self._ray, self._gpu, self._threads)):
            if time.monotonic() - began > PATIENCE:
                raise ClusterError(
                    f"there has been no engine for {PATIENCE:.0f} seconds; the same command can be resumed later"
                )
            time.sleep(POLL)
        return min(room, self._most or room)

    def submit(self, piece: Piece) -> None:
        """Submit a piece to an engine."""
        ref = self._predict_piece.remote(*self._loading, self._facts, piece, self._settings)
        self._in_progress[ref] = piece

    def wait(self) -> list[tuple[Piece, pyarrow.Table | None, str]]:
        """Wait at most some seconds; returns pieces with their results, or with None and why their engines died.

        ValueError for settings that an engine refuses.
        """
        ready, _ = self._ray.wait([*self._in_progress], timeout=POLL)
        return [(self._in_progress.pop(ref), *self._get_result(ref)) for ref in ready]

    def _get_result(self, ref: Any) -> tuple[Any, str]:
        """Return the result of a task, or None and why its engine died."""
        errors = self._ray.exceptions
        try:
            return self._ray.get(ref), ""
        except errors.RayTaskError as error:  # raised by chemspec
            cause = error.cause
            if isinstance(cause, ValueError | ModuleNotFoundError):
                raise cause from error  # other engines would raise the same
            return None, f"{type(cause).__name__}: {cause}"
        except errors.RayError as error:
            lines = [line.strip() for line in str(error).splitlines() if line.strip()]
            telling = (line for line in lines if "died" in line or "dead" in line or "unavailable" in line)
            return None, next(telling, lines[0])[:300]
