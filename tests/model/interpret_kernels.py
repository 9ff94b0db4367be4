"""Compares the kernels, in Triton's interpreter, with their twins; run by `test_triton.py` in a process of its own."""

from __future__ import annotations

import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import triton_reference as reference
from chemspec.model.runners.triton import kernels
from chemspec.model.runners.triton.runner import TritonBackend
from chemspec.model.runners.triton.weights import Matrix, Norm, split_bf16
from test_session import VARIANTS
from tiny import tiny_model

from chemspec.model.session import Session
from chemspec.model.transformer import Transformer
from chemspec.tokenizer import BOS

torch.manual_seed(0)
torch.set_num_threads(1)
OPERATIONS = (kernels, reference)


def matrix(outputs: int, inputs: int, kind: torch.dtype = torch.bfloat16) -> Matrix:
    return Matrix(split_bf16(torch.randn(outputs, inputs).to(kind).float() * inputs**-0.5), torch.randn(outputs))


def norm(width: int, *, rms: bool = False) -> Norm:
    return Norm(torch.randn(width), torch.randn(width) * (not rms), 1e-5, rms)


def close(found: torch.Tensor, expected: torch.Tensor, within: float = 2e-6) -> None:
    """Within a few units of the last place: both sum in fp32, in other orders."""
    assert found.isfinite().all()
    assert float((found - expected).abs().max()) <= within * max(1.0, float(expected.abs().max()))


def linear() -> None:
    for rows, outputs, inputs, kind in (
        (3, 40, 64, torch.bfloat16),
        (17, 32, 32, torch.float16),
        (2, 33, 96, torch.float32),
    ):
        own, before, x = matrix(outputs, inputs, kind), norm(inputs), torch.randn(rows, inputs) * 3
        mean_square = norm(inputs, rms=True)
        cases = (("", False, before), ("relu", False, None), ("gelu", True, before), ("gelu_tanh", False, mean_square))
        for activation, add, normed in cases:
            start = torch.randn(rows, outputs)
            results = [start.clone() for _ in OPERATIONS]
            for operation, y in zip(OPERATIONS, results, strict=True):
                operation.linear(x, own, y, norm=normed, activation=activation, add=add)
            close(*results, within=4e-6)
    smoke()


def smoke() -> None:
    # fp32 products of numbers far apart: what one bf16 part alone would get wrong by a hundredth.
    own, x = matrix(32, 64), torch.randn(2, 64) * torch.logspace(-3, 3, 64)
    results = [torch.zeros(2, 32) for _ in OPERATIONS]
    for operation, y in zip(OPERATIONS, results, strict=True):
        operation.linear(x, own, y)
    close(*results)
    exactly = x.double() @ own.parts.double().sum(0).T + own.bias
    assert float((results[0] - exactly).abs().max()) <= 4e-7 * float(exactly.abs().max())
    halves = [torch.zeros(2, 32) for _ in OPERATIONS]
    for operation, y in zip(OPERATIONS, halves, strict=True):
        operation.linear(x, replace(own, exact=False), y)
    close(*halves)
    assert float((halves[0] - exactly).abs().max()) > 1e-4 * float(exactly.abs().max())
    # Keys and values go to the cache, and a long sum is cut.
    own, slots = matrix(96, 32), torch.tensor([5, 2, 7], dtype=torch.int32)
    kept = [(torch.zeros(3, 32), torch.zeros(2, 9, 32)) for _ in OPERATIONS]
    x = torch.randn(3, 32)
    for operation, (y, cache) in zip(OPERATIONS, kept, strict=True):
        operation.linear(x, own, y, cache=cache, slots=slots)
    close(kept[0][0], kept[1][0])
    close(kept[0][1], kept[1][1])
    assert kept[0][1][:, [5, 2, 7]].abs().min() > 0 and not kept[0][1][:, [0, 1, 3, 4, 6, 8]].any()
    long, wide = replace(matrix(32, 512), cut=True), torch.randn(2, 512)
    assert long.slices == 2
    pieces = [torch.zeros(2, 2, 32) for _ in OPERATIONS]
    for operation, y in zip(OPERATIONS, pieces, strict=True):
        operation.linear(wide, long, y)
    close(*pieces)
    settled = [torch.randn(2, 32) * 0 + 1 for _ in OPERATIONS]
    for operation, y in zip(OPERATIONS, settled, strict=True):
        operation.add_norm(y, y, parts=pieces[0], bias=long.bias, norm=None)
    close(*settled)
    attention(rows=2, heads=2, counts=(1, 40))


