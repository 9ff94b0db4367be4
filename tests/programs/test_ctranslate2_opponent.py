"""CTranslate2 as oracle: another program, given our weights, finds our log-probs and answers."""

from __future__ import annotations

import copy
import csv
import gzip
import json
import random
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.paths import SHARED
from helpers.recompute import decode_single
from helpers.thinned import every
from programs.opponent import Answer, Opponent, convert
from torch.nn.functional import cross_entropy

from chemspec.data.arrays import pad
from chemspec.decode.beam import beam_search, greedy_search
from chemspec.decode.decoding import Decoding
from chemspec.decode.protocol import Decoder, LoopOptions
from chemspec.draft.base import NoDrafts
from chemspec.model.runners.torch_runner import TorchBackend, best_tokens, source_batch
from chemspec.model.session import Session
from chemspec.model.transformer import Transformer
from chemspec.model.weights import read_weights
from chemspec.settings import ModelConfig
from chemspec.tokenizer import BOS, EOS, PAD, SPECIALS, TokenError, Tokenizer
from chemspec.types import FinishedSequence, Prefix, Scores

pytest.importorskip("ctranslate2")

TOKENIZER = Tokenizer((*SPECIALS, *"CNOPSFIBcnos()[]=#123\\/"))
TOLERANCE = 1e-4  # tight enough to tell the two forms of GELU apart
MAX_LEN = 24
SIZE: dict[str, Any] = {
    "vocab_size": len(TOKENIZER),
    "d_model": 32,
    "heads": 4,
    "feedforward": 48,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "max_positions": 64,
}
ANDRONOV: dict[str, Any] = {
    "norm_first": False,
    "scale_embedding": False,
    "tied_output": False,
    "source_specials": True,
}
VARIANTS: dict[str, dict[str, Any]] = {
    "molecular transformer": {"decoder_layers": 3},
    "andronov": {**ANDRONOV, "encoder_layers": 3},
    "post-norm, no final norms": {"norm_first": False, "final_norms": False},
    "pre-norm, no final norms": {"final_norms": False, "encoder_layers": 1, "decoder_layers": 1},
    "gelu, untied, no bias": {"activation": "gelu", "tied_output": False, "output_bias": False},
    "two embeddings, large eps": {"shared_embedding": False, "layer_norm_eps": 0.1},
    "two embeddings, untied, no bias": {"shared_embedding": False, "tied_output": False, "output_bias": False},
}
CONFIGS = {name: ModelConfig(**{**SIZE, **variant}) for name, variant in VARIANTS.items()}


@cache
def taught(name: str) -> Transformer:
    """Random weights, biases and norms, then a brief lesson in copying the source.

    Without it a model repeats one token whatever it reads, and an error in, say, the attention to
    the source would hardly show.
    """
    torch.manual_seed(0)
    model = Transformer(CONFIGS[name])
    with torch.no_grad():
        for tensor in model.parameters():
            if tensor.ndim == 1:
                tensor.add_(0.2 * torch.randn_like(tensor))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for step in range(60):
        sources = random_sources(seed=1000 + step, count=16)
        target = pad([[BOS, *source, EOS] for source in sources])
        logits = model(source_batch(model, sources), target[:, :-1])
        loss = cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten(), ignore_index=PAD)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return model.eval().requires_grad_(False)


def random_sources(*, seed: int = 0, count: int = 6) -> list[list[int]]:
    rng = random.Random(seed)
    return [[rng.randrange(len(SPECIALS), len(TOKENIZER)) for _ in range(rng.randint(1, 15))] for _ in range(count)]


def forced(model: Transformer, source: Sequence[int], answers: Sequence[Answer]) -> list[float]:
    """The total log-prob of each answer by teacher forcing, without cache or session."""
    tokens = [answer for answer, _ in answers]
    targets = pad([(BOS, *answer) for answer in tokens])
    log_probs = torch.log_softmax(model(source_batch(model, [source] * len(tokens)), targets), dim=-1)
    return [
        sum(float(log_probs[row, place, token]) for place, token in enumerate(answer))
        for row, answer in enumerate(tokens)
    ]


