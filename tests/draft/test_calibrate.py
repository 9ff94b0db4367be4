"""Calibrating a model's drafters on training data, and the command that does it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers.command_line import call, last
from helpers.small import QUERIES, TOKENIZER, tiny_folder

from chemspec.data.arrays import Pairs, RaggedArray
from chemspec.draft.calibration import FILE
from chemspec.engine.engine import Engine
from chemspec.settings import DecodeSettings
from chemspec.train.fit_drafters import calibrate
from chemspec.train.settings import DrafterFitSettings

GREEDY = DecodeSettings(decoder="greedy", n=1)


def prepared(folder: Path, count: int = 60, *, validation: bool = True) -> Path:
    """Prepared data in which every answer is its query, backwards and forwards."""
    rng = np.random.default_rng(0)
    texts = [QUERIES[place] for place in rng.integers(0, len(QUERIES), count)]
    ids = RaggedArray.pack([TOKENIZER.encode(text) for text in texts])
    folder.mkdir()
    TOKENIZER.save(folder / "vocab.json")
    Pairs(ids, ids).save(folder / "train.npz")
    if validation:
        Pairs(ids, ids).save(folder / "val.npz")
    return folder


def test_calibrating_refuses_data_that_cannot_serve(tmp_path: Path) -> None:
    engine = Engine.load(tiny_folder(tmp_path / "tiny"), threads=1)
    few = prepared(tmp_path / "few", validation=False)
    with pytest.raises(ValueError, match="60 pairs, too few to hold out 1000; name validation_files in the recipe"):
        calibrate(engine, DrafterFitSettings(data_dir=few))
    for wrong in ({"pairs": -1}, {"queries": -1}, {"queries": 0}):  # -1 left out one of them
        with pytest.raises(ValueError, match=f"{next(iter(wrong))} is .*; it must be at least 1"):
            DrafterFitSettings(**wrong)
    other = prepared(tmp_path / "other")
    replace(TOKENIZER, tokens=TOKENIZER.tokens[:-1]).save(other / "vocab.json")  # of an earlier stage, whose ids agree
    calibrate(engine, DrafterFitSettings(data_dir=other))
    replace(TOKENIZER, tokens=(*TOKENIZER.tokens[:-2], *TOKENIZER.tokens[:-3:-1])).save(other / "vocab.json")
    with pytest.raises(ValueError, match="another vocabulary"):
        calibrate(engine, DrafterFitSettings(data_dir=other))


def test_the_command_learns_everything_and_writes_the_files(tmp_path: Path) -> None:
    model = tiny_folder(tmp_path / "tiny", sharpness=6.0, decoder_layers=2)
    words = ("--task", "retro", "--model", model, "--data", prepared(tmp_path / "data"), "--queries", 20)
    report = last(call("train", "calibrate", *words, "--threads", 1, "--json"))
    assert 0 < report["answers"] <= 20
    assert "--queries 20" in json.loads((model / FILE).read_text())["made"]
    engine = Engine.load(model, threads=1)
    knowledge = engine.resources.calibration()
    assert knowledge.edit_table is not None
    assert report["nodes"] == knowledge.edit_table.node_count >= 1
    assert len(knowledge.accept_rates) == 11
    plain, mixed = (engine.predict(QUERIES, replace(GREEDY, drafter=name)) for name in ("none", "mixed"))
    assert [one.hypotheses[0].tokens for one in plain] == [one.hypotheses[0].tokens for one in mixed]
