"""Every way in gives the forward check's same verdict on each answer."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("streamlit")
pytest.importorskip("fastapi")
pytest.importorskip("syntheseus")

from helpers import verdicts

from chemspec.engine.registry import installed_models

N = 2  # answers to each query


@pytest.mark.slow  # 20 queries on the shipped models, by six ways in: some 10 s
@pytest.mark.skipif(
    not {"forward", "retro", "reagents"} <= {folder.name for folder in installed_models()}, reason="no models"
)
def test_every_way_in_gives_one_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHEMSPEC_HOME", str(tmp_path))
    engines = verdicts.load_models()
    queries = verdicts.built_in_queries(20)
    results = engines["retro"].predict(queries, verdicts.settings(N))
    found = {name: way(engines, results, N) for name, way in verdicts.WAYS.items()}
    library = found["library"]
    assert len(library) > 1.5 * len(queries) and set(library.values()) >= {"agrees", "differs"}
    for name, given in found.items():
        assert len(given) >= len(queries), f"{name} gave too few verdicts"
        assert given.items() <= library.items(), name
