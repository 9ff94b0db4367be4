"""Heads that predict several tokens from the target's last hidden state: Blockwise Decoding and Medusa.

The target's output layer reads the last hidden state h (after the final norm) and predicts the next token; head i
predicts the i-th token after that one from the same state. The target is not changed. All heads share its attention,
which Xia et al. (2023, section 3.1.1) give as the reason why their masked drafter does better.

- blockwise (Stern et al. 2018, section 4): h_i = h + W2_i relu(W1_i h), read by the target's own output layer.
- medusa (Cai et al. 2024): h_i = h + silu(W_i h), read by a separate output layer per head.

Shapes: N states, K heads, D width, F inner width of a head, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from chemspec.model.transformer import log_softmax
from chemspec.settings import MAX_WIDTH, StoredConfig, check_range


@dataclass(frozen=True, kw_only=True)
class HeadsConfig(StoredConfig):
    """The architecture of the heads, in full.

    `heads` is the number of tokens predicted after that of the target's output layer, `feedforward` the inner width of
    a blockwise head.
    """

    vocab_size: int
    d_model: int
    style: Literal["blockwise", "medusa"] = "blockwise"
    heads: int = 9
    feedforward: int = 256

    def __post_init__(self) -> None:
        if self.style not in ("blockwise", "medusa"):
            raise ValueError(f"style {self.style!r} is not blockwise or medusa")
        for name in ("vocab_size", "d_model", "heads", "feedforward"):
            check_range(name, getattr(self, name), 1, MAX_WIDTH)


class Heads(nn.Module):
    """Map states (N, D) to logits (N, K, V) of the 2nd to the (K + 1)-th token after that of each state.

    Blockwise heads hold a copy of the target's output layer, which is not trained.
    """

    def __init__(self, config: HeadsConfig) -> None:
        super().__init__()
        self.config = config
        count, width, vocab = config.heads, config.d_model, config.vocab_size
        inner = config.feedforward if config.style == "blockwise" else width
        self.wide = nn.Parameter(torch.empty(count, inner, width))
        self.wide_bias = nn.Parameter(torch.zeros(count, inner))
        if not self.wide.is_meta:  # there torch imports its compiler for it, which takes a second
            nn.init.normal_(self.wide, std=width**-0.5)
        if config.style == "blockwise":
            # Zero, so that every head starts as the target's output layer.
            self.narrow = nn.Parameter(torch.zeros(count, width, inner))
            self.narrow_bias = nn.Parameter(torch.zeros(count, width))
            self.output = nn.Parameter(torch.zeros(vocab, width), requires_grad=False)
            self.output_bias = nn.Parameter(torch.zeros(vocab), requires_grad=False)
        else:
            nn.init.zeros_(self.wide)
            self.output = nn.Parameter(torch.zeros(count, vocab, width))
            self.output_bias = nn.Parameter(torch.zeros(count, vocab))

    @torch.no_grad()
    def copy_output_layer(self, output: nn.Linear) -> None:
        """Copy the target's output layer into every head."""
        self.output.copy_(output.weight.expand_as(self.output))
        if output.bias is not None:
            self.output_bias.copy_(output.bias.expand_as(self.output_bias))

    def forward(self, states: Tensor) -> Tensor:
        """Return logits (N, K, V) of states (N, D)."""
        inner = torch.einsum("nd,kfd->nkf", states, self.wide) + self.wide_bias
        if self.config.style == "medusa":
            states = states[:, None] + functional.silu(inner)
            return torch.einsum("nkd,kvd->nkv", states, self.output) + self.output_bias
        move = torch.einsum("nkf,kdf->nkd", functional.relu(inner), self.narrow) + self.narrow_bias
        return functional.linear(states[:, None] + move, self.output, self.output_bias)

    @torch.inference_mode()
    def best(
        self, states: Sequence[Tensor] | Sequence[NDArray[np.float32]], count: int
    ) -> tuple[list[list[list[int]]], list[list[list[float]]]]:
        """Return each head's `count` best tokens after each state (D,), and their log-probs; (N, K, count) each."""
        logits = self(torch.stack(list(map(torch.as_tensor, states))).to(self.output.dtype))
        top = log_softmax(logits).topk(min(count, self.config.vocab_size), dim=-1)
        return top.indices.tolist(), top.values.tolist()
