"""Top-k accuracy on test reactions: exact match after canonicalisation."""

import json
import math
import random
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any

from chemspec.chem import canonical
from chemspec.chem.molecules.salts import normal_form
from chemspec.chem.reactions.stoichiometry import classify_whole_step
from chemspec.data import holdout
from chemspec.data.reactions import canonical_pair
from chemspec.data.settings import find_test_file
from chemspec.data.shards import read_rows
from chemspec.engine.engine import Engine
from chemspec.evaluation.measurements import require_folder, store_measurements
from chemspec.evaluation.settings import EvaluationSettings
from chemspec.io.writers import predict_file
from chemspec.settings import DecodeSettings, Task, check_range
from chemspec.tasks import TASKS, check_task
from chemspec.types import Progress, ignore

RANKS = (1, 2, 3, 5, 10)
MIN_REACTIONS = 10  # test reactions of a class; with fewer the interval says nothing


@dataclass(frozen=True)
class KnownReaction:
    """A test reaction: query, true answer (canonical), and reaction class if the file has one."""

    query: str
    answer: str
    kind: str = ""


Reactions = Sequence[KnownReaction]


def read_known_reactions(
    file: Path, task: Task, *, limit: int = 0, seed: int = 0, leave_out: Sequence[str] = ()
) -> list[KnownReaction]:
    """Read test reactions from a CSV, possibly gzipped, with the columns of the task (`chemspec.tasks`).

    With `limit`, that many are sampled, the same for a seed; rows with "1" in one of the optional columns `leave_out`
    are left out. Raises ValueError if the file lacks rows or columns.
    """
    rows = [row for row in read_rows(file) if not any(row.get(column) == "1" for column in leave_out)]
    if not rows:
        raise ValueError(f"{file} has no rows")
    for column in TASKS.lookup(task).columns:
        if column not in rows[0]:
            raise ValueError(f"{file} has no column {column!r}; it has {', '.join(rows[0])}")
    check_range("limit", limit, 0)
    if limit and limit < len(rows):
        rows = random.Random(seed).sample(rows, limit)
    reactions = []
    for row in rows:
        query, answer = (text or "" for text in canonical_pair(row, task))  # a short row has None
        known_answer = normalise_answer(answer, task) or answer
        reactions.append(KnownReaction(query, known_answer, row.get("reaction_class") or ""))
    return reactions


def read_test_reactions(
    source: Path | None, task: str, part: str = "test", *, remedy: str = "", limit: int = 0, seed: int = 0
) -> list[KnownReaction]:
    """Read reactions of the task's test or validation set ("val"), the latter without those of a test set.

    The remedy is that of `find_test_file`, limit and seed are those of `read_known_reactions`.
    """
    file = find_test_file(source, task, remedy)
    file = file.with_name(file.name.replace("_test.", f"_{part}."))
    left_out = ("overlaps_test",) if part == "val" else ()
    return read_known_reactions(file, check_task(task), limit=limit, seed=seed, leave_out=left_out)


def evaluate_model(
    engine: Engine, settings: EvaluationSettings, decoding: DecodeSettings, keep: str = "", progress: Progress = ignore
) -> dict[str, Any]:
    """Predict the reactions of a file, or of the standard test set of the task, and score the predictions.

    Returns model, settings, `predictions` and `file`, counts, top-k accuracies with 95 % intervals, the shares of
    invalid SMILES among all and among first answers and of repeated molecules, and accuracy by class (the file's and
    the app's). With `keep`, the command for it, all this is stored in the model folder.
    """
    task, file = engine.task, settings.file
    if keep:
        require_folder(engine.folder)
    if file is None:
        file = find_test_file(settings.source, task, "give a file of held-out reactions with --file")
    reactions = read_known_reactions(file, task, limit=settings.limit, seed=settings.seed)
    name = measurement_name(engine, file, decoding, keep=bool(keep))
    out = settings.out or predictions_file(engine, file, settings, decoding)

    def predict(out: Path, decoding: DecodeSettings) -> list[dict[str, Any]]:
        results = predict_to_file(engine, reactions, out, decoding, progress=progress)
        return [normalise_result(result, task) for result in results]

    results = predict(out, decoding)
    about = {"model": engine.name, "digest": engine.digest, "settings": asdict(decoding), "predictions": str(out)}
    measured = {**about, **score_predictions(reactions, results)}
    if TASKS.lookup(task).whole:
        measured["recall"] = reagent_recall([item.answer for item in reactions], list(map(distinct_answers, results)))
    else:
        measured["classes"] = accuracy_by_class(reactions, results, task)
    if settings.standard:
        slow = predict(out.with_name(f"{out.stem}-standard.jsonl"), replace(decoding, drafter="none"))
        measured["standard"] = {**score_predictions(reactions, slow), **count_differences(results, slow)}
    measured["file"] = file.name
    if keep:
        names = [name] + ["classes"] * bool(name == "accuracy" and measured["top1_by_class"])
        store_measurements(engine.folder, names, measured, digest=engine.digest, command=keep)
    return measured


