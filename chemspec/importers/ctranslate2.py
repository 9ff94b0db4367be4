"""Load folders written by CTranslate2's converters (`model.bin`, `config.json`, vocabularies), without CTranslate2.

`model.bin` is a list of named arrays: no pickle, no code. Quantised weights are dequantised (int8 and int16 by their
scales), so log-probs are those of the folder, not of the checkpoint before rounding.
"""

import json
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from chemspec.importers import foreign
from chemspec.importers.base import LoadedModel, LoadOptions
from chemspec.importers.foreign import Vocabulary
from chemspec.model.checkpoint import CheckpointError
from chemspec.system.untrusted import read_untrusted_json

BINARY, SPEC = "model.bin", "TransformerSpec"
VERSIONS = range(4, 7)  # of the binary format; all since 2021
KINDS = (np.float32, np.int8, np.int16, np.int32, np.float16, np.uint16)  # the last is bfloat16
ACTIVATIONS = {0: "relu", 1: "gelu_tanh", 3: "gelu"}
PADS = ("<blank>", "<pad>")
# Other options, with the values that do not change the computation.
PLAIN: dict[str, tuple[Any, ...]] = {
    "alibi": (0,),
    "alibi_use_positive_positions": (0, 1),
    "scale_alibi": (0,),
    "start_from_zero_embedding": (0,),
    "embeddings_merge": (0,),
    "multi_query_attention": (0,),
    "num_source_embeddings": (1,),
}


def recognises(path: Path) -> bool:
    """Return whether a path is a CTranslate2 model folder."""
    try:
        with (path / BINARY).open("rb") as file:
            version, length = struct.unpack("<IH", file.read(6))
            return version in VERSIONS and file.read(length).rstrip(b"\0").decode() == SPEC
    except (OSError, struct.error, UnicodeDecodeError):
        return False


def load(path: Path, options: LoadOptions = LoadOptions()) -> LoadedModel:
    """Load a folder; raises CheckpointError for a damaged folder, or an unsupported architecture."""
    file = path / BINARY
    with foreign.name_file_in_errors(file):
        try:
            variables = dict(_iterate_arrays(file.read_bytes()))
        except struct.error as error:
            raise ValueError("it is cut off") from error
        return _build_model(path, options, variables)


