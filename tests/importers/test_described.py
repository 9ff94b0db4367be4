"""Models built on torch.nn.Transformer, described in a few lines of TOML."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch
from helpers.small import TOKENS, check_lossless
from torch import Tensor, nn

from chemspec.engine.engine import Engine
from chemspec.importers import model_formats
from chemspec.importers.base import LoadOptions
from chemspec.model.checkpoint import CheckpointError
from chemspec.model.runtime import RuntimeConfig
from chemspec.settings import DecodeSettings
from chemspec.tokenizer import EOS

WORDS = ("<unk>", "<pad>", "<bos>", "<eos>", *TOKENS)
DESCRIPTION = """
format = "torch.nn.Transformer"
weights = "seq2seq.pt"
vocab = "words.json"
task = "retro"
heads = 4
activation = "gelu"
scale_embedding = true
[specials]
pad = "<pad>"
bos = "<bos>"
eos = "<eos>"
unk = "<unk>"
[names]
source_embedding = "src_tok_emb.embedding.weight"
target_embedding = "tgt_tok_emb.embedding.weight"
output = "generator"
positions = "positional_encoding.pos_embedding"
"""


class TokenEmbedding(nn.Module):
    """As in torch's tutorial on translation."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(len(WORDS), 32)

    def forward(self, ids: Tensor) -> Tensor:
        scaled: Tensor = self.embedding(ids) * math.sqrt(32)
        return scaled


class Seq2Seq(nn.Module):
    """Likewise, batch first."""

    def __init__(self, *, bias: bool) -> None:
        super().__init__()
        shape = {"d_model": 32, "nhead": 4, "num_encoder_layers": 2, "num_decoder_layers": 2, "dim_feedforward": 48}
        self.transformer = nn.Transformer(**shape, activation="gelu", dropout=0.0, batch_first=True, bias=bias)  # type: ignore[arg-type]
        self.src_tok_emb, self.tgt_tok_emb = TokenEmbedding(), TokenEmbedding()
        self.generator = nn.Linear(32, len(WORDS))
        self.positional_encoding = nn.Module()
        self.positional_encoding.register_buffer("pos_embedding", torch.randn(200, 1, 32))

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        table: Tensor = self.positional_encoding.pos_embedding[:, 0]  # type: ignore[index]
        read, written = (
            embedding(ids) + table[: ids.shape[1]]
            for embedding, ids in ((self.src_tok_emb, source), (self.tgt_tok_emb, target))
        )
        causal = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
        logits: Tensor = self.generator(self.transformer(read, written, tgt_mask=causal))
        return logits


def write(folder: Path, *, bias: bool = True, description: str = DESCRIPTION) -> Seq2Seq:
    torch.manual_seed(0)
    model = Seq2Seq(bias=bias).eval().requires_grad_(False)
    for name, weight in model.named_parameters():
        if weight.ndim == 1:
            weight.add_(0.2 * torch.randn_like(weight))
        elif "transformer" in name:
            weight.mul_(2)
    model.generator.weight.mul_(3)
    model.generator.bias[[1, 2]] -= 20  # pad and bos
    model.generator.bias[3] += 2
    torch.save({"epoch": 3, "model_state_dict": model.state_dict()}, folder / "seq2seq.pt")
    (folder / "words.json").write_text(json.dumps({word: number for number, word in enumerate(WORDS)}))
    (folder / "model.toml").write_text(description)
    return model


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")  # torch, of its encoder without biases
@pytest.mark.parametrize("bias", [True, False])
def test_a_described_model_computes_what_torch_does(bias: bool, tmp_path: Path) -> None:
    model = write(tmp_path, bias=bias)
    loaded = model_formats.load(tmp_path)
    assert loaded.task == "retro"
    backend = loaded.backend(RuntimeConfig("cpu", "fp32", "torch", 1))[0]
    ours = [1, 2, 3, 0, *range(4, len(WORDS))]  # their id of each of ours: pad, bos, eos, unk
    source, target = torch.randint(4, len(WORDS), (3, 20)), torch.randint(4, len(WORDS), (3, 15))
    found = torch.log_softmax(backend.model(source, target), dim=-1)  # type: ignore[attr-defined]
    expected = torch.log_softmax(model(source, target), dim=-1)[..., ours]
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


def test_its_answers_are_those_of_greedy_decoding_in_torch(tmp_path: Path) -> None:
    model = write(tmp_path)
    engine = Engine.load(tmp_path / "model.toml", device="cpu", threads=1)
    for query in ("CC(=O)Nc1ccccc1", "CCO"):
        source = engine.tokenizer.encode(query)
        (answer,) = engine.generate_ids([source], DecodeSettings(decoder="greedy", n=1, max_len=20, drafter="copy"))[0]
        text = [2]
        while len(text) < 21 and text[-1] != 3:
            text.append(int(model(torch.tensor([source]), torch.tensor([text]))[0, -1].argmax()))
        assert answer.tokens == tuple(EOS if token == 3 else token for token in text[1:])
    check_lossless(engine, ["CC(=O)Nc1ccccc1", "CCO"], max_len=24)


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ("heads = 4", "head = 4", "unknown field `head`"),
        ("heads = 4", "heads = 5", "does not divide into 5 heads"),
        ('"seq2seq.pt"', '"../seq2seq.pt"', "must be a file in its folder"),
        ('"words.json"', '"other.json"', "other.json is missing"),
        ('output = "generator"', 'output = "head"', "it lacks 'head.weight'"),
        ('"src_tok_emb.embedding.weight"', '"generator.bias"', "its source vocabulary has"),
        ("[names]", '[names]\nencoder = "encoder"', "it has no encoder.layers.0; names.encoder"),
        ('pad = "<pad>"', 'pad = "[PAD]"', r"its vocabulary has no '\[PAD\]'"),
    ],
)
def test_a_description_that_does_not_fit_is_refused_with_the_reason(
    before: str, after: str, why: str, tmp_path: Path
) -> None:
    write(tmp_path, description=DESCRIPTION.replace(before, after))
    with pytest.raises(CheckpointError, match=why):
        model_formats.load(tmp_path, LoadOptions())
