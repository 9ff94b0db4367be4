"""The texts of the page Learn, definitions of all figures, and recorded examples (commands: assets/learn/README.md)."""

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
    """Return rows of `measured` for a task and a kind of decoding, as in "greedy B=1", with `drafter` and `speedup`."""
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
    facts = {"tokens": drafted.emitted, "copied": drafted.accepted, "passes": drafted.passes}
    facts |= {"standard": standard.passes, "beam_passes": ahead.passes, "beam_standard": beam.passes}
    facts |= {"beam_nodes": round(ahead.nodes_per_pass), "beam_standard_nodes": round(beam.nodes_per_pass)}
    return {name: str(fact) for name, fact in (facts | {"agree": agree, "answers": len(exact)}).items()}


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
    text = f"{now:.2f} times as fast as standard decoding"
    if now < 1 or gamma == 0:
        text = f"slower than standard decoding ({now:.2f} times as fast)" if gamma else "no gain"
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
