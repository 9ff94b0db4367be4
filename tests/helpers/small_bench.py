"""Benchmarks on small models, a few queries and short answers, for tests of what they measure and tell."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from chemspec import asset_files
from chemspec.bench import papers, speed
from chemspec.model import checkpoint
from chemspec.settings import DecodeSettings
from helpers.command_line import call
from helpers.small import QUERIES, TOKENIZER, tiny_folder
from helpers.tiny import tiny_model


def bench_in_small(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let benchmarks take the models of a folder, a few queries and short answers."""
    short = tuple(sorted(QUERIES, key=len))
    answer = DecodeSettings(max_len=8)
    monkeypatch.setenv("CHEMSPEC_MODELS", str(home))
    monkeypatch.setattr(asset_files, "bench_queries", lambda _: short)
    monkeypatch.setattr(speed, "DecodeSettings", lambda **options: replace(answer, **options))


def folder_with_drafters(folder: Path) -> Path:
    """A forward and a retro model, the latter with drafters."""
    target = tiny_folder(folder / "retro", task="retro")
    tiny_folder(folder / "forward", task="forward")
    for seed, kind in enumerate(("ar", "medium")):
        tiny_folder(target / "drafters" / kind, seed=5 + seed)
    config = checkpoint.read_config(target)[1]
    filler = tiny_model(7, config.vocab_size + 1, d_model=32, heads=4, feedforward=32, max_positions=1024).float()
    checkpoint.save_drafter(target / "drafters" / "spec_drafter", filler, TOKENIZER, kind="spec_drafter", length=20)
    return folder


def papers_in_small(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `bench papers` take the models of a folder, few widths and batches, and short answers."""
    monkeypatch.setenv("CHEMSPEC_MODELS", str(home))
    monkeypatch.setattr(asset_files, "bench_queries", lambda _: tuple(QUERIES))
    monkeypatch.setattr(asset_files, "bench_answers", lambda _: {})
    monkeypatch.setattr(papers, "DecodeSettings", lambda **how: DecodeSettings(**{"max_len": 10, **how}))
    few = [row for row in papers.ROWS if row["n"] in ("1", "3", "5") and row["batch_size"] in ("1", "2", "32")]
    monkeypatch.setattr(papers, "ROWS", few)


def bench_papers(out: Path, *words: str) -> Any:
    """Run `bench papers` with two queries."""
    with mock.patch.dict(os.environ):
        os.environ.pop("CHEMSPEC_DATA", None)  # the built-in queries
        done = call("bench", "papers", "--out", out, "--limit", 2, "--seconds", 0.01, "--threads", 1, *words)
    assert done.exit_code == 0, done.output
    return done
