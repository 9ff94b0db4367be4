"""The encoder-decoder of Vaswani et al. (2017) in several variants; parameter names as in `torch.nn.Transformer`.

Without an encoder (`ModelConfig.decoder_only`) the decoder reads the source, then the answer, as one text: the memory
holds its keys and values of the source, and a node attends to them and to its ancestors in one softmax.

Dropout is off unless the training module sets it.

Shapes: B queries, S source tokens, T target tokens, N new nodes, C cached nodes, L decoder layers, H heads, d width of
a head, D = H * d, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional

from chemspec.model.weights import Array, Weights, computed_positions, rotations
from chemspec.settings import ModelConfig
from chemspec.tokenizer import PAD

IMPOSSIBLE = -1e4  # logit of tokens that a model cannot emit; finite in half precision too


def attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return softmax(q k' / sqrt(d) + bias) v over the keys where `mask` is true; q, k, v are (B, H, T, d)."""
    if q.is_cuda:
        if bias is not None:
            mask = bias.to(q.dtype).masked_fill(~mask, float("-inf"))
        return functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    # Written out: on a CPU torch's fused kernel spends twenty times longer on heads this narrow in bf16 (log.md).
    scores = torch.matmul(q * q.shape[-1] ** -0.5, k.transpose(-1, -2))
    if bias is not None:
        scores = scores + bias.to(scores.dtype)
    return torch.matmul(torch.softmax(scores.masked_fill(~mask, float("-inf")), dim=-1), v)


def attention_with_vectors(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, vectors: Tensor) -> Tensor:
    """Return the attention of Shaw et al. (2018): vectors (B or 1, T, keys, d) are added to the keys and the values."""
    q = q * q.shape[-1] ** -0.5
    scores = torch.matmul(q, k.transpose(-1, -2)) + torch.einsum(
        "bhtd,btkd->bhtk", q, vectors.expand(len(q), -1, -1, -1)
    )
    shares = torch.softmax(scores.masked_fill(~mask, float("-inf")), dim=-1)
    return torch.matmul(shares, v) + torch.einsum("bhtk,btkd->bhtd", shares, vectors.expand(len(q), -1, -1, -1))


def log_softmax(logits: Tensor) -> Tensor:
    """Return log-probs of logits (..., V), in fp32 at least."""
    return torch.log_softmax(logits if logits.dtype == torch.float64 else logits.float(), dim=-1)


def _build_norm(config: ModelConfig) -> nn.Module:
    kind = nn.RMSNorm if config.rms_norm else nn.LayerNorm
    return kind(config.d_model, eps=config.layer_norm_eps)


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": functional.relu,
    "gelu": functional.gelu,
    "gelu_tanh": partial(functional.gelu, approximate="tanh"),
    "silu": functional.silu,
}


