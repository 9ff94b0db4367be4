"""The Spec-Drafter of Xia et al. (2023, section 3.1): an encoder-decoder that fills k masks after a prefix in one pass.

It is a `Transformer` whose vocabulary has one more token, the mask. Its encoder is deep and runs once per query; its
decoder is shallow and runs once per pass. The mask at position p + i predicts the token of that very position (Eq. 5 to
7). Masks attend to the whole prefix and to each other; a token of the prefix attends only to its left, as in the
target. So the prefix's keys and values do not depend on the masks and stay in the KV cache, like the encoder's output,
for the whole decode; and in training one row holds several prefixes of the same target, each with its masks.

Shapes: B queries, S source tokens, T target tokens with bos, M prefixes of one target, k masks of a prefix, D model
width, V vocabulary without the mask, R nodes of a pass.
"""

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from chemspec.model.runner import Backend, MaskedBatch
from chemspec.model.runners.torch_runner import TorchBackend
from chemspec.model.session import Session
from chemspec.model.transformer import Transformer
from chemspec.settings import ModelConfig
from chemspec.tokenizer import BOS, PAD, UNK
from chemspec.types import Prefix, SourceIds


def drafter_config(target: ModelConfig, *, encoder: int, decoder: int, width: int = 0) -> ModelConfig:
    """Return the architecture of a drafter for a target, by numbers of layers (in the paper 12 and 2) and model width.

    Feed-forward layers are four times as wide; width 0 takes the target's widths. The paper ablates its Latency
    Principle with as many decoder as encoder layers, and its Capability Principle with half the width.
    """
    chosen = replace(target, vocab_size=target.vocab_size + 1, encoder_layers=encoder, decoder_layers=decoder)
    return replace(chosen, d_model=width, feedforward=4 * width) if width else chosen


@torch.no_grad()
def copy_target_layers(model: Transformer, target: Transformer) -> None:
    """Copy the target's tables, encoder and last decoder layers into a drafter; nothing if the widths differ.

    Layers that the target lacks start as the identity, so that the encoder initially computes the target's outputs.
    """
    config, other = model.config, target.config
    shape = ("d_model", "heads", "feedforward", "norm_first", "final_norms", "shared_embedding", "tied_output")
    if any(getattr(config, name) != getattr(other, name) for name in shape):
        return
    state, skipped = model.state_dict(), other.decoder_layers - config.decoder_layers
    for name, tensor in target.state_dict().items():
        ours = re.sub(r"^(decoder\.layers\.)(\d+)", lambda match: f"{match[1]}{int(match[2]) - skipped}", name)
        if ours in state:
            state[ours][: len(tensor)] = tensor  # tables have one row more, the mask's
    model.embedding.weight[-1] = 0
    if model.output.bias is not None:
        model.output.bias[-1] = -10.0
    for layer in list(model.encoder)[other.encoder_layers :] if config.norm_first else []:
        for parameter in (*layer.self_attn.out_proj.parameters(), *layer.linear2.parameters()):
            parameter.zero_()


def fill_masks(
    model: Transformer,
    memory: Tensor,
    source_mask: Tensor,
    target: Tensor,
    starts: Tensor,
    length: int,
    shown: Tensor | None = None,
) -> Tensor:
    """Return logits (B, M, k, V) of k = `length` masks after several prefixes of every target, without a KV cache.

    `memory` and `source_mask` are from `encode`, the target is (B, T), bos first, right-padded; `starts` (B, M) are the
    tokens of each prefix, bos included, at least 1; `shown` (B, M, k) are masks that are replaced by the true
    token (glancing).
    """
    batch, width = target.shape
    blocks = starts.shape[1]
    vocab = model.config.vocab_size - 1
    positions = starts[:, :, None] + torch.arange(length, device=target.device)  # (B, M, k)
    tokens = torch.full_like(positions, vocab)
    if shown is not None:
        true = true_tokens(target, positions)
        tokens = torch.where(shown & (true != PAD), true, tokens)
    prefix = model.embed(target, torch.arange(width, device=target.device), target=True)
    x = torch.cat((prefix, model.embed(tokens.flatten(1), positions.flatten(1), target=True)), dim=1)
    mask = _attention_mask(starts, width, length)
    layers = list(model.decoder)
    for layer in layers:
        normed = layer.before(x, layer.norm1)
        q, k, v = layer.self_attn.project(normed)
        if layer is layers[-1]:  # the last layer needs only keys and values of the prefix
            q, x, mask = q[:, :, width:], x[:, width:], mask[:, :, width:]
        x = layer.add(x, layer.self_attn.attend(q, k, v, mask), layer.norm1)
        x = layer.cross(x, *layer.multihead_attn.project_memory(memory), source_mask)
    logits: Tensor = model.output(model.decoder.norm(x))[..., :vocab]
    return logits.reshape(batch, blocks, length, vocab)


