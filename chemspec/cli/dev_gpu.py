"""Half an hour on a lent GPU: `dev gpu ...`; see `chemspec.bench.gpu`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from chemspec.cli import options as opt
from chemspec.cli import show
from chemspec.cli.base import dev

gpu = typer.Typer(no_args_is_help=True)
dev.add_typer(
    gpu, name="gpu", help="Prove, train and measure on a GPU lent for half an hour.", rich_help_panel="On a lent GPU"
)

KitOption = Annotated[Path, opt.option("Folder that has travelled: answers, models, packed data.", "--kit")]
OutOption = Annotated[Path, opt.option("Folder that comes back.", "--out")]
KeepOption = Annotated[Path, opt.option("Folder that lasts as long as the machine is held.", "--keep")]
MinutesOption = Annotated[float, opt.option("Of training.")]
RowsOption = Annotated[Path, opt.option("Rows are appended here, one JSON a line.", "--out")]
ModelArgument = Annotated[Path, typer.Argument(help="Model folder.")]
RuntimesOption = Annotated[str, opt.option("Runtimes, with commas.")]
DEFAULT = Path(".gpu"), Path("gpu-out"), Path("/tmp/chemspec-gpu")


def _end(results: Any) -> None:
    for one in results:
        mark = "fine" if one.status == 0 else f"status {one.status}"
        show.line(f"{one.name:14} {mark:10} {one.seconds:6.1f} of {one.limit:.0f} s")
    raise typer.Exit(0 if all(one.status == 0 for one in results) else 1)


@gpu.command()
def prove(kit: KitOption = DEFAULT[0], out: OutOption = DEFAULT[1], keep: KeepOption = DEFAULT[2]) -> None:
    """First command, 480 s: do the runtimes give the right answers, how fast is a pass, does training start?"""
    from chemspec.bench.gpu import steps

    _end(steps.prove(steps.Steps(kit, out, keep)))


@gpu.command()
def train(
    task: opt.TaskOption,
    kit: KitOption = DEFAULT[0],
    out: OutOption = DEFAULT[1],
    keep: KeepOption = DEFAULT[2],
    minutes: MinutesOption = 8.3,
    recipe: Annotated[str, opt.option("Instead of the task's recipe for GPUs.")] = "",
) -> None:
    """Second and third command, 600 s: train a model; its weights come back in parts."""
    from dataclasses import replace

    from chemspec.bench.gpu import steps

    wanted = opt.as_task(task)
    recipes = dict(steps.FULL.recipes)
    recipes[wanted] = recipe or recipes[wanted]
    scale = replace(steps.FULL, minutes=minutes, recipes=recipes)
    _end(steps.train(steps.Steps(kit, out, keep), wanted, scale))


@gpu.command()
def measure(kit: KitOption = DEFAULT[0], out: OutOption = DEFAULT[1], keep: KeepOption = DEFAULT[2]) -> None:
    """Last command, 240 s: times of one query, of many, and of passes."""
    from chemspec.bench.gpu import steps

    _end(steps.measure(steps.Steps(kit, out, keep)))


@gpu.command()
def rehearse(
    folder: Annotated[Path | None, opt.option("Keep what is made here.", "--folder")] = None,
    slow: Annotated[float, opt.option("Multiply the limits of all steps, on a busy machine.")] = 1.0,
) -> None:
    """Run the half hour in small on this machine's CPU, each step within its limit; needs no GPU and no RDKit."""
    import tempfile

    from chemspec.bench.gpu import steps

    if folder is not None:
        _end(steps.rehearse(folder, slow=slow))
    with tempfile.TemporaryDirectory() as made:
        _end(steps.rehearse(Path(made), slow=slow))


@gpu.command()
def kit(
    task: opt.TaskOption,
    folder: KitOption = DEFAULT[0],
    model: opt.ModelOption = "",
    source: opt.SourceOption = None,
    greedy: Annotated[int, opt.option("Test queries answered greedily.")] = 200,
    beams: Annotated[int, opt.option("Of them by a beam of 10 too.")] = 40,
) -> None:
    """Fill a kit with a task's model, and with test queries and the compiled kernel's answers as token ids."""
    import shutil

    from chemspec.bench.gpu.answers import TokenModel, know

    engine = opt.load(task, model, device="cpu")
    asked = opt.questions(source, engine.task, limit=greedy)
    ids = [ready.ids for ready in (engine.prepare(item.query) for item in asked) if not ready.refusal]
    ours = TokenModel(engine.folder, device="cpu", dtype="fp32", runtime="auto")
    know(ours, ids, {"greedy": greedy, "beam10": beams}).save(folder / f"{engine.task}.json")
    target = folder / "models" / engine.task
    shutil.copytree(engine.folder, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns("drafters"))
    show.note(f"{folder}: {len(ids)} queries and the model {engine.name}")


@gpu.command()
def pack(
    folder: Annotated[Path, typer.Argument(help="What `chemspec data` wrote.")],
    file: Annotated[Path, typer.Argument(help="File to write, such as KIT/forward.xz.")],
) -> None:
    """Put prepared data into one small file."""
    from chemspec.bench.gpu import packing

    packing.pack(folder, file)
    show.note(f"{file}: {file.stat().st_size / 1e6:.1f} MB")


