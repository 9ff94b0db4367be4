"""The training loop, on Lightning: batches in, checkpoints and a CSV log out. Needs no RDKit."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import lightning
import torch
from lightning.pytorch.callbacks import Callback, ModelCheckpoint, TQDMProgressBar
from lightning.pytorch.loggers import CSVLogger
from torch import Tensor
from torch.nn import functional as F
from torch.utils.data import DataLoader

from chemspec.data.arrays import Batch, Pairs, Ragged, TokenBatches
from chemspec.model import checkpoint
from chemspec.model.transformer import Transformer
from chemspec.settings import ModelConfig, Task, TrainSettings
from chemspec.tokenizer import PAD, Tokenizer
from chemspec.train import optim


def rate(step: int, progress: float, settings: TrainSettings) -> float:
    """The learning rate as a share of its peak, at `step` with `progress` (0 to 1) of the run behind us."""
    warm = min(1.0, (step + 1) / max(1, settings.warmup))
    if settings.schedule == "inverse-sqrt":
        return warm * math.sqrt(max(1, settings.warmup) / max(step + 1, settings.warmup, 1))
    return warm * 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))


class Training(lightning.LightningModule):
    """Next-token cross-entropy of a `Transformer`, AdamW, warm-up and decay."""

    def __init__(self, config: ModelConfig, settings: TrainSettings) -> None:
        super().__init__()
        self.settings = settings
        self.model = Transformer(config, dropout=settings.dropout)
        self.spent = 0.0  # seconds of earlier sessions of this run
        self.started = 0.0

    def loss(self, batch: Batch, *, smoothing: float = 0.0) -> Tensor:
        source, target = batch
        logits = self.model(source, target[:, :-1])
        return F.cross_entropy(
            logits.flatten(0, 1).float(), target[:, 1:].flatten(), ignore_index=PAD, label_smoothing=smoothing
        )

    def training_step(self, batch: Batch, index: int) -> Tensor:
        loss = self.loss(batch, smoothing=self.settings.label_smoothing)
        self.log("loss", loss, prog_bar=True)
        self.log("tokens", float((batch[0] != PAD).sum() + (batch[1] != PAD).sum()), reduce_fx="sum")
        return loss

    def validation_step(self, batch: Batch, index: int) -> None:
        self.log("val_loss", self.loss(batch), prog_bar=True, batch_size=int((batch[1] != PAD).sum()))

    def configure_optimizers(self) -> Any:
        settings = self.settings
        optimizer = optim.build(self.model, settings)
        scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: rate(step, self.progress(step), settings))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}

    def configure_gradient_clipping(self, optimizer: Any, *args: Any, **options: Any) -> None:
        # Lightning refuses to clip for fused optimisers because of fp16 loss scaling, which bf16 does without.
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.clip)

    def progress(self, step: int) -> float:
        """The share of the run behind us, by steps or by time, whichever is further."""
        share = step / self.settings.steps
        return max(share, self.seconds() / 60 / self.settings.minutes) if self.settings.minutes else share

    def seconds(self) -> float:
        return self.spent + (time.monotonic() - self.started if self.started else 0.0)

    def on_train_start(self) -> None:
        self.started = time.monotonic()

    def on_save_checkpoint(self, saved: dict[str, Any]) -> None:
        saved["seconds"] = self.seconds()

    def on_load_checkpoint(self, saved: dict[str, Any]) -> None:
        self.spent = float(saved["seconds"])


class StopOnTime(Callback):
    """Ends a run of limited minutes once they are over."""

    def on_train_batch_end(self, trainer: lightning.Trainer, module: Any, *args: Any) -> None:
        if module.settings.minutes and module.progress(trainer.global_step) >= 1:
            trainer.should_stop = True


class ExactMatch(Callback):
    """After each validation: the share of held-out pairs that greedy decoding answers token for token."""

    def __init__(self, score: Callable[[Transformer], float]) -> None:
        self.score = score

    def on_validation_epoch_end(self, trainer: lightning.Trainer, module: Any) -> None:
        if not trainer.sanity_checking:
            module.log("val_exact", self.score(module.model), prog_bar=True)


def train(
    data: Path,
    out: Path,
    *,
    task: Task,
    config: ModelConfig,
    settings: TrainSettings,
    resume: Path | None = None,
    start: Path | None = None,
    exact: Callable[[Transformer, Pairs], float] | None = None,
    quiet: bool = False,
) -> Path:
    """Train on `data/train.npz`; checkpoints, the log and at the end the model folder `out/model` are written.

    Args:
        resume: a checkpoint of an interrupted run with the same settings.
        start: a model folder whose weights to begin with, instead of random ones.
        exact: the share of pairs that a model answers exactly; measured at every validation.

    Returns:
        The model folder.
    """
    lightning.seed_everything(settings.seed, verbose=False)
    if settings.threads:
        torch.set_num_threads(settings.threads)
    pairs, held = split(data, settings.holdout)
    done = 0 if resume is None else int(torch.load(resume, map_location="cpu", weights_only=True)["global_step"])
    sampler = TokenBatches(pairs, tokens=settings.tokens, seed=settings.seed, skip=done)
    module = Training(config, settings)
    if start is not None:
        module.model.load_state_dict(checkpoint.load(start).model.state_dict())
    keeper = ModelCheckpoint(
        out / "checkpoints", "{step}", every_n_train_steps=settings.validate_every, save_top_k=settings.keep,
        monitor="step", mode="max", save_last=True,
    )  # fmt: skip
    callbacks: list[Callback] = [keeper, StopOnTime()]
    if exact is not None:
        sample = take(held, settings.validate_pairs)
        callbacks.append(ExactMatch(lambda model: exact(model, sample)))
    if not quiet:
        callbacks.append(TQDMProgressBar(refresh_rate=20))
    trainer = lightning.Trainer(
        accelerator="auto", devices=1, precision="bf16-mixed", max_steps=settings.steps, max_epochs=-1,
        val_check_interval=settings.validate_every, check_val_every_n_epoch=None,
        num_sanity_val_steps=0, callbacks=callbacks, logger=CSVLogger(out, name="log", version=""),
        log_every_n_steps=50, enable_progress_bar=not quiet, enable_model_summary=False, use_distributed_sampler=False,
    )  # fmt: skip
    specials = config.source_specials

    def collate(indices: list[int]) -> Batch:
        return pairs.batch(indices, source_specials=specials)

    def collate_held(indices: list[int]) -> Batch:
        return held.batch(indices, source_specials=specials)

    loader = DataLoader(range(len(pairs)), batch_sampler=sampler, collate_fn=collate)  # type: ignore[arg-type]
    held_loader = DataLoader(
        range(len(held)),  # type: ignore[arg-type]
        batch_sampler=TokenBatches(held, tokens=settings.tokens, seed=0).epoch(0),
        collate_fn=collate_held,
    )
    out.mkdir(parents=True, exist_ok=True)
    (out / "settings.json").write_text(
        json.dumps({"task": task, "model": config.to_json(), "train": asdict(settings)}, indent=1), encoding="utf-8"
    )
    trainer.fit(module, loader, held_loader, ckpt_path=resume, weights_only=True)
    trainer.save_checkpoint(out / "checkpoints" / "last.ckpt")
    tokenizer = Tokenizer.load(data / "vocab.json")
    return export(out, out / "model", tokenizer)


def split(data: Path, holdout: int) -> tuple[Pairs, Pairs]:
    """Training pairs, and `val.npz` or else the last `holdout` training pairs for validation."""
    pairs = Pairs.load(data / "train.npz")
    if (data / "val.npz").exists():
        return pairs, Pairs.load(data / "val.npz")
    if len(pairs) <= holdout:
        raise ValueError(f"{data / 'train.npz'} has {len(pairs)} pairs, too few to hold out {holdout}")
    cut = len(pairs) - holdout
    return take(pairs, cut), Pairs(_tail(pairs.sources, cut), _tail(pairs.targets, cut))


def take(pairs: Pairs, count: int) -> Pairs:
    """The first `count` pairs."""
    return Pairs(_head(pairs.sources, count), _head(pairs.targets, count))


def _head(ragged: Ragged, count: int) -> Ragged:
    offsets = ragged.offsets[: count + 1]
    return Ragged(ragged.flat[: offsets[-1]], offsets)


def _tail(ragged: Ragged, start: int) -> Ragged:
    offsets = ragged.offsets[start:]
    return Ragged(ragged.flat[offsets[0] :], offsets - offsets[0])


def export(run: Path, folder: Path, tokenizer: Tokenizer, *, last: int = 1) -> Path:
    """Average the `last` newest checkpoints of a run and write a model folder.

    Raises:
        FileNotFoundError: if the run has no checkpoint.
    """
    description = json.loads((run / "settings.json").read_text(encoding="utf-8"))
    files = sorted((run / "checkpoints").glob("step=*.ckpt"), key=lambda file: file.stat().st_mtime)
    final = run / "checkpoints" / "last.ckpt"
    files = [*files[-last + 1 :], final] if last > 1 else [final]
    if not final.exists():
        raise FileNotFoundError(f"{run} holds no checkpoint; has the training started?")
    model = Transformer(ModelConfig.from_json(description["model"]))
    model.load_state_dict(average(files))
    checkpoint.save(folder, model, tokenizer, task=description["task"])
    return folder


def average(files: list[Path]) -> dict[str, Tensor]:
    """The mean of the models in Lightning checkpoints."""
    total: dict[str, Tensor] = {}
    for file in files:
        state = torch.load(file, map_location="cpu", weights_only=True)["state_dict"]
        for name, tensor in state.items():
            key = name.removeprefix("model.")
            total[key] = total.get(key, 0) + tensor.double() / len(files)
    return {name: tensor.float() for name, tensor in total.items()}
