"""Multi-GPU inference: one engine process per device, and a common queue of batches."""

from __future__ import annotations

import signal
import warnings
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path
from threading import Lock
from typing import Any, overload

from chemspec.engine.engine import Engine
from chemspec.engine.queries import check_queries
from chemspec.settings import DecodeSettings, Task
from chemspec.system.threads import usable_cores
from chemspec.types import DecodeResult

ALL = "cuda:all"


@dataclass(frozen=True)
class EngineFacts:
    """Attributes that all engines of a pool share."""

    name: str
    task: Task
    digest: str
    folder: Path
    dtype: str
    runtime: str
    confidence_problem: str


@dataclass
class _Worker:
    process: Any
    connection: Connection


@dataclass(frozen=True)
class _Job:
    """A batch that an engine is processing: numbers and texts of queries, from one `predict` call."""

    call: int
    number: int
    batch: list[tuple[int, str]]


class EnginePool:
    """Engines on several devices with the interface of one; a context manager.

    Attributes:
        facts: attributes that the engines share.
        devices: devices of the engines.
    """

    def __init__(self, name: str | Path, devices: Sequence[str], **options: Any) -> None:
        """Load a model on every device.

        Raises:
            ValueError: if there is no device, or an engine cannot be loaded.
        """
        if not devices:
            raise ValueError("there is no usable GPU on this machine; use --device cpu")
        self.devices = tuple(devices)
        # Spawned, because a forked process cannot use a GPU that its parent has touched.
        context = get_context("spawn")
        options["threads"] = options.get("threads") or max(1, usable_cores() // len(devices))
        self._workers = []
        self._asking = Lock()
        self._calls = count()
        self._jobs: dict[Any, _Job] = {}  # by connection; jobs of an interrupted call are received by the next one
        for device in devices:
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve_batches, args=(theirs, name, device, options), daemon=True)
            process.start()
            theirs.close()
            self._workers.append(_Worker(process, ours))
        try:
            loaded = [_value_or_raise(worker.connection.recv()) for worker in self._workers]
            self.facts: EngineFacts = loaded[0]
        except EOFError:
            self.close()
            raise ValueError(f"an engine on {', '.join(devices)} ended before it had loaded") from None
        except Exception:
            self.close()
            raise

    @classmethod
    def load(cls, name: str | Path, *, device: str = ALL, **options: Any) -> EnginePool:
        """Load a model on all GPUs; the arguments are those of `Engine.load`."""
        import torch

        assert device == ALL
        return cls(name, [f"cuda:{number}" for number in range(torch.cuda.device_count())], **options)

    def __getattr__(self, name: str) -> Any:
        if name in EngineFacts.__dataclass_fields__:
            return getattr(self.facts, name)
        raise AttributeError(name)

    def __enter__(self) -> EnginePool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    @property
    def device(self) -> str:
        """All devices, separated by commas."""
        return ",".join(self.devices)

    def prefetch(self, queries: Sequence[str]) -> None:
        """Do nothing: each engine reads its own queries."""

    def close(self) -> None:
        """Stop the processes."""
        for worker in self.__dict__.pop("_workers", []):
            worker.connection.close()
            worker.process.terminate()
            worker.process.join()

    @overload
    def predict(
        self,
        queries: str,
        settings: DecodeSettings | None = None,
        *,
        progress: Callable[[int], None] = ...,
        **overrides: Any,
    ) -> DecodeResult: ...

    @overload
    def predict(
        self,
        queries: Sequence[str],
        settings: DecodeSettings | None = None,
        *,
        progress: Callable[[int], None] = ...,
        **overrides: Any,
    ) -> list[DecodeResult]: ...

    def predict(
        self,
        queries: str | Sequence[str],
        settings: DecodeSettings | None = None,
        *,
        progress: Callable[[int], None] = lambda _: None,
        **overrides: Any,
    ) -> DecodeResult | list[DecodeResult]:
        """Predict; see `Engine.predict`. The next free engine takes the next batch, longest queries first.

        Raises:
            ValueError: for settings out of range, or a drafter that the model lacks.
            TypeError: for queries that are no texts.
            RuntimeError: if all engines have died, or two of them with the same batch.
        """
        settings = replace(settings or DecodeSettings(), **overrides)
        if isinstance(queries, str):
            return self.predict([queries], settings, progress=progress)[0]
        check_queries(queries)
        order = sorted(range(len(queries)), key=lambda index: -len(queries[index]))
        size = settings.batch_size
        with self._asking:
            results = self._answer_batches(
                [[(index, queries[index]) for index in order[i : i + size]] for i in range(0, len(order), size)],
                settings,
                progress,
            )
        return [results[index] for index in range(len(queries))]

    def _answer_batches(
        self, batches: Sequence[list[tuple[int, str]]], settings: DecodeSettings, progress: Callable[[int], None]
    ) -> dict[int, DecodeResult]:
        if not self._workers:
            raise RuntimeError("all engines have died")
        call, jobs, waiting = next(self._calls), self._jobs, deque(enumerate(batches))
        answered: dict[int, DecodeResult] = {}
        lost: set[int] = set()  # batches whose engine has died
        refused: Exception | None = None
        while waiting or any(job.call == call for job in jobs.values()):
            for worker in list(self._workers):
                if waiting and worker.connection not in jobs:
                    number, batch = waiting.popleft()
                    try:
                        worker.connection.send(([text for _, text in batch], settings))
                        jobs[worker.connection] = _Job(call, number, batch)
                    except ConnectionError:  # the engine has died
                        waiting.appendleft((number, batch))
                        self._remove_worker(worker.connection, batch)
            for connection in wait(list(jobs)):
                job = jobs.pop(connection)
                asked_now = job.call == call
                try:
                    results = _value_or_raise(connection.recv())  # type: ignore[union-attr,call-arg]
                except (EOFError, ConnectionError):
                    self._remove_worker(connection, job.batch, again=asked_now and job.number in lost)
                    if asked_now:
                        lost.add(job.number)
                        waiting.append((job.number, job.batch))
                    continue
                except Exception as error:  # invalid settings, which fail on all engines
                    if asked_now:
                        refused = error
                        waiting.clear()
                    continue
                if asked_now:
                    answered.update((index, result) for (index, _), result in zip(job.batch, results, strict=True))
                    progress(len(answered))
        if refused is not None:
            raise refused
        return answered

    def _remove_worker(self, connection: Any, batch: list[tuple[int, str]], *, again: bool = False) -> None:
        """Remove an engine whose process has ended; raises if it was the last, or the second one for this batch."""
        (dead,) = (worker for worker in self._workers if worker.connection is connection)
        self._workers.remove(dead)
        dead.process.join()
        left = len(self._workers)
        warnings.warn(f"an engine has died (exit code {dead.process.exitcode}); {left} left", stacklevel=5)
        if again or not left:
            raise RuntimeError(f"engines died while processing the batch that starts with {batch[0][1]!r}")


def _value_or_raise(what: Any) -> Any:
    if isinstance(what, Exception):
        raise what
    return what


def _serve_batches(connection: Connection, name: str | Path, device: str, options: dict[str, Any]) -> None:
    """Load an engine, send its attributes, and process batches until the connection is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C and stops this process
    try:
        engine = Engine.load(name, device=device, **options)
        facts = {name: getattr(engine, name) for name in EngineFacts.__dataclass_fields__}
        connection.send(EngineFacts(**facts))
        while True:
            queries, settings = connection.recv()
            try:
                connection.send(engine.predict(queries, settings))
            except (ValueError, RuntimeError) as error:
                connection.send(error)
    except (EOFError, ConnectionError):
        return
    except Exception as error:
        connection.send(error)


__all__ = ["ALL", "EngineFacts", "EnginePool"]
