"""Triton kernels of int8 inference, bitwise equal to `chemspec.model.int8`; see `tests/triton_int8_reference.py`.

Integer products are summed in int32, in any order. Everything else follows the order defined there, is rounded as IEEE
754 requires (`div_rn`, `sqrt_rn`) and is not fused into multiply-adds. So a GPU gives the same bits as the compiled CPU
kernel; only the logarithm and the erf, computed in fp64 and rounded, depend on a math library.

Shapes: see `kernels.py`.
"""

from __future__ import annotations

import math

import numpy as np
import triton
import triton.language as tl
from torch import Tensor

from chemspec.model.int8 import LANES
from chemspec.model.runners.triton.kernels import (
    ACTIVATIONS,
    COLUMNS,
    INNER,
    KEYS,
    ROWS,
    attention_weights,
    block_size,
    embed,
    key_slots,
    store_best,
    store_product,
    write_paths,
)
from chemspec.model.runners.triton.weights import Matrix, Norm


@triton.jit
def round_to_integer(x):
    """Round fp32 numbers below 2 ** 22 to integers, ties to even."""
    return (x + 12582912.0) - 12582912.0


@triton.jit
def fold_halves(x):
    """Add the second half of the last dimension (R, N) to the first until one number is left (R,); N is at most 16."""
    rows: tl.constexpr = x.shape[0]
    size: tl.constexpr = x.shape[1]
    if size > 8:
        x = tl.sum(tl.reshape(x, (rows, 2, 8)), axis=1)
    if size > 4:
        x = tl.sum(tl.reshape(x, (rows, 2, 4)), axis=1)
    if size > 2:
        x = tl.sum(tl.reshape(x, (rows, 2, 2)), axis=1)
    if size > 1:
        x = tl.sum(tl.reshape(x, (rows, 2, 1)), axis=1)
    return tl.reshape(x, (rows,))


@triton.jit
def exponential(x):
    """Return e^x for x <= 0, as `int8.exponential` does."""
    x = tl.maximum(x, -87.0)
    n = round_to_integer(x * 1.44269504)
    r = x - n * 0.693359375
    r = r + n * 2.12194440e-4
    p = r * 1.9875691500e-4 + 1.3981999507e-3
    p = p * r + 8.3334519073e-3
    p = p * r + 4.1665795894e-2
    p = p * r + 1.6666665459e-1
    p = p * r + 5.0000001201e-1
    p = p * r * r + r + 1.0
    return p * ((n.to(tl.int32) + 127) << 23).to(tl.float32, bitcast=True)


@triton.jit
def norm_statistics(x_row, valid, eps, WIDTH: tl.constexpr, BM: tl.constexpr, LANES: tl.constexpr):
    """Return mean and reciprocal standard deviation of the valid rows (BM, 1) at addresses (BM, 1)."""
    lane = tl.arange(0, LANES)[None, :]
    total = tl.zeros((BM, LANES), tl.float32)
    for start in range(0, WIDTH, LANES):
        total += tl.load(x_row + start + lane, mask=valid, other=0.0)
    mean = tl.div_rn(fold_halves(total), WIDTH * 1.0)
    total = tl.zeros((BM, LANES), tl.float32)
    for start in range(0, WIDTH, LANES):
        off = tl.load(x_row + start + lane, mask=valid, other=0.0) - mean[:, None]
        total += off * off
    variance = tl.div_rn(fold_halves(total), WIDTH * 1.0) + eps
    return mean, tl.div_rn(1.0, tl.sqrt_rn(variance))


@triton.jit
def load_normed(x_row, at, valid, mean, shrink, gain_at, shift_at, NORM: tl.constexpr):
    """Load columns of rows and apply the norm."""
    x = tl.load(x_row + at[None, :], mask=valid, other=0.0)
    if NORM:
        x = tl.load(shift_at + at)[None, :] + (x - mean[:, None]) * shrink[:, None] * tl.load(gain_at + at)[None, :]
    return x


