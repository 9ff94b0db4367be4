"""Training loop on Lightning: from token arrays to checkpoints and a CSV log. Needs no RDKit."""

import hashlib
import json
import logging
import math
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import lightning
import torch
from lightning.pytorch.callbacks import Callback, ModelCheckpoint, TQDMProgressBar
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader

from chemspec.data.arrays import Batch, Pairs, TokenBatches
from chemspec.settings import TrainSettings
from chemspec.system.files import write_text_atomic
from chemspec.system.gpu import avoid_cudnn_attention
from chemspec.system.threads import set_torch_threads
from chemspec.tokenizer import PAD, Tokenizer
from chemspec.train import optim
from chemspec.train.average import read_checkpoint
from chemspec.train.watch import AtomicCheckpointIO, StopOnSignal, StopOnTime, StoppedError, TrainingLog


def learning_rate_share(step: int, progress: float, settings: TrainSettings) -> float:
    """Return the learning rate as a share of its peak, at `step` and `progress` (0 to 1) of the run."""
    warm = min(1.0, (step + 1) / max(1, settings.warmup))
    if settings.schedule == "inverse-sqrt":
        return warm * math.sqrt(max(1, settings.warmup) / max(step + 1, settings.warmup, 1))
    return warm * 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))


class Training(lightning.LightningModule):  # type: ignore[misc]
    """Lightning module: next-token cross-entropy of a `Transformer`, with optimiser and schedule of the settings."""

    def __init__(self, model: nn.Module, settings: TrainSettings) -> None:
        super().__init__()
        self.settings = settings
        self.model = model
        self.held: list[Tensor] = []  # summed loss and tokens of a validation, on the device
        self.tokens = 0  # trained in this session, without padding
        self.spent = 0.0  # seconds of earlier sessions of this run
        self.started = 0.0
        self.random: dict[str, Tensor] = {}  # states of the random generators to restore
        self.exact: Callable[[], float] | None = None  # exact match of greedy decoding on held-out pairs

    def loss(self, batch: Batch, *, smoothing: float = 0.0) -> Tensor:
        """Return the mean loss of a batch: nats per target token."""
        source, target = batch
        logits = self.model(source, target[:, :-1])
        return cross_entropy(
            logits.flatten(0, 1).float(), target[:, 1:].flatten(), ignore_index=PAD, label_smoothing=smoothing
        )

    def on_before_batch_transfer(self, batch: Batch, dataloader_idx: int) -> Batch:
        """Count the trained tokens."""
        if self.trainer.training:  # counted while still on the host
            self.tokens += sum(int(torch.count_nonzero(part != PAD)) for part in batch)
        return batch

    def training_step(self, batch: Batch, index: int) -> Tensor:
        """Return the loss to minimise."""
        return self.loss(batch, smoothing=self.settings.label_smoothing)

    def on_validation_epoch_start(self) -> None:
        """Reset the sums of the previous validation."""
        self.held = [torch.zeros((), dtype=torch.float64, device=self.device) for _ in range(2)]

    def validation_step(self, batch: Batch, index: int) -> None:
        """Accumulate loss and tokens of a validation batch."""
        # Accumulated on the device: reading every loss would synchronise a GPU at every batch.
        predicted = (batch[1][:, 1:] != PAD).sum()
        self.held[0] += self.loss(batch).double() * predicted
        self.held[1] += predicted

    def on_validation_epoch_end(self) -> None:
        """Log the mean loss over all validation tokens, and the exact match."""
        self.log("val_loss", (self.held[0] / self.held[1]).float(), prog_bar=True)
        if self.exact is not None:
            self.log("val_exact", self.exact(), prog_bar=True)

    def configure_optimizers(self) -> Any:
        """Return the optimiser and the schedule of its learning rate."""
        settings = self.settings
        optimizer = optim.build_optimizer(self.model, settings)
        scheduler = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda step: learning_rate_share(step, self.progress(step), settings)
        )
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}

    def configure_gradient_clipping(self, optimizer: Any, *args: Any, **options: Any) -> None:
        """Clip the norm of the gradient."""
        # Lightning refuses to clip for fused optimisers because of fp16 loss scaling, which bf16 does without.
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.clip)

    def progress(self, step: int) -> float:
        """Return the completed share of the run by steps or by time, whichever is larger."""
        by_time = self.seconds() / 60 / self.settings.minutes if self.settings.minutes else 0.0
        return max(step / self.settings.steps, by_time)

    def seconds(self) -> float:
        """Return the training time over all sessions of this run."""
        return self.spent + (time.monotonic() - self.started if self.started else 0.0)

    def on_train_start(self) -> None:
        """Start the clock."""
        self.started = time.monotonic()

    def on_train_batch_start(self, batch: Batch, index: int) -> None:
        """Restore the random states of a checkpoint."""
        if self.random:
            torch.set_rng_state(self.random["cpu"])
            if "cuda" in self.random and torch.cuda.is_available():
                torch.cuda.set_rng_state(self.random["cuda"])
            self.random = {}

    def on_save_checkpoint(self, saved: dict[str, Any]) -> None:
        """Add the state for an exact resumption: time, settings, random states."""
        saved["seconds"] = self.seconds()
        saved["settings"] = {name: getattr(self.settings, name) for name in ORDER_SETTINGS}
        saved["random"] = {"cpu": torch.get_rng_state()}
        if self.device.type == "cuda":
            saved["random"]["cuda"] = torch.cuda.get_rng_state()

    def on_load_checkpoint(self, saved: dict[str, Any]) -> None:
        """Restore the state added by `on_save_checkpoint`."""
        self.spent = float(saved["seconds"])
        self.random = saved.get("random", {})


