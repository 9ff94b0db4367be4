"""The log of a training run: `log.csv`, which a resumed run continues."""

import csv
import io
import math
from pathlib import Path
from typing import Any

from chemspec.settings import TrainSettings
from chemspec.system.files import write_text_atomic


class TrainingLog:
    """Write `log.csv`: a row every `every` steps and one after each validation.

    `loss` is the mean over the steps since the last row, `seconds` is training time including validation and earlier
    sessions, and `tokens_per_second` counts source and target tokens without padding and without validation time.
    """

    COLUMNS = ("step", "seconds", "loss", "lr", "tokens_per_second", "val_loss", "val_exact", "val_accepted")

    def __init__(self, path: Path, settings: TrainSettings, done: int, seconds: float) -> None:
        """Write the header, and the rows up to step `done`, from which the run is resumed, after some seconds."""
        self.path, self.settings = path, settings
        self.every = min(50, settings.validate_every)
        rows: list[dict[str, str]] = []
        if done and path.exists():
            whole = path.read_text(encoding="utf-8").rpartition("\n")[0]  # a full disk may have truncated a row
            rows = list(csv.DictReader(whole.splitlines()))
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, self.COLUMNS, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(row for row in rows if row["step"].isdecimal() and int(row["step"]) <= done)
        write_text_atomic(path, text.getvalue())
        self.last_loss = math.nan
        self._reset_sums(seconds)

    def _reset_sums(self, seconds: float) -> None:
        # On the device: reading every loss would synchronise a GPU at every step.
        self._loss: Any = 0.0
        self._tokens: Any = 0
        self._count = 0
        self._since = seconds

    def add(self, loss: Any, tokens: Any) -> None:
        """Add the loss and the number of tokens of a step."""
        self._loss = self._loss + loss.detach().double()
        self._tokens = self._tokens + tokens
        self._count += 1

    def write_training_row(self, step: int, seconds: float, rate: float) -> None:
        """Write a row on the steps since the last one; FloatingPointError if their loss is no number."""
        loss = float(self._loss) / self._count
        if not math.isfinite(loss):
            settings = self.settings
            raise FloatingPointError(
                f"the loss is {loss} at step {step}; "
                f"lower lr ({settings.lr}) or clip ({settings.clip}), or lengthen warmup"
            )
        speed = int(self._tokens) / max(1e-9, seconds - self._since)
        self._append_row(step, seconds, loss=loss, lr=rate, tokens_per_second=round(speed))
        self.last_loss = loss
        self._reset_sums(seconds)

    def write_validation_row(self, step: int, began: float, ended: float, measured: dict[str, float]) -> None:
        """Write a row with what a validation measured, which took from `began` to `ended`."""
        self._append_row(step, ended, **measured)
        self._since += ended - began

    def _append_row(self, step: int, seconds: float, **values: float) -> None:
        with self.path.open("a", newline="", encoding="utf-8") as file:
            csv.DictWriter(file, self.COLUMNS).writerow({"step": step, "seconds": round(seconds, 1), **values})
