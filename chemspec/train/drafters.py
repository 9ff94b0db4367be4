"""Train learned drafters on the target's outputs, on padded batches. Needs no RDKit."""

from dataclasses import asdict
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, pad

import chemspec.train.padded as padded
from chemspec.data.arrays import Batch, check_data, split_validation
from chemspec.model import checkpoint
from chemspec.model.heads import Heads, HeadsConfig
from chemspec.model.manifest import write_manifest
from chemspec.model.spec_drafter import copy_target_layers, drafter_config, fill_masks, true_tokens
from chemspec.model.transformer import Transformer
from chemspec.settings import TrainSettings
from chemspec.tokenizer import PAD, Tokenizer
from chemspec.train.average import average_checkpoints
from chemspec.train.checkpoints import latest_checkpoint, newest_checkpoints
from chemspec.train.recipe import DrafterRecipe
from chemspec.types import Progress, Tell, ignore

DECAY = 0.8  # weight of each further Medusa head (Cai et al. 2024)


class MaskTraining(padded.Training):
    """Cross-entropy of the masks of a Spec-Drafter after random prefixes (Xia et al., Eq. 5 and 6), with glancing."""

    model: Transformer

    def __init__(
        self, model: Transformer, settings: TrainSettings, *, length: int, blocks: int, glance: tuple[float, float]
    ) -> None:
        """Fill `length` masks after `blocks` prefixes a step; `glance`: share of errors revealed, from start to end."""
        super().__init__(model, settings)
        self.length, self.blocks, self.glance = length, blocks, glance

    def loss(self, batch: Batch, *, smoothing: float = 0.0) -> Tensor:
        """Return the cross-entropy of the masks that are not revealed."""
        source, target = batch
        memory, real = self.model.encode(source)
        # Random prefix lengths (B, M), from bos only to all but the last token.
        ends = (target != PAD).sum(dim=1)[:, None]
        random = torch.rand(len(target), self.blocks, device=target.device)
        starts = 1 + (random * (ends - 1)).long().clamp(max=ends - 2)
        positions = starts[:, :, None] + torch.arange(self.length, device=target.device)
        true = true_tokens(target, positions)
        counted = true != PAD
        share = 0.0
        if self.training:
            first, last = self.glance
            share = first + (last - first) * min(1.0, self.progress)
        if share > 0:
            with torch.no_grad():
                predicted = fill_masks(self.model, memory, real, target, starts, self.length).argmax(-1)
            revealed = choose_revealed(predicted != true, counted, share)
        else:
            revealed = torch.zeros_like(counted)
        logits = fill_masks(self.model, memory, real, target, starts, self.length, revealed)
        trained = counted & ~revealed
        return cross_entropy(logits[trained].float(), true[trained], label_smoothing=smoothing)

    def measure(self, batch: Batch) -> padded.Measured:
        """Return the loss and the mean number of accepted tokens."""
        source, target = batch
        offsets = torch.arange(self.length, device=target.device)
        # Evenly spaced prefixes, so that all validations use the same ones.
        ends = (target != PAD).sum(dim=1)[:, None]
        shares = torch.linspace(0, 0.99, self.blocks, device=target.device)
        starts = 1 + ((ends - 1) * shares).long()
        true = true_tokens(target, starts[:, :, None] + offsets)
        logits = fill_masks(self.model, *self.model.encode(source), target, starts, self.length)
        counted = true != PAD
        right = (logits.argmax(-1) == true) & counted
        loss = cross_entropy(logits[counted].float(), true[counted])
        ahead = right.long().cumprod(-1).sum(-1).float().mean()
        return {"val_loss": (loss, int(counted.sum())), "val_accepted": (ahead, starts.numel())}


def choose_revealed(wrong: Tensor, counted: Tensor, share: float) -> Tensor:
    """Choose masks to reveal: in each block a number that is `share` of its wrong predictions (Qian 2021, Eq. 5).

    `counted` are the masks that have a target token; all are (B, M, k) bool.
    """
    number = ((wrong & counted).sum(-1, keepdim=True) * share).long()
    order = torch.rand(wrong.shape, device=wrong.device).masked_fill(~counted, 2.0)
    rank = order.argsort(-1).argsort(-1)
    return (rank < number) & counted