def naive(model: Transformer, source: Sequence[int], decoder: Decoder) -> list[FinishedSequence]:
    """Run a decoder on the whole-text forward pass."""

    def score(prefixes: Sequence[Prefix]) -> list[Scores]:
        logits = model(source_batch(model, [source] * len(prefixes)), pad(prefixes))[:, -1]
        return [Scores(*row) for row in zip(*best_tokens(logits, logits.shape[-1]), strict=True)]

    return decode_single(decoder, score)


@pytest.fixture(params=every(2, [*CONFIGS]), scope="module")
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Transformer, Opponent]:
    model = taught(request.param)
    return model, Opponent(convert(model, TOKENIZER, tmp_path_factory.mktemp("model")))


@pytest.mark.parametrize("width", [1, 5])
def test_every_score_is_the_total_log_prob_of_its_tokens(pair: tuple[Transformer, Opponent], width: int) -> None:
    model, opponent = pair
    sources = random_sources()
    found = opponent.translate(sources, width=width, count=width, max_len=MAX_LEN)
    for source, answers in zip(sources, found, strict=True):
        assert len({tokens for tokens, _ in answers}) == width
        scores = [score for _, score in answers]
        assert scores == sorted(scores, reverse=True)
        assert scores == pytest.approx(forced(model, source, answers), abs=TOLERANCE)
        for tokens, _ in answers:
            assert tokens[-1] == EOS or len(tokens) == MAX_LEN
            assert EOS not in tokens[:-1]


@pytest.mark.parametrize("max_len", [1, 2, MAX_LEN])
def test_greedy_tokens_are_ours(pair: tuple[Transformer, Opponent], max_len: int) -> None:
    model, opponent = pair
    sources = random_sources(seed=1)
    found = opponent.translate(sources, width=1, count=1, max_len=max_len)
    for source, ((tokens, score),) in zip(sources, found, strict=True):
        (ours,) = naive(model, source, greedy_search(max_len=max_len))
        assert tokens == ours.tokens
        assert score == pytest.approx(ours.log_prob, abs=TOLERANCE)


def test_the_best_answer_of_a_beam_is_ours(pair: tuple[Transformer, Opponent]) -> None:
    model, opponent = pair
    for source in random_sources(seed=2):
        ((theirs, *_),) = opponent.translate([source], width=5, count=5, max_len=MAX_LEN)
        ours = naive(model, source, beam_search(width=5, max_len=MAX_LEN))[0]
        if theirs[0][-1] == EOS:  # at the length limit they rank the unfinished among the finished
            assert theirs[0] == ours.tokens
            assert theirs[1] == pytest.approx(ours.log_prob, abs=TOLERANCE)


def test_answers_of_one_token_and_cut_answers_both_occur(tmp_path: Path) -> None:
    """Eos may come first, and an answer that is cut lacks it."""
    model = copy.deepcopy(taught("andronov"))
    sources = random_sources()
    for bias, expected in ((50.0, (EOS,)), (-50.0, None)):
        model.output.bias[EOS] = bias
        opponent = Opponent(convert(model, TOKENIZER, tmp_path / str(bias)))
        for width in (1, 3):
            for (tokens, score), *_ in opponent.translate(sources, width=width, count=1, max_len=4):
                assert tokens == expected if expected else (len(tokens) == 4 and EOS not in tokens)
                assert score == pytest.approx(0, abs=TOLERANCE) or not expected


def test_quantizing_leaves_the_model_as_it_was(tmp_path: Path) -> None:
    model = taught("molecular transformer")
    before = copy.deepcopy(model.state_dict())
    opponent = Opponent(convert(model, TOKENIZER, tmp_path, quantization="int8"), compute_type="int8")
    assert opponent.compute_type == "int8_float32"
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    (source,) = random_sources(count=1)
    (answers,) = opponent.translate([source], width=3, count=3, max_len=MAX_LEN)
    assert [score for _, score in answers] == pytest.approx(forced(model, source, answers), rel=0.2)


