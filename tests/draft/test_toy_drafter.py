"""A drafter of thirty lines from outside the package: registered, it is everywhere where drafters are chosen."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from plugin import help_text, install, scope_of
from small import QUERIES, tiny_folder
from typer.testing import CliRunner

from chemspec.draft.inputs import DrafterInputs
from chemspec.draft.registry import DRAFTERS, DrafterSpec, register
from chemspec.engine.engine import Engine
from chemspec.engine.registry import usable_drafters
from chemspec.settings import DecodeSettings
from chemspec.types import Draft, Prefix

# The drafter -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class InStep:
    """The query from the place where the answer is now: good where a reaction changes the end of a molecule only."""

    length: int = 8

    def propose(self, source: Sequence[int], prefix: Prefix, max_new_tokens: int) -> Sequence[Draft]:
        """Propose at most one draft, of at most `max_new_tokens` tokens."""
        start = len(prefix) - 1  # bos is no part of the answer
        tokens = tuple(source[start : start + min(self.length, max_new_tokens)])
        return [Draft(tokens, "toy", (start, start + len(tokens)))] if tokens else []


def build(settings: DecodeSettings, _: DrafterInputs) -> InStep:
    """Make the drafter of one run; --draft-length 0 leaves its length to it."""
    return InStep(settings.draft_length or InStep.length)


TOY = DrafterSpec("toy", "the query, in step with the answer", "ours", build)

# Where it is found -------------------------------------------------------------------------------


@pytest.fixture(params=["registered", "plugged in"])
def toy(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of the drafter, known for one test: by the public call, or by an entry point."""
    if request.param == "plugged in":
        monkeypatch.syspath_prepend(install(tmp_path / "site", "chemspec.drafters", toy=f"{__name__}:TOY"))
    with scope_of(DRAFTERS):
        if request.param == "registered":
            register(TOY)
        yield "toy"


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    tiny_folder(folder / "retro")
    return folder


def test_it_drafts_and_changes_no_answer(toy: str, models: Path) -> None:
    engine = Engine.load(models / "retro", threads=1)
    for settings in (DecodeSettings(decoder="greedy", n=1, max_len=30), DecodeSettings(n=3, max_len=30)):
        plain = engine.predict(QUERIES, replace(settings, drafter="none"))
        drafted = engine.predict(QUERIES, replace(settings, drafter=toy, drafting="fixed"))
        assert [[h.smiles for h in r.hypotheses] for r in drafted] == [[h.smiles for h in r.hypotheses] for r in plain]
        assert sum(item.drafted for result in drafted for item in result.trace.passes) > 0
        assert drafted[0].trace.settings["drafter"] == "toy"


def test_commands_take_it(toy: str, models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from chemspec.cli.__main__ import app

    monkeypatch.setenv("CHEMSPEC_MODELS", str(models))
    common = ["--task", "retro", "--threads", "1", "--json"]
    found = CliRunner().invoke(app, ["predict", "CCO", "--max-len", "20", "--drafter", toy, *common])
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout)["settings"]["drafter"] == "toy"
    sizes = ["--widths", "1", "--batches", "1", "--limit", "1"]
    found = CliRunner().invoke(app, ["bench", *sizes, "--drafters", toy, *common])
    assert found.exit_code == 0, found.output
    rows = json.loads(found.stdout.splitlines()[-1])["rows"]
    assert {row["drafter"]: row["identical"] for row in rows} == {"none": 1.0, "toy": 1.0}


def test_the_app_offers_it(toy: str, models: Path) -> None:
    from chemspec.ui.predict import options

    assert toy in usable_drafters(models / "retro")
    assert (
        options.drafter_labels("beam", usable_drafters(models / "retro"))[toy]
        == "toy: the query, in step with the answer"
    )
    assert toy not in options.drafter_labels("speculative-sample", tuple(DRAFTERS))


def test_help_names_it(tmp_path: Path) -> None:
    site = install(tmp_path, "chemspec.drafters", toy="test_toy_drafter:TOY")
    assert ", toy;" in help_text("predict", site, Path(__file__).parent)


# What can go wrong -------------------------------------------------------------------------------


def test_one_of_the_same_name_is_replaced_with_a_warning() -> None:
    with scope_of(DRAFTERS):
        register(TOY)
        register(TOY)  # the same again is no harm
        with pytest.warns(RuntimeWarning, match="the drafter 'toy' is replaced"):
            register(replace(TOY, label="another"))
        assert DRAFTERS["toy"].label == "another"


@pytest.mark.parametrize(
    ("value", "says"),
    [("no_such_package:TOY", "no_such_package"), (f"{__name__}:build", "no DrafterSpec"), ("small:NOTHING", "NOTHING")],
)
def test_a_broken_plug_in_is_named_and_harms_nobody(
    value: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(install(tmp_path, "chemspec.drafters", broken=value))
    with scope_of(DRAFTERS):
        with pytest.warns(RuntimeWarning, match=f"the drafter 'broken' of {value} .*{says}"):
            assert "broken" not in DRAFTERS
        assert "copy" in DRAFTERS
