"""The Spec-Drafter of Xia et al. (2023, section 3.1): an encoder-decoder that fills k masks after a prefix in one pass.

It is a `Transformer` whose vocabulary has one more token, the mask. Its encoder is deep and runs once a query; its
decoder is
shallow and runs once a pass. A mask at place p + i foretells the token of that very place (Eq. 5 to 7). Masks see the
whole prefix
and each other; a place of the prefix sees only what is left of it, as in the target. So the prefix's keys and values do
not depend on
the masks and are kept, like the encoder's output, for the whole decode; and in training one row holds several
prefixes of the same target at once, each with its own masks.

Shapes: B queries, T target tokens with bos, M prefixes of one target, k masks of a prefix, V vocabulary without the
mask.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from chemspec.model.runners.torch_runner import TorchBackend
from chemspec.model.session import Backend, FlatRunner, Ints, PrefixTree, Runner, Session
from chemspec.model.transformer import Layer, Transformer
from chemspec.settings import ModelConfig
from chemspec.tokenizer import BOS, PAD, UNK
from chemspec.types import Prefix


def drafter_config(target: ModelConfig, *, encoder: int, decoder: int, width: int = 0) -> ModelConfig:
    """The architecture of a drafter for a target.

    Args:
        encoder, decoder: layers; 12 + 2 in the paper, as many of each for its ablation of the Latency Principle.
        width: of the model, with the feed-forward layers four times as wide; 0 takes the target's widths. The paper
            halves it to ablate the Capability Principle.
    """
    chosen = replace(target, vocab_size=target.vocab_size + 1, encoder_layers=encoder, decoder_layers=decoder)
    return replace(chosen, d_model=width, feedforward=4 * width) if width else chosen


@torch.no_grad()
def begin_with(model: Transformer, target: Transformer) -> int:
    """Copy the target's tables, encoder and last decoder layers into a drafter of the same widths.

    Layers that the target lacks begin as the identity, so that the encoder computes at first what the target's does.

    Returns:
        How many layers of the encoder were copied; 0 where the widths differ, and then nothing is.
    """
    own, other = model.config, target.config
    shape = ("d_model", "heads", "feedforward", "norm_first", "final_norms", "shared_embedding", "tied_output")
    if any(getattr(own, name) != getattr(other, name) for name in shape):
        return 0
    vocab = other.vocab_size
    model.embedding.weight[:vocab] = target.embedding.weight
    model.embedding.weight[vocab:] = 0
    if not own.shared_embedding:
        model.target_embedding.weight[:vocab] = target.target_embedding.weight
    if not own.tied_output:
        model.output.weight[:vocab] = target.output.weight
    if model.output.bias is not None and target.output.bias is not None:
        model.output.bias[:vocab] = target.output.bias
        model.output.bias[vocab:] = -10.0
    copied = min(own.encoder_layers, other.encoder_layers)
    layers = list(model.encoder)
    for mine, theirs in zip(layers, target.encoder, strict=False):
        mine.load_state_dict(theirs.state_dict())
    for layer in layers[copied:] if own.norm_first else []:
        _make_identity(layer)
    for mine, theirs in zip(reversed(list(model.decoder)), reversed(list(target.decoder)), strict=False):
        mine.load_state_dict(theirs.state_dict())
    if own.final_norms:
        model.encoder.norm.load_state_dict(target.encoder.norm.state_dict())
        model.decoder.norm.load_state_dict(target.decoder.norm.state_dict())
    return copied


def _make_identity(layer: Layer) -> None:
    for linear in (layer.self_attn.out_proj, layer.linear2):
        torch.nn.init.zeros_(linear.weight)
        torch.nn.init.zeros_(linear.bias)


def fill(
    model: Transformer,
    memory: Tensor,
    real: Tensor,
    target: Tensor,
    starts: Tensor,
    length: int,
    shown: Tensor | None = None,
) -> Tensor:
    """Logits (B, M, k, V) of masks after several prefixes of every target, nothing cached.

    Args:
        memory, real: what `encode` returned.
        target: (B, T), bos first, right-padded.
        starts: (B, M) tokens of each prefix, bos included, at least 1.
        length: k.
        shown: (B, M, k) bool; masks that are replaced by the true token (glancing); none by default.
    """
    batch, width = target.shape
    blocks = starts.shape[1]
    vocab = model.config.vocab_size - 1
    places = starts[:, :, None] + torch.arange(length, device=target.device)  # (B, M, k)
    tokens = torch.full_like(places, vocab)
    if shown is not None:
        true = answers(target, places)
        tokens = torch.where(shown & (true != PAD), true, tokens)
    table = model.target_table
    prefix = model.embed(target, torch.arange(width, device=target.device), table)
    x = torch.cat((prefix, model.embed(tokens.flatten(1), places.flatten(1), table)), dim=1)
    sees = _sees(starts, width, length)
    layers = list(model.decoder)
    for layer in layers:
        normed = layer.before(x, layer.norm1)
        q, k, v = layer.self_attn.project(normed)
        if layer is layers[-1]:  # of the prefix, its last layer's keys and values are all that is wanted
            q, x, sees = q[:, :, width:], x[:, width:], sees[:, :, width:]
        x = layer.add(x, layer.self_attn.attend(q, k, v, sees), layer.norm1)
        q = layer.multihead_attn.project_query(layer.before(x, layer.norm2))
        k, v = layer.multihead_attn.project_memory(memory)
        x = layer.add(x, layer.multihead_attn.attend(q, k, v, real), layer.norm2)
        x = layer.feed(x, layer.norm3)
    logits: Tensor = model.output(model.decoder.norm(x))[..., :vocab]
    return logits.reshape(batch, blocks, length, vocab)


def answers(target: Tensor, places: Tensor) -> Tensor:
    """The tokens of `target` (B, T) at `places` (B, M, k); pad beyond its end."""
    inside = places.clamp(max=target.shape[1] - 1).flatten(1)
    found = target.gather(1, inside).reshape(places.shape)
    return torch.where(places < target.shape[1], found, PAD)


def _sees(starts: Tensor, width: int, length: int) -> Tensor:
    """(B, 1, T + M k, T + M k): the prefix sees its left, a mask its own prefix and the masks of its block."""
    batch, blocks = starts.shape
    device = starts.device
    block = torch.arange(blocks, device=device).repeat_interleave(length)  # of each mask
    columns = torch.arange(width, device=device)
    sees = torch.zeros(batch, width + len(block), width + len(block), dtype=torch.bool, device=device)
    sees[:, :width, :width] = columns[:, None] >= columns
    sees[:, width:, :width] = columns < starts[:, block, None]
    sees[:, width:, width:] = block[:, None] == block
    return sees[:, None]


class Filled(NamedTuple):
    """What came out of the masks after one prefix: the likeliest token of each and its log-prob."""

    tokens: list[int]
    log_probs: list[float]


class Filler:
    """One run of a drafter: fills masks for many queries and prefixes in one pass; each query is encoded once.

    Attributes:
        passes: model calls so far, without the encoder's.
    """

    def __init__(self, model: Transformer, length: int, backend: Backend | None = None) -> None:
        """Fill `length` masks at once.

        Args:
            backend: what computes the model; torch by default.
        """
        self.backend, self.config = backend or TorchBackend(model), model.config
        self.length = length
        self.passes = 0
        self._groups: list[_Group] = []

    def fill(self, asked: Sequence[tuple[Sequence[int], Prefix]]) -> list[Filled]:
        """Fill the masks after every prefix; in one call, unless queries come that were not there before."""
        wanted: dict[tuple[int, ...], list[Prefix]] = {}
        for source, prefix in asked:
            own = wanted.setdefault(tuple(source), [])
            if prefix not in own:
                own.append(prefix)
        # Every query in flight asks in every pass: those that do not are done.
        self._groups = [group for group in self._groups if group.keep(wanted)]
        known = {source for group in self._groups for source in group.rows}
        if fresh := [source for source in wanted if source not in known]:
            self._groups.append(_Group(self.backend, self.config, fresh, self.length))
        found: dict[tuple[tuple[int, ...], Prefix], Filled] = {}
        for group in self._groups:
            found.update(group.fill(wanted))
            self.passes += 1
        return [found[tuple(source), prefix] for source, prefix in asked]


class _Group:
    """Queries encoded together; of each, the tree of the prefixes run so far."""

    ALIVE = 0.75  # as in Session
    SLACK = 48
    BEST = 5  # the best token may be one of four that are never drafted

    def __init__(self, backend: Backend, config: ModelConfig, sources: list[tuple[int, ...]], length: int) -> None:
        self.runner: Runner | FlatRunner = backend.open(sources, top_k=self.BEST)
        self.mask = config.vocab_size - 1
        self.never = np.zeros(config.vocab_size, dtype=np.bool_)
        self.never[[PAD, BOS, UNK, self.mask]] = True
        self.last = config.max_positions - 1
        self.length = length
        self.rows = {source: row for row, source in enumerate(sources)}
        self.width = len(sources)
        self.trees = {source: PrefixTree(masks=not self.runner.flat) for source in sources}

    def keep(self, wanted: dict[tuple[int, ...], list[Prefix]]) -> bool:
        """Forget the queries that are not wanted; says whether any is left."""
        for source in [source for source in self.rows if source not in wanted]:
            if self.runner.flat:
                self.runner.forget(self.rows[source])
            del self.rows[source], self.trees[source]
        if not self.runner.flat and self.rows and len(self.rows) <= self.ALIVE * self.width:
            self.runner.keep_queries(list(self.rows.values()))
            self.rows = {source: row for row, source in enumerate(self.rows)}
            self.width = len(self.rows)
        return bool(self.rows)

    def fill(self, wanted: dict[tuple[int, ...], list[Prefix]]) -> dict[tuple[tuple[int, ...], Prefix], Filled]:
        found = self._fill_flat(wanted) if self.runner.flat else self._fill_padded(wanted)
        for source, row in self.rows.items():
            self._clear(source, row, wanted[source])
        return found

    def _fill_flat(self, wanted: dict[tuple[int, ...], list[Prefix]]) -> dict[tuple[tuple[int, ...], Prefix], Filled]:
        runner, k = self.runner, self.length
        assert runner.flat
        rows: list[int] = []
        tokens: list[int] = []
        depths: list[int] = []
        parents: list[int] = []
        blocks: list[int] = []
        asked: list[tuple[int, tuple[int, ...], Prefix]] = []  # and where the masks begin
        for source, row in self.rows.items():
            tree, new = self.trees[source], self._missing(source, wanted[source])
            tree.add(new)
            tokens += [prefix[-1] for prefix in new]
            depths += [len(prefix) - 1 for prefix in new]
            parents += [tree.slots.get(prefix[:-1], -1) for prefix in new]
            blocks += [-1] * len(new)
            for prefix in wanted[source]:
                blocks += [len(asked)] * k
                asked.append((len(tokens), source, prefix))
                tokens += [self.mask] * k
                depths += [min(len(prefix) + i, self.last) for i in range(k)]
                parents += [tree.slots[prefix]] * k
            rows += [row] * (len(tokens) - len(rows))
        ids, log_probs = self._allowed(*runner.run_nodes(rows, tokens, depths, parents, blocks))
        return {
            (source, prefix): Filled(ids[at : at + k].tolist(), log_probs[at : at + k].tolist())
            for at, source, prefix in asked
        }

    def _fill_padded(self, wanted: dict[tuple[int, ...], list[Prefix]]) -> dict[tuple[tuple[int, ...], Prefix], Filled]:
        runner, k = self.runner, self.length
        assert not runner.flat
        fresh = {source: self._missing(source, wanted[source]) for source in self.rows}
        masks = {source: len(wanted[source]) * k for source in self.rows}
        width = max(len(fresh[source]) + masks[source] for source in self.rows)
        starts = np.zeros(self.width, dtype=np.int64)
        for source, row in self.rows.items():
            starts[row] = len(self.trees[source].slots)
        used = int(starts.max())
        tokens = np.zeros((self.width, width), dtype=np.int64)
        depths = np.zeros((self.width, width), dtype=np.int64)
        sees = np.zeros((self.width, width, used + width), dtype=np.bool_)
        sees[:, np.arange(width), used + np.arange(width)] = True
        for source, row in self.rows.items():
            tree, new = self.trees[source], fresh[source]
            start, count = tree.add(new), len(new)
            tokens[row, :count] = [prefix[-1] for prefix in new]
            depths[row, :count] = [len(prefix) - 1 for prefix in new]
            masks_of = tree.sees
            assert masks_of is not None
            own = masks_of[start : start + count]
            sees[row, :count, :start] = own[:, :start]
            sees[row, :count, used : used + count] = own[:, start : start + count]
            for number, prefix in enumerate(wanted[source]):
                at = count + number * k
                above = masks_of[tree.slots[prefix]]
                tokens[row, at : at + k] = self.mask
                depths[row, at : at + k] = np.minimum(len(prefix) + np.arange(k), self.last)
                sees[row, at : at + k, :start] = above[:start]
                sees[row, at : at + k, used : used + count] = above[start : start + count]
                sees[row, at : at + k, used + at : used + at + k] = True
        runner.reserve(used + width)
        # The masks' keys and values lie beyond the tree's slots, where the next pass overwrites them.
        ids, log_probs = runner.run(tokens, depths, sees, starts)
        ids, log_probs = self._allowed(ids, log_probs)
        found = {}
        for source, row in self.rows.items():
            for number, prefix in enumerate(wanted[source]):
                at = len(fresh[source]) + number * k
                part = slice(at, at + k)
                found[source, prefix] = Filled(ids[row, part].tolist(), log_probs[row, part].tolist())
        return found

    def _allowed(self, ids: Ints, log_probs: np.ndarray) -> tuple[Ints, np.ndarray]:  # type: ignore[type-arg]
        """The best token of every node that may be drafted, and its log-prob."""
        never = self.never[ids]
        best = never.argmin(axis=-1)[..., None]
        return (np.take_along_axis(ids, best, -1)[..., 0], np.take_along_axis(log_probs, best, -1)[..., 0])

    def _missing(self, source: tuple[int, ...], prefixes: Sequence[Prefix]) -> list[Prefix]:
        """The prefixes and their ancestors that were not run yet, parents first."""
        known = self.trees[source].slots
        missing: dict[Prefix, None] = {}
        for prefix in prefixes:
            chain = []
            while prefix and prefix not in known and prefix not in missing:
                chain.append(prefix)
                prefix = prefix[:-1]
            missing.update(dict.fromkeys(reversed(chain)))
        return list(missing)

    def _clear(self, source: tuple[int, ...], row: int, wanted: Sequence[Prefix]) -> None:
        """Drop prefixes that lead nowhere any more, if they are many."""
        tree = self.trees[source]
        slack = Session.SLACK_FLAT if self.runner.flat else self.SLACK
        if len(tree.slots) > 1.5 * tree.needed + slack:
            kept = tree.compact(wanted)
            tree.needed = len(tree.slots)
            if kept is not None:
                self.runner.keep_slots(row, kept)
