"""Muon (Jordan et al., 2024): momentum, made orthogonal, as the step of a matrix.

`torch.optim.Muon` does the same, always in bf16 and one matrix after another. Here matrices of one shape go through the
iteration together (three products a round for each shape instead of each matrix, which counts on a GPU; all else is one
launch for a shape, too), and in fp32 where the processor has no bf16 products: there emulated ones take sixty times
longer (log.md).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

# The quintic a x + b x^3 + c x^5, applied to the singular values: drives all of them to about one in five rounds.
ROUNDS = ((3.4445, -4.7750, 2.0315),) * 5
TINY = 1e-7


class Muon(torch.optim.Optimizer):
    """Nesterov momentum, orthogonalised, with decoupled weight decay; for matrices (ndim 2) only.

    Steps are scaled by 0.2 sqrt(larger side), so that learning rates made for AdamW fit (Liu et al., arXiv 2502.16982).

    Args:
        dtype: what the products are computed in.
    """

    def __init__(
        self,
        params: Iterable[Tensor],
        *,
        lr: float,
        momentum: float = 0.95,
        weight_decay: float = 0.0,
        dtype: torch.dtype = torch.bfloat16,
    ) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})
        self.dtype = dtype
        if any(p.ndim != 2 for group in self.param_groups for p in group["params"]):
            raise ValueError("Muon is for matrices; give the other parameters to AdamW")

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """Update the matrices, those of one shape together."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            alike: dict[tuple[int, int], list[Tensor]] = defaultdict(list)
            for p in group["params"]:
                if p.grad is not None:
                    alike[min(p.shape), max(p.shape)].append(p)
            for (_, wide), matrices in alike.items():
                ahead = self._ahead(matrices, group["momentum"])
                updates = orthogonal(torch.stack(list(map(_wide, ahead))), self.dtype).to(matrices[0].dtype)
                turned = [
                    update if p.shape[0] <= p.shape[1] else update.T
                    for p, update in zip(matrices, updates.unbind(), strict=True)
                ]
                torch._foreach_mul_(matrices, 1 - group["lr"] * group["weight_decay"])
                torch._foreach_add_(matrices, turned, alpha=-0.2 * wide**0.5 * group["lr"])
        return loss

    def _ahead(self, matrices: list[Tensor], momentum: float) -> list[Tensor]:
        """Return the gradients, each mixed with its running mean one step ahead (Nesterov)."""
        for p in matrices:
            if not self.state[p]:
                self.state[p]["momentum_buffer"] = torch.zeros_like(p)
        means = [self.state[p]["momentum_buffer"] for p in matrices]
        gradients = [p.grad for p in matrices if p.grad is not None]
        torch._foreach_lerp_(means, gradients, 1 - momentum)
        return list(torch._foreach_lerp(gradients, means, momentum))


def orthogonal(matrices: Tensor, dtype: torch.dtype) -> Tensor:
    """Return matrices (M, n, m), n <= m, with singular vectors kept and all singular values between 0.7 and 1.2."""
    x = matrices.to(dtype)
    x = x / x.norm(dim=(1, 2), keepdim=True).clamp(min=TINY)  # so that no singular value exceeds one
    for a, b, c in ROUNDS:
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x


def _wide(matrix: Tensor) -> Tensor:
    return matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