def true_tokens(target: Tensor, positions: Tensor) -> Tensor:
    """Return the tokens of `target` (B, T) at `positions` (B, M, k); pad past its end."""
    inside = positions.clamp(max=target.shape[1] - 1).flatten(1)
    tokens = target.gather(1, inside).reshape(positions.shape)
    return torch.where(positions < target.shape[1], tokens, PAD)


def _attention_mask(starts: Tensor, width: int, length: int) -> Tensor:
    """Return the mask (B, 1, T + M k, T + M k): a prefix attends to its left, a mask to its prefix and its block."""
    batch, blocks = starts.shape
    device = starts.device
    block = torch.arange(blocks, device=device).repeat_interleave(length)  # number of each mask's block
    columns = torch.arange(width, device=device)
    mask = torch.zeros(batch, width + len(block), width + len(block), dtype=torch.bool, device=device)
    mask[:, :width, :width] = columns[:, None] >= columns
    mask[:, width:, :width] = columns < starts[:, block, None]
    mask[:, width:, width:] = block[:, None] == block
    return mask[:, None]


MaskedScores = tuple[list[int], list[float]]  # the likeliest token of each mask after one prefix, and its log-prob


class MaskFiller:
    """One run of the drafter: fills `length` masks for many queries and prefixes in one pass; encodes each query once.

    The backend computes the model; torch by default. Prefixes are cached, masks are not.
    """

    TOP_K = 5  # the best may be one of the four tokens that are never drafted

    def __init__(self, model: Transformer, length: int, backend: Backend | None = None) -> None:
        self.backend, self.length = backend or TorchBackend(model), length
        self.mask, self.last_position = model.config.vocab_size - 1, model.config.max_positions - 1
        self.never = np.zeros(model.config.vocab_size, dtype=np.bool_)
        self.never[[PAD, BOS, UNK, self.mask]] = True
        self._sessions: list[Session] = []  # each of queries that were encoded together

    def fill(self, requests: Sequence[tuple[Sequence[int], Prefix]]) -> list[MaskedScores]:
        """Fill the masks after every prefix in one pass, or in one pass per group of queries encoded together."""
        requested: dict[SourceIds, list[Prefix]] = {}
        for source, prefix in requests:
            prefixes = requested.setdefault(tuple(source), [])
            if prefix not in prefixes:
                prefixes.append(prefix)
        for session in self._sessions:  # every query in flight is in every call; the others are finished
            session.release([query for query, source in session.sources.items() if source not in requested])
        self._sessions = [session for session in self._sessions if session.sources]
        encoded = {source for session in self._sessions for source in session.sources.values()}
        if new_sources := [source for source in requested if source not in encoded]:
            self._sessions.append(Session(self.backend, new_sources, top_k=self.TOP_K))
        filled: dict[tuple[SourceIds, Prefix], MaskedScores] = {}
        for session in self._sessions:
            filled.update(self._fill_session(session, requested))
        return [filled[tuple(source), prefix] for source, prefix in requests]

    def _fill_session(
        self, session: Session, requested: dict[SourceIds, list[Prefix]]
    ) -> dict[tuple[SourceIds, Prefix], MaskedScores]:
        k, nodes = self.length, MaskedBatch()
        starts: dict[tuple[SourceIds, Prefix], int] = {}  # index in the batch of each prefix's first mask
        for query, source in session.sources.items():
            tree, prefixes = session.trees[query], requested[source]
            tree.add_to_batch(nodes, query, tree.missing(prefixes))
            nodes.blocks += [-1] * (len(nodes.tokens) - len(nodes.blocks))
            for prefix in prefixes:
                nodes.blocks += [len(starts)] * k
                starts[source, prefix] = len(nodes.tokens)
                nodes.queries += [query] * k
                nodes.tokens += [self.mask] * k
                nodes.depths += [min(len(prefix) + i, self.last_position) for i in range(k)]
                nodes.parents += [tree.slots[prefix]] * k
        ids, log_probs = session.runner.run(nodes)  # (R, TOP_K)
        best = self.never[ids].argmin(axis=-1)[:, None]  # the best token that may be drafted
        tokens = np.take_along_axis(ids, best, -1)[:, 0].tolist()
        chosen = np.take_along_axis(log_probs, best, -1)[:, 0].tolist()
        session.compact({query: requested[source] for query, source in session.sources.items()})
        return {key: (tokens[at : at + k], chosen[at : at + k]) for key, at in starts.items()}
