"""Model folders from strangers are data: what lies in them is refused, at once, with its reason."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.limited import outcome
from helpers.small import QUERIES, TOKENIZER, tiny_folder
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

from chemspec.cli.__main__ import app
from chemspec.engine.confidence import load_confidence
from chemspec.engine.engine import Engine
from chemspec.model import checkpoint, runtime
from chemspec.model.checkpoint import CheckpointError
from chemspec.model.heads import Heads, HeadsConfig
from chemspec.model.transformer import Transformer
from chemspec.settings import DecodeSettings, ModelConfig
from chemspec.system.untrusted import MAX_BYTES

DEEP = "[" * 100_000 + "]" * 100_000
SHORT = {"d_model": 16, "heads": 2, "feedforward": 16, "encoder_layers": 1, "decoder_layers": 1, "max_positions": 32}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tiny_folder(tmp_path / "retro", **SHORT)


def rewrite(file: Path, **values: Any) -> None:
    """Put values, given as JSON text, into a file of JSON."""
    known = {name: json.dumps(value) for name, value in json.loads(file.read_text()).items()}
    lines = [f"{json.dumps(name)}: {value}" for name, value in {**known, **values}.items()]
    file.write_text("{" + ", ".join(lines) + "}", encoding="utf-8")


def refused(load: Callable[[], Any], error: type[Exception] = CheckpointError) -> str:
    """The reason; within two seconds, and without a gigabyte."""
    return outcome(load, error, seconds=2, size=1_000_000_000)


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        *(("max_positions", value, "max_positions") for value in ("3000000", str(2**63), "-5", "0", "2")),
        *((key, str(2**20), "has shape") for key in ("d_model", "feedforward")),
        *((key, str(2**62), "between 1 and 1048576") for key in ("d_model", "feedforward", "vocab_size")),
        *((key, "200", "is missing") for key in ("encoder_layers", "decoder_layers")),
        ("encoder_layers", "10000000", "between 0 and 256"),
        ("decoder_layers", "10000000", "between 1 and 256"),
        *(("layer_norm_eps", value, "malformed") for value in ("NaN", "Infinity", "-Infinity")),
        *(("layer_norm_eps", value, "out of range") for value in ("1" * 400, "1" * 5000, "1e400")),
        *(("layer_norm_eps", value, "layer_norm_eps") for value in ("-1.0", "0", "1e30")),
        ("extra", DEEP, "nested"),
    ],
)
def test_a_config_that_lies_is_refused_before_anything_is_allocated(
    folder: Path, key: str, value: str, reason: str
) -> None:
    rewrite(folder / "config.json", **{key: value})
    assert reason in refused(lambda: checkpoint.load(folder))


@pytest.mark.parametrize("name", ["decoder.layers.0.linear1.weight", "embedding.weight"])
@pytest.mark.parametrize("size", [1e38, -3e38])
def test_weights_whose_scores_are_no_numbers_are_refused(folder: Path, name: str, size: float) -> None:
    state = load_file(folder / "model.safetensors")
    state[name].view(-1)[-1] = size  # of an embedding, that of one rare token
    state[name].view(-1)[0] = size
    if "linear1" in name:
        state[name].fill_(size)
    save_file(state, folder / "model.safetensors")
    assert "infinite or undefined" in refused(lambda: checkpoint.load(folder).model)
    assert "infinite or undefined" in refused(lambda: Engine.load(folder, threads=1, device="cpu"))


@pytest.mark.parametrize("size", [1e38, -3e38])
def test_large_scores_that_are_numbers_give_answers(folder: Path, size: float) -> None:
    state = load_file(folder / "model.safetensors")
    state["output.bias"][[0, -1]] = size
    save_file(state, folder / "model.safetensors")
    results = Engine.load(folder, threads=1, device="cpu").predict(QUERIES, decoder="greedy", n=1, max_len=8)
    for result in results:
        assert result.status == "ok" and torch.isfinite(torch.tensor(result.hypotheses[0].log_prob))


@pytest.mark.parametrize("name", ["config.json", "vocab.json"])
def test_a_json_file_that_is_far_too_large_is_refused(folder: Path, name: str) -> None:
    with (folder / name).open("a") as file:
        file.write(" " * MAX_BYTES)
    assert "has more than 5 MB" in (message := refused(lambda: checkpoint.load(folder))) and name in message


@pytest.mark.parametrize(
    ("tokens", "reason"), [(["\ud800"], "no JSON"), (["C\nN"], "be printed"), (["\x1b[2J"], "be printed")]
)
def test_a_vocabulary_that_cannot_be_printed_is_refused(folder: Path, tokens: list[str], reason: str) -> None:
    known = list(TOKENIZER.tokens)
    (folder / "vocab.json").write_text(json.dumps([*known[: -len(tokens)], *tokens]))
    assert reason in refused(lambda: checkpoint.load(folder))


LIES = [
    *(("medusa", {"length": value}) for value in ("1000001", str(10**30), "1e400")),
    ("medusa", {"model": DEEP}),
    ("medusa", {"vocabulary": "NaN"}),
    *(("blockwise", {name: size}) for name, size in (("heads", 10**9), ("vocab_size", 10**15), ("d_model", 10**12))),
    ("spec_drafter", {"norm_first": "no"}),
    *(("spec_drafter", {name: 10**9}) for name in ("max_positions", "encoder_layers", "d_model", "feedforward")),
]


@pytest.mark.parametrize(("kind", "change"), LIES, ids=lambda value: str(value)[:40])
def test_a_drafter_that_lies_is_refused(folder: Path, kind: Any, change: dict[str, Any]) -> None:
    """About itself, as text of JSON, or about the shape of its network."""
    where, size = checkpoint.drafter_folder(folder, kind), len(TOKENIZER)
    if kind == "spec_drafter":
        network: Any = Transformer(ModelConfig(vocab_size=size + 1, **SHORT))  # type: ignore[arg-type]
    else:
        network = Heads(HeadsConfig(vocab_size=size, d_model=16, style=kind, heads=2))
    checkpoint.save_drafter(where, network, TOKENIZER, kind=kind, length=3)
    checkpoint.load_drafter(where, tokenizer=TOKENIZER)
    if kind != "medusa":
        change = {"model": json.dumps({**network.config.to_json(), **change})}
    rewrite(where / "config.json", **change)
    refused(lambda: checkpoint.load_drafter(where, tokenizer=TOKENIZER))


@pytest.mark.parametrize("text", [DEEP, '{"slope": 1e400}', '{"slope": ' + "1" * 400 + "}", '{"slope": NaN}', "[]"])
def test_a_confidence_that_lies_is_refused(folder: Path, text: str) -> None:
    (folder / "confidence.json").write_text(text)
    found, problem = load_confidence(folder, "digest")
    assert found is None and "confidence.json" in problem
    engine = Engine.load(folder, threads=1, device="cpu")
    assert engine.confidence is None and engine.confidence_problem


@pytest.mark.parametrize("text", [DEEP, '{"by_chance": [1e400]}', json.dumps({"by_chance": [10**400] * 11})])
def test_what_drafters_learned_is_refused_if_it_lies(folder: Path, text: str) -> None:
    (folder / "drafting.json").write_text(text)
    engine = Engine.load(folder, threads=1, device="cpu")
    assert engine.predict("CCO", drafter="copy").status == "ok"
    assert "drafting.json" in refused(lambda: engine.predict("CCO", drafter="mixed"), ValueError)


@pytest.fixture
def broken(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose weights pass every check but give scores that are no numbers as soon as a bracket is read."""
    state = load_file(folder / "model.safetensors")
    state["embedding.weight"][TOKENIZER.tokens.index("(")] = 1e38
    save_file(state, folder / "model.safetensors")
    for module in (checkpoint, runtime):
        monkeypatch.setattr(module, "probe", lambda *_, **__: None)
    return folder


