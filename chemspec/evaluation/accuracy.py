"""Measure accuracy on test reactions: exact match after canonicalisation among the first k answers."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any

from chemspec.chem import canonical
from chemspec.chem.reagent_sets import normal_form
from chemspec.data.reactions import canonical_pair
from chemspec.data.shards import read_rows
from chemspec.engine.engine import Engine
from chemspec.evaluation.error_analysis import count_errors
from chemspec.io.writers import predict_file
from chemspec.settings import DecodeSettings, Task
from chemspec.tasks import TASKS

RANKS = (1, 2, 3, 5, 10)


@dataclass(frozen=True)
class KnownReaction:
    """One test reaction: the query, the true answer (canonical), and its class, if the file tells one."""

    query: str
    answer: str
    kind: str = ""


def questions(
    file: Path, task: Task, *, limit: int = 0, seed: int = 0, leave_out: Sequence[str] = ()
) -> list[KnownReaction]:
    """Read test reactions.

    Args:
        file: a CSV, gzipped or not, with the columns that `chemspec.tasks` names.
        task: forward or retro.
        limit: draw so many at random, always the same ones for a seed; 0 takes all.
        seed: of the random choice.
        leave_out: rows with "1" in one of these columns are not used; a file may lack them.

    Raises:
        ValueError: if the file lacks rows or columns.
    """
    rows = [row for row in read_rows(file) if not any(row.get(column) == "1" for column in leave_out)]
    if not rows:
        raise ValueError(f"{file} has no rows")
    for column in TASKS.lookup(task).columns:
        if column not in rows[0]:
            raise ValueError(f"{file} has no column {column!r}; it has {', '.join(rows[0])}")
    if limit and limit < len(rows):
        rows = random.Random(seed).sample(rows, limit)
    return [_question(row, task) for row in rows]


def _question(row: Mapping[str, str], task: Task) -> KnownReaction:
    query, answer = (text or "" for text in canonical_pair(row, task))  # a short row has None
    return KnownReaction(query, in_normal_form(answer, task) or answer, row.get("reaction_class") or "")


def evaluate(
    engine: Engine,
    asked: Sequence[KnownReaction],
    out: Path,
    settings: DecodeSettings,
    *,
    standard: Path | None = None,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> dict[str, Any]:
    """Answer test reactions into a file and score what it holds.

    Args:
        engine: that answers.
        asked: reactions whose answers are known.
        out: predictions (.jsonl), resumable, see `predict_file`.
        settings: how to decode.
        standard: answer them the standard way too (no drafts), into this file, and compare.
        progress: is told how many queries of how many are done.

    Returns:
        Counts, top-k accuracies with 95 % intervals, the share of invalid SMILES among all and among first answers, of
        molecules given twice, top-1 by class, and what is wrong with wrong first answers.
    """
    task = engine.task
    results = [comparable(one, task) for one in answer_all(engine, asked, out, settings, progress=progress)]
    scores = score(asked, results)
    if TASKS.lookup(task).whole:
        scores["recall"] = recall([item.answer for item in asked], list(map(different, results)))
    scores["faults"] = count_errors([(item.query, item.answer) for item in asked], results, engine.task)
    if standard is not None:
        how = replace(settings, drafter="none")
        slow = [comparable(one, task) for one in answer_all(engine, asked, standard, how, progress=progress)]
        scores["standard"] = {**score(asked, slow), **differences(results, slow)}
    return scores


def answer_all(
    engine: Engine,
    asked: Sequence[KnownReaction],
    out: Path,
    settings: DecodeSettings,
    *,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> list[dict[str, Any]]:
    """Return answers in the form of `writers.result_document`, by way of a file.

    Args:
        engine: that answers.
        asked: reactions whose answers are known.
        out: predictions (.jsonl), resumable.
        settings: how to decode.
        progress: is told how many queries of how many are done.

    Raises:
        ValueError: for a file with another ending.
    """
    if out.suffix != ".jsonl":
        raise ValueError(f"{out}: predictions are written as .jsonl")
    out.parent.mkdir(parents=True, exist_ok=True)
    predict_file(engine, [item.query for item in asked], out, settings, progress=progress)
    return read_answers(out, asked)


def read_answers(file: Path, asked: Sequence[KnownReaction]) -> list[dict[str, Any]]:
    """Read what `answer_all` wrote about these questions.

    Raises:
        ValueError: if the file is about others.
    """
    try:
        with file.open(encoding="utf-8") as lines:
            answers = [json.loads(line) for line in islice(lines, len(asked))]
        same = [answer["query"] for answer in answers] == [item.query for item in asked]
    except (UnicodeDecodeError, json.JSONDecodeError, KeyError, TypeError) as error:
        raise ValueError(f"{file} holds no predictions: {error}") from error
    if not same:
        raise ValueError(
            f"{file} does not answer these {len(asked)} questions; give limit and seed as evaluate had them"
        )
    return answers


def in_normal_form(answer: str, task: Task) -> str | None:
    """Return an answer in the form in which answers to a task are compared; None where it cannot be read."""
    return normal_form(answer) if TASKS.lookup(task).whole else canonical(answer)


def comparable(result: Mapping[str, Any], task: Task) -> dict[str, Any]:
    """Return a result with its valid answers in normal form."""
    answers = [
        {**one, "canonical": in_normal_form(one["canonical"], task) or one["canonical"]} if one["valid"] else one
        for one in result["hypotheses"]
    ]
    return {**result, "hypotheses": answers}


def different(result: Mapping[str, Any]) -> list[str]:
    """Return the different valid answers of a result, best first."""
    return list(dict.fromkeys(answer["canonical"] for answer in result["hypotheses"] if answer["valid"]))


def recall(truths: Sequence[str], lists: Sequence[Sequence[str]]) -> dict[str, dict[str, float]]:
    """Return by k the share of all true reagents that are in one of the first k sets of a list."""
    wanted = [set(truth.split(".")) for truth in truths]
    return {
        str(k): share(
            sum(len(own & set(".".join(found[:k]).split("."))) for own, found in zip(wanted, lists, strict=True)),
            sum(map(len, wanted)),
        )
        for k in RANKS
    }


def score(asked: Sequence[KnownReaction], results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the accuracy of results in the form of `result_document`; a refused query counts as answered wrongly."""
    ranks = [rank_of(item.answer, result["hypotheses"]) for item, result in zip(asked, results, strict=True)]
    written = [_written(result) for result in results]
    first = [result["hypotheses"][0] for result in results if result["hypotheses"]]
    width = max((len(result["hypotheses"]) for result in results), default=0)
    kinds = sorted({item.kind for item in asked if item.kind}, key=lambda kind: (len(kind), kind))
    return {
        "reactions": len(asked),
        "refused": sum(result["status"] != "ok" for result in results),
        "top": {str(k): share(sum(0 < rank <= k for rank in ranks), len(ranks)) for k in RANKS if k <= width},
        "invalid": share(sum(bad for bad, _ in written), sum(all_ for _, all_ in written)),
        "invalid_first": share(sum(not answer["valid"] for answer in first), len(first)),
        "repeated": share(sum(map(_repeated, results)), sum(map(_valid, results))),
        "top1_by_class": {
            kind: share(
                sum(rank == 1 for item, rank in zip(asked, ranks, strict=True) if item.kind == kind),
                sum(item.kind == kind for item in asked),
            )
            for kind in kinds
        },
        "passes_per_query": sum(result["passes"] for result in results) / max(1, len(results)),
        "seconds_per_query": sum(result["seconds"] for result in results) / max(1, len(results)),
    }


