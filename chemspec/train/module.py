"""Training loop: from token arrays to checkpoints and a CSV log. Needs no RDKit."""

import hashlib
import json
import math
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader
from tqdm import tqdm

from chemspec.data.arrays import Batch, Pairs, TokenBatches
from chemspec.settings import TrainSettings
from chemspec.system.files import open_atomic, write_text_atomic
from chemspec.system.gpu import avoid_cudnn_attention
from chemspec.system.threads import set_torch_threads
from chemspec.tokenizer import PAD, Tokenizer
from chemspec.train import optim
from chemspec.train.average import numbered_checkpoints, read_checkpoint
from chemspec.train.log import TrainingLog

SAVE_EVERY = 600.0  # seconds between two writes of `last` between validations: the most that a crash costs
# What a resumed run must have in common with its beginning: inputs, and the settings that determine the n-th batch.
FIXED = ("target", "data", "tokens", "seed", "holdout")
Measured = dict[str, tuple[Tensor, Tensor | int]]  # sum and count of each validation metric


class Training(nn.Module):
    """What a run minimises and measures: the next-token cross-entropy of a `Transformer`; base of drafters' trainings.

    Attributes:
        progress: completed share of the run.
        exact: returns the exact match of greedy decoding on held-out pairs; None if it is not measured.
    """

    progress = 0.0
    exact: Callable[[], float] | None = None

    def __init__(self, model: nn.Module, settings: TrainSettings) -> None:
        super().__init__()
        self.model, self.settings = model, settings

    def loss(self, batch: Batch, *, smoothing: float = 0.0) -> Tensor:
        """Return the mean loss of a batch: nats per target token."""
        source, target = batch
        logits = self.model(source, target[:, :-1])
        return cross_entropy(
            logits.flatten(0, 1).float(), target[:, 1:].flatten(), ignore_index=PAD, label_smoothing=smoothing
        )

    def measure(self, batch: Batch) -> Measured:
        """Return the metrics of a validation batch."""
        predicted = (batch[1][:, 1:] != PAD).sum()
        return {"val_loss": (self.loss(batch) * predicted, predicted)}


def learning_rate_share(step: int, progress: float, settings: TrainSettings) -> float:
    """Return the learning rate as a share of its peak, at `step` and `progress` (0 to 1) of the run."""
    warm = min(1.0, (step + 1) / max(1, settings.warmup))
    if settings.schedule == "inverse-sqrt":
        return warm * math.sqrt(max(1, settings.warmup) / max(step + 1, settings.warmup, 1))
    return warm * 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))


