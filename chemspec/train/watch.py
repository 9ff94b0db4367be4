"""Callbacks of the training loop: the log, exact match, and the ways to stop.

Lightning's `CSVLogger`, `Timer` and handling of signals do nearly the same. Here a resumed run goes on with its log,
time counts over all sessions, and Ctrl-C ends a run after a step, with a checkpoint.
"""

from __future__ import annotations

import csv
import io
import math
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning
import torch
from lightning.fabric.plugins import TorchCheckpointIO
from lightning.pytorch.callbacks import Callback

from chemspec.model.transformer import Transformer
from chemspec.system.files import write_whole


class StopOnTime(Callback):  # type: ignore[misc]
    """End a run of limited minutes once they are over."""

    def on_train_batch_end(self, trainer: lightning.Trainer, module: Any, *args: Any) -> None:
        """Stop once the minutes are over."""
        if module.settings.minutes and module.progress(trainer.global_step) >= 1:
            trainer.should_stop = True


class StoppedError(Exception):
    """The run was stopped from outside, after a checkpoint was written."""


class StopOnSignal(Callback):  # type: ignore[misc]
    """Finish the step on Ctrl-C (or SIGTERM), write `last` and raise `StoppedError`; a second Ctrl-C ends it at once.

    Lightning itself would break off wherever it is, perhaps in the middle of the optimiser's step, and write nothing.
    """

    SIGNALS = (signal.SIGINT, signal.SIGTERM)

    def __init__(self, last: Path) -> None:
        self.last = last
        self.requested = False
        # Taken now: when the training starts, Lightning has put one of its own in place.
        self.before = {number: signal.getsignal(number) for number in self.SIGNALS}

    def on_train_start(self, trainer: lightning.Trainer, module: Any) -> None:
        """Handle the signals from here on."""
        if _in_main_thread():
            for number in self.SIGNALS:
                signal.signal(number, self._ask)

    def _ask(self, number: int, frame: Any) -> None:
        if self.requested and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.requested = True

    def on_train_batch_end(self, trainer: lightning.Trainer, module: Any, *args: Any) -> None:
        """Stop after the step in which a signal came."""
        if self.requested:
            trainer.save_checkpoint(self.last)
            raise StoppedError

    def restore(self) -> None:
        """Put the handlers back that were there before."""
        for number, handler in self.before.items():
            if handler is not None and _in_main_thread():  # None: not installed from Python
                signal.signal(number, handler)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


class ExactMatch(Callback):  # type: ignore[misc]
    """Measure after each validation the share of held-out pairs that greedy decoding answers token for token."""

    def __init__(self, score: Callable[[Transformer], float]) -> None:
        self.score = score

    def on_validation_epoch_end(self, trainer: lightning.Trainer, module: Any) -> None:
        """Decode the sample and log the share."""
        if not trainer.sanity_checking:
            module.log("val_exact", self.score(module.model), prog_bar=True)


class TrainingLog(Callback):  # type: ignore[misc]
    """Write `log.csv`: a row every `every` steps and one after each validation; a resumed run goes on with it.

    `loss` is the mean over the steps since the last row, `seconds` is training time including validation and earlier
    sessions, and `tokens_per_second` counts source and target tokens without padding and without validation time.
    """

    COLUMNS = ("step", "seconds", "loss", "lr", "tokens_per_second", "val_loss", "val_exact", "val_accepted")

    def __init__(self, path: Path, *, done: int, every: int = 50) -> None:
        self.path, self.done, self.every = path, done, every

    def on_train_start(self, trainer: lightning.Trainer, module: Any) -> None:
        """Write the header, and the rows up to the step from which the run goes on."""
        old = self._rows() if self.done else []
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, self.COLUMNS, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(old)
        write_whole(self.path, text.getvalue())
        self._mark(module)

    def _rows(self) -> list[dict[str, str]]:
        """Return what the log held up to the step from which the run goes on."""
        if not self.path.exists():
            return []
        whole = self.path.read_text(encoding="utf-8").rpartition("\n")[0]  # a full disk may have left half a row
        rows = csv.DictReader(whole.splitlines())
        return [row for row in rows if row["step"].isdecimal() and int(row["step"]) <= self.done]

    def _mark(self, module: Any) -> None:
        self.loss: Any = 0.0
        self.count = 0
        self.since, self.tokens = module.seconds(), module.tokens

    def on_train_batch_start(self, trainer: lightning.Trainer, module: Any, *args: Any) -> None:
        """Remember the learning rate of the step."""
        self.lr = trainer.optimizers[0].param_groups[0]["lr"]  # the scheduler is a step ahead later

    def on_train_batch_end(self, trainer: lightning.Trainer, module: Any, outputs: Any, *args: Any) -> None:
        """Add up the loss, and write a row if it is time."""
        # A sum on the device: reading every loss would make a GPU wait at every step.
        self.loss = self.loss + outputs["loss"].detach().double()
        self.count += 1
        step = trainer.global_step
        if step % self.every == 0 or step == trainer.max_steps or trainer.should_stop:
            self._report(trainer, module)

    def _report(self, trainer: lightning.Trainer, module: Any) -> None:
        loss = float(self.loss) / self.count
        if not math.isfinite(loss):
            raise FloatingPointError(
                f"the loss is {loss} at step {trainer.global_step}; "
                f"lower lr ({module.settings.lr}) or clip ({module.settings.clip}), or lengthen warmup"
            )
        speed = (module.tokens - self.tokens) / max(1e-9, module.seconds() - self.since)
        self._write(trainer, module, loss=loss, lr=self.lr, tokens_per_second=round(speed))
        module.log_dict({"loss": loss, "tokens_per_second": speed}, prog_bar=True)
        self._mark(module)

    def on_validation_start(self, trainer: lightning.Trainer, module: Any) -> None:
        """Stop the clock of the speed."""
        self.paused = module.seconds()

    def on_validation_end(self, trainer: lightning.Trainer, module: Any) -> None:
        """Write a row of the validation."""
        measured = {name: float(value) for name, value in trainer.callback_metrics.items() if name.startswith("val_")}
        self._write(trainer, module, **measured)
        self.since += module.seconds() - self.paused

    def _write(self, trainer: lightning.Trainer, module: Any, **values: float) -> None:
        row = {"step": trainer.global_step, "seconds": round(module.seconds(), 1), **values}
        with self.path.open("a", newline="", encoding="utf-8") as file:
            csv.DictWriter(file, self.COLUMNS).writerow(row)


class AtomicCheckpointIO(TorchCheckpointIO):  # type: ignore[misc]
    """Write checkpoints that are there whole or not at all, even where the disk fills up."""

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        """Write beside the file, then put it in place.

        Raises:
            OSError: saying what to do about a full disk.
        """
        file = Path(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        partial = file.with_name(file.name + ".partial")
        try:
            with partial.open("wb") as out:
                torch.save(checkpoint, out)
                out.flush()
                os.fsync(out.fileno())
            partial.replace(file)
        except (OSError, RuntimeError) as error:
            # torch reports a full disk as a RuntimeError about its zip writer
            raise OSError(
                f"{file} could not be written ({error}); is the disk full? "
                f"Free some space, then resume from the newest checkpoint in {file.parent}"
            ) from error
        finally:
            partial.unlink(missing_ok=True)
