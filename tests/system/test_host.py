"""What a machine has: cores, load, GPUs, and files that may still be opened."""

from __future__ import annotations

import os
import resource
from collections import namedtuple
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from chemspec.system import connections, gpu, host, threads


def test_cores_are_those_that_this_process_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {1, 4, 5}, raising=False)
    assert threads.usable_cores() == 3
    monkeypatch.delattr(os, "sched_getaffinity")  # as on Windows and macOS
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    assert threads.usable_cores() == 6
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert threads.usable_cores() == 1


def test_load_is_told_per_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (6.0, 1.0, 1.0))
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    assert host.load_per_core() == 1.5
    monkeypatch.delattr(os, "getloadavg")
    assert host.load_per_core() == 0


def test_gpus_are_those_that_torch_can_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert gpu.gpu_count() == 2
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert gpu.gpu_count() == 0


Limits = namedtuple("Limits", "files open connections")


@pytest.mark.parametrize(
    "limits",
    [
        Limits(resource.RLIM_INFINITY, 50, 1000),
        Limits(100_000, 50, 1000),  # never more
        Limits(1024, 24, 744),  # a quarter is for others
        Limits(40, 10, 14),  # but 16 at least
        Limits(40, 39, 4),  # never fewer
    ],
)
def test_a_server_leaves_files_for_others_than_connections(limits: Limits, monkeypatch: pytest.MonkeyPatch) -> None:
    def listed(_: Path) -> Iterator[Path]:
        return iter([Path("0")] * limits.open)

    monkeypatch.setattr(Path, "iterdir", listed)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limits.files, limits.files))
    assert connections.connection_limit() == limits.connections


def test_where_open_files_are_not_listed_a_server_has_the_usual_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    def listed(_: Path) -> Iterator[Path]:
        raise FileNotFoundError

    monkeypatch.setattr(Path, "iterdir", listed)
    assert connections.connection_limit() == connections.CONNECTIONS