def measurement_name(engine: Engine, file: Path, decoding: DecodeSettings, *, keep: bool = False) -> str:
    """Return the name of a measurement on a model's card; to `keep` other than plain held-out answers: ValueError."""
    special = {"distinct": decoding.distinct, "augmented": decoding.augment > 1, "int8": engine.dtype == "int8"}
    if file.name == holdout.FILE and TASKS.lookup(engine.task).test:  # then these are the task's test set
        if keep and any(special.values()):
            raise ValueError("a model card has held-out accuracy of plain answers in fp32 only; leave out --keep")
        return "heldout"
    return next((name for name, applies in special.items() if applies), "accuracy")


def predictions_file(engine: Engine, file: Path, settings: EvaluationSettings, decoding: DecodeSettings) -> Path:
    """Return the default file of predictions, which names what they depend on."""
    about = f"{engine.name}-{engine.digest[:6]}-{file.name.split('.')[0]}-{settings.limit}-{settings.seed}"
    label = f"{decoding.decoder}{decoding.n}-{decoding.drafter}-{decoding.max_len}-{engine.dtype}"
    label += f"-augment{decoding.augment}" * (decoding.augment > 1) + "-distinct" * decoding.distinct
    return Path("runs") / f"evaluate-{about}-{label}.jsonl"


def titled_proportions(measured: Mapping[str, Any], model: str) -> dict[str, dict[str, dict[str, float]]]:
    """Return the proportions of a measurement for people: by title of a table and name of a row."""
    named = {f"top-{k}": value for k, value in measured["top"].items()}
    named |= {key.replace("_", " "): measured[key] for key in ("invalid", "invalid_first", "repeated")}
    named |= {f"each reagent, first {k}": value for k, value in measured.get("recall", {}).items()}
    titled = {f"{model} on {measured['reactions']} reactions of {measured['file']}": named}
    if slow := measured.get("standard"):
        title = f"standard decoding: {slow['differing']} of {slow['answers']} answers differ"
        titled[title] = {f"top-{k}": value for k, value in slow["top"].items()}
    return titled


def predict_to_file(
    engine: Engine, reactions: Reactions, out: Path, settings: DecodeSettings, *, progress: Progress = ignore
) -> list[dict[str, Any]]:
    """Predict to a .jsonl file (else ValueError), and return the results as in `writers.result_document`."""
    if out.suffix != ".jsonl":
        raise ValueError(f"{out}: predictions are written as .jsonl")
    out.parent.mkdir(parents=True, exist_ok=True)
    predict_file(engine, [item.query for item in reactions], out, settings, progress=progress)
    return read_predictions(out, reactions)


def read_predictions(file: Path, reactions: Reactions) -> list[dict[str, Any]]:
    """Read a file of `predict_to_file`; raises ValueError if it has predictions of other queries."""
    try:
        with file.open(encoding="utf-8") as lines:
            answers = [json.loads(line) for line in islice(lines, len(reactions))]
        same = [answer["query"] for answer in answers] == [item.query for item in reactions]
    except (UnicodeDecodeError, json.JSONDecodeError, KeyError, TypeError) as error:
        raise ValueError(f"{file} holds no predictions: {error}") from error
    if not same:
        raise ValueError(
            f"{file} has predictions of other queries than these {len(reactions)}; use its --limit and --seed"
        )
    return answers


def normalise_answer(answer: str, task: Task) -> str | None:
    """Return an answer in the form compared for a task; None if it is invalid."""
    return normal_form(answer) if TASKS.lookup(task).whole else canonical(answer)


def normalise_result(result: Mapping[str, Any], task: Task) -> dict[str, Any]:
    """Return a result with its valid answers in normal form."""
    answers = [dict(answer) for answer in result["hypotheses"]]
    for answer in answers:
        if answer["valid"]:
            answer["canonical"] = normalise_answer(answer["canonical"], task) or answer["canonical"]
    return {**result, "hypotheses": answers}


def distinct_answers(result: Mapping[str, Any]) -> list[str]:
    """Return the distinct valid answers of a result, best first."""
    return list(dict.fromkeys(answer["canonical"] for answer in result["hypotheses"] if answer["valid"]))


def reagent_recall(truths: Sequence[str], lists: Sequence[Sequence[str]]) -> dict[str, dict[str, float]]:
    """Return the share of all true reagents that are in the first k predicted sets, by k."""
    pairs = [(set(truth.split(".")), predicted) for truth, predicted in zip(truths, lists, strict=True)]
    recall = {}
    for k in RANKS:
        hits = sum(len(truth_set & set(".".join(predicted[:k]).split("."))) for truth_set, predicted in pairs)
        recall[str(k)] = wilson_interval(hits, sum(len(truth_set) for truth_set, _ in pairs))
    return recall


