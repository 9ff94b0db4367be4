"""Training on padded batches of any device: the loss of a model, and its steps for the loop. Needs no RDKit."""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader

import chemspec.train.loop as loop
from chemspec.data.arrays import Batch, Pairs, TokenBatches
from chemspec.settings import TrainSettings
from chemspec.system.gpu import avoid_cudnn_attention
from chemspec.tokenizer import PAD, Tokenizer
from chemspec.train.optim import bf16_is_native, build_optimizer
from chemspec.types import Progress, Tell, ignore

Measured = dict[str, tuple[Tensor, int]]  # means over a batch, each with the number of items


class Training(nn.Module):
    """What is minimised and measured: next-token cross-entropy of a `Transformer`."""

    def __init__(self, model: nn.Module, settings: TrainSettings) -> None:
        super().__init__()
        self.settings = settings
        self.model = model
        self.progress = 0.0  # completed share of the run; set before each step
        self.exact: Callable[[], float] | None = None  # exact match of greedy decoding on held-out pairs

    def place(self, device: torch.device) -> None:
        """Move everything to a device."""
        self.to(device)

    def loss(self, batch: Batch, *, smoothing: float = 0.0) -> Tensor:
        """Return the mean loss of a batch: nats per target token."""
        source, target = batch
        logits = self.model(source, target[:, :-1])
        return cross_entropy(
            logits.flatten(0, 1).float(), target[:, 1:].flatten(), ignore_index=PAD, label_smoothing=smoothing
        )

    def measure(self, batch: Batch) -> Measured:
        """Return the loss of a validation batch, with its number of tokens."""
        return {"val_loss": (self.loss(batch), int(torch.count_nonzero(batch[1][:, 1:] != PAD)))}


class PaddedTrainee:
    """Steps of a module on padded batches, for `loop.run`."""

    def __init__(self, module: Training, pairs: Pairs, held: Pairs, *, specials: bool) -> None:
        """Train on pairs, validate on others; `specials` as in `Pairs.batch`."""
        self.module, self.settings = module, module.settings
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        module.place(self.device)
        self.optimizer = build_optimizer(module.model, self.settings)
        self.pairs, self.held, self.specials = pairs, held, specials
        self.autocast = partial(torch.autocast, self.device.type, torch.bfloat16, enabled=bf16_is_native())

    def batches(self, done: int) -> Iterator[Batch]:
        """Return the endless training batches from step `done` on."""
        tokens, seed = self.settings.tokens, self.settings.seed
        batches = TokenBatches(self.pairs, tokens=tokens, seed=seed, skip=done, source_specials=self.specials)
        return self._load(self.pairs, batches, workers=2)  # a GPU's step takes about as long as making its batch

    def _load(self, part: Pairs, sampler: Any, workers: int = 0) -> Iterator[Batch]:
        on_gpu, numbers = self.device.type == "cuda", range(len(part))
        loader: Any = DataLoader(
            numbers,  # type: ignore[arg-type]
            batch_sampler=sampler,
            collate_fn=partial(part.batch, source_specials=self.specials),
            # A separate generator: otherwise every validation would change the dropout of later steps.
            generator=torch.Generator(),
            pin_memory=on_gpu,  # needed for asynchronous copies
            num_workers=workers * on_gpu,
        )
        for source, target in loader:
            yield source.to(self.device, non_blocking=True), target.to(self.device, non_blocking=True)

    def take_step(self, batch: Batch, rate: float, progress: float) -> Tensor:
        """Take a step; returns the mean loss."""
        self.module.train()
        self.module.progress = progress
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        with self.autocast():
            loss = self.module.loss(batch, smoothing=self.settings.label_smoothing)
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.module.model.parameters(), self.settings.clip)
        self.optimizer.step()
        return loss

    def count_tokens(self, batch: Batch) -> Tensor:
        """Return the number of tokens of both sides, without padding."""
        return torch.count_nonzero(batch[0] != PAD) + torch.count_nonzero(batch[1] != PAD)

    @torch.no_grad()
    def validate(self) -> dict[str, float]:
        """Return means over all validation batches, and the exact match."""
        self.module.eval()
        tokens = self.settings.tokens
        batches = TokenBatches(self.held, tokens=tokens, seed=0, source_specials=self.specials).epoch(0)
        sums: dict[str, float] = {}
        counts: dict[str, int] = {}
        for batch in self._load(self.held, batches):
            with self.autocast():
                measured = self.module.measure(batch)
            for name, (value, count) in measured.items():
                sums[name] = sums.get(name, 0.0) + float(value) * count
                counts[name] = counts.get(name, 0) + count
        exact = {} if self.module.exact is None else {"val_exact": self.module.exact()}
        return {name: total / counts[name] for name, total in sums.items()} | exact

    def weights(self) -> dict[str, Tensor]:
        """Return the weights of the model."""
        return dict(self.module.state_dict())

    def state(self) -> dict[str, Any]:
        """Return the state of the optimiser."""
        return {"optimizer": self.optimizer.state_dict()}

    def restore(self, saved: dict[str, Any]) -> None:
        """Restore weights and optimiser."""
        self.module.load_state_dict(saved["state_dict"])
        self.optimizer.load_state_dict(saved["optimizer"])


def train_module(
    module: Training,
    out: Path,
    data: tuple[Pairs, Pairs],
    description: Mapping[str, Any],
    *,
    specials: bool,
    resume: Path | None,
    tell: Tell = ignore,
    progress: Progress = ignore,
) -> None:
    """Train a module on training and validation pairs; `specials` as in `Pairs.batch`, otherwise as `loop.run`."""
    config: Any = module.model.config
    avoid_cudnn_attention()  # batch shapes vary
    trainee = PaddedTrainee(module, *data, specials=specials)
    loop.run(trainee, out, {**description, "model": config.to_json()}, resume=resume, tell=tell, progress=progress)
    module.place(torch.device("cpu"))


def digest_of_data(pairs: Pairs, tokenizer: Tokenizer) -> str:
    """Return a digest of training pairs and vocabulary."""
    digest = hashlib.sha256("\n".join(tokenizer.tokens).encode())
    for side in (pairs.sources, pairs.targets):
        digest.update(side.offsets.tobytes() + side.flat.tobytes())
    return digest.hexdigest()[:16]
