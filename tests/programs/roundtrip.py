"""Count reactants from which the forward model makes the target again: `python tests/programs/roundtrip.py FILE`.

Settings are fixed, so that numbers compare. The forward model reads the proposed reactants alone, and where there is a
model of reagents once more with those that it proposes for this very reaction, the first set of a beam of ten. The
forward model's first answer by greedy decoding (exact, at most 200 tokens) counts: it must hold the target, or its main
product must be the target, stereochemistry included. Asking the same of the true reactants says how much the forward
model itself allows.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from helpers.scripts import option, script

from chemspec.chem.molecules.salts import balance_charges
from chemspec.cli import options as opt
from chemspec.data.settings import require_data_folder
from chemspec.engine.engine import Engine
from chemspec.engine.registry import model_folder
from chemspec.evaluation.accuracy import (
    RANKS,
    KnownReaction,
    predict_to_file,
    read_known_reactions,
    read_predictions,
    wilson_interval,
)
from chemspec.evaluation.measurements import store_measurements
from chemspec.model.checkpoint import digest_of_folder
from chemspec.review.forward_check import FORWARD_SETTINGS, REAGENT_SETTINGS, gives_target
from chemspec.terminal import console


def round_trip(
    forward: Engine,
    asked: Sequence[KnownReaction],
    results: Sequence[Mapping[str, Any]],
    out: Path,
    *,
    reagents: Engine | None = None,
    most: int = 10,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> dict[str, Any]:
    """Ask the forward model about the first `most` different valid answers to each question, and about the true ones.

    Args:
        forward: the forward model.
        asked: retro questions.
        results: answers of a retro model in the form of `writers.result_document`.
        out: what the forward model says (.jsonl), resumable.
        reagents: a model of reagents; then the forward model is asked also with the reagents that it proposes.
        most: answers checked of each question.
        progress: is told how many queries of how many are done.

    Returns:
        `kept`: by k, the share of the first k answers that lead back, over all answers; `found`: by k, the share of
        questions with at least one such answer; `truth`: the share of true answers that lead back. With a model of
        reagents the same under `with_reagents`, of answers that lead back alone or with them.

    Raises:
        ValueError: if a model is none for its task.
    """
    for engine, task in ((forward, "forward"), (reagents, "reagents")):
        if engine is not None and engine.task != task:
            raise ValueError(f"model {engine.name!r} is a {engine.task} model; a round trip needs a {task} model")
    lists = [
        list(dict.fromkeys(answer["canonical"] for answer in result["hypotheses"] if answer["valid"]))[:most]
        for result in results
    ]
    trips = list(
        dict.fromkeys(
            (item.query, text) for item, own in zip(asked, lists, strict=True) for text in (item.answer, *own)
        )
    )

    def made(flasks: Sequence[str], file: Path) -> set[tuple[str, str]]:
        """Return the trips whose flask gives the target."""
        sets = list(dict.fromkeys(flasks))
        told = predict_to_file(
            forward, [KnownReaction(text, "") for text in sets], file, FORWARD_SETTINGS, progress=progress
        )
        first = dict(zip(sets, map(_first, told), strict=True))
        return {trip for trip, flask in zip(trips, flasks, strict=True) if gives_target(trip[0], first[flask])}

    back = made([reactants for _, reactants in trips], out)
    report = {
        "forward": {"model": forward.name, "digest": forward.digest},
        "reactions": len(asked),
        **_shares(asked, lists, back, most),
    }
    if reagents is not None:
        questions = [KnownReaction(f"{reactants}>>{target}", "") for target, reactants in trips]
        told = predict_to_file(
            reagents, questions, out.with_suffix(".reagents.jsonl"), REAGENT_SETTINGS, progress=progress
        )
        flasks = [
            ".".join(filter(None, (reactants, balance_charges(_first(result)))))
            for (_, reactants), result in zip(trips, told, strict=True)
        ]
        back = back | made(flasks, out.with_suffix(".flasks.jsonl"))
        report["with_reagents"] = {
            "model": reagents.name,
            "digest": reagents.digest,
            **_shares(asked, lists, back, most),
        }
    return report


def _shares(
    asked: Sequence[KnownReaction], lists: Sequence[Sequence[str]], leading: set[tuple[str, str]], most: int
) -> dict[str, Any]:
    back = [[(item.query, text) in leading for text in own] for item, own in zip(asked, lists, strict=True)]
    ranks = [k for k in RANKS if k <= most]
    return {
        "kept": {
            str(k): wilson_interval(sum(sum(own[:k]) for own in back), sum(len(own[:k]) for own in back)) for k in ranks
        },
        "found": {str(k): wilson_interval(sum(any(own[:k]) for own in back), len(back)) for k in ranks},
        "truth": wilson_interval(sum((item.query, item.answer) in leading for item in asked), len(asked)),
    }


def rows(report: Mapping[str, Any]) -> dict[str, Mapping[str, float]]:
    """Return the shares by name, for a table."""
    named = {f"answers that lead back, first {k}": value for k, value in report["kept"].items()}
    named |= {f"targets with such an answer, first {k}": value for k, value in report["found"].items()}
    named["true reactants that lead back"] = report["truth"]
    if more := report.get("with_reagents"):
        named |= {f"{name}, alone or with reagents": value for name, value in rows(more).items()}
    return named


def _first(result: Mapping[str, Any]) -> str:
    """Return the first answer, empty where there is no valid one."""
    return next((str(answer["canonical"]) for answer in result["hypotheses"][:1] if answer["valid"]), "")


def main(
    predictions: Annotated[Path, typer.Argument(help="What `evaluate --task retro` wrote (.jsonl).")],
    model: str = "retro",
    forward: Annotated[str, option("Forward model to ask.")] = "forward",
    reagents: Annotated[str, option("Model of reagents, to ask the forward model with those too.")] = "",
    source: opt.Source = None,
    file: Annotated[Path | None, option("As given to evaluate.")] = None,
    limit: Annotated[int, option("As given to evaluate.")] = 0,
    seed: Annotated[int, option("As given to evaluate.")] = 0,
    most: Annotated[int, option("Answers checked of each query.")] = 10,
    out: Annotated[Path | None, option("The forward model's answers (.jsonl), resumable.")] = None,
    keep_numbers: bool = False,
    threads: int = 0,
    as_json: bool = False,
) -> None:
    """Count proposed reactant sets that the forward model turns into the target again (fixed settings, see docs)."""
    asked = read_known_reactions(
        file or require_data_folder(source) / "retro_test.csv.gz", "retro", limit=limit, seed=seed
    )
    results = read_predictions(predictions, asked)
    engine = opt.load_engine("forward", forward, threads=threads)
    adds = opt.load_engine("reagents", reagents, threads=threads) if reagents else None
    target = out or Path("runs") / f"roundtrip-{engine.digest[:6]}-{predictions.stem}-{most}.jsonl"
    with console.progress_bar("asking") as report:
        measured = round_trip(engine, asked, results, target, reagents=adds, most=most, progress=report)
    if keep_numbers:
        folder = model_folder(model)
        store_measurements(folder, ["roundtrip"], measured, digest=digest_of_folder(folder), command=opt.command_line())
    if as_json:
        console.print_json(measured)
    else:
        console.print_proportions(rows(measured))


app = script(main)
if __name__ == "__main__":
    app()