def _iterate_arrays(content: bytes) -> Iterator[tuple[str, Tensor]]:
    """Yield the dequantised arrays by name, including aliases."""
    offset = 4

    def read_number(form: str) -> Any:
        nonlocal offset
        values = struct.unpack_from("<" + form, content, offset)
        offset += struct.calcsize("<" + form)
        return values[0]

    def read_text() -> str:
        nonlocal offset
        length = read_number("H")
        offset += length
        return content[offset - length : offset].rstrip(b"\0").decode()

    read_text()  # name of the architecture
    read_number("I")  # revision
    arrays: dict[str, Tensor] = {}
    for _ in range(read_number("I")):
        name = read_text()
        shape = [read_number("I") for _ in range(read_number("B"))]
        kind, size = read_number("B"), read_number("I")
        if kind >= len(KINDS) or offset + size > len(content):
            raise ValueError(f"{name} is damaged")
        array: NDArray[Any] = np.frombuffer(content, KINDS[kind], size // np.dtype(KINDS[kind]).itemsize, offset)
        if KINDS[kind] is np.uint16:
            array = (array.astype(np.uint32) << 16).view(np.float32)
        arrays[name] = torch.from_numpy(array.reshape(shape).copy())
        offset += size
    origin = {read_text(): read_text() for _ in range(read_number("I"))}
    arrays |= {alias: arrays[name] for alias, name in origin.items()}
    for name, tensor in arrays.items():
        if not name.endswith("weight_scale"):
            scale = arrays.get(f"{name}_scale", arrays.get(f"{origin.get(name)}_scale"))
            yield name, tensor if scale is None else tensor.float() / scale.reshape(-1, *[1] * (tensor.ndim - 1))


def _read_vocabularies(path: Path) -> list[list[str]]:
    vocabularies = []
    for side in ("source", "target"):
        names = [f"{name}_vocabulary.{kind}" for name in ("shared", side) for kind in ("json", "txt")]
        file = next((path / name for name in names if (path / name).is_file()), None)
        if file is None:
            raise CheckpointError(f"{path} has none of {', '.join(names)}")
        tokens = read_untrusted_json(file) if file.suffix == ".json" else file.read_text(encoding="utf-8").splitlines()
        if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
            raise CheckpointError(f"{file} is not a list of tokens")
        vocabularies.append(tokens)
    return vocabularies


class _Arrays:
    """The arrays of a model by name, and the names of those that were read."""

    def __init__(self, arrays: Mapping[str, Tensor]) -> None:
        self.arrays = arrays
        # The attention heads to display have no effect on scores.
        self.taken = {"decoder/alignment_heads", "decoder/alignment_layer"}

    def array(self, name: str) -> Tensor:
        self.taken.add(name)
        return self.arrays[name].float()

    def linear(self, ours: str, theirs: str) -> dict[str, Tensor]:
        """Return weight and bias of a linear layer, with zeros for a missing bias."""
        weight = self.array(f"{theirs}/weight")
        bias = self.array(f"{theirs}/bias") if f"{theirs}/bias" in self.arrays else torch.zeros(len(weight))
        return {f"{ours}weight": weight, f"{ours}bias": bias}

    def norm(self, ours: str, theirs: str) -> dict[str, Tensor]:
        return {f"{ours}.weight": self.array(f"{theirs}/gamma"), f"{ours}.bias": self.array(f"{theirs}/beta")}

    def layer(self, ours: str, theirs: str, attentions: Mapping[str, str]) -> dict[str, Tensor]:
        """Return the weights of a layer, with its attention blocks by our names."""
        state = {}
        for number, (name, block) in enumerate(attentions.items(), 1):  # rows of q, k, v; or of q, then k, v
            rows = [self.linear("", f"{theirs}/{block}/linear_{i}") for i in range(number)]
            for kind in ("weight", "bias"):
                state[f"{ours}.{name}.in_proj_{kind}"] = torch.cat([row[kind] for row in rows])
            state |= self.linear(f"{ours}.{name}.out_proj.", f"{theirs}/{block}/linear_{number}")
            state |= self.norm(f"{ours}.norm{number}", f"{theirs}/{block}/layer_norm")
        state |= self.linear(f"{ours}.linear1.", f"{theirs}/ffn/linear_0")
        state |= self.linear(f"{ours}.linear2.", f"{theirs}/ffn/linear_1")
        return state | self.norm(f"{ours}.norm{len(attentions) + 1}", f"{theirs}/ffn/layer_norm")

    def stack(self, stack: str) -> tuple[dict[str, Tensor], tuple[int, ...]]:
        """Return the weights of encoder or decoder, and its options: heads, norms, activation, scale, last norm."""
        if f"{stack}/position_encodings/encodings" not in self.arrays:
            raise ValueError("it has no table of positions; CTranslate2 computes one of its own there")
        for name, allowed in PLAIN.items():
            if (value := self.arrays.get(f"{stack}/{name}")) is not None and int(value) not in allowed:
                raise ValueError(f"its option {name} is {int(value)}, which chemspec does not compute")
            self.taken.add(f"{stack}/{name}")
        attentions = {"self_attn": "self_attention"} | ({"multihead_attn": "attention"} if stack == "decoder" else {})
        state: dict[str, Tensor] = {}
        layer = 0
        while f"{stack}/layer_{layer}/ffn/linear_0/weight" in self.arrays:
            state |= self.layer(f"{stack}.layers.{layer}", f"{stack}/layer_{layer}", attentions)
            layer += 1
        last = f"{stack}/layer_norm/gamma" in self.arrays
        if last:
            state |= self.norm(f"{stack}.norm", f"{stack}/layer_norm")
        names = ("num_heads", "pre_norm", "activation", "scale_embeddings")
        return state, (*(int(self.array(f"{stack}/{name}")) for name in names), int(last))


def _build_model(path: Path, options: LoadOptions, variables: Mapping[str, Tensor]) -> LoadedModel:
    settings = json.loads((path / "config.json").read_text(encoding="utf-8"))
    source, target = _read_vocabularies(path)
    bos, eos, unk = (settings[f"{name}_token"] for name in ("bos", "eos", "unk"))
    if settings.get("decoder_start_token", bos) != bos:
        raise ValueError(f"its answers start with {settings['decoder_start_token']!r}, not with {bos!r}")
    pad = next((token for token in PADS if token in target), PADS[0])
    vocabulary = Vocabulary.of(source, target, (pad, bos, eos, unk))
    arrays = _Arrays(variables)
    embedding, target_embedding = map(arrays.array, ("encoder/embeddings_0/weight", "decoder/embeddings/weight"))
    output = arrays.linear("", "decoder/projection")
    state = vocabulary.reorder_tables(embedding, target_embedding, output["weight"], output["bias"])
    same = {}
    for stack in ("encoder", "decoder"):
        weights, same[stack] = arrays.stack(stack)
        table = arrays.array(f"{stack}/position_encodings/encodings")
        state |= weights
    if same["encoder"] != same["decoder"]:
        raise ValueError(f"its encoder and decoder differ: {same}")
    if extra := sorted(set(variables) - arrays.taken):
        raise ValueError(f"it has {extra[0]}, which chemspec does not compute")
    heads, norm_first, activation, scaled, final = same["encoder"]
    if activation not in ACTIVATIONS:
        raise ValueError(f"its activation is number {activation}, which chemspec does not compute")
    specials = bool(settings.get("add_source_bos")), bool(settings.get("add_source_eos"))
    return foreign.build_loaded_model(
        path / BINARY,
        options,
        family="CTranslate2",
        state=state,
        positions=table,
        vocabulary=vocabulary,
        heads=heads,
        activation=ACTIVATIONS[activation],
        norm_first=bool(norm_first),
        final_norms=bool(final),
        layer_norm_eps=settings.get("layer_norm_epsilon") or 1e-5,
        scale_embedding=bool(scaled),
        source_specials=all(specials),
        source_first=1 if specials == (True, False) else -1,
        source_last=2 if specials == (False, True) else -1,
    )