def score_predictions(reactions: Reactions, results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Score results as in `result_document`; a refused query counts as wrong."""
    ranks = [rank_of_truth(item.answer, result["hypotheses"]) for item, result in zip(reactions, results, strict=True)]
    written = [_count_invalid(result) for result in results]
    first = [result["hypotheses"][0] for result in results if result["hypotheses"]]
    valid = sum(bool(answer["valid"]) for result in results for answer in result["hypotheses"])
    width = max((len(result["hypotheses"]) for result in results), default=0)
    right_by_kind: dict[str, list[bool]] = defaultdict(list)
    for item, rank in zip(reactions, ranks, strict=True):
        right_by_kind[item.kind].append(rank == 1)
    kinds = sorted(filter(None, right_by_kind), key=lambda kind: (len(kind), kind))
    return {
        "reactions": len(reactions),
        "refused": sum(result["status"] != "ok" for result in results),
        "top": top_accuracies(ranks, [k for k in RANKS if k <= width]),
        "invalid": wilson_interval(sum(bad for bad, _ in written), sum(all_ for _, all_ in written)),
        "invalid_first": wilson_interval(sum(not answer["valid"] for answer in first), len(first)),
        "repeated": wilson_interval(valid - sum(len(distinct_answers(result)) for result in results), valid),
        "top1_by_class": {kind: wilson_interval(sum(right_by_kind[kind]), len(right_by_kind[kind])) for kind in kinds},
        "passes_per_query": sum(result["passes"] for result in results) / max(1, len(results)),
        "seconds_per_query": sum(result["seconds"] for result in results) / max(1, len(results)),
    }


def accuracy_by_class(
    reactions: Reactions, results: Sequence[Mapping[str, Any]], task: Task
) -> dict[str, dict[str, Any]]:
    """Return top-1 and top-5 accuracy by reaction class, as the app names classes, the commonest first."""
    ranks: dict[str, list[int]] = defaultdict(list)
    for item, result in zip(reactions, results, strict=True):
        step = classify_whole_step(*TASKS.lookup(task).sides(item.query, item.answer))
        if step is not None:
            ranks[step.name].append(rank_of_truth(item.answer, result["hypotheses"]))

    common = sorted(ranks.items(), key=lambda item: (-len(item[1]), item[0]))
    return {
        name: {"reactions": len(of_class), "top": top_accuracies(of_class, (1, 5))}
        for name, of_class in common
        if len(of_class) >= MIN_REACTIONS
    }


def _count_invalid(result: Mapping[str, Any]) -> tuple[int, int]:
    """Count invalid answers and all answers of the model, including those of merged SMILES variants."""
    if merged := result.get("merged"):
        return merged["invalid"], merged["answers"]
    answers = result["hypotheses"]
    return sum(not answer["valid"] for answer in answers), len(answers)


def count_differences(first: Sequence[Mapping[str, Any]], second: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Count differing answers of two runs over the same queries; `gap`: largest log-prob difference of the others."""
    differing, answers, gap = 0, 0, 0.0
    for ours, theirs in zip(first, second, strict=True):
        for a, b in zip_longest(ours["hypotheses"], theirs["hypotheses"]):
            answers += 1
            if a is None or b is None or a["smiles"] != b["smiles"]:
                differing += 1
            else:
                gap = max(gap, abs(a["log_prob"] - b["log_prob"]))
    return {"differing": differing, "answers": answers, "gap": gap}


def rank_of_truth(answer: str, hypotheses: Sequence[Mapping[str, Any]]) -> int:
    """Return the rank (from 1) of the true answer among the distinct valid ones; 0 if it is missing.

    An answer to which a tautomer was added (`Hypothesis.tautomers`) is that tautomer, too.
    """
    seen = distinct_answers({"hypotheses": hypotheses})
    for other in hypotheses:
        if answer in (smiles for smiles, _ in other.get("tautomers", ())):
            answer = other["canonical"]
    return seen.index(answer) + 1 if answer in seen else 0


def top_accuracies(ranks: Sequence[int], ks: Iterable[int]) -> dict[str, dict[str, float]]:
    """Return the share of ranks from 1 to k, for every k."""
    return {str(k): wilson_interval(sum(0 < rank <= k for rank in ranks), len(ranks)) for k in ks}


def wilson_interval(part: int, whole: int) -> dict[str, float]:
    """Return a proportion with its 95 % Wilson interval."""
    if not whole:
        return {"value": 0.0, "low": 0.0, "high": 0.0}
    z, p = 1.96, part / whole
    centre = (p + z * z / (2 * whole)) / (1 + z * z / whole)
    half = z * math.sqrt(p * (1 - p) / whole + z * z / (4 * whole * whole)) / (1 + z * z / whole)
    # Rounding must not put the ends past a value of 0 or 1.
    low, high = min(p, max(0.0, centre - half)), max(p, min(1.0, centre + half))
    return {"value": p, "low": low, "high": high}
