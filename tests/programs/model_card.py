"""Write the tables of a model's card, `python tests/programs/model_card.py -t retro`, from its evaluation.json.

A section of `card.md` between `<!-- NAME -->` and `<!-- end NAME -->` belongs to this script;
other text is left alone.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from helpers.scripts import script

from chemspec.engine.registry import model_folder
from chemspec.evaluation.measurements import MEASUREMENTS_FILE, read_measurements
from chemspec.io import tables
from chemspec.model.checkpoint import digest_of_folder
from chemspec.tasks import TASKS, check_task
from chemspec.terminal import console

SHARES = {
    "invalid": "answers that are no valid SMILES",
    "invalid_first": "first answers that are no valid SMILES",
    "repeated": "valid answers that repeat a molecule",
}
PLAIN = {"refused": "queries refused", "passes_per_query": "decoder passes a query"}
Section = Mapping[str, Any]


def fill(folder: Path, digest: str) -> list[str]:
    """Write the card's sections anew; returns a line on each that cannot be filled.

    Numbers of other weights are taken out of the card: nobody knows whether they hold.

    Raises:
        ValueError: if there is no card, a section has no end, or a measurement lacks a number.
    """
    file = folder / "card.md"
    if not file.is_file():
        raise ValueError(
            f"{file} is missing; write one, with <!-- accuracy --> and <!-- end accuracy --> where tables go"
        )
    text, measurements = file.read_text(encoding="utf-8"), read_measurements(folder)
    problems = []
    for name, draw in SECTIONS.items():
        pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end {name} -->)", re.DOTALL)
        if f"<!-- {name} -->" not in text:
            if name in measurements:
                problems.append(f"the card has no place for {name}: <!-- {name} --> ... <!-- end {name} -->")
            continue
        if not pattern.search(text):
            raise ValueError(f"{file}: the section {name} has no <!-- end {name} -->")
        section = measurements.get(name)
        if section is None:
            problems.append(f"{name} has not been measured")
            body = "Not measured yet.\n"
        elif section["digest"] != digest:
            problems.append(f"{name} was measured with other weights; measure it again")
            body = "Not measured with these weights yet.\n"
        else:
            try:
                body = draw(section)
            except (KeyError, TypeError) as error:
                raise ValueError(f"{folder / MEASUREMENTS_FILE}: {name} lacks {error}; measure it again") from error
        text = pattern.sub(lambda match, body=body: f"{match[1]}{body}{match[2]}", text)  # type: ignore[misc]
    partial = file.with_suffix(".md.partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(file)
    return problems


# --- sections ------------------------------------------------------------------------------------


def percent(share: Mapping[str, float]) -> str:
    """Return a share with its interval."""
    return f"{share['value']:.1%} ({share['low']:.1%} to {share['high']:.1%})"


def _measured(section: Section) -> str:
    return f"Measured {section['date']} by `{section['command']}`"


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    return tables.lines([head, *rows]) + "\n"


def accuracy(section: Section) -> str:
    """Return top-k with intervals, speculative and standard decoding side by side, and what else was counted."""
    settings, file = section["settings"], f"`{section['file']}`"
    about = next((spec.about for spec in TASKS.values() if spec.test == section["file"]), "")
    augment = settings.get("augment", 1)
    prefix = f"{augment} spellings, " if augment > 1 else ""
    slow = section.get("standard")
    columns = [section, slow] if slow else [section]
    head = ("", "speculative", "standard") if slow else ("", "")
    rows = [(f"{prefix}top-{k}", *(percent(column["top"][k]) for column in columns)) for k in section["top"]]
    rows += [
        (
            f"each reagent, first {k}",
            *(percent(column["recall"][k]) if "recall" in column else "" for column in columns),
        )
        for k in section.get("recall", ())
    ]
    rows += [(text, *(percent(column[name]) for column in columns)) for name, text in SHARES.items() if name in section]
    rows += [(text, *(f"{column[name]:.4g}" for column in columns)) for name, text in PLAIN.items()]
    lines = [
        f"On {section['reactions']} reactions of {f'the {about} ({file})' if about else file}, "
        "exact match after RDKit canonicalisation",
        f"among the first k different valid answers ({_search(settings)}); in brackets the",
        f"95 % interval (Wilson). {_measured(section)}:",
        "",
        _table(head, rows),
    ]
    if slow:
        lines.append(
            f"Answers that differ between the two: {slow['differing']} of {slow['answers']} "
            f"(largest difference in log-prob of equal ones: {slow['gap']:.1e}).\n"
        )
    return "\n".join(lines)


def _search(settings: Mapping[str, Any]) -> str:
    how = f"decoder {settings['decoder']}, width {settings['n']}"
    if settings.get("distinct"):
        how += f" or what it takes for {settings['n']} different molecules, spellings of one added"
    return how


def classes(section: Section) -> str:
    """Return top-1 by reaction class."""
    rows = [(kind, percent(share)) for kind, share in section["top1_by_class"].items()]
    return f"{_measured(section)}:\n\n{_table(('class', 'top-1'), rows)}"


def roundtrip(section: Section) -> str:
    """Return the share of answers from which the forward model makes the target, alone and with proposed reagents."""
    more = section.get("with_reagents")
    ways = [("", section), *([("; with reagents", more)] if more else [])]
    head = (
        "",
        *(f"{what}{how}" for how, _ in ways for what in ("answers that lead back", "targets with such an answer")),
    )
    rows = [
        (f"first {k}", *(percent(way[what][k]) for _, way in ways for what in ("kept", "found")))
        for k in section["kept"]
    ]
    told = f"From the true reactants it makes the target in {percent(section['truth'])}"
    if more:
        told += (
            f", alone or with the reagents that the model `{more['model']}` ({more['digest']}) proposes in "
            f"{percent(more['truth'])}"
        )
    return (
        f"On {section['reactions']} reactions; the forward model `{section['forward']['model']}` "
        f"({section['forward']['digest']}) reads the proposed reactants alone and answers greedily. "
        f"{told}. {_measured(section)}:\n\n" + _table(head, rows)
    )


def reliability(section: Section) -> str:
    """Return calibration errors before and after, held out."""
    rows = [
        (kind, method, *(f"{measured[name]:.3f}" for name in section["numbers"]))
        for kind, methods in section["table"].items()
        for method, measured in methods.items()
    ]
    return (
        f"On {section['queries']} validation queries with {section['answers']} different valid answers; "
        f"fits made on one half and measured on the other, both ways. Stored: slope {section['slope']:.3f}, "
        f"offset {section['offset']:.3f} on the log-odds. {_measured(section)}:\n\n"
        + _table(("probability", "used", *section["numbers"]), rows)
    )


def failures(section: Section) -> str:
    """Return wrong first answers by kind, each with the one that the model was surest of."""
    rows = []
    for kind, fault in section["faults"].items():
        example = fault["example"] or {"query": "", "truth": "", "answer": "", "probability": 0.0}
        texts = (example["query"], example["answer"], example["truth"])
        shown = (f"`{text}`" if text else "" for text in texts)
        rows.append((kind, str(fault["count"]), *shown, f"{example['probability']:.2f}"))
    head = ("first answer", "count", "query", "answer", "truth", "probability")
    measured = f"Of {section['reactions']} reactions; the surest example of each kind. {_measured(section)}"
    return f"{measured}:\n\n{_table(head, rows)}"


SECTIONS: dict[str, Callable[[Section], str]] = {
    "accuracy": accuracy,
    "heldout": accuracy,
    "int8": accuracy,
    "augmented": accuracy,
    "distinct": accuracy,
    "classes": classes,
    "roundtrip": roundtrip,
    "reliability": reliability,
    "failures": failures,
}


def main(task: str, model: str = "") -> None:
    """Write the tables of a model's card anew, from what other commands stored with --keep."""
    folder = model_folder(model or check_task(task))
    for problem in fill(folder, digest_of_folder(folder)):
        console.print_note(problem)
    console.print_line(str(folder / "card.md"))


app = script(main)
if __name__ == "__main__":
    app()
