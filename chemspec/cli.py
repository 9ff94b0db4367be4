"""The command line: parse, call one function, print.

Exit codes: 0 all went well; 1 something in the input could not be answered (some rows have another status than ok);
2 the command could not be carried out (bad option, missing file, unusable model); 130 interrupted.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from chemspec import __version__
from chemspec.settings import DecodeSettings, Task

if TYPE_CHECKING:  # the model engine takes seconds to import; --help should not
    from chemspec.types import DecodeResult

app = typer.Typer(
    help="Predict products and reactants with SMILES-to-SMILES transformers, fast and without changing an answer.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    epilog="Exit codes: 0 fine; 1 some query could not be answered; 2 the command could not be carried out; 130 interrupted.",
)
notes = Console(stderr=True)
answers = Console()

TaskOption = Annotated[
    str, typer.Option("--task", "-t", help="forward (what forms?) or retro (what from?).")
]
ModelOption = Annotated[
    str, typer.Option("--model", "-m", help="Model folder or installed name; default: the task's.")
]
NOption = Annotated[int, typer.Option("--n", "-n", help="Answers wanted.")]
DecoderOption = Annotated[
    str, typer.Option(help="auto, greedy, beam or sample; auto: greedy for one answer, else beam.")
]
DrafterOption = Annotated[
    str, typer.Option(help="Who guesses ahead; never changes the answers of an exact decoder.")
]
ExactOption = Annotated[
    bool,
    typer.Option("--exact/--relaxed", help="Allow decoders that may differ from the standard."),
]
BatchOption = Annotated[int, typer.Option(help="Queries per model call.")]
LengthOption = Annotated[int, typer.Option(help="Most tokens of an answer.")]
DtypeOption = Annotated[str, typer.Option(help="auto, fp32, bf16 or fp16.")]
DeviceOption = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, ...")]
ThreadsOption = Annotated[int, typer.Option(help="CPU threads; 0: all cores.")]
RuntimeOption = Annotated[str, typer.Option(help="auto, onnx or torch.")]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Machine-readable: the last line is one JSON document.")
]


def main() -> None:
    """Run the command line; turns expected errors into a message and an exit code."""
    from chemspec.model.checkpoint import CheckpointError

    try:
        app()
    except KeyboardInterrupt:
        notes.print(
            "[yellow]interrupted[/]; what was written stays valid, the same command goes on from there"
        )
        sys.exit(130)
    except (ValueError, FileNotFoundError, CheckpointError) as error:
        notes.print("error: ", style="bold red", end="")
        notes.print(str(error), markup=False, highlight=False)
        sys.exit(2)


@app.callback(invoke_without_command=True)
def _version(
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
) -> None:
    if version:
        print(__version__)
        raise typer.Exit


def _task(name: str) -> Task:
    if name not in ("forward", "retro"):
        raise ValueError(f"no task {name!r}; there are forward and retro")
    return name  # type: ignore[return-value]


def _decode_settings(decoder: str, n: int, exact: bool, **others: Any) -> DecodeSettings:
    if decoder == "auto":
        decoder = "greedy" if n == 1 else "beam"
    settings = DecodeSettings(decoder=decoder, n=n, **others)
    if exact and not settings.exact:
        raise ValueError(
            f"decoder {decoder!r} is relaxed: its answers may differ from the standard; add --relaxed"
        )
    return replace(settings, n=1) if decoder == "greedy" else settings


@contextmanager
def _progress(what: str, *, quiet: bool = False) -> Iterator[Callable[[int, int], None]]:
    """A progress bar on standard error."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=notes, disable=quiet or not notes.is_terminal) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@app.command()
