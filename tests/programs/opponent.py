"""Our weights in CTranslate2: an independent oracle, and the CPU opponent of the benchmark.

CTranslate2 is a C++ engine with kernels and a beam search of its own. It keeps a cache but does not
speculate, which makes it the fair standard to beat; and as it shares no code with us, log-probs
that agree speak for both.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from chemspec.model.transformer import Attention, Stack, Transformer
from chemspec.settings import ModelConfig
from chemspec.system import extras
from chemspec.tokenizer import BOS, EOS, SPECIALS, UNK, Tokenizer

# Options of `ModelConfig` that our files for CTranslate2 were not written for.
BEYOND = ("gated", "head_width", "rms_norm", "embedding_norm", "forced_first", "shared_positions", "relative_positions")
VOCABULARY = "shared_vocabulary.json"  # CTranslate2's name for it where source and target share it

Answer = tuple[tuple[int, ...], float]  # tokens after bos, eos included if reached; total log-prob


def convert(model: Transformer, tokenizer: Tokenizer, folder: Path, *, quantization: str | None = None) -> Path:
    """Write a model as a CTranslate2 folder and return the folder; the model itself stays as it is.

    Args:
        model: in any precision, on any device.
        tokenizer: its vocabulary.
        folder: made if missing; a model already in it is overwritten.
        quantization: how weights are stored: None (float32), "int8", "int16", "float16", ... The
            precision of the arithmetic is chosen when the folder is opened.

    Raises:
        ModuleNotFoundError: if CTranslate2 is not installed.
        ValueError: for an unknown quantization, a vocabulary that does not fit the model, or another architecture.
    """
    size = model.config.vocab_size
    if len(tokenizer) != size:
        raise ValueError(f"the vocabulary has {len(tokenizer)} tokens, but the model {size}")
    spec = _empty_spec(model)
    tokens = list(tokenizer.tokens)
    spec.register_source_vocabulary(tokens)
    spec.register_target_vocabulary(tokens)
    spec.encoder.embeddings[0].weight = _array(model.embedding.weight)
    spec.decoder.embeddings.weight = _array(model.target_table.weight)
    _fill_stack(spec.encoder, model.encoder)
    _fill_stack(spec.decoder, model.decoder)
    _fill_linear(spec.decoder.projection, model.output.weight, model.output.bias)
    spec.validate()
    spec.optimize(quantization=quantization)
    folder.mkdir(parents=True, exist_ok=True)
    spec.save(str(folder))
    return folder


class Opponent:
    """A converted model, loaded on the CPU and ready to answer.

    Attributes:
        version: of CTranslate2, for reports.
        compute_type: the arithmetic in use, such as "int8_float32" where "int8" was asked for.
    """

    def __init__(self, folder: Path, *, threads: int = 1, compute_type: str = "float32") -> None:
        """Load a folder that `convert` wrote.

        Args:
            folder: what `convert` returned.
            threads: cores for one batch; batches are never run side by side.
            compute_type: "float32", "int8", ...; weights stored otherwise are converted.

        Raises:
            ModuleNotFoundError: if CTranslate2 is not installed.
            ValueError: if there is no such model or this CPU lacks the compute type.
        """
        library = _library()
        if threads < 1:
            raise ValueError(f"threads is {threads}; it must be at least 1")
        if not (folder / VOCABULARY).is_file():
            raise ValueError(f"{folder} was not written by convert: {VOCABULARY} is missing")
        self._tokens: list[str] = json.loads((folder / VOCABULARY).read_text(encoding="utf-8"))
        self._ids = {token: index for index, token in enumerate(self._tokens)}
        self._translator = library.Translator(
            str(folder), device="cpu", compute_type=compute_type, inter_threads=1, intra_threads=threads
        )
        self.version: str = library.__version__
        self.compute_type: str = self._translator.compute_type

    def translate(
        self, sources: Sequence[Sequence[int]], *, width: int, count: int, max_len: int
    ) -> list[list[Answer]]:
        """Return the `count` best answers to each source, best first, all sources in one batch.

        The search takes the steps of `decode.beam` but stops earlier: once an ended hypothesis has
        led the ranking of a step and `count` have ended, whether or not a live one could still
        overtake the last of them. So the best answer is the same, ties and the length limit aside,
        while lower places may hold answers that ours replaces by better ones. At the limit what is
        live counts as ended, where ours lists it last.

        Args:
            sources: token ids without bos and eos.
            width: of the beam; 1 is greedy search.
            count: at most `width`; fewer let the search stop earlier.
            max_len: most tokens of an answer, eos included; one cut there lacks its eos.
        """
        if not 1 <= count <= width:
            raise ValueError(f"count {count} is not between 1 and the beam width {width}")
        if max_len < 1:
            raise ValueError(f"max_len is {max_len}; it must be at least 1")
        if not all(len(source) for source in sources):
            # CTranslate2 would answer, without running the model, with no tokens of log-prob 0.
            raise ValueError("a source is empty; give it at least one token")
        results = self._translator.translate_batch(
            [[self._tokens[index] for index in source] for source in sources],
            beam_size=width,
            num_hypotheses=count,
            patience=1,
            length_penalty=0,  # ranks and reports total log-probs; the default 1 takes their mean
            max_batch_size=0,
            max_input_length=0,  # else sources of more than 1024 tokens are cut without a word
            max_decoding_length=max_len,  # counts eos, as max_len does
            min_decoding_length=0,  # the default 1 forbids eos as first token and shifts log-probs
            return_end_token=True,  # tells an answer that ended from one that was cut
            return_scores=True,
            disable_unk=False,
            replace_unknowns=False,
        )
        return [
            [
                (tuple(self._ids[token] for token in tokens), score)
                for tokens, score in zip(result.hypotheses, result.scores, strict=True)
            ]
            for result in results
        ]


def _library() -> Any:
    """Import CTranslate2, which only the benchmark and some tests need."""
    extras.require_packages("ctranslate2", what="a comparison with CTranslate2")
    import ctranslate2

    return ctranslate2


def _empty_spec(model: Transformer) -> Any:
    """Return CTranslate2's description of the architecture, without weights."""
    config, specs = model.config, _library().specs
    beyond = [name for name in BEYOND if getattr(config, name) != ModelConfig.__dataclass_fields__[name].default]
    if config.activation == "gelu_tanh":
        beyond.append("gelu_tanh")
    if beyond:
        raise ValueError(f"the model has {beyond[0]}, which is not written for CTranslate2")
    activations = {"relu": specs.Activation.RELU, "gelu": specs.Activation.GELU}
    spec = specs.TransformerSpec.from_config(
        (config.encoder_layers, config.decoder_layers),
        config.heads,
        # Slots for final norms only come with pre-norm, though the engine applies them in either
        # case: hence pre-norm here and the true placement below.
        pre_norm=True,
        no_final_norm=not config.final_norms,
        activation=activations[config.activation],
    )
    for stack in (spec.encoder, spec.decoder):
        stack.pre_norm = config.norm_first
        stack.scale_embeddings = config.scale_embedding
        # Without a table of ours the engine would compute one of its own, in another layout.
        stack.position_encodings.encodings = _array(model.positions)
    spec.config.bos_token = spec.config.decoder_start_token = SPECIALS[BOS]
    spec.config.eos_token, spec.config.unk_token = SPECIALS[EOS], SPECIALS[UNK]
    spec.config.add_source_bos = spec.config.add_source_eos = config.source_specials
    spec.config.layer_norm_epsilon = config.layer_norm_eps
    return spec


