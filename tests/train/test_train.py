"""Tests of train/: it learns, it stops when told, and it goes on as if it had never stopped."""

from __future__ import annotations

import csv
import itertools
import json
import math
import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from chemspec.data.arrays import Pairs, RaggedArray, split_validation
from chemspec.model import checkpoint
from chemspec.model.transformer import Transformer
from chemspec.model.weights import CheckpointError
from chemspec.settings import ModelConfig, TrainSettings, preset_config
from chemspec.system.locks import LockedError, lock_folder
from chemspec.testing import naive_greedy
from chemspec.tokenizer import EOS, SPECIALS, Tokenizer
from chemspec.train import checkpoints, loop, optim, padded
from chemspec.train.average import average_checkpoints, average_models
from chemspec.train.checkpoints import latest_checkpoint
from chemspec.train.initial_weights import copy_initial_weights
from chemspec.train.log import TrainingLog
from chemspec.train.optim import Muon, learning_rate_share
from chemspec.train.recipe import model_recipe
from chemspec.train.run import exact_match, train_padded

TOKENIZER = Tokenizer((*SPECIALS, *"CNOSPFIBcn"))
CONFIG = preset_config("tiny", vocab_size=len(TOKENIZER))
SHORT = TrainSettings(lr=3e-3, tokens=200, steps=40, warmup=5, validate_every=20, keep=3, holdout=16, threads=1)


def some_pairs(count: int, seed: int = 0) -> Pairs:
    """Texts and their mirror images."""
    rng = np.random.default_rng(seed)
    texts = [rng.integers(4, 14, size=rng.integers(3, 9)).tolist() for _ in range(count)]
    return Pairs(RaggedArray.pack(texts), RaggedArray.pack([text[::-1] for text in texts]))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    some_pairs(48).save(folder / "train.npz")
    TOKENIZER.save(folder / "vocab.json")
    return folder


