"""Train a model on packed batches, on a GPU by one CUDA graph per step: no padding, no masks, no time of the host.

    python assets/docs/recipes/packed_training.py --start MODEL --data FOLDER FOLDER --minutes 4.1 --out FOLDER

goes on from the weights of MODEL, a pre-norm model with one embedding, on all `--data` together: folders of `chemspec
data` with the model's vocabulary, or with one that extends it. `val.npz` of the last one is validated on. With
`--encoder-layers` the encoder gets further layers, which leave its function unchanged at first. The learning rate is
constant after a warm-up, for `--share` of the time, and then falls to zero along a cosine; so the result depends on the
machine. Writes `model/`, `log.csv` and `settings.json`.

`chemspec train` computes the same loss on padded batches of many shapes, and on an H100 waits for the host. Here the
sequences of a batch lie end to end in arrays of one shape, attention is computed within each (FlashAttention of
variable lengths, torch 2.11 or newer), and a whole step with its optimiser is recorded once and replayed. On a CPU it
trains in fp32, without graphs and slowly; tests/benchmarks/test_packed_training.py compares losses and steps.

Shapes: S source tokens and T target tokens of a batch, R sequences, H heads, d width of a head.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, dropout, layer_norm, linear, relu
from torch.utils.data import DataLoader, IterableDataset

from chemspec.data.arrays import Pairs
from chemspec.model import checkpoint
from chemspec.model.transformer import Attention, Layer, Stack, Transformer
from chemspec.tokenizer import BOS, EOS, Tokenizer
from chemspec.train.initial_weights import copy_initial_weights
from chemspec.train.optim import orthogonalise

LONGEST = 256  # tokens of a sequence, or of a filler
PATIENCE = 30  # pairs that wait for a next batch when one is closed
RESERVE = 8  # tokens of either side that are left to fillers: at least one for each
IGNORED = -100  # target of a filler
MOMENTUM = 0.95
CLIP = 1.0
WEIGHT_DECAY = 0.01


@dataclass(frozen=True)
class Shape:
    """Sizes of all batches."""

    sources: int = 40_448
    targets: int = 24_832
    sequences: int = 1024

    @classmethod
    def of(cls, parts: Sequence[Pairs]) -> Shape:
        """Return sizes in proportion to the tokens of some data, as many in all as by default."""
        sources = sum(len(pairs.sources.flat) for pairs in parts)
        targets = sum(len(pairs.targets.flat) + len(pairs) for pairs in parts)
        both = cls.sources + cls.targets
        share = round(both * sources / (sources + targets) / 128) * 128
        return cls(share, both - share)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Lengths of the parts of a batch, in their order; see `split`."""
        return self.sources, self.sources, self.targets, self.targets, self.targets, *(2 * [self.sequences + 1])

    def split(self, batch: Tensor) -> list[Tensor]:
        """Split a batch: source ids and positions (S,), inputs, next tokens and positions (T,), two (R + 1,) ends."""
        return list(batch.split(self.sizes))


def pack(pairs: Pairs, order: Iterable[int], shape: Shape) -> Iterator[list[int]]:
    """Cut an order of pairs into batches that fit a shape; a pair that does not fit waits for a later batch.

    Raises ValueError for sequences that no batch can hold.
    """
    lengths = np.stack((pairs.sources.lengths, pairs.targets.lengths + 1)).T
    if lengths.max() > min(LONGEST, shape.sources - RESERVE, shape.targets - RESERVE):
        raise ValueError(f"the data has a sequence of {lengths.max()} tokens, which is too long for these batches")
    sizes = lengths.tolist()
    most = shape.sequences - RESERVE - max(shape.sources, shape.targets) // LONGEST  # the rest are fillers
    batch: list[int] = []
    waiting: list[int] = []
    sources, targets = shape.sources - RESERVE, shape.targets - RESERVE

    def is_added(index: int) -> bool:
        nonlocal sources, targets
        source, target = sizes[index]
        if source > sources or target > targets or len(batch) == most:
            return False
        sources, targets = sources - source, targets - target
        batch.append(index)
        return True

    def begin_batch() -> None:
        nonlocal batch, waiting, sources, targets
        batch, sources, targets = [], shape.sources - RESERVE, shape.targets - RESERVE
        waiting = [index for index in waiting if not is_added(index)]

    for index in order:
        if not is_added(index):
            waiting.append(index)
        if len(waiting) == PATIENCE:
            yield batch
            begin_batch()
    while batch:
        yield batch
        begin_batch()


