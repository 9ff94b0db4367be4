"""A model's weights for the Triton kernels: matrices as sums of bf16 parts, so that tensor cores compute exactly.

A bf16 number has 8 significant bits and the range of fp32. What `checkpoint.save` writes is exactly bf16: one part. An
fp16 matrix is the sum of two parts, an fp32 one of three. The product of two bf16 numbers is exact in fp32, so summing
the products of all parts of both sides is an fp32 product, even though tensor cores multiply bf16.

Shapes: P parts, O outputs, K inputs.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from chemspec.model import transformer
from chemspec.model.transformer import Attention, Stack, Transformer, forced_logits
from chemspec.settings import ModelConfig

PARTS = 3  # bf16 parts of an fp32 number
SLICE = 256  # inputs summed by one program; longer sums are cut and added in order


@dataclass(frozen=True)
class Norm:
    """A layer norm, or an RMS norm with a shift of 0."""

    gain: Tensor
    shift: Tensor
    eps: float
    rms: bool = False


@dataclass(frozen=True)
class Matrix:
    """A linear layer."""

    parts: Tensor  # bf16 parts (P, O, K), least significant last; stored as fp32 on a CPU
    bias: Tensor  # (O,)
    exact: bool = True  # whether activations are split likewise; else they are rounded to bf16
    cut: bool = False  # whether a long sum may be split into slices that the next operation adds

    @property
    def slices(self) -> int:
        """Number of slices of the inputs, whose sums are added afterwards; 1: not split."""
        inputs = self.parts.shape[2]
        return inputs // SLICE if self.cut and inputs > SLICE and inputs % SLICE == 0 else 1


@dataclass(frozen=True)
class Layer:
    """One layer; `cross` and `cross_out` are None in the encoder."""

    qkv: Matrix
    out: Matrix
    up: Matrix
    down: Matrix
    norms: tuple[Norm, ...]
    cross: Matrix | None = None
    cross_out: Matrix | None = None


@dataclass(frozen=True)
class Weights:
    """All weights of a forward pass; pairs are of source and target, or of encoder and decoder."""

    config: ModelConfig
    tables: tuple[Tensor, Tensor]  # embeddings, scaled, (V, D) each
    positions: tuple[Tensor, Tensor]  # (positions, D) each
    embedding_norms: tuple[Norm | None, Norm | None]
    distances: tuple[Tensor | None, Tensor | None]  # relative position biases of self-attention, (2 F + 1, H) each
    forced: Tensor | None  # logits (V,) of the root if the first token is forced
    stacks: tuple[tuple[Layer, ...], tuple[Layer, ...]]
    last: tuple[Norm | None, Norm | None]  # final norms
    memory: tuple[Matrix, ...]  # encoder's output to keys and values of each decoder layer, (P, 2 H d, D)
    output: Matrix


def split_bf16(weight: Tensor) -> Tensor:
    """Split a matrix into the fewest bf16 parts that sum to it exactly, (P, O, K), as fp32 numbers."""
    if weight.is_meta:  # only the shape is needed
        return weight.detach()[None]
    parts: list[Tensor] = []
    rest = weight.detach().float()
    while len(parts) < PARTS and (not parts or rest.count_nonzero()):
        parts.append(rest.bfloat16().float())
        rest = rest - parts[-1]
    return torch.stack(parts)


def pack_weights(model: Transformer, device: torch.device, *, dtype: str) -> Weights:
    """Copy weights to a device, matrices rounded for "bf16"; parts in fp32 on a CPU, for Triton's interpreter."""
    config, kind = model.config, torch.float32 if device.type == "cpu" else torch.bfloat16

    def floats(tensor: Tensor) -> Tensor:
        return tensor.detach().float().contiguous().to(device)

    def matrix(weight: Tensor, bias: Tensor | None) -> Matrix:
        shift = floats(torch.zeros(len(weight)) if bias is None else bias)
        parts = weight.detach().bfloat16().float()[None] if dtype == "bf16" else split_bf16(weight)
        return Matrix(parts.to(device, kind).contiguous(), shift, dtype == "fp32")

    def linear(layer: nn.Linear) -> Matrix:
        return matrix(layer.weight, layer.bias)

    def projection(attention: Attention, start: int, stop: int) -> Matrix:
        rows = slice(start * config.inner_width, stop * config.inner_width)
        return matrix(attention.in_proj_weight[rows], attention.in_proj_bias[rows])

    def norm(layer: nn.Module) -> Norm | None:
        if isinstance(layer, nn.RMSNorm):
            return Norm(floats(layer.weight), floats(torch.zeros_like(layer.weight)), layer.eps or 0.0, rms=True)
        return Norm(floats(layer.weight), floats(layer.bias), layer.eps) if isinstance(layer, nn.LayerNorm) else None

    def distances(stack: Stack) -> Tensor | None:
        return floats(stack.distances) if config.relative_positions else None

    def packed(layer: transformer.Layer, cross: bool) -> Layer:
        norms = [norm(getattr(layer, f"norm{number}")) for number in range(1, 4 if cross else 3)]
        return Layer(
            projection(layer.self_attn, 0, 3),
            linear(layer.self_attn.out_proj),
            linear(layer.linear1),
            replace(linear(layer.linear2), cut=True),
            tuple(layer_norm for layer_norm in norms if layer_norm is not None),
            projection(layer.multihead_attn, 0, 1) if cross else None,
            linear(layer.multihead_attn.out_proj) if cross else None,
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
