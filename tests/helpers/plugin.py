"""A package that plugs something into chemspec, for tests of the registries."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from chemspec.plugins import Registry
from helpers.paths import ROOT, TESTS


def install(folder: Path, group: str, **entries: str) -> Path:
    """Write, or extend, what pip would write of a package with entry points; returns the folder, for `sys.path`."""
    info = folder / "plugged-1.0.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plugged\nVersion: 1.0\n")
    lines = [f"{name} = {value}" for name, value in entries.items()]
    with (info / "entry_points.txt").open("a") as file:
        file.write("\n".join([f"[{group}]", *lines, ""]))
    return folder


def help_text(command: str, *path: Path) -> str:
    """What `chemspec COMMAND --help` prints where these folders are on the path, without line breaks."""
    where = os.pathsep.join(map(str, (*path, TESTS, ROOT)))
    environment = {**os.environ, "PYTHONPATH": where, "COLUMNS": "300", "TERM": "dumb"}
    words = [sys.executable, "-m", "chemspec.cli", command, "--help"]
    return subprocess.run(words, env=environment, capture_output=True, text=True, check=True).stdout


@contextmanager
def scope_of(registry: Registry[Any]) -> Iterator[None]:
    """Load plug-ins again in this context and undo registrations at its end."""
    registry._load_plugins()
    before = dict(registry._specs)
    registry._filled = False
    try:
        yield
    finally:
        registry._specs, registry._filled = before, True
