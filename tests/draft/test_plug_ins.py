"""Drafters and decoders from outside the package: chosen and lossless like our own, and named if they are faulty."""

from __future__ import annotations

import json
import math
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import Result
from helpers.plugin import help_text, install, scope_of
from helpers.small import QUERIES
from helpers.table import Table, run
from typer.testing import CliRunner

import chemspec
from chemspec.decode.beam import greedy_search
from chemspec.decode.protocol import START, Decoder, finish_sequence
from chemspec.decode.registry import DraftAwareDecoder
from chemspec.draft.base import HOOKS, FunctionDrafter, NoDrafts, as_drafter
from chemspec.draft.inputs import DrafterInputs
from chemspec.draft.registry import build_drafter
from chemspec.engine.registry import usable_drafters
from chemspec.plugins import DECODERS, DRAFTERS
from chemspec.settings import DecodeSettings, decode_settings
from chemspec.tokenizer import BOS, EOS
from chemspec.types import Draft, Prefix

# The plug-ins ------------------------------------------------------------------------------------


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


def second_start(*, max_len: int) -> Decoder:
    """Write greedily, but begin with the second best token: what the model would say if its first idea were barred."""
    prefix, log_probs = START, list[float]()
    while len(log_probs) < max_len and prefix[-1] != EOS:
        (scores,) = yield (prefix,)
        rank = 1 if prefix == START else 0
        prefix = (*prefix, int(scores.ids[rank]))
        log_probs.append(float(scores.log_probs[rank]))
    return [finish_sequence(prefix, log_probs)]


DRAFTER = chemspec.DrafterSpec("toy", "the query, in step with the answer", "ours", build)
DECODER = chemspec.DecoderSpec(
    "toy",
    "Second start",
    "greedy from the second best token",
    "exact",
    lambda _, settings: second_start(max_len=settings.max_len),
    top_k=lambda _: 2,
)
FILE = """
import chemspec

def propose(source, prefix, max_new_tokens):
    '''The query, in step with the answer.'''
    start = len(prefix) - 1
    return [source[start : start + max_new_tokens]]

@chemspec.drafter("in-step", reference="a paper")
def named(source, prefix, max_new_tokens):
    return propose(source, prefix, max_new_tokens)

number = 3
"""


def invoke(words: Sequence[str]) -> Result:
    """Run a command; its modules are imported here, for they load plug-ins, of which this file is one."""
    from chemspec.cli.__main__ import app

    return CliRunner().invoke(app, words)


def install_toys(folder: Path) -> Path:
    """Write a package with both toys; returns its folder, for `sys.path`."""
    install(folder, "chemspec.drafters", toy=f"{__name__}:DRAFTER")
    return install(folder, "chemspec.decoders", toy=f"{__name__}:DECODER")


@pytest.fixture(autouse=True)
def _scope() -> Iterator[None]:
    with scope_of(chemspec.DRAFTERS), scope_of(chemspec.DECODERS):
        yield


