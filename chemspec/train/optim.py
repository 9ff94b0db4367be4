"""Muon (Jordan et al., 2024) for the matrices of the layers and AdamW for everything else, as one optimiser.

`torch.optim.Muon` does the same, always in bf16 and one matrix at a time. Here matrices of one shape are batched (three
products per round and shape instead of per matrix, and one launch per shape for the rest, which matters on a GPU), and
processors without bf16 products use fp32: emulation takes sixty times longer (log.md).
"""

import math
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from chemspec.settings import TrainSettings

# The quintic a x + b x^3 + c x^5, applied to the singular values: five rounds bring all of them close to one.
ROUNDS = ((3.4445, -4.7750, 2.0315),) * 5
TINY = 1e-7
MOMENTUM = 0.95


class Muon(torch.optim.Optimizer):
    """Nesterov momentum, orthogonalised, with decoupled weight decay; for matrices (ndim 2) only.

    Steps are scaled by 0.2 sqrt(larger side), so that learning rates for AdamW can be used (Liu et al., arXiv
    2502.16982). `dtype` is the precision of the products.
    """

    def __init__(
        self,
        params: Iterable[Tensor],
        *,
        lr: float,
        momentum: float = MOMENTUM,
        weight_decay: float = 0.0,
        dtype: torch.dtype = torch.bfloat16,
    ) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})
        self.dtype = dtype
        if any(p.ndim != 2 for group in self.param_groups for p in group["params"]):
            raise ValueError("Muon is for matrices; give the other parameters to AdamW")

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """Update the matrices, batched by shape."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for matrices in by_shape(p for p in group["params"] if p.grad is not None):
                for p in matrices:
                    if not self.state[p]:
                        self.state[p]["momentum_buffer"] = torch.zeros_like(p)
                momenta = [self.state[p]["momentum_buffer"] for p in matrices]
                muon_step(matrices, momenta, group["lr"], group["momentum"], group["weight_decay"], self.dtype)
        return loss


def by_shape(matrices: Iterable[Tensor]) -> list[list[Tensor]]:
    """Return matrices in groups of one shape, or that shape transposed."""
    groups: dict[tuple[int, int], list[Tensor]] = defaultdict(list)
    for p in matrices:
        groups[min(p.shape), max(p.shape)].append(p)
    return [*groups.values()]


def muon_step(
    matrices: list[Tensor],
    momenta: list[Tensor],
    lr: float | Tensor,
    momentum: float,
    weight_decay: float,
    dtype: torch.dtype,
) -> None:
    """Update matrices of one shape, and their momenta, in place; a learning rate on the device can be recorded."""
    gradients = [p.grad for p in matrices if p.grad is not None]
    torch._foreach_lerp_(momenta, gradients, 1 - momentum)
    steps = torch._foreach_lerp(gradients, momenta, momentum)
    wide_last = torch.stack([m if m.shape[0] <= m.shape[1] else m.T for m in steps])
    wide = max(matrices[0].shape)
    updates = orthogonalise(wide_last, dtype).to(matrices[0].dtype) * (-0.2 * wide**0.5 * lr)
    turned = [u if p.shape[0] <= p.shape[1] else u.T for p, u in zip(matrices, updates.unbind(), strict=True)]
    torch._foreach_mul_(matrices, 1 - lr * weight_decay)
    torch._foreach_add_(matrices, turned)


def orthogonalise(matrices: Tensor, dtype: torch.dtype) -> Tensor:
    """Return matrices (M, n, m), n <= m, with the same singular vectors and all singular values between 0.7 and 1.2."""
    x = matrices.to(dtype)
    x = x / x.norm(dim=(1, 2), keepdim=True).clamp(min=TINY)  # so that no singular value exceeds one
    for a, b, c in ROUNDS:
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x


def learning_rate_share(step: int, progress: float, settings: TrainSettings) -> float:
    """Return the learning rate as a share of its peak, at `step` and `progress` (0 to 1) of the run."""
    warm = min(1.0, (step + 1) / max(1, settings.warmup))
    if settings.schedule == "inverse-sqrt":
        return warm * math.sqrt(max(1, settings.warmup) / max(step + 1, settings.warmup, 1))
    falling = max(0.0, (min(1.0, progress) - settings.hold) / (1 - settings.hold))
    return warm * 0.5 * (1 + math.cos(math.pi * falling))


def bf16_is_native() -> bool:
    """Return whether the device multiplies bf16 numbers natively; emulation is 60 times slower."""
    if torch.cuda.is_available():
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    capabilities: dict[str, bool] = getattr(torch.cpu, "get_capabilities", dict)()
    return any(capabilities.get(name) for name in ("amx_bf16", "avx512_bf16", "avx10_2", "bf16"))


def build_optimizer(model: nn.Module, settings: TrainSettings) -> torch.optim.Optimizer:
    """Build the optimiser of the settings; norms and biases have no weight decay."""
    named = list(model.named_parameters())
    matrices = [p for name, p in named if p.ndim == 2 and "layers." in name]
    tables = [p for name, p in named if p.ndim > 2 or (p.ndim == 2 and "layers." not in name)]
    vectors = [p for _, p in named if p.ndim < 2]
    plain = [{"params": vectors, "weight_decay": 0.0}, {"params": tables, "weight_decay": settings.weight_decay}]
    adam = {"lr": settings.lr, "betas": (0.9, 0.98), "eps": 1e-9, "fused": True}
    if settings.optimizer == "adamw":
        plain.append({"params": matrices, "weight_decay": settings.weight_decay})
        return torch.optim.AdamW(plain, **adam)  # type: ignore[arg-type]
    dtype = torch.bfloat16 if bf16_is_native() else torch.float32
    muon = Muon(matrices, lr=settings.lr, weight_decay=settings.weight_decay, dtype=dtype)
    return CombinedOptimizer([muon, torch.optim.AdamW(plain, **adam)])  # type: ignore[arg-type]


class CombinedOptimizer(torch.optim.Optimizer):
    """Step several optimisers together; their parameter groups are shared, so one scheduler drives them all."""

    def __init__(self, parts: list[torch.optim.Optimizer]) -> None:
        self.parts = parts
        super().__init__([group for part in parts for group in part.param_groups], {})
        # The base class copied the groups; restore the parts' groups, or a scheduler would modify copies.
        self.param_groups = [group for part in parts for group in part.param_groups]

    def step(self, closure: Any = None) -> Any:
        """Run the step of all parts; the first one calls the closure, which computes all gradients."""
        loss = self.parts[0].step(closure)
        for part in self.parts[1:]:
            part.step()
        return loss

    def state_dict(self) -> dict[str, Any]:
        """Return the states of the parts."""
        return {"parts": [part.state_dict() for part in self.parts]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the states of the parts."""
        for part, state in zip(self.parts, state_dict["parts"], strict=True):
            part.load_state_dict(state)
        self.param_groups = [group for part in self.parts for group in part.param_groups]
