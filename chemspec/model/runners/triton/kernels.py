"""Launchers of the Triton kernels (`jit_kernels.py`), each with a reference of its name in `tests/triton_reference.py`.

Shapes: R rows (nodes, or source tokens), D width, H heads, d width of a head, K inputs and O outputs of a matrix,
V vocabulary, C slots of a cache.
"""

import triton
from torch import Tensor

from chemspec.model.runners.triton.jit_kernels import (
    add_norm_kernel,
    attend_kernel,
    best_tokens_kernel,
    embed_kernel,
    gate_kernel,
    linear_kernel,
    write_paths_kernel,
)
from chemspec.model.runners.triton.weights import Matrix, Norm

ROWS, COLUMNS, INNER = 16, 32, 64  # tile of a matrix product
KEYS = 32  # keys that attention reads at once
ACTIVATIONS = {"": 0, "relu": 1, "gelu": 2, "gelu_tanh": 3}


def block_size(size: int) -> int:
    """Round a size up to a power of two, at least 16."""
    return max(16, 1 << (size - 1).bit_length())


def norm_kind(norm: Norm | None) -> int:
    """Return the kernels' number of a norm: 0 none, 1 layer norm, 2 RMS norm."""
    return 0 if norm is None else 1 + norm.rms


def embed(tokens: Tensor, depths: Tensor, table: Tensor, positions: Tensor, x: Tensor) -> None:
    """Write embeddings of tokens (R,) at their depths to x (R, D)."""
    width = x.shape[1]
    embed_kernel[(len(tokens),)](
        tokens, depths, table, positions, x, width, block_size(width), num_warps=2, enable_fp_fusion=True
    )


def write_paths(depths: Tensor, slots: Tensor, parents: Tensor, bases: Tensor, table: Tensor) -> None:
    """Write the slots of each new node's ancestors and itself, by depth, to its row of the path table (C, depths).

    `parents` are rows of parents that are new too, `bases` slots of those that are cached; -1 for others; (R,) each.
    """
    write_paths_kernel[(len(slots),)](
        depths, slots, parents, bases, table, table.shape[1], 64, num_warps=1, enable_fp_fusion=True
    )


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
    """Write the product of x (R, K), after its norm, and a matrix to y (R, O), or add it to y.

    The activation of the product is "relu", "gelu", "gelu_tanh" or none. Of a sliced matrix, y is (slices, R, O), and
    the bias is left to `add_norm`. With a KV cache (2, C, D), the last 2 D columns, keys and values, are written to the
    rows' slots (R,) there, and the first ones to y.
    """
    _, columns, inputs = matrix.parts.shape
    rows, slices = len(x), matrix.slices
    inner = INNER if (inputs // slices) % INNER == 0 else 32
    norm_or_default = norm or Norm(matrix.bias, matrix.bias, 0.0)
    cache_or_x, slots_or_x = (x, x) if cache is None or slots is None else (cache, slots)
    width = 0 if cache is None else cache.shape[2]
    linear_kernel[(triton.cdiv(rows, ROWS), triton.cdiv(columns, COLUMNS), slices)](
        x,
        matrix.parts,
        matrix.bias,
        norm_or_default.gain,
        norm_or_default.shift,
        y,
        cache_or_x,
        slots_or_x,
        rows,
        columns,
        cache_or_x.shape[1],
        norm_or_default.eps,
        inputs,
        inputs // slices,
        len(matrix.parts),
        matrix.exact,
        norm_kind(norm),
        ACTIVATIONS[activation],
        add,
        columns - 2 * width,
        width,
        ROWS,
        COLUMNS,
        inner,
        num_warps=4,
        num_stages=3,
        enable_fp_fusion=True,
    )


def add_norm(x: Tensor, y: Tensor, *, parts: Tensor | None, bias: Tensor, norm: Norm | None) -> None:
    """Add the bias and the slices of a product (slices, R, D) to x (R, D), apply the norm and write the result to y."""
    rows, width = x.shape
    norm_or_default = norm or Norm(bias, bias, 0.0)
    add_norm_kernel[(rows,)](
        x,
        x if parts is None else parts,
        bias,
        norm_or_default.gain,
        norm_or_default.shift,
        y,
        rows,
        norm_or_default.eps,
        0 if parts is None else len(parts),
        norm_kind(norm),
        width,
        block_size(width),
        num_warps=2,
        enable_fp_fusion=True,
    )


def gate(x: Tensor, y: Tensor, *, activation: str) -> None:
    """Write activation(first half of x (R, 2 F)) times the second half to y (R, F)."""
    rows, width = y.shape
    gate_kernel[(rows, triton.cdiv(width, 1024))](
        x, y, width, ACTIVATIONS[activation], 1024, num_warps=4, enable_fp_fusion=True
    )


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
    """Write the attention of queries q (R, H * d) to keys and values of a KV cache (2, C, H * d) to y (R, H * d).

    A row has `counts` keys (R,) from slot `starts` (R,) on, or, with a path `table` (C, depths), in the slots that this
    row of the table lists. With relative position biases (2 F + 1, H), from the farthest key before to the farthest
    behind, `positions` (R,) are those of the rows among their keys.
    """
    rows, width = q.shape
    head = width // heads
    attend_kernel[(rows, heads)](
        q,
        cache,
        starts,
        counts,
        starts if table is None else table,
        starts if positions is None else positions,
        q if bias is None else bias,
        y,
        cache.shape[1],
        0 if table is None else table.shape[1],
        head**-0.5,
        0 if bias is None else len(bias) // 2,
        table is not None,
        width,
        head,
        block_size(head),
        KEYS,
        num_warps=1,
        enable_fp_fusion=True,
    )


def best_tokens(logits: Tensor, ids: Tensor, log_probs: Tensor) -> None:
    """Write the best tokens of logits (R, V), ties by id, and their log-probs to (R, k) each."""
    rows, vocabulary = logits.shape
    size = block_size(vocabulary)
    best_tokens_kernel[(rows,)](
        logits, ids, log_probs, vocabulary, ids.shape[1], size, num_warps=1 if size <= 512 else 4, enable_fp_fusion=True
    )