class Run:
    """The state of a training run, and its checkpoints, whose layout is that of Lightning's."""

    def __init__(self, training: Training, folder: Path, saved: Mapping[str, Any] | None) -> None:
        """Begin a run, or continue one exactly from a saved checkpoint."""
        self.training, self.settings, self.folder = training, training.settings, folder
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        training.to(self.device)
        self.optimizers = optim.build_optimizers(training.model, self.settings)
        self.step, self.seconds_before = 0, 0.0
        if saved is not None:
            self.step, self.seconds_before = int(saved["global_step"]), float(saved["seconds"])
            training.load_state_dict(saved["state_dict"])
            states = saved["optimizer_states"]
            for optimizer, state in zip(self.optimizers, states[0].get("parts", states), strict=True):
                optimizer.load_state_dict(state)
            torch.set_rng_state(saved["random"]["cpu"])
            if "cuda" in saved["random"] and self.device.type == "cuda":
                torch.cuda.set_rng_state(saved["random"]["cuda"])
        self.started = self.saved_at = time.monotonic()
        dtype = torch.bfloat16 if optim.bf16_is_native() else None
        # Without a cache of cast weights: one filled without gradients would be used with them.
        self.autocast = partial(torch.autocast, self.device.type, dtype, dtype is not None, cache_enabled=False)

    @property
    def seconds(self) -> float:
        """The training time over all sessions of the run."""
        return self.seconds_before + time.monotonic() - self.started

    @property
    def progress(self) -> float:
        """The completed share of the run by steps or by time, whichever is larger."""
        by_time = self.seconds / 60 / self.settings.minutes if self.settings.minutes else 0.0
        return max(self.step / self.settings.steps, by_time)

    def train(self, batch: Batch) -> tuple[Tensor, float]:
        """Take a step; returns its loss, on the device, and its learning rate."""
        self.training.progress = self.progress
        rate = self.settings.lr * learning_rate_share(self.step, self.progress, self.settings)
        with self.autocast():
            loss = self.training.loss(self._to_device(batch), smoothing=self.settings.label_smoothing)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.training.model.parameters(), self.settings.clip)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate
            optimizer.step()
            optimizer.zero_grad()
        self.step += 1
        return loss.detach(), rate

    @torch.inference_mode()
    def validate(self, batches: Any) -> dict[str, float]:
        """Return the metrics over all validation batches."""
        self.training.eval()
        sums: dict[str, list[Any]] = {}  # on the device: reading every loss would synchronise a GPU at every batch
        for batch in batches:
            with self.autocast():
                measured = self.training.measure(self._to_device(batch))
            for name, (value, count) in measured.items():
                total = sums.setdefault(name, [0.0, 0])
                total[0], total[1] = total[0] + value.double(), total[1] + count
        metrics = {name: float(value / count) for name, (value, count) in sums.items()}
        if self.training.exact is not None:
            metrics["val_exact"] = self.training.exact()
        self.training.train()
        return metrics

    def _to_device(self, batch: Batch) -> Batch:
        source, target = batch
        return source.to(self.device, non_blocking=True), target.to(self.device, non_blocking=True)

    def save(self, name: str) -> None:
        """Write a checkpoint atomically; raises OSError with a remedy for a full disk."""
        file = self.folder / f"{name}.ckpt"
        self.folder.mkdir(parents=True, exist_ok=True)
        for left_by_kill in self.folder.glob(f"{file.name}.*.partial"):  # a run folder has one writer
            left_by_kill.unlink()
        random = {"cpu": torch.get_rng_state()}
        if self.device.type == "cuda":
            random["cuda"] = torch.cuda.get_rng_state()
        checkpoint = {
            "global_step": self.step,
            "seconds": self.seconds,
            "state_dict": self.training.state_dict(),
            "optimizer_states": [optimizer.state_dict() for optimizer in self.optimizers],
            "random": random,
        }
        try:
            with open_atomic(file) as out:
                torch.save(checkpoint, out)
        except (OSError, RuntimeError) as error:  # torch reports a full disk as a RuntimeError about its zip writer
            raise OSError(
                f"{file} could not be written ({error}); is the disk full? "
                f"Free some space, then resume from the newest checkpoint in {self.folder}"
            ) from error
        self.saved_at = time.monotonic()

    def save_numbered(self) -> None:
        """Write `step=N` and `last`, and delete all but the last `keep` numbered checkpoints."""
        self.save(f"step={self.step}")
        self.save("last")
        for _, old in numbered_checkpoints(self.folder)[: -self.settings.keep]:
            old.unlink()


def run(
    training: Training,
    out: Path,
    data: tuple[Pairs, Pairs],
    description: Mapping[str, Any],
    *,
    specials: bool,
    resume: Path | None,
) -> None:
    """Train on training and validation pairs; `specials` as in `Pairs.batch`.

    Writes `checkpoints`, `log.csv` and, with this description, `settings.json` to `out`. A run to resume must have the
    same `FIXED` values. Raises KeyboardInterrupt on Ctrl-C, after `checkpoints/last.ckpt` was written.
    """
    settings = training.settings
    config: Any = training.model.config
    whole = {**description, "model": config.to_json(), "train": asdict(settings)}
    saved = _read_checkpoint_to_resume(out, resume, whole)
    out.mkdir(parents=True, exist_ok=True)
    write_text_atomic(out / "settings.json", json.dumps(whole, indent=1))
    avoid_cudnn_attention()  # batch shapes vary
    with set_torch_threads(settings.threads or torch.get_num_threads()), _collect_signals() as signals:
        state = Run(training, out / "checkpoints", saved)
        batches, held = build_loaders(*data, settings, done=state.step, specials=specials)
        log = TrainingLog(out / "log.csv", state.step, state.seconds)
        every = min(50, settings.validate_every)
        training.train()
        with tqdm(total=settings.steps, initial=state.step, disable=not sys.stdout.isatty()) as bar:
            for batch in batches if state.progress < 1 else ():
                log.add(batch, *state.train(batch))
                is_over = state.progress >= 1
                if state.step % every == 0 or is_over:
                    bar.set_postfix(log.write_training(state.step, state.seconds, settings))
                    bar.update(state.step - bar.n)
                if state.step % settings.validate_every == 0:
                    state.save_numbered()
                if state.step % settings.validate_every == 0 or is_over:
                    began, metrics = state.seconds, state.validate(held)
                    log.write_validation(state.step, state.seconds, metrics, state.seconds - began)
                elif time.monotonic() - state.saved_at >= SAVE_EVERY:
                    state.save("last")
                if is_over or signals:
                    break
        state.save("last")
    if signals:
        raise KeyboardInterrupt(f"stopped after step {state.step}; {state.folder / 'last.ckpt'} resumes it")


