"""The command `evaluate`: accuracy of a model on a test set."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

from chemspec import tasks
from chemspec.cli import options as opt
from chemspec.cli import show
from chemspec.cli.base import command


@dataclass(frozen=True, kw_only=True)
class EvaluationDecoding(opt.Decoding):
    """Options of decoding a test set."""

    n: opt.NOption = 10
    batch_size: opt.BatchOption = 32


@dataclass(frozen=True, kw_only=True)
class KnownReactions:
    """Test reactions.

    Attributes:
        file: CSV with test reactions; default: the task's standard test set.
        limit: number of reactions, sampled at random; 0: all.
        seed: random seed for sampling reactions.
    """

    source: opt.SourceOption = None
    file: Path | None = None
    limit: int = 0
    seed: int = 0


@command("evaluate", "Models")
def evaluate_model(
    task: opt.TaskOption,
    model: opt.ModelOption = "",
    out: opt.PredictionsOption = None,
    *,
    tests: KnownReactions,
    decoding: EvaluationDecoding,
    standard: Annotated[bool, opt.option("Also decode without drafts, and count differences.", "--standard")] = False,
    keep_numbers: opt.KeepOption = False,
    runtime: opt.ImportedRuntime,
    as_json: opt.JsonOption = False,
) -> None:
    """Measure top-k accuracy on a test set: USPTO-50K for retro, USPTO-MIT mixed for forward, or --file."""
    settings = decoding.settings()
    from chemspec.data import holdout
    from chemspec.evaluation import accuracy

    file = tests.file or opt.find_test_file(tests.source, task, "give a file of held-out reactions with --file")
    reactions = accuracy.read_known_reactions(file, opt.parse_task(task), limit=tests.limit, seed=tests.seed)
    engine = runtime.load(task, model)
    augmented = settings.augment > 1
    special = {"distinct": settings.distinct, "augmented": augmented, "int8": engine.dtype == "int8"}
    names = [name for name, applies in special.items() if applies][:1] or ["accuracy", "failures"]
    if file.name == holdout.FILE and tasks.TASKS.lookup(task).test:  # then these are the task's test set
        if keep_numbers and any(special.values()):
            raise ValueError("a model card has held-out accuracy of plain answers in fp32 only; leave out --keep")
        names = ["heldout"]
    what = f"{engine.name}-{engine.digest[:6]}-{file.name.split('.')[0]}-{tests.limit}-{tests.seed}"
    label = f"{settings.decoder}{settings.n}-{decoding.drafter}-{settings.max_len}-{engine.dtype}"
    label += f"-augment{settings.augment}" * augmented + "-distinct" * settings.distinct
    target = out or Path("runs") / f"evaluate-{what}-{label}.jsonl"
    slow = target.with_name(f"{target.stem}-standard.jsonl") if standard else None
    with show.progress_bar("evaluating") as report:
        measured = accuracy.evaluate_model(engine, reactions, target, settings, standard=slow, progress=report)
    head = {"model": engine.name, "digest": engine.digest, "file": file.name}
    measured = {**head, "settings": asdict(settings), "predictions": str(target), **measured}
    if keep_numbers:
        names += ["classes"] if measured["top1_by_class"] and "accuracy" in names else []
        opt.store_measurements(engine.folder, names, engine.digest, measured)
    show.print_note(f"predictions: {target}")
    if as_json:
        show.print_json(measured)
    else:
        show.print_accuracy(measured)