@pytest.fixture(params=["registered", "plugged in"])
def toys(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both toys, by the public call or by entry points."""
    if request.param == "registered":
        chemspec.DRAFTERS.register(DRAFTER)
        chemspec.DECODERS.register(DECODER)
    else:
        monkeypatch.syspath_prepend(install_toys(tmp_path))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "lookup.py"
    path.write_text(FILE)
    return path


# Where they are found ----------------------------------------------------------------------------


@pytest.mark.usefixtures("toys")
@pytest.mark.parametrize(("decoder", "n"), [("greedy", 1), ("beam", 3), ("toy", 1)])
def test_a_toy_drafts_and_no_drafter_changes_what_a_toy_decodes(decoder: str, n: int, tiny_retro: Path) -> None:
    engine = chemspec.load(tiny_retro, threads=1)
    settings = DecodeSettings(decoder=decoder, n=n, max_len=30, drafter="none", drafting="fixed")
    plain = engine.predict(QUERIES, settings)
    for drafter in ("toy", "mixed", "windows"):
        drafted = engine.predict(QUERIES, replace(settings, drafter=drafter))
        assert [one.hypotheses for one in drafted] == [one.hypotheses for one in plain]
        assert sum(step.drafted for one in drafted for step in one.trace.passes)
    assert (settings.exact, settings.guarantee) == (True, "exact")
    best = engine.predict(QUERIES, decoder="greedy", n=1, max_len=30)
    first, best_first = ([one.hypotheses[0].tokens[:1] for one in results] for results in (plain, best))
    assert decoder != "toy" or first != best_first


@pytest.mark.usefixtures("toys")
def test_commands_take_them(tiny_retro: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHEMSPEC_MODELS", str(tiny_retro.parent))
    common = ["--task", "retro", "--threads", "1", "--json"]
    found = invoke(["predict", "CCO", "--max-len", "20", "--drafter=toy", "--decoder=toy", *common])
    assert found.exit_code == 0, found.output
    told = json.loads(found.stdout)["settings"]
    assert (told["drafter"], told["decoder"]) == ("toy", "toy")
    sizes = ["--widths", "1", "--batches", "1", "--limit", "1"]
    found = invoke(["bench", *sizes, "--drafters", "toy", *common])
    assert found.exit_code == 0, found.output
    rows = json.loads(found.stdout)["rows"]
    assert {row["drafter"]: row["identical"] for row in rows} == {"none": 1.0, "toy": 1.0}


@pytest.mark.usefixtures("toys")
def test_the_app_offers_them(tiny_retro: Path) -> None:
    from chemspec.ui.predict import options
    from chemspec.ui.speed import race_page

    assert options.decoder_labels(("none",))["toy"] == "Second start: greedy from the second best token"
    assert "toy" in race_page.comparable_decoders()
    labels = options.drafter_labels("beam", usable_drafters(tiny_retro))
    assert labels["toy"] == "toy: the query, in step with the answer"
    assert "toy" not in options.drafter_labels("speculative-sample", tuple(chemspec.DRAFTERS))


def test_help_names_them(tmp_path: Path) -> None:
    text = help_text("predict", install_toys(tmp_path), Path(__file__).parent)
    assert text.count(", toy;") == 2


def test_one_of_the_same_name_is_replaced_with_a_warning() -> None:
    chemspec.DRAFTERS.register(DRAFTER)
    chemspec.DRAFTERS.register(DRAFTER)  # the same again is no harm
    with pytest.raises(TypeError, match="a decoder is registered as a DecoderSpec, not a DrafterSpec"):
        chemspec.DECODERS.register(DRAFTER)
    with pytest.warns(RuntimeWarning, match="the drafter 'toy' is replaced"):
        chemspec.DRAFTERS.register(replace(DRAFTER, label="another"))
    assert chemspec.DRAFTERS["toy"].label == "another"


def test_an_entry_point_may_name_a_function(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "chemspec.drafters", plain=f"{file.stem}:propose", named=f"{file.stem}:named")
    monkeypatch.syspath_prepend(tmp_path)
    assert [*chemspec.DRAFTERS][-2:] == ["in-step", "plain"]
    del sys.modules[file.stem]


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("no_such_package:TOY", "no_such_package"),
        (f"{__name__}:build", "build is no drafter"),
        ("helpers.small:QUERIES", "no DrafterSpec"),
        ("helpers.small:NOTHING", "NOTHING"),
    ],
)
def test_a_broken_plug_in_is_named_and_harms_nobody(
    value: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(install(tmp_path, "chemspec.drafters", broken=value))
    with pytest.warns(RuntimeWarning, match=f"the drafter 'broken' of {value} .*{says}"):
        assert "broken" not in chemspec.DRAFTERS
    assert "copy" in chemspec.DRAFTERS


# Functions, files -----------------------------------------------------------------------


def test_a_decoder_that_is_given_the_drafter_cannot_be_called_exact() -> None:
    build = DraftAwareDecoder(lambda *_: iter(()))  # type: ignore[arg-type,return-value]
    with pytest.raises(ValueError, match="the decoder 'peeking' is given the drafter"):
        chemspec.DecoderSpec("peeking", "", "", "exact", build)
    chemspec.DecoderSpec("peeking", "", "", "relaxed", build)


def test_a_function_is_no_decoder() -> None:
    with pytest.raises(ValueError, match="it is no DecoderSpec but a function"):
        chemspec.DECODERS.load(f"{__name__}:second_start")


def test_a_function_in_a_file_is_a_drafter(tiny_retro: Path, file: Path) -> None:
    engine = chemspec.load(tiny_retro, threads=1)
    options: dict[str, Any] = {"decoder": "greedy", "n": 1, "max_len": 30, "drafting": "fixed"}
    for name in ("propose", "named"):
        result = engine.predict(QUERIES[0], drafter=f"{file}:{name}", **options)
        assert sum(step.drafted for step in result.trace.passes)
        assert result.trace.settings["drafter"] == ("in-step" if name == "named" else f"{file}:{name}")
    again = engine.predict(QUERIES[0], drafter=f"{file}:named", **options)  # loaded once
    assert again.hypotheses == result.hypotheses


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        *(
            (name, f"the drafter '{name}' cannot be loaded")
            for name in ("missing.py:propose", "no_such_module:propose", "json:loads_not", "json:__name__")
        ),
        ("lookup9:propose", r"for a file write lookup9\.py:propose"),
        ("missing.py:propose", r"cannot be loaded: there is no file .*missing\.py$"),
        ("broken.py:propose", r"cannot be loaded: its code raises FileNotFoundError: no table$"),
        ("lookup.py:short", r"give `propose\(source, prefix, max_new_tokens\)`"),
        ("lookup.py:Other", "give a DrafterSpec"),
    ],
)
def test_what_cannot_be_loaded_is_named(name: str, fault: str, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text(f"{FILE}\ndef short(source, prefix): ...\nclass Other: ...\n")
    (file.parent / "broken.py").write_text("raise FileNotFoundError('no table')\n")
    monkeypatch.chdir(file.parent)
    with pytest.raises(ValueError, match=fault):
        chemspec.DRAFTERS.load(name)
    with pytest.raises(ValueError, match=r"give lookup\.py:NAME"):
        chemspec.DRAFTERS.lookup("lookup.py")


def test_settings_and_requests_over_http_never_load_code(file: Path, tmp_path: Path) -> None:
    """Only the command line and a caller's own keyword do; a name in a request is looked up among the registered."""
    from chemspec.service.schema import PredictQuestion

    file.write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\n{FILE}")
    for field in ("drafter", "decoder"):
        question = PredictQuestion(queries="CCO", **{field: f"{file}:propose"})  # type: ignore[arg-type]
        with pytest.raises(ValueError, match=f"no {field} '{file}:propose'"):
            decode_settings(exact=True, remedy="", **question.settings)
        with pytest.raises(ValueError, match=f"no {field} '{file}:propose'"):
            chemspec.DecodeSettings(**{field: f"{file}:propose"})  # type: ignore[arg-type]
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(
    "proposed",
    [3, None, [None], [4], ["CC"], [("C",)], [[4.5]], [[99]], [[-1]], [[2**40]], [chemspec.Draft((77,), "bad")]]
    + [[chemspec.Draft(tokens, "bad")] for tokens in (("C",), (4.5,), 5)]
    + [[chemspec.Draft((4, 5), "bad", probabilities=chances)] for chances in ((0.5,), (0.5, math.nan), "ab")],
    ids=str,
)
def test_a_wrong_proposal_names_the_drafter(proposed: Any, compiled: bool) -> None:
    drafter = FunctionDrafter("bad", lambda *_: proposed)
    with pytest.raises((TypeError, ValueError), match="the drafter 'bad' proposed"):
        run(lambda _: greedy_search(max_len=9), [[4, 5]], Table(0, vocab_size=9), drafter, max_len=9, compiled=compiled)


@pytest.mark.parametrize("hook", HOOKS)
def test_hooks_need_the_base_class(hook: str) -> None:
    """Otherwise they would be ignored without a word."""
    with pytest.raises(TypeError, match=f"the drafter 'Hooked' has {hook}; derive it from chemspec.Drafter"):
        as_drafter(type("Hooked", (), {"propose": lambda *_: (), hook: lambda *_: None})())
    with pytest.raises(TypeError, match="the drafter 'int' has no method `propose`"):
        as_drafter(5)
    assert as_drafter(NoDrafts()) == NoDrafts()


@pytest.mark.parametrize("compiled", [False, True])
def test_ids_may_be_in_any_sequence(compiled: bool) -> None:
    drafts = [chemspec.Draft(tokens, "good") for tokens in ([4, 5], np.array([4, 5]), (np.int64(4), 5))]
    for proposed in ([[4, 5]], [np.array([4, 5])], [(np.int64(4), 5), []], iter([[4, 5]]), drafts):
        drafter = FunctionDrafter("good", lambda *_, proposed=proposed: proposed)
        table = Table(0, vocab_size=9)
        found, passes = run(lambda _: greedy_search(max_len=9), [[4, 5]], table, drafter, max_len=9, compiled=compiled)
        tokens = {type(token) for step in passes[0] for draft in step.drafts for token in draft.tokens}
        assert tokens <= {int}, "others are not read again from JSON"
        assert found == run(lambda _: greedy_search(max_len=9), [[4, 5]], table, NoDrafts(), max_len=9)[0]


ONE = ((BOS,),)


@pytest.mark.parametrize(
    ("request_", "answers", "fault"),
    [
        *((wrong, [], "requested") for wrong in ((), [(BOS,)], ([BOS],), ((4,),), 5, ((),))),
        *((ONE, wrong, "returned") for wrong in (None, [(4, EOS)], "CCO")),
    ],
    ids=str,
)
def test_wrong_requests_and_answers_name_the_decoder(request_: Any, answers: Any, fault: str) -> None:
    def careless() -> Any:
        yield request_
        return answers

    with pytest.raises(TypeError, match=f"the decoder 'careless' {fault}"):
        run(lambda _: careless(), [[4, 5]], Table(0, vocab_size=9), NoDrafts(), max_len=9)


def test_a_file_is_run_again_after_it_has_changed(tmp_path: Path) -> None:
    file = tmp_path / "edited.py"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for token in (5, 6):
            file.write_text(f"def propose(source, prefix, max_new_tokens):\n    return [[{token}]]\n")
            os.utime(file, (token, token))
            name = chemspec.DRAFTERS.load(f"{file}:propose")
            drafter = chemspec.DRAFTERS[name].build(chemspec.DecodeSettings(), chemspec.DrafterInputs(lambda: float))
            assert drafter.propose((), (1,), 8) == [[token]]


def test_drafts_for_sampling_are_built_for_sampling_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = SimpleNamespace(build=lambda *_: "of a search", build_sampled=lambda *_: "of samples")
    monkeypatch.setattr(DRAFTERS, "lookup", lambda _: spec)
    for name in DECODERS:
        wanted = "of samples" if DECODERS[name].drafts == "sampled" else "of a search"
        assert build_drafter(SimpleNamespace(drafts_by="", decoder=name), None) == wanted  # type: ignore[arg-type]
