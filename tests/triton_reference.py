"""The kernels' twins in torch: what `kernels.py` computes, said plainly. For tests, and where there is no Triton."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from chemspec.model.runners.triton.weights import Matrix, Norm
from chemspec.model.transformer import ACTIVATIONS


def embed(tokens: Tensor, depths: Tensor, table: Tensor, positions: Tensor, x: Tensor) -> None:
    """See `kernels.embed`."""
    x.copy_(table[tokens.long()] + positions[depths.long()])


def write_paths(depths: Tensor, slots: Tensor, parents: Tensor, bases: Tensor, table: Tensor) -> None:
    """See `kernels.write_paths`."""
    for depth, slot, parent, base in zip(*(one.tolist() for one in (depths, slots, parents, bases)), strict=True):
        above = int(slots[parent]) if parent >= 0 else base
        if above >= 0:
            table[slot, :depth] = table[above, :depth]
        table[slot, depth] = slot


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
    if norm is not None:
        x = _normed(x, norm)
    x = x if matrix.exact else x.bfloat16().float()
    weight = matrix.parts.flip(0).sum(0, dtype=torch.float32)
    if matrix.slices > 1:
        pieces = zip(x.chunk(matrix.slices, 1), weight.chunk(matrix.slices, 1), strict=True)
        y.copy_(torch.stack([_product(some, own) for some, own in pieces]))
        return
    product = _product(x, weight) + matrix.bias
    product = ACTIVATIONS[activation](product) if activation else product
    store_product(product, y, add=add, cache=cache, slots=slots)


def store_product(product: Tensor, y: Tensor, *, add: bool, cache: Tensor | None, slots: Tensor | None) -> None:
    """Write a product (R, O) where `kernels.linear` does."""
    if cache is not None and slots is not None:
        first = y.shape[1] if product.shape[1] > 2 * cache.shape[2] else 0
        cache[:, slots.long()] = torch.stack(product[:, first:].chunk(2, 1))
        product = product[:, :first]
    if product.shape[1]:
        y.copy_(y + product if add else product)


def add_norm(x: Tensor, y: Tensor, *, parts: Tensor | None, bias: Tensor, norm: Norm | None) -> None:
    """See `kernels.add_norm`."""
    if parts is not None:
        added = bias.clone()
        for part in parts:
            added = added + part
        x = x + added
    y.copy_(x if norm is None else _normed(x, norm))


def gate(x: Tensor, y: Tensor, *, activation: str) -> None:
    """See `kernels.gate`."""
    inner, factor = x.chunk(2, 1)
    y.copy_(ACTIVATIONS[activation](inner) * factor)


def attend(
    q: Tensor,
    cache: Tensor,
    starts: Tensor,
    counts: Tensor,
    y: Tensor,
    *,
    heads: int,
    table: Tensor | None = None,
    positions: Tensor | None = None,
    bias: Tensor | None = None,
) -> None:
    """See `kernels.attend`."""
    for row, (start, count) in enumerate(zip(starts.tolist(), counts.tolist(), strict=True)):
        slots = torch.arange(start, start + count) if table is None else table[start, :count].long()
        keys, values = (one[slots].view(count, heads, -1) for one in cache)  # (count, H, d)
        own = q[row].view(heads, -1)
        scores = (own * own.shape[1] ** -0.5 * keys).sum(2)
        if positions is not None and bias is not None:
            farthest = len(bias) // 2
            scores = scores + bias[(torch.arange(count) - positions[row]).clamp(-farthest, farthest) + farthest]
        y[row] = (torch.softmax(scores, 0)[..., None] * values).sum(0).flatten()


def best_tokens(logits: Tensor, ids: Tensor, log_probs: Tensor) -> None:
    """See `kernels.best_tokens`."""
    store_best(torch.log_softmax(logits, 1), ids, log_probs)


def store_best(scores: Tensor, ids: Tensor, log_probs: Tensor) -> None:
    """Write the best of the log-probs (R, V) of all tokens, ties by lowest id, as `kernels.best_tokens` does."""
    ordered, order = torch.sort(scores, dim=1, descending=True, stable=True)
    ids.copy_(order[:, : ids.shape[1]])
    log_probs.copy_(ordered[:, : ids.shape[1]])


def _product(x: Tensor, weight: Tensor) -> Tensor:
    """Multiply row by row: each has the same bits in any company."""
    return torch.stack([weight @ row for row in x])


def _normed(x: Tensor, norm: Norm) -> Tensor:
    if norm.rms:
        return x * torch.rsqrt((x * x).mean(1, keepdim=True) + norm.eps) * norm.gain
    return functional.layer_norm(x, x.shape[1:], norm.gain, norm.shift, norm.eps)
