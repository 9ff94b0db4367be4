"""A model's weights as the kernels read them: matrices as sums of bf16 parts, so that tensor cores lose nothing.

A bf16 number has 8 significant bits and the range of fp32. What `checkpoint.save` writes is exactly bf16: one part. An
fp16 matrix is the sum of two parts, an fp32 one of three. The product of two bf16 numbers is exact in fp32, so summing
the products of all parts of both sides is an fp32 product, whatever the units multiply.

Shapes: P parts, O outputs, K inputs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from chemspec.model.int8 import quantise
from chemspec.model.transformer import Attention, RmsNorm, Stack, Transformer, forced_logits
from chemspec.settings import ModelConfig

PARTS = 3  # that an fp32 number needs
SLICE = 256  # inputs summed by one program; longer sums are cut and added in order


@dataclass(frozen=True)
class Norm:
    """A layer norm; or, with a shift of 0, a division by the root of the mean square."""

    gain: Tensor
    shift: Tensor
    eps: float
    rms: bool = False


@dataclass(frozen=True)
class Matrix:
    """A linear layer.

    Attributes:
        parts: bf16 parts (P, O, K), rarest bits last; fp32 numbers of that precision off a GPU. Or int8 (1, O, K).
        bias: (O,).
        exact: whether what is multiplied is split likewise; else it is rounded to bf16.
        scale: of each output (O,), where parts are int8.
        cut: whether a long sum may be cut, where what follows adds the pieces.
    """

    parts: Tensor
    bias: Tensor
    exact: bool = True
    scale: Tensor | None = None
    cut: bool = False

    @property
    def slices(self) -> int:
        """Pieces of the inputs whose sums are added afterwards; 1: the sum is not cut."""
        inputs = self.parts.shape[2]
        return inputs // SLICE if self.cut and inputs > SLICE and inputs % SLICE == 0 and self.scale is None else 1


@dataclass(frozen=True)
class Layer:
    """One layer; `cross` and what belongs to it are None in the encoder."""

    qkv: Matrix
    out: Matrix
    up: Matrix
    down: Matrix
    norms: tuple[Norm, ...]
    cross: Matrix | None = None
    cross_out: Matrix | None = None


@dataclass(frozen=True)
class Weights:
    """Everything that a pass reads.

    Attributes:
        tables: source and target embeddings, scaled, (V, D) each.
        positions: of source and target, (positions, D) each.
        embedding_norms: of both, if there are any.
        distances: biases of both stacks' attention to their own text, (2 F + 1, H) each, if there are any.
        forced: the logits (V,) that the root has, if the first token is forced.
        stacks: encoder and decoder layers.
        last: final norms of both, if there are any.
        memory: keys and values of the encoder's output for each decoder layer, (P, 2 H d, D).
    """

    config: ModelConfig
    tables: tuple[Tensor, Tensor]
    positions: tuple[Tensor, Tensor]
    embedding_norms: tuple[Norm | None, Norm | None]
    distances: tuple[Tensor | None, Tensor | None]
    forced: Tensor | None
    stacks: tuple[tuple[Layer, ...], tuple[Layer, ...]]
    last: tuple[Norm | None, Norm | None]
    memory: tuple[Matrix, ...]
    output: Matrix


def supports(config: ModelConfig) -> bool:
    """Whether the kernels compute this architecture: sums in whole steps of 32."""
    return all(size % 32 == 0 for size in (config.d_model, config.inner_width, config.feedforward))


def split(weight: Tensor) -> Tensor:
    """Return the fewest bf16 parts whose sum is a matrix exactly, (P, O, K), as fp32 numbers."""
    if weight.is_meta:  # shapes alone are wanted
        return weight.detach()[None]
    parts: list[Tensor] = []
    rest = weight.detach().float()
    while len(parts) < PARTS and (not parts or rest.count_nonzero()):
        parts.append(rest.bfloat16().float())
        rest = rest - parts[-1]
    return torch.stack(parts)


def pack(model: Transformer, device: torch.device, *, dtype: str) -> Weights:
    """Copy a model's weights to a device.

    Args:
        model: in fp32.
        device: where to; on a CPU, whose bf16 the interpreter of Triton gets wrong, parts are kept as fp32.
        dtype: "fp32"; "bf16", matrices rounded; or "int8", see `chemspec.model.int8`.
    """
    config, kind = model.config, torch.float32 if device.type == "cpu" else torch.bfloat16

    def floats(tensor: Tensor) -> Tensor:
        return tensor.detach().float().contiguous().to(device)

    def matrix(weight: Tensor, bias: Tensor | None) -> Matrix:
        shift = floats(torch.zeros(len(weight)) if bias is None else bias)
        if dtype == "int8":
            whole, scale = quantise(weight.detach().float())
            return Matrix(whole[None].to(device, torch.int8).contiguous(), shift, scale=floats(scale[:, 0]))
        parts = weight.detach().bfloat16().float()[None] if dtype == "bf16" else split(weight)
        return Matrix(parts.to(device, kind).contiguous(), shift, dtype == "fp32")

    def linear(layer: nn.Linear) -> Matrix:
        return matrix(layer.weight, layer.bias)

    def projection(attention: Attention, start: int, stop: int) -> Matrix:
        rows = slice(start * config.inner_width, stop * config.inner_width)
        return matrix(attention.in_proj_weight[rows], attention.in_proj_bias[rows])

    def norm(layer: nn.Module) -> Norm | None:
        if isinstance(layer, RmsNorm):
            return Norm(floats(layer.weight), floats(torch.zeros_like(layer.weight)), layer.eps, rms=True)
        return Norm(floats(layer.weight), floats(layer.bias), layer.eps) if isinstance(layer, nn.LayerNorm) else None

    def distances(stack: Stack) -> Tensor | None:
        return floats(stack.distances) if config.relative_positions else None

    def packed(layer: object, cross: bool) -> Layer:
        own: nn.Module = layer  # type: ignore[assignment]
        norms = [norm(getattr(own, f"norm{number}")) for number in range(1, 4 if cross else 3)]
        return Layer(
            projection(own.self_attn, 0, 3),  # type: ignore[arg-type]
            linear(own.self_attn.out_proj),  # type: ignore[union-attr,arg-type]
            linear(own.linear1),  # type: ignore[arg-type]
            replace(linear(own.linear2), cut=True),  # type: ignore[arg-type]
            tuple(one for one in norms if one is not None),
            projection(own.multihead_attn, 0, 1) if cross else None,  # type: ignore[arg-type]
            linear(own.multihead_attn.out_proj) if cross else None,  # type: ignore[union-attr,arg-type]
        )

    scale = config.d_model**0.5 if config.scale_embedding else 1.0
    return Weights(
        config,
        (floats(model.embedding.weight * scale), floats(model.target_table.weight * scale)),
        (floats(model.positions), floats(model.positions if config.shared_positions else model.target_positions)),
        (norm(model.encoder.embedding_norm), norm(model.decoder.embedding_norm)),
        (distances(model.encoder), distances(model.decoder)),
        floats(forced_logits(config)) if config.forced_first >= 0 else None,
        (tuple(packed(layer, False) for layer in model.encoder), tuple(packed(layer, True) for layer in model.decoder)),
        (norm(model.encoder.norm), norm(model.decoder.norm)),
        tuple(projection(layer.multihead_attn, 1, 3) for layer in model.decoder),
        linear(model.output),
    )
