"""Make timed runs one after the other, with progress; any click stops them, and what was measured is kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from chemspec import asset_files
from chemspec.engine.engine import Engine
from chemspec.metrics import Spread
from chemspec.settings import DecodeSettings
from chemspec.system import host
from chemspec.system.threads import usable_cores
from chemspec.types import DecodeResult
from chemspec.ui.batch import job_queue
from chemspec.ui.common import queued_engine
from chemspec.ui.speed import timing

Say = Callable[[float, str], Any]  # share done (0 to 1), one line; one Streamlit call, at which a stop takes effect
BUSY = 1.5  # programs at work for each core, above which times are doubted
WARM_UP = 2  # queries of a benchmark that are answered before it starts


@dataclass
class Trial:
    """Runs of one query under several settings; the first `asked` are the visitor's, the others for comparison.

    It is filled while it runs: a click ends the script that fills it, and the next run of the script finds it.

    Attributes:
        rounds: of each setting its results, in order of the rounds.
        where: what the times depend on, as one line.
        load: programs at work on the machine when the runs began.
        others: whether other visitors were seen in the queue, or a batch job at work.
        refusal: why it could not be run at all, as with drafts that are longer than the drafter can write.
    """

    model: str
    query: str
    settings: tuple[DecodeSettings, ...]
    asked: int
    repeats: int
    where: str
    load: float = 0.0
    rounds: list[list[DecodeResult]] = field(default_factory=list)
    others: bool = False
    refusal: str = ""

    @property
    def quiet(self) -> bool:
        """Whether nobody else seems to have used the machine."""
        return quiet(self.load, others=self.others)

    @property
    def good(self) -> list[list[DecodeResult]]:
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
    def wanted(self) -> int:
        """How many runs there will be."""
        return self.repeats * len(self.settings)


@dataclass
class BenchRun:
    """Many queries answered the standard way and with drafts; filled while it runs, as `Trial` is."""

    model: str
    settings: DecodeSettings
    wanted: int
    where: str
    load: float = 0.0
    cases: list[dict[str, Any]] = field(default_factory=list)
    others: bool = False
    unread: int = 0
    refusal: str = ""


def quiet(load: float, *, others: bool = False) -> bool:
    """Return whether times measured at this load, and with or without others in the queue, can be believed."""
    return not others and load <= BUSY * usable_cores()


def start(model: Engine, query: str, settings: Sequence[DecodeSettings], *, asked: int, repeats: int) -> Trial:
    """Return a trial before its first run."""
    rounds: list[list[DecodeResult]] = [[] for _ in settings]
    return Trial(model.name, query, tuple(settings), asked, repeats, where(model), host.load(), rounds)


def run(trial: Trial, model: Engine, say: Say) -> None:
    """Fill a trial, round by round, after a warm-up round that is not kept."""
    warm = False

    def report(line: str) -> None:
        nonlocal warm
        # Whoever is in the queue between two runs of ours is somebody else; but in the warm-up it may be what is left
        # of a run that this visitor has just stopped.
        trial.others = trial.others or (warm and disturbed())
        told = f"Run {trial.done + 1} of {trial.wanted}"
        if "warming" in line:
            told = "Warming up: one run of each, not counted"
        elif line.startswith("Waiting"):
            told = line
        else:
            warm = True
        say(trial.done / trial.wanted, told)

    try:
        queued_engine.compare(
            model, trial.query, trial.settings, repeats=trial.repeats, report=report, into=trial.rounds
        )
    except ValueError as error:
        trial.refusal = str(error)


def disturbed() -> bool:
    """Return whether other visitors are in the queue, or a batch job is at work."""
    return len(queued_engine.turns()) > 0 or job_queue.at_work() is not None


def bench(kept: BenchRun, model: Engine, say: Say) -> None:
    """Fill a benchmark with the first built-in queries that the model can read, after a warm-up."""
    queries = asset_files.bench_queries(model.task)
    usable = [query for query in queries if not model.prepare(query).refusal]
    kept.unread = len(queries) - len(usable)
    pair = (timing.standard(kept.settings), kept.settings)

    def answer(query: str, settings: DecodeSettings, line: str, *, counts: bool = True) -> DecodeResult:
        def report(text: str) -> None:
            kept.others = kept.others or (counts and disturbed())
            say(len(kept.cases) / max(1, kept.wanted), text)

        report(line)
        result = queued_engine.decode(model, query, settings, waiting=report, patient=True)
        report(line)  # a stop takes effect here, as in `queued_engine.compare`
        return result

    try:
        for query in usable[:WARM_UP]:
            for settings in pair:
                answer(query, settings, "Warming up, not counted", counts=False)
        kept.wanted = min(kept.wanted, len(usable))
        chosen = usable[: kept.wanted]
        for number, query in enumerate(chosen):
            line = f"Query {number + 1} of {len(chosen)}"
            if kept.cases:
                line += (
                    f" · median speed-up so far {Spread.from_values(case['speedup'] for case in kept.cases).median:.2f}"
                )
            # Each goes first every other time, so that neither profits from what the other left in the caches.
            order = pair if number % 2 else pair[::-1]
            results = {settings: answer(query, settings, line) for settings in order}
            plain, drafted = (results[settings] for settings in pair)
            if plain.status == drafted.status == "ok":
                kept.cases.append(timing.case(query, plain, drafted))
            else:
                kept.wanted -= 1
    except ValueError as error:
        kept.refusal = str(error)


def where(model: Engine) -> str:
    """Return what timings depend on: machine, model and time of day, as one line."""
    when = datetime.now().astimezone().strftime("%d %b %Y, %H:%M %Z")
    cores = usable_cores()
    device = f"{model.device}, {model.dtype}, {model.runtime}, {model.threads} thread{'s' * (model.threads > 1)}"
    machine = f"{host.processor()}, {cores} core{'s' * (cores > 1)}"
    return f"Wall clock on the server: {machine} · model {model.name} on {device} · {when}"
