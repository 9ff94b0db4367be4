"""Muon for the matrices of the layers and AdamW for everything else, as one optimiser."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from chemspec.settings import TrainSettings
from chemspec.train.muon import Muon


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
        """Run the step of all parts."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for part in self.parts:
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
