"""The twins of `int8_kernels.py`: what `chemspec.model.int8` says, on flat rows."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from triton_reference import attention_weights, embed, store_best, store_product, write_paths

from chemspec.model import int8
from chemspec.model.runners.triton.weights import Matrix, Norm


def linear(
    x: Tensor,
    matrix: Matrix,
    y: Tensor,
    *,
    norm: Norm | None = None,
    activation: str = "",
    add: bool = False,
    cache: Tensor | None = None,
    slots: Tensor | None = None,
) -> None:
    """See `kernels.linear`."""
    whole, scale = int8.quantise(x if norm is None else _normed(x, norm))
    assert matrix.scale is not None
    sums = (whole.double() @ matrix.parts[0].double().T).float()
    product = sums * scale * matrix.scale + matrix.bias
    if activation:
        product = product.relu() if activation == "relu" else int8.gelu(product)
    store_product(product, y, add=add, cache=cache, slots=slots)


def add_norm(x: Tensor, y: Tensor, *, parts: Tensor | None, bias: Tensor, norm: Norm | None) -> None:
    """See `int8_kernels.add_norm`."""
    y.copy_(x if norm is None else _normed(x, norm))


def attend(
    q: Tensor, cache: Tensor, starts: Tensor, counts: Tensor, y: Tensor, *, heads: int, table: Tensor | None = None
) -> None:
    """See `kernels.attend`."""
    for row, (start, count) in enumerate(zip(starts.tolist(), counts.tolist(), strict=True)):
        slots = torch.arange(start, start + count) if table is None else table[start, :count].long()
        keys, values = (one[slots].view(1, count, heads, -1).transpose(1, 2) for one in cache)  # (1, H, count, d)
        mask = torch.ones(1, 1, 1, count, dtype=torch.bool)
        y[row] = int8.attention(q[row].view(1, heads, 1, -1), keys, values, mask).flatten()


def best_tokens(logits: Tensor, ids: Tensor, log_probs: Tensor) -> None:
    """See `kernels.best_tokens`."""
    store_best(int8.log_softmax(logits), ids, log_probs)


def _normed(x: Tensor, norm: Norm) -> Tensor:
    layer = nn.LayerNorm(x.shape[1], norm.eps)
    layer.weight, layer.bias = nn.Parameter(norm.gain), nn.Parameter(norm.shift)
    normed: Tensor = int8.OrderedNorm(layer)(x)
    return normed


__all__ = ["add_norm", "attend", "attention_weights", "best_tokens", "embed", "linear", "write_paths"]