def build_batch(pairs: Pairs, indices: Sequence[int], shape: Shape) -> Tensor:
    """Lay the pairs end to end; the rest of the arrays are fillers: sequences with nothing to predict."""
    chosen = np.asarray(indices)
    picked = pairs.pick(chosen)
    lengths = [picked.sources.lengths, picked.targets.lengths + 1]
    left = [size - int(side.sum()) for size, side in zip((shape.sources, shape.targets), lengths, strict=True)]
    fillers = max(math.ceil(count / LONGEST) for count in left)
    filled = [np.diff(np.linspace(0, count, fillers + 1).astype(int)) for count in left]
    lengths = [np.concatenate(both) for both in zip(lengths, filled, strict=True)]
    ends = [np.zeros(shape.sequences + 1, dtype=np.int32) for _ in lengths]
    positions = []
    for side, end in zip(lengths, ends, strict=True):
        end[1 : len(side) + 1] = np.cumsum(side)
        end[len(side) + 1 :] = end[len(side)]
        positions.append(np.arange(end[-1]) - np.repeat(end[: len(side)], side))
    source = np.full(shape.sources, EOS, dtype=np.int32)
    source[: len(picked.sources.flat)] = picked.sources.flat
    inputs = np.full(shape.targets, BOS, dtype=np.int32)
    following = np.full(shape.targets, IGNORED, dtype=np.int32)
    real = int(ends[1][len(chosen)])
    first = positions[1][:real] == 0
    inputs[:real][~first] = picked.targets.flat
    last = np.zeros(real, dtype=bool)
    last[ends[1][1 : len(chosen) + 1] - 1] = True
    following[:real][last] = EOS
    following[:real][~last] = picked.targets.flat
    parts = (source, positions[0], inputs, following, positions[1], *ends)
    return torch.from_numpy(np.concatenate(parts).astype(np.int32))


class Batches(IterableDataset):  # type: ignore[type-arg]
    """An endless stream of packed batches: all pairs in a new random order every epoch, shared out among workers."""

    def __init__(self, parts: Sequence[Pairs], shape: Shape, seed: int) -> None:
        self.pairs = Pairs.join(parts)
        self.shape, self.seed = shape, seed

    def __iter__(self) -> Iterator[Tensor]:
        worker = torch.utils.data.get_worker_info()
        offset, step = (worker.id, worker.num_workers) if worker else (0, 1)
        orders = (np.random.default_rng((self.seed, epoch)).permutation(len(self.pairs)).tolist() for epoch in count())
        for number, indices in enumerate(pack(self.pairs, chain.from_iterable(orders), self.shape)):
            if number % step == offset:
                yield build_batch(self.pairs, indices, self.shape)


def attention(q: Tensor, k: Tensor, v: Tensor, ends_q: Tensor, ends_k: Tensor, *, causal: bool) -> Tensor:
    """Attend within each sequence; q (T, H, d), k and v (S, H, d), ends (R + 1,)."""
    if q.is_cuda:
        from torch.nn.attention.varlen import varlen_attn

        window = (-1, 0) if causal else (-1, -1)
        result: Tensor = varlen_attn(q, k, v, ends_q, ends_k, LONGEST, LONGEST, window_size=window)
        return result

    def owners(ends: Tensor, size: int) -> Tensor:
        return torch.searchsorted(ends[1:], torch.arange(size, device=ends.device), right=True)

    mask = owners(ends_q, len(q))[:, None] == owners(ends_k, len(k))
    if causal:
        mask = mask & torch.ones_like(mask).tril()
    scores = torch.einsum("thd,shd->hts", q, k) * q.shape[-1] ** -0.5
    weights = torch.softmax(scores.masked_fill(~mask, float("-inf")), dim=-1)
    return torch.einsum("hts,shd->thd", weights, v)


