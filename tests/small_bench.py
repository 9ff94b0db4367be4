"""Benchmarks on small models, a few queries and short answers, for tests of what they measure and tell."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from small import QUERIES

from chemspec import asset_files
from chemspec.bench import speed
from chemspec.settings import DecodeSettings


def bench_in_small(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let benchmarks take the models of a folder, a few queries and short answers."""
    short = tuple(sorted(QUERIES, key=len))
    answer = DecodeSettings(max_len=8)
    monkeypatch.setenv("CHEMSPEC_MODELS", str(home))
    monkeypatch.setattr(asset_files, "bench_queries", lambda _: short)
    monkeypatch.setattr(speed, "DecodeSettings", lambda **options: replace(answer, **options))
