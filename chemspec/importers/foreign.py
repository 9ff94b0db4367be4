"""Common parts of the importers: vocabularies in chemspec's order, network, checks and model card."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from chemspec.importers.base import LoadedModel, LoadOptions
from chemspec.model import checkpoint
from chemspec.model.checkpoint import Checkpoint, CheckpointError
from chemspec.model.manifest import write_manifest
from chemspec.model.probe import probe
from chemspec.model.runners.torch_runner import TorchBackend
from chemspec.model.transformer import IMPOSSIBLE, Transformer
from chemspec.model.weights import check_weights
from chemspec.settings import ModelConfig, Task
from chemspec.tokenizer import SPECIALS, PromptFormat, TokenError, Tokenizer, split_smiles

MAX_POSITIONS = 1024  # rows kept of a position table; sources and outputs are shorter


@contextmanager
def name_file_in_errors(file: Path) -> Iterator[None]:
    """Re-raise errors of weights, options or vocabulary as CheckpointError with the file's name."""
    try:
        yield
    except CheckpointError:
        raise
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        missing = "it lacks " if isinstance(error, KeyError) else ""
        raise CheckpointError(f"{file}: {missing}{error}") from error


@dataclass(frozen=True)
class Vocabulary:
    """Source and target vocabularies merged, in chemspec's order of ids."""

    tokens: tuple[str, ...]
    source: Tensor  # row of each id in the checkpoint's source table, or -1
    target: Tensor  # likewise in its target table
    sizes: tuple[int, int]  # tokens of source and target

    @classmethod
    def of(cls, source: Sequence[str], target: Sequence[str], specials: Sequence[str]) -> Vocabulary:
        """Merge vocabularies, `specials` (pad, bos, eos, unk) first; ValueError if one is missing or not atom-wise."""
        for tokens in (source, target):
            if missing := [token for token in specials if token not in tokens]:
                raise ValueError(f"its vocabulary has no {missing[0]!r}")
        theirs = (*specials, *(token for token in dict.fromkeys((*source, *target)) if token not in specials))
        for token in theirs[len(SPECIALS) :]:
            if token in ("[", "▁") or token.startswith(("▁", "##")) or _is_text(token):
                raise ValueError(f"its vocabulary holds {token!r}: it does not split SMILES atom by atom")
        row_of_token = [{token: row for row, token in enumerate(tokens)} for tokens in (source, target)]
        rows = [torch.tensor([lookup.get(token, -1) for token in theirs]) for lookup in row_of_token]
        return cls((*SPECIALS, *theirs[len(SPECIALS) :]), rows[0], rows[1], (len(source), len(target)))

    def reorder_tables(self, source: Tensor, target: Tensor, output: Tensor, bias: Tensor) -> dict[str, Tensor]:
        """Return embeddings and output layer in chemspec's order of ids; ValueError if their size is another."""
        for side, size, table in zip(("source", "target"), self.sizes, (source, target), strict=True):
            if table.ndim != 2 or len(table) != size:
                shape = " x ".join(map(str, table.shape))
                raise ValueError(f"its {side} vocabulary has {size} tokens, its table of embeddings is {shape}")

        def reorder(table: Tensor, rows: Tensor, missing: float = 0.0) -> Tensor:
            filled = table.float()[rows.clamp_min(0)]
            filled[rows < 0] = missing
            return filled

        return {
            "embedding.weight": reorder(source, self.source),
            "target_embedding.weight": reorder(target, self.target),
            "output.weight": reorder(output, self.target),
            "output.bias": reorder(bias, self.target, IMPOSSIBLE),
        }


def _is_text(token: str) -> bool:
    try:
        return len(split_smiles(token)) > 1 and any(map(str.isalpha, token))
    except TokenError:
        return False


class Options:
    """Options stored in a checkpoint, with checks for unsupported values."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values = values

    def require(self, name: str) -> Any:
        """Return an option; raises ValueError if it is not set."""
        if self.values.get(name) is None:
            raise ValueError(f"it does not say its {name}")
        return self.values[name]

    def check_allowed(self, name: str, *allowed: Any) -> None:
        """Raise if an option is set to a value other than these."""
        value = self.values.get(name)
        if value is not None and value not in allowed:
            raise ValueError(f"its option {name} is {value!r}, which chemspec does not compute")


def rounded_sinusoids(width: int, size: int = MAX_POSITIONS) -> Tensor:
    """Return the sinusoidal table (positions, width) as computed in single precision by other programs."""
    position = torch.arange(size, dtype=torch.float32)[:, None]
    ratio = -torch.log(torch.tensor(10000.0, dtype=torch.float64)).item() / width
    frequency = torch.exp(torch.arange(0, width, 2, dtype=torch.float32) * ratio)
    table = torch.zeros(size, width)
    table[:, 0::2] = torch.sin(position * frequency)
    table[:, 1::2] = torch.cos(position * frequency)
    return table


def guess_task(options: LoadOptions, path: Path, *hints: Any) -> tuple[Task, tuple[str, ...]]:
    """Return a model's task and a note: from the options, else guessed from file names, else forward."""
    if options.task is not None:
        return options.task, ()
    words = " ".join(map(str, (path.name, path.parent.name, *hints))).lower()
    retro = any(word in words for word in ("retro", "backward", "p2r", "prod2react", "50k"))
    task: Task = "retro" if retro else "forward"
    return task, (f"the checkpoint does not state its task; assumed to be a {task} model (change with --task)",)