class PackedModel:
    """The forward pass of a `Transformer` on packed batches, with its parameters."""

    def __init__(self, model: Transformer, shape: Shape) -> None:
        config = model.config
        if not (config.norm_first and config.final_norms and config.shared_embedding and config.shared_positions):
            raise ValueError("only pre-norm models with one embedding can be trained packed")
        if config.gated or config.relative_positions or config.embedding_norm or config.activation != "relu":
            raise ValueError("only plain models can be trained packed")
        self.model, self.shape = model, shape
        self.dtype = torch.bfloat16 if model.embedding.weight.is_cuda else torch.float32
        self.dropout = 0.0

    def loss(self, batch: Tensor) -> tuple[Tensor, Tensor]:
        """Return the summed loss of a batch in nats, and its number of tokens to predict."""
        source, source_at, inputs, following, target_at, source_ends, target_ends = self.shape.split(batch)
        x = self._embed(source, source_at)
        for layer in self.model.encoder:
            q, k, v = self._project(layer.self_attn, self._norm(x, layer.norm1), 0, 3)
            x = self._add(x, self._join(layer.self_attn, attention(q, k, v, source_ends, source_ends, causal=False)))
            x = self._feed(layer, x, layer.norm2)
        memory = self._final_norm(self.model.encoder, x)
        x = self._embed(inputs, target_at)
        for layer in self.model.decoder:
            q, k, v = self._project(layer.self_attn, self._norm(x, layer.norm1), 0, 3)
            x = self._add(x, self._join(layer.self_attn, attention(q, k, v, target_ends, target_ends, causal=True)))
            (q,) = self._project(layer.multihead_attn, self._norm(x, layer.norm2), 0, 1)
            k, v = self._project(layer.multihead_attn, memory, 1, 3)
            found = attention(q, k, v, target_ends, source_ends, causal=False)
            x = self._feed(layer, self._add(x, self._join(layer.multihead_attn, found)), layer.norm3)
        logits = self._linear(self._final_norm(self.model.decoder, x), self.model.output)
        total = cross_entropy(logits.float(), following.long(), ignore_index=IGNORED, reduction="sum")
        return total, (following != IGNORED).sum()

    def _embed(self, ids: Tensor, positions: Tensor) -> Tensor:
        return self.model.embed(ids.long(), positions.long())

    def _norm(self, x: Tensor, norm: Any) -> Tensor:
        return layer_norm(x, norm.normalized_shape, norm.weight, norm.bias, norm.eps).to(self.dtype)

    def _final_norm(self, stack: Stack, x: Tensor) -> Tensor:
        return self._norm(x, stack.norm)

    def _linear(self, x: Tensor, module: Any) -> Tensor:
        return linear(x, module.weight.to(self.dtype), module.bias.to(self.dtype))

    def _project(self, attn: Attention, x: Tensor, start: int, stop: int) -> tuple[Tensor, ...]:
        """Return queries, keys and values from `start` to `stop`; each (T, H, d)."""
        width = len(attn.in_proj_bias) // 3
        weight, bias = (
            attn.in_proj_weight[start * width : stop * width],
            attn.in_proj_bias[start * width : stop * width],
        )
        projected = linear(x, weight.to(self.dtype), bias.to(self.dtype))
        return projected.view(len(x), stop - start, attn.heads, -1).unbind(1)

    def _join(self, attn: Attention, x: Tensor) -> Tensor:
        return self._linear(x.flatten(1), attn.out_proj)

    def _feed(self, layer: Layer, x: Tensor, norm: Any) -> Tensor:
        return self._add(x, self._linear(relu(self._linear(self._norm(x, norm), layer.linear1)), layer.linear2))

    def _add(self, x: Tensor, y: Tensor) -> Tensor:
        return x + (dropout(y, self.dropout) if self.dropout else y)


