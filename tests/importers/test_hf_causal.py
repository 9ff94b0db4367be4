"""GPT-2, LLaMA, Mistral and Qwen2 of transformers: our scores are theirs, and so are our answers."""

from __future__ import annotations

import atexit
import json
import random
import shutil
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
import torch
from helpers.compilers import needs_compiler
from helpers.small import check_lossless

from chemspec.engine.engine import Engine
from chemspec.importers import hf
from chemspec.importers.base import LoadOptions
from chemspec.model.checkpoint import CheckpointError
from chemspec.model.transformer import Transformer
from chemspec.settings import DecodeSettings
from chemspec.testing import naive_beam, naive_greedy
from chemspec.tokenizer import BOS

transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")

QUERIES = ["CC(=O)Oc1ccccc1", "CCO", "BrCCN", "CC(=O)NCC(=O)O", "ClC1CCC1"]
MAX_LEN, TEMPLATE = 24, "{query}>>"
SMALL = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "max_position_embeddings": 96}
SHARED = {
    **SMALL,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "rope_parameters": {"rope_type": "default", "rope_theta": 500.0},
}
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt2": ("GPT2", {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 96}),
    "llama": ("Llama", {**SHARED, "head_dim": 16, "tie_word_embeddings": False}),
    "mistral": ("Mistral", {**SHARED, "sliding_window": None}),
    "qwen2": ("Qwen2", {**SHARED, "tie_word_embeddings": True}),
}


def write_tokenizer(folder: Path, *, begins: bool) -> int:
    """A tokenizer with tokens of several letters, that begins a text with <s> or not."""
    words = ["<s>", "<pad>", "</s>", "<unk>", ">>", "C(=O)", "c1ccccc1", "CC", "Br", "Cl", *"CNOSFcnos()=#-+123>"]
    vocab = {word: place for place, word in enumerate(dict.fromkeys(words))}
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocab, unk_token="<unk>"))
    pattern = tokenizers.Regex(r">>|c1ccccc1|C\(=O\)|CC|Br|Cl|.")
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Split(pattern, "isolated")
    inner.decoder = tokenizers.decoders.Fuse()
    if begins:
        inner.post_processor = tokenizers.processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    named = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>", "bos_token": "<s>"}
    transformers.PreTrainedTokenizerFast(tokenizer_object=inner, **named).save_pretrained(folder)
    return len(vocab)


@cache
def folder_of(kind: str) -> Path:
    """A model that has learned to copy a few texts."""
    folder = Path(mkdtemp(prefix="chemspec-causal-"))
    atexit.register(shutil.rmtree, folder, True)
    name, options = KINDS[kind]
    size = write_tokenizer(folder, begins=kind != "gpt2")
    torch.manual_seed(0)
    ids = {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2}
    config = getattr(transformers, f"{name}Config")(vocab_size=size, initializer_range=0.15, **ids, **options)
    model = getattr(transformers, "GPT2LMHeadModel" if name == "GPT2" else f"{name}ForCausalLM")(config)
    tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(folder)
    texts = [f"{one}>>{one}</s>" for one in QUERIES]
    read = tokenizer(texts, padding=True, return_tensors="pt", return_token_type_ids=False)
    labels = read["input_ids"].masked_fill(read["attention_mask"] == 0, -100)
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    for _ in range(50):
        optimizer.zero_grad()
        model(**read, labels=labels).loss.backward()
        optimizer.step()
    model.save_pretrained(folder)
    return folder


@cache
def theirs(kind: str) -> tuple[Any, Any]:
    model = transformers.AutoModelForCausalLM.from_pretrained(folder_of(kind)).float().eval()
    return model, transformers.PreTrainedTokenizerFast.from_pretrained(folder_of(kind))


@cache
def engine(kind: str, runtime: str = "torch", dtype: str = "fp32") -> Engine:
    how = {"device": "cpu", "threads": 1, "runtime": runtime, "dtype": dtype}
    return Engine.load(folder_of(kind), task="retro", template=TEMPLATE, **how)


def generate(kind: str, query: str, **options: Any) -> list[list[int]]:
    """What `generate` writes after the prompt, up to eos."""
    model, tokenizer = theirs(kind)
    read = tokenizer(f"{query}>>", return_tensors="pt", return_token_type_ids=False)
    rows = model.generate(**read, do_sample=False, max_new_tokens=MAX_LEN, **options)[:, read["input_ids"].shape[1] :]
    return [row[: row.index(2) + 1] if 2 in row else row for row in rows.tolist()]


def written(kind: str, runtime: str, queries: list[str], settings: DecodeSettings) -> list[list[list[int]]]:
    """Our answers in their ids."""
    found = engine(kind, runtime)
    numbers = found.tokenizer.numbers  # type: ignore[attr-defined]
    sources = [found.tokenizer.encode(query) for query in queries]
    lists = found.generate_ids(sources, settings)
    return [[[numbers.theirs[token] for token in one.tokens] for one in answers] for answers in lists]


