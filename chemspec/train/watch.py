"""Callbacks of the training loop: log and signals.

Unlike Lightning's `CSVLogger` and signal handling, a resumed run continues its log, and Ctrl-C ends a run after a step,
with a checkpoint.
"""

import csv
import io
import math
import signal
import threading
from pathlib import Path
from typing import Any

import lightning
import torch
from lightning.fabric.plugins import TorchCheckpointIO
from lightning.pytorch.callbacks import Callback

from chemspec.data.arrays import Batch
from chemspec.system.files import open_atomic, write_text_atomic
from chemspec.tokenizer import PAD


class StopOnSignal(Callback):  # type: ignore[misc]
    """Finish the step on Ctrl-C (or SIGTERM), write `last` and end the run; a second Ctrl-C ends it at once.

    Lightning would abort immediately, perhaps within the optimiser's step, without a checkpoint.
    """

    def __init__(self, last: Path) -> None:
        self.last = last
        self.requested = False

    def on_train_start(self, trainer: lightning.Trainer, module: Any) -> None:
        """Install the signal handlers; Lightning restores the previous ones at the end."""
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, self._handle_signal)

    def _handle_signal(self, number: int, frame: Any) -> None:
        if self.requested and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.requested = True

    def on_train_batch_end(self, trainer: lightning.Trainer, module: Any, *args: Any) -> None:
        """Stop after the step in which a signal came."""
        if self.requested:
            trainer.save_checkpoint(self.last)
            raise KeyboardInterrupt


class TrainingLog(Callback):  # type: ignore[misc]
    """Write `log.csv`: a row every `every` steps and one after each validation; a resumed run continues it.

    `loss` is the mean over the steps since the last row, `seconds` is training time including validation and earlier
    sessions, and `tokens_per_second` counts source and target tokens without padding and without validation time.
    """

    COLUMNS = ("step", "seconds", "loss", "lr", "tokens_per_second", "val_loss", "val_exact", "val_accepted")

    def __init__(self, path: Path, *, every: int = 50) -> None:
        self.path, self.every = path, every

    def on_train_start(self, trainer: lightning.Trainer, module: Any) -> None:
        """Write the header, and the rows up to the step from which the run is resumed."""
        rows: list[dict[str, str]] = []
        if trainer.global_step and self.path.exists():
            whole = self.path.read_text(encoding="utf-8").rpartition("\n")[0]  # a full disk may have truncated a row
            rows = list(csv.DictReader(whole.splitlines()))
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, self.COLUMNS, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(row for row in rows if row["step"].isdecimal() and int(row["step"]) <= trainer.global_step)
        write_text_atomic(self.path, text.getvalue())
        self._reset_sums(module)

    def _reset_sums(self, module: Any) -> None:
        # On the device: reading every loss would synchronise a GPU at every step.
        self.loss: Any = 0.0
        self.tokens: Any = 0
        self.count = 0
        self.since = module.timer.time_elapsed()

    def on_train_batch_start(self, trainer: lightning.Trainer, module: Any, *args: Any) -> None:
        """Remember the learning rate of the step."""
        self.lr = trainer.optimizers[0].param_groups[0]["lr"]  # the scheduler is a step ahead later

    def on_train_batch_end(
        self, trainer: lightning.Trainer, module: Any, outputs: Any, batch: Batch, *args: Any
    ) -> None:
        """Accumulate loss and tokens, and write a row every `every` steps."""
        self.loss = self.loss + outputs["loss"].detach().double()
        self.tokens = self.tokens + sum(torch.count_nonzero(part != PAD) for part in batch)
        self.count += 1
        step = trainer.global_step
        if step % self.every == 0 or step == trainer.max_steps or trainer.should_stop:
            self._write_training_row(trainer, module)

    def _write_training_row(self, trainer: lightning.Trainer, module: Any) -> None:
        loss = float(self.loss) / self.count
        if not math.isfinite(loss):
            raise FloatingPointError(
                f"the loss is {loss} at step {trainer.global_step}; "
                f"lower lr ({module.settings.lr}) or clip ({module.settings.clip}), or lengthen warmup"
            )
        speed = int(self.tokens) / max(1e-9, module.timer.time_elapsed() - self.since)
        self._append_row(trainer, module, loss=loss, lr=self.lr, tokens_per_second=round(speed))
        module.log_dict({"loss": loss, "tokens_per_second": speed}, prog_bar=True)
        self._reset_sums(module)

    def on_validation_end(self, trainer: lightning.Trainer, module: Any) -> None:
        """Write a row with the validation metrics."""
        measured = {name: float(value) for name, value in trainer.callback_metrics.items() if name.startswith("val_")}
        self._append_row(trainer, module, **measured)
        self.since += module.timer.time_elapsed("validate")

    def _append_row(self, trainer: lightning.Trainer, module: Any, **values: float) -> None:
        row = {"step": trainer.global_step, "seconds": round(module.timer.time_elapsed(), 1), **values}
        with self.path.open("a", newline="", encoding="utf-8") as file:
            csv.DictWriter(file, self.COLUMNS).writerow(row)


class AtomicCheckpointIO(TorchCheckpointIO):  # type: ignore[misc]
    """Write checkpoints atomically, even if the disk is full."""

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        """Write a temporary file, then rename it; raises OSError with a remedy for a full disk."""
        file = Path(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        for left_by_kill in file.parent.glob(f"{file.name}.*.partial"):  # a run folder has one writer
            left_by_kill.unlink()
        try:
            with open_atomic(file) as out:
                torch.save(checkpoint, out)
        except (OSError, RuntimeError) as error:
            # torch reports a full disk as a RuntimeError about its zip writer
            raise OSError(
                f"{file} could not be written ({error}); is the disk full? "
                f"Free some space, then resume from the newest checkpoint in {file.parent}"
            ) from error
