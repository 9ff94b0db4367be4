"""A timed race of two settings, run by run, with progress; any click stops it."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from chemspec.engine.engine import Engine
from chemspec.jobs import job_queue
from chemspec.replay import timing
from chemspec.settings import DecodeSettings
from chemspec.system import host
from chemspec.system.threads import usable_cores
from chemspec.types import DecodeResult
from chemspec.ui.common import queued_engine

# Gets the share done (0 to 1) and one line; it is one Streamlit call, at which a stop takes effect.
Progress = Callable[[float, str], Any]
Lanes = tuple[DecodeSettings, DecodeSettings]  # standard decoding, and the same search with drafts
BUSY = 1.5  # running programs for each core, above which times are doubted


@dataclass(frozen=True)
class Race:
    """Runs of one query under two settings."""

    model: str
    query: str
    lanes: Lanes
    machine: str  # what the times depend on, as one line
    quiet: bool  # whether the machine seems to have done nothing else
    rounds: list[list[DecodeResult]]  # of each lane its results, in order of the rounds
    problem: str = ""  # why it could not be run to its end


def run_race(model: Engine, query: str, lanes: Lanes, progress: Progress) -> Race:
    """Return a race whose runs wait in the queue; `progress` is called before each."""
    total = len(lanes) * timing.REPEATS
    shared = [host.load_average() > BUSY * usable_cores()]

    def decode(search: DecodeSettings, number: int) -> DecodeResult:
        share = max(0, number - 1) / total
        progress(share, f"Run {number} of {total}" if number else "Warming up: one run of each, not counted")
        result = queued_engine.decode_query(model, query, search, waiting=partial(progress, share))
        shared.append(number > 0 and is_shared())
        if result.status != "ok":
            raise ValueError(result.message)
        return result

    rounds: list[list[DecodeResult]] = []
    problem = ""
    try:
        rounds = timing.alternate_runs(lanes, decode)
    except ValueError as error:
        problem = str(error)
    return Race(model.name, query, lanes, describe_machine(model), not any(shared), rounds, problem)


def is_shared() -> bool:
    """Return whether other visitors are in the queue, or a batch job is running."""
    return len(queued_engine.shared_queue()) > 0 or bool(job_queue.running_job())


def describe_machine(model: Engine) -> str:
    """Return what timings depend on: machine, model and time of day, as one line."""
    when = datetime.now().astimezone().strftime("%d %b %Y, %H:%M %Z")
    cores = usable_cores()
    device = f"{model.device}, {model.dtype}, {model.runtime}, {model.threads} thread{'s' * (model.threads > 1)}"
    machine = f"{host.processor_name()}, {cores} core{'s' * (cores > 1)}"
    return f"Wall clock on the server: {machine} · model {model.name} on {device} · {when}"
