"""Distillation and the training of learned drafters: what they are trained on, that they learn, and that runs
resume."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.small import TOKENIZER, tiny_folder

from chemspec.data.arrays import Pairs, RaggedArray
from chemspec.engine.drafter_resources import install_drafter, trained_drafter
from chemspec.engine.engine import Engine
from chemspec.model import checkpoint
from chemspec.settings import DecodeSettings
from chemspec.system.locks import LockedError, lock_folder
from chemspec.testing import naive_greedy
from chemspec.tokenizer import SPECIALS, Tokenizer
from chemspec.train.checkpoints import read_checkpoint
from chemspec.train.distil import write_distilled_pairs
from chemspec.train.drafters import choose_revealed, train_drafter
from chemspec.train.recipe import DrafterRecipe, find_recipe
from chemspec.train.settings import DistilSettings

DISTIL = DistilSettings(pairs=0, max_len=24, batch_size=8)


def drafter_recipe(name: str) -> DrafterRecipe:
    recipe = find_recipe(name)
    assert isinstance(recipe, DrafterRecipe)
    return recipe


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_folder(tmp_path_factory.mktemp("m") / "tiny", seed=4)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Random sources, and targets that distillation has to replace."""
    out = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    sources = [rng.integers(len(SPECIALS), len(TOKENIZER), size=rng.integers(3, 9)).tolist() for _ in range(60)]
    Pairs(RaggedArray.pack(sources), RaggedArray.pack([[9]] * 60)).save(out / "train.npz")
    TOKENIZER.save(out / "vocab.json")
    return out


@pytest.fixture(scope="module")
def engine(folder: Path) -> Engine:
    return Engine.load(folder, threads=1, device="cpu", runtime="torch")