@pytest.mark.parametrize("kind", KINDS)
def test_scores_are_those_of_transformers(kind: str) -> None:
    model, tokenizer = theirs(kind)
    loaded = hf.load(folder_of(kind), LoadOptions("retro", TEMPLATE))
    weights = loaded.backend.args[0].weights  # type: ignore[attr-defined]
    ours, rng = Transformer.of(weights), random.Random(1)
    numbers = loaded.tokenizer.numbers  # type: ignore[attr-defined]
    for query in QUERIES[:3]:
        text = (BOS, *(rng.choice(numbers.written[4:]) for _ in range(15)))
        source = weights.config.encoder_ids(loaded.tokenizer.encode(query))
        prompt = tokenizer(f"{query}>>", return_tensors="pt")["input_ids"][0].tolist()
        assert [numbers.theirs[token] for token in (*source, BOS)] == prompt
        whole = torch.tensor([prompt + [numbers.theirs[token] for token in text[1:]]])
        expected = torch.log_softmax(model(whole).logits[0, len(prompt) - 1 :], dim=-1)
        found = torch.log_softmax(ours(torch.tensor([source]), torch.tensor([text]))[0], dim=-1)
        order = [numbers.theirs[token] for token in numbers.written]
        torch.testing.assert_close(found[:, numbers.written], expected[:, order], rtol=0, atol=2e-5)


@pytest.mark.parametrize("runtime", ["native", "numpy", "torch"])
@pytest.mark.parametrize("kind", KINDS)
def test_answers_are_those_of_generate(kind: str, runtime: str) -> None:
    greedy = written(kind, runtime, QUERIES, DecodeSettings(decoder="greedy", n=1, max_len=MAX_LEN, drafter="copy"))
    assert [each[0] for each in greedy] == [generate(kind, query)[0] for query in QUERIES]
    assert len({len(each[0]) for each in greedy}) > 2
    beams = written(kind, runtime, QUERIES[:2], DecodeSettings(n=3, max_len=MAX_LEN, rules="transformers"))
    how = {"num_beams": 3, "num_return_sequences": 3, "length_penalty": 0.0}
    assert beams == [generate(kind, query, **how) for query in QUERIES[:2]]


@needs_compiler
@pytest.mark.parametrize("dtype", ["fp32", "int8"])
@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_drafts_and_batches_change_no_bit_in_the_kernel(kind: str, dtype: str) -> None:
    check_lossless(engine(kind, "native", dtype), QUERIES, max_len=MAX_LEN)


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_every_search_gives_what_the_naive_decoder_does(kind: str) -> None:
    found = engine(kind, "torch", "fp64")
    model: Transformer = found.backend.model  # type: ignore[attr-defined]
    for query in QUERIES[:3]:
        source = found.tokenizer.encode(query)
        for drafter in ("none", "copy", "mixed"):
            (first,) = found.generate_ids(
                [source], DecodeSettings(decoder="greedy", n=1, max_len=MAX_LEN, drafter=drafter)
            )[0]
            assert first.tokens == naive_greedy(model, source, MAX_LEN).tokens
            beam = found.generate_ids([source], DecodeSettings(n=3, max_len=MAX_LEN, drafter=drafter))[0]
            assert [one.tokens for one in beam] == [one.tokens for one in naive_beam(model, source, 3, MAX_LEN)]


def test_the_prompt_is_drafted_from() -> None:
    settings = DecodeSettings(decoder="greedy", n=1, max_len=MAX_LEN, drafter="copy", draft_length=10)
    result = engine("llama").predict(QUERIES[0], settings)
    assert 2 * len(result.trace.passes) < len(result.hypotheses[0].tokens) + 1


def test_what_a_model_without_an_encoder_computes_can_be_looked_at() -> None:
    found, (model, tokenizer) = engine("llama", "native"), theirs("llama")
    seen = found.attention("CCO", "CCO")
    assert (seen.query_tokens, seen.answer_tokens[-1]) == (("<s>", "CC", "O"), "end")
    assert seen.heads.shape == (4, 3, 3) and abs(seen.heads.sum(axis=2) - 1).max() < 1e-5
    embedding = found.embed("CCO")
    prompt = tokenizer("CCO", return_tensors="pt", return_token_type_ids=False)["input_ids"]
    expected = model.model(input_ids=prompt).last_hidden_state[0].detach()
    torch.testing.assert_close(torch.tensor(embedding.vectors), expected, rtol=0, atol=2e-5)


def test_a_template_must_say_where_the_answer_begins(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="where its answer begins: give --template"):
        hf.load(folder_of("llama"), LoadOptions("retro"))
    folder = tmp_path / "model"
    shutil.copytree(folder_of("llama"), folder)
    settings = json.loads((folder / "config.json").read_text())
    settings["rope_parameters"] = {"rope_type": "linear", "factor": 2.0, "rope_theta": 500.0}
    (folder / "config.json").write_text(json.dumps(settings))
    with pytest.raises(CheckpointError, match="rotary positions are of the kind 'linear'"):
        hf.load(folder, LoadOptions("retro", TEMPLATE))
