"""Load any model built on `torch.nn.Transformer`, by a description of its checkpoint in TOML.

What programs of their own name differently (embeddings, output layer, table of positions, special tokens) stands in the
description; layers have torch's own names.
"""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import msgspec
import torch
from torch import Tensor

from chemspec.importers import foreign, pickled
from chemspec.importers.base import LoadedModel, LoadOptions
from chemspec.importers.foreign import Vocabulary
from chemspec.model.checkpoint import CheckpointError
from chemspec.model.weights import read_tensors
from chemspec.settings import Task

FORMAT = "torch.nn.Transformer"
STATES = ("state_dict", "model_state_dict", "model", "net")  # where checkpoints keep their tensors
LAYERS = ("self_attn.in_proj", "self_attn.out_proj.", "linear1.", "linear2.", "norm1.", "norm2.")
OF_DECODER = ("multihead_attn.in_proj", "multihead_attn.out_proj.", "norm3.")


class Specials(msgspec.Struct, forbid_unknown_fields=True):
    """Special tokens of the vocabulary."""

    pad: str
    bos: str
    eos: str
    unk: str


class Names(msgspec.Struct, forbid_unknown_fields=True):
    """Names of tensors in the checkpoint; those of layers end as in torch."""

    source_embedding: str
    output: str  # name without ".weight" and ".bias"
    target_embedding: str = ""  # "": the source's
    encoder: str = "transformer.encoder"
    decoder: str = "transformer.decoder"
    positions: str = ""  # a table; "": sinusoids, sine in even columns and cosine in odd ones


class Description(msgspec.Struct, forbid_unknown_fields=True):
    """A checkpoint's description."""

    format: Literal["torch.nn.Transformer"]
    weights: str  # files in the folder of the description
    vocab: str
    heads: int
    specials: Specials
    names: Names
    task: Task | None = None
    activation: Literal["relu", "gelu"] = "relu"
    norm_first: bool = False
    layer_norm_eps: float = 1e-5
    scale_embedding: bool = False  # embeddings are multiplied by the root of their width
    source_specials: bool = False  # a source begins with bos and ends with eos


def _find(path: Path) -> Path | None:
    """Return the description at a path: a TOML file, or the only one in a folder, of this format."""
    files = [path] if path.is_file() else sorted(path.glob("*.toml")) if path.is_dir() else []
    if len(files) != 1 or files[0].suffix != ".toml":
        return None
    try:
        values = tomllib.loads(files[0].read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return files[0] if values.get("format") == FORMAT else None


def recognises(path: Path) -> bool:
    """Return whether a path is a description of a checkpoint, or a folder with one."""
    return _find(path) is not None


def load(path: Path, options: LoadOptions = LoadOptions()) -> LoadedModel:
    """Load a described checkpoint; CheckpointError for a description or weights that do not fit."""
    file = _find(path) or path
    text = file.read_bytes()
    try:
        description = msgspec.toml.decode(text, type=Description)
    except msgspec.MsgspecError as error:
        raise CheckpointError(f"{file}: {error}") from error
    weights, vocab = (_file_in_folder(file, name) for name in (description.weights, options.vocab or description.vocab))
    options = replace(options, vocab=vocab, task=options.task or description.task)
    state = _read_state(weights)
    with foreign.name_file_in_errors(weights):
        return _build_model(description, state, weights, options, text)


def _file_in_folder(file: Path, name: str | Path) -> Path:
    """Return a file named in the description; CheckpointError if it is missing or elsewhere."""
    resolved = file.parent / name
    if not isinstance(name, Path) and Path(name).name != name:
        raise CheckpointError(f"{file}: {name!r} must be a file in its folder")
    if not resolved.is_file():
        raise CheckpointError(f"{file}: {resolved} is missing")
    return resolved


def _read_state(file: Path) -> dict[str, Tensor]:
    if file.suffix == ".safetensors":
        return {name: torch.from_numpy(array) for name, array in read_tensors(file).items()}
    values: Any = pickled.read_checkpoint(file)
    for name in STATES:
        if isinstance(values.get(name), dict):
            values = values[name]
    return {name.removeprefix("module."): part for name, part in values.items() if isinstance(part, Tensor)}


def _read_vocabulary(file: Path) -> list[str]:
    """Return tokens by id, from a JSON list, a JSON object of ids by token, or a text file with a token per line."""
    text = file.read_text(encoding="utf-8")
    values: Any = json.loads(text) if file.suffix == ".json" else text.rstrip("\n").split("\n")
    if isinstance(values, dict):
        values = [token for token, _ in sorted(values.items(), key=lambda item: int(item[1]))]
    if not isinstance(values, list) or not all(isinstance(token, str) for token in values):
        raise ValueError(f"{file.name} holds no list of tokens and no object of ids by token")
    return values


def _build_model(
    description: Description, weights: dict[str, Tensor], file: Path, options: LoadOptions, text: bytes
) -> LoadedModel:
    names, specials = description.names, description.specials
    tokens = _read_vocabulary(options.vocab) if options.vocab else []
    vocabulary = Vocabulary.of(tokens, tokens, (specials.pad, specials.bos, specials.eos, specials.unk))
    source, output = weights[names.source_embedding], weights[f"{names.output}.weight"]
    target = weights[names.target_embedding] if names.target_embedding else source
    bias = weights.get(f"{names.output}.bias", torch.zeros(len(output)))
    state = vocabulary.reorder_tables(source, target, output, bias)
    state |= _layers(weights, names.encoder, "encoder", LAYERS)
    state |= _layers(weights, names.decoder, "decoder", (*LAYERS, *OF_DECODER))
    final = [f"{stack}.norm.weight" in state for stack in ("encoder", "decoder")]
    if final[0] != final[1]:
        raise ValueError("only one of its stacks ends with a norm")
    return foreign.build_loaded_model(
        file,
        options,
        family=f"{FORMAT}, described",
        state=state,
        positions=weights[names.positions] if names.positions else foreign.rounded_sinusoids(source.shape[1]),
        vocabulary=vocabulary,
        described=text,
        heads=description.heads,
        activation=description.activation,
        norm_first=description.norm_first,
        final_norms=all(final),
        layer_norm_eps=description.layer_norm_eps,
        scale_embedding=description.scale_embedding,
        source_specials=description.source_specials,
    )


def _layers(weights: dict[str, Tensor], theirs: str, ours: str, parts: tuple[str, ...]) -> dict[str, Tensor]:
    """Return the tensors of a stack, with zeros for the biases that torch leaves out with `bias=False`."""
    state = {f"{ours}{name[len(theirs) :]}": part.float() for name, part in weights.items() if _is_in(name, theirs)}
    depth = len({name.split(".")[2] for name in state if name.startswith(f"{ours}.layers.")})
    if not depth:
        raise ValueError(f"it has no {theirs}.layers.0; names.{ours} in the description names the stack")
    for part in [f"{ours}.layers.{layer}.{part}" for layer in range(depth) for part in parts] + [f"{ours}.norm."]:
        weight, bias = (f"{part}{'_' if part.endswith('in_proj') else ''}{kind}" for kind in ("weight", "bias"))
        if weight in state:
            state.setdefault(bias, torch.zeros(len(state[weight])))
    return state


def _is_in(name: str, stack: str) -> bool:
    return name.startswith((f"{stack}.layers.", f"{stack}.norm."))
