"""Runner for encoder-decoders of Hugging Face transformers: their layers, with our prefix tree and KV cache.

`transformers` loads the model and runs its encoder. Its decoders, however, derive positions from the length of the KV
cache, which is wrong for a tree: here a node's position is its depth, and relative positions are counted along its
ancestors. So the decoder's projections, norms and feed-forward blocks are called one by one, with the mask and position
bias of the tree.

Ids: special tokens have arbitrary ids in a checkpoint, while chemspec's pad, bos, eos and unk are 0 to 3. `IdMap`
translates: nothing outside this module uses a checkpoint's ids. Equal log-probs are ordered by chemspec's ids.

Shapes: B queries, S source tokens, N new nodes, C cached slots, L layers, H heads, d width of a head, E width of the
model, V vocabulary of the checkpoint, W ids that the model can emit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from chemspec.model.runners.padded import Mask
from chemspec.model.runners.torch_runner import TorchRunner, best_tokens
from chemspec.model.session import Floats, Ints
from chemspec.settings import ModelDims
from chemspec.tokenizer import EOS, PAD, SPECIALS, UNK

FAMILIES = {"t5": "t5", "mt5": "t5", "bart": "bart", "mbart": "bart"}  # by config.model_type
MAX_POSITIONS = 1024  # of a model without a position table


@dataclass(frozen=True)
class IdMap:
    """Mapping between chemspec's token ids and those of a checkpoint.

    Bos is input only, as the token that the decoder starts with; if the model can emit that token too, it has another
    id. Pad and unk are input only, mapped to eos, if the checkpoint has no such token or shares it with another
    special token.

    Attributes:
        theirs: the checkpoint's id of each chemspec id, (V + virtual ids,).
        written: the chemspec ids that the model can emit, ascending (W,); the others are virtual.
    """

    theirs: tuple[int, ...]
    written: tuple[int, ...]

    @classmethod
    def of(cls, size: int, *, start: int, eos: int, pad: int | None, unk: int | None) -> IdMap:
        """Assign chemspec ids: special tokens first, the others in the checkpoint's order.

        Args:
            size: vocabulary size of the checkpoint.
            start: the checkpoint's id of the token that the decoder starts with.
            eos: its id of eos.
            pad: its id of padding, if it has one.
            unk: its id of the unknown token, if it has one.
        """
        special = {EOS: eos}
        for ours, theirs in ((PAD, pad), (UNK, unk)):
            if theirs is not None and theirs not in special.values():
                special[ours] = theirs
        first = [special.get(ours, eos) for ours in range(len(SPECIALS))]
        first[1] = start
        others = [token for token in range(size) if token not in special.values()]
        written = [*sorted(special), *range(len(SPECIALS), len(SPECIALS) + len(others))]
        return cls((*first, *others), tuple(written))

    @cached_property
    def ours(self) -> dict[int, int]:
        """The chemspec id of each id of the checkpoint."""
        return {self.theirs[token]: token for token in self.written}


class AttentionBlock:
    """Projections and norm of one attention block."""

    def __init__(self, module: Any, names: str, norm: Callable[[Tensor], Tensor]) -> None:
        self.query, self.key, self.value, self.out = (getattr(module, name) for name in names.split())
        self.norm = norm

    def project_kv(self, x: Tensor, heads: int) -> Tensor:
        """Return keys and values (2, B, H, N, d) of x (B, N, E)."""
        return torch.stack([_split_heads(self.key(x), heads), _split_heads(self.value(x), heads)])


@dataclass(frozen=True)
class Block:
    """One decoder layer."""

    self_attention: AttentionBlock
    cross: AttentionBlock
    feed: Callable[[Tensor], Tensor]
    feed_norm: Callable[[Tensor], Tensor]


class HfModel:
    """A T5- or BART-like model with a decoder step over trees.

    Attributes:
        config: dimensions of the model.
        numbers: mapping of token ids.
        around: ids of the checkpoint that come before and after every source.
        first: id of the checkpoint that every output must start with, if any.
    """

    def __init__(
        self,
        model: Any,
        numbers: IdMap,
        *,
        around: tuple[Sequence[int], Sequence[int]] = ((), ()),
        first: int | None = None,
    ) -> None:
        self.model, self.numbers, self.around, self.first = model, numbers, around, first
        config, self.family = model.config, FAMILIES[model.config.model_type]
        decoder = model.get_decoder()
        if self.family == "t5":
            self._read_t5(decoder, config)
        else:
            self._read_bart(decoder, config)
        specials = max(0, len(around[0]) + len(around[1]) - 2)  # the engine reserves two positions
        self.config = ModelDims(len(numbers.theirs), self.limit - specials, len(self.blocks), self.heads)

    def _read_t5(self, decoder: Any, config: Any) -> None:
        self.heads, self.scale, self.norm_first, self.limit = config.num_heads, 1.0, True, MAX_POSITIONS
        self.blocks = [
            Block(
                AttentionBlock(layer[0].SelfAttention, "q k v o", layer[0].layer_norm),
                AttentionBlock(layer[1].EncDecAttention, "q k v o", layer[1].layer_norm),
                layer[2].DenseReluDense,
                layer[2].layer_norm,
            )
            for layer in (block.layer for block in decoder.block)
        ]
        self.final = decoder.final_layer_norm
        # Only the first layer has a bias table, which all layers use.
        self.biases = decoder.block[0].layer[0].SelfAttention
        # v1.0 scales the input of its output layer, which is the embedding; v1.1 has an output layer of its own.
        # Releases of transformers before 5 tell the two apart by whether they are tied.
        tied = getattr(config, "tie_word_embeddings", True) and config.model_type == "t5"
        self.gain = config.d_model**-0.5 if getattr(config, "scale_decoder_outputs", tied) else 1.0

    def _read_bart(self, decoder: Any, config: Any) -> None:
        self.heads = config.decoder_attention_heads
        self.scale = (config.d_model // self.heads) ** -0.5
        self.norm_first = config.model_type == "mbart"
        self.limit = config.max_position_embeddings
        names = "q_proj k_proj v_proj out_proj"
        self.blocks = [
            Block(
                AttentionBlock(layer.self_attn, names, layer.self_attn_layer_norm),
                AttentionBlock(layer.encoder_attn, names, layer.encoder_attn_layer_norm),
                _feed_forward(layer),
                layer.final_layer_norm,
            )
            for layer in decoder.layers
        ]
        self.final = decoder.layer_norm if self.norm_first else nn.Identity()
        self.biases = None
        self.gain = 1.0

    def to(self, device: str, dtype: torch.dtype) -> None:
        """Move and cast the weights."""
        self.model.to(device=device, dtype=dtype)

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        device: torch.device = self.model.get_input_embeddings().weight.device
        return device

    def encode(self, sources: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
        """Return the encoder's output (B, S, E) and the source mask (B, 1, 1, S), for chemspec ids."""
        before, after = self.around
        theirs = self.numbers.theirs
        rows = [[*before, *(theirs[token] for token in source), *after] for source in sources]
        longest = max(1, *map(len, rows))
        padding = theirs[PAD]
        ids = torch.tensor([row + [padding] * (longest - len(row)) for row in rows], device=self.device)
        mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows], device=self.device)
        output = self.model.get_encoder()(input_ids=ids, attention_mask=mask)
        return output.last_hidden_state, mask.bool()[:, None, None, :]

    def memory_cache(self, memory: Tensor) -> Tensor:
        """Return keys and values of the cross-attention, (L, 2, B, H, S, d)."""
        return torch.stack([block.cross.project_kv(memory, self.heads) for block in self.blocks])

    def step(
        self, tokens: Tensor, depths: Tensor, attention_mask: Tensor, cache: Tensor, memory: Tensor, source_mask: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Run new nodes through the decoder.

        Args:
            tokens: (B, N) ids of the checkpoint.
            depths: (B, N) positions.
            attention_mask: (B, 1, N, C + N); slots and new nodes that each node attends to, parents before children.
            cache: KV cache, (L, 2, B, H, C, d).
            memory: output of `memory_cache`.
            source_mask: output of `encode`.

        Returns:
            Logits (B, N, V) of the checkpoint's ids, and the new nodes' keys and values (L, 2, B, H, N, d).
        """
        x = self._embed(tokens, depths)
        bias = torch.zeros(attention_mask.shape, dtype=x.dtype, device=x.device)
        bias = bias.masked_fill_(~attention_mask, -torch.inf)
        if self.biases is not None:
            bias = bias + self._position_bias(attention_mask[:, 0]).to(x.dtype)
        new_kv = []
        for layer, block in enumerate(self.blocks):

            def attend_tree(y: Tensor, block: Block = block, layer: int = layer) -> Tensor:
                new_kv.append(block.self_attention.project_kv(y, self.heads))
                kv = torch.cat([cache[layer], new_kv[-1]], dim=3)
                return self._attend(block.self_attention, y, kv, bias)

            def attend_source(y: Tensor, block: Block = block, layer: int = layer) -> Tensor:
                return self._attend(block.cross, y, memory[layer], source_mask)

            x = self._residual(x, block.self_attention.norm, attend_tree)
            x = self._residual(x, block.cross.norm, attend_source)
            x = self._residual(x, block.feed_norm, block.feed)
        logits = self.model.lm_head(self.final(x) * self.gain)
        logits_bias = getattr(self.model, "final_logits_bias", None)
        return logits if logits_bias is None else logits + logits_bias, torch.stack(new_kv)

    def _embed(self, tokens: Tensor, depths: Tensor) -> Tensor:
        decoder = self.model.get_decoder()
        x: Tensor = decoder.embed_tokens(tokens)  # scaled if the model does so
        if self.family == "bart":
            table = decoder.embed_positions
            x = decoder.layernorm_embedding(x + table.weight[depths + table.offset])
        return x

    def _position_bias(self, attended: Tensor) -> Tensor:
        """Return T5's position bias (B, H, N, C + N) for the attention mask `attended` (B, N, C + N)."""
        # The attended nodes are the path from the root, so the number of later ones is the distance to a node.
        relative_position = attended.flip(-1).cumsum(-1).flip(-1) - 1
        distance = torch.arange(MAX_POSITIONS + 1, device=attended.device)
        attention: Any = self.biases
        buckets = attention._relative_position_bucket(
            -distance,
            bidirectional=False,
            num_buckets=attention.relative_attention_num_buckets,
            max_distance=attention.relative_attention_max_distance,
        )
        table = attention.relative_attention_bias(buckets)  # (distances, H)
        bias: Tensor = table[relative_position.clamp(0, MAX_POSITIONS)].permute(0, 3, 1, 2)
        return bias

    def _attend(self, block: AttentionBlock, x: Tensor, kv: Tensor, mask: Tensor) -> Tensor:
        queries = _split_heads(block.query(x), self.heads)
        mixed = scaled_dot_product_attention(queries, kv[0], kv[1], attn_mask=mask, scale=self.scale)
        out: Tensor = block.out(mixed.transpose(1, 2).flatten(2))
        return out

    def _residual(self, x: Tensor, norm: Callable[[Tensor], Tensor], part: Callable[[Tensor], Tensor]) -> Tensor:
        return x + part(norm(x)) if self.norm_first else norm(x + part(x))


class HfBackend:
    """A model on a device; shared, immutable."""

    def __init__(self, model: HfModel) -> None:
        self.model = model
        self.device = model.device
        self._theirs = torch.tensor(model.numbers.theirs, device=self.device)
        self._written = torch.tensor(model.numbers.written, device=self.device)

    @torch.inference_mode()
    def open(self, sources: Sequence[Sequence[int]], *, top_k: int) -> HfRunner:
        """Encode the sources; see `session.Backend.open`."""
        memory, source_mask = self.model.encode(sources)
        top_k = min(top_k, len(self._written))
        return HfRunner(self, self.model.memory_cache(memory), source_mask, top_k)  # type: ignore[arg-type]

    def step(self, tokens: Tensor, depths: Tensor, *rest: Tensor) -> tuple[Tensor, Tensor]:
        """Run `HfModel.step` on chemspec ids: logits (B, N, W) of the ids that can be emitted."""
        model = self.model
        logits, new_kv = model.step(self._theirs[tokens], depths, *rest)
        if model.first is not None:
            # A rule of the checkpoint: this token comes first, with log-prob 0.
            forced = torch.full_like(logits[0, 0], -torch.inf)
            forced[model.first] = 0.0
            logits = torch.where((depths == 0)[..., None], forced, logits)
        return logits[..., self._theirs[self._written]], new_kv

    def to_ids(self, indices: Ints) -> Ints:
        """Return the chemspec ids at these indices among those that can be emitted."""
        return np.asarray(self.model.numbers.written, dtype=np.int64)[indices]


class HfRunner(TorchRunner):
    """KV cache of one session."""

    backend: HfBackend  # type: ignore[assignment]

    @torch.inference_mode()
    def run_padded(self, tokens: Ints, depths: Ints, attention_mask: Mask, slot_offsets: Ints) -> tuple[Ints, Floats]:
        """Compute new nodes; see `PaddedRunner.run_padded`."""
        used = attention_mask.shape[2] - tokens.shape[1]
        logits, new_kv = self.backend.step(
            self.to_device(tokens),
            self.to_device(depths),
            self.to_device(attention_mask)[:, None],
            self.cache[:, :, :, :, :used],
            self.memory,
            self.source_mask,
        )
        self.write_cache(new_kv, slot_offsets)
        indices, log_probs = best_tokens(logits, self.top_k)
        return self.backend.to_ids(indices), log_probs


def _split_heads(x: Tensor, heads: int) -> Tensor:
    """Reshape (B, N, H * d) to (B, H, N, d)."""
    return x.view(*x.shape[:2], heads, -1).transpose(1, 2)


def _feed_forward(layer: Any) -> Callable[[Tensor], Tensor]:
    return lambda x: layer.fc2(layer.activation_fn(layer.fc1(x)))
