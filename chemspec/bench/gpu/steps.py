"""The half hour itself: commands one after the other, each within its own limit; none stops those after it.

`prove`, `train` (forward, retro) and `measure` are what a lent GPU is given, a command of ten minutes each; `rehearse`
runs all of them in small on this machine, with random weights and random reactions, and in an environment where RDKit,
Streamlit and pandas cannot be imported, as on the lent machine.

A kit is a folder that travels there: `forward.json`, `retro.json` (`answers.KnownAnswers`), `models/forward`,
`models/retro`, `forward.xz`, `retro.xz` (`packing`). What later steps need is copied to a folder that lasts as long as
the machine is held. What is to come back lies in the folder OUT, in files of at most 15 MB.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from chemspec.settings import Task

PART = 15 * 2**20  # bytes of a file that may come back
LAST_WORDS = 25.0  # seconds between the signal that a step is over time, and its end
PROGRAM = (sys.executable, "-m", "chemspec.cli")
TASKS: tuple[Task, Task] = ("forward", "retro")


@dataclass(frozen=True)
class StepResult:
    """How a step went: its exit status, 124 where it ran past its limit, and its seconds."""

    name: str
    status: int
    seconds: float
    limit: float


@dataclass
class Steps:
    """Runs steps and keeps one log.

    Attributes:
        kit: the folder that has travelled.
        out: the folder that comes back.
        keep: the folder that lasts between the commands.
        environment: what steps find in theirs, beside this process's own.
        patience: seconds between the signal that a step is over time, and its end.
    """

    kit: Path
    out: Path
    keep: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    patience: float = LAST_WORDS
    done: list[StepResult] = field(default_factory=list)

    def __post_init__(self) -> None:
        for folder in (self.out, self.keep):
            folder.mkdir(parents=True, exist_ok=True)
        self._began = time.monotonic()

    def step(self, name: str, limit: float, *command: str | Path) -> bool:
        """Run a command, log what it says, and return whether it went well within its limit."""
        self.tell(f"=== {name} (at {time.monotonic() - self._began:.0f} s)")
        began = time.monotonic()
        said = self.keep / f"{name}.txt"
        with said.open("wb") as text:
            try:
                process = subprocess.Popen(
                    list(map(str, command)),
                    stdout=text,
                    stderr=subprocess.STDOUT,
                    env={**os.environ, **self._variables(), **self.environment},
                    start_new_session=True,
                )
                status = self._wait(process, limit)
            except OSError as error:
                text.write(str(error).encode())
                status = 127
        self._log(said.read_bytes()[-60_000:].decode(errors="replace"))
        self.done.append(StepResult(name, status, time.monotonic() - began, limit))
        self.tell(f"{name}: {'fine' if status == 0 else f'status {status}'} after {self.done[-1].seconds:.1f} s")
        return status == 0

    def program(self, name: str, limit: float, *words: str | Path) -> bool:
        """Run a command of this program."""
        return self.step(name, limit, *PROGRAM, *words)

    def tell(self, text: str) -> None:
        """Log and print a line."""
        self._log(text)
        print(text, flush=True)  # noqa: T201

    def finish(self) -> list[StepResult]:
        """Write the results beside the log, and return them."""
        rows = [asdict(one) for one in self.done]
        (self.out / "steps.json").write_text(json.dumps(rows, indent=1), encoding="utf-8")
        return self.done

    def _log(self, text: str) -> None:
        with (self.out / "log.txt").open("a", encoding="utf-8") as log:
            log.write(text.rstrip("\n") + "\n")

    def _variables(self) -> dict[str, str]:
        return {
            "PYTHONUNBUFFERED": "1",
            "CHEMSPEC_CACHE": str(self.keep / "cache"),
            "TORCHINDUCTOR_CACHE_DIR": str(self.keep / "inductor"),
            "TRITON_CACHE_DIR": str(self.keep / "triton"),
        }

    def _wait(self, process: subprocess.Popen[bytes], limit: float) -> int:
        """Wait for a command; past its limit ask it to end, as training does with a checkpoint, and then end it."""
        try:
            return process.wait(limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(self.patience)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return 124


@dataclass(frozen=True)
class Scale:
    """How large the steps are.

    Attributes:
        device: what computes.
        runtimes: that are compared.
        int8: the runtime whose passes are timed in that precision.
        recipes: of each task: a name, or a file.
        batches: queries at a time, where several are compared.
        limit, beams: queries of a case.
        seconds: of a case.
        smoke: training steps of the trial.
        minutes: of both trainings.
        shapes: of the passes that are timed; "" takes all.
        slow: by how much the limits of steps are multiplied.
    """

    device: str = "cuda"
    runtimes: str = "torch,graphs,triton"
    int8: str = "triton"
    recipes: Mapping[str, str] = field(default_factory=lambda: {"forward": "forward-mit-gpu", "retro": "retro-all-gpu"})
    batches: tuple[int, int] = (32, 256)
    limit: int = 200
    seconds: float = 8.0
    smoke: int = 150
    minutes: float = 8.3
    shapes: str = ""
    slow: float = 1.0

    @property
    def fast(self) -> str:
        """The runtimes whose speed counts."""
        return ",".join(name for name in self.runtimes.split(",") if name != "torch") or self.runtimes


FULL = Scale()


def prove(steps: Steps, scale: Scale = FULL) -> list[StepResult]:
    """Works? Right? How fast is a pass? Does training start? (480 s)."""
    kit, keep = steps.kit, steps.keep
    for source in (kit / "models", *(kit / f"{task}.json" for task in TASKS)):
        with contextlib.suppress(OSError):
            if source.is_dir():
                shutil.copytree(source, keep / source.name, dirs_exist_ok=True)
            else:
                shutil.copy2(source, keep)
    steps.program("facts", 30 * scale.slow, "dev", "gpu", "facts")
    tests = Path("tests") / "test_gpu.py"
    if tests.is_file():
        pytest = (
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "no:cacheprovider",
            "-n",
            "0",
            *("-W", "ignore", "-W", "error:a pass could not be recorded"),
            "-q",
        )
        steps.step("tests", 110 * scale.slow, *pytest, tests)
    for task in TASKS:
        few = replace(scale, limit=min(40, scale.limit))
        _check(steps, few, f"right-{task}", 75, task, "greedy", f"1,{scale.batches[0]}", "none,auto", scale.runtimes)
    unpacked = steps.program("unpack", 40 * scale.slow, "dev", "gpu", "unpack", kit / "retro.xz", keep / "data-retro")
    if unpacked:
        trial = ("--recipe", scale.recipes["retro"], "--data", keep / "data-retro", "--out", keep / "smoke")
        steps.program("smoke", 180 * scale.slow, "train", *trial, "--steps", str(scale.smoke))
        _tail(steps, keep / "smoke" / "log.csv", 4)
    _passes(steps, scale, "passes", keep / "models" / "forward")
    return steps.finish()


def train(steps: Steps, task: Task, scale: Scale = FULL) -> list[StepResult]:
    """Train a model for some minutes; its weights come back in parts, also those of a run that was cut off (600 s)."""
    data, run = steps.keep / f"data-{task}", steps.keep / f"run-{task}"
    if not (data / "train.npz").is_file():
        steps.program("unpack", 40 * scale.slow, "dev", "gpu", "unpack", steps.kit / f"{task}.xz", data)
    limit = (60 * scale.minutes + 55) * scale.slow
    recipe = ("--recipe", scale.recipes[task], "--data", data, "--out", run)
    steps.program(f"train-{task}", limit, "train", *recipe, "--minutes", f"{scale.minutes:g}", "--threads", "0")
    _tail(steps, run / "log.csv", 12)
    if not (run / "model" / "model.safetensors").is_file():
        steps.program(f"export-{task}", 40 * scale.slow, "dev", "gpu", "export", run, data / "vocab.json")
    _bring_back(steps, run, task)
    return steps.finish()


def measure(steps: Steps, scale: Scale = FULL) -> list[StepResult]:
    """The most wanted numbers first: one query at a time, many, and passes of the model just trained (240 s)."""
    for task in TASKS:
        _check(steps, scale, f"speed-{task}", 100, task, "greedy,beam10", "1", "none,auto,mixed", scale.fast)
    _check(steps, scale, "many", 60, "forward", "greedy", str(scale.batches[1]), "none,mixed", scale.fast)
    model = steps.keep / "run-forward" / "model"
    if model.is_dir():
        _passes(steps, scale, "size", model)
        _passes(steps, replace(scale, runtimes=scale.int8), "size-int8", model, "--dtype", "int8", limit=30)
    return steps.finish()


def _check(
    steps: Steps,
    scale: Scale,
    name: str,
    limit: float,
    task: str,
    cases: str,
    batches: str,
    drafters: str,
    runtimes: str,
) -> None:
    keep = steps.keep
    words: tuple[str, ...] = ("--device", scale.device, "--cases", cases, "--batches", batches, "--drafters", drafters)
    words += ("--runtimes", runtimes, "--limit", str(scale.limit), "--seconds", f"{scale.seconds:g}")
    out = ("--out", steps.out / "results.jsonl")
    model = keep / "models" / task
    steps.program(name, limit * scale.slow, "dev", "gpu", "check", model, keep / f"{task}.json", *words, *out)


def _passes(steps: Steps, scale: Scale, name: str, model: Path, *more: str, limit: float = 60) -> None:
    words = ("--device", scale.device, "--runtimes", scale.runtimes, "--out", steps.out / "results.jsonl")
    shapes = ("--shapes", scale.shapes) if scale.shapes else ()
    steps.program(name, limit * scale.slow, "dev", "gpu", "passes", model, *words, *shapes, *more)


def _tail(steps: Steps, file: Path, lines: int) -> None:
    if file.is_file():
        steps.tell("\n".join(file.read_text(encoding="utf-8").splitlines()[-lines:]))


def _bring_back(steps: Steps, run: Path, task: str) -> None:
    """Put a model into files that may come back: `cat` joins the weights again."""
    weights = run / "model" / "model.safetensors"
    if not weights.is_file():
        steps.tell(f"no model in {run}; what it has is in {run / 'checkpoints'}")
        return
    content = weights.read_bytes()
    for number, start in enumerate(range(0, len(content), PART)):
        (steps.out / f"{task}.safetensors.{number:02}").write_bytes(content[start : start + PART])
    with tarfile.open(steps.out / f"{task}.tgz", "w:gz") as archive:
        for name in ("model", "settings.json", "log.csv"):
            if (run / name).exists():
                archive.add(run / name, name, filter=lambda one: None if one.name.endswith(".safetensors") else one)
    steps.tell(f"{task} model: {len(content)} bytes, sha256 {hashlib.sha256(content).hexdigest()}")


# --- the rehearsal -----------------------------------------------------------------------------------

ABSENT = ("rdkit", "streamlit", "pandas")  # on the lent machine
SMALL: dict[str, Any] = {
    "batches": (4, 4),
    "limit": 4,
    "seconds": 2.0,
    "smoke": 4,
    "minutes": 0.03,
    "shapes": "1x1,1x4,4x2",
}
RECIPE = """\
task = "{task}"
preset = "tiny"
train_files = ["none.csv.gz"]
tried = false
expectation = "A rehearsal."
[data]
[train]
tokens = 300
steps = 12
warmup = 2
holdout = 8
validate_every = 6
validate_pairs = 2
keep = 1
compile = true
"""


def rehearse(folder: Path, *, slow: float = 1.0) -> list[StepResult]:
    """Run all steps in small on the CPU, in an environment as bare as the lent machine's.

    Args:
        folder: for what is made.
        slow: by how much limits are multiplied, on a busy machine.

    Returns:
        How each step went.
    """
    kit, keep = folder / "kit", folder / "keep"
    recipes = make_kit(kit)
    environment = {
        "PYTHONPATH": os.pathsep.join([str(_absent(folder / "absent")), *_paths()]),
        "CUDA_VISIBLE_DEVICES": "",
        "OMP_NUM_THREADS": "1",
    }
    scale = Scale(device="cpu", runtimes="torch,native", int8="native", recipes=recipes, slow=slow, **SMALL)
    done: list[StepResult] = []
    for name in ("prove", *TASKS, "measure"):
        steps = Steps(kit, folder / "out" / name, keep, environment)
        if name == "prove":
            done += prove(steps, scale)
        elif name == "measure":
            done += measure(steps, scale)
        else:
            done += train(steps, "forward" if name == "forward" else "retro", scale)
    return done


def make_kit(kit: Path) -> dict[str, str]:
    """Write a kit of random weights, reactions and answers; returns a small recipe for each task."""
    import numpy as np

    from chemspec.bench.gpu.answers import TokenModel, know
    from chemspec.bench.gpu.packing import pack
    from chemspec.data.arrays import Pairs, RaggedArray
    from chemspec.model import checkpoint
    from chemspec.testing import tiny_model
    from chemspec.tokenizer import SPECIALS, Tokenizer

    tokenizer = Tokenizer((*SPECIALS, *"CNOFSPBIcnos()=#123-+"))
    random = np.random.default_rng(0)
    recipes: dict[str, str] = {}

    def sequences(count: int) -> list[tuple[int, ...]]:
        return [
            tuple(random.integers(len(SPECIALS), len(tokenizer), size).tolist())
            for size in random.integers(5, 16, count)
        ]

    for number, task in enumerate(TASKS):
        shape: dict[str, Any] = {"d_model": 32, "heads": 4, "feedforward": 64, "encoder_layers": 1, "decoder_layers": 1}
        model = tiny_model(number, len(tokenizer), max_positions=24, **shape).float()
        folder = kit / "models" / task
        checkpoint.save(folder, model, tokenizer, task=task)
        known = TokenModel(folder, device="cpu", dtype="fp32", runtime="torch")
        know(known, sequences(8), {"greedy": 6, "beam10": 2}).save(kit / f"{task}.json")
        with tempfile.TemporaryDirectory() as data:
            Pairs(RaggedArray.pack(sequences(80)), RaggedArray.pack(sequences(80))).save(Path(data) / "train.npz")
            tokenizer.save(Path(data) / "vocab.json")
            pack(Path(data), kit / f"{task}.xz")
        recipe = kit / f"{task}-small.toml"
        recipe.write_text(RECIPE.format(task=task), encoding="utf-8")
        recipes[task] = str(recipe)
    return recipes


def _absent(folder: Path) -> Path:
    """Make modules that cannot be imported."""
    for name in ABSENT:
        (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / name / "__init__.py").write_text(f'raise ModuleNotFoundError("no {name} here", name="{name}")\n')
    return folder


def _paths() -> Sequence[str]:
    root = str(Path(__file__).parents[3])  # of this package, as it is now
    return [root, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
