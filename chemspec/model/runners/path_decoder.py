"""The decoder of a `Transformer` as few operations on a pool of pages, for GPUs, where each operation costs a launch.

A page holds the keys and values of one node in all layers. A node attends to the pages of its path, in the order of the
path, wherever they lie: the sums do not depend on what else is in the pool, so drafted and undrafted passes of one size
give the same bits, and evicting nodes moves nothing.

Biases of the linear layers whose output is added to the residual stream are part of their weights, so that product,
bias and addition are one operation: a further head, whose scores are all 0 and whose values are 1, attends to 1, and
a further unit of the feed-forward layer is constant.

Shapes: M nodes of the padded pass, in G groups of nodes of one query; B rows, each with a query's source; P nodes of a
path, S source tokens, L layers, H heads with the constant one, d width of a head, E = H * d, D model width, V
vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from chemspec.model.probe import UnsupportedError
from chemspec.model.transformer import ACTIVATIONS, Attention, Layer, Transformer

CONSTANT = 8  # units that are added to a feed-forward layer: one is constant, the others align the rest


class PassTensors(NamedTuple):
    """Inputs of a pass on the device."""

    pages: Tensor  # (M,) int64: where keys and values of the nodes go at the end of the pass
    embedded: Tensor  # (2 M,) int32: of each node the row of its token and that of its position in `table`
    depths: Tensor  # (M,) int32
    paths: Tensor  # (M P,) int32: pages of each node's path, itself also in the padding; new nodes follow the pages
    rows: Tensor  # (G,) int32: of each group, its query's


class Pool(NamedTuple):
    """Keys and values on the device."""

    pages: Tensor  # (L, pages, 3 E); queries lie there too, because one product gives all three
    fresh: Tensor  # (L, M, 3 E): the part of the pool that holds the nodes of this pass until its end
    whole: Tensor  # (L, pages and fresh, 3 E): both
    sources: Sources


class Sources(NamedTuple):
    """Cross-attention keys and values of the encoder's output, and biases, as one tensor and as views of it."""

    whole: Tensor  # (B, numbers of a source)
    memory: Tensor  # (B, L, 2, H, S, d)
    bias: Tensor  # (B, 1, 1, S): 0, and minus infinity at padding

    @classmethod
    def split(cls, whole: Tensor, shape: tuple[int, ...]) -> Sources:
        """Return the views of a tensor; the shape is that of a row's memory, (L, 2, H, S, d)."""
        rows, length = len(whole), shape[3]
        return cls(whole, whole[:, :-length].view(rows, *shape), whole[:, -length:].view(rows, 1, 1, length))

    @classmethod
    def empty(cls, rows: int, length: int, model: Transformer) -> Sources:
        """Return sources of one token with keys and values of the constant head alone."""
        config = model.config
        shape = config.decoder_layers, 2, config.heads + 1, length, config.inner_width // config.heads
        sources = cls.split(model.embedding.weight.new_zeros(rows, math.prod(shape) + length), shape)
        sources.memory[:, :, 1, -1, :, 0] = 1
        sources.bias[..., 1:] = -math.inf
        return sources

    def of_groups(self, rows: Tensor) -> Sources:
        """Return those of groups of nodes, in one operation."""
        return self.split(self.whole.index_select(0, rows), self.memory.shape[1:])


class _Linear(NamedTuple):
    weight: Tensor  # (in, out)
    bias: Tensor | None  # (out,); of those that are added to the residual stream part of the weight


class _PathLayer(NamedTuple):
    qkv: _Linear
    out: _Linear
    cross: _Linear
    cross_out: _Linear
    up: _Linear
    down: _Linear
    layer: Layer  # its norms