@triton.jit(do_not_specialize=["rows", "spaces"], do_not_specialize_on_alignment=["slot_at"])
def int8_linear_kernel(
    x_at,
    weight_at,
    scale_at,
    bias_at,
    gain_at,
    shift_at,
    y_at,
    cache_at,
    slot_at,
    rows,
    columns,
    spaces,
    eps,
    INPUTS: tl.constexpr,
    NORM: tl.constexpr,
    ACTIVATION: tl.constexpr,
    ADD: tl.constexpr,
    FIRST: tl.constexpr,
    WIDTH: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    LANES: tl.constexpr,
):
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    column = tl.program_id(1) * BN + tl.arange(0, BN)
    column_in = column < columns
    inner = tl.arange(0, BK)
    x_row = x_at + row.to(tl.int64)[:, None] * INPUTS
    valid = (row < rows)[:, None]
    mean = tl.zeros((BM,), tl.float32)
    shrink = tl.zeros((BM,), tl.float32)
    if NORM:
        mean, shrink = norm_statistics(x_row, valid, eps, INPUTS, BM, LANES)
    largest = tl.zeros((BM,), tl.float32)
    for start in range(0, INPUTS, BK):
        x = load_normed(x_row, start + inner, valid, mean, shrink, gain_at, shift_at, NORM)
        largest = tl.maximum(largest, tl.max(tl.abs(x), axis=1))
    factor = tl.where(largest > 1e-30, tl.div_rn(127.0, tl.maximum(largest, 1e-30)), 0.0)
    total = tl.zeros((BM, BN), tl.int32)
    for start in range(0, INPUTS, BK):
        at = start + inner
        x = round_to_integer(load_normed(x_row, at, valid, mean, shrink, gain_at, shift_at, NORM) * factor[:, None])
        w = tl.load(weight_at + column[None, :] * INPUTS + at[:, None], mask=column_in[None, :], other=0)
        total = tl.dot(x.to(tl.int8), w, total, out_dtype=tl.int32)
    scale = tl.load(scale_at + column, mask=column_in, other=0.0)[None, :]
    y = total.to(tl.float32) * tl.div_rn(largest, 127.0)[:, None] * scale
    y += tl.load(bias_at + column, mask=column_in, other=0.0)[None, :]
    if ACTIVATION == 1:
        y = tl.where(y <= 0.0, 0.0, y)  # NaN stays NaN
    if ACTIVATION == 2:
        y = 0.5 * y * (1.0 + tl.erf((y * 0.70710678).to(tl.float64)).to(tl.float32))
    store_product(y, y_at, cache_at, slot_at, row, column, rows, columns, spaces, ADD, FIRST, WIDTH)


@triton.jit
def int8_add_norm_kernel(
    x_at,
    gain_at,
    shift_at,
    y_at,
    eps,
    NORM: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
    LANES: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64) + tl.arange(0, 1)
    column = tl.arange(0, BLOCK)
    inside = column < WIDTH
    x_row = x_at + row[:, None] * WIDTH
    x = tl.load(x_row + column[None, :], mask=inside[None, :], other=0.0)
    if NORM:
        mean, shrink = norm_statistics(x_row, (row >= 0)[:, None], eps, WIDTH, 1, LANES)
        gain = tl.load(gain_at + column, mask=inside, other=0.0)
        shift = tl.load(shift_at + column, mask=inside, other=0.0)
        x = shift[None, :] + (x - mean[:, None]) * shrink[:, None] * gain[None, :]
    tl.store(y_at + row[:, None] * WIDTH + column[None, :], x, mask=inside[None, :])


