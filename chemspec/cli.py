"""The command line: parse, call one function, print.

Exit codes: 0 all went well; 1 something in the input could not be answered (some rows have another status than ok);
2 the command could not be carried out (bad option, missing file, unusable model); 130 interrupted.
"""

from __future__ import annotations

import _thread
import io
import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from chemspec import __version__, show
from chemspec.settings import DECODERS, DecodeSettings, Task

if TYPE_CHECKING:  # the engine takes seconds to import; --help should not
    from chemspec.engine import Engine


class Guarded(TyperGroup):
    """Turns expected errors into a message and an exit code, whatever command they come from."""

    def invoke(self, ctx: Any) -> Any:
        before, sys.unraisablehook = sys.unraisablehook, _ask_again
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            show.note(
                "interrupted; what was written to files stays valid, the same command goes on from there"
            )
            raise typer.Exit(130) from None
        except (
            BrokenPipeError
        ):  # whoever reads the output has left, as `head` does: no error of ours
            raise
        except (ValueError, OSError, ModuleNotFoundError) as error:
            show.note(f"error: {error}")
            raise typer.Exit(2) from None
        finally:
            sys.unraisablehook = before


def _ask_again(unraisable: Any) -> None:
    """Ctrl-C that hits a destructor is lost, because Python only prints what is raised there: it comes once more."""
    if issubclass(unraisable.exc_type, KeyboardInterrupt):
        threading.Timer(0.01, _thread.interrupt_main).start()
    else:
        sys.__unraisablehook__(unraisable)


app = typer.Typer(
    cls=Guarded,
    help="Predict products and reactants with SMILES-to-SMILES transformers, fast and without changing an answer.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    epilog="Exit codes: 0 fine; 1 some query could not be answered; 2 the command could not be carried out; 130 interrupted.",
)


def main() -> None:
    """Run the command line."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(
                errors="backslashreplace"
            )  # queries may hold what a terminal cannot show
    app()


# --- options -------------------------------------------------------------------------------------


def _option(text: str, *names: str) -> Any:
    return typer.Option(*names, help=text)


TaskOption = Annotated[str, _option("forward (what forms?) or retro (what from?).", "--task", "-t")]
ModelOption = Annotated[
    str,
    _option(
        "Model folder, installed name or Hugging Face id (fetched before); default: the task's.",
        "--model",
        "-m",
    ),
]
NOption = Annotated[int, _option("Answers wanted.", "--n", "-n")]
DecoderOption = Annotated[
    str, _option(f"auto, {', '.join(DECODERS)}; auto: greedy for one answer, else beam.")
]
DrafterOption = Annotated[
    str, _option("Who guesses ahead; never changes the answers of an exact decoder.")
]
ExactOption = Annotated[
    bool, _option("Allow decoders that may differ from the standard.", "--exact/--relaxed")
]
BatchOption = Annotated[int, _option("Queries per model call.")]
LengthOption = Annotated[int, _option("Most tokens of an answer.")]
DtypeOption = Annotated[str, _option("auto, fp32, bf16 or fp16.")]
DeviceOption = Annotated[str, _option("auto, cpu, cuda, cuda:1, ...")]
ThreadsOption = Annotated[int, _option("CPU threads; 0: all cores.")]
RuntimeOption = Annotated[str, _option("auto, native, onnx or torch.")]
TemplateOption = Annotated[
    str, _option("What a Hugging Face model reads, {query} being the SMILES.")
]
JsonOption = Annotated[
    bool, _option("Machine-readable: the last line is one JSON document.", "--json")
]
AugmentOption = Annotated[
    int, _option("Decode so many spellings of each query and merge their answers; 1: off.")
]
KeepOption = Annotated[
    bool, _option("Keep the numbers in the model folder, for its card.", "--keep")
]
SampleFloat = Annotated[float, _option("For --decoder sample.")]
SampleInt = Annotated[int, _option("For --decoder sample, and of the spellings of --augment.")]
SourceOption = Annotated[Path, _option("Folder with the reaction CSVs.")]

DEFAULT = DecodeSettings()
DATA = Path("../shared/data")


@app.callback(invoke_without_command=True)
def _version(
    version: Annotated[bool, _option("Print the version and stop.", "--version")] = False,
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
        what = (
            f"greedy with beta {settings.beta}" if decoder == "greedy" else f"decoder {decoder!r}"
        )
        message = f"{what} is relaxed: its answers may differ from the standard ones"
        raise ValueError(f"{message}; add --relaxed")
    return replace(settings, n=1) if decoder == "greedy" else settings


def _load(task: str, model: str, **options: Any) -> Engine:
    """The model asked for, or the task's; refused if it answers the other question."""
    from chemspec.engine import Engine

    wanted = _task(task) if task else None
    engine = Engine.load(model or _task(task), task=wanted, **options)
    if task and engine.task != _task(task):
        message = f"model {engine.name!r} is a {engine.task} model"
        raise ValueError(f"{message}; leave --task out or choose another model")
    if engine.confidence_problem:
        show.note(f"no confidence: {engine.confidence_problem}")
    return engine


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _numbers(option: str, text: str) -> tuple[int, ...]:
    try:
        return tuple(int(word) for word in text.split(","))
    except ValueError:
        raise ValueError(f"--{option} is {text!r}; give numbers such as 5,10,25") from None