class PathDecoder:
    """Weights of a model's decoder, and its forward pass; raises UnsupportedError for what only torch computes."""

    def __init__(self, model: Transformer) -> None:
        config = model.config
        if config.decoder_only or config.relative_vectors:
            kind = "models without an encoder" if config.decoder_only else "relative positions with vectors"
            raise UnsupportedError(f"{kind} run in torch")
        self.model, self.device = model, model.embedding.weight.device
        self.width = config.inner_width // config.heads
        self.heads = config.heads + 1
        self.inner = self.heads * self.width
        self.activation = ACTIVATIONS[config.activation]
        tokens, positions = model.target_table.weight, model.positions
        tokens = tokens * math.sqrt(config.d_model) if config.scale_embedding else tokens
        positions = positions if config.shared_positions else model.target_positions
        self.table = torch.cat((tokens, positions.to(tokens.dtype)))
        self.layers = [self._arrange(layer) for layer in model.decoder]

    def path_biases(self, length: int) -> Tensor:
        """Return what is added to the scores of a path's nodes, by depth, (P, 1 or H, 1, P).

        Minus infinity in the padding; one bias for all heads, unless the model has relative positions.
        """
        depths = torch.arange(length, device=self.device)
        biases = self.model.decoder.biases((depths - depths[:, None])[None])  # (1, heads, P, P)
        if biases is None:
            biases = self.table.new_zeros(1, 1, length, length)
        else:
            biases = torch.cat((biases, torch.zeros_like(biases[:, :1])), dim=1)
        masked = biases.masked_fill(depths > depths[:, None], -math.inf)[0]
        return masked.transpose(0, 1)[:, :, None].contiguous()

    def step(
        self,
        inputs: PassTensors,
        starts: Tensor,
        biases: Tensor,
        pool: Pool,
        direct: bool,
        states: list[Tensor] | None = None,
    ) -> Tensor:
        """Return logits (M, V) of new nodes, whose keys and values are written to their pages.

        `starts` are the even numbers below 2 M, `biases` those of `path_biases`; `direct`: the groups are the rows; the
        list `states` receives the last hidden states (M, D).
        """
        sources = pool.sources if direct else pool.sources.of_groups(inputs.rows)
        # One operation: the sum of two rows of a table.
        x: Tensor = torch.embedding_bag(self.table, inputs.embedded, starts)[0]
        x = self.model.decoder.embedding_norm(x)
        bias = biases.index_select(0, inputs.depths)
        for number, each in enumerate(self.layers):
            x = self._attend_to_path(x, each, pool.whole[number], pool.fresh[number], inputs.paths, bias)
            x = self._attend_to_source(x, each, sources.memory[:, number], sources.bias)
            x = self._feed(x, each)
        pool.pages.index_copy_(1, inputs.pages, pool.fresh)
        last = self.model.decoder.norm(x)
        if states is not None:
            states.append(last)
        return self.model.scored(last, inputs.depths)

    def _attend_to_path(
        self, x: Tensor, each: _PathLayer, whole: Tensor, fresh: Tensor, paths: Tensor, bias: Tensor
    ) -> Tensor:
        layer = each.layer
        torch.addmm(each.qkv.bias, layer.before(x, layer.norm1), each.qkv.weight, out=fresh)  # type: ignore[arg-type]
        count, length = len(x), bias.shape[-1]
        keys_values = whole[:, self.inner :].index_select(0, paths).view(count, length, 2, self.heads, self.width)
        q = fresh[:, : self.inner].view(count, 1, self.heads, self.width)
        keys, values = keys_values.unbind(2)
        mask = bias.expand(count, self.heads, 1, length)
        attended = _attention(q, keys, values, mask)
        return self._add(x, attended.reshape(count, self.inner), each.out, layer, layer.norm1)

    def _attend_to_source(self, x: Tensor, each: _PathLayer, memory: Tensor, bias: Tensor) -> Tensor:
        layer, (count, groups) = each.layer, (len(x), len(bias))
        q = torch.addmm(each.cross.bias, layer.before(x, layer.norm2), each.cross.weight)  # type: ignore[arg-type]
        q = q.view(groups, count // groups, self.heads, self.width)
        mask = bias.expand(groups, self.heads, count // groups, bias.shape[-1])
        attended = _attention(q, memory[:, 0].transpose(1, 2), memory[:, 1].transpose(1, 2), mask)
        return self._add(x, attended.reshape(count, self.inner), each.cross_out, layer, layer.norm2)

    def _feed(self, x: Tensor, each: _PathLayer) -> Tensor:
        layer, up = each.layer, each.up
        normed = layer.before(x, layer.norm3)
        if layer.gated:
            inner, gate = torch.addmm(up.bias, normed, up.weight).chunk(2, dim=-1)  # type: ignore[arg-type]
            inner = self.activation(inner) * gate
        elif self.activation is functional.relu:
            inner = torch._addmm_activation(up.bias, normed, up.weight)  # type: ignore[arg-type]  # product and ReLU
        else:
            inner = self.activation(torch.addmm(up.bias, normed, up.weight))  # type: ignore[arg-type]
        return self._add(x, inner, each.down, layer, layer.norm3)

    def _add(self, x: Tensor, y: Tensor, linear: _Linear, layer: Layer, norm: Callable[[Tensor], Tensor]) -> Tensor:
        """Add a linear layer of y to the residual stream."""
        x = torch.addmm(x, y, linear.weight)
        return x if layer.norm_first else norm(x)

    def _arrange(self, layer: Layer) -> _PathLayer:
        qkv, out = self._with_constant_head(layer.self_attn)
        cross, cross_out = self._with_constant_head(layer.multihead_attn)
        query = _Linear(cross.weight[:, : self.inner].contiguous(), cross.bias[: self.inner])  # type: ignore[index]
        up, down = self._with_constant_unit(layer)
        return _PathLayer(qkv, out, query, cross_out, up, down, layer)

    def _with_constant_head(self, attention: Attention) -> tuple[_Linear, _Linear]:
        """Return the projections of an attention with one more head, whose values are 1, and that adds the bias."""
        weight = attention.in_proj_weight
        constant = weight.new_zeros(3, self.width)
        constant[2, 0] = 1
        biases = torch.cat((attention.in_proj_bias.view(3, -1), constant), dim=1)
        weights = weight.view(3, -1, weight.shape[1])
        weights = torch.cat((weights, weights.new_zeros(3, self.width, weight.shape[1])), dim=1)
        projected = attention.out_proj.weight  # (D, H d)
        out = torch.cat((projected, projected.new_zeros(len(projected), self.width)), dim=1)
        out[:, -self.width] = attention.out_proj.bias
        into = _Linear(weights.flatten(0, 1).t().contiguous(), biases.flatten())
        return into, _Linear(out.t().contiguous(), None)

    def _with_constant_unit(self, layer: Layer) -> tuple[_Linear, _Linear]:
        """Return the feed-forward layers with units that give 1, of which the first adds the bias, and the others 0."""
        up, down = layer.linear1, layer.linear2
        parts = up.weight.chunk(1 + layer.gated), up.bias.chunk(1 + layer.gated)
        added = up.weight.new_zeros(CONSTANT, up.weight.shape[1])
        weights = torch.cat([part for weight in parts[0] for part in (weight, added)])
        biases = torch.cat([part for bias in parts[1] for part in (bias, bias.new_ones(CONSTANT))])
        constant = down.weight.new_zeros(len(down.weight), CONSTANT)
        constant[:, 0] = down.bias / self.activation(down.bias.new_ones(1))
        out = torch.cat((down.weight, constant), dim=1)
        return _Linear(weights.t().contiguous(), biases), _Linear(out.t().contiguous(), None)


def _attention(q: Tensor, keys: Tensor, values: Tensor, bias: Tensor) -> Tensor:
    """Return softmax(q k' / sqrt(d) + bias) v as (B, T, H, d); q, k, v are (B, T, H, d), the bias (B, H, T, keys)."""
    q, keys, values = (each.transpose(1, 2) for each in (q, keys, values))
    return functional.scaled_dot_product_attention(q, keys, values, attn_mask=bias).transpose(1, 2)