def attention(*, rows: int, heads: int, counts: tuple[int, ...]) -> None:
    width = 16 * heads
    q, cache = torch.randn(rows, width), torch.randn(2, 64, width)
    lengths = torch.tensor(counts, dtype=torch.int32)
    starts = torch.tensor([3 * row for row in range(rows)], dtype=torch.int32)
    table = torch.stack([torch.randperm(64)[:48] for _ in range(64)]).int()
    near = {"positions": lengths - 1, "bias": torch.randn(2 * 5 + 1, heads)}  # 5: less than the texts are long
    for own in (None, table):
        found = []
        for biased in ({}, near):
            results = [torch.zeros(rows, width) for _ in OPERATIONS]
            for operation, y in zip(OPERATIONS, results, strict=True):
                operation.attend(q, cache, starts, lengths, y, heads=heads, table=own, **biased)
            close(*results)
            found.append(results[0])
        assert max(counts) == 1 or not torch.equal(*found)


def attend() -> None:
    attention(rows=4, heads=4, counts=(1, 32, 33, 48))
    attention(rows=1, heads=1, counts=(7,))


def others() -> None:
    width, rows = 48, 5
    tokens, depths = (torch.randint(0, 9, (rows,), dtype=torch.int32) for _ in range(2))
    text, places = torch.randn(9, width), torch.randn(9, width)
    results = [torch.zeros(rows, width) for _ in OPERATIONS]
    for operation, y in zip(OPERATIONS, results, strict=True):
        operation.embed(tokens, depths, text, places, y)
    close(*results, within=0.0)

    # Two queries: a chain of three on an old path, a branch of it, and a root of its own with a child.
    old = torch.zeros(100, 128, dtype=torch.int32)
    old[9, :70] = torch.arange(20, 90)
    old[9, 70] = 9
    depth, slot = [71, 72, 73, 72, 0, 1], [4, 6, 5, 8, 2, 1]
    parent, base = [-1, 0, 1, 0, -1, 4], [9, -1, -1, -1, -1, -1]
    columns = [torch.tensor(one, dtype=torch.int32) for one in (depth, slot, parent, base)]
    tables = [old.clone() for _ in OPERATIONS]
    for operation, table in zip(OPERATIONS, tables, strict=True):
        operation.write_paths(*columns, table)
    assert torch.equal(*tables)
    assert tables[0][5, :74].tolist() == [*range(20, 90), 9, 4, 6, 5]
    assert tables[0][8, 70:73].tolist() == [9, 4, 8] and tables[0][1, :2].tolist() == [2, 1]

    x, parts, own = torch.randn(rows, width), torch.randn(3, rows, width), norm(width)
    for given in (None, parts):
        for normed in (None, own, norm(width, rms=True)):
            results = [torch.zeros(rows, width) for _ in OPERATIONS]
            for operation, y in zip(OPERATIONS, results, strict=True):
                operation.add_norm(x, y, parts=given, bias=own.shift, norm=normed)
            close(*results, within=4e-6)

    halves = torch.randn(rows, 2 * 1100)  # more than one block
    for activation in ("relu", "gelu_tanh"):
        results = [torch.zeros(rows, 1100) for _ in OPERATIONS]
        for operation, y in zip(OPERATIONS, results, strict=True):
            operation.gate(halves, y, activation=activation)
        close(*results)

    logits = torch.randn(4, 37)
    logits[0, [3, 30, 8]] = 4.0  # ties go to the lowest id
    logits[1] = 0.0
    found = [(torch.zeros(4, 6, dtype=torch.int32), torch.zeros(4, 6)) for _ in OPERATIONS]
    for operation, (ids, log_probs) in zip(OPERATIONS, found, strict=True):
        operation.best_tokens(logits, ids, log_probs)
    assert torch.equal(found[0][0], found[1][0])
    assert found[0][0][0, :3].tolist() == [3, 8, 30] and found[0][0][1].tolist() == [0, 1, 2, 3, 4, 5]
    close(found[0][1], found[1][1])


