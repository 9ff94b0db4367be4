"""Where the decoder looks: read from the session, fitted on answers, used to rank places; and the command that learns
it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from compilers import skip_without_compiler
from small import QUERIES, TOKENIZER, tiny_folder
from typer.testing import CliRunner

from chemspec.cli.__main__ import app
from chemspec.data.arrays import Pairs, RaggedArray, pad
from chemspec.draft.calibration import FILE, AttentionWeights, DrafterCalibration, Head
from chemspec.draft.registry import Attention, Copy
from chemspec.engine.engine import Engine
from chemspec.model.runners.native.runner import NativeBackend
from chemspec.model.runners.torch_runner import TorchBackend
from chemspec.model.session import Backend, Session
from chemspec.model.transformer import Transformer
from chemspec.settings import DecodeSettings
from chemspec.testing import tiny_model
from chemspec.tokenizer import BOS, EOS
from chemspec.train.fit_drafters import calibrate
from chemspec.types import Prefix

HEADS = ((0, 1), (1, 0), (1, 3))
READING = AttentionWeights((Head(0, 1, 0.5, 0.2), Head(1, 3, 0.3, 0.9)), (-1.0, 0.0, 0.5), -0.3)
GREEDY = DecodeSettings(decoder="greedy", n=1)
BEAM = DecodeSettings(decoder="beam", n=4, max_len=30)


def attention_of(model: Transformer, source: list[int], target: Prefix) -> torch.Tensor:
    """Cross-attention of all heads, (layers, heads, T, S), worked out without session, cache or mask."""
    memory, _ = model.encode(pad([source]))
    ids = torch.tensor([target])
    places = torch.arange(len(target))
    earlier = (places[:, None] >= places)[None, None]
    everything = torch.ones(1, 1, 1, 1, dtype=torch.bool)
    x, found = model.embed(ids, places, target=True), []
    for layer in model.decoder:
        q, k, v = layer.self_attn.project(layer.before(x, layer.norm1))
        x = layer.add(x, layer.self_attn.attend(q, k, v, earlier), layer.norm1)
        q = layer.multihead_attn.project_query(layer.before(x, layer.norm2))
        k, v = layer.multihead_attn.project_memory(memory)
        found.append(torch.softmax(q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5, dim=-1)[0])
        x = layer.add(x, layer.multihead_attn.attend(q, k, v, everything), layer.norm2)
        x = layer.feed(x, layer.norm3)
    return torch.stack(found)


@pytest.mark.parametrize("runtime", ["torch", "native"])
@pytest.mark.parametrize("specials", [False, True])
@torch.inference_mode()
def test_a_session_tells_where_its_heads_look(specials: bool, runtime: str) -> None:
    """Of every node computed, in a batch, in whatever order; places are those of the query."""
    model = tiny_model(0, 12, d_model=32, heads=4, decoder_layers=2, source_specials=specials)  # float64
    sources = [[4, 5, 6, 7, 8], [9, 4, 11]]
    backend: Backend = TorchBackend(model)
    if runtime == "native":
        skip_without_compiler()
        backend = NativeBackend(model.float(), threads=2)
    session = Session(backend, sources, top_k=2, heads=HEADS)
    paths: list[Prefix] = [(BOS, 5, 6, 7), (BOS, 4)]
    session.score([[paths[0][:2]], [paths[1]]])
    session.score([[paths[0]], []])
    for source, path in zip(sources, paths, strict=True):
        read = [BOS, *source, EOS] if specials else source
        expected = attention_of(model, read, path)
        for length in range(1, len(path) + 1):
            looks = session.attention(tuple(source), path[:length])
            assert looks is not None
            for row, (layer, head) in zip(looks, HEADS, strict=True):
                own = expected[layer, head, length - 1]
                own = own[1 : 1 + len(source)] if specials else own
                assert row[: len(source)] == pytest.approx(own.tolist(), abs=1e-6 if runtime == "torch" else 1e-4)
    assert session.attention(tuple(sources[0]), (BOS, 9)) is None


def test_attention_chooses_between_places_that_match_alike() -> None:
    source, prefix = [4, 5, 6, 4, 5, 7], (BOS, 9, 4, 5)
    drafter = Attention(AttentionWeights((Head(0, 0, 1.0, 0.0),), (-1.0, 0.0, 0.5), -0.1), length=2)
    asked: list[tuple[tuple[int, ...], Prefix]] = []

    def look(place: int) -> None:
        def looks(source: tuple[int, ...], prefix: Prefix) -> list[list[float]]:
            asked.append((source, prefix))
            return [[0.9 if at == place else 0.02 for at in range(len(source))]]

        drafter.read_attention = looks

    look(1)
    (draft,) = drafter.propose(source, prefix, 99)
    assert (draft.tokens, draft.span, draft.drafter, draft.match) == ((6, 4), (2, 4), "attention", 2)
    look(4)
    (draft,) = drafter.propose(source, prefix, 99)
    assert (draft.tokens, draft.span) == ((7, EOS), (5, 6))
    assert asked == [(tuple(source), prefix[:-1])] * 2  # of the node that wrote the last token
    look(3)  # not even a match
    assert drafter.rank_positions(source, (BOS, 9))[0] == (4, 0)


def test_where_nothing_was_seen_attention_copies() -> None:
    source, prefix = [4, 5, 6, 4, 5, 7], (BOS, 9, 4, 5)
    for drafter in (Attention(None), Attention(READING)):
        assert drafter.rank_positions(source, prefix) == Copy().rank_positions(source, prefix)
    assert Attention(None).needs.heads == ()
    assert Attention(READING).needs.heads == ((0, 1), (1, 3))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_folder(tmp_path_factory.mktemp("m") / "tiny", sharpness=6.0, decoder_layers=2)


@pytest.mark.parametrize("runtime", ["auto", "torch"])
@pytest.mark.parametrize("how", [GREEDY, BEAM], ids=["greedy", "beam"])
def test_attention_changes_no_answer(folder: Path, runtime: str, how: DecodeSettings) -> None:
    DrafterCalibration(attention_weights=READING).save(folder)
    engine = Engine.load(folder, threads=1, runtime=runtime)
    plain = engine.predict(QUERIES, replace(how, drafter="none"))
    for batch_size, count in ((1, 3), (4, 1)):
        settings = replace(how, drafter="attention", drafting="fixed", batch_size=batch_size, draft_count=count)
        found = engine.predict(QUERIES, settings)
        for one, other in zip(found, plain, strict=True):
            assert [item.tokens for item in one.hypotheses] == [item.tokens for item in other.hypotheses]
            assert len(one.trace.passes) <= len(other.trace.passes)
            assert {draft.drafter for step in one.trace.passes for draft in step.drafts} <= {"attention"}
        assert any(step.drafts for one in found for step in one.trace.passes)


def test_a_damaged_file_is_told_when_a_drafter_wants_it(tmp_path: Path) -> None:
    folder = tiny_folder(tmp_path / "tiny")
    (folder / FILE).write_text("{")
    engine = Engine.load(folder, threads=1)
    engine.predict(["CCO"], replace(GREEDY, drafter="copy"))
    with pytest.raises(ValueError, match="chemspec train calibrate"):
        engine.predict(["CCO"], replace(GREEDY, drafter="mixed"))


# Learning it -------------------------------------------------------------------------------------


def prepared(folder: Path, count: int = 60, *, validation: bool = True) -> Path:
    """Prepared data in which every answer is its query, backwards and forwards."""
    rng = np.random.default_rng(0)
    texts = [QUERIES[place] for place in rng.integers(0, len(QUERIES), count)]
    ids = RaggedArray.pack([TOKENIZER.encode(text) for text in texts])
    folder.mkdir()
    Pairs(ids, ids).save(folder / "train.npz")
    if validation:
        Pairs(ids, ids).save(folder / "val.npz")
    return folder


def test_calibrating_learns_everything(tmp_path: Path) -> None:
    # The heads are told apart by what a model with sharp attention does with its query.
    model = tiny_folder(tmp_path / "tiny", sharpness=6.0, decoder_layers=2)
    engine = Engine.load(model, threads=1)
    told: list[str] = []
    knowledge, report = calibrate(
        engine, prepared(tmp_path / "data"), queries=20, heads=2, command="me", tell=told.append
    )
    assert knowledge.edit_table is not None
    assert report.nodes == knowledge.edit_table.node_count
    assert knowledge.made == "me"
    assert len(told) == 3
    assert 0 < report.answers <= 20
    assert len(knowledge.by_chance) == 11
    if knowledge.attention_weights is not None:
        heads = [(one.layer, one.head) for one in knowledge.attention_weights.heads]
        assert heads == sorted(report.heads)
        assert len(report.first_right) == len(heads) + 1 == 3
        assert all(0 <= share <= 1 for share in report.first_right)
    knowledge.save(model)
    again = Engine.load(model, threads=1).resources.calibration()
    assert again.by_chance == pytest.approx(knowledge.by_chance, abs=1e-4)
    plain, mixed = (engine.predict(QUERIES, replace(GREEDY, drafter=name)) for name in ("none", "mixed"))
    assert [one.hypotheses[0].tokens for one in plain] == [one.hypotheses[0].tokens for one in mixed]


def test_calibrating_refuses_data_that_cannot_serve(tmp_path: Path) -> None:
    engine = Engine.load(tiny_folder(tmp_path / "tiny"), threads=1)
    few = prepared(tmp_path / "few", validation=False)
    with pytest.raises(ValueError, match="too few pairs"):
        calibrate(engine, few)
    other = tmp_path / "other"
    other.mkdir()
    ids = RaggedArray.pack([[300]])
    Pairs(ids, ids).save(other / "train.npz")
    Pairs(ids, ids).save(other / "val.npz")
    with pytest.raises(ValueError, match="a larger vocabulary"):
        calibrate(engine, other)


def test_the_command_writes_the_file(tmp_path: Path) -> None:
    model, data = tiny_folder(tmp_path / "tiny"), prepared(tmp_path / "data")
    done = CliRunner().invoke(
        app,
        [
            "train",
            "calibrate",
            "--task",
            "retro",
            "--model",
            str(model),
            "--data",
            str(data),
            "--queries",
            "8",
            "--heads",
            "1",
            "--threads",
            "1",
            "--json",
        ],
    )
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout.strip().splitlines()[-1])
    assert report["nodes"] >= 1
    assert "--queries 8" in json.loads((model / FILE).read_text())["made"]


def test_a_models_own_answers_teach_it_too(tmp_path: Path) -> None:
    model, asked = tiny_folder(tmp_path / "tiny"), tmp_path / "asked.smi"
    asked.write_text("\n".join([*QUERIES, "CC(", "[Xe]"] * 4) + "\n")
    words = ["train", "calibrate", "--model", str(model), "--unlabelled", str(asked), "--heads", "1", "--threads", "1"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    engine = Engine.load(model, threads=1)
    learned = engine.resources.calibration()
    assert learned.edit_table is not None and learned.edit_table.node_count > 1
    assert "--unlabelled asked.smi" in learned.made
    calls = {}
    for name in ("none", "copy", "mixed"):
        results = engine.predict(QUERIES, replace(GREEDY, drafter=name, batch_size=1))
        calls[name] = sum(len(one.trace.passes) for one in results if one.trace)
    assert calls["mixed"] < calls["copy"] <= calls["none"]
    asked.write_text("CCO\n")
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 2 and "finishes 1 of 1 outputs" in done.output.replace("\n", " ")
