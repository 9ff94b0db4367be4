"""Load transformers of OpenNMT-py: 0.4.1 (Molecular Transformer), 1.x and 2.x (R-SMILES, RXN) and 3.x."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from chemspec.importers import foreign, pickled
from chemspec.importers.base import LoadedModel, LoadOptions, read_json_object
from chemspec.importers.foreign import Options, Vocabulary

SPECIALS = ("<blank>", "<s>", "</s>", "<unk>")  # pad, bos, eos, unk
PARTS = {"model", "generator", "vocab", "opt"}
LUT = "embeddings.make_embedding.emb_luts.0.weight"
TABLE = "embeddings.make_embedding.pe.pe"
VECTORS = "relative_positions_embeddings.weight"
# Options that change the computation, with the values that do not.
PLAIN: dict[str, Any] = read_json_object(Path(__file__).with_name("onmt_options.json"))


def recognises(path: Path) -> bool:
    """Return whether a path is a checkpoint of OpenNMT-py, or a folder with one."""
    return pickled.matches(path, lambda parts: set(parts) >= PARTS)


def load(path: Path, options: LoadOptions = LoadOptions()) -> LoadedModel:
    """Load a checkpoint; raises CheckpointError for a damaged one, or for an unsupported architecture."""
    file = pickled.find_checkpoint(path) or path
    values = pickled.read_checkpoint(file)
    opt = Options(pickled.named_values(values["opt"]))
    with foreign.name_file_in_errors(file):
        return _build_model(file, options, opt, values)


def _build_model(file: Path, options: LoadOptions, opt: Options, values: Mapping[str, Any]) -> LoadedModel:
    for name, allowed in PLAIN.items():
        opt.check_allowed(name, *allowed)
    weights, generator = dict(values["model"] or {}), dict(values["generator"] or {})
    if not weights:
        raise ValueError("its weights are in separate files; save it as one checkpoint (save_format pytorch)")
    weights |= {name.replace("0.", "", 1) if name[0] == "0" else name: part for name, part in generator.items()}
    words = values["vocab"]
    source, target = (_read_tokens(words, side) for side in ("src", "tgt"))
    vocabulary = Vocabulary.of(source, target, SPECIALS)
    bias = weights.get("bias", torch.zeros(len(target)))
    state = vocabulary.reorder_tables(weights[f"encoder.{LUT}"], weights[f"decoder.{LUT}"], weights["weight"], bias)
    if extra := [name for name in weights if ".emb_luts.1." in name]:
        raise ValueError(f"it has token features ({extra[0]}), which chemspec does not support")
    farthest = _farthest(opt, weights)
    # Without a table OpenNMT-py does not scale embeddings either.
    has_table = opt.values.get("position_encoding") is not False
    table = weights.get(f"encoder.{TABLE}")
    if not has_table:
        table = torch.zeros(foreign.MAX_POSITIONS, state["embedding.weight"].shape[1])
    elif table is None:  # not stored: OpenNMT-py recomputes it
        opt.check_allowed("position_encoding_type", "SinusoidalInterleaved")
        table = foreign.rounded_sinusoids(state["embedding.weight"].shape[1])
    for theirs, ours in (("encoder.transformer", "encoder.layers"), ("decoder.transformer_layers", "decoder.layers")):
        layers = 1 + max((int(name.split(".")[2]) for name in weights if name.startswith(f"{theirs}.")), default=-1)
        if layers < 1:
            raise ValueError(f"it has no {theirs}")
        for layer in range(layers):
            state |= _layer(weights, f"{theirs}.{layer}.", f"{ours}.{layer}.")
    old = "encoder.layer_norm.a_2" in weights
    for stack in ("encoder", "decoder"):
        state |= _norm(weights, f"{stack}.layer_norm", f"{stack}.norm")
    return foreign.build_loaded_model(
        file,
        options,
        family=f"OpenNMT-py, {'0.4.1 or 0.5' if old else '3.x' if isinstance(words['src'], list) else '1.x or 2.x'}",
        state=state,
        positions=table,
        vocabulary=vocabulary,
        hints=[opt.values.get(name) for name in ("data", "save_model", "save_data")],
        heads=int(opt.require("heads")),
        activation=opt.values.get("pos_ffn_activation_fn") or "relu",
        norm_first=True,
        # 0.4.1 adds its eps to the standard deviation; added to the variance it is squared.
        layer_norm_eps=1e-12 if old else float(opt.values.get("norm_eps") or 1e-6),
        scale_embedding=has_table,
        relative_vectors=farthest,
    )


def _farthest(opt: Options, weights: Mapping[str, Tensor]) -> int:
    """Return the largest distance of relative positions, 0 without them; ValueError if they are of another kind."""
    farthest = opt.values.get("max_relative_positions") or 0
    if kind := {-1: "rotary embeddings", -2: "ALiBi"}.get(farthest):
        raise ValueError(f"its option max_relative_positions is {farthest}, which chemspec does not compute ({kind})")
    if extra := [name for name in weights if ".relative_attention_" in name or ".context_attn.layer_norm" in name]:
        raise ValueError(f"it has {extra[0]}, which chemspec does not compute")
    if not farthest and (extra := [name for name in weights if name.endswith(VECTORS)]):
        raise ValueError(f"it has {extra[0]}, but max_relative_positions is 0")
    return int(farthest)


def _read_tokens(words: Any, side: str) -> list[str]:
    """Return the tokens of a side by id, in the layout of any release."""
    pairs = words if isinstance(words, list) else list(words.items())
    value: Any = next((pair[1] for pair in pairs if pair[0] == side), None)
    for _ in range(6):
        if isinstance(value, (list, tuple)) and value and all(isinstance(token, str) for token in value):
            return list(value)
        named = pickled.named_values(value)
        names = ("itos", "ids_to_tokens", "vocab", "base_field", "fields")
        inner = next((named[name] for name in names if name in named), None)
        if inner is None and isinstance(value, (list, tuple)) and value:
            inner = value[0][1] if isinstance(value[0], (list, tuple)) else value[0]
        value = inner
    raise ValueError(f"it holds no vocabulary {side!r}")


def _layer(weights: Mapping[str, Tensor], theirs: str, ours: str) -> dict[str, Tensor]:
    decoder = f"{theirs}context_attn.linear_keys.weight" in weights
    parts = {"self_attn": "self_attn"} | ({"multihead_attn": "context_attn"} if decoder else {})
    state: dict[str, Tensor] = {}
    for name, other in parts.items():
        three = [_linear(weights, f"{theirs}{other}.linear_{part}", "") for part in ("query", "keys", "values")]
        for kind in ("weight", "bias"):
            state[f"{ours}{name}.in_proj_{kind}"] = torch.cat([part[f".{kind}"] for part in three])
        state |= _linear(weights, f"{theirs}{other}.final_linear", f"{ours}{name}.out_proj")
    if (vectors := weights.get(f"{theirs}self_attn.{VECTORS}")) is not None:
        state[f"{ours}self_attn.vectors"] = vectors.float()
    for number in (1, 2):
        state |= _linear(weights, f"{theirs}feed_forward.w_{number}", f"{ours}linear{number}")
    norms = ["layer_norm_1", "layer_norm_2"] if decoder else ["layer_norm"]
    norms.append("feed_forward.layer_norm")
    for number, name in enumerate(norms, 1):
        state |= _norm(weights, theirs + name, f"{ours}norm{number}")
    return state


def _linear(weights: Mapping[str, Tensor], theirs: str, ours: str) -> dict[str, Tensor]:
    """Return weight and bias of a linear layer, with zeros for a missing bias (3.x)."""
    weight = weights[f"{theirs}.weight"].float()
    bias = weights.get(f"{theirs}.bias", torch.zeros(len(weight)))
    return {f"{ours}.weight": weight, f"{ours}.bias": bias.float()}


def _norm(weights: Mapping[str, Tensor], theirs: str, ours: str) -> dict[str, Tensor]:
    """Return a norm; 0.4.1 divides by the sample standard deviation, sqrt(d / (d - 1)) times that of the population."""
    if f"{theirs}.a_2" in weights:
        gain, shift = weights[f"{theirs}.a_2"].double(), weights[f"{theirs}.b_2"]
        gain = gain * ((len(gain) - 1) / len(gain)) ** 0.5
    else:
        gain, shift = weights[f"{theirs}.weight"], weights[f"{theirs}.bias"]
    return {f"{ours}.weight": gain.float(), f"{ours}.bias": shift.float()}
