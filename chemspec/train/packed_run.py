"""Train a model on packed batches: `chemspec train` with a recipe whose `trainer` is "packed".

The learning rate follows the time, so the result depends on the machine. Writes `model/`, `log.csv`, `settings.json`
and every few minutes `checkpoints/last.pt`, from which a run goes on.
"""

from __future__ import annotations

import csv
import io
import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from chemspec.data.arrays import Pairs
from chemspec.model import checkpoint
from chemspec.model.manifest import write_manifest
from chemspec.model.transformer import Transformer
from chemspec.settings import TrainSettings
from chemspec.system.files import write_bytes_atomic, write_text_atomic
from chemspec.system.locks import lock_folder
from chemspec.system.threads import usable_cores
from chemspec.tokenizer import Tokenizer
from chemspec.train.initial_weights import copy_initial_weights
from chemspec.train.optim import learning_rate_share
from chemspec.train.packed import Optimizer, PackedModel, Step, validation_loss
from chemspec.train.packed_batches import Shape, build_batch, load_batches, pack
from chemspec.types import Tell, ignore

SAVE_EVERY = 120.0  # seconds between two checkpoints
EVERY = 100  # steps between two lines of the log
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
    ) -> None:
        """Load data and initial weights.

        Args:
            start: a pre-norm model with one embedding, whose weights the run begins with.
            data: folders with its vocabulary, or one that extends it; the last has val.npz.
            out: run folder.
            settings: of the run; `tokens` are those of a batch, both sides and next to none of them padding.
            encoder_layers: 0: as the start; further layers leave its function unchanged at first.
            tell: called with messages.
        """
        if settings.optimizer != "muon" or settings.label_smoothing:
            raise ValueError("packed training is by Muon and without label smoothing")
        self.settings, self.out, self.tell = settings, out, tell
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
        self.trained, self.seconds, self.stored = 0, 0.0, 0.0  # steps; seconds of the run, and at the last checkpoint

    @property
    def last(self) -> Path:
        """The checkpoint."""
        return self.out / "checkpoints" / "last.pt"

    def train(self, *, resume: bool = True) -> Path:
        """Train until the time or the steps are over; returns the model's folder.

        Raises FileExistsError for a folder with another run, if it is not to be resumed, and KeyboardInterrupt on
        Ctrl-C, after a checkpoint was written.
        """
        out = self.out
        if self.last.exists() and not resume:
            raise FileExistsError(f"{out} already contains a training run; resume it, or choose another folder")
        out.mkdir(parents=True, exist_ok=True)
        with lock_folder(out):
            described = {**asdict(self.settings), "shape": self.shape.sizes}
            write_text_atomic(out / "settings.json", json.dumps(described, indent=1, default=str))
            self.tell(f"start: validation loss {validation_loss(self.packed, self.held):.5f}")
            self.packed.dropout = self.settings.dropout
            self.step.record(next(load_batches(self.parts, self.shape, self.settings.seed, workers=0)))
            if self.last.exists():
                self._restore()
            with (out / "log.csv").open("a", encoding="utf-8", newline="") as file:
                log = csv.writer(file)
                if not file.tell():
                    log.writerow(("step", "seconds", "loss", "lr", "val_loss"))
                try:
                    self._take_steps(log.writerow, file.flush)
                except KeyboardInterrupt as error:
                    raise KeyboardInterrupt(f"stopped after step {self.trained}; {self.last} resumes it") from error
                finally:
                    self._store()
            return self._save_model()

    def _take_steps(self, write: Callable[[Any], Any], flush: Callable[[], None]) -> None:
        settings, began = self.settings, time.monotonic() - self.seconds
        workers = min(WORKERS, usable_cores() - 1) if torch.cuda.is_available() else 0
        batches = load_batches(self.parts, self.shape, settings.seed, workers, skip=self.trained)
        while (progress := self._progress()) < 1:
            self.step.optimizer.lr.fill_(rate := settings.lr * learning_rate_share(self.trained, progress, settings))
            self.step(next(batches))
            self.trained, self.seconds = self.trained + 1, time.monotonic() - began
            if self.seconds - self.stored > SAVE_EVERY:
                self._store()
            if self.trained % EVERY:
                continue
            loss = float(self.step.mean)
            if not math.isfinite(loss):
                raise ValueError(f"the loss is {loss} at step {self.trained}; try a smaller learning rate")
            is_validated = self.trained % settings.validate_every == 0
            held = round(validation_loss(self.packed, self.held), 5) if is_validated else None
            write((self.trained, round(self.seconds, 1), f"{loss:.5f}", f"{rate:.3e}", held))
            flush()
            if held:
                self.tell(f"step {self.trained} after {self.seconds:.0f} s: loss {loss:.4f}, validation {held}")

    def _progress(self) -> float:
        """Return the completed share of the run, by time or by steps."""
        by_time = self.seconds / (60 * self.settings.minutes) if self.settings.minutes else 0.0
        return max(self.trained / self.settings.steps, by_time)

    def _store(self) -> None:
        counters = {"trained": self.trained, "seconds": self.seconds, "random": torch.get_rng_state()}
        content = io.BytesIO()
        torch.save({**counters, "tensors": self.step.state()}, content)
        self.last.parent.mkdir(exist_ok=True)
        write_bytes_atomic(self.last, content.getvalue())
        self.stored = self.seconds

    def _restore(self) -> None:
        saved = torch.load(self.last, map_location="cpu", weights_only=True)
        self.step.restore(saved["tensors"])
        torch.set_rng_state(saved["random"])
        self.trained, self.seconds = saved["trained"], saved["seconds"]
        self.stored = self.seconds
        self.tell(f"goes on after step {self.trained}")

    def _save_model(self) -> Path:
        model = self.packed.model
        if self.step.mean_weights:
            with torch.no_grad():
                for ours, mean in zip(self.step.optimizer.parameters, self.step.mean_weights, strict=True):
                    ours.copy_(mean)
        self.tell(f"end: {self.trained} steps, validation loss {validation_loss(self.packed, self.held):.5f}")
        plain = Transformer(self.config)
        plain.load_state_dict({name: tensor.cpu() for name, tensor in model.state_dict().items()})
        folder = self.out / "model"
        checkpoint.save(folder, plain, self.tokenizer, task=self.task)
        write_manifest(folder)
        return folder