SAVE_EVERY = timedelta(minutes=10)  # interval of `last` between validations: the most that a crash costs
# The settings that determine the n-th batch.
ORDER_SETTINGS = ("tokens", "seed", "holdout")
INPUTS = ("target", "data")  # digests in `settings.json` that must not change; the target is that of a drafter
T = TypeVar("T", bound=Training)


def run(
    build: Callable[[], T],
    out: Path,
    settings: TrainSettings,
    data: tuple[Pairs, Pairs],
    description: Mapping[str, Any],
    *,
    specials: bool,
    resume: Path | None,
) -> T:
    """Train the module that `build` returns on training and validation pairs; `specials` as in `Pairs.batch`.

    Writes `checkpoints`, `log.csv` and, with this description, `settings.json` to `out`. A run to resume must have the
    same digests of its `INPUTS`. Raises KeyboardInterrupt on Ctrl-C, after `checkpoints/last.ckpt` was written.
    """
    done = _steps_done(out, resume, settings, description)
    torch.manual_seed(settings.seed)
    module = build()
    config: Any = module.model.config
    whole = {**description, "model": config.to_json(), "train": asdict(settings)}
    out.mkdir(parents=True, exist_ok=True)
    write_text_atomic(out / "settings.json", json.dumps(whole, indent=1))
    loaders = build_loaders(*data, settings, done=done, specials=specials)
    avoid_cudnn_attention()  # batch shapes vary
    stop = StopOnSignal(out / "checkpoints" / "last.ckpt")
    every = min(50, settings.validate_every)
    log = TrainingLog(out / "log.csv", done=done, every=every)
    bar = [TQDMProgressBar(refresh_rate=every)] if sys.stdout.isatty() else []
    with _silence_lightning(), set_torch_threads(settings.threads or torch.get_num_threads()):
        trainer = _build_trainer(out, settings, [StopOnTime(), log, *bar, stop])
        try:
            trainer.fit(module, *loaders, ckpt_path=resume, weights_only=True)
            trainer.save_checkpoint(stop.last)
        except StoppedError:
            raise KeyboardInterrupt(f"stopped after step {trainer.global_step}; {stop.last} resumes it") from None
        except SystemExit as error:  # Lightning raises it on Ctrl-C
            raise KeyboardInterrupt from error
        finally:
            stop.restore()
    return module


def digest_of_data(pairs: Pairs, tokenizer: Tokenizer) -> str:
    """Return a digest of training pairs and vocabulary."""
    digest = hashlib.sha256("\n".join(tokenizer.tokens).encode())
    for side in (pairs.sources, pairs.targets):
        digest.update(side.offsets.tobytes() + side.flat.tobytes())
    return digest.hexdigest()[:16]


def _steps_done(out: Path, resume: Path | None, settings: TrainSettings, description: Mapping[str, Any]) -> int:
    """Return a checkpoint's steps, 0 for a new run; FileExistsError for a used folder, ValueError for other inputs."""
    if resume is None:
        if any((out / "checkpoints").glob("*.ckpt")):
            raise FileExistsError(
                f"{out} already contains a training run; resume it from {out / 'checkpoints' / 'last.ckpt'}, "
                "or choose another folder"
            )
        return 0
    saved = read_checkpoint(resume)
    for name, value in saved.get("settings", {}).items():
        if (ours := getattr(settings, name)) != value:
            raise ValueError(
                f"{resume} was made with {name} {value}, not {ours}; so its position in the data is unknown"
            )
    file = out / "settings.json"
    before = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    for name in INPUTS:
        if name in before and before[name] != description.get(name):
            raise ValueError(f"{out} contains a training run with different {name}; choose another folder")
    return int(saved["global_step"])


def latest_checkpoint(out: Path) -> Path | None:
    """Return the checkpoint to resume, or None; a run killed before writing `last.ckpt` has numbered ones only."""
    folder = out / "checkpoints"
    if (folder / "last.ckpt").exists():
        return folder / "last.ckpt"
    return max(folder.glob("step=*.ckpt"), key=lambda file: int(file.stem.removeprefix("step=")), default=None)


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


def _build_trainer(out: Path, settings: TrainSettings, callbacks: list[Callback]) -> lightning.Trainer:
    folder = out / "checkpoints"
    timed_checkpoints = ModelCheckpoint(folder, "last", train_time_interval=SAVE_EVERY, enable_version_counter=False)
    validation_checkpoints = ModelCheckpoint(
        folder,
        "{step}",
        every_n_train_steps=settings.validate_every,
        save_top_k=settings.keep,
        monitor="step",
        mode="max",
        save_last=True,
        enable_version_counter=False,
    )
    return lightning.Trainer(
        accelerator="auto",
        devices=1,
        precision="bf16-mixed" if optim.bf16_is_native() else "32-true",
        max_steps=settings.steps,
        max_epochs=-1,
        val_check_interval=settings.validate_every,
        check_val_every_n_epoch=None,
        num_sanity_val_steps=0,
        callbacks=[timed_checkpoints, validation_checkpoints, *callbacks],
        plugins=[AtomicCheckpointIO()],
        logger=False,
        enable_progress_bar=any(isinstance(callback, TQDMProgressBar) for callback in callbacks),
        enable_model_summary=False,
        use_distributed_sampler=False,
    )


@contextmanager
def _silence_lightning() -> Iterator[None]:
    """Disable advertisements of Lightning and warnings about intentional choices."""
    logger = logging.getLogger("lightning.pytorch")
    level = logger.level
    logger.setLevel(logging.WARNING)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="lightning")
        try:
            yield
        finally:
            logger.setLevel(level)
