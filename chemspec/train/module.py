"""Training loop on Lightning: from token arrays to checkpoints and a CSV log. Needs no RDKit."""

import hashlib
import json
import logging
import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import lightning
import torch
from lightning.pytorch.callbacks import Callback, ModelCheckpoint, Timer, TQDMProgressBar
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader

from chemspec.data.arrays import Batch, Pairs, TokenBatches
from chemspec.settings import TrainSettings
from chemspec.system.files import write_text_atomic
from chemspec.system.gpu import avoid_cudnn_attention
from chemspec.system.locks import lock_folder
from chemspec.system.threads import set_torch_threads
from chemspec.tokenizer import PAD, Tokenizer
from chemspec.train import optim
from chemspec.train.average import read_checkpoint
from chemspec.train.watch import AtomicCheckpointIO, StopOnSignal, TrainingLog


class Training(lightning.LightningModule):  # type: ignore[misc]
    """Lightning module: next-token cross-entropy of a `Transformer`, with optimiser and schedule of the settings."""

    def __init__(self, model: nn.Module, settings: TrainSettings) -> None:
        super().__init__()
        self.settings = settings
        self.model = model
        # Time over all sessions of the run, and its limit.
        self.timer = Timer({"minutes": settings.minutes} if settings.minutes else None, verbose=False)
        self.random: dict[str, Tensor] = {}  # states of the random generators to restore
        self.exact: Callable[[], float] | None = None  # exact match of greedy decoding on held-out pairs

    def loss(self, batch: Batch, *, smoothing: float = 0.0) -> Tensor:
        """Return the mean loss of a batch: nats per target token."""
        source, target = batch
        logits = self.model(source, target[:, :-1])
        return cross_entropy(
            logits.flatten(0, 1).float(), target[:, 1:].flatten(), ignore_index=PAD, label_smoothing=smoothing
        )

    def training_step(self, batch: Batch, index: int) -> Tensor:
        """Return the loss to minimise."""
        return self.loss(batch, smoothing=self.settings.label_smoothing)

    def validation_step(self, batch: Batch, index: int) -> None:
        """Log the loss, as a mean over all validation tokens."""
        tokens = int(torch.count_nonzero(batch[1][:, 1:] != PAD))
        self.log("val_loss", self.loss(batch), prog_bar=True, batch_size=tokens)

    def on_validation_epoch_end(self) -> None:
        """Log the exact match."""
        if self.exact is not None:
            self.log("val_exact", self.exact(), prog_bar=True)

    def configure_optimizers(self) -> Any:
        """Return the optimiser and the schedule of its learning rate."""
        settings = self.settings
        optimizer = optim.build_optimizer(self.model, settings)
        scheduler = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda step: optim.learning_rate_share(step, self.progress(step), settings)
        )
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}

    def configure_gradient_clipping(self, optimizer: Any, *args: Any, **options: Any) -> None:
        """Clip the norm of the gradient."""
        # Lightning refuses to clip for fused optimisers because of fp16 loss scaling, which bf16 does without.
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.clip)

    def progress(self, step: int) -> float:
        """Return the completed share of the run by steps or by time, whichever is larger."""
        by_time = self.timer.time_elapsed() / 60 / self.settings.minutes if self.settings.minutes else 0.0
        return max(step / self.settings.steps, by_time)

    def on_train_batch_start(self, batch: Batch, index: int) -> None:
        """Restore the random states of a checkpoint."""
        if self.random:
            torch.set_rng_state(self.random["cpu"])
            if "cuda" in self.random and torch.cuda.is_available():
                torch.cuda.set_rng_state(self.random["cuda"])
            self.random = {}

    def on_save_checkpoint(self, saved: dict[str, Any]) -> None:
        """Add the random states, for an exact resumption."""
        saved["random"] = {"cpu": torch.get_rng_state()}
        if self.device.type == "cuda":
            saved["random"]["cuda"] = torch.cuda.get_rng_state()

    def on_load_checkpoint(self, saved: dict[str, Any]) -> None:
        """Restore the random states."""
        self.random = saved.get("random", {})
        if "seconds" in saved:  # of version 0.2
            self.timer.load_state_dict({"time_elapsed": {"train": saved["seconds"]}})