class HeadTraining(padded.Training):
    """Cross-entropy of heads that predict tokens from the last hidden states of a frozen target."""

    model: Heads

    def __init__(self, model: Heads, settings: TrainSettings, target: Transformer) -> None:
        super().__init__(model, settings)
        self.target = [target.eval().requires_grad_(False)]  # a list, so that its weights are not saved

    def place(self, device: torch.device) -> None:
        """Move everything, the target included, to a device."""
        super().place(device)
        self.target[0].to(device)

    def loss(self, batch: Batch, *, smoothing: float = 0.0) -> Tensor:
        """Return the weighted mean of the heads' cross-entropies."""
        logits, true = self._predict(batch)
        count = logits.shape[-2]
        losses = cross_entropy(
            logits.flatten(0, -2).float(), true.flatten(), ignore_index=PAD, reduction="none", label_smoothing=smoothing
        ).reshape(-1, count)
        medusa = self.model.config.style == "medusa"
        weights = (DECAY if medusa else 1.0) ** torch.arange(count, device=losses.device)
        each = losses.sum(dim=0) / (true != PAD).reshape(-1, count).sum(dim=0).clamp(min=1)
        return (weights * each).sum() / weights.sum()

    def measure(self, batch: Batch) -> padded.Measured:
        """Return the loss and the mean number of accepted tokens."""
        logits, true = self._predict(batch)
        right = (logits.argmax(-1) == true) & (true != PAD)
        ahead = right.long().cumprod(-1).sum(-1).float().mean()
        return super().measure(batch) | {"val_accepted": (ahead, len(true))}

    def _predict(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return logits (N, K, V) of every head at every position, and the target tokens (N, K)."""
        source, target = batch
        with torch.no_grad():
            target_model = self.target[0]
            states = target_model.states(target[:, :-2], *target_model.encode(source))
        count, width = self.model.config.heads, states.shape[1]
        # The state at position t predicts token t + 1; head i, from 0, predicts token t + 2 + i.
        padded = pad(target, (0, count), value=PAD)
        true = torch.stack([padded[:, 2 + i : 2 + i + width] for i in range(count)], dim=-1)
        counted = true[..., 0] != PAD
        return self.model(states[counted]), true[counted]


def train_drafter(
    recipe: DrafterRecipe,
    data: Path,
    target: Path,
    out: Path,
    *,
    resume: bool = True,
    tell: Tell = ignore,
    progress: Progress = ignore,
) -> Path:
    """Train a drafter by a recipe in the run folder `out`; returns its folder, which is in the run folder.

    `data` is the output of `chemspec train distil` with the target, a model folder; FileNotFoundError is raised without
    it, ValueError for a target of another task or vocabulary. `resume` continues from the last checkpoint, if any.
    """
    check_data(data, f"make it with `chemspec train distil --task {recipe.task}`")
    loaded = checkpoint.load(target)
    if loaded.task != recipe.task:
        raise ValueError(f"{target} is a {loaded.task} model; recipe {recipe.name} needs a {recipe.task} model")
    if Tokenizer.load(data / "vocab.json") != loaded.tokenizer:
        raise ValueError(f"{data} has another vocabulary than {target}; distil it with that model")
    settings = recipe.train
    pairs, held = split_validation(data, settings.holdout)
    values = {name: value for name, value in asdict(recipe).items() if name != "train"}
    digest = padded.digest_of_data(pairs, loaded.tokenizer)
    about = {"task": recipe.task, "kind": recipe.kind, "target": loaded.digest, "data": digest, "recipe": values}
    torch.manual_seed(settings.seed)
    module = _build_module(recipe, settings, loaded.model)
    specials, resumed = loaded.config.source_specials, latest_checkpoint(out) if resume else None
    data_parts = pairs, held
    padded.train_module(module, out, data_parts, about, specials=specials, resume=resumed, tell=tell, progress=progress)
    # The final state, or the mean of the last ones.
    module.model.load_state_dict(average_checkpoints(newest_checkpoints(out / "checkpoints", recipe.average_last)))
    folder = out / recipe.kind
    bound = "" if recipe.kind == "spec_drafter" else loaded.digest
    checkpoint.save_drafter(
        folder, module.model, loaded.tokenizer, kind=recipe.kind, length=recipe.length, target=bound
    )
    write_manifest(folder)
    return folder


def _build_module(recipe: DrafterRecipe, settings: TrainSettings, target: Transformer) -> MaskTraining | HeadTraining:
    config = target.config
    if recipe.kind == "spec_drafter":
        model = Transformer(drafter_config(config, **recipe.shape), dropout=settings.dropout)
        copy_target_layers(model, target)
        return MaskTraining(model, settings, length=recipe.length, blocks=recipe.blocks, glance=recipe.glance)
    heads = Heads(
        HeadsConfig(
            vocab_size=config.vocab_size,
            d_model=config.d_model,
            style=recipe.kind,
            **recipe.shape,  # type: ignore[arg-type]
        )
    )
    heads.copy_output_layer(target.output)
    return HeadTraining(heads, settings, target)
