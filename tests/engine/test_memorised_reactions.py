"""Whatever takes a model takes one with merged tokens: tiny models that have memorised some reactions answer right."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import pytest
import torch
from helpers.command_line import call, last
from helpers.serving import serving
from helpers.small import TOKENIZER

from chemspec.chem import canonical
from chemspec.chem.reactions.guide import guide_predicate, parse_guide
from chemspec.data.arrays import Pairs, RaggedArray, pad
from chemspec.engine.engine import Engine
from chemspec.model import checkpoint
from chemspec.model.transformer import Transformer
from chemspec.replay.symbols import view_symbols
from chemspec.replay.trace_view import view_trace
from chemspec.settings import DecodeSettings, ModelConfig, Task
from chemspec.tokenizer import BOS, EOS, PAD, learn_merges, split_smiles
from chemspec.train.distil import write_distilled_pairs
from chemspec.train.settings import DistilSettings
from chemspec.types import DecodeResult

# Amides of two acids; each is also made from the acyl chloride.
PRODUCTS = {
    ("CC(=O)", "Nc1ccccc1"): "CC(=O)Nc1ccccc1",
    ("CC(=O)", "NCCO"): "CC(=O)NCCO",
    ("CC(=O)", "CCNCC"): "CCN(CC)C(C)=O",
    ("CC(=O)", "NCc1ccccc1"): "CC(=O)NCc1ccccc1",
    ("CCC(=O)", "Nc1ccccc1"): "CCC(=O)Nc1ccccc1",
    ("CCC(=O)", "NCCO"): "CCC(=O)NCCO",
    ("CCC(=O)", "CCNCC"): "CCC(=O)N(CC)CC",
    ("CCC(=O)", "NCc1ccccc1"): "CCC(=O)NCc1ccccc1",
}
ROWS = [(product, f"{acyl}{leaving}.{amine}") for (acyl, amine), product in PRODUCTS.items() for leaving in ("O", "Cl")]
MERGED = TOKENIZER.with_merges(learn_merges([text for row in ROWS for text in row], 12))
TARGET, BOND = "CC(=O)Nc1ccccc1", "C1-N3"
ANSWERS = {canonical("CC(=O)O.Nc1ccccc1"), canonical("CC(=O)Cl.Nc1ccccc1")}


def memorise(folder: Path, task: Task, rows: list[tuple[str, str]]) -> Path:
    """Write a tiny model that was trained on some pairs until it writes them."""
    shape = {"d_model": 32, "heads": 2, "feedforward": 64, "encoder_layers": 1, "decoder_layers": 1}
    torch.manual_seed(0)
    model = Transformer(ModelConfig(vocab_size=len(MERGED), max_positions=256, **shape))
    source = pad([MERGED.encode(query) for query, _ in rows])
    target = pad([(BOS, *MERGED.encode(answer), EOS) for _, answer in rows])
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(120):
        logits = model(source, target[:, :-1])
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten(), ignore_index=PAD)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    checkpoint.save(folder, model, MERGED, task=task, half=False)
    return folder


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("memorised")
    memorise(folder / "retro", "retro", ROWS)
    memorise(folder / "forward", "forward", [(answer, query) for query, answer in ROWS])
    return folder


@pytest.fixture(scope="module")
def engine(home: Path) -> Engine:
    return Engine.load(home / "retro", threads=1)


@pytest.fixture
def models(home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Use these models in an empty folder."""
    monkeypatch.setenv("CHEMSPEC_MODELS", str(home))
    monkeypatch.setenv("CHEMSPEC_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def texts_of(result: DecodeResult) -> list[str]:
    return [answer.canonical for answer in result.hypotheses]


@pytest.mark.parametrize("dtype", ["fp32", "int8"])
def test_both_ways_to_a_product_lead_every_list(home: Path, dtype: str) -> None:
    engine = Engine.load(home / "retro", threads=1, dtype=dtype)
    for product in PRODUCTS.values():
        lists = [engine.predict(product, n=3, drafter=drafter) for drafter in ("none", "copy", "mixed", "auto")]
        recorded = {canonical(answer) for query, answer in ROWS if query == product}
        assert all({*texts_of(result)[:2]} == recorded for result in lists)
        assert all(texts_of(result) == texts_of(lists[0]) for result in lists)
    assert len(engine.predict(TARGET, n=1).hypotheses[0].tokens) < len(split_smiles(TARGET))


@pytest.mark.parametrize(
    ("guide", "fits"), [(f"break {BOND}", True), (f"keep {BOND}", False), ("only amide", True), ("only ester", False)]
)
def test_guides_sort_out_what_they_exclude(engine: Engine, guide: str, fits: bool) -> None:
    plain, guided = engine.predict(TARGET, n=5), engine.predict(TARGET, n=5, guide=guide)
    predicate = guide_predicate(parse_guide(guide), TARGET)
    assert all(map(predicate, texts_of(guided)))
    assert ANSWERS.issubset(texts_of(plain)) and ANSWERS.issubset(texts_of(guided)) is fits
    assert fits or ANSWERS.isdisjoint(texts_of(guided))
    kept = [text for text in texts_of(plain) if predicate(text)]
    assert texts_of(guided)[: len(kept)] == kept


def test_scores_are_those_of_decoding(engine: Engine) -> None:
    for answer in engine.predict(TARGET, n=2).hypotheses:
        assert engine.score(TARGET, answer.smiles).log_prob == pytest.approx(sum(answer.token_log_probs), abs=1e-3)
    wrong = engine.score(TARGET, "CCO.Nc1ccccc1")
    assert wrong.log_prob < engine.score(TARGET, answer.smiles).log_prob - 3


@pytest.mark.parametrize("seconds", [1e-9, 60.0])
def test_a_list_within_a_time_is_that_of_its_width(engine: Engine, seconds: float) -> None:
    result = engine.predict(TARGET, n=3, within=seconds)
    assert texts_of(result) == (texts_of(engine.predict(TARGET, n=3)) if seconds > 1 else [])
    assert result.within is not None and result.within.width == (3 if seconds > 1 else 0)


def test_variants_of_a_query_vote_for_the_same_answers(engine: Engine) -> None:
    found = engine.predict(TARGET, n=2, augment=3)
    assert found.merged is not None and found.merged.variants == 3
    assert texts_of(found)[0] in ANSWERS


def test_calibrated_probabilities_are_shares_of_right_answers(home: Path, tmp_path: Path) -> None:
    folder = tmp_path / "retro"
    shutil.copytree(home / "retro", folder)
    with (tmp_path / "retro_val.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("product", "reactants"), *ROWS])
    words = ("--model", folder, "--heldout", tmp_path / "retro_val.csv", "-n", 3, "--threads", 1)
    numbers = last(call("train", "calibration", *words, "--out", tmp_path / "found.jsonl", "--json"))
    assert numbers["queries"] == len(ROWS)
    answers = Engine.load(folder, threads=1).predict(TARGET, n=3).hypotheses
    assert all(answer.calibrated for answer in answers) and 0.3 < answers[0].probability < 0.7


def test_its_answers_are_training_data_of_drafters(engine: Engine, tmp_path: Path) -> None:
    MERGED.save(tmp_path / "vocab.json")
    sides = zip(*((MERGED.encode(query), MERGED.encode(answer)) for query, answer in ROWS[::2]), strict=True)
    Pairs(*map(RaggedArray.pack, sides)).save(tmp_path / "train.npz")
    settings = DistilSettings(data_dir=tmp_path, out=tmp_path / "answers", pairs=0)
    file, count = write_distilled_pairs(engine, settings)
    answers = Pairs.load(file)
    assert count == len(PRODUCTS) and {*map(MERGED.decode, map(tuple, answers.sources))} == {*PRODUCTS.values()}
    for source, target in zip(answers.sources, answers.targets, strict=True):
        assert (MERGED.decode(source.tolist()), MERGED.decode(target.tolist())) in ROWS


@pytest.mark.usefixtures("models")
def test_a_review_has_the_forward_models_verdict() -> None:
    (result,) = last(call("predict", TARGET, "-t", "retro", "-n", 2, "--threads", 1, "--review", "--json"))["results"]
    members = [each for item in result["review"]["suggestions"] for each in (item, *item["alternatives"])]
    assert {item["smiles"] for item in members} == ANSWERS
    assert {item["forward"]["verdict"] for item in members} == {"agrees"}
    checks = last(call("check", f"CC(=O)O.Nc1ccccc1>>{TARGET}", "-n", 3, "--threads", 1, "--json"))["checks"]
    assert checks[0]["rank"] == 1 and checks[1]["forward"]["verdict"] == "agrees"


@pytest.mark.usefixtures("models")
def test_a_route_to_stock_is_planned(tmp_path: Path) -> None:
    pytest.importorskip("syntheseus")
    (tmp_path / "stock.smi").write_text("CC(=O)O\nNc1ccccc1\n")
    words = ("--stock", tmp_path / "stock.smi", "-n", 3, "--threads", 1, "--json")
    (found,) = last(call("plan", TARGET, *words))["plans"]
    assert found["status"] == "solved"
    assert canonical("CC(=O)O.Nc1ccccc1") in json.dumps(found["routes"])


def test_a_service_gives_the_engines_lists(home: Path, engine: Engine) -> None:
    pytest.importorskip("fastapi")
    engines = {name: Engine.load(home / name, threads=1) for name in ("retro", "forward")}
    with serving(engines) as service:
        client = service.client()
        for product in PRODUCTS.values():
            told = client.predict(product, task="retro", n=3)
            assert [each.canonical for each in told.answers] == texts_of(engine.predict(product, n=3))
        (reviewed,) = client.review([TARGET], task="retro", n=2)
        assert {reviewed.suggestions[0]["smiles"]} <= ANSWERS


def test_a_replay_shows_the_symbols_of_both_texts(engine: Engine) -> None:
    result = engine.predict(TARGET, DecodeSettings(decoder="greedy", n=1, record=True))
    (answer,) = view_symbols(view_trace(result)).answers
    assert [token.text for token in answer.tokens[:-1]] == split_smiles(result.hypotheses[0].smiles)
    assert len(answer.tokens) > len(result.hypotheses[0].tokens) + 1
