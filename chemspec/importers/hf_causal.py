"""Convert a GPT-2 or LLaMA of transformers, a decoder without an encoder, to a `Transformer`.

The prompt, a template with the query, is read before the answer. Its last token is the same for every query, and takes
the place of bos: the first token of every answer follows it. Keys and values of the prompt are computed once a query
and shared by all its hypotheses; drafters copy from it.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

State = dict[str, Tensor]
ACTIVATIONS = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    **dict.fromkeys(("silu", "swish"), "silu"),
}
MAX_POSITIONS = 1024  # tokens of a prompt, and of an answer; half of the model's, if that is less


def convert_gpt2(network: Any, config: Any) -> tuple[State, dict[str, Any]]:
    """Return weights and config fields of a GPT-2; raises ValueError for options that `Transformer` lacks."""
    _refuse(config, scale_attn_weights=True, scale_attn_by_inverse_layer_idx=False, add_cross_attention=False)
    state, room = State(), min(MAX_POSITIONS, config.n_positions // 2)
    for index, block in enumerate(network.transformer.h):
        name = f"decoder.layers.{index}"
        parts = {
            "self_attn.in_proj_": block.attn.c_attn,
            "self_attn.out_proj.": block.attn.c_proj,
            "linear1.": block.mlp.c_fc,
            "linear2.": block.mlp.c_proj,
        }
        for ours, part in parts.items():  # their weights are (in, out)
            state[f"{name}.{ours}weight"], state[f"{name}.{ours}bias"] = part.weight.t(), part.bias
        for number, norm in enumerate((block.ln_1, block.ln_2), 1):
            state[f"{name}.norm{number}.weight"], state[f"{name}.norm{number}.bias"] = norm.weight, norm.bias
    last = network.transformer.ln_f
    state["decoder.norm.weight"], state["decoder.norm.bias"] = last.weight, last.bias
    state["positions"] = network.transformer.wpe.weight[: 2 * room]
    return state, {
        "d_model": config.n_embd,
        "heads": config.n_head,
        "feedforward": config.n_inner or 4 * config.n_embd,
        "encoder_layers": 0,
        "decoder_layers": config.n_layer,
        "activation": find_activation(config.activation_function),
        "layer_norm_eps": config.layer_norm_epsilon,
        "scale_embedding": False,
        "stored_positions": True,
        "max_positions": room,
    }


def convert_llama(network: Any, config: Any) -> tuple[State, dict[str, Any]]:
    """Return weights and config fields of a LLaMA, Mistral or Qwen2; raises ValueError as `convert_gpt2`.

    Keys and values that several heads share are repeated for each.
    """
    room = min(MAX_POSITIONS, config.max_position_embeddings // 2)
    window = getattr(config, "sliding_window", None) if getattr(config, "use_sliding_window", True) else None
    if window is not None and window < 2 * room:
        room = window // 2
    state, heads = State(), config.num_attention_heads
    width = getattr(config, "head_dim", None) or config.hidden_size // heads
    for index, layer in enumerate(network.model.layers):
        name, attention, mlp = f"decoder.layers.{index}", layer.self_attn, layer.mlp
        for part in ("q_norm", "k_norm"):
            if hasattr(attention, part):
                raise ValueError(f"its attention has {part}")
        shared = heads // config.num_key_value_heads
        three = attention.q_proj, *(_repeated(part, width, shared) for part in (attention.k_proj, attention.v_proj))
        add_linear(state, f"{name}.self_attn.in_proj_", *three)
        add_linear(state, f"{name}.self_attn.out_proj.", attention.o_proj)
        add_linear(state, f"{name}.linear1.", mlp.gate_proj, mlp.up_proj)
        add_linear(state, f"{name}.linear2.", mlp.down_proj)
        state[f"{name}.norm1.weight"] = layer.input_layernorm.weight
        state[f"{name}.norm2.weight"] = layer.post_attention_layernorm.weight
    state["decoder.norm.weight"] = network.model.norm.weight
    return state, {
        "d_model": config.hidden_size,
        "heads": heads,
        "head_width": 0 if width * heads == config.hidden_size else width,
        "feedforward": config.intermediate_size,
        "encoder_layers": 0,
        "decoder_layers": config.num_hidden_layers,
        "activation": find_activation(config.hidden_act),
        "gated": True,
        "rms_norm": True,
        "layer_norm_eps": config.rms_norm_eps,
        "scale_embedding": False,
        "rotary_base": _rotary_base(config),
        "max_positions": room,
    }


CONVERTERS: dict[str, Callable[[Any, Any], tuple[State, dict[str, Any]]]] = {
    "gpt2": convert_gpt2,
    **dict.fromkeys(("llama", "mistral", "qwen2"), convert_llama),
}


def find_start(inner: Any, template: str, placeholder: str) -> int:
    """Return the last token of the prompt, with which the answer begins; ValueError if the template has none."""
    tail = template[template.index(placeholder) + len(placeholder) :] if placeholder in template else ""
    if not tail.strip():
        raise ValueError(
            "a model without an encoder needs to be told where its answer begins: give --template with the text that "
            f"it was trained with, such as '{placeholder}>>' (or \"template\" in chemspec.json)"
        )
    ids = inner(template.replace(placeholder, "C"), add_special_tokens=False)["input_ids"]
    return int(ids[-1])


def _refuse(config: Any, **values: Any) -> None:
    for name, value in values.items():
        if getattr(config, name, value) != value:
            raise ValueError(f"its option {name} is {getattr(config, name)}")


def find_activation(name: str) -> str:
    """Return chemspec's name of an activation; ValueError for one that `Transformer` lacks."""
    if name not in ACTIVATIONS:
        raise ValueError(f"its activation is {name}")
    return ACTIVATIONS[name]


def _rotary_base(config: Any) -> float:
    rope = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind != "default" or rope.get("partial_rotary_factor", 1.0) != 1.0:
        raise ValueError(f"its rotary positions are of the kind {kind!r} ({rope})")
    return float(rope.get("rope_theta", getattr(config, "rope_theta", 10_000.0)))


def _repeated(linear: Any, width: int, times: int) -> Any:
    """Return a projection to key or value heads, each repeated."""

    def repeat(tensor: Tensor | None) -> Tensor | None:
        if tensor is None:
            return None
        heads = tensor.reshape(-1, width, *tensor.shape[1:])
        return heads.repeat_interleave(times, dim=0).flatten(0, 1)

    return SimpleNamespace(weight=repeat(linear.weight), bias=repeat(linear.bias))


def add_linear(state: State, name: str, *parts: Any) -> None:
    """Add linear layers to a state as one layer, with concatenated outputs, and zeros for missing biases."""
    biases = [torch.zeros(len(part.weight)) if part.bias is None else part.bias for part in parts]
    state[f"{name}weight"], state[f"{name}bias"] = torch.cat([part.weight for part in parts]), torch.cat(biases)
