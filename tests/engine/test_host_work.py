"""How much Python a query takes beside the compiled code, in calls: a count that no machine changes."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from call_profile import with_profile
from compilers import skip_without_compiler
from tiny import tiny_model

import chemspec
from chemspec.decode.compiled import loop
from chemspec.decode.compiled.build import loop_library
from chemspec.draft.base import Drafter
from chemspec.draft.inputs import DrafterInputs
from chemspec.draft.registry import build_drafter
from chemspec.engine.engine import Engine
from chemspec.model import checkpoint
from chemspec.model.cost import CostCurve
from chemspec.settings import DecodeSettings
from chemspec.tokenizer import Tokenizer

QUERY = "CC(C)(C)OC(=O)NCc1ccccc1"


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    folder = tmp_path_factory.mktemp("host") / "m"
    tokenizer = Tokenizer.build([QUERY])
    checkpoint.save(folder, tiny_model(0, len(tokenizer), d_model=32).float(), tokenizer, task="retro")
    engine = Engine.load(folder, device="cpu", threads=1)
    skip_without_compiler()
    assert engine.runtime == "native" and loop_library() is not None
    return engine


def calls(work: Callable[[], Any], package: str = "") -> int:
    """How many functions are called, Python's own and built-in ones, or those of a package only."""
    counted = 0

    def count(frame: FrameType, event: str, __: Any) -> None:
        nonlocal counted
        inside = event == "call" and frame.f_code.co_filename.startswith(package)
        counted += inside if package else event in ("call", "c_call")

    with_profile(work, count)
    return counted


@pytest.mark.parametrize(
    ("settings", "most", "per_pass"),
    [
        (DecodeSettings(decoder="greedy", n=1, drafter="none", max_len=60), 700, 2.5),
        (DecodeSettings(decoder="greedy", n=1, drafter="copy", max_len=60), 1200, 4.5),
        (DecodeSettings(decoder="beam", n=10, drafter="none", max_len=60), 1300, 2.5),
    ],
    ids=["greedy", "drafts", "beam"],
)
def test_python_does_little_for_a_query(
    engine: Engine, settings: DecodeSettings, most: int, per_pass: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some hundred calls a query, to read it, begin, read the records and write up; of a pass only its record."""
    monkeypatch.setattr(loop, "MAX_NATIVE_SECONDS", 60.0)  # a busy machine must not break off passes in a row
    counted = []
    for each in (settings, replace(settings, max_len=30)):
        passes = len(engine.predict(QUERY, each).trace.passes)
        counted.append((calls(partial(engine.predict, QUERY, each)), passes))
    (many, long), (few, short) = counted
    assert many <= most
    assert long - short >= 25
    assert (many - few) / (long - short) <= per_pass  # one call more for each would show


def test_a_greedy_query_takes_few_calls_within_the_package(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is wired, looked up or checked twice on the way from a text to its prediction."""
    monkeypatch.setattr(loop, "MAX_NATIVE_SECONDS", 60.0)
    settings = DecodeSettings(decoder="greedy", n=1, max_len=60)
    engine.predict(QUERY, settings)
    package = str(Path(chemspec.__file__).parent)
    assert calls(partial(engine.predict, QUERY, settings), package) < 250


@pytest.mark.parametrize(("decoder", "n"), [("greedy", 1), ("beam", 3)])
def test_a_drafter_that_cannot_gain_is_built_once(
    engine: Engine, decoder: str, n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pass costs nothing beside its nodes here, so no draft is worth it, whatever the width."""
    built: list[str] = []
    monkeypatch.setattr(engine.resources, "_curve", CostCurve((1, 128), (1.0, 128.0)))
    monkeypatch.setattr(engine.resources, "undrafted", set())

    def counted(settings: DecodeSettings, inputs: DrafterInputs) -> Drafter:
        built.append(settings.drafter)
        return build_drafter(settings, inputs)

    engine = replace(engine, build_drafter=counted)
    how = DecodeSettings(decoder=decoder, n=n, drafter="copy")  # type: ignore[arg-type]
    plain = engine.predict([QUERY, "CCNC"], replace(how, drafter="none"))
    built.clear()
    drafted = [engine.predict([QUERY, "CCNC"], how) for _ in range(3)]
    assert len(built) == 1
    for results in drafted:
        assert [result.hypotheses for result in results] == [result.hypotheses for result in plain]
        assert not sum(item.drafted for result in results for item in result.trace.passes)
