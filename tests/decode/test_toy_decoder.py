"""A decoder from outside the package: registered, it is wherever decoders are chosen, and drafts are lossless."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from plugin import help_text, install, scope_of
from small import QUERIES, tiny_folder
from typer.testing import CliRunner

from chemspec.decode.protocol import START, Decoder, finish_sequence
from chemspec.decode.registry import DECODERS, DecoderSpec, register
from chemspec.engine.engine import Engine
from chemspec.settings import DecodeSettings
from chemspec.tokenizer import EOS

# The decoder -------------------------------------------------------------------------------------


def second_start(*, max_len: int) -> Decoder:
    """Write greedily, but begin with the second best token: what the model would say if its first idea were barred."""
    prefix, log_probs = START, list[float]()
    while len(log_probs) < max_len and prefix[-1] != EOS:
        (scores,) = yield (prefix,)
        rank = 1 if prefix == START else 0
        prefix = (*prefix, int(scores.ids[rank]))
        log_probs.append(float(scores.log_probs[rank]))
    return [finish_sequence(prefix, log_probs)]


TOY = DecoderSpec(
    "toy",
    "Second start",
    "greedy from the second best token",
    "exact",
    lambda _, settings: second_start(max_len=settings.max_len),
    top_k=lambda _: 2,
)

# Where it is found -------------------------------------------------------------------------------


@pytest.fixture(params=["registered", "plugged in"])
def toy(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of the decoder, known for one test: by the public call, or by an entry point."""
    if request.param == "plugged in":
        monkeypatch.syspath_prepend(install(tmp_path / "site", "chemspec.decoders", toy=f"{__name__}:TOY"))
    with scope_of(DECODERS):
        if request.param == "registered":
            register(TOY)
        yield "toy"


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    tiny_folder(folder / "retro")
    return folder


@pytest.mark.parametrize("drafter", ["auto", "mixed", "windows"])
def test_no_drafter_changes_its_answers(toy: str, drafter: str, models: Path) -> None:
    engine = Engine.load(models / "retro", threads=1)
    settings = DecodeSettings(decoder=toy, n=1, max_len=30, drafter="none")
    plain = engine.predict(QUERIES, settings)
    drafted = engine.predict(QUERIES, replace(settings, drafter=drafter))
    best = engine.predict(QUERIES, replace(settings, decoder="greedy"))
    assert [r.hypotheses[0].smiles for r in drafted] == [r.hypotheses[0].smiles for r in plain]
    assert [r.hypotheses[0].tokens[:1] for r in plain] != [r.hypotheses[0].tokens[:1] for r in best]
    assert (settings.exact, settings.guarantee) == (True, "exact")


def test_commands_take_it(toy: str, models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from chemspec.cli.__main__ import app

    monkeypatch.setenv("CHEMSPEC_MODELS", str(models))
    words = ["predict", "CCO", "--task", "retro", "--threads", "1", "--max-len", "20", "--decoder", toy, "--json"]
    found = CliRunner().invoke(app, words)
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout)["settings"]["decoder"] == "toy"


def test_the_app_offers_it(toy: str) -> None:
    from chemspec.ui.predict import options
    from chemspec.ui.speed import race_page

    assert options.decoder_labels(("none",))[toy] == "Second start: greedy from the second best token"
    assert toy in race_page.comparable_decoders()


def test_help_names_it(tmp_path: Path) -> None:
    site = install(tmp_path, "chemspec.decoders", toy="test_toy_decoder:TOY")
    assert ", toy;" in help_text("predict", site, Path(__file__).parent)


def test_what_was_registered_for_a_test_is_gone_after_it() -> None:
    with scope_of(DECODERS):
        register(TOY)
        assert DecodeSettings(decoder="toy").guarantee == "exact"
    with pytest.raises(ValueError, match=r"no decoder 'toy'; there are beam, greedy, .*"):
        DecodeSettings(decoder="toy")