SAVE_EVERY = timedelta(minutes=10)  # interval of `last` between validations: the most that a crash costs
# What a resumed run must have in common with its beginning: inputs, and the settings that determine the n-th batch.
FIXED = ("target", "data", "tokens", "seed", "holdout")


def run(
    module: Training,
    out: Path,
    data: tuple[Pairs, Pairs],
    description: Mapping[str, Any],
    *,
    specials: bool,
    resume: Path | None,
) -> None:
    """Train a module on training and validation pairs; `specials` as in `Pairs.batch`.

    Writes `checkpoints`, `log.csv` and, with this description, `settings.json` to `out`. A run to resume must have the
    same `FIXED` values. Raises LockedError if another process trains there, and KeyboardInterrupt on Ctrl-C, after
    `checkpoints/last.ckpt` was written.
    """
    settings, last = module.settings, out / "checkpoints" / "last.ckpt"
    config: Any = module.model.config
    whole = {**description, "model": config.to_json(), "train": asdict(settings)}
    done = _steps_done(out, resume, whole)
    out.mkdir(parents=True, exist_ok=True)
    with lock_folder(out):
        write_text_atomic(out / "settings.json", json.dumps(whole, indent=1))
        loaders = build_loaders(*data, settings, done=done, specials=specials)
        avoid_cudnn_attention()  # batch shapes vary
        every = min(50, settings.validate_every)
        bar = [TQDMProgressBar(refresh_rate=every)] if sys.stdout.isatty() else []
        callbacks = [module.timer, TrainingLog(out / "log.csv", every=every), *bar, StopOnSignal(last)]
        logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)  # no advertisements
        with warnings.catch_warnings(), set_torch_threads(settings.threads or torch.get_num_threads()):
            warnings.filterwarnings("ignore", module="lightning")  # about intentional choices
            trainer = _build_trainer(out, settings, callbacks)
            try:
                trainer.fit(module, *loaders, ckpt_path=resume, weights_only=True)
                trainer.save_checkpoint(last)
            except SystemExit as error:  # Lightning raises it on Ctrl-C
                resumable = f"; {last} resumes it" if last.exists() else ""
                raise KeyboardInterrupt(f"stopped after step {trainer.global_step}{resumable}") from error


def digest_of_data(pairs: Pairs, tokenizer: Tokenizer) -> str:
    """Return a digest of training pairs and vocabulary."""
    digest = hashlib.sha256("\n".join(tokenizer.tokens).encode())
    for side in (pairs.sources, pairs.targets):
        digest.update(side.offsets.tobytes() + side.flat.tobytes())
    return digest.hexdigest()[:16]


def _steps_done(out: Path, resume: Path | None, description: Mapping[str, Any]) -> int:
    """Return a checkpoint's steps, 0 for a new run; FileExistsError for a used folder, ValueError for other inputs."""
    if resume is None:
        if any((out / "checkpoints").glob("*.ckpt")):
            raise FileExistsError(
                f"{out} already contains a training run; resume it from {out / 'checkpoints' / 'last.ckpt'}, "
                "or choose another folder"
            )
        return 0
    file = out / "settings.json"
    stored = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    before, now = ({**values, **values.get("train", {})} for values in (stored, description))
    for name in FIXED:
        if name in before and before[name] != now.get(name):
            raise ValueError(
                f"{out} was trained with {name} {before[name]}, not {now.get(name)}; choose another folder"
            )
    return int(read_checkpoint(resume)["global_step"])


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
    checkpoints = partial(ModelCheckpoint, out / "checkpoints", enable_version_counter=False)
    every = settings.validate_every
    return lightning.Trainer(
        accelerator="auto",
        devices=1,
        precision="bf16-mixed" if optim.bf16_is_native() else "32-true",
        max_steps=settings.steps,
        max_epochs=-1,
        val_check_interval=every,
        check_val_every_n_epoch=None,
        num_sanity_val_steps=0,
        callbacks=[
            *callbacks,
            checkpoints("last", train_time_interval=SAVE_EVERY),
            checkpoints(
                "{step}",
                every_n_train_steps=every,
                save_top_k=settings.keep,
                monitor="step",
                mode="max",
                save_last=True,
            ),
        ],
        plugins=[AtomicCheckpointIO()],
        logger=False,
        enable_progress_bar=any(isinstance(callback, TQDMProgressBar) for callback in callbacks),
        enable_model_summary=False,
        use_distributed_sampler=False,
    )