def _written(result: Mapping[str, Any]) -> tuple[int, int]:
    """Count invalid answers and all answers that the model wrote, of all spellings where they were merged."""
    if merged := result.get("merged"):
        return merged["invalid"], merged["answers"]
    answers = result["hypotheses"]
    return sum(not answer["valid"] for answer in answers), len(answers)


def _valid(result: Mapping[str, Any]) -> int:
    return sum(bool(answer["valid"]) for answer in result["hypotheses"])


def _repeated(result: Mapping[str, Any]) -> int:
    """Count valid answers that are a molecule again which stands further up."""
    return _valid(result) - len({answer["canonical"] for answer in result["hypotheses"] if answer["valid"]})


def differences(first: Sequence[Mapping[str, Any]], second: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Count places where two runs over the same questions have another text; `gap` is that of the other log-probs."""
    differing, answers, gap = 0, 0, 0.0
    for own, theirs in zip(first, second, strict=True):
        for a, b in zip_longest(own["hypotheses"], theirs["hypotheses"]):
            answers += 1
            if a is None or b is None or a["smiles"] != b["smiles"]:
                differing += 1
            else:
                gap = max(gap, abs(a["log_prob"] - b["log_prob"]))
    return {"differing": differing, "answers": answers, "gap": gap}


def rank_of(answer: str, hypotheses: Sequence[Mapping[str, Any]]) -> int:
    """Return the rank (from 1) of the true answer among the different valid ones; 0 if it is not there."""
    seen = list(dict.fromkeys(item["canonical"] for item in hypotheses if item["valid"]))
    return seen.index(answer) + 1 if answer in seen else 0


def share(part: int, whole: int) -> dict[str, float]:
    """Return a proportion with its 95 % interval (Wilson)."""
    if not whole:
        return {"value": 0.0, "low": 0.0, "high": 0.0}
    z, p = 1.96, part / whole
    centre = (p + z * z / (2 * whole)) / (1 + z * z / whole)
    half = z * math.sqrt(p * (1 - p) / whole + z * z / (4 * whole * whole)) / (1 + z * z / whole)
    # Rounding must not put the ends past the value where it is 0 or 1.
    low, high = min(p, max(0.0, centre - half)), max(p, min(1.0, centre + half))
    return {"value": p, "low": low, "high": high}
