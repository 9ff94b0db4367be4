"""Callbacks of the training loop: log, time limit and signals.

Unlike Lightning's `CSVLogger`, `Timer` and signal handling, a resumed run continues its log, time counts over all
sessions, and Ctrl-C ends a run after a step, with a checkpoint.
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

from chemspec.system.files import open_atomic, write_text_atomic


class StopOnTime(Callback):  # type: ignore[misc]
    """Stop a run after its time limit."""

    def on_train_batch_end(self, trainer: lightning.Trainer, module: Any, *args: Any) -> None:
        """Stop after the time limit."""
        if module.settings.minutes and module.progress(trainer.global_step) >= 1:
            trainer.should_stop = True


class StoppedError(Exception):
    """The run was stopped by a signal, after a checkpoint was written."""


class StopOnSignal(Callback):  # type: ignore[misc]
    """Finish the step on Ctrl-C (or SIGTERM), write `last` and raise `StoppedError`; a second Ctrl-C ends it at once.

    Lightning would abort immediately, perhaps within the optimiser's step, without a checkpoint.
    """

    SIGNALS = (signal.SIGINT, signal.SIGTERM)

    def __init__(self, last: Path) -> None:
        self.last = last
        self.requested = False
        # Read now: when training starts, Lightning has installed its handlers.
        self.before = {number: signal.getsignal(number) for number in self.SIGNALS}

    def on_train_start(self, trainer: lightning.Trainer, module: Any) -> None:
        """Install the signal handlers."""
        if _in_main_thread():
            for number in self.SIGNALS:
                signal.signal(number, self._handle_signal)

    def _handle_signal(self, number: int, frame: Any) -> None:
        if self.requested and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.requested = True

    def on_train_batch_end(self, trainer: lightning.Trainer, module: Any, *args: Any) -> None:
        """Stop after the step in which a signal came."""
        if self.requested:
            trainer.save_checkpoint(self.last)
            raise StoppedError

    def restore(self) -> None:
        """Restore the previous handlers."""
        for number, handler in self.before.items():
            if handler is not None and _in_main_thread():  # None: not installed from Python
                signal.signal(number, handler)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


class TrainingLog(Callback):  # type: ignore[misc]
    """Write `log.csv`: a row every `every` steps and one after each validation; a resumed run continues it.

    `loss` is the mean over the steps since the last row, `seconds` is training time including validation and earlier
    sessions, and `tokens_per_second` counts source and target tokens without padding and without validation time.
    """

    COLUMNS = ("step", "seconds", "loss", "lr", "tokens_per_second", "val_loss", "val_exact", "val_accepted")

    def __init__(self, path: Path, *, done: int, every: int = 50) -> None:
        self.path, self.done, self.every = path, done, every

    def on_train_start(self, trainer: lightning.Trainer, module: Any) -> None:
        """Write the header, and the rows up to the step from which the run is resumed."""
        rows: list[dict[str, str]] = []
        if self.done and self.path.exists():
            whole = self.path.read_text(encoding="utf-8").rpartition("\n")[0]  # a full disk may have truncated a row
            rows = list(csv.DictReader(whole.splitlines()))
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, self.COLUMNS, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(row for row in rows if row["step"].isdecimal() and int(row["step"]) <= self.done)
        write_text_atomic(self.path, text.getvalue())
        self._reset_counters(module)

    def _reset_counters(self, module: Any) -> None:
        self.loss: Any = 0.0
        self.count = 0
        self.since, self.tokens = module.seconds(), module.tokens

    def on_train_batch_start(self, trainer: lightning.Trainer, module: Any, *args: Any) -> None:
        """Remember the learning rate of the step."""
        self.lr = trainer.optimizers[0].param_groups[0]["lr"]  # the scheduler is a step ahead later

    def on_train_batch_end(self, trainer: lightning.Trainer, module: Any, outputs: Any, *args: Any) -> None:
        """Accumulate the loss, and write a row every `every` steps."""
        # Accumulated on the device: reading every loss would synchronise a GPU at every step.
        self.loss = self.loss + outputs["loss"].detach().double()
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
        speed = (module.tokens - self.tokens) / max(1e-9, module.seconds() - self.since)
        self._append_row(trainer, module, loss=loss, lr=self.lr, tokens_per_second=round(speed))
        module.log_dict({"loss": loss, "tokens_per_second": speed}, prog_bar=True)
        self._reset_counters(module)

    def on_validation_start(self, trainer: lightning.Trainer, module: Any) -> None:
        """Stop the clock of `tokens_per_second`."""
        self.paused = module.seconds()

    def on_validation_end(self, trainer: lightning.Trainer, module: Any) -> None:
        """Write a row with the validation metrics."""
        measured = {name: float(value) for name, value in trainer.callback_metrics.items() if name.startswith("val_")}
        self._append_row(trainer, module, **measured)
        self.since += module.seconds() - self.paused

    def _append_row(self, trainer: lightning.Trainer, module: Any, **values: float) -> None:
        row = {"step": trainer.global_step, "seconds": round(module.seconds(), 1), **values}
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
