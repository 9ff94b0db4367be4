"""Write checkpoints as OpenNMT-py, translation-transformer and Chemformer do, from a network of ours.

For tests of what reads them. What their pickles name need not be installed; their own programs may
want more than is written here.
"""

from __future__ import annotations

import argparse
import json
import sys
import types
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from chemspec.importers.foreign import rounded_sinusoids
from chemspec.model.transformer import Transformer


@contextmanager
def _packages() -> Iterator[None]:
    """Make classes that a checkpoint of OpenNMT-py 1.x and 2.x names, as if its packages were installed."""
    names = {
        "torchtext.vocab": ["Vocab"],
        "torchtext.data.field": ["Field"],
        "onmt.inputters.text_dataset": ["TextMultiField"],
        "molbart.decoder": ["DecodeSampler"],
        "molbart.tokeniser": ["MolEncTokeniser"],
    }
    above = {module.rsplit(".", depth)[0] for module in names for depth in (1, 2)}
    made = {module: types.ModuleType(module) for module in {*above, *names}}
    for module, classes in names.items():
        for name in classes:
            setattr(made[module], name, type(name, (), {"__module__": module}))
    sys.modules.update(made)
    try:
        yield
    finally:
        for module in made:
            del sys.modules[module]


def _holding(module: str, name: str, **values: Any) -> Any:
    held = getattr(sys.modules[module], name)()
    held.__dict__.update(values)
    return held


def _linear(state: dict[str, Tensor], ours: str, theirs: str, biases: bool) -> dict[str, Tensor]:
    kept = {f"{theirs}.weight": state[f"{ours}.weight"]}
    return kept | ({f"{theirs}.bias": state[f"{ours}.bias"]} if biases else {})


def _norm(state: dict[str, Tensor], ours: str, theirs: str, old: bool) -> dict[str, Tensor]:
    gain, shift = state[f"{ours}.weight"], state[f"{ours}.bias"]
    if old:
        return {f"{theirs}.a_2": gain * (len(gain) / (len(gain) - 1)) ** 0.5, f"{theirs}.b_2": shift}
    return {f"{theirs}.weight": gain, f"{theirs}.bias": shift}


def onmt(
    file: Path,
    model: Transformer,
    *,
    version: str = "2",
    source: Sequence[str],
    target: Sequence[str],
    legacy: bool = False,
    sizes: tuple[int, int] | None = None,
    places: int = 50,
    **opt: Any,
) -> Path:
    """Write a checkpoint of OpenNMT-py 0.4.1 ("0"), 1.x and 2.x ("2") or 3.x ("3").

    Args:
        file: to write.
        model: its weights; ids are theirs. Of 3.x, biases inside of the layers are left out.
        version: see above.
        source: its vocabulary.
        target: its vocabulary.
        legacy: in the format of torch before 1.6.
        sizes: tokens of source and target whose embeddings are written; none: all.
        places: rows of the mask that every decoder layer of 0.4.1 has; 5,000 in its own files.
        opt: options that differ.
    """
    weights, generator, options = onmt_parts(model, version, sizes, places)
    with _packages():
        vocab: Any = {"src": list(source), "tgt": list(target), "data_task": "seq2seq"}
        if version == "0":
            vocab = [(side, _vocab(tokens)) for side, tokens in (("src", source), ("tgt", target))]
        if version == "2":
            vocab = {side: _field(side, tokens) for side, tokens in (("src", source), ("tgt", target))}
        told = argparse.Namespace(**options | opt)
        parts = {"model": weights, "generator": generator, "vocab": vocab, "opt": told, "optim": None}
        torch.save(parts, file, _use_new_zipfile_serialization=not legacy)
    return file