def _fill_stack(spec: Any, stack: Stack) -> None:
    for slot, layer in zip(spec.layer, stack, strict=True):
        _fill_self_attention(slot.self_attention, layer.self_attn, layer.norm1)
        last = layer.norm2
        if hasattr(layer, "multihead_attn"):
            _fill_cross_attention(slot.attention, layer.multihead_attn, layer.norm2)
            last = layer.norm3
        _fill_linear(slot.ffn.linear_0, layer.linear1.weight, layer.linear1.bias)
        _fill_linear(slot.ffn.linear_1, layer.linear2.weight, layer.linear2.bias)
        _fill_norm(slot.ffn.layer_norm, last)
    if isinstance(stack.norm, nn.LayerNorm):
        _fill_norm(spec.layer_norm, stack.norm)


def _fill_self_attention(spec: Any, attention: Attention, norm: nn.Module) -> None:
    """Fill self-attention: one matrix makes queries, keys and values, in this order, there as here."""
    _fill_linear(spec.linear[0], attention.in_proj_weight, attention.in_proj_bias)
    _fill_linear(spec.linear[1], attention.out_proj.weight, attention.out_proj.bias)
    _fill_norm(spec.layer_norm, norm)


def _fill_cross_attention(spec: Any, attention: Attention, norm: nn.Module) -> None:
    """Fill attention to the source: one matrix makes queries, another makes keys and values."""
    width = attention.out_proj.out_features
    weight, bias = attention.in_proj_weight, attention.in_proj_bias
    _fill_linear(spec.linear[0], weight[:width], bias[:width])
    _fill_linear(spec.linear[1], weight[width:], bias[width:])
    _fill_linear(spec.linear[2], attention.out_proj.weight, attention.out_proj.bias)
    _fill_norm(spec.layer_norm, norm)


def _fill_norm(spec: Any, norm: Any) -> None:
    spec.gamma, spec.beta = _array(norm.weight), _array(norm.bias)


def _fill_linear(spec: Any, weight: Tensor, bias: Tensor | None) -> None:
    spec.weight = _array(weight)
    if bias is not None:
        spec.bias = _array(bias)


def _array(tensor: Tensor) -> NDArray[np.float32]:
    """Return a copy: CTranslate2 quantizes in place and would otherwise ruin the model it was given."""
    copied: NDArray[np.float32] = tensor.detach().to("cpu", torch.float32).numpy().copy()
    return copied
