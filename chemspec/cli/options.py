"""Options and groups of options shared by commands, and functions that parse and load what they name."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chemspec import settings, tasks
from chemspec.cli import show
from chemspec.plugins import DECODERS, DRAFTERS
from chemspec.settings import DecodeSettings, Task
from chemspec.tasks import TASKS

if TYPE_CHECKING:  # the engine takes seconds to import; --help should not
    from chemspec.engine.engine import Engine
    from chemspec.evaluation.accuracy import KnownReaction

DEFAULT = DecodeSettings()


def option(text: str, *names: str, **more: Any) -> Any:
    """Return a Typer option with this help text."""
    return typer.Option(*names, help=text, **more)


def parse_duration(text: str | float) -> float:
    """Return the seconds of a duration such as 50ms, 5s or 2 (seconds)."""
    match = re.fullmatch(r"(\d+(?:\.\d*)?|\.\d+)\s*(ms|s|min)?", str(text).strip())
    seconds = float(match[1]) * {"ms": 0.001, "min": 60.0}.get(match[2] or "s", 1.0) if match else 0.0
    if not 0 < seconds < float("inf"):
        raise typer.BadParameter(f"{text!r} is no duration; give one such as 50ms or 5s")
    return seconds


TaskOption = Annotated[str, option(f"{tasks.task_questions()}.", "--task", "-t")]
ModelOption = Annotated[
    str,
    option(
        "Model: folder, checkpoint, installed name, or id of a downloaded Hugging Face model; default: the task's.",
        "--model",
        "-m",
    ),
]
NOption = Annotated[int, option("Number of predictions per query.", "--n", "-n")]
DecoderOption = Annotated[
    str,
    option(
        f"Decoder: auto, {', '.join(DECODERS)}; auto: greedy for -n 1, else beam. Also file.py:NAME or module:NAME, a "
        "DecoderSpec."
    ),
]
DrafterOption = Annotated[
    str,
    option(
        f"Drafting method: {', '.join(DRAFTERS)}; does not change the output of exact decoders. Also file.py:NAME or "
        "module:NAME, a function that proposes drafts."
    ),
]
ExactOption = Annotated[
    bool,
    option(
        "--exact: only decoders that reproduce standard decoding; --relaxed: also approximate ones.",
        "--exact/--relaxed",
    ),
]
BatchOption = Annotated[int, option("Queries decoded together.")]
LengthOption = Annotated[int, option("Maximum length of a prediction in tokens.")]
DtypeOption = Annotated[str, option("Precision: auto, fp32, int8, bf16 or fp16.")]
DeviceOption = Annotated[str, option("Device: auto, cpu, cuda, cuda:1, ...; to predict a file also cuda:all.")]
ThreadsOption = Annotated[int, option("CPU threads; 0: all cores.")]
RuntimeOption = Annotated[str, option("Runtime: auto, native, torch, graphs or triton.")]
TemplateOption = Annotated[str, option("Prompt template of an imported model, with {query} for the SMILES.")]
JsonOption = Annotated[bool, option("Print one JSON document as the last line.", "--json")]
AugmentOption = Annotated[int, option("Test-time augmentation: SMILES variants per query, merged (1: off).")]
DistinctOption = Annotated[
    bool, option("List distinct valid molecules other than the query; widens the search to find -n.", "--distinct")
]
ColumnOption = Annotated[str, option('Input column with the SMILES; "a>>b" joins two columns.')]
StockOption = Annotated[
    list[str] | None,
    option(
        "Building blocks: a file of SMILES or InChIKeys, with or without prices, or a built-in list; repeatable.",
        "--stock",
        "-s",
    ),
]
KeepOption = Annotated[bool, option("Store the numbers in the model folder, for its card.", "--keep")]
AllowedHostOption = Annotated[
    list[str] | None,
    option("Additional host name of this server, such as a proxy's; repeatable; * allows any.", "--allowed-host"),
]
SourceOption = Annotated[Path | None, option("Folder with the reaction CSVs.", "--source", envvar="CHEMSPEC_DATA")]
ShadowOption = Annotated[
    float,
    option(
        "Fraction of the questions that idle devices decode again without drafts, to measure the speed-up and compare "
        "the answers, such as 0.05; different answers are stored in CHEMSPEC_HOME; 0: none.",
        min=0,
        max=1,
    ),
]
PreparedDataOption = Annotated[Path | None, option("Folder written by `chemspec data`; default data/<task>.", "--data")]
SampleSeedOption = Annotated[int, option("Random seed for sampling queries.")]
SampleSizeOption = Annotated[int, option("Number of validation queries, sampled at random; 0: all.")]
RowLimitOption = Annotated[int, option("Maximum number of rows read from each file, for a trial run (0: all).")]
ProcessesOption = Annotated[int, option("Number of processes.")]
PredictionsOption = Annotated[Path | None, option("File for the predictions (.jsonl); resumable.")]


@dataclass(frozen=True, kw_only=True)
class Hardware:
    """Where a model runs, and with which precision."""

    dtype: DtypeOption = "auto"
    device: DeviceOption = "auto"
    threads: ThreadsOption = 0

    def load(self, task: str, model: str, **options: Any) -> Engine:
        """Load a model; see `load_engine`."""
        return load_engine(task, model, **vars(self), **options)


@dataclass(frozen=True, kw_only=True)
class Runtime(Hardware):
    """Where and how a model runs."""

    runtime: RuntimeOption = "auto"


@dataclass(frozen=True, kw_only=True)
class ImportedRuntime(Runtime):
    """Where and how a model of any format runs."""

    template: TemplateOption = ""


@dataclass(frozen=True, kw_only=True)
class Decoding:
    """Options of decoding, named like the fields of `DecodeSettings`."""

    n: NOption = DEFAULT.n
    decoder: DecoderOption = "auto"
    drafter: DrafterOption = DEFAULT.drafter
    exact: ExactOption = True
    batch_size: BatchOption = DEFAULT.batch_size
    max_len: LengthOption = DEFAULT.max_len
    augment: AugmentOption = DEFAULT.augment
    distinct: DistinctOption = DEFAULT.distinct

    def settings(self, **changes: Any) -> DecodeSettings:
        """Return the settings, some of them changed."""
        return build_decode_settings(**{**vars(self), **changes})


NO_DATA = """no reaction data; give --source FOLDER or set CHEMSPEC_DATA. The data come from Lowe's text mining of US \
patents (CC0) and are not part of chemspec. FOLDER holds gzipped CSVs with a header: retro_train, retro_val and \
retro_test.csv.gz (USPTO-50K; columns product, reactants, and for training mapped_rxn) and forward_stereo_train, \
forward_val and forward_test.csv.gz (USPTO-MIT; columns reactants_and_reagents, main_product, and for training \
core_reactants, mapped_core_rxn). See assets/docs/models.md"""


