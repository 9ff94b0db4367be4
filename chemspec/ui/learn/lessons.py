"""The texts of the page How it works and its worked examples.

The examples are traces recorded from the shipped models, never made up; assets/learn/README.md has the commands.
"""

import re
from functools import cache

from chemspec.asset_files import assets_folder
from chemspec.draft.learned.gamma import best_draft_length, wall_time_improvement
from chemspec.types import DecodeResult, result_from_json

MAX_GAMMA = 24  # longest draft considered; the drafter `auto` goes no further


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


def describe_setting(alpha: float, gamma: int, c: float) -> str:
    """Return one setting of the wall-time model in words."""
    now = wall_time_improvement(alpha, gamma, c)
    best = best_draft_length(alpha, c, longest=MAX_GAMMA)
    if best == 0:
        return "Here **no draft pays**: it costs more time than it saves in passes."
    top = wall_time_improvement(alpha, best, c)
    if gamma == 0:
        text = "no gain"
    elif now >= 1:
        text = f"{now:.2f} times as fast as standard decoding"
    else:
        text = f"slower than standard decoding ({now:.2f} times as fast)"
    text = f"With drafts of {gamma} tokens: {text}. The best is {best} tokens, {top:.2f} times as fast"
    return text + (" (the longest considered)." if best == MAX_GAMMA else ".")
