"""Train a model on packed batches: `chemspec train` with a recipe whose `trainer` is "packed".

The learning rate follows the time, so the result depends on the machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import chemspec.train.loop as loop
from chemspec.data.arrays import Pairs
from chemspec.model import checkpoint
from chemspec.model.manifest import write_manifest
from chemspec.model.transformer import Transformer
from chemspec.settings import TrainSettings
from chemspec.system.threads import usable_cores
from chemspec.tokenizer import Tokenizer
from chemspec.train.average import average_checkpoints
from chemspec.train.checkpoints import latest_checkpoint, newest_checkpoints
from chemspec.train.initial_weights import copy_initial_weights
from chemspec.train.packed import Optimizer, PackedModel, Step, validation_loss
from chemspec.train.packed_batches import Shape, build_batch, load_batches, pack
from chemspec.train.padded import digest_of_data
from chemspec.types import Progress, Tell, ignore

WORKERS = 10  # processes that make batches, at most


class PackedRun:
    """A run that can be stopped and resumed; its batches come in the same order then."""

    def __init__(
        self,
        start: Path,
        data: Sequence[Path],
        out: Path,
        settings: TrainSettings,
        *,
        encoder_layers: int = 0,
        tell: Tell = ignore,
        progress: Progress = ignore,
    ) -> None:
        """Load data and initial weights.

        Args:
            start: a pre-norm model with one embedding, whose weights the run begins with.
            data: folders with its vocabulary, or one that extends it; the last has val.npz.
            out: run folder.
            settings: of the run; `tokens` are those of a batch, both sides and next to none of them padding.
            encoder_layers: 0: as the start; further layers leave its function unchanged at first.
            tell: called with messages.
            progress: called with the number of steps, and how many there will be.
        """
        if settings.optimizer != "muon" or settings.label_smoothing:
            raise ValueError("packed training is by Muon and without label smoothing")
        self.settings, self.out, self.tell, self.progress = settings, out, tell, progress
        device = "cuda" if torch.cuda.is_available() else "cpu"
        loaded = checkpoint.load(start)
        self.task, self.tokenizer = loaded.task, Tokenizer.load(data[-1] / "vocab.json")
        layers = encoder_layers or loaded.config.encoder_layers
        self.config = replace(loaded.config, encoder_layers=layers, vocab_size=len(self.tokenizer))
        torch.manual_seed(settings.seed)
        model = Transformer(self.config)
        copy_initial_weights(model, start, self.tokenizer)
        model.to(device)
        self.parts = [Pairs.load(folder / "train.npz") for folder in data]
        self.shape = Shape.of(self.parts, settings.tokens)
        self.packed = PackedModel(model, self.shape)
        self.step = Step(self.packed, Optimizer(model, settings.weight_decay, settings.clip), ema=settings.ema)
        held = Pairs.load(data[-1] / "val.npz")
        chosen = pack(held, range(len(held)), self.shape)
        self.held = [build_batch(held, batch, self.shape).to(device) for batch in chosen]

    def train(self, *, resume: bool = True) -> Path:
        """Train until the time or the steps are over, see `loop.run`; returns the model's folder."""
        self.tell(f"start: validation loss {validation_loss(self.packed, self.held):.5f}")
        self.packed.dropout = self.settings.dropout
        self.step.record(next(load_batches(self.parts, self.shape, self.settings.seed, workers=0)))
        digests = [digest_of_data(part, self.tokenizer) for part in self.parts]
        about = {"task": self.task, "data": digests, "model": self.config.to_json(), "shape": self.shape.sizes}
        last = latest_checkpoint(self.out) if resume else None
        steps = loop.run(self, self.out, about, resume=last, tell=self.tell, progress=self.progress)
        return self._save_model(steps)

    def batches(self, done: int) -> Iterator[Tensor]:
        """Return the endless batches from step `done` on."""
        workers = min(WORKERS, usable_cores() - 1) if torch.cuda.is_available() else 0
        return load_batches(self.parts, self.shape, self.settings.seed, workers, skip=done)

    def take_step(self, batch: Tensor, rate: float, progress: float) -> Tensor:
        """Take a step; returns the mean loss."""
        self.step.optimizer.lr.fill_(rate)
        self.step(batch)
        return self.step.mean

    def count_tokens(self, batch: Tensor) -> int:
        """Return the number of tokens of a batch; next to none of them are fillers."""
        return self.shape.sources + self.shape.targets

    def validate(self) -> dict[str, float]:
        """Return the validation loss."""
        return {"val_loss": validation_loss(self.packed, self.held)}

    def weights(self) -> dict[str, Tensor]:
        """Return the weights that become the model: their running mean, if there is one."""
        means = self.step.mean_weights or self.step.optimizer.parameters
        by_parameter = dict(zip(map(id, self.step.optimizer.parameters), means, strict=True))
        state = self.packed.model.state_dict(keep_vars=True)
        return {f"model.{name}": by_parameter.get(id(tensor), tensor).detach() for name, tensor in state.items()}

    def state(self) -> dict[str, Any]:
        """Return all tensors that a step changes."""
        return {"tensors": self.step.state()}

    def restore(self, saved: dict[str, Any]) -> None:
        """Restore all tensors that a step changes."""
        self.step.restore(saved["tensors"])

    def _save_model(self, steps: int) -> Path:
        self.packed.model.load_state_dict({name.removeprefix("model."): w for name, w in self.weights().items()})
        self.tell(f"end: {steps} steps, validation loss {validation_loss(self.packed, self.held):.5f}")
        plain = Transformer(self.config)
        plain.load_state_dict(average_checkpoints(newest_checkpoints(self.out / "checkpoints", 1)))
        folder = self.out / "model"
        checkpoint.save(folder, plain, self.tokenizer, task=self.task)
        write_manifest(folder)
        return folder
