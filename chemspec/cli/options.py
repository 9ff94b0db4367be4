"""Options that commands have in common, and what turns these into values."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from chemspec import settings, tasks
from chemspec.cli import show
from chemspec.plugins import DECODERS, DRAFTERS
from chemspec.settings import DecodeSettings, Task
from chemspec.tasks import TASKS

if TYPE_CHECKING:  # the engine takes seconds to import; --help should not
    from chemspec.engine.engine import Engine
    from chemspec.evaluation.accuracy import KnownReaction

Number = TypeVar("Number")
ONE_DRAFT = ("ar", "hierarchy", "spec_drafter", "blockwise")  # drafters that propose one continuation of a prefix
BUILT_IN = ("auto", "mixed", "copy", "attention", "smart", "windows", *ONE_DRAFT, "medusa", "none")


def option(text: str, *names: str) -> Any:
    """Return a command-line option with this help text."""
    return typer.Option(*names, help=text)


TaskOption = Annotated[str, option(f"{tasks.task_questions()}.", "--task", "-t")]
ModelOption = Annotated[
    str,
    option(
        "Folder, checkpoint, installed name or id of a fetched Hugging Face model; default: the task's.",
        "--model",
        "-m",
    ),
]
NOption = Annotated[int, option("Answers, best first.", "--n", "-n")]
DecoderOption = Annotated[str, option(f"auto, {', '.join(DECODERS)}; auto: greedy for one answer, else beam.")]
DrafterOption = Annotated[
    str, option(f"What guesses tokens ahead: {', '.join(DRAFTERS)}; never changes the answers of an exact decoder.")
]
ExactOption = Annotated[bool, option("Allow decoders that may differ from the standard.", "--exact/--relaxed")]
BatchOption = Annotated[int, option("Queries per model call.")]


def _batch(given: str | int) -> int:
    try:
        return AUTO if given == "auto" else int(given)
    except ValueError:
        raise typer.BadParameter(f"{given!r} is neither a number of queries nor auto") from None


AUTO = 1 << 30  # of a batch size: more than there may be
BatchOrAutoOption = Annotated[
    int,
    typer.Option(help="Queries at a time; auto: as many as are fastest here.", parser=_batch, metavar="INTEGER|auto"),
]
LengthOption = Annotated[int, option("Most tokens of an answer.")]
DtypeOption = Annotated[str, option("auto, fp32, int8, bf16 or fp16.")]
DeviceOption = Annotated[str, option("auto, cpu, cuda, cuda:1, ...; to predict a file also cuda:all.")]
ThreadsOption = Annotated[int, option("CPU threads; 0: all cores.")]
RuntimeOption = Annotated[str, option("auto, native, onnx, torch, graphs or triton.")]
TemplateOption = Annotated[str, option("What another program's model reads, {query} being the SMILES.")]
JsonOption = Annotated[bool, option("Machine-readable: the last line is one JSON document.", "--json")]
AugmentOption = Annotated[int, option("Decode so many spellings of each query and merge their answers; 1: off.")]
DistinctOption = Annotated[
    bool,
    option("Only different molecules, none of them invalid or the query; searches wider for -n of them.", "--distinct"),
]
GuideOption = Annotated[
    str,
    option(
        'For retro, what the step has to do, as "break C1-N3; keep C5-C6; only amide": atoms from 0 in the canonical '
        "SMILES; a wrong name lists the right ones. Implies --distinct."
    ),
]
DistinctUnlessOption = Annotated[
    bool | None,
    option(
        "List different molecules only, none of them invalid or the query, and search wider until there are -n; "
        "--no-distinct lists a beam as it is. Default: --distinct for beams without --rules and --length-penalty.",
        "--distinct/--no-distinct",
    ),
]
DraftLengthOption = Annotated[int, option("Most tokens of a draft; 0 leaves it to the drafter.")]
DraftCountOption = Annotated[
    int, option(f"Most drafts that follow one prefix; 0 leaves it to the drafter; {', '.join(ONE_DRAFT)} make one.")
]
DilationOption = Annotated[
    int, option("With --drafter windows: tokens of the query left out between two tokens of a draft.")
]
OutOption = Annotated[Path | None, option("Result file: .csv, .jsonl or .parquet; resumable.", "--out", "-o")]
ColumnOption = Annotated[str, option('Column of the input file with the SMILES; "a>>b" joins two.')]
TraceOption = Annotated[Path | None, option("Write full results with traces here, one JSON a line.")]
LengthPenaltyOption = Annotated[float, option("Rank beam answers by log-prob / length ** this.")]
RulesOption = Annotated[
    str, option(f"Search beams by the bookkeeping of another program: {', '.join(settings.RULES[1:])}.")
]
BudgetOption = Annotated[int, option("Most drafted nodes a query may add to a pass.")]
DraftingOption = Annotated[
    str, option("planned: as many drafted nodes as pay here; fixed: as many as the budget allows.")
]
BetaOption = Annotated[int, option("Greedy may take a drafted token among the best so many; above 1 it is relaxed.")]
TauOption = Annotated[float, option("With --beta: most log-prob that such a token may lack to the best one.")]
KeepOption = Annotated[bool, option("Keep the numbers in the model folder, for its card.", "--keep")]
SampleFloat = Annotated[float, option("For --decoder sample.")]
SampleInt = Annotated[int, option("For --decoder sample, and of the spellings of --augment.")]
AllowedHostOption = Annotated[
    list[str] | None,
    option(
        "Further name that this server is reached by, such as a proxy's; may be repeated; * for any.", "--allowed-host"
    ),
]
SourceOption = Annotated[
    Path | None, typer.Option("--source", envvar="CHEMSPEC_DATA", help="Folder with the reaction tables.")
]

DEFAULT = DecodeSettings()
NO_DATA = """no reaction data; give --source FOLDER or set CHEMSPEC_DATA. The data come from Lowe's text mining of US \
patents (CC0) and are not part of chemspec. FOLDER holds gzipped CSVs with a header: retro_train, retro_val and \
retro_test.csv.gz (USPTO-50K; columns product, reactants, and for training mapped_rxn) and forward_stereo_train, \
forward_val and forward_test.csv.gz (USPTO-MIT; columns reactants_and_reagents, main_product, and for training \
core_reactants, mapped_core_rxn). See assets/docs/training.md"""


