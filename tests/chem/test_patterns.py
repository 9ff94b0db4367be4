"""No pattern takes exponential time: a text such as `1-11-11` can be parted in many ways, and would stop a service."""

from __future__ import annotations

import importlib
import itertools
import pkgutil
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from chemspec.chem.formats import read_input
from chemspec.settings import Task

TEXTS = (  # each took minutes once
    "(" * 26 + "&lol;" + "(" * 60 + "CCO.CN",
    "1/" * 29,
    "CCO, " + "1-1" * 130 + "Z(",
    "(" + "rsez" * 30 + "-nitrobenzene",
    "acid (" + "aq " * 60,
    "[Na+].[" + "OH" * 21,
    "CCO, " + " " * 1600 + "x",
    "CCO " + "\u2192" * 19_000,
    "CCO, " + "=" * 19_000,
    "CCO, " + "(" * 19_000,
)
ENOUGH = 0.25  # seconds of processor time: at most some milliseconds are needed
LENGTH = 240


class TakesTooLongError(Exception):
    """A pattern was still at work."""


@contextmanager
def limit(seconds: float) -> Iterator[None]:
    """Interrupt what takes more processor time: `re` asks for signals now and then."""

    def interrupt(*_: object) -> None:
        raise TakesTooLongError

    before = signal.signal(signal.SIGPROF, interrupt)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("task", ["forward", "retro"])
def test_texts_of_many_partings_are_read_at_once(text: str, task: Task) -> None:
    with limit(4.0):
        read_input(text, task=task)


def patterns_in(value: Any) -> Iterator[re.Pattern[str]]:
    """The patterns that a module keeps, in lists and tables too."""
    if isinstance(value, re.Pattern):
        if isinstance(value.pattern, str):
            yield value
    elif isinstance(value, dict):
        yield from patterns_in([*value.values()])
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from patterns_in(item)


def repeated_texts(pattern: re.Pattern[str], step: int) -> Iterator[str]:
    """Each so many of short texts of the pattern's own signs and words, repeated, with and without a misfit."""
    plain = re.sub(r"\\[A-Za-z]|\[\^?|\]", "", pattern.pattern)
    signs = sorted({char for char in plain if not char.isalnum() and char not in "?*+|\\^$ "})[:8]
    atoms = ["1", "a", "A", " ", *signs]
    words = re.findall(r"[A-Za-z°]{2,}", plain)[:8]
    units = {"".join(unit) for size in (1, 2) for unit in itertools.product(atoms, repeat=size)}
    units |= {word + sign for word in words for sign in ("", *atoms)} | {f"1{sign}1" for sign in signs}
    for unit in sorted(units)[::step]:
        body = (unit * LENGTH)[:LENGTH]
        yield from (body, body + "!", *(f"a{sign}{body}!z" for sign in atoms[3:]))


@pytest.mark.slow  # a million searches, a fifth of them at every push
@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("package", ["chem", "io", "stock", "data", "importers", "service", "jobs", "system"])
def test_no_pattern_takes_exponential_time(package: str, step: int) -> None:
    root = importlib.import_module(f"chemspec.{package}")
    for module in pkgutil.walk_packages(root.__path__, f"{root.__name__}."):
        importlib.import_module(module.name)
    modules = [module for name, module in sys.modules.items() if name.startswith(root.__name__)]
    patterns = {pattern for module in modules for pattern in patterns_in([*vars(module).values()])}
    assert patterns or package not in ("chem", "io", "stock")
    for pattern in sorted(patterns, key=lambda item: item.pattern):
        for text in repeated_texts(pattern, step):
            try:
                with limit(ENOUGH):
                    pattern.search(text)
            except TakesTooLongError:
                pytest.fail(f"{pattern.pattern[:200]} takes too long with {text[:60]!r}")
