"""Timed runs one after the other, with progress; any click stops them, and what was measured stays."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from chemspec.engine.engine import Engine
from chemspec.jobs import job_queue
from chemspec.settings import DecodeSettings
from chemspec.system import host
from chemspec.system.threads import usable_cores
from chemspec.types import DecodeResult
from chemspec.ui.common import queued_engine

# Gets the share done (0 to 1) and one line; it is one Streamlit call, at which a stop takes effect.
Progress = Callable[[float, str], Any]
BUSY = 1.5  # running programs for each core, above which times are doubted


@dataclass
class Trial:
    """Runs of one query under several settings; filled by a script that a click ends, and shown by the next one."""

    model: str
    query: str
    settings: tuple[DecodeSettings, ...]
    repeats: int
    machine: str  # what the times depend on, as one line
    load: float = 0.0  # running programs on the machine when the runs began
    # of each setting its results, in order of the rounds
    rounds: list[list[DecodeResult]] = field(default_factory=list)
    shared: bool = False  # whether other visitors were in the queue, or a batch job was running
    refusal: str = ""  # why it could not be run at all, as with drafts that are longer than the drafter can write

    @property
    def quiet(self) -> bool:
        """Whether the machine seems to have done nothing else."""
        return is_quiet(self.load, shared=self.shared)

    @property
    def answered_rounds(self) -> list[list[DecodeResult]]:
        """The results that hold an answer."""
        return [[result for result in results if result.status == "ok"] for results in self.rounds]

    @property
    def problem(self) -> str:
        """Why there are runs without an answer, if there are."""
        failed = (result.message for results in self.rounds for result in results if result.status != "ok")
        return self.refusal or next(failed, "")

    @property
    def done(self) -> int:
        """How many runs were made."""
        return sum(map(len, self.rounds))

    @property
    def total(self) -> int:
        """How many runs there will be."""
        return self.repeats * len(self.settings)


def is_quiet(load: float, *, shared: bool) -> bool:
    """Return whether times measured at this load, and with or without others in the queue, can be believed."""
    return not shared and load <= BUSY * usable_cores()


def is_quiet_now() -> bool:
    """Return whether times measured now can be believed."""
    return is_quiet(host.load_average(), shared=is_shared())


def new_trial(model: Engine, query: str, settings: Sequence[DecodeSettings], *, repeats: int) -> Trial:
    """Return a trial before its first run."""
    rounds: list[list[DecodeResult]] = [[] for _ in settings]
    return Trial(model.name, query, tuple(settings), repeats, describe_machine(model), host.load_average(), rounds)


def run_trial(trial: Trial, model: Engine, progress: Progress) -> None:
    """Fill a trial, round by round, after a warm-up round that does not count."""
    warm = False

    def report(line: str) -> None:
        nonlocal warm
        # In the warm-up the queue may hold a run that this visitor has just stopped; after it, only others.
        trial.shared = trial.shared or (warm and is_shared())
        text = f"Run {trial.done + 1} of {trial.total}"
        if "warming" in line:
            text = "Warming up: one run of each, not counted"
        elif line.startswith("In queue"):
            text = line
        else:
            warm = True
        progress(trial.done / trial.total, text)

    try:
        queued_engine.compare_settings(
            model, trial.query, trial.settings, repeats=trial.repeats, report=report, into=trial.rounds
        )
    except ValueError as error:
        trial.refusal = str(error)


def is_shared() -> bool:
    """Return whether other visitors are in the queue, or a batch job is running."""
    return len(queued_engine.shared_queue()) > 0 or job_queue.running_job() is not None


def describe_machine(model: Engine) -> str:
    """Return what timings depend on: machine, model and time of day, as one line."""
    when = datetime.now().astimezone().strftime("%d %b %Y, %H:%M %Z")
    cores = usable_cores()
    device = f"{model.device}, {model.dtype}, {model.runtime}, {model.threads} thread{'s' * (model.threads > 1)}"
    machine = f"{host.processor_name()}, {cores} core{'s' * (cores > 1)}"
    return f"Wall clock on the server: {machine} · model {model.name} on {device} · {when}"