def data_folder(source: Path | None) -> Path:
    """Return the folder given by --source or CHEMSPEC_DATA.

    Raises:
        ValueError: if there is none; says where the data come from.
    """
    if source is None:
        raise ValueError(NO_DATA)
    return source


def as_task(name: str) -> Task:
    """Return the task of that name; ValueError if there is none."""
    if name not in TASKS:
        raise ValueError(f"no task {name!r}; there are {tasks.task_names()}")
    return TASKS[name].name


def task_of(task: str, model: str) -> Task | None:
    """Return the task asked for, else that of the model; None where neither says so before it is loaded."""
    from chemspec.engine.registry import task_of_model

    return as_task(task) if task else task_of_model(model)


def decode_settings(decoder: str, n: int, exact: bool, **others: Any) -> DecodeSettings:
    """Return settings; a relaxed decoder must have been asked for with `exact` false."""
    return settings.decode_settings(decoder, n, exact=exact, remedy="add --relaxed", **others)


def without_effect(settings: DecodeSettings) -> list[str]:
    """Return a sentence on every draft size that was chosen for a built-in drafter that does not heed it."""
    drafter, heeded = settings.drafts_by, {"draft_length": True, "draft_count": True, "dilation": False}
    if drafter in ONE_DRAFT:
        heeded["draft_count"] = False
    elif drafter == "none":
        heeded = dict.fromkeys(heeded, False)
    elif drafter == "windows" or drafter not in BUILT_IN:
        return []
    chosen = [name for name, heeds in heeded.items() if getattr(settings, name) and not heeds]
    return [f"--{name.replace('_', '-')} has no effect with the drafter {drafter}" for name in chosen]