class Optimizer:
    """Muon and AdamW as `chemspec.train.optim`, with the learning rate on the device, to be recorded."""

    def __init__(self, model: Transformer) -> None:
        named = list(model.named_parameters())
        device = named[0][1].device
        self.lr = torch.zeros((), device=device)
        self.parameters = [p for _, p in named]
        self.shapes: dict[tuple[int, int], list[Tensor]] = {}
        for name, p in named:
            if p.ndim == 2 and "layers." in name:
                self.shapes.setdefault((min(p.shape), max(p.shape)), []).append(p)
        self.momenta = {key: [torch.zeros_like(p) for p in matrices] for key, matrices in self.shapes.items()}
        groups = [
            {"params": [p for _, p in named if p.ndim < 2], "weight_decay": 0.0},
            {"params": [p for name, p in named if p.ndim == 2 and "layers." not in name], "weight_decay": WEIGHT_DECAY},
        ]
        options = {"fused": True, "capturable": True} if device.type == "cuda" else {}
        self.adam = torch.optim.AdamW(groups, lr=self.lr, betas=(0.9, 0.98), eps=1e-9, **options)
        self.dtype = torch.bfloat16 if device.type == "cuda" else torch.float32

    @torch.no_grad()
    def step(self) -> None:
        """Clip the gradients and update all parameters."""
        torch.nn.utils.clip_grad_norm_(self.parameters, CLIP)
        self.adam.step()
        for (_, wide), matrices in self.shapes.items():
            momenta = self.momenta[min(matrices[0].shape), wide]
            gradients = [p.grad for p in matrices if p.grad is not None]
            torch._foreach_lerp_(momenta, gradients, 1 - MOMENTUM)
            steps = torch._foreach_lerp(gradients, momenta, MOMENTUM)
            wide_last = torch.stack([m if m.shape[0] <= m.shape[1] else m.T for m in steps])
            updates = orthogonalise(wide_last, self.dtype).float() * (-0.2 * wide**0.5 * self.lr)
            turned = [u if p.shape[0] <= p.shape[1] else u.T for p, u in zip(matrices, updates.unbind(), strict=True)]
            torch._foreach_mul_(matrices, 1 - self.lr * WEIGHT_DECAY)
            torch._foreach_add_(matrices, turned)


class Step:
    """A step of training; on a GPU recorded once and replayed."""

    def __init__(self, packed: PackedModel, optimizer: Optimizer) -> None:
        self.packed, self.optimizer = packed, optimizer
        self.batch = torch.zeros(sum(packed.shape.sizes), dtype=torch.int32, device=optimizer.lr.device)
        self.mean = torch.zeros((), device=optimizer.lr.device)  # loss of the last step, nats per token
        self.graph: Any = None

    def _compute(self) -> None:
        total, count = self.packed.loss(self.batch)
        loss = total / count
        loss.backward()
        self.optimizer.step()
        self.mean.copy_(loss.detach())

    def record(self, batch: Tensor) -> None:
        """Record the step on a GPU, after three steps on this batch."""
        if not self.batch.is_cuda:
            return
        self.batch.copy_(batch)
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self._zero()
                self._compute()
        torch.cuda.current_stream().wait_stream(stream)
        self._zero()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self._compute()

    def _zero(self) -> None:
        for p in self.optimizer.parameters:
            p.grad = None

    def __call__(self, batch: Tensor) -> None:
        self.batch.copy_(batch, non_blocking=True)
        if self.graph is not None:
            self.graph.replay()
        else:
            self._zero()
            self._compute()


@torch.no_grad()
def validation_loss(packed: PackedModel, batches: Sequence[Tensor]) -> float:
    """Return the mean loss in nats per token, without dropout."""
    share, packed.dropout = packed.dropout, 0.0
    totals, counts = zip(*(packed.loss(batch) for batch in batches), strict=True)
    packed.dropout = share
    return float(sum(totals) / sum(counts))


def load_batches(parts: Sequence[Pairs], shape: Shape, seed: int, workers: int) -> Iterator[Tensor]:
    """Return the batches of some data, made by other processes."""
    options = {"prefetch_factor": 16, "pin_memory": torch.cuda.is_available()} if workers else {}
    return iter(DataLoader(Batches(parts, shape, seed), batch_size=None, num_workers=workers, **options))