def require_data_folder(source: Path | None) -> Path:
    """Return the folder given by --source or CHEMSPEC_DATA.

    Raises:
        ValueError: if none is given; says where the data come from.
    """
    if source is None:
        raise ValueError(NO_DATA)
    return source


def parse_task(name: str) -> Task:
    """Return the task with this name; ValueError if there is none."""
    if name not in TASKS:
        raise ValueError(f"no task {name!r}; there are {tasks.task_names()}")
    return TASKS[name].name


def resolve_task(task: str, model: str) -> Task | None:
    """Return the requested task, else that of the model; None if it is unknown until the model is loaded."""
    from chemspec.engine.registry import task_of_model

    return parse_task(task) if task else task_of_model(model)


def build_decode_settings(decoder: str, n: int, exact: bool, **others: Any) -> DecodeSettings:
    """Return decoding settings; a relaxed decoder requires `exact` to be false."""
    if "drafter" in others:
        others["drafter"] = DRAFTERS.load(others["drafter"])
    return settings.decode_settings(DECODERS.load(decoder), n, exact=exact, remedy="add --relaxed", **others)


def load_engine(task: str, model: str, **options: Any) -> Engine:
    """Load the requested model, or the task's default; ValueError if it was trained for another task."""
    from chemspec.engine.engine import Engine

    kind: Any = Engine
    if options.get("device") == "cuda:all":
        from chemspec.engine.pool import EnginePool as kind  # noqa: N813

    task_name = parse_task(task) if task else None
    engine: Engine = kind.load(model or task_name or parse_task(task), task=task_name, **options)
    if task_name and engine.task != task_name:
        raise ValueError(
            f"model {engine.name!r} is a {engine.task} model, not one for {task}; choose another with --model"
        )
    if engine.confidence_problem:
        show.print_note(f"no confidence: {engine.confidence_problem}")
    return engine


def read_test_reactions(
    source: Path | None, task: str, part: str = "test", remedy: str = "", **which: Any
) -> list[KnownReaction]:
    """Read reactions of the task's test or validation set ("val"), the latter without those of a test set.

    `remedy` is that of `find_test_file`, `which` are limit and seed of `accuracy.read_known_reactions`.
    """
    from chemspec.evaluation import accuracy

    file = find_test_file(source, task, remedy)
    file = file.with_name(file.name.replace("_test.", f"_{part}."))
    return accuracy.read_known_reactions(
        file, parse_task(task), leave_out=("overlaps_test",) if part == "val" else (), **which
    )


def find_test_file(source: Path | None, task: str, remedy: str) -> Path:
    """Return a task's standard test file; a ValueError without one, with the advice `remedy`, or another task."""
    spec = TASKS[parse_task(task)]
    if not spec.test:
        able = " or ".join(entry.name for entry in TASKS.values() if entry.test)
        remedy = remedy or f"this command needs one, as there is for {able}"
        raise ValueError(f"there is no standard test set for {spec.name}; {remedy}")
    return require_data_folder(source) / spec.test


def split_words(text: str) -> tuple[str, ...]:
    """Split a comma-separated list."""
    return tuple(word.strip() for word in text.split(",") if word.strip())


def load_drafters(text: str) -> tuple[str, ...]:
    """Return the names in a comma-separated list of drafters; those at file.py:NAME or module:NAME are loaded."""
    return tuple(map(DRAFTERS.load, split_words(text)))


def parse_integers(option: str, text: str) -> tuple[int, ...]:
    """Parse a comma-separated list of integers; a ValueError names the option."""
    try:
        return tuple(map(int, text.split(",")))
    except ValueError:
        raise ValueError(f"--{option} is {text!r}; give numbers such as 5,10,25") from None


def check_parent_folders(*files: Path | None) -> None:
    """Raise a ValueError for output files in missing folders, before any work is done."""
    for file in files:
        if file is not None and not file.absolute().parent.is_dir():
            raise ValueError(f"{file}: there is no folder {file.parent}; make it first")


def command_line() -> str:
    """Return the command as typed, to record how a measurement was made."""
    program = f"python {sys.argv[0]}" if sys.argv[0].endswith(".py") else "chemspec"
    return " ".join([program, *sys.argv[1:]])


def store_measurements(folder: Path, names: list[str], digest: str, measured: dict[str, Any]) -> None:
    """Store measurements in the model folder's evaluation.json, under each name."""
    from datetime import date

    from chemspec import evaluation

    for name in names:
        evaluation.store_measurement(folder, name, measured, digest=digest, command=command_line(), today=date.today())
    show.print_note(f"{folder / evaluation.MEASUREMENTS_FILE}: {', '.join(names)}")
