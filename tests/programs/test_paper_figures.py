"""Scripts for figures of the papers: entropy, attention, memory and energy, and searches without a cache."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.small import QUERIES, TOKENIZER, tiny_folder
from programs import attention, drafter_shapes, entropy, footprint, uncached

from chemspec import asset_files
from chemspec.decode.beam import beam_search
from chemspec.decode.relaxed.sbs import speculative_beam_search
from chemspec.model import checkpoint
from chemspec.model.transformer import Transformer
from chemspec.settings import preset_config


def model_of(vocab: int) -> Transformer:
    torch.manual_seed(0)
    return Transformer(preset_config("tiny", vocab_size=vocab)).eval()


def test_a_model_that_knows_nothing_has_the_entropy_of_its_vocabulary() -> None:
    model = model_of(14)
    with torch.no_grad():
        model.output.weight.zero_()
    assert entropy.mean_entropy(model, [5, 6, 7], [6, 7, 2]) == pytest.approx(math.log(14), rel=1e-5)
    assert entropy.rank_correlation([1.0, 2.0, 9.0], [5.0, 4.0, -1.0]) == pytest.approx(-1)
    rows = [{"entropy": float(n), "copy": 9 - n, "mixed": n, "ar": n} for n in range(1, 9)]
    assert entropy.summary(rows)[1] == "copy | 7.50 | 5.50 | 3.50 | 1.50 | -1.00"


def test_the_masks_of_every_block_have_weights_over_the_query() -> None:
    weights = attention.drafter_attention(model_of(15), [5, 6, 7, 8], [9, 10, 11, 12, 2], block=2)
    assert weights.shape == (5, 4)
    np.testing.assert_allclose(weights.sum(-1), 1, rtol=1e-5)


def test_a_row_of_memory_and_energy_says_what_is_an_estimate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHEMSPEC_MODELS", str(tmp_path))
    tiny_folder(tmp_path / "retro", task="retro")
    monkeypatch.setattr(footprint, "bench_queries", lambda _: tuple(QUERIES))
    monkeypatch.setattr(footprint, "RAPL", tmp_path / "energy_uj")
    row = footprint.measure("retro", "mixed", 2, 3, watts=10, device="cpu")
    assert row["energy"] == "estimate: 10 W per busy core" and row["queries"] == 3
    assert row["peak_mb"] >= row["loaded_mb"] > 10 * row["model_mb"]
    assert row["joules_per_query"] == pytest.approx(row["processor_ms_per_query"] / 100, rel=0.1, abs=1e-3)
    (tmp_path / "energy_uj").write_text("5000000")
    assert footprint.measure("retro", "none", 2, 3, watts=10, device="cpu")["joules_per_query"] == 0
    assert asset_files.bench_answers("retro").keys() == set(asset_files.bench_queries("retro"))


def test_searches_without_a_cache_count_every_token(tmp_path: Path) -> None:
    model = checkpoint.load(tiny_folder(tmp_path / "retro", task="retro")).model
    source, size = TOKENIZER.encode(QUERIES[0]), {"width": 2, "max_len": 5}
    searches = beam_search(**size), speculative_beam_search(**size, drafts=lambda _: ())
    for passes, prefixes, tokens, _ in (uncached.decode(model, source, search, 3) for search in searches):
        assert 1 <= passes <= prefixes <= tokens and prefixes <= 1 + 2 * (passes - 1)


def test_shapes_of_drafters_are_timed_with_as_many_right_tokens_as_were_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHEMSPEC_MODELS", str(tmp_path))
    tiny_folder(tmp_path / "retro", task="retro")
    assert [shape.layers for shape in drafter_shapes.read_shapes() if not shape.is_counted] == ["12 + 2, width 256"]
    shapes = [
        drafter_shapes.Shape("deep", "2 + 1, width 32", accepted=0.0, drafted=2.0),
        drafter_shapes.Shape("heads", "3 heads", accepted=3.0, drafted=4.0),
        drafter_shapes.Shape("not trained", "1 + 1, width 64", 3.0, 4.0, is_counted=False),
    ]
    wrong, right, bare = drafter_shapes.measure(shapes, QUERIES[:2], repeats=1)
    assert float(wrong["passes"]) > 3.5 * float(right["passes"]) > 0 and bare["passes"] == bare["times"] == ""
    assert all(float(row[part]) > 0 for row in (wrong, right, bare) for part in ("t_d", "t_v"))
    assert drafter_shapes.scripted_draft([5, 6, 2], accepted=1, drafted=3)[0].tokens == (5, 2, 5)