def test_a_model_in_a_folder_is_overwritten(tmp_path: Path) -> None:
    source = random_sources(count=1)
    wanted = Opponent(convert(taught("andronov"), TOKENIZER, tmp_path / "new" / "one"))
    convert(taught("gelu, untied, no bias"), TOKENIZER, tmp_path / "used")
    opponent = Opponent(convert(taught("andronov"), TOKENIZER, tmp_path / "used"))
    options = {"width": 2, "count": 2, "max_len": 9}
    assert opponent.translate(source, **options) == wanted.translate(source, **options)


def test_mistakes_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = taught("andronov")
    with pytest.raises(ValueError, match="vocabulary has 5 tokens"):
        convert(model, Tokenizer((*SPECIALS, "C")), tmp_path)
    with pytest.raises(ValueError, match="int7"):
        convert(model, TOKENIZER, tmp_path, quantization="int7")
    with pytest.raises(ValueError, match="was not written by convert"):
        Opponent(tmp_path / "nothing")
    opponent = Opponent(convert(model, TOKENIZER, tmp_path))
    assert opponent.version[0].isdigit()
    with pytest.raises(ValueError, match="threads is 0"):
        Opponent(tmp_path, threads=0)
    with pytest.raises(ValueError, match="count 3"):
        opponent.translate([[4]], width=2, count=3, max_len=9)
    with pytest.raises(ValueError, match="max_len is 0"):
        opponent.translate([[4]], width=2, count=1, max_len=0)
    with pytest.raises(ValueError, match="source is empty"):
        opponent.translate([[4], []], width=2, count=1, max_len=9)
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    with pytest.raises(ModuleNotFoundError, match=r"chemspec-smiles\[bench\]"):
        convert(model, TOKENIZER, tmp_path)


# Real weights. The folder lies outside the repository; its config is older than checkpoint.py.

CONFIG_KEYS = (
    "d_model",
    "heads",
    "feedforward",
    "encoder_layers",
    "decoder_layers",
    "activation",
    "norm_first",
    "final_norms",
    "layer_norm_eps",
    "scale_embedding",
    "tied_output",
    "output_bias",
    "shared_embedding",
)


def real_model() -> tuple[Transformer, Tokenizer]:
    folder = SHARED / "models" / "retro-start"
    tokenizer = Tokenizer.load(folder / "vocab.json")
    values = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config = ModelConfig(vocab_size=len(tokenizer), **{key: values[key] for key in CONFIG_KEYS})
    return Transformer.of(read_weights(folder / "model.safetensors", config)), tokenizer


def real_sources(tokenizer: Tokenizer, count: int) -> list[tuple[int, ...]]:
    sources = []
    with gzip.open(SHARED / "data" / "retro_val.csv.gz", "rt", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            try:
                sources.append(tokenizer.encode(row["product"]))
            except TokenError:
                continue
            if len(sources) == count:
                break
    return sources


@pytest.mark.skipif(
    not (SHARED / "models" / "retro-start").is_dir() or not (SHARED / "data").is_dir(),
    reason=f"no models/retro-start and data under {SHARED}; set CHEMSPEC_SHARED",
)
def test_real_weights_give_our_best_answer(tmp_path: Path) -> None:
    model, tokenizer = real_model()
    sources = real_sources(tokenizer, 20)
    found = Opponent(convert(model, tokenizer, tmp_path)).translate(sources, width=5, count=5, max_len=150)
    decoders = [beam_search(width=5, max_len=150) for _ in sources]
    run = Decoding(
        sources, decoders, Session(TorchBackend(model), sources, top_k=11), NoDrafts(), LoopOptions(max_len=150)
    )
    for source, theirs, own in zip(sources, found, run.run_to_end(), strict=True):
        assert theirs[0][1] == pytest.approx(own[0].log_prob, abs=1e-3)
        assert theirs[0][0] == own[0].tokens
        assert [score for _, score in theirs] == pytest.approx(forced(model, source, theirs), abs=1e-3)
