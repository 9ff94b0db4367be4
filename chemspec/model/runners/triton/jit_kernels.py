"""The Triton kernels; `kernels.py` launches them.

They are bitwise batch-invariant: tile sizes do not depend on the pass, sums have a fixed order, keys are read by
depth in blocks from the first on, and no two programs add to one number. Nor may a kernel be compiled differently for
another size or address of a pass, so arguments that differ between passes are not specialised.

Shapes: R rows (nodes, or source tokens), D width, H heads, d width of a head, K inputs and O outputs of a matrix,
P parts, V vocabulary, C slots of a cache.
"""

import triton
import triton.language as tl


@triton.jit
def truncate_bf16(x):
    """Truncate fp32 numbers to bf16: the first 8 significant bits."""
    return (x.to(tl.int32, bitcast=True) & -65536).to(tl.float32, bitcast=True)


@triton.jit
def round_bf16(x):
    """Round fp32 numbers to bf16, ties to even."""
    bits = x.to(tl.int32, bitcast=True)
    return ((bits + 32767 + ((bits >> 16) & 1)) & -65536).to(tl.float32, bitcast=True)


@triton.jit
def apply_activation(x, ACTIVATION: tl.constexpr):
    """Apply the activation of a feed-forward layer."""
    if ACTIVATION == 1:
        x = tl.where(x <= 0.0, 0.0, x)  # NaN stays NaN
    if ACTIVATION == 2:
        x = 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))
    if ACTIVATION == 3:  # (1 + tanh(z)) / 2 is 1 / (1 + exp(-2 z))
        x = x / (1.0 + tl.exp(-1.5957691216057308 * (x + 0.044715 * x * x * x)))
    return x


@triton.jit
def store_product(
    total,
    y_at,
    cache_at,
    slot_at,
    row,
    column,
    rows,
    columns,
    spaces,
    ADD: tl.constexpr,
    FIRST: tl.constexpr,
    WIDTH: tl.constexpr,
):
    """Store a tile of a matrix product in the output or the KV cache."""
    row_in, column_in = row < rows, column < columns
    inside = row_in[:, None] & column_in[None, :]
    if WIDTH:
        # Columns from FIRST on are keys and then values, which are stored in the KV cache, (2, C, D).
        slot = tl.load(slot_at + row, mask=row_in, other=0).to(tl.int64)
        behind = column - FIRST
        at = (behind // WIDTH).to(tl.int64)[None, :] * spaces * WIDTH + slot[:, None] * WIDTH
        tl.store(cache_at + at + (behind % WIDTH)[None, :], total, mask=inside & (column >= FIRST)[None, :])
        y = y_at + row.to(tl.int64)[:, None] * FIRST + column[None, :]
        tl.store(y, total, mask=inside & (column < FIRST)[None, :])
    else:
        y = y_at + row.to(tl.int64)[:, None] * columns + column[None, :]
        if ADD:
            total += tl.load(y, mask=inside, other=0.0)
        tl.store(y, total, mask=inside)


@triton.jit
def norm_of_rows(x_row, row_in, eps, INPUTS: tl.constexpr, NORM: tl.constexpr, BM: tl.constexpr, BK: tl.constexpr):
    """Return the mean of each row (zero without a layer norm) and the factor that normalises it."""
    inner = tl.arange(0, BK)
    mean = tl.zeros((BM,), tl.float32)
    scale = tl.zeros((BM,), tl.float32)
    if NORM == 1:
        for start in range(0, INPUTS, BK):
            mean += tl.sum(tl.load(x_row + (start + inner)[None, :], mask=row_in[:, None], other=0.0), axis=1)
        mean = mean / INPUTS
    if NORM:
        for start in range(0, INPUTS, BK):
            x = tl.load(x_row + (start + inner)[None, :], mask=row_in[:, None], other=0.0) - mean[:, None]
            scale += tl.sum(x * x, axis=1)
        scale = 1.0 / tl.sqrt_rn(scale / INPUTS + eps)
    return mean, scale


@triton.jit(do_not_specialize=["rows", "spaces"], do_not_specialize_on_alignment=["slot_at"])
def linear_kernel(
    x_at,
    weight_at,
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
    SLICED: tl.constexpr,
    PARTS: tl.constexpr,
    EXACT: tl.constexpr,
    NORM: tl.constexpr,
    ACTIVATION: tl.constexpr,
    ADD: tl.constexpr,
    FIRST: tl.constexpr,
    WIDTH: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
):
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    column = tl.program_id(1) * BN + tl.arange(0, BN)
    begin = tl.program_id(2) * SLICED
    row_in, column_in = row < rows, column < columns
    inner = tl.arange(0, BK)
    x_row = x_at + row.to(tl.int64)[:, None] * INPUTS
    mean, scale = norm_of_rows(x_row, row_in, eps, INPUTS, NORM, BM, BK)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, SLICED, BK):
        at = begin + start + inner
        x = tl.load(x_row + at[None, :], mask=row_in[:, None], other=0.0)
        if NORM:
            x = (x - mean[:, None]) * scale[:, None] * tl.load(gain_at + at)[None, :] + tl.load(shift_at + at)[None, :]
        if EXACT:
            high = truncate_bf16(x)
            middle = truncate_bf16(x - high)
            low = x - high - middle
        else:
            high = round_bf16(x)
        for part in tl.static_range(PARTS):
            offset = (PARTS - 1 - part) * columns * INPUTS  # smallest part first
            w = tl.load(weight_at + offset + column[None, :] * INPUTS + at[:, None], mask=column_in[None, :], other=0.0)
            if EXACT:
                total = tl.dot(low.to(w.dtype), w, total, input_precision="ieee")
                total = tl.dot(middle.to(w.dtype), w, total, input_precision="ieee")
            total = tl.dot(high.to(w.dtype), w, total, input_precision="ieee")
    if SLICED < INPUTS:
        y_at += tl.program_id(2).to(tl.int64) * rows * columns
    else:
        total += tl.load(bias_at + column, mask=column_in, other=0.0)[None, :]
    total = apply_activation(total, ACTIVATION)
    store_product(total, y_at, cache_at, slot_at, row, column, rows, columns, spaces, ADD, FIRST, WIDTH)