class Attention(nn.Module):
    """Multi-head attention with the parameter names of `torch.nn.MultiheadAttention`; D of x may not be H * d."""

    vectors: Tensor

    def __init__(self, config: ModelConfig, *, relative_vectors: int = 0) -> None:
        super().__init__()
        if relative_vectors:
            self.vectors = nn.Parameter(torch.zeros(2 * relative_vectors + 1, config.inner_width // config.heads))
        width, inner = config.d_model, config.inner_width
        self.heads = config.heads
        self.in_proj_weight = nn.Parameter(torch.empty(3 * inner, width))
        self.in_proj_bias = nn.Parameter(torch.zeros(3 * inner))
        self.out_proj = nn.Linear(inner, width)
        nn.init.xavier_uniform_(self.in_proj_weight)
        nn.init.zeros_(self.out_proj.bias)

    def split(self, x: Tensor) -> Tensor:
        """Split (B, T, D) -> (B, H, T, d)."""
        return x.reshape(*x.shape[:2], self.heads, -1).transpose(1, 2)

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries, keys and values of self-attention; each (B, H, T, d)."""
        q, k, v = functional.linear(x, self.in_proj_weight, self.in_proj_bias).chunk(3, dim=-1)
        return self.split(q), self.split(k), self.split(v)

    def project_query(self, x: Tensor) -> Tensor:
        """Return queries (B, H, T, d) of x (B, T, D)."""
        inner = len(self.in_proj_bias) // 3
        return self.split(functional.linear(x, self.in_proj_weight[:inner], self.in_proj_bias[:inner]))

    def project_memory(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Return keys and values of the encoder's output, computed once per query; each (B, H, S, d)."""
        inner = len(self.in_proj_bias) // 3
        k, v = functional.linear(memory, self.in_proj_weight[inner:], self.in_proj_bias[inner:]).chunk(2, dim=-1)
        return self.split(k), self.split(v)

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor, bias: Tensor | None = None, distance: Tensor | None = None
    ) -> Tensor:
        """Attend, join the heads and project to (B, T, D).

        Queries are (B, H, T, d), keys and values (B, H, keys, d), the mask (B or 1, 1, T or 1, keys) bool; the bias
        (B or 1, H, T, keys) is added to the scores. Distances of keys from queries (B or 1, T, keys) choose vectors.
        """
        if distance is not None and hasattr(self, "vectors"):
            farthest = len(self.vectors) // 2
            vectors = self.vectors[distance.clamp(-farthest, farthest) + farthest]
            attended = attention_with_vectors(q, k, v, mask, vectors)
        else:
            attended = attention(q, k, v, mask, bias)
        joined: Tensor = self.out_proj(attended.transpose(1, 2).flatten(2))
        return joined


class Layer(nn.Module):
    """One layer of either stack; `cross` adds attention to the encoder's output."""

    def __init__(self, config: ModelConfig, *, cross: bool, dropout: float = 0.0) -> None:
        super().__init__()
        width = config.d_model
        self.norm_first = config.norm_first
        self.activation, self.gated = ACTIVATIONS[config.activation], config.gated
        self.dropout = dropout
        self.self_attn = Attention(config, relative_vectors=config.relative_vectors)
        self.linear1 = nn.Linear(width, (1 + config.gated) * config.feedforward)
        self.linear2 = nn.Linear(config.feedforward, width)
        self.norm1 = _build_norm(config)
        self.norm2 = _build_norm(config)
        if cross:
            self.multihead_attn = Attention(config)
            self.norm3 = _build_norm(config)

    def add(self, x: Tensor, y: Tensor, norm: Callable[[Tensor], Tensor]) -> Tensor:
        """Add the residual; in a post-norm model the norm comes after it."""
        if self.dropout:
            y = functional.dropout(y, self.dropout, self.training)
        return x + y if self.norm_first else norm(x + y)

    def before(self, x: Tensor, norm: Callable[[Tensor], Tensor]) -> Tensor:
        """Return the norm of x in a pre-norm model, x in a post-norm one."""
        return norm(x) if self.norm_first else x

    def cross(self, x: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> Tensor:
        """Apply the attention to the encoder's output and the feed-forward sub-layer of a decoder layer."""
        q = self.multihead_attn.project_query(self.before(x, self.norm2))
        x = self.add(x, self.multihead_attn.attend(q, keys, values, mask), self.norm2)
        return self.feed(x, self.norm3)

    def feed(self, x: Tensor, norm: Callable[[Tensor], Tensor]) -> Tensor:
        """Apply the feed-forward sub-layer."""
        inner = self.linear1(self.before(x, norm))
        if self.gated:
            inner, gate = inner.chunk(2, dim=-1)
            inner = self.activation(inner) * gate
        else:
            inner = self.activation(inner)
        return self.add(x, self.linear2(inner), norm)


class Stack(nn.Module):
    """Layers with optional norms before and after them, and optional relative position biases."""

    def __init__(self, config: ModelConfig, depth: int, *, cross: bool, dropout: float = 0.0) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer(config, cross=cross, dropout=dropout) for _ in range(depth))
        self.embedding_norm: nn.Module = _build_norm(config) if config.embedding_norm else nn.Identity()
        self.norm: nn.Module = _build_norm(config) if config.final_norms else nn.Identity()
        if config.relative_positions:
            self.distances = nn.Parameter(torch.zeros(2 * config.relative_positions + 1, config.heads))

    def biases(self, distance: Tensor) -> Tensor | None:
        """Return relative position biases (B, H, T, keys) for distances of keys from queries (B, T, keys).

        None in a model that has a table of positions. Keys before their query have negative distances.
        """
        if not hasattr(self, "distances"):
            return None
        farthest = len(self.distances) // 2
        return self.distances[distance.clamp(-farthest, farthest) + farthest].permute(0, 3, 1, 2)

    def __iter__(self) -> Iterator[Layer]:
        return iter(self.layers)  # type: ignore[arg-type]


def _build_embedding(config: ModelConfig) -> nn.Embedding:
    """Return a table of random embeddings (V, D); on the meta device, which has shapes only, an uninitialised one."""
    table = nn.Embedding(config.vocab_size, config.d_model, _weight=torch.empty(config.vocab_size, config.d_model))
    if not table.weight.is_meta:  # drawing random numbers there would import torch's compiler, which takes a second
        nn.init.normal_(table.weight)  # as nn.Embedding does, so that a seed gives the same weights as before
        nn.init.normal_(table.weight, std=config.d_model**-0.5)
    return table


class Transformer(nn.Module):
    """Encoder-decoder, source ids to next-token logits: `forward` for training, `encode` and `step` for decoding."""

    positions: Tensor
    target_positions: Tensor

    def __init__(self, config: ModelConfig, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.config = config
        self.log_softmax: Callable[[Tensor], Tensor] = log_softmax
        self.embedding = _build_embedding(config)
        if not config.shared_embedding:
            self.target_embedding = _build_embedding(config)
        if not config.decoder_only:
            self.encoder = Stack(config, config.encoder_layers, cross=False, dropout=dropout)
        self.decoder = Stack(config, config.decoder_layers, cross=not config.decoder_only, dropout=dropout)
        self.output = nn.Linear(config.d_model, config.vocab_size, bias=config.output_bias)
        if config.output_bias:
            nn.init.zeros_(self.output.bias)
        if config.tied_output:
            self.output.weight = self.target_table.weight
        table = torch.from_numpy(computed_positions(config)).to(self.embedding.weight)
        self.register_buffer("positions", table, persistent=config.stored_positions)
        if not config.shared_positions:
            self.register_buffer("target_positions", table.clone())
        self._rotations: dict[tuple[torch.device, torch.dtype], Tensor] = {}

    @classmethod
    def of(cls, weights: Weights) -> Transformer:
        """Build the network with these weights, in fp32 and evaluation mode."""
        model = cls(weights.config)
        model.load_state_dict({name: torch.from_numpy(array) for name, array in weights.tensors.items()}, strict=False)
        model.positions = torch.from_numpy(weights.positions)
        return model.eval().requires_grad_(False)

    @property
    def weights(self) -> Weights:
        """The weights as arrays in fp32, a copy."""
        state = {name: _to_numpy(tensor) for name, tensor in self.state_dict().items()}
        if self.config.tied_output:
            del state["output.weight"]
        return Weights(self.config, state, _to_numpy(self.positions))

    @property
    def target_table(self) -> nn.Embedding:
        """The embedding of target tokens."""
        return self.embedding if self.config.shared_embedding else self.target_embedding

    def embed(self, ids: Tensor, positions: Tensor, *, target: bool = False) -> Tensor:
        """Embed tokens and positions; both (..., T) -> (..., T, D)."""
        stack, table = (self.decoder, self.target_table) if target else (self.encoder, self.embedding)
        x: Tensor = table(ids)
        if self.config.scale_embedding:
            x = x * math.sqrt(self.config.d_model)
        position_table = self.target_positions if target and not self.config.shared_positions else self.positions
        embedded: Tensor = stack.embedding_norm(x + position_table[positions].to(x.dtype))
        return embedded

    def encode(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """Encode right-padded source ids (B, S) as memory (B, S, D) and source mask (B, 1, 1, S), false at padding.

        Without an encoder the memory is the decoder's keys and values of the source (B, L, 2, H, S, d).
        """
        source_mask = (source != PAD)[:, None, None, :]
        positions = torch.arange(source.shape[1], device=source.device)
        if self.config.decoder_only:
            return self._read_prompt(source, positions), source_mask
        x = self.embed(source, positions)
        distance = (positions - positions[:, None])[None]
        bias = self.encoder.biases(distance)
        for layer in self.encoder:
            q, k, v = layer.self_attn.project(layer.before(x, layer.norm1))
            x = layer.add(x, layer.self_attn.attend(q, k, v, source_mask, bias, distance), layer.norm1)
            x = layer.feed(x, layer.norm2)
        return self.encoder.norm(x), source_mask

    def _read_prompt(self, source: Tensor, positions: Tensor) -> Tensor:
        x = self.embed(source, positions, target=True)
        causal_mask = (positions[:, None] >= positions)[None, None]  # padding stands behind, so no token attends to it
        prompt_kv = []
        for layer in self.decoder:
            q, k, v = self._project(layer, x, positions[None])
            prompt_kv.append(torch.stack((k, v), dim=1))
            x = layer.feed(layer.add(x, layer.self_attn.attend(q, k, v, causal_mask), layer.norm1), layer.norm2)
        return torch.stack(prompt_kv, dim=1)

    def _project(self, layer: Layer, x: Tensor, positions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries, keys and values of a layer's self-attention (B, H, T, d), rotated by position (B or 1, T)."""
        q, k, v = layer.self_attn.project(layer.before(x, layer.norm1))
        return (self._rotate(q, positions), self._rotate(k, positions), v) if self.config.rotary_base else (q, k, v)

    def _rotate(self, features: Tensor, positions: Tensor) -> Tensor:
        left, right = features.chunk(2, dim=-1)
        kind = features.device, features.dtype  # no buffer: a cast of the model would round it
        if kind not in self._rotations:
            self._rotations[kind] = torch.from_numpy(rotations(self.config)).to(features)
        cosine, sine = self._rotations[kind][:, positions][:, :, None]  # (B or 1, 1, T, d / 2)
        return torch.cat((left * cosine - right * sine, right * cosine + left * sine), dim=-1)

    def _positions(self, depths: Tensor, source_mask: Tensor) -> Tensor:
        """Return the positions of nodes at these depths (T,) or (B, T): without an encoder they follow the source."""
        return depths + source_mask.sum(-1)[:, 0] if self.config.decoder_only else depths

    def scored(self, states: Tensor, depths: Tensor) -> Tensor:
        """Return logits (B, T, V) of the tokens that follow last hidden states at these depths (B or 1, T)."""
        logits: Tensor = self.output(states)
        if self.config.forced_first >= 0:  # a rule of the checkpoint
            # Created on the device: a copy from the host, as `= 0.0` makes, would stall it and cannot be captured in a
            # CUDA graph.
            forced = logits.new_full((self.config.vocab_size,), IMPOSSIBLE)
            forced[self.config.forced_first].zero_()
            logits = torch.where((depths == 0)[..., None], forced, logits)
        return logits

    def memory_cache(self, memory: Tensor) -> Tensor:
        """Return keys and values of the memory for every decoder layer (L, 2, B, H, S, d); computed once per query."""
        if self.config.decoder_only:
            return memory.permute(1, 2, 0, 3, 4, 5).contiguous()
        return torch.stack([torch.stack(layer.multihead_attn.project_memory(memory)) for layer in self.decoder])

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Return logits (B, T, V) of every next token of `target` (B, T), which starts with bos; both right-padded."""
        return self.decode(target, *self.encode(source))

    def decode(self, target: Tensor, memory: Tensor, source_mask: Tensor) -> Tensor:
        """Return logits (B, T, V) of every next token of `target`, given the output of `encode`, without a KV cache."""
        depths = torch.arange(target.shape[1], device=target.device)[None]
        return self.scored(self.states(target, memory, source_mask), depths)

    def states(self, target: Tensor, memory: Tensor, source_mask: Tensor) -> Tensor:
        """Return the last hidden states (B, T, D) of `target`, after the final norm: the input of the output layer."""
        depths = torch.arange(target.shape[1], device=target.device)
        causal_mask = (depths[:, None] >= depths)[None, None]  # (1, 1, T, T)
        positions = self._positions(depths, source_mask)
        x = self.embed(target, positions, target=True)
        distance = (depths - depths[:, None])[None]
        bias = self.decoder.biases(distance)
        for index, layer in enumerate(self.decoder):
            q, k, v = self._project(layer, x, positions)
            if self.config.decoder_only:
                prompt = memory[:, index].expand(len(target), -1, -1, -1, -1)
                x = self._continue(layer, x, (q, k, v), prompt.unbind(1), source_mask, causal_mask)
                continue
            x = layer.add(x, layer.self_attn.attend(q, k, v, causal_mask, bias, distance), layer.norm1)
            x = layer.cross(x, *layer.multihead_attn.project_memory(memory), source_mask)
        last: Tensor = self.decoder.norm(x)
        return last

    def _continue(
        self,
        layer: Layer,
        x: Tensor,
        projected: tuple[Tensor, Tensor, Tensor],
        prompt: Sequence[Tensor],
        source_mask: Tensor,
        mask: Tensor,
    ) -> Tensor:
        """Compute a layer without an encoder, in which nodes attend to the source and to other nodes in one softmax."""
        q, k, v = projected
        both = [part.expand(len(q), -1, q.shape[2], -1) for part in (source_mask, mask)]
        keys, values = torch.cat((prompt[0], k), dim=2), torch.cat((prompt[1], v), dim=2)
        attended = layer.self_attn.attend(q, keys, values, torch.cat(both, dim=-1))
        return layer.feed(layer.add(x, attended, layer.norm1), layer.norm2)

    def step(
        self,
        tokens: Tensor,
        depths: Tensor,
        attention_mask: Tensor,
        cache: Tensor,
        memory_cache: Tensor,
        source_mask: Tensor,
        states: list[Tensor] | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Return logits (B, N, V) of new nodes of the prefix trees, and their keys and values (L, 2, B, H, N, d).

        Tokens and depths are (B, N), the KV cache of the earlier nodes is (L, 2, B, H, C, d). The attention mask
        (B, 1, N, C + N) says which cached and new nodes each new node attends to. `memory_cache` and `source_mask` are
        from `memory_cache` and `encode`; the list `states` receives the last hidden states (B, N, D).
        """
        positions = self._positions(depths, source_mask)
        x = self.embed(tokens, positions, target=True)
        bias = distance = None
        if self.config.relative_positions or self.config.relative_vectors:
            # The attended nodes are the path from the root, so the number of later ones is the distance to a node.
            attended = attention_mask[:, 0]
            distance = 1 - attended.flip(-1).cumsum(-1).flip(-1)
            bias = self.decoder.biases(distance)
        new_kv = []
        for index, layer in enumerate(self.decoder):
            q, k, v = self._project(layer, x, positions)
            new_kv.append(torch.stack((k, v)))
            keys, values = (torch.cat((cache[index, 0], k), dim=2), torch.cat((cache[index, 1], v), dim=2))
            memory = memory_cache[index, 0], memory_cache[index, 1]
            if self.config.decoder_only:
                x = self._continue(layer, x, (q, keys, values), memory, source_mask, attention_mask)
                continue
            x = layer.add(x, layer.self_attn.attend(q, keys, values, attention_mask, bias, distance), layer.norm1)
            x = layer.cross(x, *memory, source_mask)
        last = self.decoder.norm(x)
        if states is not None:
            states.append(last)
        return self.scored(last, depths), torch.stack(new_kv)


def _to_numpy(tensor: Tensor) -> Array:
    return tensor.detach().to("cpu", torch.float32, copy=True).numpy()