def build_loaded_model(
    path: Path,
    options: LoadOptions,
    *,
    family: str,
    state: dict[str, Tensor],
    positions: Tensor,
    vocabulary: Vocabulary,
    hints: Sequence[Any] = (),
    described: bytes = b"",
    **architecture: Any,
) -> LoadedModel:
    """Build and check the model of a checkpoint; raises CheckpointError for weights that do not fit or compute.

    `family` is the display name of the program that wrote it, `state` and `positions` are its weights with chemspec's
    names and order, `hints` texts that may suggest its task, `described` the text of a description that the weights do
    not say, `architecture` the config fields not seen in the shapes.
    """
    lacking = (vocabulary.source < 0).tolist()
    unread = tuple(token for token, lacks in zip(vocabulary.tokens, lacking, strict=True) if lacks)  # only written
    tokenizer = Tokenizer(vocabulary.tokens, PromptFormat(unread=unread, unknown_as_unk=options.unknown_as_unk))
    if options.template:
        tokenizer = with_template(tokenizer, options.template, path)
    config = _complete_config(state, positions, len(vocabulary.tokens), architecture)
    arrays = {name: tensor.float().numpy() for name, tensor in state.items()}
    model = Transformer.of(check_weights(config, arrays, where=str(path)))
    scores = probe(TorchBackend(model), config, where=str(path))
    if bool((scores == scores[:1]).all()):
        raise CheckpointError(f"{path}: the model's scores do not depend on the text; weights seem to be missing")
    of_file = hashlib.sha256(path.read_bytes())
    digest = of_file.copy()
    for text in (options.vocab.read_bytes() if options.vocab else b"", options.template.encode(), described):
        digest.update(text)
    task, notes = guess_task(options, path, *hints)
    read = Checkpoint(options.name or path.stem, task, model.weights, tokenizer, path, digest.hexdigest()[:16], notes)

    def save(folder: Path, card: str) -> None:
        checkpoint.save(folder, model, tokenizer, task=task, half=False)
        write_manifest(folder)
        (folder / "card.md").write_text(card, encoding="utf-8")

    details = _describe(family, model, tokenizer, of_file.hexdigest())
    return LoadedModel.of(read, details=details, save=save)


def _complete_config(
    state: dict[str, Tensor], positions: Tensor, vocab_size: int, architecture: Mapping[str, Any]
) -> ModelConfig:
    """Return the config of weights, to which the positions are added; tied tables are removed."""
    table = positions.reshape(-1, positions.shape[-1])[:MAX_POSITIONS].float()
    state["positions"] = table.clone()
    source = state["embedding.weight"]
    if shared := torch.equal(source, state.get("target_embedding.weight", source)):
        state.pop("target_embedding.weight", None)
    if tied := torch.equal(state["output.weight"], source if shared else state["target_embedding.weight"]):
        del state["output.weight"]
    depths = Counter(name.partition(".")[0] for name in state if name.endswith(".linear1.weight"))
    return ModelConfig(
        vocab_size=vocab_size,
        d_model=source.shape[1],
        feedforward=len(state["encoder.layers.0.linear1.weight"]),
        encoder_layers=depths["encoder"],
        decoder_layers=depths["decoder"],
        shared_embedding=shared,
        tied_output=tied,
        stored_positions=True,
        max_positions=len(table),
        **architecture,
    )


def with_template(tokenizer: Tokenizer, template: str, path: Path) -> Tokenizer:
    """Copy a tokenizer with a prompt template; raises CheckpointError if the model has no tokens for it."""
    prompt_format = tokenizer.prompt_format or PromptFormat()
    try:
        adapted = replace(tokenizer, prompt_format=replace(prompt_format, template=template))
        adapted.encode("")
    except ValueError as error:
        raise CheckpointError(f"{path}: template {template!r}: {error}") from error
    return adapted


def _describe(family: str, model: Transformer, tokenizer: Tokenizer, digest: str) -> dict[str, str]:
    unread = len(tokenizer.prompt_format.unread) if tokenizer.prompt_format else 0
    return {
        "format": family,
        "architecture": ", ".join(f"{name} {value}" for name, value in model.config.to_json().items()),
        "parameters": f"{sum(weight.numel() for weight in model.parameters()):,}",
        "vocabulary": f"{len(tokenizer)} tokens" + f", {unread} of them only written" * bool(unread),
        "sha256": digest,
    }
