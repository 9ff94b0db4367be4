"""List of distinct predictions: different valid molecules, none of them the query.

Each search is exact; the filtered list is labelled as such (`types.Distinct`). If a beam contains too few distinct
predictions, a wider one is searched, up to a limit; it reuses the scores and the KV cache of the narrower one if
possible (`Engine.decode`), which does not change its output.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import log

import chemspec.chem as chem
from chemspec.chem.checks.weapons_convention import refusal
from chemspec.chem.molecules.tautomers import representatives
from chemspec.chem.reactions import guide
from chemspec.settings import DecodeSettings, Task
from chemspec.types import DecodeResult, Distinct, Hypothesis

MAX_TIMES = 4  # maximum beam width, as a multiple of the number of predictions
MAX_WIDTH = 50  # maximum width of a widened beam
MAX_GUIDED_WIDTH = 100  # the maximum with a guide, which may leave out many answers
WITHHELD = "answers with chemicals of the Chemical Weapons Convention are withheld"


def search_widths(settings: DecodeSettings) -> tuple[int, ...]:
    """Return the beam widths to try in order until there are `settings.n` distinct predictions."""
    first = settings.n
    if (first == 1 and not settings.guide) or settings.decoder != "beam":
        return (first,)
    wider = [min(MAX_WIDTH, first * times) for times in (2, MAX_TIMES)]
    if settings.guide:
        wider = [min(MAX_GUIDED_WIDTH, max(MAX_WIDTH, 2 * first)), MAX_GUIDED_WIDTH]
    return tuple(dict.fromkeys((first, *(max(first, width) for width in wider))))


def select_result(results: Sequence[DecodeResult], query: str, task: Task, settings: DecodeSettings) -> DecodeResult:
    """Return the last of several searches for one query, with `distinct` reduced to its distinct predictions.

    Probabilities of different SMILES of one molecule and of its tautomers are added, and the list is sorted by the sums
    (by votes after augmentation). If calibrated ones add up to more than 1, they are scaled down to 1, because only one
    prediction can be correct. Predictions that hold a chemical of the Chemical Weapons Convention which is refused in
    every question are withheld, as far as they are listed: the trace keeps their tokens. Which predictions repeat the
    query, a canonical SMILES, depends on the task. A guide (`chem.reactions.guide`) that cannot be used makes
    the result invalid.
    """
    last = results[-1]
    if last.status != "ok" or not settings.distinct:
        return last
    texts: dict[str, Hypothesis] = {}  # sampling may return one text several times
    for answer in last.hypotheses:
        texts.setdefault(answer.smiles, answer)
    groups: dict[str, list[Hypothesis]] = {}
    sound, omitted = [], []
    withheld = 0
    for answer in texts.values():
        if answer.valid and refusal(answer.canonical):
            withheld += 1
        elif not answer.valid or echoes_query(task, query, answer.canonical):
            omitted.append(answer)
        else:
            sound.append(answer)
    first_tautomer = representatives(answer.canonical for answer in sound)
    for answer in sound:
        groups.setdefault(first_tautomer[answer.canonical], []).append(answer)
    try:
        fits = _guide_predicate(settings.guide, task, query)
    except ValueError as error:
        return replace(last, status="invalid", message=str(error), hypotheses=())
    merged_answers = [_merge_texts(group) for group in groups.values()]
    if last.merged is None:
        merged_answers.sort(key=lambda answer: -answer.model_probability)
    total = max(1.0, sum(answer.probability for answer in merged_answers if answer.calibrated))
    fair = [
        replace(answer, probability=answer.probability / total) if answer.calibrated else answer
        for answer in merged_answers
    ]
    fitting, excluded = ([answer for answer in fair if fits(answer.canonical) == wish] for wish in (True, False))
    made = Distinct(
        tuple(int(result.trace.settings["n"]) for result in results),
        len(texts) - len(merged_answers) - len(omitted) - withheld,
        tuple(omitted),
        tuple(excluded),
        tuple(results[:-1]),
    )
    notes = (*last.notes, *_omission_note(made), *(WITHHELD,) * bool(withheld))
    trace = replace(last.trace, seconds=sum(result.trace.seconds for result in results))
    return replace(last, hypotheses=tuple(fitting[: settings.n]), trace=trace, notes=notes, distinct=made)


def has_enough_answers(result: DecodeResult, query: str, task: Task, settings: DecodeSettings) -> bool:
    """Return whether no wider search is needed: one found enough distinct predictions, or failed."""
    chosen = select_result([result], query, task, settings)
    return not settings.distinct or chosen.status != "ok" or len(chosen.hypotheses) >= settings.n


def _guide_predicate(guide_text: str, task: Task, query: str) -> Callable[[str], bool]:
    """Return a predicate that tests whether a prediction fits a guide."""
    if not guide_text:
        return lambda _: True
    if task != "retro":
        raise ValueError("a guide tells how a molecule is to be made; it is for retro models")
    return guide.guide_predicate(guide.parse_guide(guide_text), query)


def echoes_query(task: Task, query: str, answer: str) -> bool:
    """Return whether a prediction repeats the query: the target or its stereoisomer, or a starting material."""
    parts = answer.split(".")
    if task == "retro":
        target = chem.main_product(query)
        flat = target and chem.drop_stereo(target)
        return any(part == target or (len(part) > 3 and chem.drop_stereo(part) == flat) for part in parts)
    return chem.main_product(answer) in (chem.canonical_parts(query) or ())


def _merge_texts(variants: Sequence[Hypothesis]) -> Hypothesis:
    if len(variants) == 1:
        return variants[0]
    total = min(1.0, sum(answer.model_probability for answer in variants))
    tautomers: dict[str, float] = {}
    for answer in variants:
        tautomers[answer.canonical] = min(1.0, tautomers.get(answer.canonical, 0.0) + answer.model_probability)
    return replace(
        variants[0],
        model_probability=total,
        probability=variants[0].probability if variants[0].calibrated else total,
        log_prob=log(total) if total else variants[0].log_prob,
        tautomers=tuple(tautomers.items()) if len(tautomers) > 1 else (),
    )


def _omission_note(made: Distinct) -> tuple[str, ...]:
    invalid = sum(not answer.valid for answer in made.omitted)
    counts = {
        "merged as other SMILES or tautomers of an answer": made.merged,
        "invalid SMILES": invalid,
        "the query again": len(made.omitted) - invalid,
        "not as the guide wants": len(made.excluded),
    }
    parts = [f"{count} {what}" for what, count in counts.items() if count]
    wide = f"searched {' and '.join(map(str, made.widths))} wide" if len(made.widths) > 1 else ""
    summary = "; ".join(filter(None, [", ".join(parts), wide]))
    return (f"answers left out: {summary}" if parts else summary,) if summary else ()