@pytest.mark.parametrize(("dtype", "runtime"), [("fp32", "native"), ("int8", "native"), ("fp32", "torch")])
@pytest.mark.parametrize("how", [{"decoder": "greedy", "n": 1}, {"decoder": "beam", "n": 3}], ids=str)
def test_scores_that_are_no_numbers_never_leave_as_an_answer(
    broken: Path, how: dict[str, Any], dtype: str, runtime: str
) -> None:
    engine = Engine.load(broken, threads=1, device="cpu", dtype=dtype, runtime=runtime)
    settings = DecodeSettings(max_len=8, drafter="copy", **how)
    results = engine.predict(QUERIES, settings)
    bracketed = ["(" in query for query in QUERIES]
    assert any(bracketed) and not all(bracketed)
    for query, result in zip(QUERIES, results, strict=True):
        if "(" in query:
            assert result.status == "failed" and "infinite or undefined" in result.message and not result.hypotheses
        assert result.status == "failed" or all(torch.isfinite(torch.tensor(h.log_prob)) for h in result.hypotheses)
    *_, last = engine.stream(QUERIES[1], settings)
    assert getattr(last, "status", "") == "failed"


def test_json_holds_numbers_only(broken: Path) -> None:
    result = CliRunner().invoke(
        app, ["predict", QUERIES[1], "--model", str(broken), "--json", "--max-len", "8", "--device", "cpu"]
    )
    assert result.exit_code == 1
    json.loads(result.stdout.splitlines()[-1], parse_constant=lambda text: pytest.fail(f"{text} is no JSON"))