def company() -> None:
    """A row's bits do not depend on the rows beside it; on its place in a tile only as far as numpy's products do."""
    own, before, x = matrix(40, 64), norm(64), torch.randn(19, 64)
    together = torch.zeros(19, 40)
    kernels.linear(x, own, together, norm=before)
    for row in (0, 7, 16, 18):
        alone = torch.zeros(1, 40)
        kernels.linear(x[row : row + 1].clone(), own, alone, norm=before)
        if row % kernels.ROWS == 0:
            assert torch.equal(alone[0], together[row])
        close(alone[0], together[row], within=1e-6)
    q, cache = torch.randn(3, 32), torch.randn(2, 64, 32)
    starts, counts = torch.zeros(3, dtype=torch.int32), torch.tensor([40, 1, 33], dtype=torch.int32)
    everyone = torch.zeros(3, 32)
    kernels.attend(q, cache, starts, counts, everyone, heads=2)
    for row in range(3):
        single = torch.zeros(1, 32)
        kernels.attend(q[row : row + 1].clone(), cache, starts[:1], counts[row : row + 1].clone(), single, heads=2)
        assert torch.equal(single[0], everyone[row])


def session() -> None:
    """The whole runner on the kernels gives the scores of the runner on the twins, and the same bits with drafts."""
    for variant in ("pre", "bart", "t5"):
        shape = {"d_model": 32, "heads": 2, "feedforward": 32, "encoder_layers": 1, "decoder_layers": 1}
        wider = {"head_width": 32} if variant == "t5" else {}
        session_of(tiny_model(0, 12, **{**VARIANTS[variant], **shape, **wider}).float())


def session_of(model: Transformer) -> None:
    sources = [[4, 5, 6], [7, 8]]
    backends = [TritonBackend(model, torch.device("cpu"), operations=one) for one in OPERATIONS]
    found, expected = (Session(one, sources, top_k=12) for one in backends)
    asked = [[(BOS, 4, 5), (BOS, 4, 6)], [(BOS, 7)]]
    scored = found.score(asked)
    for ours, theirs in zip(scored, expected.score(asked), strict=True):
        for prefix in theirs:
            assert ours[prefix].ids == theirs[prefix].ids
            np.testing.assert_allclose(ours[prefix].log_probs, theirs[prefix].log_probs, rtol=0, atol=2e-5)
    alone = Session(backends[0], sources[:1], top_k=12)
    for end in (1, 2, 3):
        prefix = (BOS, 4, 5)[:end]
        assert alone.score([[prefix]])[0][prefix] == scored[0][prefix]


def engine() -> None:
    """An engine asked for `triton` gives the same answers, drafted or not, to the last bit."""
    from small import tiny_folder

    from chemspec.engine.engine import Engine

    shape: dict[str, Any] = {"d_model": 32, "heads": 2, "feedforward": 32, "encoder_layers": 1, "decoder_layers": 1}
    with tempfile.TemporaryDirectory() as made:
        folder = tiny_folder(Path(made) / "m", **shape)
        found = []
        for drafter in ("none", "copy"):
            own = Engine.load(folder, device="cpu", runtime="triton", threads=1)
            assert own.runtime == "triton"
            result = own.predict("CCO", decoder="greedy", max_len=5, drafter=drafter)
            assert result.trace.settings["exactness"] == "exact to the last bit"
            found.append([(one.tokens, one.token_log_probs) for one in result.hypotheses])
    assert found[0] and found[0] == found[1]


if __name__ == "__main__":
    globals()[sys.argv[1]]()