# --- commands ------------------------------------------------------------------------------------


@app.command()
def predict(
    smiles: Annotated[
        list[str] | None,
        typer.Argument(help="SMILES, one file (.csv .smi .parquet ...), or - for stdin."),
    ] = None,
    task: TaskOption = "",
    model: ModelOption = "",
    n: NOption = DEFAULT.n,
    decoder: DecoderOption = "auto",
    drafter: DrafterOption = DEFAULT.drafter,
    exact: ExactOption = True,
    out: Annotated[
        Path | None, _option("Result file: .csv, .jsonl or .parquet; resumable.", "--out", "-o")
    ] = None,
    column: Annotated[str, _option("Column of the input file with the SMILES.")] = "",
    trace: Annotated[
        Path | None, _option("Write full results with traces here, one JSON a line.")
    ] = None,
    batch_size: BatchOption = DEFAULT.batch_size,
    max_len: LengthOption = DEFAULT.max_len,
    dtype: DtypeOption = "auto",
    device: DeviceOption = "auto",
    threads: ThreadsOption = 0,
    runtime: RuntimeOption = "auto",
    template: TemplateOption = "",
    length_penalty: Annotated[
        float, _option("Rank beam answers by log-prob / length ** this.")
    ] = DEFAULT.length_penalty,
    temperature: SampleFloat = DEFAULT.temperature,
    top_p: SampleFloat = DEFAULT.top_p,
    seed: SampleInt = DEFAULT.seed,
    node_budget: Annotated[
        int, _option("Most drafted nodes a query may add to a pass.")
    ] = DEFAULT.node_budget,
    beta: Annotated[
        int,
        _option("Greedy may take a drafted token among the best so many; above 1 it is relaxed."),
    ] = DEFAULT.beta,
    tau: Annotated[
        float, _option("With --beta: most log-prob that such a token may lack to the best one.")
    ] = DEFAULT.tau,
    augment: AugmentOption = DEFAULT.augment,
    as_json: JsonOption = False,
) -> None:
    """Predict products (forward) or reactant sets (retro) for SMILES, a file of them, or standard input."""
    settings = _decode_settings(
        decoder, n, exact, drafter=drafter, max_len=max_len, batch_size=batch_size, node_budget=node_budget,
        length_penalty=length_penalty, temperature=temperature, top_p=top_p, seed=seed, augment=augment,
        beta=beta, tau=tau,
    )  # fmt: skip
    if not task and not model:
        raise ValueError(
            "say which question: --task forward (what forms?) or --task retro (what from?)"
        )
    from chemspec import files

    queries, many = _queries(smiles, column)
    if trace is not None:
        trace.touch()  # fails now rather than when all the work is done
    engine = _load(
        task, model, device=device, dtype=dtype, threads=threads, runtime=runtime, template=template
    )
    document: dict[str, Any] = {"model": engine.name, "settings": asdict(settings)}
    if out is not None:
        with show.progress("predicting") as report:
            counts = files.predict_file(
                engine, queries, out, settings, trace=trace, progress=report
            )
        told = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))
        show.note(f"{out}: {told}")
        document |= {"out": str(out), "counts": counts}
        fine = set(counts) <= {"ok"}
    else:
        with show.progress("predicting", quiet=not many) as report:
            results = engine.predict(
                queries, settings, progress=lambda done: report(done, len(queries))
            )
        if trace is not None:
            files.write_traces(results, trace)
        for result in () if as_json else results:
            show.result(result)
        document["results"] = [files.brief(result) for result in results]
        fine = all(result.status == "ok" for result in results)
    if as_json:
        print(json.dumps(document))
    raise typer.Exit(0 if fine else 1)