def train(arguments: argparse.Namespace) -> float:
    """Train by the arguments of the command line; returns the last validation loss."""
    began = time.monotonic()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    loaded, tokenizer = checkpoint.load(arguments.start), Tokenizer.load(arguments.data[-1] / "vocab.json")
    layers = arguments.encoder_layers or loaded.config.encoder_layers
    config = replace(loaded.config, encoder_layers=layers, vocab_size=len(tokenizer))
    model = Transformer(config)
    copy_initial_weights(model, arguments.start, tokenizer)
    model.to(device)
    parts = [Pairs.load(folder / "train.npz") for folder in arguments.data]
    shape = Shape.of(parts)
    packed, optimizer = PackedModel(model, shape), Optimizer(model)
    step = Step(packed, optimizer)
    held = Pairs.load(arguments.data[-1] / "val.npz")
    held_batches = [build_batch(held, batch, shape).to(device) for batch in pack(held, range(len(held)), shape)]
    batches = load_batches(parts, shape, arguments.seed, arguments.workers)
    print(f"start: validation loss {validation_loss(packed, held_batches):.5f}", flush=True)
    packed.dropout = arguments.dropout
    step.record(next(batches))
    print(f"ready after {time.monotonic() - began:.1f} s", flush=True)
    arguments.out.mkdir(parents=True, exist_ok=True)
    settings = {name: str(value) for name, value in vars(arguments).items()} | {"shape": shape.sizes}
    (arguments.out / "settings.json").write_text(json.dumps(settings, indent=1), encoding="utf-8")
    trained, limit = 0, arguments.minutes * 60
    with (arguments.out / "log.csv").open("w", encoding="utf-8", newline="") as file:
        log = csv.writer(file)
        log.writerow(("step", "seconds", "loss", "lr", "val_loss"))
        while (seconds := time.monotonic() - began) < limit:
            falling = max(0.0, (seconds / limit - arguments.share) / (1 - arguments.share))
            warm = min(1.0, (trained + 1) / arguments.warmup)
            optimizer.lr.fill_(rate := arguments.lr * warm * 0.5 * (1 + math.cos(math.pi * falling)))
            step(next(batches))
            trained += 1
            if trained % arguments.every:
                continue
            loss = float(step.mean)
            if not math.isfinite(loss):
                raise SystemExit(f"the loss is {loss} at step {trained}")
            held_loss = None if trained % (10 * arguments.every) else round(validation_loss(packed, held_batches), 5)
            log.writerow((trained, round(seconds, 1), f"{loss:.5f}", f"{rate:.3e}", held_loss))
            file.flush()
            if held_loss:
                print(f"step {trained} after {seconds:.0f} s: loss {loss:.4f}, validation {held_loss}", flush=True)
    final = validation_loss(packed, held_batches)
    plain = Transformer(config)
    plain.load_state_dict({name: tensor.cpu() for name, tensor in model.state_dict().items()})
    checkpoint.save(arguments.out / "model", plain, tokenizer, task=loaded.task)
    print(f"end: {trained} steps, validation loss {final:.5f}", flush=True)
    return final


def parse(given: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--start", type=Path, required=True, help="model folder to go on from")
    parser.add_argument("--data", type=Path, nargs="+", required=True, help="data folders; the last has val.npz")
    parser.add_argument("--out", type=Path, required=True, help="run folder")
    parser.add_argument("--encoder-layers", type=int, default=0, help="layers of the encoder; default: as the start")
    parser.add_argument("--minutes", type=float, default=4.1, help="duration of the run")
    parser.add_argument("--share", type=float, default=0.3, help="share of the time at the peak learning rate")
    parser.add_argument("--lr", type=float, default=1.2e-3, help="peak learning rate")
    parser.add_argument("--warmup", type=int, default=500, help="steps of warm-up")
    parser.add_argument("--dropout", type=float, default=0.1, help="dropout of every sub-layer")
    parser.add_argument("--seed", type=int, default=5, help="seed of the order of the data")
    parser.add_argument("--workers", type=int, default=10, help="processes that make batches")
    parser.add_argument("--every", type=int, default=100, help="steps between two lines of the log")
    return parser.parse_args(given)


if __name__ == "__main__":
    train(parse())