def onmt_parts(
    model: Transformer, version: str, sizes: tuple[int, int] | None, places: int
) -> tuple[dict[str, Tensor], dict[str, Tensor], dict[str, Any]]:
    """Return the weights, those of the output layer, and the options."""
    state, biases, old = model.state_dict(), version != "3", version == "0"
    width, depth = (
        model.config.d_model,
        {"encoder": model.config.encoder_layers, "decoder": model.config.decoder_layers},
    )
    weights: dict[str, Tensor] = {}
    for stack, theirs in (("encoder", "encoder.transformer"), ("decoder", "decoder.transformer_layers")):
        table = model.embedding if stack == "encoder" else model.target_table
        weights[f"{stack}.embeddings.make_embedding.emb_luts.0.weight"] = table.weight[
            : sizes[stack == "decoder"] if sizes else None
        ]
        weights[f"{stack}.embeddings.make_embedding.pe.pe"] = rounded_sinusoids(width)[:, None]
        for layer in range(depth[stack]):
            ours, there = f"{stack}.layers.{layer}", f"{theirs}.{layer}"
            if old and stack == "decoder":
                weights[f"{there}.mask"] = torch.ones(1, places, places, dtype=torch.uint8)
            attentions = {"self_attn": "self_attn"} | ({"multihead_attn": "context_attn"} if stack == "decoder" else {})
            for name, other in attentions.items():
                for part, which in enumerate(("query", "keys", "values")):
                    rows = slice(part * width, (part + 1) * width)
                    weights[f"{there}.{other}.linear_{which}.weight"] = state[f"{ours}.{name}.in_proj_weight"][rows]
                    if biases:
                        weights[f"{there}.{other}.linear_{which}.bias"] = state[f"{ours}.{name}.in_proj_bias"][rows]
                weights |= _linear(state, f"{ours}.{name}.out_proj", f"{there}.{other}.final_linear", biases)
            if model.config.relative_vectors:
                vectors = state[f"{ours}.self_attn.vectors"]
                weights[f"{there}.self_attn.relative_positions_embeddings.weight"] = vectors
            for number in (1, 2):
                weights |= _linear(state, f"{ours}.linear{number}", f"{there}.feed_forward.w_{number}", biases)
            norms = ["layer_norm"] if stack == "encoder" else ["layer_norm_1", "layer_norm_2"]
            for number, name in enumerate([*norms, "feed_forward.layer_norm"], 1):
                weights |= _norm(state, f"{ours}.norm{number}", f"{there}.{name}", old)
        weights |= _norm(state, f"{stack}.norm", f"{stack}.layer_norm", old)
    prefix = "" if version == "3" else "0."
    generator = {
        f"{prefix}{part}": state[f"output.{part}"][: sizes[1] if sizes else None] for part in ("weight", "bias")
    }
    layers = {
        "enc_layers": depth["encoder"],
        "dec_layers": depth["decoder"],
        "transformer_ff": model.config.feedforward,
    }
    sizes_of = dict.fromkeys(("rnn_size", "enc_rnn_size", "dec_rnn_size", "hidden_size", "word_vec_size"), width)
    options = {
        **layers,
        **sizes_of,
        "encoder_type": "transformer",
        "decoder_type": "transformer",
        "model_type": "text",
        "heads": model.config.heads,
        "position_encoding": model.config.scale_embedding,
        "max_relative_positions": model.config.relative_vectors,
        "self_attn_type": "scaled-dot",
        "generator_function": "softmax",
        "copy_attn": False,
        "share_embeddings": False,
        "norm_eps": 1e-6,
    }
    return weights, generator, options


def _vocab(tokens: Sequence[str]) -> Any:
    return _holding("torchtext.vocab", "Vocab", itos=list(tokens), stoi={word: i for i, word in enumerate(tokens)})


def _field(side: str, tokens: Sequence[str]) -> Any:
    field = _holding("torchtext.data.field", "Field", vocab=_vocab(tokens), pad_token="<blank>")
    return _holding("onmt.inputters.text_dataset", "TextMultiField", fields=[(side, field)])


def translation_transformer(file: Path, model: Transformer, *, tokens: Sequence[str], **options: Any) -> Path:
    """Write a checkpoint of translation-transformer and, beside it, its vocabulary.

    Args:
        file: to write.
        model: its weights; ids are theirs, and ours.
        tokens: the vocabulary.
        options: hyper-parameters that differ.
    """
    weights = {}
    for name, tensor in model.state_dict().items():
        if name.startswith(("encoder", "decoder")):
            weights[f"model.transformer.{name}"] = tensor
        if name.startswith("output"):
            weights[f"model.next_token_classifier.{name.removeprefix('output.')}"] = tensor
    weights["model.src_token_featurizer.embedding.weight"] = model.embedding.weight
    weights["model.tgt_token_featurizer.embedding.weight"] = model.target_table.weight
    config = model.config
    values = {
        "num_heads": config.heads,
        "num_encoder_layers": config.encoder_layers,
        "num_decoder_layers": config.decoder_layers,
        "embedding_dim": config.d_model,
        "feedforward_dim": config.feedforward,
        "activation": config.activation,
        "share_embeddings": config.shared_embedding,
    } | options
    torch.save({"epoch": 0, "state_dict": weights, "hyper_parameters": values}, file)
    numbered = {str(number): token for number, token in enumerate(tokens)}
    (file.parent / "vocab.json").write_text(json.dumps(numbered), encoding="utf-8")
    return file


def chemformer(
    file: Path, model: Transformer, *, tokens: Sequence[str], with_tokens: bool = True, **options: Any
) -> Path:
    """Write a checkpoint of Chemformer 1.x.

    Args:
        file: to write.
        model: its weights; ids are theirs.
        tokens: the vocabulary.
        with_tokens: whether its tokenizer is pickled in its hyper-parameters.
        options: hyper-parameters that differ.
    """
    weights = {name: part for name, part in model.state_dict().items() if name.startswith(("encoder", "decoder"))}
    weights |= {"pos_emb": model.positions[:512], "emb.weight": model.embedding.weight}
    weights |= {f"token_fc.{part}": getattr(model.output, part).detach() for part in ("weight", "bias")}
    config = model.config
    values: dict[str, Any] = {
        "vocab_size": config.vocab_size,
        "num_layers": config.encoder_layers,
        "num_heads": config.heads,
        "d_model": config.d_model,
        "d_feedforward": config.feedforward,
        "max_seq_len": 512,
        "activation": config.activation,
    } | options
    with _packages():
        if with_tokens:
            words = {token: number for number, token in enumerate(tokens)}
            tokeniser = _holding("molbart.tokeniser", "MolEncTokeniser", vocab=words)
            values["decode_sampler"] = _holding("molbart.decoder", "DecodeSampler", tokeniser=tokeniser)
        torch.save({"state_dict": weights, "hyper_parameters": values}, file)
    return file