@contextmanager
def _collect_signals() -> Iterator[list[int]]:
    """Collect SIGINT and SIGTERM, to stop after a step; a second Ctrl-C ends the run at once."""
    signals: list[int] = []

    def note(number: int, _: Any) -> None:
        if signals and number == signal.SIGINT:
            raise KeyboardInterrupt
        signals.append(number)

    if threading.current_thread() is not threading.main_thread():
        yield signals
        return
    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield signals
    finally:
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)  # None: not installed from Python


def digest_of_data(pairs: Pairs, tokenizer: Tokenizer) -> str:
    """Return a digest of training pairs and vocabulary."""
    digest = hashlib.sha256("\n".join(tokenizer.tokens).encode())
    for side in (pairs.sources, pairs.targets):
        digest.update(side.offsets.tobytes() + side.flat.tobytes())
    return digest.hexdigest()[:16]


def _read_checkpoint_to_resume(out: Path, resume: Path | None, description: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a checkpoint, None for a new run; FileExistsError for a used folder, ValueError for other inputs."""
    if resume is None:
        if any((out / "checkpoints").glob("*.ckpt")):
            raise FileExistsError(
                f"{out} already contains a training run; resume it from {out / 'checkpoints' / 'last.ckpt'}, "
                "or choose another folder"
            )
        return None
    file = out / "settings.json"
    stored = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    before, now = ({**values, **values.get("train", {})} for values in (stored, description))
    for name in FIXED:
        if name in before and before[name] != now.get(name):
            raise ValueError(
                f"{out} was trained with {name} {before[name]}, not {now.get(name)}; choose another folder"
            )
    return read_checkpoint(resume)


def latest_checkpoint(out: Path) -> Path | None:
    """Return the checkpoint to resume, or None; a run killed before writing `last.ckpt` has numbered ones only."""
    last = out / "checkpoints" / "last.ckpt"
    return last if last.exists() else max(numbered_checkpoints(last.parent), default=(0, None))[1]


def build_loaders(pairs: Pairs, held: Pairs, settings: TrainSettings, *, done: int, specials: bool) -> tuple[Any, Any]:
    """Return endless training batches from step `done` on, and the validation batches."""
    batches = TokenBatches(pairs, tokens=settings.tokens, seed=settings.seed, skip=done, source_specials=specials)
    held_batches = TokenBatches(held, tokens=settings.tokens, seed=0, source_specials=specials)
    on_gpu = torch.cuda.is_available()

    def load(part: Pairs, sampler: Any) -> Any:
        numbers: Any = range(len(part))
        return DataLoader(
            numbers,
            batch_sampler=sampler,
            collate_fn=partial(part.batch, source_specials=specials),
            # A separate generator: otherwise every validation would change the dropout of later steps.
            generator=torch.Generator(),
            pin_memory=on_gpu,  # needed for asynchronous copies
            num_workers=2 * on_gpu,  # a GPU's step takes about as long as making its batch
            persistent_workers=on_gpu,
        )

    return load(pairs, batches), load(held, held_batches.epoch(0))
