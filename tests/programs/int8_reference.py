"""Reference implementation of int8 inference, bitwise reproducible on every machine.

Weights are integers from -127 to 127 with a scale per output, activations the same with a dynamic scale per row. Sums
of integers do not depend on their order. Everything else (norms, softmax, attention, residuals) is fp32 in the order of
operations defined here, using additions, multiplications and divisions only, which IEEE 754 rounds in one way, without
fused multiply-adds; roots, the logarithm of the softmax and the erf of GELU are computed in fp64 and rounded, so that
math libraries agree. A row's scores are therefore bitwise identical in any batch and tree, on any number of threads,
with any instruction set, in the compiled kernel and here, on a CPU and on a GPU.

The compiled kernel is tested against this module, which is slow: sums over keys are loops.

Shapes: B queries, T new nodes, C keys, H heads, d width of a head, D = H * d, K inputs of a layer.
"""

from __future__ import annotations

import copy
import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from chemspec.model.transformer import Attention, Transformer
from chemspec.model.weights import LEVELS, MIN_LARGEST

LANES = 16  # partial sums of a sum over features
EXACT = 2**24 // LEVELS**2  # products whose sum is exact in fp32, in any order


def quantise(x: Tensor) -> tuple[Tensor, Tensor]:
    """Round rows (..., K) to integers from -127 to 127, ties to even.

    Returns:
        The integers (..., K) as floats, and scales (..., 1) to dequantise them.
    """
    largest = x.abs().amax(dim=-1, keepdim=True)
    levels = x.new_tensor(LEVELS)  # a tensor: torch multiplies by the reciprocal of a number
    factor = torch.where(largest > MIN_LARGEST, levels / largest, 0.0)
    return torch.round(x * factor), largest / levels


def quantised(model: Transformer) -> Transformer:
    """Return a copy of an fp32 model that computes in int8."""
    model = copy.deepcopy(model)
    for stack in (model.decoder,) if model.config.decoder_only else (model.encoder, model.decoder):
        for layer in stack:
            layer.activation = ACTIVATIONS[model.config.activation]
            for name, part in layer.named_children():
                setattr(layer, name, _quantised_module(part))
        stack.embedding_norm, stack.norm = _quantised_module(stack.embedding_norm), _quantised_module(stack.norm)
    model.output = Int8Linear(model.output.weight, model.output.bias)  # type: ignore[assignment]
    model.log_softmax = log_softmax
    return model


def _quantised_module(part: nn.Module) -> nn.Module:
    if isinstance(part, Attention):
        return Int8Attention(part)
    if isinstance(part, (nn.LayerNorm, nn.RMSNorm)):
        return OrderedNorm(part)
    return Int8Linear(part.weight, part.bias) if isinstance(part, nn.Linear) else part


class Int8Linear(nn.Module):
    """A linear layer with int8 weights and activations.

    Attributes:
        weight: integers (O, K), as floats.
        scale: of each output (O,).
        bias: (O,), zeros if the layer has none.
    """

    weight: Tensor
    scale: Tensor
    bias: Tensor

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        integers, scale = quantise(weight.detach())
        self.register_buffer("weight", integers)
        self.register_buffer("scale", scale[:, 0])
        self.register_buffer("bias", weight.new_zeros(len(weight)) if bias is None else bias.detach())

    def forward(self, x: Tensor, outputs: slice = slice(None)) -> Tensor:
        """Compute these outputs: integer sum times the row's scale times the output's scale, plus bias."""
        integers, scale = quantise(x)
        weight = self.weight[outputs]
        if x.shape[-1] <= EXACT:
            sums = functional.linear(integers, weight)
        else:
            sums = functional.linear(integers.double(), weight.double()).float()
        return sums * scale * self.scale[outputs] + self.bias[outputs]


class OrderedNorm(nn.Module):
    """A layer norm or RMS norm with a fixed order of summation."""

    weight: Tensor
    bias: Tensor

    def __init__(self, norm: nn.LayerNorm | nn.RMSNorm) -> None:
        super().__init__()
        self.register_buffer("weight", norm.weight.detach())
        self.centred = isinstance(norm, nn.LayerNorm)
        shift = norm.bias.detach() if isinstance(norm, nn.LayerNorm) else torch.zeros_like(norm.weight)
        self.register_buffer("bias", shift)
        self.eps = norm.eps

    def forward(self, x: Tensor) -> Tensor:
        """Normalise rows (..., D)."""
        width = x.new_tensor(x.shape[-1])
        off = x - lane_sum(x) / width if self.centred else x
        variance = lane_sum(off * off) / width + x.new_tensor(self.eps)
        shrink = x.new_tensor(1.0) / variance.double().sqrt().float()
        return self.bias + off * shrink * self.weight


