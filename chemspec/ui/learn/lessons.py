"""The texts of the page Learn, its worked examples, and the definitions of all figures.

The examples are traces recorded from the shipped models, never made up; assets/learn/README.md has the commands.
"""

import inspect
import json
import re
from dataclasses import fields
from functools import cache
from string import Template
from typing import Any

from chemspec.asset_files import assets_folder
from chemspec.metrics import SpeedNumbers, speed_numbers
from chemspec.types import DecodeResult, result_from_json
from chemspec.ui.learn import walltime


@cache
def recorded_example(name: str) -> DecodeResult:
    """Return a recorded answer from assets/examples/learn."""
    text = (assets_folder() / "examples" / "learn" / f"{name}.json").read_text(encoding="utf-8")
    return result_from_json(text)


@cache
def text_sections(name: str) -> tuple[tuple[str, str], ...]:
    """Return the sections of a text in assets/learn as (title, Markdown)."""
    parts = re.split(r"^## +(.+)$", read_text(name), flags=re.MULTILINE)[1:]
    return tuple(zip(parts[::2], (body.strip() for body in parts[1::2]), strict=True))


@cache
def read_text(name: str) -> str:
    """Return a text in assets/learn that has no sections."""
    return (assets_folder() / "learn" / f"{name}.md").read_text(encoding="utf-8")


@cache
def papers_report() -> dict[str, Any]:
    """Return the last `chemspec bench papers`, with `learned` rows of all drafters; empty where it was not run."""
    file = assets_folder() / "docs" / "charts" / "papers.json"
    report: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    return report if report.get("learned") else {}


def drafter_rows(task: str, kind: str) -> list[dict[str, Any]]:
    """Return rows of `measured` for a task and a kind of decoding, as in "greedy B=1", with its `drafter`.

    The standard decoder has the speed-up 1.
    """
    start = f"{task}, {kind}, "
    return [
        {**row, "drafter": row["name"].removeprefix(start), "speedup": row["speedup"] or 1.0}
        for row in papers_report().get("learned", ())
        if row["name"].startswith(start)
    ]


@cache
def example_facts() -> dict[str, str]:
    """Return the numbers that the texts name, counted in the examples."""
    names = ("boc-copy", "boc-none", "amide-beam-copy", "amide-beam-none")
    drafted, standard, ahead, beam = (speed_numbers([recorded_example(name).trace]) for name in names)
    exact, relaxed = recorded_example("amide-beam-none").hypotheses, recorded_example("amide-sbs").hypotheses
    agree = sum(answer.smiles == other.smiles for answer, other in zip(exact, relaxed, strict=False))
    return {
        "tokens": str(drafted.emitted),
        "copied": str(drafted.accepted),
        "passes": str(drafted.passes),
        "standard": str(standard.passes),
        "beam_passes": str(ahead.passes),
        "beam_standard": str(beam.passes),
        "beam_nodes": f"{ahead.nodes_per_pass:.0f}",
        "beam_standard_nodes": f"{beam.nodes_per_pass:.0f}",
        "agree": str(agree),
        "answers": str(len(exact)),
    }


def fill_numbers(text: str) -> str:
    """Return a text with its numbers put in."""
    return Template(text).substitute(example_facts())


def describe_setting(alpha: float, gamma: int, c: float, cost: walltime.Cost) -> str:
    """Return one setting of the wall-time model in words."""
    now = walltime.expected_speedup(alpha, gamma, c, cost)
    best = walltime.best_gamma(alpha, c, cost)
    if best == 0:
        return "Here **no draft pays**: it costs more time than it saves in passes."
    top = walltime.expected_speedup(alpha, best, c, cost)
    if gamma == 0:
        text = "no gain"
    elif now >= 1:
        text = f"{now:.2f} times as fast as standard decoding"
    else:
        text = f"slower than standard decoding ({now:.2f} times as fast)"
    text = f"With drafts of {gamma} tokens: {text}. The best is {best} tokens, {top:.2f} times as fast"
    return text + (" (the longest considered)." if best == walltime.MAX_GAMMA else ".")


@cache
def figure_definitions() -> dict[str, str]:
    """Return what every field of `SpeedNumbers` means, in the words of its docstrings; counts first, then rates."""
    _, _, attributes = (inspect.getdoc(SpeedNumbers) or "").partition("Attributes:\n")
    wrapped = re.compile(r"\n +(?! |\w+: )")  # where a description goes on in the next line
    counted = dict(re.findall(r"^ +(\w+): (.+)$", wrapped.sub(" ", attributes), flags=re.MULTILINE))
    meanings = {field.name: counted.get(field.name, "") for field in fields(SpeedNumbers)}
    for name, member in vars(SpeedNumbers).items():
        if isinstance(member, property):
            meanings[name] = " ".join((inspect.getdoc(member) or "").split())
    return meanings
