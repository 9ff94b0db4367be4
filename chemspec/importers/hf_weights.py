"""Convert a T5, BART, Marian, Pegasus, GPT-2 or LLaMA of transformers to a `Transformer`, if that supports it.

Ids: special tokens have arbitrary ids in a checkpoint, while chemspec's pad, bos, eos and unk are 0 to 3. `IdMap`
translates. Equal log-probs are ordered by chemspec's ids.

Differences are folded into the weights: T5 does not scale attention scores, so its query projections are multiplied by
sqrt(d); the scale of its tied output layer goes into the norm before it; its position biases are stored by distance,
not by bucket.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from chemspec.importers import hf_causal
from chemspec.importers.hf_causal import add_linear, find_activation
from chemspec.model.transformer import IMPOSSIBLE
from chemspec.model.weights import Weights, computed_positions
from chemspec.settings import ModelConfig
from chemspec.tokenizer import EOS, PAD, SPECIALS, UNK

BART_LIKE = ("bart", "mbart", "marian", "pegasus")  # the last two with sinusoids, and without norms of embeddings
# By config.model_type; "causal": without an encoder.
FAMILIES = {
    "t5": "t5",
    "mt5": "t5",
    **dict.fromkeys(BART_LIKE, "bart"),
    **dict.fromkeys(hf_causal.CONVERTERS, "causal"),
}
MAX_POSITIONS = 1024  # tokens of a model without a position table


@dataclass(frozen=True)
class IdMap:
    """Mapping between chemspec's token ids and those of a checkpoint.

    Bos is input only, as the token that the decoder starts with; if the model can emit that token too, it has another
    id. Pad and unk are input only, mapped to eos, if the checkpoint has no such token or shares it with another
    special token.
    """

    theirs: tuple[int, ...]  # the checkpoint's id of each chemspec id, (V + virtual ids,)
    written: tuple[int, ...]  # the chemspec ids that the model can emit, ascending (W,); the others are virtual

    @classmethod
    def of(cls, size: int, *, start: int, eos: int, pad: int | None, unk: int | None) -> IdMap:
        """Assign chemspec ids to the `size` tokens of a checkpoint: special ones first, the others in its order.

        Its ids of the special tokens are given; the decoder starts with `start`.
        """
        special = {EOS: eos}
        for ours, theirs in ((PAD, pad), (UNK, unk)):
            if theirs is not None and theirs not in special.values():
                special[ours] = theirs
        first = [special.get(ours, eos) for ours in range(len(SPECIALS))]
        first[1] = start
        others = [token for token in range(size) if token not in special.values()]
        written = [*sorted(special), *range(len(SPECIALS), len(SPECIALS) + len(others))]
        return cls((*first, *others), tuple(written))

    @cached_property
    def ours(self) -> dict[int, int]:
        """The chemspec id of each id of the checkpoint."""
        return {self.theirs[token]: token for token in self.written}


@dataclass(frozen=True)
class HfNetwork:
    """A network of transformers, and what its configuration implies."""

    model: Any
    numbers: IdMap
    around: tuple[Sequence[int], Sequence[int]] = ((), ())  # ids of the checkpoint before and after every source
    first: int | None = None  # id of the checkpoint that every output must start with, if any

    @property
    def is_causal(self) -> bool:
        """Whether it has no encoder."""
        return FAMILIES[self.model.config.model_type] == "causal"


def convert_weights(model: HfNetwork) -> Weights:
    """Return the weights for `Transformer`, with chemspec's ids; raises ValueError if it cannot hold them."""
    kind = model.model.config.model_type
    convert = hf_causal.CONVERTERS.get(kind) or (_convert_t5 if FAMILIES[kind] == "t5" else _convert_bart)
    state, config = convert(model.model, model.model.config)
    numbers, (before, after) = model.numbers, model.around
    if len(before) > 1 or len(after) > (0 if model.is_causal else 1):
        raise ValueError(f"its tokenizer puts {len(before)} and {len(after)} tokens around a text")
    rows = torch.tensor(numbers.theirs)
    shared, output = model.model.get_input_embeddings().weight, model.model.get_output_embeddings().weight
    state["embedding.weight"] = shared[rows]
    tied = bool(torch.equal(shared, output))
    if not tied:
        state["output.weight"] = output[rows]
    bias = getattr(model.model, "final_logits_bias", None)
    state["output.bias"] = torch.zeros(len(rows)) if bias is None else bias[0][rows].clone()
    for token in set(range(len(rows))) - set(numbers.written):
        state["output.bias"][token] = IMPOSSIBLE
    described = ModelConfig(
        **config,
        vocab_size=len(rows),
        tied_output=tied,
        source_first=numbers.ours[before[0]] if before else -1,
        source_last=numbers.ours[after[0]] if after else -1,
        forced_first=-1 if model.first is None else numbers.ours[model.first],
    )
    arrays = {name: tensor.float().contiguous().numpy() for name, tensor in state.items()}
    table = arrays["positions"] if described.stored_positions else computed_positions(described).astype("float32")
    return Weights(described, arrays, table)


def _add_attention(state: dict[str, Tensor], name: str, three: Sequence[Any], out: Any, *, scale: float = 1.0) -> None:
    """Add the projections of an attention block to a state, of which queries are scaled."""
    add_linear(state, f"{name}.in_proj_", *three)
    add_linear(state, f"{name}.out_proj.", out)
    for kind in ("weight", "bias"):
        state[f"{name}.in_proj_{kind}"][: len(three[0].weight)] *= scale