@pytest.fixture(scope="module")
def taught(engine: Engine, data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("distilled")
    assert write_distilled_pairs(engine, replace(DISTIL, data_dir=data, out=out))[0] == out / "train.npz"
    return out


# --- distillation --------------------------------------------------------------------------------------


def test_the_target_s_own_answers_are_written(folder: Path, taught: Path) -> None:
    pairs, model = Pairs.load(taught / "train.npz"), checkpoint.load(folder).model
    assert 10 < len(pairs) <= 60
    for number in range(0, len(pairs), 7):
        answer = naive_greedy(model, pairs.sources[number].tolist(), 24)
        assert answer.ended == "eos"
        assert answer.tokens[:-1] == tuple(pairs.targets[number].tolist())


def test_distillation_goes_on_where_it_was_stopped(
    engine: Engine, data: Path, taught: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chemspec.train.distil.PART", 20)
    settings = replace(DISTIL, data_dir=data, out=tmp_path)

    def stop(done: int, total: int) -> None:
        if done >= 40:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_distilled_pairs(engine, settings, progress=stop)
    asked: list[int] = []
    write = engine.generate_ids
    monkeypatch.setattr(Engine, "generate_ids", lambda _, given, how: asked.append(len(given)) or write(given, how))
    write_distilled_pairs(engine, settings)
    assert asked == [20]
    one, other = (Pairs.load(where / "train.npz") for where in (taught, tmp_path))
    assert one.targets.flat.tolist() == other.targets.flat.tolist()
    with lock_folder(settings.out), pytest.raises(LockedError, match="another process writes"):
        write_distilled_pairs(engine, settings)
    with pytest.raises(ValueError, match="another model, data or seed"):
        write_distilled_pairs(engine, replace(settings, seed=1))
    with pytest.raises(ValueError, match="pairs is -1; it must be at least 0"):
        replace(settings, pairs=-1)


def test_data_of_another_vocabulary_is_refused(engine: Engine, tmp_path: Path) -> None:
    Pairs(RaggedArray.pack([[4, 5]]), RaggedArray.pack([[4]])).save(tmp_path / "train.npz")
    Tokenizer((*SPECIALS, "N", "C")).save(tmp_path / "vocab.json")
    with pytest.raises(ValueError, match="another vocabulary"):
        write_distilled_pairs(engine, replace(DISTIL, data_dir=tmp_path, out=tmp_path / "o"))


# --- training ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["spec-drafter", "blockwise", "medusa"])
def test_a_drafter_learns_is_resumed_and_serves(folder: Path, taught: Path, tmp_path: Path, kind: str) -> None:
    own = tmp_path / "model"
    shutil.copytree(folder, own)
    recipe = drafter_recipe(f"retro-{kind}")
    settings = replace(recipe.train, tokens=600, lr=1e-2, warmup=2, steps=30, minutes=0, holdout=10, validate_every=10)
    recipe = replace(recipe, train=settings, glance=(0.5, 0.3))
    found = train_drafter(recipe, taught, own, tmp_path / "run")
    assert found == tmp_path / "run" / recipe.kind
    assert not (own / "drafters").exists()
    assert install_drafter(*trained_drafter(tmp_path / "run"), own) == checkpoint.drafter_folder(own, recipe.kind)
    lines = (tmp_path / "run" / "log.csv").read_text().splitlines()
    head = lines[0].split(",")
    rows = [dict(zip(head, line.split(","), strict=True)) for line in lines[1:]]
    losses = [float(row["loss"]) for row in rows if row["loss"]]
    assert losses[-1] < 0.9 * losses[0]
    checked = [row for row in rows if row["val_accepted"]]
    assert float(checked[-1]["val_accepted"]) >= 0
    assert all(0 < float(row["val_loss"]) < 1e3 for row in checked)  # not NaN
    assert json.loads((tmp_path / "run" / "settings.json").read_text())["kind"] == recipe.kind

    # From the checkpoint after ten steps to the very same weights.
    (tmp_path / "again" / "checkpoints").mkdir(parents=True)
    shutil.copy(tmp_path / "run" / "checkpoints" / "step=10.ckpt", tmp_path / "again" / "checkpoints" / "last.ckpt")
    train_drafter(recipe, taught, own, tmp_path / "again")
    whole, resumed = (
        read_checkpoint(tmp_path / run / "checkpoints" / "last.ckpt")["state_dict"] for run in ("run", "again")
    )
    assert all(torch.equal(weight, resumed[name]) for name, weight in whole.items())
    assert (tmp_path / "again" / recipe.kind / "config.json").is_file()
    other = tiny_folder(tmp_path / "other", seed=9)
    with pytest.raises(ValueError, match="was trained with target"):
        train_drafter(recipe, taught, other, tmp_path / "run")

    queries = ["CCO", "CC(=O)Nc1ccccc1"]
    engine = Engine.load(own, threads=1, device="cpu", runtime="torch")
    for decoder in ("greedy", "beam"):
        plain, drafted = (
            engine.predict(queries, DecodeSettings(decoder=decoder, n=2, drafter=name, max_len=20))
            for name in ("none", recipe.kind)
        )
        for one, other in zip(plain, drafted, strict=True):
            assert [item.tokens for item in one.hypotheses] == [item.tokens for item in other.hypotheses]


def test_glancing_shows_as_many_masks_as_the_share_of_wrong_guesses() -> None:
    torch.manual_seed(0)
    counted = torch.tensor([[[True] * 10, [True] * 6 + [False] * 4]])
    wrong = torch.tensor([[[True] * 8 + [False] * 2, [True] * 4 + [False] * 6]])
    shown = [choose_revealed(wrong, counted, 0.5) for _ in range(20)]
    for one in shown:
        assert one.sum(-1).tolist() == [[4, 2]]
        assert not (one & ~counted).any()
    assert any(not torch.equal(shown[0], one) for one in shown)  # at random
    assert not choose_revealed(wrong, counted, 0.0).any()


# --- recipes -------------------------------------------------------------------------------------------


def test_missing_data_names_the_command_and_a_target_of_the_other_task_is_refused(
    folder: Path, taught: Path, tmp_path: Path
) -> None:
    with pytest.raises(FileNotFoundError, match="chemspec train distil --task retro"):
        train_drafter(drafter_recipe("retro-spec-drafter"), tmp_path, folder, tmp_path / "run")
    with pytest.raises(ValueError, match="is a retro model"):
        train_drafter(drafter_recipe("forward-medusa"), taught, folder, tmp_path / "run")
