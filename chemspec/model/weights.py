"""A model's weights as numpy arrays, named as in `Transformer`: read from safetensors and validated, without torch.

Shapes: V vocabulary, D width, F width of the feed-forward layers, P positions.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, deserialize

from chemspec.settings import ModelConfig

Array = NDArray[np.float32]
LEVELS = 127  # int8 values are integers from -127 to 127
MIN_LARGEST = 1e-30  # rows whose largest value is below it are quantised to zeros
FLOATS = {"F64": np.float64, "F32": np.float32, "F16": np.float16}  # besides BF16, which numpy does not know


class CheckpointError(ValueError):
    """An unusable model folder; the message names the file and the fault."""


@dataclass(frozen=True)
class Weights:
    """The weights of a transformer in fp32."""

    config: ModelConfig
    tensors: Mapping[str, Array]  # tensors by name; exactly those that `tensor_shapes` lists
    positions: Array  # table of positions (P, D); also among the tensors if the model stores it

    def __getitem__(self, name: str) -> Array:
        return self.tensors[name]

    @property
    def target_table(self) -> Array:
        """The embedding of target tokens (V, D)."""
        return self["embedding.weight" if self.config.shared_embedding else "target_embedding.weight"]

    @property
    def target_positions(self) -> Array:
        """The table of positions of target tokens (P, D)."""
        return self.positions if self.config.shared_positions else self["target_positions"]

    @property
    def output(self) -> Array:
        """The weight of the output layer (V, D)."""
        return self.target_table if self.config.tied_output else self["output.weight"]


def sinusoids(positions: int, width: int) -> NDArray[np.float64]:
    """Return the position table (positions, width): sine in even columns, cosine in odd ones."""
    position = np.arange(positions, dtype=np.float64)[:, None]
    angle = position * np.exp(np.arange(0, width, 2, dtype=np.float64) * (-np.log(10000.0) / width))
    table = np.zeros((positions, width))
    table[:, 0::2] = np.sin(angle)
    table[:, 1::2] = np.cos(angle)[:, : width // 2]
    return table


def computed_positions(config: ModelConfig) -> NDArray[np.float64]:
    """Return the position table of a model that does not store it; zeros for relative and rotated positions."""
    size = config.table_positions, config.d_model
    return np.zeros(size) if config.relative_positions or config.rotary_base else sinusoids(*size)


def rotations(config: ModelConfig) -> NDArray[np.float64]:
    """Return cosines and sines (2, P, d / 2) that rotate queries and keys; feature i of a head goes with i + d / 2.

    Angles are in single precision, as in the programs that trained such models.
    """
    width = config.inner_width // config.heads
    frequencies = (config.rotary_base ** -(np.arange(0, width, 2) / width)).astype(np.float32)
    angles = np.arange(config.table_positions, dtype=np.float32)[:, None] * frequencies
    return np.stack((np.cos(angles.astype(np.float64)), np.sin(angles.astype(np.float64))))


def tensor_shapes(config: ModelConfig) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield the names and shapes of the tensors of this architecture."""
    table = config.vocab_size, config.d_model
    yield "embedding.weight", table
    if not config.shared_embedding:
        yield "target_embedding.weight", table
    stacks = (("encoder", config.encoder_layers, 2), ("decoder", config.decoder_layers, 3))
    for stack, depth, norms in (("decoder", config.decoder_layers, 2),) if config.decoder_only else stacks:
        for layer in range(depth):
            yield from _layer_shapes(f"{stack}.layers.{layer}", config, norms)
        if config.embedding_norm:
            yield from _norm_shapes(f"{stack}.embedding_norm", config)
        if config.final_norms:
            yield from _norm_shapes(f"{stack}.norm", config)
        if config.relative_positions:
            yield f"{stack}.distances", (2 * config.relative_positions + 1, config.heads)
    if not config.tied_output:
        yield "output.weight", table
    if config.output_bias:
        yield "output.bias", (config.vocab_size,)
    if config.stored_positions:
        yield "positions", (config.table_positions, config.d_model)
    if not config.shared_positions:
        yield "target_positions", (config.max_positions, config.d_model)