@triton.jit(do_not_specialize=["rows"])
def add_norm_kernel(
    x_at,
    part_at,
    bias_at,
    gain_at,
    shift_at,
    y_at,
    rows,
    eps,
    PARTS: tl.constexpr,
    NORM: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < WIDTH
    x = tl.load(x_at + row * WIDTH + column, mask=inside, other=0.0)
    if PARTS:
        added = tl.load(bias_at + column, mask=inside, other=0.0)
        for part in tl.static_range(PARTS):
            added += tl.load(part_at + (part * rows + row) * WIDTH + column, mask=inside, other=0.0)
        x += added
    if NORM:
        mean = tl.sum(x, axis=0) / WIDTH if NORM == 1 else 0.0
        centred = tl.where(inside, x - mean, 0.0)
        scale = 1.0 / tl.sqrt_rn(tl.sum(centred * centred, axis=0) / WIDTH + eps)
        gain = tl.load(gain_at + column, mask=inside, other=0.0)
        x = centred * scale * gain + tl.load(shift_at + column, mask=inside, other=0.0)
    tl.store(y_at + row * WIDTH + column, x, mask=inside)


@triton.jit(do_not_specialize_on_alignment=["token_at", "depth_at"])
def embed_kernel(token_at, depth_at, table_at, position_at, x_at, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < WIDTH
    token = tl.load(token_at + row).to(tl.int64)
    depth = tl.load(depth_at + row).to(tl.int64)
    text = tl.load(table_at + token * WIDTH + column, mask=inside, other=0.0)
    position = tl.load(position_at + depth * WIDTH + column, mask=inside, other=0.0)
    tl.store(x_at + row.to(tl.int64) * WIDTH + column, text + position, mask=inside)


@triton.jit(
    do_not_specialize=["depths"], do_not_specialize_on_alignment=["depth_at", "slot_at", "parent_at", "base_at"]
)
def write_paths_kernel(depth_at, slot_at, parent_at, base_at, path_at, depths, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    slot = tl.load(slot_at + row).to(tl.int64)
    depth = tl.load(depth_at + row)
    path = path_at + slot * depths
    # Ancestors among the new nodes one by one, since their paths may not be written yet.
    current = row
    last = row
    while current >= 0:
        tl.store(path + depth, tl.load(slot_at + current))
        last = current
        current = tl.load(parent_at + current)
        depth -= 1
    base = tl.load(base_at + last).to(tl.int64)
    if base >= 0:
        for start in range(0, depth + 1, BLOCK):
            at = start + tl.arange(0, BLOCK)
            tl.store(path + at, tl.load(path_at + base * depths + at, mask=at <= depth, other=0), mask=at <= depth)


@triton.jit
def gate_kernel(x_at, y_at, WIDTH: tl.constexpr, ACTIVATION: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < WIDTH
    x = tl.load(x_at + row * 2 * WIDTH + column, mask=inside, other=0.0)
    gate = tl.load(x_at + row * 2 * WIDTH + WIDTH + column, mask=inside, other=0.0)
    tl.store(y_at + row * WIDTH + column, apply_activation(x, ACTIVATION) * gate, mask=inside)


@triton.jit(
    do_not_specialize=["spaces", "depths"],
    do_not_specialize_on_alignment=["start_at", "count_at", "path_at", "query_position_at"],
)
def attend_kernel(
    q_at,
    cache_at,
    start_at,
    count_at,
    path_at,
    query_position_at,
    bias_at,
    y_at,
    spaces,
    depths,
    scale,
    FARTHEST: tl.constexpr,
    PATHS: tl.constexpr,
    WIDTH: tl.constexpr,
    HEAD: tl.constexpr,
    BLOCK: tl.constexpr,
    KEYS: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    inner = tl.arange(0, BLOCK)
    column = tl.program_id(1) * HEAD + inner
    inside = inner < HEAD
    q = tl.load(q_at + row * WIDTH + column, mask=inside, other=0.0) * scale
    begin = tl.load(start_at + row).to(tl.int64)
    count = tl.load(count_at + row)
    highest = -float("inf")
    weight = 0.0
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, count, KEYS):
        at = start + tl.arange(0, KEYS)
        valid = at < count
        if PATHS:  # along the row's path, else consecutive
            slot = tl.load(path_at + begin * depths + at, mask=valid, other=0).to(tl.int64)
        else:
            slot = begin + at
        offset = slot[:, None] * WIDTH + column[None, :]
        mask = valid[:, None] & inside[None, :]
        k = tl.load(cache_at + offset, mask=mask, other=0.0)
        v = tl.load(cache_at + spaces * WIDTH + offset, mask=mask, other=0.0)
        score = tl.sum(k * q[None, :], axis=1)
        if FARTHEST:
            distance = tl.minimum(tl.maximum(at - tl.load(query_position_at + row), -FARTHEST), FARTHEST) + FARTHEST
            score += tl.load(bias_at + distance * tl.num_programs(1) + tl.program_id(1))
        score = tl.where(valid, score, -float("inf"))
        higher = tl.maximum(highest, tl.max(score, axis=0))
        shrink = tl.exp(highest - higher)
        prob = tl.exp(score - higher)
        weight = weight * shrink + tl.sum(prob, axis=0)
        total = total * shrink + tl.sum(prob[:, None] * v, axis=0)
        highest = higher
    tl.store(y_at + row * WIDTH + column, total / weight, mask=inside)


@triton.jit(do_not_specialize=["count"], do_not_specialize_on_alignment=["id_at", "log_prob_at"])
def best_tokens_kernel(logit_at, id_at, log_prob_at, vocabulary, count, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    token = tl.arange(0, BLOCK)
    x = tl.load(logit_at + row * vocabulary + token, mask=token < vocabulary, other=-float("inf"))
    highest = tl.max(x, axis=0)
    x = x - highest - tl.log(tl.sum(tl.exp(x - highest), axis=0))
    left = token < vocabulary
    for rank in range(count):
        most = tl.max(tl.where(left, x, -float("inf")), axis=0)
        # Ties by lowest id.
        best = tl.min(tl.where(left & (x == most), token, BLOCK), axis=0)
        tl.store(id_at + row * count + rank, best)
        tl.store(log_prob_at + row * count + rank, most)
        left = left & (token != best)


__all__ = ["apply_activation", "round_bf16", "store_product", "truncate_bf16"]
