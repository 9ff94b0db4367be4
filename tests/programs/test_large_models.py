"""Grown models compute what the original does; random models are timed with lists that stay the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from helpers.compilers import needs_compiler
from programs.grown import SIZES, Size, grow, pegasus, write_grown
from programs.rejected_drafts import compare, write_random_decoder

from chemspec import asset_files
from chemspec.engine.engine import Engine
from chemspec.engine.registry import model_folder
from chemspec.model import checkpoint
from chemspec.settings import DecodeSettings
from chemspec.tokenizer import EOS

SMALL = Size(6, 4, 512, 8, 1536, "small enough for a test")


@pytest.mark.parametrize(
    "size",
    [
        SMALL,
        replace(SMALL, encoder_layers=5, decoder_layers=3),  # wider only
        replace(SMALL, d_model=768, heads=12),  # heads that are not copied equally often
    ],
)
def test_a_grown_model_computes_the_same(size: Size) -> None:
    model = checkpoint.load(model_folder("retro")).model
    grown = grow(model, size)
    random = torch.Generator().manual_seed(0)
    source, target = (torch.randint(EOS + 2, model.config.vocab_size, (2, 12), generator=random) for _ in range(2))
    ours, theirs = (each.double()(source, target).log_softmax(-1) for each in (model, grown))
    assert float((ours - theirs).abs().max()) < 1e-4
    assert sum(part.numel() for part in grown.parameters()) > 2 * sum(part.numel() for part in model.parameters())


@pytest.mark.parametrize(
    "size", [replace(SMALL, d_model=300), replace(SMALL, encoder_layers=2), replace(SMALL, d_model=256, heads=16)]
)
def test_sizes_that_are_no_multiples_are_refused(size: Size) -> None:
    with pytest.raises(ValueError, match="cannot grow"):
        grow(checkpoint.load(model_folder("retro")).model, size)


def test_a_model_of_the_same_size_has_the_same_weights() -> None:
    model = checkpoint.load(model_folder("retro")).model
    before, after = model.state_dict(), grow(model, SIZES["shipped"]).state_dict()
    assert all(torch.equal(weight, after[name]) for name, weight in before.items())


@needs_compiler
def test_a_grown_model_answers_and_drafts_as_the_original(tmp_path: Path) -> None:
    folder = write_grown("retro", SMALL, tmp_path / "grown")
    queries, settings = asset_files.bench_queries("retro")[:3], DecodeSettings(decoder="greedy", n=1, drafting="fixed")
    found = [
        Engine.load(name, threads=1, device="cpu").predict(queries, settings, drafter="mixed")
        for name in ("retro", folder)
    ]
    assert [[one.smiles for one in each.hypotheses] for each in found[0]] == [
        [one.smiles for one in each.hypotheses] for each in found[1]
    ]
    passes = [[len(each.trace.passes) for each in results] for results in found]
    assert passes[0] == passes[1]


def test_pegasus_has_the_same_log_probs() -> None:
    pytest.importorskip("transformers")
    model = checkpoint.load(model_folder("retro")).model
    source, target = torch.tensor([[20, 21, 22, 30, EOS]]), torch.tensor([[1, 20, 25, 31]])
    with torch.no_grad():
        theirs = pegasus(model)(input_ids=source, decoder_input_ids=target).logits.log_softmax(-1)
        ours = model(source, target).log_softmax(-1)
    assert float((ours - theirs)[..., EOS:].abs().max()) < 1e-3


@needs_compiler
def test_rejected_drafts_leave_lists_as_they_are(tmp_path: Path) -> None:
    engine = Engine.load(write_random_decoder(tmp_path / "random", ()), threads=1, device="cpu", dtype="int8")
    queries = asset_files.bench_queries("retro")[:3]
    row = compare(engine, queries, DecodeSettings(decoder="greedy", n=1, batch_size=1, max_len=20), 1)
    assert row["same lists"] and row["times as fast"] > 0.3