def _queries(given: list[str] | None, column: str) -> tuple[list[str], bool]:
    """The query texts, and whether they are many (then a progress bar is shown)."""
    from chemspec import inputs

    if not given or given == ["-"]:
        if not given and sys.stdin.isatty():
            raise ValueError('nothing to predict; give a SMILES, a file or "-" for standard input')
        where, queries = "standard input", inputs.lines_of(sys.stdin)
    elif len(given) == 1 and inputs.looks_like_file(given[0]):
        where, queries = given[0], inputs.read_queries(Path(given[0]), column)
    else:
        for text in filter(inputs.looks_like_file, given):
            raise ValueError(f"{text} is a file; give one file, or SMILES, but not both")
        return given, len(given) > 8
    if not queries:
        raise ValueError(f"nothing to predict: there is no query in {where}")
    return queries, True


@app.command()
def models(as_json: JsonOption = False) -> None:
    """List the installed models."""
    from chemspec.engine import installed, models_home

    rows = []
    for folder in installed():
        try:
            task = json.loads((folder / "config.json").read_text(encoding="utf-8"))["task"]
        except (
            OSError,
            ValueError,
            KeyError,
            TypeError,
        ):  # one bad folder must not hide the others
            task = "unusable"
        size = sum(file.stat().st_size for file in folder.iterdir() if file.is_file()) / 1e6
        rows.append(
            {"name": folder.name, "task": task, "mb": round(size, 1), "folder": str(folder)}
        )
    if as_json:
        print(json.dumps({"models": rows}))
    elif rows:
        show.models(rows)
    else:
        show.note(f"no models in {models_home()}")