def load(task: str, model: str, **options: Any) -> Engine:
    """Load the model asked for, or the task's; ValueError if it answers the other question."""
    from chemspec.engine.engine import Engine

    wanted = as_task(task) if task else None
    if options.get("device") == "cuda:all":
        from chemspec.engine import pool

        engine: Engine = pool.EnginePool.load(model or as_task(task), task=wanted, **options)  # type: ignore[assignment]
    else:
        engine = Engine.load(model or as_task(task), task=wanted, **options)
    if task and engine.task != as_task(task):
        raise ValueError(
            f"model {engine.name!r} is a {engine.task} model, not one for {task}; choose another with --model"
        )
    if engine.confidence_problem:
        show.note(f"no confidence: {engine.confidence_problem}")
    return engine


def questions(
    source: Path | None, task: str, part: str = "test", remedy: str = "", **which: Any
) -> list[KnownReaction]:
    """Read reactions of the task's test or validation part ("val"), of the latter none that a test has too.

    Args:
        source: folder with the reaction tables, see `data_folder`.
        task: one that has a standard test set.
        part: "test" or "val".
        remedy: see `test_file`.
        which: limit and seed, see `accuracy.questions`.
    """
    from chemspec.evaluation import accuracy

    file = test_file(source, task, remedy)
    file = file.with_name(file.name.replace("_test.", f"_{part}."))
    return accuracy.questions(file, as_task(task), leave_out=("overlaps_test",) if part == "val" else (), **which)


def test_file(source: Path | None, task: str, remedy: str) -> Path:
    """Return a task's standard test file.

    Args:
        source: see `data_folder`.
        task: whose.
        remedy: what to do where there is none; empty: nothing but to choose another task.

    Raises:
        ValueError: if there is none, or no folder of reaction tables.
    """
    spec = TASKS[as_task(task)]
    if not spec.test:
        able = " or ".join(one.name for one in TASKS.values() if one.test)
        remedy = remedy or f"this command needs one, as there is for {able}"
        raise ValueError(f"there is no standard test set for {spec.name}; {remedy}")
    return data_folder(source) / spec.test


def words(text: str) -> tuple[str, ...]:
    """Split a list at its commas."""
    return tuple(word.strip() for word in text.split(",") if word.strip())


def numbers(option: str, text: str) -> tuple[int, ...]:
    """Split a list of whole numbers at its commas; a ValueError names the option."""
    return tuple(_split(option, text, int, "5,10,25"))


def reals(option: str, text: str) -> tuple[float, ...]:
    """Split a list of numbers at its commas; a ValueError names the option."""
    return tuple(_split(option, text, float, "0.5,1,2"))


def _split(option: str, text: str, kind: Callable[[str], Number], example: str) -> list[Number]:
    try:
        return [kind(word) for word in text.split(",")]
    except ValueError:
        raise ValueError(f"--{option} is {text!r}; give numbers such as {example}") from None


def check_folders(*files: Path | None) -> None:
    """Refuse files in folders that are not there, before the work and not after it."""
    for file in files:
        if file is not None and not file.absolute().parent.is_dir():
            raise ValueError(f"{file}: there is no folder {file.parent}; make it first")


def command_line() -> str:
    """Return the command as it was given, for documents that tell where numbers come from."""
    program = f"python {sys.argv[0]}" if sys.argv[0].endswith(".py") else "chemspec"
    return " ".join([program, *sys.argv[1:]])


def keep(folder: Path, names: list[str], digest: str, measured: dict[str, Any]) -> None:
    """Put measurements into the model folder's evaluation.json, one under each name."""
    from datetime import date

    from chemspec import evaluation

    for name in names:
        evaluation.keep(folder, name, measured, digest=digest, command=command_line(), today=date.today())
    show.note(f"{folder / evaluation.FILE}: {', '.join(names)}")