def predict(
    smiles: Annotated[
        list[str] | None,
        typer.Argument(help="SMILES, one file (.csv .smi .parquet ...), or - for stdin."),
    ] = None,
    task: TaskOption = "",
    model: ModelOption = "",
    n: NOption = 5,
    decoder: DecoderOption = "auto",
    drafter: DrafterOption = "none",
    exact: ExactOption = True,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Result file: .csv, .jsonl or .parquet; resumable."),
    ] = None,
    column: Annotated[str, typer.Option(help="Column of the input file with the SMILES.")] = "",
    trace: Annotated[
        Path | None, typer.Option(help="Write the full results with traces here, one JSON a line.")
    ] = None,
    batch_size: BatchOption = 16,
    max_len: LengthOption = 200,
    dtype: DtypeOption = "auto",
    device: DeviceOption = "auto",
    threads: ThreadsOption = 0,
    runtime: RuntimeOption = "auto",
    length_penalty: Annotated[
        float, typer.Option(help="Rank beam answers by log-prob / length ** this.")
    ] = 0.0,
    temperature: Annotated[float, typer.Option(help="For --decoder sample.")] = 1.0,
    top_p: Annotated[float, typer.Option(help="For --decoder sample.")] = 1.0,
    seed: Annotated[int, typer.Option(help="For --decoder sample.")] = 0,
    node_budget: Annotated[
        int, typer.Option(help="Most drafted nodes a query may add to a pass.")
    ] = 64,
    as_json: JsonOption = False,
) -> None:
    """Predict products (forward) or reactant sets (retro) for SMILES, a file of them, or standard input."""
    from chemspec import files
    from chemspec.engine import Engine
    from chemspec.types import to_json

    settings = _decode_settings(
        decoder, n, exact, drafter=drafter, max_len=max_len, batch_size=batch_size, node_budget=node_budget,
        length_penalty=length_penalty, temperature=temperature, top_p=top_p, seed=seed,
    )  # fmt: skip
    queries, many = _queries(smiles, column)
    if not task and not model:
        raise ValueError(
            "say which question to answer: --task forward (what forms?) or --task retro (what from?)"
        )
    engine = Engine.load(
        model or _task(task), device=device, dtype=dtype, threads=threads, runtime=runtime
    )
    if task and engine.task != _task(task):
        raise ValueError(
            f"model {engine.name!r} is a {engine.task} model; leave --task out or choose another model"
        )
    if out is not None:
        with _progress("predicting") as progress:
            counts = files.predict_file(engine, queries, out, settings, progress=progress)
        if as_json:
            print(
                json.dumps(
                    {
                        "model": engine.name,
                        "settings": asdict(settings),
                        "out": str(out),
                        "counts": counts,
                    }
                )
            )
        else:
            told = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))
            notes.print(f"{out}: {told or 'no queries'}")
        raise typer.Exit(0 if set(counts) <= {"ok"} else 1)
    with _progress("predicting", quiet=not many) as progress:
        results = engine.predict(
            queries, settings, progress=lambda done: progress(done, len(queries))
        )
    if trace is not None:
        trace.write_text("".join(to_json(result) + "\n" for result in results), encoding="utf-8")
    if as_json:
        document = {
            "model": engine.name,
            "settings": asdict(settings),
            "results": [files.brief(r) for r in results],
        }
        print(json.dumps(document, ensure_ascii=False))
    else:
        for result in results:
            _show(result)
    raise typer.Exit(0 if all(result.status == "ok" for result in results) else 1)


def _queries(given: list[str] | None, column: str) -> tuple[list[str], bool]:
    """The query texts, and whether they are many (then a progress bar is shown)."""
    from chemspec import files

    if not given or given == ["-"]:
        if not given and sys.stdin.isatty():
            raise ValueError('nothing to predict; give a SMILES, a file or "-" for standard input')
        return files.lines_of(sys.stdin), True
    if len(given) == 1 and files.looks_like_file(given[0]):
        return files.read_queries(Path(given[0]), column), True
    return given, len(given) > 8


def _show(result: DecodeResult) -> None:
    from rich.markup import escape

    answers.print(f"[bold]{escape(result.query)}[/]", highlight=False)
    for note in result.notes:
        answers.print(f"  note: {escape(note)}", highlight=False, style="yellow")
    if result.status != "ok":
        answers.print(f"  {result.status}: {escape(result.message)}", highlight=False, style="red")
        return
    table = Table(box=None, pad_edge=True, show_header=True, header_style="dim")
    table.add_column("#", justify="right")
    table.add_column("answer", overflow="fold")
    table.add_column("prob.", justify="right")
    table.add_column("log-prob", justify="right")
    for rank, item in enumerate(result.hypotheses, 1):
        text = escape(item.canonical or item.smiles)
        flaw = (
            ""
            if item.valid
            else " [red](cut at the length limit)[/]"
            if item.ended == "length"
            else " [red](not valid)[/]"
        )
        table.add_row(str(rank), text + flaw, f"{item.probability:.3f}", f"{item.log_prob:.3f}")
    answers.print(table)
    passes = result.trace.passes
    tokens = sum(item.emitted for item in passes)
    answers.print(
        f"  {tokens} tokens in {len(passes)} passes, {result.trace.seconds * 1e3:.0f} ms",
        style="dim",
    )