@app.command()
def data(
    recipe: Annotated[str, _option("Recipe whose data to prepare: see `chemspec train --list`.")],
    source: SourceOption = DATA,
    out: Annotated[
        Path | None, _option("Folder for the token arrays; default data/<recipe>.")
    ] = None,
    workers: Annotated[int, _option("Processes.")] = 2,
    limit: Annotated[int, _option("Use only so many rows of each file (for a trial).")] = 0,
    vocab: Annotated[
        Path | None,
        _option("Use this vocab.json (that of the model to go on with) instead of making one."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Turn reaction CSVs into aligned, augmented token arrays; resumable."""
    from chemspec.data.prepare import prepare
    from chemspec.train.recipes import recipe as find

    chosen, folder = find(recipe), out or Path("data") / recipe
    jobs = {"train": (chosen.train_files, chosen.data, vocab)}
    if chosen.validation_data:
        vocab = folder / "vocab.json"  # that of the training data, which comes first
        jobs["val"] = (chosen.validation_files, chosen.validation_data, vocab)
    reports = {}
    for name, (names, settings, vocab) in jobs.items():
        with show.progress(f"{name} pairs") as report:
            reports[name] = prepare(
                [source / file for file in names], folder, replace(settings, limit=limit or settings.limit),
                vocab=vocab, name=name, workers=workers, progress=report,
            )  # fmt: skip
    for name, told in reports.items():
        tokens = told["source_tokens"] + told["target_tokens"]
        show.note(f"{folder / name}.npz: {told['pairs']} pairs, {tokens} tokens")
    if as_json:
        print(json.dumps(reports))


@contextmanager
def _training() -> Iterator[None]:
    """Around the imports of what trains: says which packages are missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name != "lightning":
            raise
        raise ValueError("training needs more packages: pip install 'chemspec[train]'") from error


@app.command()
def leaks(
    recipe: Annotated[str, _option("Recipe whose training data to check.")],
    source: SourceOption = DATA,
    data_dir: Annotated[
        Path | None, _option("Check the arrays that `chemspec data` wrote here instead.", "--data")
    ] = None,
    every: Annotated[int, _option("Only every so many-th training row.")] = 1,
    as_json: JsonOption = False,
) -> None:
    """Is any test reaction or test product among a recipe's training data? Compared by canonical SMILES; 1 if so."""
    from chemspec.data import leaks as search
    from chemspec.train.recipes import recipe as find

    chosen = find(recipe)
    tests = source / f"{chosen.task}_test.csv.gz"
    with show.progress("training reactions") as report:
        told = partial(report, total=0)
        if data_dir is not None:
            found = search.check_arrays(data_dir, tests, chosen.task, progress=told)
        else:
            files = [source / file for file in chosen.train_files]
            found = search.check_rows(
                files,
                tests,
                chosen.task,
                leave_out=chosen.data.leave_out,
                every=every,
                progress=told,
            )
    text = f"{found.reactions} test reactions and {found.products} with a test product among {found.checked} training reactions"
    show.line(f"{text}, against {found.tests} test reactions")
    if as_json:
        print(json.dumps(asdict(found)))
    raise typer.Exit(1 if found.reactions or found.products else 0)


@app.command()
def train(
    recipe: Annotated[str, _option("Recipe; see --list.")] = "",
    data_dir: Annotated[
        Path | None, _option("What `chemspec data` wrote; default data/<recipe>.", "--data")
    ] = None,
    out: Annotated[Path | None, _option("Run folder; default runs/<recipe>.")] = None,
    steps: Annotated[int, _option("Instead of the recipe's number of steps.")] = 0,
    minutes: Annotated[float, _option("Instead of the recipe's time limit.")] = -1.0,
    threads: ThreadsOption = -1,
    seed: Annotated[int, _option("Instead of the recipe's; another order of the data.")] = -1,
    lr: Annotated[float, _option("Instead of the recipe's peak learning rate.")] = 0.0,
    resume: Annotated[
        bool,
        _option(
            "Go on from the run folder's last checkpoint, if there is one.", "--resume/--no-resume"
        ),
    ] = True,
    start: Annotated[
        Path | None,
        _option(
            "Begin with the weights of this model folder; of a drafter: its target, default the task's."
        ),
    ] = None,
    average: Annotated[int, _option("Average so many of the last checkpoints.")] = 1,
    listed: Annotated[bool, _option("List the recipes and stop.", "--list")] = False,
) -> None:
    """Train a model or a drafter by a recipe; needs the extra `train`, but no RDKit.

    A drafter learns from what `chemspec distil` wrote (default data/<task>-distilled) and goes into its target's folder.
    """
    from chemspec.train.drafter_recipes import DRAFTER_RECIPES
    from chemspec.train.recipes import RECIPES
    from chemspec.train.recipes import recipe as find

    if listed or not recipe:
        known: list[Any] = [*RECIPES.values(), *DRAFTER_RECIPES.values()]
        for item in known:
            show.line(f"{item.name}: {item.expectation}")
        return
    how: dict[str, Any] = {
        "steps": steps, "minutes": minutes, "threads": threads, "seed": seed, "lr": lr, "resume": resume
    }  # fmt: skip
    if recipe in DRAFTER_RECIPES:
        teaching = DRAFTER_RECIPES[recipe]
        from chemspec.engine import model_folder

        target = start or model_folder(teaching.task)
        taught = data_dir or Path("data") / f"{teaching.task}-distilled"
        with _training():
            from chemspec.train.drafters import train_drafter
        folder = train_drafter(teaching, taught, target, out or Path("runs") / recipe, **how)
        show.line(f"drafter folder: {folder}")
        return
    if recipe not in RECIPES:
        raise ValueError(
            f"no recipe {recipe!r}; there are {', '.join((*RECIPES, *DRAFTER_RECIPES))}"
        )
    with _training():
        from chemspec.train.run import run_recipe
    folder = run_recipe(
        find(recipe), data_dir or Path("data") / recipe, out or Path("runs") / recipe, start=start, average=average, **how
    )  # fmt: skip
    show.line(f"model folder: {folder}")


@app.command()
def distil(
    task: TaskOption,
    model: ModelOption = "",
    data_dir: Annotated[
        Path | None, _option("What `chemspec data` wrote; default data/<task>.", "--data")
    ] = None,
    out: Annotated[Path | None, _option("Folder to write; default data/<task>-distilled.")] = None,
    pairs: Annotated[int, _option("So many training queries; 0: all.")] = 40_000,
    batch_size: BatchOption = 64,
    max_len: LengthOption = DEFAULT.max_len,
    seed: Annotated[int, _option("Of the random choice.")] = 0,
    threads: ThreadsOption = 0,
    device: DeviceOption = "auto",
    as_json: JsonOption = False,
) -> None:
    """Answer training queries with the target, greedily: what learned drafters are trained on; resumable."""
    from chemspec import distil as teaching

    folder = data_dir or Path("data") / _task(task)
    target = out or Path("data") / f"{task}-distilled"
    engine = _load(task, model, threads=threads, device=device)
    how = DecodeSettings(decoder="greedy", n=1, batch_size=batch_size, max_len=max_len)
    with show.progress("answering") as report:
        count = teaching.distil(
            engine, folder, target, pairs=pairs, settings=how, seed=seed, progress=report
        )
    show.note(f"{target / 'train.npz'}: {count} pairs")
    if as_json:
        print(json.dumps({"pairs": count}))


@app.command()
def calibrate(
    task: TaskOption,
    model: ModelOption = "",
    data_dir: Annotated[
        Path | None, _option("What `chemspec data` wrote; default data/<task>.", "--data")
    ] = None,
    pairs: Annotated[int, _option("Training pairs to learn phrases from.")] = 100_000,
    queries: Annotated[int, _option("Validation queries to measure and fit on.")] = 500,
    heads: Annotated[int, _option("Most attention heads to follow.")] = 3,
    seed: Annotated[int, _option("Of the random choice of both.")] = 0,
    threads: ThreadsOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Teach a model's drafters from its training and validation data; answers stay the same, passes get fewer."""
    from chemspec import calibrate as learning

    folder = data_dir or Path("data") / _task(task)
    engine = _load(task, model, threads=threads)
    made = f"chemspec calibrate --task {engine.task} --pairs {pairs} --queries {queries} --heads {heads} --seed {seed}"
    knowledge, report = learning.calibrate(
        engine, folder, pairs=pairs, queries=queries, heads=heads, seed=seed, made=made, tell=show.note
    )  # fmt: skip
    knowledge.save(engine.folder)
    show.note(f"{engine.folder / 'drafting.json'}: {report.nodes} contexts, heads {report.heads}")
    if as_json:
        print(json.dumps(asdict(report)))


@app.command()
def reliability(
    task: TaskOption,
    model: ModelOption = "",
    source: SourceOption = DATA,
    queries: Annotated[int, _option("Validation queries, drawn at random; 0: all.")] = 1000,
    seed: Annotated[int, _option("Of the random choice.")] = 0,
    n: NOption = 10,
    out: Annotated[Path | None, _option("Predictions (.jsonl), resumable.")] = None,
    store: Annotated[bool, _option("Write confidence.json into the model folder.")] = True,
    kept: KeepOption = False,
    threads: ThreadsOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Measure on validation data how often answers of a probability are right, and keep what turns one into the other."""
    from chemspec import evaluate as measuring
    from chemspec import reliability as judging

    file = source / f"{_task(task)}_val.csv.gz"
    asked = measuring.questions(
        file, _task(task), limit=queries, seed=seed, leave_out=("overlaps_test",)
    )
    engine = _load(task, model, threads=threads)
    made = f"chemspec reliability --task {engine.task} --queries {queries} --seed {seed} -n {n}"
    what = f"{engine.name}-{engine.digest[:6]}-{queries}-{seed}-beam{n}"
    target = out or Path("runs") / f"reliability-{what}.jsonl"
    with show.progress("asking") as report:
        found, told = judging.measure(
            engine, asked, target, DecodeSettings(n=n, batch_size=32), made=made, progress=report
        )
    if store:
        found.save(engine.folder)
        show.note(f"{engine.folder / 'confidence.json'} written")
    document = {"model": engine.name, "digest": engine.digest, "made": made, **asdict(told)}
    if kept:
        _keep(
            engine.folder, ["reliability"], engine.digest, {**document, "numbers": judging.NUMBERS}
        )
    if as_json:
        print(json.dumps(document))
    else:
        show.reliability(told.rows(), judging.NUMBERS)


@app.command()
def evaluate(
    task: TaskOption,
    model: ModelOption = "",
    source: SourceOption = DATA,
    file: Annotated[
        Path | None, _option("Test file; default: the task's standard test set.")
    ] = None,
    limit: Annotated[int, _option("A random sample of so many reactions; 0: all.")] = 0,
    seed: Annotated[int, _option("Of the random sample.")] = 0,
    out: Annotated[Path | None, _option("Predictions (.jsonl), resumable.")] = None,
    n: NOption = 10,
    decoder: DecoderOption = "auto",
    drafter: DrafterOption = DEFAULT.drafter,
    exact: ExactOption = True,
    batch_size: BatchOption = 32,
    max_len: LengthOption = DEFAULT.max_len,
    augment: AugmentOption = DEFAULT.augment,
    standard: Annotated[
        bool, _option("Answer the standard way too, and count answers that differ.", "--standard")
    ] = False,
    kept: KeepOption = False,
    dtype: DtypeOption = "auto",
    device: DeviceOption = "auto",
    threads: ThreadsOption = 0,
    runtime: RuntimeOption = "auto",
    template: TemplateOption = "",
    as_json: JsonOption = False,
) -> None:
    """Top-k exact match on the standard test sets (USPTO-50K for retro, USPTO-MIT mixed for forward)."""
    settings = _decode_settings(
        decoder, n, exact, drafter=drafter, max_len=max_len, batch_size=batch_size, augment=augment
    )
    from chemspec import evaluate as measure

    tests = file or source / f"{_task(task)}_test.csv.gz"
    asked = measure.questions(tests, _task(task), limit=limit, seed=seed)
    engine = _load(
        task, model, device=device, dtype=dtype, threads=threads, runtime=runtime, template=template
    )
    what = f"{engine.name}-{engine.digest[:6]}-{tests.name.split('.')[0]}-{limit}-{seed}"
    how = f"{settings.decoder}{settings.n}-{drafter}-{max_len}-{engine.dtype}"
    how += f"-augment{augment}" if augment > 1 else ""
    target = out or Path("runs") / f"evaluate-{what}-{how}.jsonl"
    slow = target.with_name(f"{target.stem}-standard.jsonl") if standard else None
    with show.progress("evaluating") as report:
        found = measure.evaluate(engine, asked, target, settings, standard=slow, progress=report)
    head = {"model": engine.name, "digest": engine.digest, "file": tests.name}
    found = {**head, "settings": asdict(settings), "predictions": str(target), **found}
    if kept:
        names = ["augmented"] if augment > 1 else ["accuracy", "failures"]
        names += ["classes"] if found["top1_by_class"] and augment == 1 else []
        _keep(engine.folder, names, engine.digest, found)
    show.note(f"predictions: {target}")
    if as_json:
        print(json.dumps(found))
    else:
        show.accuracy(found)


@app.command()
def relaxed(
    task: TaskOption,
    model: ModelOption = "",
    source: SourceOption = DATA,
    limit: Annotated[int, _option("A random sample of so many test reactions; 0: all.")] = 1000,
    drafters: Annotated[str, _option("Drafters, with commas.")] = "copy",
    betas: Annotated[str, _option("Best tokens that may be drafted; 1 is exact.")] = "3",
    taus: Annotated[str, _option("Most log-prob that a drafted token may lack.")] = "1",
    batch_size: BatchOption = 1,
    threads: ThreadsOption = 0,
    device: DeviceOption = "auto",
    as_json: JsonOption = False,
) -> None:
    """Spec-Verification (Xia et al.) against exact verification: tokens per pass, agreement and accuracy."""
    from chemspec import evaluate as measure
    from chemspec import relaxed as verification

    asked = measure.questions(source / f"{_task(task)}_test.csv.gz", _task(task), limit=limit)
    engine = _load(task, model, threads=threads, device=device)
    with show.progress("answering") as report:
        rows = verification.grid(
            engine, asked, _words(drafters), betas=_numbers("betas", betas), taus=_numbers("taus", taus), batch_size=batch_size,
            progress=report,
        )  # fmt: skip
    print(json.dumps({"task": task, "rows": rows}) if as_json else verification.markdown(rows))


@app.command()
def tally(
    task: TaskOption,
    model: ModelOption = "",
    source: SourceOption = DATA,
    limit: Annotated[int, _option("A random sample of so many test reactions.")] = 200,
    drafters: Annotated[str, _option("Drafters, with commas.")] = "none,copy,mixed,auto",
    widths: Annotated[str, _option("Beam widths; 1 is greedy.")] = "1",
    batch_size: BatchOption = 1,
    threads: ThreadsOption = 0,
    device: DeviceOption = "auto",
    as_json: JsonOption = False,
) -> None:
    """Count what each drafter saves on test queries: passes, tokens, nodes, memory; no times."""
    from chemspec import evaluate as measure
    from chemspec import tally as counting

    asked = measure.questions(source / f"{_task(task)}_test.csv.gz", _task(task), limit=limit)
    engine = _load(task, model, threads=threads, device=device)
    with show.progress("counting") as report:
        rows = counting.tally(
            engine, [item.query for item in asked], _words(drafters), widths=_numbers("widths", widths),
            batch_size=batch_size, progress=report,
        )  # fmt: skip
    if as_json:
        print(json.dumps({"rows": rows}))
    else:
        print(counting.markdown(rows, counting.target_megabytes(engine)))


@app.command()
def lossless(
    file: Annotated[
        Path | None, typer.Argument(help="File of queries; default: the built-in ones.")
    ] = None,
    task: TaskOption = "",
    model: ModelOption = "",
    column: Annotated[str, _option("Column of the file with the SMILES.")] = "",
    limit: Annotated[int, _option("A random sample of so many queries; 0: all.")] = 200,
    seed: Annotated[int, _option("Of the random sample.")] = 0,
    skip: Annotated[
        int,
        typer.Option(min=0, help="Leave out so many of the sample, which an earlier run compared."),
    ] = 0,
    decoder: Annotated[str, _option("auto, greedy or beam; auto: greedy for one answer.")] = "auto",
    n: NOption = 1,
    drafter: Annotated[
        list[str] | None,
        _option("Drafter to compare; may be given several times; default auto."),
    ] = None,
    batch_size: BatchOption = DEFAULT.batch_size,
    max_len: LengthOption = DEFAULT.max_len,
    minutes: Annotated[float, _option("Begin no more queries after this time; 0: no limit.")] = 0.0,
    device: DeviceOption = "auto",
    threads: ThreadsOption = 0,
    runtime: RuntimeOption = "auto",
    markdown: Annotated[
        Path | None, _option("Append the rows to this document.", "--markdown")
    ] = None,
) -> None:
    """Compare exact decoding with a naive decoder without cache or drafts, in fp32; exit code 1 if any answer differs
    that is no tie in the arithmetic. Ctrl-C ends it early and reports what was compared."""
    settings = _decode_settings(decoder, n, True, max_len=max_len, batch_size=batch_size)
    from chemspec import inputs
    from chemspec import lossless as compare

    given = None if file is None else inputs.read_queries(file, column)
    engine = _load(task, model, device=device, dtype="fp32", threads=threads, runtime=runtime)
    queries = compare.queries_for(engine, given, limit=limit, seed=seed, skip=skip)
    chunks, interrupted = [], False
    with show.progress("comparing") as report:
        names = drafter or [DEFAULT.drafter]
        run = compare.check(engine, queries, settings, names, minutes=minutes, progress=report)
        try:
            for chunk in run:
                chunks += [chunk]  # one by one: what is done stays done
        except KeyboardInterrupt:
            interrupted = True
    found = {"task": engine.task, "model": engine.name, "digest": engine.digest, "runtime": engine.runtime,
             "wanted": len(queries), "interrupted": interrupted, **compare.summary(chunks, settings)}  # fmt: skip
    if markdown is not None and chunks:
        head = not markdown.exists()
        with markdown.open("a", encoding="utf-8") as text:
            text.write(compare.markdown(found, head=head) + "\n")
    show.table(compare.table(found))
    print(json.dumps(found))
    raise typer.Exit(130 if interrupted else 0 if found["fine"] else 1)


def _keep(folder: Path, names: list[str], digest: str, found: dict[str, Any]) -> None:
    from datetime import date

    from chemspec import card

    command = " ".join(["chemspec", *sys.argv[1:]])
    for name in names:
        card.keep(folder, name, found, digest=digest, command=command, today=date.today())
    show.note(f"{folder / card.FILE}: {', '.join(names)}; `chemspec card` puts them on the card")


@app.command()
def roundtrip(
    predictions: Annotated[
        Path, typer.Argument(help="What `evaluate --task retro` wrote (.jsonl).")
    ],
    model: ModelOption = "retro",
    forward: Annotated[str, _option("Forward model to ask.")] = "forward",
    source: SourceOption = DATA,
    file: Annotated[Path | None, _option("As given to evaluate.")] = None,
    limit: Annotated[int, _option("As given to evaluate.")] = 0,
    seed: Annotated[int, _option("As given to evaluate.")] = 0,
    most: Annotated[int, _option("Answers checked of each query.")] = 10,
    out: Annotated[Path | None, _option("The forward model's answers (.jsonl), resumable.")] = None,
    kept: KeepOption = False,
    threads: ThreadsOption = 0,
    as_json: JsonOption = False,
) -> None:
    """How many proposed reactant sets does the forward model turn into the target again? (fixed settings, see the docs)"""
    from chemspec import evaluate as measuring
    from chemspec import roundtrip as back
    from chemspec.engine import model_folder
    from chemspec.model.checkpoint import digest_of

    asked = measuring.questions(
        file or source / "retro_test.csv.gz", "retro", limit=limit, seed=seed
    )
    results = measuring.read_answers(predictions, asked)
    engine = _load("forward", forward, threads=threads)
    target = out or Path("runs") / f"roundtrip-{engine.digest[:6]}-{predictions.stem}.jsonl"
    with show.progress("asking") as report:
        found = back.round_trip(engine, asked, results, target, most=most, progress=report)
    if kept:
        folder = model_folder(model)
        _keep(folder, ["roundtrip"], digest_of(folder), found)
    if as_json:
        print(json.dumps(found))
    else:
        show.shares(back.rows(found))


@app.command(name="card")
def card_(task: TaskOption, model: ModelOption = "") -> None:
    """Write the tables of a model's card anew, from what `evaluate`, `roundtrip` and `reliability` kept with --keep."""
    from chemspec import card
    from chemspec.engine import model_folder
    from chemspec.model.checkpoint import digest_of

    folder = model_folder(model or _task(task))
    for problem in card.fill(folder, digest_of(folder)):
        show.note(problem)
    show.line(str(folder / "card.md"))


@app.command(name="bench")
def bench_(
    task: Annotated[str, _option("forward, retro or both.", "--task", "-t")] = "both",
    source: Annotated[
        Path | None, _option("Folder with the reaction CSVs; default: the built-in queries.")
    ] = None,
    limit: Annotated[int, _option("Queries per row.")] = 200,
    widths: Annotated[str, _option("Beam widths for retro; 1 is greedy.")] = "5,10,25",
    batches: Annotated[str, _option("Batch sizes.")] = "1,32",
    engines: Annotated[
        str,
        _option("Of chemspec, naive, ctranslate2 (on one core), ctranslate2-all (on all cores)."),
    ] = "chemspec,naive,ctranslate2,ctranslate2-all",
    drafters: Annotated[
        str, _option("Drafters of chemspec's rows, besides none.")
    ] = DEFAULT.drafter,
    preset: Annotated[
        str, _option("Time this architecture with random weights instead of the models.")
    ] = "",
    threads: ThreadsOption = 0,
    device: DeviceOption = "auto",
    dtype: DtypeOption = "auto",
    markdown: Annotated[
        Path | None,
        _option("Append the table to this document, with command and machine.", "--markdown"),
    ] = None,
    suite: Annotated[
        str, _option("papers: the papers' tables and figures; heeds limit, source and --out only.")
    ] = "",
    out: Annotated[
        Path, _option("For --suite: folder of benchmarks.md, whose section is rewritten.")
    ] = Path("assets/docs"),
    seconds: Annotated[float, _option("For --suite: most seconds of a row.")] = 20.0,
    as_json: JsonOption = False,
) -> None:
    """Time decoding against the naive decoder and CTranslate2 on the same weights, queries and machine."""
    if suite:
        _suite(suite, out, source=source, limit=limit, seconds=seconds, threads=threads, device=device, dtype=dtype)  # fmt: skip
        return
    from chemspec import bench

    plan = bench.Plan(
        tasks=("forward", "retro") if task == "both" else (_task(task),), source=source, limit=limit,
        widths=_numbers("widths", widths), batches=_numbers("batches", batches), engines=_words(engines),
        drafters=_words(drafters), preset=preset, threads=threads, device=device, dtype=dtype,
    )  # fmt: skip
    with show.progress("measuring") as report:
        found = bench.run(plan, progress=report)
    if markdown is not None:
        with markdown.open("a", encoding="utf-8") as file:
            file.write("\n" + bench.markdown(found, "chemspec " + " ".join(sys.argv[1:])))
    if not as_json:
        show.table(bench.table(found))
    print(json.dumps(found))


def _suite(name: str, out: Path, **options: Any) -> None:
    """The benchmark `--suite`; the last line is its report as JSON."""
    if name != "papers":
        raise ValueError(f"no suite {name!r}; there is papers")
    from chemspec import papers
    from chemspec.energy import Meter

    with show.progress("measuring") as report:
        found = papers.run(papers.Suite(**options), progress=report, meter=Meter.find())
    for file in papers.write(found, "chemspec " + " ".join(sys.argv[1:]), out):
        show.note(str(file))
    print(json.dumps(found))


@app.command()
def gammas(
    task: TaskOption,
    model: ModelOption = "",
    source: SourceOption = DATA,
    limit: Annotated[int, _option("A random sample of so many test reactions.")] = 200,
    decoder: DecoderOption = "greedy",
    n: NOption = 1,
    drafters: Annotated[str, _option("Drafters to count.")] = "copy,mixed,ar,hierarchy",
    lengths: Annotated[
        str, _option("Tokens that a small model drafts; 0 adapts to their fate.")
    ] = "0,2,3,4,6,8,12",
    batch_size: BatchOption = 1,
    threads: ThreadsOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Count passes, runs of small models and tokens a pass by draft length, on test reactions."""
    from chemspec import gammas as counting
    from chemspec.evaluate import questions

    engine = _load(task, model, threads=threads)
    asked = questions(source / f"{engine.task}_test.csv.gz", engine.task, limit=limit)
    settings = _decode_settings(decoder, n, exact=False, batch_size=batch_size)
    with show.progress("counting") as report:
        rows = counting.count(
            engine, [item.query for item in asked], settings,
            drafters=_words(drafters), lengths=_numbers("lengths", lengths), progress=report,
        )  # fmt: skip
    if as_json:
        print(json.dumps({"rows": rows}))
        return
    show.line(" | ".join(rows[0]))
    for row in rows:
        show.line(
            " | ".join(
                f"{cell:.3g}" if isinstance(cell, float) else str(cell) for cell in row.values()
            )
        )


@app.command(name="app")
def app_(
    port: Annotated[int, _option("Port on this machine.")] = 8501,
    headless: Annotated[bool, _option("Do not open a browser.", "--headless")] = False,
) -> None:
    """Open the app in a browser."""
    import subprocess

    here = Path(__file__).parent
    inside = here / "assets" / "app" / "app.py"  # of an installation; else of the source tree
    script = inside if inside.is_file() else here.parent / "app.py"
    options = ["--server.port", str(port), "--server.headless", str(headless).lower()]
    options += ["--browser.gatherUsageStats", "false"]  # wherever the settings file is
    command = [sys.executable, "-m", "streamlit", "run", str(script), *options]
    raise typer.Exit(subprocess.call(command, cwd=script.parent))


if __name__ == "__main__":
    main()
