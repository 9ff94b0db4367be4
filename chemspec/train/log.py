"""The log of a training run, `log.csv`."""

import csv
import io
import math
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from chemspec.data.arrays import Batch
from chemspec.settings import TrainSettings
from chemspec.system.files import write_text_atomic
from chemspec.tokenizer import PAD


class TrainingLog:
    """Writes rows about the steps since the last one, and about validations; a resumed run continues its log.

    `loss` is the mean over the steps since the last row, `seconds` is training time including validation and earlier
    sessions, and `tokens_per_second` counts source and target tokens without padding and without validation time.
    """

    COLUMNS = ("step", "seconds", "loss", "lr", "tokens_per_second", "val_loss", "val_exact", "val_accepted")

    def __init__(self, path: Path, done: int, seconds: float) -> None:
        """Write the header, and the rows up to the step from which the run is resumed."""
        self.path = path
        rows: list[dict[str, str]] = []
        if done and path.exists():
            whole = path.read_text(encoding="utf-8").rpartition("\n")[0]  # a full disk may have truncated a row
            rows = list(csv.DictReader(whole.splitlines()))
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, self.COLUMNS, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(row for row in rows if row["step"].isdecimal() and int(row["step"]) <= done)
        write_text_atomic(path, text.getvalue())
        self._reset_sums(seconds)

    def _reset_sums(self, seconds: float) -> None:
        self.loss: Any = 0.0  # on the device: reading every loss would synchronise a GPU at every step
        self.tokens = self.count = 0
        self.since = seconds

    def add(self, batch: Batch, loss: Tensor, rate: float) -> None:
        """Add a step: its batch on the host, its loss and its learning rate."""
        self.loss = self.loss + loss.double()
        self.tokens += sum(int(torch.count_nonzero(part != PAD)) for part in batch)
        self.count += 1
        self.rate = rate

    def write_training(self, step: int, seconds: float, settings: TrainSettings) -> dict[str, float]:
        """Write a row about the steps since the last one, and return it; FloatingPointError if the loss is none."""
        loss = float(self.loss) / self.count
        if not math.isfinite(loss):
            raise FloatingPointError(
                f"the loss is {loss} at step {step}; lower lr ({settings.lr}) or clip ({settings.clip}), or lengthen "
                "warmup"
            )
        speed = round(self.tokens / max(1e-9, seconds - self.since))
        row = {"loss": loss, "lr": self.rate, "tokens_per_second": speed}
        self._append_row(step, seconds, row)
        self._reset_sums(seconds)
        return row

    def write_validation(self, step: int, seconds: float, metrics: dict[str, float], pause: float) -> None:
        """Write a row with the metrics of a validation, which took `pause` seconds."""
        self._append_row(step, seconds, metrics)
        self.since += pause

    def _append_row(self, step: int, seconds: float, values: dict[str, float]) -> None:
        with self.path.open("a", newline="", encoding="utf-8") as file:
            csv.DictWriter(file, self.COLUMNS).writerow({"step": step, "seconds": round(seconds, 1), **values})