@app.command()
def models(as_json: JsonOption = False) -> None:
    """List the installed models."""
    from chemspec.engine import installed, models_home

    rows = []
    for folder in installed():
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        size = sum(file.stat().st_size for file in folder.iterdir()) / 1e6
        rows.append(
            {
                "name": folder.name,
                "task": config.get("task", "?"),
                "mb": round(size, 1),
                "folder": str(folder),
            }
        )
    if as_json:
        print(json.dumps({"models": rows}))
        return
    if not rows:
        notes.print(f"no models in {models_home()}")
    table = Table("name", "task", "MB", "folder", box=None)
    for row in rows:
        table.add_row(str(row["name"]), str(row["task"]), str(row["mb"]), str(row["folder"]))
    answers.print(table)


@app.command()
def data(
    recipe: Annotated[
        str, typer.Option(help="Recipe whose data to prepare: see `chemspec train --list`.")
    ],
    source: Annotated[Path, typer.Option(help="Folder with the reaction CSVs.")] = Path(
        "../shared/data"
    ),
    out: Annotated[
        Path | None, typer.Option(help="Folder for the token arrays; default data/<recipe>.")
    ] = None,
    workers: Annotated[int, typer.Option(help="Processes.")] = 2,
    limit: Annotated[
        int, typer.Option(help="Use only so many rows of each file (for a trial).")
    ] = 0,
    as_json: JsonOption = False,
) -> None:
    """Turn reaction CSVs into aligned, augmented token arrays; resumable."""
    from chemspec.data.prepare import prepare
    from chemspec.train.recipes import recipe as find

    chosen, folder = find(recipe), out or Path("data") / recipe
    reports = {}
    with _progress("training pairs") as progress:
        files = [source / name for name in chosen.train_files]
        reports["train"] = prepare(
            files, folder, replace(chosen.data, limit=limit), workers=workers, progress=progress
        )
    if chosen.validation_files:
        with _progress("validation pairs") as progress:
            files = [source / name for name in chosen.validation_files]
            settings = replace(chosen.data, limit=limit, variants=1)
            reports["val"] = prepare(
                files,
                folder,
                settings,
                vocab=folder / "vocab.json",
                name="val",
                workers=workers,
                progress=progress,
            )
    if as_json:
        print(json.dumps(reports))
    else:
        for name, report in reports.items():
            notes.print(
                f"{folder / name}.npz: {report['pairs']} pairs, {report['source_tokens'] + report['target_tokens']} tokens"
            )