@triton.jit
def attention_scores(q_row, k_at, slot, valid, scale, WIDTH: tl.constexpr, HEAD: tl.constexpr, STEP: tl.constexpr):
    """Return the attention scores of one query for keys (N,), summing odd and even steps of features separately."""
    keys: tl.constexpr = slot.shape[0]
    inner = tl.arange(0, STEP)
    even = tl.zeros((keys, STEP), tl.float32)
    odd = tl.zeros((keys, STEP), tl.float32)
    for step in tl.static_range(HEAD // STEP):
        at = step * STEP + inner
        k = tl.load(k_at + slot[:, None] * WIDTH + at[None, :], mask=valid[:, None], other=0.0)
        product = tl.load(q_row + at)[None, :] * k
        if step % 2 == 0:
            even += product
        else:
            odd += product
    return fold_halves(even + odd) * scale


@triton.jit(do_not_specialize=["spaces", "depths"], do_not_specialize_on_alignment=["start_at", "count_at", "path_at"])
def int8_attend_kernel(
    q_at,
    cache_at,
    start_at,
    count_at,
    path_at,
    y_at,
    spaces,
    depths,
    scale,
    PATHS: tl.constexpr,
    WIDTH: tl.constexpr,
    HEAD: tl.constexpr,
    BLOCK: tl.constexpr,
    STEP: tl.constexpr,
    KEYS: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    first = tl.program_id(1) * HEAD
    key = tl.arange(0, KEYS)
    inner = tl.arange(0, BLOCK)
    inside = inner < HEAD
    q_row = q_at + row * WIDTH + first
    begin = tl.load(start_at + row).to(tl.int64)
    count = tl.load(count_at + row)
    highest = -float("inf")
    for start in range(0, count, KEYS):
        valid = start + key < count
        slot = key_slots(path_at, begin, depths, start + key, valid, PATHS)
        score = attention_scores(q_row, cache_at + first, slot, valid, scale, WIDTH, HEAD, STEP)
        highest = tl.maximum(highest, tl.max(tl.where(valid, score, -float("inf")), axis=0))
    weight = 0.0
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, count, KEYS):
        valid = start + key < count
        slot = key_slots(path_at, begin, depths, start + key, valid, PATHS)
        score = attention_scores(q_row, cache_at + first, slot, valid, scale, WIDTH, HEAD, STEP)
        prob = tl.where(valid, exponential(score - highest), 0.0)
        for index in range(tl.minimum(KEYS, count - start)):  # sum in the order of the keys
            key_prob = tl.sum(tl.where(key == index, prob, 0.0), axis=0)
            key_slot = tl.sum(tl.where(key == index, slot, 0), axis=0)
            v = tl.load(cache_at + spaces * WIDTH + key_slot * WIDTH + first + inner, mask=inside, other=0.0)
            weight += key_prob
            total += key_prob * v
    tl.store(y_at + row * WIDTH + first + inner, total * tl.div_rn(1.0, weight), mask=inside)


@triton.jit(do_not_specialize=["count"], do_not_specialize_on_alignment=["id_at", "log_prob_at"])
def int8_best_tokens_kernel(logit_at, id_at, log_prob_at, vocabulary, count, BLOCK: tl.constexpr, LANES: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    token = tl.arange(0, BLOCK)
    lane = tl.arange(0, LANES)[None, :]
    x = tl.load(logit_at + row * vocabulary + token, mask=token < vocabulary, other=-float("inf"))
    highest = tl.max(x, axis=0)
    total = tl.zeros((1, LANES), tl.float32)
    for start in range(0, vocabulary, LANES):
        at = start + lane
        logits = tl.load(logit_at + row * vocabulary + at, mask=at < vocabulary, other=-float("inf"))
        total += exponential(logits - highest)
    x = x - highest - tl.sum(tl.log(fold_halves(total).to(tl.float64)).to(tl.float32), axis=0)
    store_best(x, vocabulary, id_at, log_prob_at, row, count, BLOCK)


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
    """Quantise rows and multiply by an int8 matrix; arguments as in `kernels.linear`."""
    _, columns, inputs = matrix.parts.shape
    assert matrix.scale is not None
    norm_or_default = norm or Norm(matrix.bias, matrix.bias, 0.0)
    cache_or_x, slots_or_x = (x, x) if cache is None or slots is None else (cache, slots)
    width = 0 if cache is None else cache.shape[2]
    int8_linear_kernel[(triton.cdiv(len(x), ROWS), triton.cdiv(columns, COLUMNS))](
        x,
        matrix.parts,
        matrix.scale,
        matrix.bias,
        norm_or_default.gain,
        norm_or_default.shift,
        y,
        cache_or_x,
        slots_or_x,
        len(x),
        columns,
        cache_or_x.shape[1],
        norm_or_default.eps,
        inputs,
        norm is not None,
        ACTIVATIONS[activation],
        add,
        columns - 2 * width,
        width,
        ROWS,
        COLUMNS,
        INNER if inputs % INNER == 0 else 32,
        LANES,
        num_warps=4,
        num_stages=3,
        enable_fp_fusion=False,
    )


def add_norm(x: Tensor, y: Tensor, *, parts: Tensor | None, bias: Tensor, norm: Norm | None) -> None:
    """Apply the norm to x (R, D) and write it to y; sums are never sliced in int8, so there are no parts."""
    assert parts is None
    rows, width = x.shape
    norm_or_default = norm or Norm(bias, bias, 0.0)
    int8_add_norm_kernel[(rows,)](
        x,
        norm_or_default.gain,
        norm_or_default.shift,
        y,
        norm_or_default.eps,
        norm is not None,
        width,
        block_size(width),
        LANES,
        num_warps=1,
        enable_fp_fusion=False,
    )


def attend(
    q: Tensor, cache: Tensor, starts: Tensor, counts: Tensor, y: Tensor, *, heads: int, table: Tensor | None = None
) -> None:
    """Attend to keys and values; arguments as in `kernels.attend`."""
    rows, width = q.shape
    head = width // heads
    step = 1 if LANES % heads or head % (LANES // heads) else LANES // heads
    int8_attend_kernel[(rows, heads)](
        q,
        cache,
        starts,
        counts,
        starts if table is None else table,
        y,
        cache.shape[1],
        0 if table is None else table.shape[1],
        float(np.float32(1.0) / np.float32(math.sqrt(head))),
        table is not None,
        width,
        head,
        block_size(head),
        step,
        KEYS,
        num_warps=1,
        enable_fp_fusion=False,
    )


def best_tokens(logits: Tensor, ids: Tensor, log_probs: Tensor) -> None:
    """Write the best tokens of logits (R, V), ties by id, and their log-probs to (R, k) each."""
    rows, vocabulary = logits.shape
    int8_best_tokens_kernel[(rows,)](
        logits,
        ids,
        log_probs,
        vocabulary,
        ids.shape[1],
        block_size(vocabulary),
        LANES,
        num_warps=1 if vocabulary <= 512 else 4,
        enable_fp_fusion=False,
    )


__all__ = ["add_norm", "attend", "attention_weights", "best_tokens", "embed", "linear", "write_paths"]
