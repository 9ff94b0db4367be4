"""The forward pass of a model on packed batches, with its optimiser: one CUDA graph a step, no time of the host.

A step on padded batches (`padded`) computes the same loss, in batches of many shapes, and on a GPU waits for the host.
Here attention is computed within each sequence (FlashAttention of variable lengths, torch 2.11 or newer), and a whole
step with its optimiser is recorded once and replayed. On a CPU it computes in fp32, without graphs and slowly.

Shapes: S source tokens and T target tokens of a batch, R sequences, H heads, d width of a head.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, dropout, layer_norm, linear, relu

from chemspec.model.transformer import Attention, Layer, Stack, Transformer
from chemspec.train.optim import MOMENTUM, by_shape, muon_step
from chemspec.train.packed_batches import IGNORED, MAX_TOKENS, Shape


def attention(q: Tensor, k: Tensor, v: Tensor, ends_q: Tensor, ends_k: Tensor, *, causal: bool) -> Tensor:
    """Attend within each sequence; q (T, H, d), k and v (S, H, d), ends (R + 1,)."""
    if q.is_cuda:
        from torch.nn.attention.varlen import varlen_attn

        window = (-1, 0) if causal else (-1, -1)
        result: Any = varlen_attn(q, k, v, ends_q, ends_k, MAX_TOKENS, MAX_TOKENS, window_size=window)
        return cast(Tensor, result)

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

    def __init__(self, model: Transformer, shape: Shape, residual: torch.dtype = torch.float32) -> None:
        """Compute a model on batches of a shape; `residual` is the precision of what the layers add to."""
        config = model.config
        if not (config.norm_first and config.final_norms and config.shared_embedding and config.shared_positions):
            raise ValueError("only pre-norm models with one embedding can be trained packed")
        if config.gated or config.relative_positions or config.embedding_norm or config.activation != "relu":
            raise ValueError("only plain models can be trained packed")
        self.model, self.shape = model, shape
        self.dtype = torch.bfloat16 if model.embedding.weight.is_cuda else torch.float32
        self.residual, self.dropout = residual, 0.0

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
            context = attention(q, k, v, target_ends, source_ends, causal=False)
            x = self._feed(layer, self._add(x, self._join(layer.multihead_attn, context)), layer.norm3)
        logits = self._linear(self._final_norm(self.model.decoder, x), self.model.output)
        total = cross_entropy(logits.float(), following.long(), ignore_index=IGNORED, reduction="sum")
        return total, (following != IGNORED).sum()

    def _embed(self, ids: Tensor, positions: Tensor) -> Tensor:
        return self.model.embed(ids.long(), positions.long()).to(self.residual)

    def _norm(self, x: Tensor, norm: Any) -> Tensor:
        return layer_norm(x.float(), norm.normalized_shape, norm.weight, norm.bias, norm.eps).to(self.dtype)

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
        return x + (dropout(y, self.dropout) if self.dropout else y).to(x.dtype)


class Optimizer:
    """Muon and AdamW as `chemspec.train.optim`, with the learning rate on the device, to be recorded."""

    def __init__(self, model: Transformer, weight_decay: float = 0.01, clip: float = 1.0) -> None:
        """Optimise a model; norms and biases have no weight decay, and the gradient's norm is clipped."""
        self.weight_decay, self.clip = weight_decay, clip
        named = list(model.named_parameters())
        device = named[0][1].device
        self.lr = torch.zeros((), device=device)
        self.parameters: list[Tensor] = [p for _, p in named]
        self.matrices = by_shape(p for name, p in named if p.ndim == 2 and "layers." in name)
        self.momenta = [[torch.zeros_like(p) for p in matrices] for matrices in self.matrices]
        groups = [
            {"params": [p for _, p in named if p.ndim < 2], "weight_decay": 0.0},
            {"params": [p for name, p in named if p.ndim == 2 and "layers." not in name], "weight_decay": weight_decay},
        ]
        options = {"fused": True, "capturable": True} if device.type == "cuda" else {}
        self.adam = torch.optim.AdamW(groups, lr=self.lr, betas=(0.9, 0.98), eps=1e-9, **options)
        self.dtype = torch.bfloat16 if device.type == "cuda" else torch.float32

    @torch.no_grad()
    def step(self) -> None:
        """Clip the gradients and update all parameters."""
        torch.nn.utils.clip_grad_norm_(self.parameters, self.clip)
        self.adam.step()
        for matrices, momenta in zip(self.matrices, self.momenta, strict=True):
            muon_step(matrices, momenta, self.lr, MOMENTUM, self.weight_decay, self.dtype)


ADAM = ("step", "exp_avg", "exp_avg_sq")


class Step:
    """A step of training; on a GPU recorded once and replayed."""

    def __init__(self, packed: PackedModel, optimizer: Optimizer, *, ema: float = 0.0, compiled: bool = False) -> None:
        """Train a model; `ema`: decay of a running mean of its weights; `compiled`: fuse the loss by torch.compile."""
        self.packed, self.optimizer, self.ema = packed, optimizer, ema
        self.loss = torch.compile(packed.loss, fullgraph=True) if compiled else packed.loss
        self.mean_weights = [p.detach().clone() for p in optimizer.parameters] if ema else []
        self.batch = torch.zeros(sum(packed.shape.sizes), dtype=torch.int32, device=optimizer.lr.device)
        self.mean = torch.zeros((), device=optimizer.lr.device)  # loss of the last step, nats per token
        self.graph: Any = None

    def _compute(self) -> None:
        total, count = self.loss(self.batch)
        loss = total / count
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        if self.mean_weights:
            with torch.no_grad():
                torch._foreach_lerp_(self.mean_weights, self.optimizer.parameters, 1 - self.ema)
        self.mean.copy_(loss.detach())

    def record(self, batch: Tensor) -> None:
        """Record the step on a GPU, after three steps on this batch."""
        if not self.batch.is_cuda:
            return
        self.batch.copy_(batch)
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
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

    def state(self) -> list[Tensor]:
        """Return all tensors that a step changes, in a fixed order; those of AdamW after the first step."""
        momenta = [m for matrices in self.optimizer.momenta for m in matrices]
        adam = [state[name] for state in self.optimizer.adam.state.values() for name in ADAM if name in state]
        return [*self.optimizer.parameters, *momenta, *self.mean_weights, *adam]

    def restore(self, tensors: Sequence[Tensor]) -> None:
        """Set the state to that of a stored run, in place, since a graph reads and writes these tensors."""
        if not self.optimizer.adam.state:  # the first step creates it
            self(self.batch)
        with torch.no_grad():
            for ours, stored in zip(self.state(), tensors, strict=True):
                ours.copy_(stored)

    def __call__(self, batch: Tensor) -> None:
        """Take a step on a batch."""
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