@app.command()
def train(
    recipe: Annotated[str, typer.Option(help="Recipe; see --list.")] = "",
    data_dir: Annotated[
        Path | None,
        typer.Option("--data", help="What `chemspec data` wrote; default data/<recipe>."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Run folder; default runs/<recipe>.")] = None,
    steps: Annotated[int, typer.Option(help="Instead of the recipe's number of steps.")] = 0,
    minutes: Annotated[float, typer.Option(help="Instead of the recipe's time limit.")] = -1.0,
    threads: ThreadsOption = -1,
    resume: Annotated[
        bool, typer.Option(help="Go on from the run folder's last checkpoint, if there is one.")
    ] = True,
    start: Annotated[
        Path | None, typer.Option(help="Begin with the weights of this model folder.")
    ] = None,
    average: Annotated[int, typer.Option(help="Average so many of the last checkpoints.")] = 1,
    show: Annotated[bool, typer.Option("--list", help="List the recipes and stop.")] = False,
) -> None:
    """Train a model by a recipe; needs the extra `train`, but no RDKit."""
    from chemspec.train.recipes import RECIPES
    from chemspec.train.recipes import recipe as find

    if show or not recipe:
        for name, item in RECIPES.items():
            answers.print(f"[bold]{name}[/]  {item.expectation}", highlight=False)
        return
    from chemspec.train.run import run_recipe

    folder = run_recipe(
        find(recipe), data_dir or Path("data") / recipe, out or Path("runs") / recipe, steps=steps, minutes=minutes,
        threads=threads, resume=resume, start=start, average=average,
    )  # fmt: skip
    answers.print(f"model folder: {folder}")


@app.command()
def evaluate(
    task: TaskOption,
    model: ModelOption = "",
    source: Annotated[Path, typer.Option(help="Folder with the reaction CSVs.")] = Path(
        "../shared/data"
    ),
    file: Annotated[
        Path | None, typer.Option(help="Test file; default: the task's standard test set.")
    ] = None,
    limit: Annotated[int, typer.Option(help="A random sample of so many reactions; 0: all.")] = 0,
    seed: Annotated[int, typer.Option(help="Of the random sample.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Predictions (.jsonl), resumable.")] = None,
    n: NOption = 10,
    decoder: DecoderOption = "auto",
    drafter: DrafterOption = "none",
    exact: ExactOption = True,
    batch_size: BatchOption = 32,
    max_len: LengthOption = 200,
    dtype: DtypeOption = "auto",
    device: DeviceOption = "auto",
    threads: ThreadsOption = 0,
    runtime: RuntimeOption = "auto",
    as_json: JsonOption = False,
) -> None:
    """Top-k exact match on the standard test sets (USPTO-50K for retro, USPTO-MIT mixed for forward)."""
    from chemspec.engine import Engine
    from chemspec.evaluate import evaluate as run
    from chemspec.evaluate import questions

    settings = _decode_settings(
        decoder, n, exact, drafter=drafter, max_len=max_len, batch_size=batch_size
    )
    tests = file or source / f"{_task(task)}_test.csv.gz"
    asked = questions(tests, _task(task), limit=limit, seed=seed)
    engine = Engine.load(
        model or task, device=device, dtype=dtype, threads=threads, runtime=runtime
    )
    target = (
        out
        or Path("runs")
        / f"evaluate-{engine.name}-{engine.digest[:6]}-{settings.decoder}{settings.n}-{limit}-{seed}.jsonl"
    )
    target.parent.mkdir(parents=True, exist_ok=True)
    with _progress("evaluating") as progress:
        report = run(engine, asked, target, settings, progress=progress)
    report = {
        "model": engine.name,
        "digest": engine.digest,
        "file": tests.name,
        "settings": asdict(settings),
        **report,
    }
    if as_json:
        print(json.dumps(report))
        return
    table = Table(
        "",
        "share",
        "95 % interval",
        box=None,
        title=f"{engine.name} on {report['reactions']} of {tests.name}",
    )
    rows = [(f"top-{k}", value) for k, value in report["top"].items()]
    for name, value in [
        *rows,
        ("invalid", report["invalid"]),
        ("invalid first", report["invalid_first"]),
    ]:
        table.add_row(name, f"{value['value']:.1%}", f"{value['low']:.1%} to {value['high']:.1%}")
    answers.print(table)
    notes.print(f"predictions: {target}")


@app.command(name="bench")
def bench_(
    task: Annotated[str, typer.Option("--task", "-t", help="forward, retro or both.")] = "both",
    source: Annotated[
        Path | None,
        typer.Option(help="Folder with the reaction CSVs; default: the built-in queries."),
    ] = None,
    limit: Annotated[int, typer.Option(help="Queries per row.")] = 200,
    widths: Annotated[str, typer.Option(help="Beam widths for retro.")] = "5,10,25",
    batches: Annotated[str, typer.Option(help="Batch sizes.")] = "1,32",
    engines: Annotated[
        str, typer.Option(help="Of naive, ctranslate2, chemspec.")
    ] = "naive,ctranslate2,chemspec",
    drafters: Annotated[str, typer.Option(help="Drafters of chemspec's rows.")] = "none",
    preset: Annotated[
        str, typer.Option(help="Time this architecture with random weights instead of the models.")
    ] = "",
    threads: ThreadsOption = 0,
    device: DeviceOption = "auto",
    dtype: DtypeOption = "auto",
    as_json: JsonOption = False,
) -> None:
    """Time decoding against the naive decoder and CTranslate2 on the same weights, queries and machine."""
    from chemspec import bench

    plan = bench.Plan(
        tasks=("forward", "retro") if task == "both" else (_task(task),), source=source, limit=limit,
        widths=tuple(map(int, widths.split(","))), batches=tuple(map(int, batches.split(","))),
        engines=tuple(engines.split(",")), drafters=tuple(drafters.split(",")), preset=preset, threads=threads,
        device=device, dtype=dtype,
    )  # fmt: skip
    with _progress("measuring") as progress:
        report = bench.run(plan, progress=progress)
    if not as_json:
        answers.print(bench.table(report))
    print(json.dumps(report))


@app.command(name="app")
def app_(
    port: Annotated[int, typer.Option(help="Port on this machine.")] = 8501,
    headless: Annotated[bool, typer.Option(help="Do not open a browser.")] = False,
) -> None:
    """Open the app in a browser."""
    import subprocess

    from chemspec.engine import models_home

    inside = Path(__file__).parent / "assets" / "app" / "app.py"
    script = inside if inside.is_file() else models_home().parent.parent / "app.py"
    options = ["--server.port", str(port), "--server.headless", str(headless).lower()]
    command = [sys.executable, "-m", "streamlit", "run", str(script), *options]
    raise typer.Exit(subprocess.call(command, cwd=script.parent))


if __name__ == "__main__":
    main()