def _layer_shapes(name: str, config: ModelConfig, norms: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    width, inner, between = config.d_model, config.inner_width, config.feedforward
    for attention in ("self_attn", "multihead_attn")[: norms - 1]:
        yield f"{name}.{attention}.in_proj_weight", (3 * inner, width)
        yield f"{name}.{attention}.in_proj_bias", (3 * inner,)
        yield from _linear_shapes(f"{name}.{attention}.out_proj", width, inner)
    if config.relative_vectors:
        yield f"{name}.self_attn.vectors", (2 * config.relative_vectors + 1, inner // config.heads)
    yield from _linear_shapes(f"{name}.linear1", (1 + config.gated) * between, width)
    yield from _linear_shapes(f"{name}.linear2", width, between)
    for norm in range(1, norms + 1):
        yield from _norm_shapes(f"{name}.norm{norm}", config)


def _norm_shapes(name: str, config: ModelConfig) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield f"{name}.weight", (config.d_model,)
    if not config.rms_norm:
        yield f"{name}.bias", (config.d_model,)


def _linear_shapes(name: str, *shape: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield f"{name}.weight", shape
    yield f"{name}.bias", shape[:1]


def quantise_rows(weight: Array) -> tuple[NDArray[np.int8], Array]:
    """Quantise a matrix by rows to integers (O, K) times scales (O, 1), as the tests' int8_reference.quantise."""
    largest, levels = np.abs(weight).max(axis=1, keepdims=True), np.float32(LEVELS)
    factor = np.divide(levels, largest, out=np.zeros_like(largest), where=largest > MIN_LARGEST)
    return np.rint(weight * factor).astype(np.int8), largest / levels


def read_weights(file: Path, config: ModelConfig) -> Weights:
    """Read a model's weights; raises CheckpointError for a damaged file or tensor, see `check_tensors`."""
    return check_weights(config, read_tensors(file), where=str(file))


def check_weights(config: ModelConfig, tensors: Mapping[str, Array], *, where: str) -> Weights:
    """Return tensors as the weights of an architecture; see `check_tensors` for the arguments and errors."""
    check_tensors(dict(tensor_shapes(config)), tensors, where=where)
    table = tensors["positions"] if config.stored_positions else computed_positions(config)
    return Weights(config, tensors, table.astype(np.float32))


def read_tensors(file: Path) -> dict[str, Array]:
    """Read tensors in fp32; CheckpointError if the file is unreadable, or they are not floating-point numbers."""
    try:
        stored = deserialize(file.read_bytes())  # type: ignore[no-untyped-call]
    except (SafetensorError, OSError, ValueError) as error:
        raise CheckpointError(f"{file} cannot be read: {error}") from error
    for name, entry in stored:
        if entry["dtype"] not in (*FLOATS, "BF16"):
            raise CheckpointError(f"{file}: {name} holds {entry['dtype']}, not floating-point numbers")
    return {name: _to_float32(entry["data"], entry["dtype"], entry["shape"]) for name, entry in stored}


def _to_float32(data: bytes, kind: str, shape: list[int]) -> Array:
    if kind == "BF16":  # the upper half of a float's bits
        return (np.frombuffer(data, np.uint16).astype(np.uint32) << 16).view(np.float32).reshape(shape)
    with np.errstate(over="ignore"):  # infinities are refused later
        return np.frombuffer(data, FLOATS[kind]).astype(np.float32).reshape(shape)


def check_tensors(expected: Mapping[str, tuple[int, ...]], state: Mapping[str, Array], *, where: str) -> None:
    """Raise CheckpointError, naming the file `where`, if tensors are missing, superfluous, misshapen or not finite."""
    faults = [f"{name} is missing" for name in expected if name not in state]
    faults += [f"{name} is not part of this architecture" for name in state if name not in expected]
    for name, tensor in state.items():
        if name not in expected:
            continue
        if tensor.shape != expected[name]:
            faults.append(f"{name} has shape {tensor.shape}, expected {expected[name]}")
        elif not np.isfinite(tensor).all():
            faults.append(f"{name} holds infinite or undefined numbers")
    if faults:
        more = f" (and {len(faults) - 3} more faults)" if len(faults) > 3 else ""
        raise CheckpointError(f"{where}: {'; '.join(faults[:3])}{more}")
