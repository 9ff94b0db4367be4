"""The commands `models`, `import` and `evaluate`."""

from pathlib import Path
from typing import Annotated, Any

from chemspec.cli import options as opt
from chemspec.cli.base import command
from chemspec.settings import DecodeSettings
from chemspec.tasks import TASKS, check_task
from chemspec.terminal import console
from chemspec.terminal.documented_options import FieldsOf

# Options of `evaluate`, and other defaults than those of the class.
DECODING = ("n", "decoder", "drafter", "batch_size", "max_len", "augment", "distinct")
CHANGED = {"decoder": "auto", "n": 10, "batch_size": 32}


@command("models", "Answers")
def list_models() -> dict[str, Any]:
    """List the installed models; `edits`: source of the edit table used for drafting (own or the task's default)."""
    from chemspec.draft.calibration import source_of_edits
    from chemspec.engine.registry import installed_models, models_dir, task_of_model

    rows = []
    for folder in installed_models():
        task = task_of_model(folder) or "unusable"  # one bad folder must not hide the others
        size = sum(file.stat().st_size for file in folder.iterdir() if file.is_file()) / 1e6
        row = {"name": folder.name, "task": task, "mb": round(size, 1), "edits": source_of_edits(folder, task)}
        rows.append({**row, "folder": str(folder)})
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
        unknown: tokens outside its vocabulary: refuse the query, or map to unk.
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
    task: str,
    model: str = "",
    source: opt.Source = None,
    file: Path | None = None,
    limit: int = 0,
    seed: int = 0,
    *,
    exact: bool = True,
    decoding: Annotated[dict[str, Any], FieldsOf(DecodeSettings, DECODING, CHANGED)],
    out: Path | None = None,
    standard: bool = False,
    keep_numbers: bool = False,
    runtime: opt.ImportedRuntime,
) -> dict[str, Any]:
    """Measure top-k accuracy on a test set: USPTO-50K for retro, USPTO-MIT mixed for forward, or --file.

    Options:
        file: CSV with test reactions; default: the task's standard test set.
        limit: number of reactions, sampled at random; 0: all.
        out: file for the predictions (.jsonl); resumable.
        standard: also decode without drafts, and count differences.
    """
    from chemspec.evaluation import accuracy

    settings = opt.build_decode_settings(exact=exact, **decoding)
    file = file or opt.find_test_file(source, task, "give a file of held-out reactions with --file")
    reactions = accuracy.read_known_reactions(file, check_task(task), limit=limit, seed=seed)
    engine = runtime.load(task, model)
    special = {"distinct": settings.distinct, "augmented": settings.augment > 1, "int8": engine.dtype == "int8"}
    measurement = _measurement_name(task, file, special, keep=keep_numbers)
    what = f"{engine.name}-{engine.digest[:6]}-{file.name.split('.')[0]}-{limit}-{seed}"
    label = f"{settings.decoder}{settings.n}-{decoding['drafter']}-{settings.max_len}-{engine.dtype}"
    label += f"-augment{settings.augment}" * (settings.augment > 1) + "-distinct" * settings.distinct
    target = out or Path("runs") / f"evaluate-{what}-{label}.jsonl"
    slow = target.with_name(f"{target.stem}-standard.jsonl") if standard else None
    with console.progress_bar("evaluating") as report:
        measured = accuracy.evaluate_model(engine, reactions, target, settings, standard=slow, progress=report)
    measured["file"] = file.name
    if keep_numbers:
        names = [measurement] + ["classes"] * bool(measurement == "accuracy" and measured["top1_by_class"])
        opt.store_measurements(engine.folder, names, engine.digest, measured)
    console.print_note(f"predictions: {target}")
    _print_accuracy(measured, model or engine.name)
    return measured


def _measurement_name(task: str, file: Path, special: dict[str, bool], *, keep: bool) -> str:
    from chemspec.data import holdout

    if file.name == holdout.FILE and TASKS.lookup(task).test:  # then these are the task's test set
        if keep and any(special.values()):
            raise ValueError("a model card has held-out accuracy of plain answers in fp32 only; leave out --keep")
        return "heldout"
    return next((name for name, applies in special.items() if applies), "accuracy")


def _print_accuracy(report: dict[str, Any], model: str) -> None:
    named = {f"top-{k}": value for k, value in report["top"].items()}
    named |= {"invalid": report["invalid"], "invalid first": report["invalid_first"], "repeated": report["repeated"]}
    named |= {f"each reagent, first {k}": value for k, value in report.get("recall", {}).items()}
    console.print_proportions(named, f"{model} on {report['reactions']} reactions of {report['file']}")
    if slow := report.get("standard"):
        named = {f"top-{k}": value for k, value in slow["top"].items()}
        console.print_proportions(named, f"standard decoding: {slow['differing']} of {slow['answers']} answers differ")
