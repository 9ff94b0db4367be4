"""Calibrate the probabilities of beam-search answers on validation reactions.

Calibrated is the probability of every distinct valid answer, summed over all SMILES of the molecule in the list.
Two-fold cross-validation gives the reported numbers; the stored calibration is fitted to all queries.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from chemspec.engine.confidence import (
    Confidence,
    apply_calibration,
    expected_calibration_error,
    fit_slope,
    negative_log_likelihood,
)
from chemspec.engine.engine import Engine
from chemspec.evaluation.accuracy import KnownReaction, predict_to_file, read_known_reactions, read_test_reactions
from chemspec.evaluation.measurements import require_folder, store_measurements
from chemspec.evaluation.settings import CalibrationSettings
from chemspec.settings import DecodeSettings
from chemspec.tasks import TASKS
from chemspec.types import Progress, ignore, upgrade_prediction

Answered = list[list[tuple[float, bool]]]  # the answers of each query: probability, and whether it is correct


NUMBERS = tuple(f"{which}: {what}" for which in ("first", "all") for what in ("loss", "ece by width", "ece by mass"))
RAW, TEMPERATURE = "as it is", "temperature"


def calibrate_model(
    engine: Engine, settings: CalibrationSettings, *, keep: str = "", progress: Progress = ignore
) -> dict[str, Any]:
    """Predict queries, fit the confidence to correctness, and store it in the model folder; returns the report.

    With `keep`, the command for it, the report is stored too, for the model card. Raises ValueError without reactions:
    of the task's validation set, held-out ones, or both; or without valid answers.
    """
    task, queries, seed, n, heldout = engine.task, settings.queries, settings.seed, settings.n, settings.heldout
    require_folder(engine.folder)
    reactions: list[KnownReaction] = []
    if not heldout or (settings.source and TASKS.lookup(task).test):
        remedy = "give held-out reactions with --heldout"
        reactions += read_test_reactions(settings.source, task, "val", remedy=remedy, limit=queries, seed=seed)
    if heldout:
        reactions += read_known_reactions(heldout, task, limit=queries, seed=seed)
    made = f"chemspec train calibration --task {task} --queries {queries} --seed {seed} -n {n}"
    made += f" --heldout {heldout.name}" if heldout else ""
    about = f"{engine.name}-{engine.digest[:6]}-{queries}-{seed}-beam{n}" + ("-heldout" if heldout else "")
    out = settings.out or Path("runs") / f"calibration-{about}.jsonl"
    results = predict_to_file(engine, reactions, out, DecodeSettings(n=n, batch_size=32), progress=progress)
    report = fit_calibration(collect_outcomes(reactions, results))
    methods = report["table"]["sequence"]
    raw = {f"{name}, as it is": value for name, value in methods[RAW].items()}
    numbers = {"queries": float(report["queries"]), **methods[TEMPERATURE], **raw}
    Confidence(engine.digest, report["slope"], report["offset"], made, numbers).save(engine.folder)
    document = {"model": engine.name, "digest": engine.digest, "made": made, **report}
    if keep:
        measured = {**document, "numbers": NUMBERS}
        store_measurements(engine.folder, ["reliability"], measured, digest=engine.digest, command=keep)
    return document


def collect_outcomes(reactions: Sequence[KnownReaction], results: Sequence[Mapping[str, Any]]) -> Answered:
    """Return the distinct valid answers of every query, best first; results are as in `result_document`."""
    answered = []
    for question, result in zip(reactions, results, strict=True):
        probs: dict[str, float] = {}
        for answer in map(upgrade_prediction, result["hypotheses"]):
            if answer["valid"]:
                molecule = answer["canonical"]
                probs[molecule] = min(1.0, probs.get(molecule, 0.0) + answer["model_probability"])
        answered.append([(p, text == question.answer) for text, p in probs.items() if p > 0])
    return answered


def fit_calibration(answered: Answered) -> dict[str, Any]:
    """Measure the probabilities as they are and with a temperature, and fit it to all; needs two answered queries.

    Each half of the queries is measured with the temperature fitted to the other half. Returns the numbers of queries
    and of distinct valid answers, `top1` (share of queries whose first answer is correct), the `slope` of the
    calibration, and a `table` by score ("sequence") and method ("as it is", "temperature"): held-out loss in nats and
    expected calibration errors (15 bins of equal width, of equal mass), of first and all answers.
    """
    answered = [answers for answers in answered if answers]
    if len(answered) < 2:
        raise ValueError("fewer than two of the queries have a valid answer; nothing can be measured")
    every = [answer for answers in answered for answer in answers]
    halves = answered[::2], answered[1::2]
    fitted = [fit_slope([answer for answers in other for answer in answers]) for other in halves[::-1]]
    table = {RAW: _held_out_numbers(halves, (1.0, 1.0)), TEMPERATURE: _held_out_numbers(halves, fitted)}
    top1 = sum(answers[0][1] for answers in answered) / len(answered)
    counts = {"queries": len(answered), "answers": len(every), "top1": top1}
    return {**counts, "table": {"sequence": table}, "slope": fit_slope(every), "offset": 0.0}


def _held_out_numbers(halves: Sequence[Answered], slopes: Sequence[float]) -> dict[str, float]:
    first: list[tuple[float, bool]] = []
    every: list[tuple[float, bool]] = []
    for half, slope in zip(halves, slopes, strict=True):
        calibrated = [apply_calibration(answers, slope) for answers in half]
        first += [answers[0] for answers in calibrated]
        every += [answer for answers in calibrated for answer in answers]
    numbers = {}
    for name, scored in (("first", first), ("all", every)):
        numbers[f"{name}: loss"] = negative_log_likelihood(scored)
        numbers[f"{name}: ece by width"] = expected_calibration_error(scored)
        numbers[f"{name}: ece by mass"] = expected_calibration_error(scored, mass=True)
    return numbers
