"""The loop of a training run: steps, schedule, log, validation and checkpoints, stopped and resumed at any step."""

import json
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol

import torch
from torch import Tensor

from chemspec.settings import TrainSettings
from chemspec.system.files import write_text_atomic
from chemspec.system.locks import lock_folder
from chemspec.system.threads import set_torch_threads
from chemspec.train.checkpoints import LAST, numbered_checkpoints, read_checkpoint, write_checkpoint
from chemspec.train.log import TrainingLog
from chemspec.train.optim import learning_rate_share
from chemspec.types import Progress, Tell, ignore

SAVE_EVERY = 600.0  # seconds between two `last.ckpt` between validations: the most that a crash costs
# What a resumed run must have in common with its beginning: inputs, and the settings that determine the n-th batch.
FIXED = ("target", "data", "tokens", "seed", "holdout")


class Trainee(Protocol):
    """What the loop trains: batches, a step, a validation, and the state from which a step follows."""

    settings: TrainSettings

    def batches(self, done: int) -> Iterator[Any]:
        """Return the endless batches from step `done` on."""

    def take_step(self, batch: Any, rate: float, progress: float) -> Tensor:
        """Take a step; returns the mean loss in nats. `progress`: completed share of the run."""

    def count_tokens(self, batch: Any) -> Any:
        """Return the number of tokens of a batch, without padding."""

    def validate(self) -> dict[str, float]:
        """Return the validation loss, `val_loss`, and other measurements of the log."""

    def weights(self) -> dict[str, Tensor]:
        """Return the trained weights by name, each with the prefix `model.`."""

    def state(self) -> dict[str, Any]:
        """Return what a step depends on besides the weights."""

    def restore(self, saved: dict[str, Any]) -> None:
        """Restore weights and state from a checkpoint."""


def run(
    trainee: Trainee,
    out: Path,
    description: Mapping[str, Any],
    *,
    resume: Path | None,
    tell: Tell = ignore,
    progress: Progress = ignore,
) -> int:
    """Train until the steps or the minutes are over; returns the number of steps.

    Writes `checkpoints`, `log.csv` and, with this description, `settings.json` to `out`. A run to resume must have the
    same `FIXED` values. Raises LockedError if another process trains there, and KeyboardInterrupt on Ctrl-C, after
    `checkpoints/last.ckpt` was written. `progress` is called with the number of steps, and how many there will be.
    """
    settings = trainee.settings
    whole = {**description, "train": asdict(settings)}
    _check_folder(out, resume, whole)
    out.mkdir(parents=True, exist_ok=True)
    with lock_folder(out), set_torch_threads(settings.threads or torch.get_num_threads()):
        write_text_atomic(out / "settings.json", json.dumps(whole, indent=1))
        loop = _Loop(trainee, out, resume, tell, progress)
        try:
            with stop_on_signal() as stop:
                loop.take_steps(stop)
        except KeyboardInterrupt as error:
            resumable = f"; {loop.last} resumes it" if loop.last.exists() else ""
            raise KeyboardInterrupt(f"stopped after step {loop.step}{resumable}") from error
    return loop.step


class _Loop:
    """A session of a run, from its beginning or a checkpoint."""

    def __init__(self, trainee: Trainee, out: Path, resume: Path | None, tell: Tell, progress: Progress) -> None:
        self.trainee, self.settings, self.tell, self.progress = trainee, trainee.settings, tell, progress
        self.last = out / "checkpoints" / LAST
        saved: dict[str, Any] = read_checkpoint(resume) if resume else {"global_step": 0, "seconds": 0.0}
        self.step = int(saved["global_step"])
        self.random: dict[str, Tensor] = saved.get("random", {})
        if resume:
            trainee.restore(saved)
            tell(f"goes on after step {self.step}")
        self.began = time.monotonic() - saved["seconds"]
        self.saved_at = saved["seconds"]
        self.log = TrainingLog(out / "log.csv", self.settings, self.step, saved["seconds"])

    @property
    def seconds(self) -> float:
        """Seconds of the run, those of earlier sessions included."""
        return float(time.monotonic() - self.began)

    def share(self, seconds: float) -> float:
        """Return the completed share of the run by steps or by time, whichever is larger."""
        by_time: float = seconds / 60 / self.settings.minutes if self.settings.minutes else 0.0
        return max(self.step / self.settings.steps, by_time)

    def take_steps(self, stop: SimpleNamespace) -> None:
        """Take the steps that are left."""
        settings, log = self.settings, self.log
        batches, share = self.trainee.batches(self.step), self.share(self.seconds)
        self._restore_random()
        while share < 1:
            batch, rate = next(batches), settings.lr * learning_rate_share(self.step, share, settings)
            log.add(self.trainee.take_step(batch, rate, share), self.trainee.count_tokens(batch))
            self.step += 1
            seconds = self.seconds
            share = self.share(seconds)
            is_validated = self.step % settings.validate_every == 0
            if self.step % log.every == 0 or share >= 1:
                log.write_training_row(self.step, seconds, rate)
                self.progress(self.step, max(self.step, round(self.step / share)))
            if is_validated:
                self._save(self.last.with_name(f"step={self.step}.ckpt"))
                for older in numbered_checkpoints(self.last.parent)[: -settings.keep]:
                    older.unlink()
            if is_validated or stop.requested or seconds - self.saved_at > SAVE_EVERY:
                self._save(self.last)
            if stop.requested:
                raise KeyboardInterrupt
            if is_validated or share >= 1:
                self._validate(seconds)
        self._save(self.last)

    def _validate(self, began: float) -> None:
        measured = self.trainee.validate()
        self.log.write_validation_row(self.step, began, ended := self.seconds, measured)
        words = f"loss {self.log.last_loss:.4f}, validation {measured['val_loss']:.5f}"
        self.tell(f"step {self.step} after {ended:.0f} s: {words}")

    def _save(self, file: Path) -> None:
        random = {"cpu": torch.get_rng_state()}
        if torch.cuda.is_available():
            random["cuda"] = torch.cuda.get_rng_state()
        self.saved_at = self.seconds
        counters = {"global_step": self.step, "seconds": self.saved_at, "random": random}
        write_checkpoint(file, {**counters, "state_dict": self.trainee.weights(), **self.trainee.state()})

    def _restore_random(self) -> None:
        if self.random:
            torch.set_rng_state(self.random["cpu"])
            if "cuda" in self.random and torch.cuda.is_available():
                torch.cuda.set_rng_state(self.random["cuda"])


@contextmanager
def stop_on_signal() -> Iterator[SimpleNamespace]:
    """Note Ctrl-C or SIGTERM in `requested`, so that the step is finished; a second Ctrl-C ends it at once."""
    stop = SimpleNamespace(requested=False)

    def note(number: int, _: Any) -> None:
        if stop.requested and number == signal.SIGINT:
            raise KeyboardInterrupt
        stop.requested = True

    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _check_folder(out: Path, resume: Path | None, description: Mapping[str, Any]) -> None:
    """Raise FileExistsError for a folder with another run, ValueError for a run with other inputs."""
    if resume is None:
        if any((out / "checkpoints").glob("*.ckpt")):
            raise FileExistsError(
                f"{out} already contains a training run; resume it from {out / 'checkpoints' / LAST}, "
                "or choose another folder"
            )
        return
    file = out / "settings.json"
    stored = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    before, now = ({**values, **values.get("train", {})} for values in (stored, description))
    for name in FIXED:
        if name in before and before[name] != now.get(name):
            raise ValueError(
                f"{out} was trained with {name} {before[name]}, not {now.get(name)}; choose another folder"
            )