@gpu.command()
def unpack(
    file: Annotated[Path, typer.Argument(help="What `pack` wrote.")],
    folder: Annotated[Path, typer.Argument(help="Folder for the arrays.")],
) -> None:
    """Make prepared data of a packed file."""
    from chemspec.bench.gpu import packing

    packing.unpack(file, folder)


@gpu.command()
def export(
    run: Annotated[Path, typer.Argument(help="Run folder.")],
    vocab: Annotated[Path, typer.Argument(help="vocab.json of its data.")],
) -> None:
    """Make a model folder of the last checkpoint of a training that was cut off."""
    from chemspec.tokenizer import Tokenizer
    from chemspec.train.average import export as write

    show.line(str(write(run, run / "model", Tokenizer.load(vocab))))


@gpu.command()
def facts() -> None:
    """Say what machine this is."""
    import os
    import platform
    import shutil
    import subprocess
    from importlib.metadata import PackageNotFoundError, version

    import torch

    for name in ("torch", "triton", "lightning", "numpy", "typer", "msgspec", "safetensors", "rdkit"):
        try:
            show.line(f"{name} {version(name)}")
        except PackageNotFoundError:
            show.line(f"{name}: not here")
    show.line(f"Python {platform.python_version()}, {os.cpu_count()} cores, cuDNN {torch.backends.cudnn.version()}")  # type: ignore[no-untyped-call]
    if shutil.which("nvidia-smi"):
        show.line(subprocess.run(["nvidia-smi"], capture_output=True, text=True, check=False).stdout)


@gpu.command()
def check(
    model: ModelArgument,
    answers: Annotated[Path, typer.Argument(help="Known answers, of `dev gpu kit`.")],
    device: opt.DeviceOption = "cuda",
    dtype: opt.DtypeOption = "fp32",
    runtimes: RuntimesOption = "torch,graphs,triton",
    cases: Annotated[str, opt.option("greedy, beam10 or both, with a comma.")] = "greedy,beam10",
    drafters: Annotated[str, opt.option("Drafters, with commas.")] = "none,auto",
    batches: Annotated[str, opt.option("Queries at a time, with commas.")] = "1,32",
    limit: Annotated[int, opt.option("Most queries of a case.")] = 100,
    seconds: Annotated[float, opt.option("After so many of a case no batch is begun.")] = 60.0,
    out: RowsOption = Path("check.jsonl"),
) -> None:
    """Answer known queries on token ids, and say whether answers are the same, and how fast; 1 if any is wrong."""
    from chemspec.bench.gpu import answers as work

    fine = work.check(
        model,
        work.KnownAnswers.load(answers),
        device=device,
        dtype=dtype,
        runtimes=opt.words(runtimes),
        cases=opt.words(cases),
        drafters=opt.words(drafters),
        batches=opt.numbers("batches", batches),
        limit=limit,
        seconds=seconds,
        tell=lambda row: _tell(out, row),
    )
    raise typer.Exit(0 if fine else 1)


@gpu.command()
def passes(
    model: ModelArgument,
    device: opt.DeviceOption = "cuda",
    dtype: opt.DtypeOption = "fp32",
    runtimes: RuntimesOption = "torch,graphs,triton",
    shapes: Annotated[str, opt.option("Queries x new nodes of each, as in 1x16,256x1; default: a dozen.")] = "",
    out: RowsOption = Path("passes.jsonl"),
) -> None:
    """Time passes of a model, by queries and new nodes."""
    from chemspec.bench.gpu import answers as work

    given = tuple(tuple(opt.numbers("shapes", one.replace("x", ","))) for one in opt.words(shapes))
    wanted: Any = given or work.SHAPES
    fine = True
    for runtime in opt.words(runtimes):
        about = {"passes": str(model), "device": device, "dtype": dtype, "runtime": runtime}
        try:
            loaded = work.TokenModel(model, device=device, dtype=dtype, runtime=runtime)
            for row in work.time_passes(loaded, wanted):
                _tell(out, {**about, **row})
        except Exception as error:  # the other runtimes may work
            _tell(out, {**about, "error": str(error)})
            fine = False
    raise typer.Exit(0 if fine else 1)


@gpu.command()
def estimate(
    preset: Annotated[str, opt.option("Size of the model, see `chemspec.settings.PRESETS`.")] = "mt-4x4",
    vocabulary: Annotated[int, opt.option("Its tokens.")] = 279,
    dtype: Annotated[str, opt.option("fp32, bf16 or int8.")] = "fp32",
    measured: Annotated[Path | None, opt.option("Rows of `dev gpu passes`, to stand beside the estimates.")] = None,
) -> None:
    """Print the triton runtime's passes as a table: launches, bytes, operations, the time these make, the measured."""
    from chemspec.bench.gpu.estimate import table

    rows = [] if measured is None else [json.loads(line) for line in measured.read_text().splitlines()]
    show.line(table(preset, vocabulary, rows, dtype=dtype))


def _tell(out: Path, row: dict[str, Any]) -> None:
    line = json.dumps(row)
    print(line, flush=True)
    out.parent.mkdir(parents=True, exist_ok=True)
    with out.open("a", encoding="utf-8") as file:
        file.write(line + "\n")
