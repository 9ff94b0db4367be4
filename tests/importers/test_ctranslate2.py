"""Folders of CTranslate2: read without it, they give the log-probs that it computes from them."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from opponent import convert
from small import TOKENIZER

from chemspec.engine.engine import Engine
from chemspec.importers import registry
from chemspec.importers.base import LoadOptions
from chemspec.model.checkpoint import CheckpointError
from chemspec.model.runtime import RuntimeConfig
from chemspec.model.session import Session
from chemspec.settings import DecodeSettings
from chemspec.testing import tiny_model
from chemspec.tokenizer import BOS, EOS

ctranslate2 = pytest.importorskip("ctranslate2")

SHAPE: dict[str, Any] = {"d_model": 32, "heads": 4, "feedforward": 48, "max_positions": 128}
VARIANTS: dict[str, dict[str, Any]] = {
    "pre": {},
    "post": {"norm_first": False, "scale_embedding": False, "source_specials": True},
    "bare": {"final_norms": False, "activation": "gelu", "shared_embedding": False, "output_bias": False},
    "tied": {"tied_output": True, "layer_norm_eps": 1e-3, "encoder_layers": 3},
}


def folder_of(folder: Path, variant: str, quantization: str | None = None) -> Path:
    model = tiny_model(0, len(TOKENIZER), **SHAPE, **VARIANTS[variant]).float()
    return convert(model, TOKENIZER, folder / "ct2", quantization=quantization)


@pytest.mark.parametrize("variant", sorted(VARIANTS))
@pytest.mark.parametrize("quantization", [None, "int8", "int16", "float16", "bfloat16"])
def test_log_probs_are_those_of_ctranslate2(variant: str, quantization: str | None, tmp_path: Path) -> None:
    folder, rng = folder_of(tmp_path, variant, quantization), random.Random(0)
    program = ctranslate2.Translator(str(folder), device="cpu", compute_type="float32", intra_threads=1)
    loaded = registry.load(folder, LoadOptions("forward"))
    assert loaded.details["format"] == "CTranslate2"
    tokens = loaded.tokenizer.tokens
    for runtime in ("auto", "torch"):
        backend, _ = loaded.backend(RuntimeConfig("cpu", "fp32", runtime, 1))
        for _ in range(3):
            source, text = ([rng.randrange(4, len(tokens)) for _ in range(rng.randint(1, 20))] for _ in range(2))
            (theirs,) = program.score_batch([[tokens[one] for one in source]], [[tokens[one] for one in text]])
            path = (BOS, *text)
            scores = Session(backend, [source], top_k=len(tokens)).score([[path]])[0]
            for place, (token, wanted) in enumerate(zip((*text, EOS), theirs.log_probs, strict=True), 1):
                found = dict(zip(*scores[path[:place]], strict=True))
                assert found[token] == pytest.approx(wanted, abs=1e-4)


def test_an_imported_folder_answers_with_and_without_drafts(tmp_path: Path) -> None:
    engine = Engine.load(folder_of(tmp_path, "pre"), task="retro", device="cpu", threads=1)
    plain, drafted = (
        engine.predict(["CCO", "CC(=O)O"], DecodeSettings(n=3, max_len=12, drafter=drafter))
        for drafter in ("none", "copy")
    )
    assert [one.hypotheses for one in plain] == [one.hypotheses for one in drafted]
    assert "assumed to be" not in " ".join(plain[0].notes)


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "pre")
    whole = (folder / "model.bin").read_bytes()
    told = json.loads((folder / "config.json").read_text())

    def refused(message: str) -> None:
        with pytest.raises(CheckpointError, match=message):
            registry.load(folder, LoadOptions("forward"))
        (folder / "model.bin").write_bytes(whole)
        (folder / "config.json").write_text(json.dumps(told))

    for length in (40, 2000, len(whole) // 2, len(whole) - 3):
        (folder / "model.bin").write_bytes(whole[:length])
        refused("cut off|damaged|lacks")
    (folder / "model.bin").write_bytes(whole.replace(b"decoder/alibi\0", b"decoder/alien\0"))
    refused("it has decoder/alien, which chemspec does not compute")
    (folder / "model.bin").write_bytes(whole.replace(b"decoder/position_encodings/encodings", b"x" * 36))
    refused("no table of positions")
    (folder / "config.json").write_text(json.dumps({**told, "decoder_start_token": "<eos>"}))
    refused("start with '<eos>'")
    (folder / "shared_vocabulary.json").write_text('["C"]')
    refused("vocabulary has no")
    (folder / "shared_vocabulary.json").unlink()
    refused("has none of shared_vocabulary.json")


def test_other_folders_are_left_to_others(tmp_path: Path) -> None:
    from chemspec.importers import ctranslate2 as importer

    assert not importer.recognises(tmp_path) and not importer.recognises(tmp_path / "nowhere")
    (tmp_path / "model.bin").write_bytes(b"\x06\0\0\0\x0c\0WhisperSpec\0")
    assert not importer.recognises(tmp_path)
