"""Load Lightning checkpoints of Academich/translation-transformer (Andronov et al.), with separate vocabulary."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor

from chemspec.importers import foreign, pickled
from chemspec.importers.base import LoadedModel, LoadOptions
from chemspec.importers.foreign import Options, Vocabulary
from chemspec.model.checkpoint import CheckpointError

SPECIALS = ("<PAD>", "<BOS>", "<EOS>", "?")
NAMES = ("vocab.json", "vocabulary.json")
HEAD = "next_token_classifier.weight"


def recognises(path: Path) -> bool:
    """Return whether a path is a translation-transformer checkpoint, or a folder with one."""
    return pickled.matches(path, lambda parts: any(str(name).endswith(HEAD) for name in parts["state_dict"]))


def load(path: Path, options: LoadOptions = LoadOptions()) -> LoadedModel:
    """Load a checkpoint and its `vocab.json`; raises CheckpointError if either is damaged or missing."""
    file = pickled.find_checkpoint(path) or path
    values = pickled.read_checkpoint(file)
    vocab = pickled.find_vocabulary(file, options.vocab, NAMES, "the vocab.json written by its training")
    options = replace(options, vocab=vocab)
    opt = Options(pickled.named_values(values.get("hyper_parameters")))
    with foreign.name_file_in_errors(file):
        prefix = next(name for name in values["state_dict"] if name.endswith(HEAD))[: -len(HEAD)]
        weights: dict[str, Tensor] = {
            name.removeprefix(prefix): tensor for name, tensor in values["state_dict"].items()
        }
        opt.check_allowed("activation", "relu", "gelu")
        tokens = _read_vocabulary(vocab)
        vocabulary = Vocabulary.of(tokens, tokens, SPECIALS)
        source, target = (weights[f"{side}_token_featurizer.embedding.weight"] for side in ("src", "tgt"))
        width = weights["transformer.encoder.norm.weight"].shape[0]
        if source.shape == (width, len(tokens)) != target.shape[::-1]:  # stored as linear layers in its first releases
            source, target = source.t(), target.t()
        state = {
            name.removeprefix("transformer."): tensor.float()
            for name, tensor in weights.items()
            if re.match(r"transformer\.(en|de)coder\.", name)
        }
        bias = weights["next_token_classifier.bias"]
        state |= vocabulary.reorder_tables(source, target, weights[HEAD], bias)
        stored = weights.get("positional_encoding.pe")
        return foreign.build_loaded_model(
            file,
            options,
            family="translation-transformer",
            state=state,
            positions=foreign.rounded_sinusoids(width) if stored is None else stored,
            vocabulary=vocabulary,
            hints=[opt.values.get("report_prediction_file")],
            heads=int(opt.require("num_heads")),
            activation=opt.values.get("activation") or "relu",
            norm_first=False,
            scale_embedding=False,
            source_specials=True,
        )


def _read_vocabulary(file: Path) -> list[str]:
    try:
        values: Any = json.loads(file.read_text(encoding="utf-8"))
        numbered = sorted((int(number), token) for number, token in values.items())
    except (OSError, ValueError, AttributeError, RecursionError) as error:
        raise CheckpointError(f"{file} is not a vocabulary of translation-transformer: {error}") from error
    if [number for number, _ in numbered] != list(range(len(numbered))):
        raise CheckpointError(f"{file} does not number its tokens 0, 1, 2, ...")
    return [str(token) for _, token in numbered]
