"""Published architectures: each is written in its program's format and read back; what is measured is counted right."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from chemspec.bench import full_size, peers
from chemspec.cli import app
from chemspec.importers import registry
from chemspec.model.transformer import Transformer

SMILES = (*"CNOSFIPBcnosp()=#-123456./\\", "Cl", "Br", "[nH]", "[C@H]", "[C@@H]", "[O-]", "[N+]", "[N-]")


class Here:
    """A pool whose only process is this one."""

    def __init__(self, **_: Any) -> None: ...

    def __enter__(self) -> Here:
        return self

    def __exit__(self, *_: object) -> None: ...

    def submit(self, call: Callable[..., Any], *words: Any) -> Any:
        found = call(*words)
        return type("Done", (), {"result": lambda _: found})()


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """Make all networks small, and tell which sizes were asked for."""
    asked = []
    network = full_size._network

    def smaller(tokens: int, *size: int, **options: Any) -> Transformer:
        asked.append(size)
        return network(tokens, 32, 1, 4, 48, **options)

    monkeypatch.setattr(full_size, "_network", smaller)
    monkeypatch.setattr(full_size, "ProcessPoolExecutor", Here)
    return asked


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("molecular-transformer", (256, 4, 8, 2048)),
        ("r-smiles", (512, 6, 8, 2048)),
        ("chemformer", (512, 6, 8, 2048)),
        ("chemformer-large", (1024, 8, 16, 4096)),
    ],
)
def test_an_architecture_is_written_and_read_as_published(
    name: str, size: tuple[int, ...], small: list[tuple[int, ...]], tmp_path: Path
) -> None:
    path = full_size.ARCHITECTURES[name].write(tmp_path, SMILES)
    assert small == [size]
    loaded = registry.load(path)
    assert set(SMILES) <= set(loaded.tokenizer.tokens)


def test_programs_are_measured_on_the_same_answers(
    small: list[tuple[int, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = [0]

    def answer(ids: tuple[int, ...], width: int) -> list[str]:
        assert ids and width == 1
        calls[0] += 3
        return ["something else"]

    monkeypatch.setitem(peers.PEERS, "chemformer", lambda *_: peers.Peer("slow", "1", answer, lambda: calls[0]))
    found = full_size.run("chemformer", SMILES, queries=2, length=11)
    assert 0 < found["file_mb"] < 5 and found["load_s"] > 0 and found["most_mb"] > found["held_mb"]
    standard, speculative, slow = found["programs"]
    assert (standard["program"], standard["same"], standard["queries"]) == ("standard", 2, 2)
    assert (speculative["program"], speculative["same"]) == ("speculative", 2)
    assert (slow["program"], slow["passes"], slow["same"]) == ("slow 1", 3.0, 0)
    assert standard["passes"] > 2 * speculative["passes"]
    assert "| slow 1 | 3 |" in full_size.table([found])


def test_a_program_that_is_missing_is_named(small: list[tuple[int, ...]], monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: Any) -> None:
        raise ModuleNotFoundError("molbart cannot be imported")

    monkeypatch.setitem(peers.PEERS, "chemformer", missing)
    done = CliRunner().invoke(app, ["dev", "full-size", "chemformer", "--limit", "1", "--length", "5"])
    document = json.loads(done.stdout.splitlines()[-1])
    assert document["rows"][0]["programs"][-1] == {"program": "chemformer", "missing": "molbart cannot be imported"}
    assert "| chemformer | not installed |" in done.stdout


def test_an_unknown_architecture_is_refused() -> None:
    done = CliRunner().invoke(app, ["dev", "full-size", "chemformer", "gpt"])
    assert done.exit_code == 2
    assert "there are molecular-transformer" in " ".join(done.stderr.split())