class Int8Attention(Attention):
    """Attention with int8 projections and a fixed order of summation."""

    def __init__(self, attention: Attention) -> None:
        nn.Module.__init__(self)
        self.heads, self.inner = attention.heads, len(attention.in_proj_bias) // 3
        if hasattr(attention, "vectors"):
            self.register_buffer("vectors", attention.vectors.detach())
        self.in_proj = Int8Linear(attention.in_proj_weight, attention.in_proj_bias)
        self.out_proj = Int8Linear(attention.out_proj.weight, attention.out_proj.bias)  # type: ignore[assignment]

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries, keys and values; see `Attention.project`."""
        q, k, v = self.in_proj(x).chunk(3, dim=-1)
        return self.split(q), self.split(k), self.split(v)

    def project_query(self, x: Tensor) -> Tensor:
        """Return queries only; see `Attention.project_query`."""
        return self.split(self.in_proj(x, slice(self.inner)))

    def project_memory(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Return keys and values of the encoder's output."""
        k, v = self.in_proj(memory, slice(self.inner, None)).chunk(2, dim=-1)
        return self.split(k), self.split(v)

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor, bias: Tensor | None = None, distance: Tensor | None = None
    ) -> Tensor:
        """Attend, join the heads and project; see `Attention.attend`."""
        k, v = k[:, :, None], v[:, :, None]
        if distance is not None and hasattr(self, "vectors"):
            farthest = len(self.vectors) // 2
            added = self.vectors[distance.clamp(-farthest, farthest) + farthest][:, None]
            k, v = k + added, v + added
        joined: Tensor = self.out_proj(attention(q, k, v, mask, bias).transpose(1, 2).flatten(2))
        return joined


def attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, bias: Tensor | None = None) -> Tensor:
    """Attend as `transformer.attention` does; masked keys add exact zeros, so they do not change the sums.

    Keys and values are (B, H, T or 1, C, d): with relative positions those of each new node.

    A score sums its products in steps of 16 / H features, odd and even steps separately, then adds the two, then folds
    the remaining features by halves. The softmax and the weighted sum of values add in the order of the keys.
    """
    heads, width = q.shape[1], q.shape[-1]
    size = 1 if LANES % heads or width % (LANES // heads) else LANES // heads
    sums = [q.new_zeros(*q.shape[:3], k.shape[3], size) for _ in range(2)]
    for step, start in enumerate(range(0, width, size)):
        part = slice(start, start + size)
        sums[step % 2] += q[..., None, part] * k[..., part]
    unit = q.new_tensor(1.0)
    scores = _fold_halves(sums[0] + sums[1])[..., 0] * (unit / q.new_tensor(math.sqrt(width)))  # (B, H, T, C)
    if bias is not None:
        scores = scores + bias
    scores = scores.masked_fill(~mask, float("-inf"))
    probs = exponential(scores - scores.amax(dim=-1, keepdim=True)).masked_fill(~mask, 0.0)
    total, mixed = torch.zeros_like(probs[..., :1]), torch.zeros_like(q)
    for key in range(k.shape[3]):
        prob = probs[..., key : key + 1]
        total += prob
        mixed += prob * v[:, :, :, key]
    return mixed * (unit / total)


def log_softmax(logits: Tensor) -> Tensor:
    """Return log-probs of logits (..., V)."""
    shifted = logits - logits.amax(dim=-1, keepdim=True)
    padded = functional.pad(shifted, (0, -shifted.shape[-1] % LANES), value=float("-inf"))
    return shifted - lane_sum(exponential(padded)).double().log().float()


def lane_sum(x: Tensor) -> Tensor:
    """Sum rows (..., D) in 16 interleaved partial sums, then fold these by halves; (..., 1)."""
    x = functional.pad(x, (0, -x.shape[-1] % LANES))
    total = x.new_zeros(*x.shape[:-1], LANES)
    for start in range(0, x.shape[-1], LANES):
        total += x[..., start : start + LANES]
    return _fold_halves(total)


def _fold_halves(x: Tensor) -> Tensor:
    """Add the second half of the last dimension to the first until one number is left."""
    while (half := x.shape[-1] // 2) > 0:
        x = x[..., :half] + x[..., half:]
    return x


def exponential(x: Tensor) -> Tensor:
    """Return e^x for x <= 0, relative error below 2e-7: x = n ln 2 + r, and a polynomial for e^r."""
    x = torch.clamp(x, min=-87.0)
    n = torch.round(x * 1.44269504)
    r = x - n * 0.693359375
    r = r + n * 2.12194440e-4
    p = torch.full_like(x, 1.9875691500e-4)
    for coefficient in (1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1):
        p = p * r + coefficient
    p = p * r * r + r + 1.0
    return p * ((n.int() + 127) << 23).view(torch.float32)


def gelu(x: Tensor) -> Tensor:
    """Return GELU, with erf computed in fp64."""
    return 0.5 * x * (1.0 + torch.erf((x * 0.70710678).double()).float())


def gelu_tanh(x: Tensor) -> Tensor:
    """Return the tanh approximation of GELU: x / (1 + e^-u), computed from e^-|u|."""
    u = x * (x * x * 0.044715 + 1.0) * 1.5957691
    small = exponential(-u.abs())
    return x * torch.where(u < 0, small, torch.ones_like(small)) / (small + 1.0)


def silu(x: Tensor) -> Tensor:
    """Return x / (1 + e^-x), computed from e^-|x|."""
    small = exponential(-x.abs())
    return torch.where(x < 0, x * small, x) / (small + 1.0)


ACTIVATIONS = {"relu": torch.relu, "gelu": gelu, "gelu_tanh": gelu_tanh, "silu": silu}