def _convert_t5(network: Any, config: Any) -> tuple[dict[str, Tensor], dict[str, Any]]:
    state: dict[str, Tensor] = {}
    # v1.0 scales the input of its output layer, which is the embedding; v1.1 has an output layer of its own.
    scaled = getattr(config, "scale_decoder_outputs", False)
    for stack, module in (("encoder", network.get_encoder()), ("decoder", network.get_decoder())):
        for index, block in enumerate(module.block):
            name, parts = f"{stack}.layers.{index}", list(block.layer)
            attentions = [(parts[0].SelfAttention, "self_attn")]
            if stack == "decoder":
                attentions.append((parts[1].EncDecAttention, "multihead_attn"))
            for attention, kind in attentions:
                three = (attention.q, attention.k, attention.v)
                _add_attention(state, f"{name}.{kind}", three, attention.o, scale=config.d_kv**0.5)
            dense = parts[-1].DenseReluDense
            add_linear(state, f"{name}.linear1.", *((dense.wi_0, dense.wi_1) if config.is_gated_act else (dense.wi,)))
            add_linear(state, f"{name}.linear2.", dense.wo)
            for number, part in enumerate(parts, 1):
                state[f"{name}.norm{number}.weight"] = part.layer_norm.weight
        gain = config.d_model**-0.5 if scaled and stack == "decoder" else 1.0
        state[f"{stack}.norm.weight"] = module.final_layer_norm.weight * gain
        first = module.block[0].layer[0].SelfAttention
        state[f"{stack}.distances"] = _position_biases(first, both_ways=stack == "encoder")
    plain = config.d_model == config.num_heads * config.d_kv
    return state, {
        "d_model": config.d_model,
        "heads": config.num_heads,
        "head_width": 0 if plain else config.d_kv,
        "feedforward": config.d_ff,
        "encoder_layers": config.num_layers,
        "decoder_layers": config.num_decoder_layers,
        "activation": find_activation(config.dense_act_fn),
        "gated": config.is_gated_act,
        "rms_norm": True,
        "layer_norm_eps": config.layer_norm_epsilon,
        "scale_embedding": False,
        "relative_positions": config.relative_attention_max_distance,
        "max_positions": MAX_POSITIONS,
    }


def _position_biases(attention: Any, *, both_ways: bool) -> Tensor:
    """Return T5's position biases by distance, up to the largest distance it distinguishes."""
    farthest = attention.relative_attention_max_distance
    buckets = attention._relative_position_bucket(
        torch.arange(-farthest, farthest + 1),
        bidirectional=both_ways,
        num_buckets=attention.relative_attention_num_buckets,
        max_distance=farthest,
    )
    biases: Tensor = attention.relative_attention_bias(buckets)
    return biases


def _convert_bart(network: Any, config: Any) -> tuple[dict[str, Tensor], dict[str, Any]]:
    norm_first = config.model_type in ("mbart", "pegasus")
    embedding_norm = config.model_type in ("bart", "mbart")
    for name in ("attention_heads", "ffn_dim"):
        if getattr(config, f"encoder_{name}") != getattr(config, f"decoder_{name}"):
            raise ValueError(f"its encoder and decoder differ in {name}")
    state: dict[str, Tensor] = {}
    for stack, module in (("encoder", network.get_encoder()), ("decoder", network.get_decoder())):
        for index, layer in enumerate(module.layers):
            name = f"{stack}.layers.{index}"
            parts = [(layer.self_attn, layer.self_attn_layer_norm, "self_attn")]
            if stack == "decoder":
                parts.append((layer.encoder_attn, layer.encoder_attn_layer_norm, "multihead_attn"))
            for attention, _, kind in parts:
                three = attention.q_proj, attention.k_proj, attention.v_proj
                _add_attention(state, f"{name}.{kind}", three, attention.out_proj)
            add_linear(state, f"{name}.linear1.", layer.fc1)
            add_linear(state, f"{name}.linear2.", layer.fc2)
            for number, norm in enumerate([*(norm for _, norm, _ in parts), layer.final_layer_norm], 1):
                _add_norm(state, f"{name}.norm{number}", norm)
        if embedding_norm:
            _add_norm(state, f"{stack}.embedding_norm", module.layernorm_embedding)
        if norm_first:
            _add_norm(state, f"{stack}.norm", module.layer_norm)
        table = module.embed_positions
        state["positions" if stack == "encoder" else "target_positions"] = table.weight[getattr(table, "offset", 0) :]
    return state, {
        "d_model": config.d_model,
        "heads": config.encoder_attention_heads,
        "feedforward": config.encoder_ffn_dim,
        "encoder_layers": config.encoder_layers,
        "decoder_layers": config.decoder_layers,
        "activation": find_activation(config.activation_function),
        "norm_first": norm_first,
        "final_norms": norm_first,
        "embedding_norm": embedding_norm,
        "layer_norm_eps": network.get_decoder().layers[0].final_layer_norm.eps,
        "scale_embedding": config.scale_embedding,
        "stored_positions": True,
        "shared_positions": False,
        "max_positions": len(state["positions"]),
    }


def _add_norm(state: dict[str, Tensor], name: str, norm: Any) -> None:
    state[f"{name}.weight"], state[f"{name}.bias"] = norm.weight, norm.bias