@pytest.fixture(scope="module")
def whole(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nothing has interrupted."""
    out = tmp_path_factory.mktemp("whole")
    fit(data, out)
    return out


def fit(data: Path, out: Path, settings: TrainSettings = SHORT, *, average_last: int = 1, **options: Any) -> Path:
    recipe = replace(model_recipe("retro-50k"), preset="tiny", train=settings, average_last=average_last)
    return train_padded(recipe, data, out, **{"resume": False, "exact": None, **options})


def weights(out: Path, name: str = "last") -> dict[str, torch.Tensor]:
    saved = torch.load(out / "checkpoints" / f"{name}.ckpt", weights_only=True)
    state: dict[str, torch.Tensor] = saved["state_dict"]
    return state


def equal(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def log(out: Path) -> list[dict[str, str]]:
    with (out / "log.csv").open(newline="") as file:
        return list(csv.DictReader(file))


# --- the schedule --------------------------------------------------------------------------------


def test_the_rate_rises_then_falls_to_zero() -> None:
    cosine = TrainSettings(warmup=10, steps=100)
    assert learning_rate_share(0, 0.0, cosine) == pytest.approx(0.1)
    assert learning_rate_share(4, 0.0, cosine) == pytest.approx(0.5)
    assert learning_rate_share(50, 0.5, cosine) == pytest.approx(0.5)
    assert learning_rate_share(100, 1.0, cosine) == pytest.approx(0)
    assert learning_rate_share(200, 2.0, cosine) == pytest.approx(0)
    assert learning_rate_share(0, 0.0, replace(cosine, warmup=0)) == 1.0
    assert [learning_rate_share(9, at, replace(cosine, hold=0.5)) for at in (0.5, 1.0)] == pytest.approx([1, 0])
    assert learning_rate_share(9, 0.75, replace(cosine, hold=0.5)) == pytest.approx(0.5)
    root = replace(cosine, schedule="inverse-sqrt")
    assert learning_rate_share(4, 0.0, root) == pytest.approx(0.5)
    assert learning_rate_share(9, 0.0, root) == 1.0
    assert learning_rate_share(39, 1.0, root) == pytest.approx(0.5)
    assert learning_rate_share(999, 9.0, root) == pytest.approx(0.1)


# --- learning ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("optimizer", "lr", "steps"), [("muon", 2e-2, 100), ("adamw", 1e-2, 160)])
def test_a_small_set_is_learnt_by_heart(tmp_path: Path, optimizer: Any, lr: float, steps: int) -> None:
    pairs = some_pairs(32)
    for name in ("train", "val"):
        pairs.save(tmp_path / f"{name}.npz")
    TOKENIZER.save(tmp_path / "vocab.json")
    settings = replace(SHORT, optimizer=optimizer, lr=lr, steps=steps, validate_every=steps, tokens=700)
    model = fit(tmp_path, tmp_path / "run", settings, exact=exact_match)
    last = log(tmp_path / "run")[-1]
    assert float(last["val_loss"]) < 0.1
    assert float(last["val_exact"]) > 0.9
    # Shipped in bfloat16, it has not forgotten.
    assert exact_match(checkpoint.load(model).model, pairs) > 0.9


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.bfloat16, 2e-3), (torch.float32, 0.02)])
def test_muon_steps_as_torchs_own(dtype: torch.dtype, tolerance: float) -> None:
    """Against `torch.optim.Muon`, which knows bf16 only, relative to the way that the weights have gone."""
    noise = torch.Generator().manual_seed(0)
    starts = [torch.randn(shape, generator=noise) for shape in ((96, 32), (32, 96), (32, 32))]
    ours, theirs = ([nn.Parameter(w.clone()) for w in starts] for _ in range(2))
    mine = Muon(ours, lr=1e-2, weight_decay=0.1, dtype=dtype)
    yours = torch.optim.Muon(theirs, lr=1e-2, weight_decay=0.1, adjust_lr_fn="match_rms_adamw")
    for _ in range(4):
        for one, other in zip(ours, theirs, strict=True):
            one.grad = torch.randn(one.shape, generator=noise)
            other.grad = one.grad.clone()
        mine.step()
        yours.step()
    for one, other, start in zip(ours, theirs, starts, strict=True):
        assert (one - other).norm() < tolerance * (other - start).norm()


@pytest.mark.parametrize("native", [False, True])
def test_without_bf16_products_training_is_in_fp32(
    data: Path, tmp_path: Path, native: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": native}, raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    seen, matmul, orthogonalise = [], torch.matmul, optim.orthogonalise
    monkeypatch.setattr(torch, "matmul", lambda a, b: seen.append(a.dtype) or matmul(a, b))
    monkeypatch.setattr(optim, "orthogonalise", lambda x, dtype: seen.append(dtype) or orthogonalise(x, dtype))
    fit(data, tmp_path / "run", replace(SHORT, steps=2))
    assert set(seen) == {torch.bfloat16 if native else torch.float32}


@pytest.mark.parametrize(("optimizer", "dropout"), [("muon", 0.0), ("adamw", 0.2)])
def test_a_resumed_run_ends_with_the_very_same_weights(
    data: Path, tmp_path: Path, optimizer: Any, dropout: float
) -> None:
    settings = replace(SHORT, optimizer=optimizer, dropout=dropout, label_smoothing=dropout)
    fit(data, tmp_path / "one", settings, exact=exact_match)
    (tmp_path / "two" / "checkpoints").mkdir(parents=True)
    shutil.copy(tmp_path / "one" / "checkpoints" / "step=20.ckpt", tmp_path / "two" / "checkpoints" / "last.ckpt")
    fit(data, tmp_path / "two", settings, resume=True, exact=exact_match)
    assert equal(weights(tmp_path / "one"), weights(tmp_path / "two"))
    assert not equal(weights(tmp_path / "one"), weights(tmp_path / "one", "step=20"))
    assert [row["step"] for row in log(tmp_path / "two")] == ["40", "40"]


# --- stopping ------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_writes_a_checkpoint_from_which_the_run_goes_on(
    data: Path, tmp_path: Path, whole: Path, number: signal.Signals
) -> None:
    before = signal.getsignal(number)

    def interrupt(*_: Any) -> float:
        os.kill(os.getpid(), number)
        return 0.0

    out = tmp_path / "broken"
    with pytest.raises(KeyboardInterrupt, match=r"stopped after step 21; .*last\.ckpt resumes it"):
        fit(data, out, exact=interrupt)
    assert signal.getsignal(number) == before
    assert not (out / "model").exists()
    fit(data, out, resume=True, exact=lambda *_: 0.0)
    assert equal(weights(whole), weights(out))
    assert [row["step"] for row in log(out)] == ["20", "20", "40", "40"]
    assert (out / "model" / "model.safetensors").exists()


def test_a_crash_between_two_validations_costs_little(
    data: Path, tmp_path: Path, whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, step, taken = tmp_path / "broken", padded.PaddedTrainee.take_step, itertools.count()

    def crash(self: Any, *args: Any) -> Any:
        if next(taken) == 13:
            raise MemoryError("the machine is gone")
        return step(self, *args)

    monkeypatch.setattr(loop, "SAVE_EVERY", 0.0)
    with monkeypatch.context() as patch:
        patch.setattr(padded.PaddedTrainee, "take_step", crash)
        with pytest.raises(MemoryError, match="gone"):
            fit(data, out)
    last = out / "checkpoints" / "last.ckpt"
    assert torch.load(last, weights_only=True)["global_step"] == 13
    fit(data, out, resume=True)
    assert equal(weights(whole), weights(out))


def test_a_second_ctrl_c_ends_it_at_once(data: Path, tmp_path: Path) -> None:
    ended = []

    def interrupt(*_: Any) -> float:
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)
        ended.append("the validation, after the second")
        return 0.0

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        fit(data, tmp_path / "run", exact=interrupt)
    assert not ended and signal.getsignal(signal.SIGINT) == before


def test_minutes_end_a_run_and_the_rate_is_zero_by_then(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = itertools.count()
    monkeypatch.setattr(loop, "time", SimpleNamespace(monotonic=lambda: 0.004 * next(ticks)))
    settings = replace(SHORT, steps=10**6, minutes=0.02, validate_every=10**6)
    model = fit(data, tmp_path / "run", settings)
    rows = [row for row in log(tmp_path / "run") if row["loss"]]
    assert 1.2 <= float(rows[-1]["seconds"]) < 1.3
    assert float(rows[-1]["lr"]) < 0.05 * SHORT.lr
    assert 20 < int(rows[-1]["step"]) < 10**6
    assert checkpoint.load(model).task == "retro"


def test_a_full_disk_is_reported_with_a_remedy_and_spoils_no_checkpoint(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save, calls = torch.save, []

    def fill(value: Any, file: Any) -> None:
        calls.append(file)
        if len(calls) > 2:
            file.write(b"half a checkp")
            raise RuntimeError("PytorchStreamWriter failed writing file data/3: file write failed")
        save(value, file)

    monkeypatch.setattr(checkpoints.torch, "save", fill)
    with pytest.raises(OSError, match=r"step=40\.ckpt could not be written .* is the disk full"):
        fit(data, tmp_path / "run")
    monkeypatch.undo()
    files = {file.name for file in (tmp_path / "run" / "checkpoints").iterdir()}
    assert files == {"step=20.ckpt", "last.ckpt"}
    fit(data, tmp_path / "run", resume=True)


def test_a_loss_that_is_no_number_ends_the_run(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "learning_rate_share", lambda *_: float("nan"))
    with pytest.raises(FloatingPointError, match="the loss is nan at step 20; lower lr"):
        fit(data, tmp_path / "run")


# --- what it writes and says -----------------------------------------------------------------------


def test_the_log_holds_what_a_user_wants_to_know(data: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    fit(data, out, replace(SHORT, validate_every=10), exact=lambda *_: 0.25)
    rows = log(out)
    assert tuple(rows[0]) == TrainingLog.COLUMNS
    assert [int(row["step"]) for row in rows] == [10, 10, 20, 20, 30, 30, 40, 40]
    trained, checked = rows[::2], rows[1::2]
    for row in trained:
        assert float(row["lr"]) > 0
        assert float(row["loss"]) > 0
        assert float(row["tokens_per_second"]) > 0
        assert not row["val_loss"]
    for row in checked:
        assert float(row["val_loss"]) > 0
        assert row["val_exact"] == "0.25"
    seconds = [float(row["seconds"]) for row in rows]
    assert seconds == sorted(seconds)
    assert capfd.readouterr() == ("", "")  # no advertisements, no warnings
    description = json.loads((out / "settings.json").read_text())
    assert description["task"] == "retro"
    assert ModelConfig.from_json(description["model"]) == CONFIG
    assert len(list((out / "checkpoints").glob("step=*.ckpt"))) == SHORT.keep


# --- averaging -----------------------------------------------------------------------------------


def test_averaging_is_the_arithmetic_mean(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    model = fit(data, out, replace(SHORT, validate_every=10), average_last=3)
    files = [out / "checkpoints" / f"step={step}.ckpt" for step in (20, 30, 40)]
    mean = average_checkpoints(files)
    states = [weights(out, file.stem) for file in files]
    for name, tensor in mean.items():
        wanted = sum(state[f"model.{name}"].double() for state in states) / 3
        assert torch.allclose(tensor.double(), wanted, rtol=1e-6, atol=1e-7)
    # The step at which it ended was saved under two names, but counts once.
    shipped = checkpoint.load(model).model.state_dict()
    for name, tensor in shipped.items():
        wanted = mean[name].bfloat16().float() if tensor.ndim > 1 else mean[name]
        assert torch.equal(tensor, wanted), name
    one = average_checkpoints([files[2]])
    assert all(torch.equal(one[name], states[2][f"model.{name}"]) for name in one)


# --- mistakes that are told before the training, not after it ------------------------------------


def test_a_run_is_resumed_only_with_its_data_and_the_settings_that_order_its_batches(
    data: Path, tmp_path: Path
) -> None:
    fit(data, tmp_path / "run", replace(SHORT, steps=20))
    with pytest.raises(ValueError, match="was trained with tokens 200, not 300; choose another folder"):
        fit(data, tmp_path / "run", replace(SHORT, tokens=300), resume=True)
    shutil.copytree(data, tmp_path / "other")
    some_pairs(47).save(tmp_path / "other" / "train.npz")
    with pytest.raises(ValueError, match=r"was trained with data .*; choose another folder"):
        fit(tmp_path / "other", tmp_path / "run", replace(SHORT, steps=24), resume=True)
    fit(data, tmp_path / "run", replace(SHORT, steps=20), resume=True)  # nothing left to do
    (tmp_path / "run" / "checkpoints" / "last.ckpt").write_bytes(b"junk")
    with pytest.raises(ValueError, match=r"last\.ckpt is not a training checkpoint"):
        fit(data, tmp_path / "run", resume=True)


def test_the_data_must_fit_the_model(data: Path, tmp_path: Path) -> None:
    other = tmp_path / "data"
    shutil.copytree(data, other)
    for source, message in (([99], "has token 99"), ([4] * 1023, "max_positions")):
        Pairs(RaggedArray.pack([source] * 20), some_pairs(20).targets).save(other / "val.npz")
        with pytest.raises(ValueError, match=message):
            fit(other, tmp_path / "run")
    (other / "vocab.json").unlink()
    with pytest.raises(FileNotFoundError, match=r"vocab\.json"):
        fit(other, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def saved_start(
    folder: Path, config: ModelConfig = CONFIG, tokenizer: Tokenizer = TOKENIZER
) -> dict[str, torch.Tensor]:
    """The weights of a model that is saved in a folder to start from."""
    checkpoint.save(folder, Transformer(config), tokenizer, task="retro")
    return checkpoint.load(folder).model.state_dict()


def started(folder: Path, config: ModelConfig = CONFIG, seed: int = 0) -> dict[str, torch.Tensor]:
    """The weights of a model that starts from the one in a folder."""
    torch.manual_seed(seed)
    model = Transformer(config)
    copy_initial_weights(model, folder, TOKENIZER)
    return model.state_dict()


def test_a_run_begins_with_its_start(data: Path, tmp_path: Path) -> None:
    first = saved_start(tmp_path / "start")
    fit(data, tmp_path / "run", replace(SHORT, steps=1, lr=0.0), start=tmp_path / "start")
    assert equal({f"model.{name}": tensor for name, tensor in first.items()}, weights(tmp_path / "run"))


def test_a_start_must_have_the_same_vocabulary_and_architecture(tmp_path: Path) -> None:
    saved_start(tmp_path / "mixed", tokenizer=Tokenizer((*SPECIALS, *"NCOSPFIBcn")))
    with pytest.raises(ValueError, match="another vocabulary"):
        started(tmp_path / "mixed")
    for number, (small, changes) in enumerate(
        (
            ({"feedforward": 2 * CONFIG.feedforward}, {"feedforward": CONFIG.feedforward}),
            ({"norm_first": False}, {"decoder_layers": 2}),  # which would change it
            ({"gated": True}, {"feedforward": 160}),
        )
    ):
        config = replace(CONFIG, **small)  # type: ignore[arg-type]
        saved_start(tmp_path / f"{number}", config)
        with pytest.raises(ValueError, match="another architecture"):
            started(tmp_path / f"{number}", replace(config, **changes))  # type: ignore[arg-type]


def test_a_start_may_know_fewer_tokens(tmp_path: Path) -> None:
    """What it knows stays, and new tokens differ from each other, near the mean, and are never the likeliest."""
    fewer = Tokenizer(TOKENIZER.tokens[:-3])
    first = saved_start(tmp_path / "fewer", replace(CONFIG, vocab_size=len(fewer)), fewer)
    state = started(tmp_path / "fewer")
    longer = {name for name, tensor in first.items() if state[name].shape != tensor.shape}
    assert longer == {"embedding.weight", "output.weight", "output.bias"}
    assert all(torch.equal(state[name][: len(tensor)], tensor) for name, tensor in first.items())
    table, known = state["embedding.weight"], len(fewer)
    mean = table[len(SPECIALS) : known].mean(0)
    new, old = (table[known:] - mean).norm(dim=1), (table[len(SPECIALS) : known] - mean).norm(dim=1)
    assert 0.1 * old.mean() < new.mean() < old.mean()
    assert not torch.equal(table[-1], table[-2])
    assert state["output.bias"][known:].max() <= state["output.bias"][len(SPECIALS) : known].min()
    # With another seed too, for the mean of two runs is of use only if they have begun alike.
    assert torch.equal(started(tmp_path / "fewer", seed=9)["embedding.weight"], table)


def test_merged_tokens_begin_as_the_mean_of_their_parts(tmp_path: Path) -> None:
    first = saved_start(tmp_path / "atoms")
    merged = TOKENIZER.with_merges([("C", "C"), ("CC", "O")])
    model = Transformer(replace(CONFIG, vocab_size=len(merged)))
    copy_initial_weights(model, tmp_path / "atoms", merged)
    state, (c, o) = model.state_dict(), TOKENIZER.encode("CO")
    assert torch.equal(state["embedding.weight"][: len(TOKENIZER)], first["embedding.weight"])
    expected = (2 * first["embedding.weight"][c] + first["embedding.weight"][o]) / 3 * 3**0.25
    assert torch.allclose(state["embedding.weight"][-1], expected)
    assert torch.equal(state["output.bias"][-1], first["output.bias"][c])


def test_a_start_may_be_deeper(tmp_path: Path) -> None:
    """A medium drafter begins with the first layers of its target."""
    first = saved_start(tmp_path / "deep", replace(CONFIG, encoder_layers=2, decoder_layers=3))
    with pytest.warns(UserWarning, match="has 2 encoder and 3 decoder layers and the preset 1 encoder and 1 decoder"):
        state = started(tmp_path / "deep")
    assert all(torch.equal(tensor, first[name]) for name, tensor in state.items()) and len(state) < len(first)


@pytest.mark.parametrize("changes", [{"feedforward": 160}, {"encoder_layers": 3, "decoder_layers": 2}])
def test_a_wider_or_deeper_model_begins_with_the_same_scores(changes: dict[str, int], tmp_path: Path) -> None:
    saved_start(tmp_path / "small")
    small = checkpoint.load(tmp_path / "small").model
    grown = Transformer(replace(CONFIG, **changes))
    copy_initial_weights(grown, tmp_path / "small", TOKENIZER)
    source, target = torch.randint(4, len(TOKENIZER), (2, 9)), torch.randint(4, len(TOKENIZER), (2, 7))
    with torch.no_grad():
        assert torch.allclose(grown.eval()(source, target), small.eval()(source, target), atol=1e-5)
    assert sum(part.numel() for part in grown.parameters()) > sum(part.numel() for part in small.parameters())


def test_held_out_pairs_are_the_last_ones_unless_there_is_a_file(data: Path, tmp_path: Path) -> None:
    pairs, held = split_validation(data, 16)
    assert (len(pairs), len(held)) == (32, 16)
    whole = some_pairs(48)
    assert [held.sources[0].tolist(), held.targets[15].tolist()] == [
        whole.sources[32].tolist(),
        whole.targets[47].tolist(),
    ]
    assert len(pairs.part(0, 5)) == 5
    assert len(pairs.part(0, 99)) == 32
    for holdout, message in ((48, "too few to hold out 48"), (0, "must be at least 1")):
        with pytest.raises(ValueError, match=message):
            split_validation(data, holdout)
    shutil.copytree(data, tmp_path / "data")
    some_pairs(7).save(tmp_path / "data" / "val.npz")
    assert [len(part) for part in split_validation(tmp_path / "data", 0)] == [48, 7]


# --- exact match ---------------------------------------------------------------------------------


@pytest.mark.parametrize("specials", [False, True])
def test_exact_match_counts_what_plain_greedy_decoding_gets_right(specials: bool) -> None:
    torch.manual_seed(3)
    model = Transformer(replace(CONFIG, source_specials=specials)).double().train()
    pairs = some_pairs(40, seed=9)
    answers = [naive_greedy(model.eval(), list(map(int, pairs.sources[i])), 12).tokens for i in range(40)]
    # Half of the targets are what the model says, if it comes to an end at all, half are not.
    targets = [
        answer[:-1] if index % 2 and answer[-1] == EOS and len(answer) > 1 else [4, 5, 6]
        for index, answer in enumerate(answers)
    ]
    wanted = [answers[i][: len(t) + 1] == (*t, EOS) for i, t in enumerate(targets)]
    model.train()
    found = exact_match(model, Pairs(pairs.sources, RaggedArray.pack(targets)))
    assert found == sum(wanted) / 40
    assert model.training
    model.eval()
    exact_match(model, pairs.part(0, 1))
    assert not model.training


# --- recipes -------------------------------------------------------------------------------------


def test_a_recipe_is_run_and_resumed(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    item = replace(model_recipe("retro-50k"), preset="tiny", train=SHORT)
    out = tmp_path / "run"
    folder = train_padded(replace(item, train=replace(item.train, steps=20)), data, out)
    assert checkpoint.load(folder).task == "retro"
    train_padded(item, data, out)
    steps = [int(row["step"]) for row in log(out)]
    assert steps == [20, 20, 40, 40]
    assert not math.isnan(float(log(out)[-1]["val_exact"]))
    with pytest.raises(FileExistsError, match="already contains a training run; resume it from"):
        train_padded(item, data, out, resume=False)
    with pytest.raises(FileNotFoundError, match="chemspec data` and the same --recipe"):
        train_padded(item, tmp_path, out)


def test_two_runs_do_not_share_a_folder(data: Path, tmp_path: Path) -> None:
    with lock_folder(tmp_path), pytest.raises(LockedError, match=f"another process writes to {tmp_path}"):
        fit(data, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [".lock"]


# --- what only a GPU would show ----------------------------------------------------------------------


def test_the_validation_loss_is_the_mean_over_tokens(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    fit(data, out, replace(SHORT, steps=20))
    training = padded.Training(Transformer(CONFIG), SHORT)
    training.load_state_dict(weights(out))
    training.eval()
    _, held = split_validation(data, SHORT.holdout)
    with torch.no_grad():
        losses = [(training.loss(held.batch([k])), len(held.targets[k]) + 1) for k in range(len(held))]
    mean = sum(float(loss) * count for loss, count in losses) / sum(count for _, count in losses)
    logged = [float(row["val_loss"]) for row in log(out) if row["val_loss"]]
    assert logged[-1] == pytest.approx(mean, rel=0.02)  # bf16


def test_a_recipe_that_goes_on_wants_a_start(data: Path, tmp_path: Path) -> None:
    item = replace(model_recipe("retro-all"), preset="tiny", average_last=1, train=replace(SHORT, steps=4))
    with pytest.raises(ValueError, match=r"continues training the model of retro-50k; .*--start"):
        train_padded(item, data, tmp_path / "run")
    start = fit(data, tmp_path / "first", replace(SHORT, steps=4))
    assert train_padded(item, data, tmp_path / "run", start=start).is_dir()


# --- what a kill leaves --------------------------------------------------------------------------


def test_a_run_killed_before_its_last_checkpoint_goes_on_from_the_numbered_one(
    data: Path, tmp_path: Path, whole: Path
) -> None:
    assert latest_checkpoint(tmp_path / "run") is None
    shutil.copytree(whole, tmp_path / "run")
    folder = tmp_path / "run" / "checkpoints"
    for file in [folder / "last.ckpt", *folder.glob("step=40*")]:
        file.unlink()
    (folder / "last.ckpt.partial").write_bytes(b"half")
    found = latest_checkpoint(tmp_path / "run")
    assert found == folder / "step=20.ckpt"
    with (tmp_path / "run" / "log.csv").open("a") as torn:
        torn.write("4")  # of a disk that is full
    fit(data, tmp_path / "run", resume=True)
    assert equal(weights(tmp_path / "run"), weights(whole))
    assert [row["step"] for row in log(tmp_path / "run")] == [row["step"] for row in log(whole)]


def test_the_mean_of_two_stages_is_a_model(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("one", "other")]
    models = [Transformer(CONFIG) for _ in folders]
    for folder, model in zip(folders, models, strict=True):
        checkpoint.save(folder, model, TOKENIZER, task="retro", half=False)
    found = checkpoint.load(average_models(folders, tmp_path / "mean"))
    assert found.task == "retro" and found.tokenizer.tokens == TOKENIZER.tokens
    first, second = (model.state_dict() for model in models)
    for name, tensor in found.model.state_dict().items():
        torch.testing.assert_close(tensor, (first[name] + second[name]) / 2, rtol=2**-8, atol=0)  # bf16
    checkpoint.save(folders[1], models[1], Tokenizer((*SPECIALS, *"cnBIFPSONC")), task="retro")
    with pytest.raises(CheckpointError, match="another task, architecture or vocabulary"):
        average_models(folders, tmp_path / "none")
    assert not (tmp_path / "none").exists()
