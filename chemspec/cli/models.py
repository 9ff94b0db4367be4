"""The commands `models`, `import` and `evaluate`."""

from pathlib import Path
from typing import Annotated, Any

from chemspec.cli import options as opt
from chemspec.cli.base import command
from chemspec.evaluation.settings import EvaluationSettings
from chemspec.settings import DecodeSettings
from chemspec.tasks import check_task
from chemspec.terminal import console
from chemspec.terminal.documented_options import FieldsOf

# Options of `evaluate`, and other defaults than those of the class.
DECODING = ("n", "decoder", "drafter", "batch_size", "max_len", "augment", "distinct")
CHANGED = {"decoder": "auto", "n": 10, "batch_size": 32}


@command("models", "Answers")
def list_models(use: str = "") -> dict[str, Any]:
    """List the installed models; `edits`: source of the edit table used for drafting (own or the task's default).

    Options:
        use: let this model predict its task where none is named; the name of a task goes back to the shipped model.
    """
    from chemspec.engine.registry import (
        choose_model,
        default_model,
        describe_installed_models,
        model_folder,
        models_dir,
        task_of_model,
    )

    if use:
        choose_model(check_task(task_of_model(model_folder(use))), use)
    rows = describe_installed_models()
    for row in rows:
        row["default"] = "yes" if row["name"] == default_model(row["task"]) else ""
    console.print_rows(rows, right=("mb",))
    if not rows:
        console.print_note(f"no models in {models_dir()}")
    return {"models": rows}


@command("import", "Answers")
def import_checkpoint(
    path: Path,
    out: Path,
    vocab: Path | None = None,
    task: str = "",
    template: str = "",
    license_text: str = "",
    unknown: str = "refuse",
) -> dict[str, Any]:
    """Convert another program's checkpoint to a model folder: no code in it is executed.

    Options:
        path PATH: checkpoint, or folder with one: OpenNMT-py, Chemformer, ...
        out -o: folder to write.
        vocab: vocabulary file, if it is separate from the checkpoint.
        license_text --license: licence of the checkpoint, for its model card.
        unknown: tokens outside its vocabulary: refuse the query, or map to unk (not for Hugging Face models).
    """
    from chemspec.importers import model_formats
    from chemspec.importers.base import LoadOptions, write_imported_model

    if not path.exists():
        raise ValueError(f"{path} is missing")
    if unknown not in ("refuse", "unk"):
        raise ValueError(f"--unknown {unknown!r} is not refuse or unk")
    options = LoadOptions(check_task(task) if task else None, template, "", vocab, unknown == "unk")
    loaded = model_formats.load(path, options)
    write_imported_model(loaded, path, out, license_text=license_text, command=opt.command_line())
    for name, value in loaded.details.items():
        console.print_line(f"{name}: {value}")
    for note in (*loaded.notes, f"{out}: a {loaded.task} model; chemspec predict --model {out} ..."):
        console.print_note(note)
    return {"out": str(out), "task": loaded.task, "digest": loaded.digest, "found": dict(loaded.details)}


@command("evaluate", "Models")
def evaluate_model(
    task: str = "",
    model: str = "",
    *,
    settings: EvaluationSettings,
    exact: bool = True,
    decoding: Annotated[dict[str, Any], FieldsOf(DecodeSettings, DECODING, CHANGED)],
    keep_numbers: bool = False,
    runtime: opt.ImportedRuntime,
) -> dict[str, Any]:
    """Measure top-k accuracy on a test set: USPTO-50K for retro, USPTO-MIT mixed for forward, or --file."""
    from chemspec.evaluation import accuracy

    chosen = opt.build_decode_settings(exact=exact, **decoding)
    engine = runtime.load(task, model)
    keep = opt.command_line() if keep_numbers else ""
    with console.progress_bar("evaluating") as report:
        measured = accuracy.evaluate_model(engine, settings, chosen, keep=keep, progress=report)
    console.print_note(f"predictions: {measured['predictions']}" + f"; stored in {engine.folder}" * keep_numbers)
    for title, named in accuracy.titled_proportions(measured, model or engine.name).items():
        console.print_proportions(named, title)
    return measured
