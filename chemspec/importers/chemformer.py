"""Load Lightning checkpoints of Chemformer 1.x and 2.x (Irwin et al.), with embedded or separate vocabulary."""

import json
import re
from pathlib import Path
from typing import Any

from torch import Tensor

from chemspec.importers import foreign, pickled
from chemspec.importers.base import LoadedModel, LoadOptions
from chemspec.importers.foreign import Options, Vocabulary
from chemspec.model.checkpoint import CheckpointError

SPECIALS = ("<PAD>", "^", "&", "?")
NAMES = (
    *("bart_vocab_downstream.json", "bart_vocab.json", "bart_vocab_downstream.txt", "bart_vocab.txt"),
    *("vocab.json", "vocab.txt"),
)
HEAD = "token_fc.weight"


def recognises(path: Path) -> bool:
    """Return whether a path is a Chemformer checkpoint, or a folder with one."""
    return pickled.matches(path, lambda parts: {"pos_emb", HEAD} <= set(parts["state_dict"]))


def load(path: Path, options: LoadOptions = LoadOptions()) -> LoadedModel:
    """Load a checkpoint; raises CheckpointError for a damaged one, or one without a vocabulary (`read_tokens`)."""
    file = pickled.find_checkpoint(path) or path
    values = pickled.read_checkpoint(file)
    opt = Options(pickled.named_values(values.get("hyper_parameters")))
    tokens = read_tokens(file, options.vocab)
    with foreign.name_file_in_errors(file):
        weights: dict[str, Tensor] = values["state_dict"]
        opt.check_allowed("activation", "relu", "gelu")
        vocabulary = Vocabulary.of(tokens, tokens, SPECIALS)
        state = {name: tensor.float() for name, tensor in weights.items() if re.match(r"(en|de)coder\.", name)}
        table = weights["emb.weight"]
        state |= vocabulary.reorder_tables(table, table, weights["token_fc.weight"], weights["token_fc.bias"])
        return foreign.build_loaded_model(
            file,
            options,
            family="Chemformer",
            state=state,
            positions=weights["pos_emb"],
            vocabulary=vocabulary,
            hints=[opt.values.get(name) for name in ("task", "forward_prediction", "datamodule_type")],
            heads=int(opt.require("num_heads")),
            activation=opt.values.get("activation") or "gelu",
            norm_first=True,
            scale_embedding=True,
            source_specials=True,
        )


def read_tokens(file: Path, vocab: Path | None = None) -> list[str]:
    """Return tokens by id from `vocab`, the checkpoint, or `NAMES` in its folder; else raise CheckpointError."""
    hyper_parameters = pickled.named_values(pickled.read_outline(file).get("hyper_parameters"))
    tokens = None if vocab else _embedded_tokens(hyper_parameters)
    if tokens is None:
        what = "bart_vocab.json (2.x) or bart_vocab.txt (1.x) of the release that it was trained with"
        tokens = _read_vocabulary(pickled.find_vocabulary(file, vocab, NAMES, what))
    return tokens


def _embedded_tokens(values: Any) -> list[str] | None:
    for holder in (pickled.named_values(values.get("decode_sampler")), values):
        for name in ("tokeniser", "tokenizer"):
            named = pickled.named_values(holder.get(name))
            words = next((named[key] for key in ("vocab", "vocabulary") if named.get(key)), None)
            if isinstance(words, dict):
                return [str(token) for token, _ in sorted(words.items(), key=lambda item: item[1])]
            if isinstance(words, (list, tuple)):
                return [str(token) for token in words]
    return None


def _read_vocabulary(file: Path) -> list[str]:
    """Read the tokens by id, from a JSON file with `vocabulary`, or a text file with one token per line."""
    try:
        text = file.read_text(encoding="utf-8")
        values: Any = json.loads(text)["vocabulary"] if file.suffix == ".json" else text.split("\n")
        return [token for token in values if isinstance(token, str) and token]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise CheckpointError(f"{file} is not a vocabulary of Chemformer: {error}") from error
