"""Load encoder-decoders of Hugging Face transformers (T5, mT5, BART, mBART) from a folder or from the local cache.

They become networks of ours (`importers.hf_weights`), for every runtime; what ours cannot express is computed in torch
by the layers of transformers (`model.runners.hf_runner`).

Nothing is fetched: a model that is not on this machine is refused with the command that gets it. Nothing is executed:
weights are read from safetensors only, and code that a checkpoint brings along is never run. Needs the extra `hf`.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, cast

import torch

import chemspec.tasks as tasks
from chemspec.importers.base import TEMPLATES, LoadedModel, LoadOptions, config_names
from chemspec.importers.hf_weights import InexpressibleError, translated
from chemspec.model.checkpoint import Checkpoint, CheckpointError
from chemspec.model.runners.hf_runner import FAMILIES, HfBackend, HfModel, IdMap
from chemspec.model.runtime import RuntimeConfig
from chemspec.model.session import Backend
from chemspec.model.transformer import Transformer
from chemspec.settings import Task
from chemspec.system import extras
from chemspec.tokenizer import BOS, EOS, PAD, TokenError, Tokenizer

OWN = "chemspec.json"  # in a folder: {"task": ..., "template": ...}
HOLE = "{query}"
BLANKS = ("▁", "Ġ")  # how sentencepiece and byte-level BPE write a blank

TOKENIZER_FILES = ("tokenizer.json", "spiece.model", "sentencepiece.bpe.model", "vocab.json")

# What `generate` would do to the log-probs and we do not, with the value that does nothing.
UNUSED: dict[str, Any] = {
    "repetition_penalty": 1.0,
    "encoder_repetition_penalty": 1.0,
    "no_repeat_ngram_size": 0,
    "encoder_no_repeat_ngram_size": 0,
    "min_length": 0,
    "min_new_tokens": None,
    "bad_words_ids": None,
    "sequence_bias": None,
    "suppress_tokens": None,
    "begin_suppress_tokens": None,
    "exponential_decay_length_penalty": None,
    "guidance_scale": None,
}


@dataclass(frozen=True)
class HfCheckpoint(LoadedModel):
    """A model in the layers of transformers, in fp32 on the CPU; its digest is of its files and template."""

    tokenizer: HfTokenizer
    model: HfModel = field(kw_only=True)


def _backend(model: HfModel, runtime: RuntimeConfig) -> tuple[Backend, str]:
    """Return what computes a model in the layers of transformers, and its runtime: torch.

    Raises:
        ValueError: for another runtime, or a precision that the model cannot be computed in.
    """
    if runtime.runtime not in ("auto", "torch"):
        raise ValueError(f"layers of transformers run in torch, not in the {runtime.runtime} runtime")
    if runtime.dtype == "int8":
        raise ValueError("int8 is for networks of chemspec's own; use fp32")
    _check_range(runtime, t5=model.family == "t5")
    model.to(runtime.device, runtime.precision)
    return HfBackend(model), "torch"


def _own_backend(model: Checkpoint, runtime: RuntimeConfig) -> tuple[Backend, str]:
    """Return what computes a model as a network of ours, and its runtime.

    Raises:
        ValueError: for a runtime or precision that it cannot be computed in.
    """
    _check_range(runtime, t5=model.config.relative_positions > 0)
    return runtime.backend(model)


def _check_range(runtime: RuntimeConfig, *, t5: bool) -> None:
    if runtime.dtype == "fp16" and t5:
        raise ValueError("T5 overflows in fp16; use bf16 or fp32")


class HfTokenizer:
    """A tokenizer of transformers behind the interface of `chemspec.tokenizer.Tokenizer`, in chemspec's ids.

    Attributes:
        template: the text that the model reads, with `{query}` where the SMILES goes.
        tokens: the text of every id; a blank is no text.
        alphabet: nothing, for a token may be a piece of several atoms: to drafters, text is just text.
        prompt_length: about how many tokens come before the query; only drafters rely on it.
    """

    alphabet: ClassVar[tuple[str, ...]] = ()

    def __init__(self, inner: Any, numbers: IdMap, template: str = HOLE) -> None:
        if template.count(HOLE) != 1:
            raise ValueError(f"template {template!r} must hold {HOLE} once, where the SMILES goes")
        self.inner, self.numbers, self.template = inner, numbers, template
        size = len(inner)
        texts = [_plain(token) for token in inner.convert_ids_to_tokens(list(range(size)))]
        self.tokens = tuple(texts[token] if token < size else f"<{token}>" for token in numbers.theirs)
        added = getattr(inner, "added_tokens_decoder", {})
        self._silent = {*inner.all_special_ids, *(number for number, token in added.items() if token.special)}
        self._unknown = inner.unk_token_id
        head = template[: template.index(HOLE)]
        self.prompt_length = len(self._split(head)) if head.strip() else 0

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def around(self) -> tuple[list[int], list[int]]:
        """The checkpoint's ids that its tokenizer puts before and after every text.

        Raises:
            ValueError: if it does something else to a text.
        """
        bare, whole = self._split("C"), list(self.inner("C")["input_ids"])
        for start in range(len(whole) - len(bare) + 1):
            if bare and whole[start : start + len(bare)] == bare:
                return whole[:start], whole[start + len(bare) :]
        raise ValueError(f"its tokenizer reads 'C' as {whole}, which does not contain {bare}")

    def lead(self, text: str) -> tuple[str, str]:
        """Return a query as it is: what comes before it, the template says."""
        return "", text

    def encode(self, smiles: str) -> tuple[int, ...]:
        """Return ids of the template filled with a SMILES, without what the tokenizer puts around it.

        Raises:
            TokenError: where the tokens do not give the text back.
        """
        text = self.template.replace(HOLE, smiles)
        ids = self._split(text)
        if self._unknown in ids:
            raise self._never_seen(smiles)
        restored = self.inner.decode(ids, clean_up_tokenization_spaces=False)
        if _solid(restored) != _solid(text):
            message = f"the model's tokenizer reads {text!r} as {restored!r}; it cannot answer for it"
            raise TokenError(message, 0, len(smiles))
        ours = self.numbers.ours
        return tuple(ours[token] for token in ids)

    def decode(self, ids: Sequence[int]) -> str:
        """Return the SMILES of an answer, up to the first eos: without special tokens, blanks and a dot at the end."""
        theirs = [self.numbers.theirs[token] for token in _until_eos(ids)]
        said = [token for token in theirs if token not in self._silent and token < len(self.inner)]
        return _solid(self.inner.decode(said, clean_up_tokenization_spaces=False)).rstrip(".")

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return the text of each id, up to the first eos, without pad and bos."""
        return [self.tokens[token] for token in _until_eos(ids) if token not in (PAD, BOS)]

    def lost_blank(self) -> tuple[str, ...]:
        """Return a note if the template ends in a blank that the tokenizer does not pass on."""
        filled = self.template.replace(HOLE, "C")
        if filled == filled.rstrip() or self._split(filled) != self._split(filled.rstrip()):
            return ()
        return ("its tokenizer drops the blank at the end of the template; take the tokenizer.json of its authors",)

    def _split(self, text: str) -> list[int]:
        return list(self.inner(text, add_special_tokens=False, verbose=False)["input_ids"])

    def _never_seen(self, smiles: str) -> TokenError:
        """Say which part of a text is unknown: the first character that alone is, or else all of it."""
        for place, char in enumerate(smiles):
            if self._unknown in self._split(char):
                message = f"the model has never seen {char!r} (position {place + 1})"
                return TokenError(f"{message}; it cannot answer for it", place, place + 1)
        return TokenError("the model has no tokens for this text", 0, len(smiles))


def _plain(token: str | None) -> str:
    for blank in BLANKS:
        token = (token or "").replace(blank, "")
    return token or ""


def _solid(text: str) -> str:
    """Remove blanks: SMILES hold none; tokenizers put some between tokens."""
    return "".join(text.split())


def _until_eos(ids: Sequence[int]) -> Iterator[int]:
    for token in ids:
        if token == EOS:
            return
        yield token


# --- finding ---------------------------------------------------------------------------------------


def recognises(folder: Path) -> bool:
    """Return whether a folder holds a model of transformers."""
    return config_names(folder, "model_type")


def cached(name: str) -> Path | None:
    """Return the folder of a model id such as `org/model` in the local cache of Hugging Face, if it is there."""
    hub = os.environ.get("HF_HUB_CACHE")
    home = os.environ.get("HF_HOME")
    general = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    cache = Path(hub) if hub else (Path(home) if home else general / "huggingface") / "hub"
    stored = cache / ("models--" + name.replace("/", "--"))
    try:
        revision = (stored / "refs" / "main").read_text(encoding="utf-8").strip()
    except OSError:
        return None
    found = stored / "snapshots" / revision
    return found if revision and found.is_dir() else None


def find(name: str) -> Path | None:
    """Return the folder of a model id such as `org/model`; None for a name that is none.

    Raises:
        CheckpointError: if the model is not in the local cache, with the command that gets it.
    """
    parts = name.split("/")
    if len(parts) != 2 or not all(part.strip(".") for part in parts) or "\\" in name:
        return None
    folder = cached(name)
    if folder is None:
        raise CheckpointError(
            f"{name!r} is neither a folder nor in the local cache of Hugging Face, and chemspec fetches nothing by "
            f"itself; get it once with `hf download {name}` (a command of the extra hf)"
        )
    return folder


# --- loading ---------------------------------------------------------------------------------------


def load(folder: Path, *, task: Task | None = None, template: str = "", name: str = "") -> LoadedModel:
    """Read a folder that transformers wrote, as a network of ours if there is such a one.

    Args:
        folder: as `load_theirs` takes it, like the rest.
        task: likewise.
        template: likewise.
        name: likewise.

    Raises:
        CheckpointError: for a model that cannot be used, saying what could be done.
        ModuleNotFoundError: without the extra `hf`.
    """
    theirs = load_theirs(folder, task=task, template=template, name=name)
    try:
        weights = translated(theirs.model)
    except InexpressibleError as why:
        return replace(theirs, found={**theirs.found, "computed by": f"layers of transformers, in torch ({why})"})
    own = Checkpoint(theirs.name, theirs.task, weights, cast(Tokenizer, theirs.tokenizer), folder, theirs.digest)
    _check_agreement(theirs.model, Transformer.of(weights), folder)
    return LoadedModel(
        theirs.name,
        theirs.task,
        theirs.tokenizer,
        weights.config,
        folder,
        theirs.digest,
        backend=partial(_own_backend, own),
        notes=theirs.notes,
        found={**theirs.found, "computed by": "a network of chemspec's, in every runtime"},
        save=theirs.save,
    )


def load_theirs(folder: Path, *, task: Task | None = None, template: str = "", name: str = "") -> HfCheckpoint:
    """Read a folder that transformers wrote, to be computed by its layers.

    Args:
        folder: where it lies.
        task: what the model is for; none takes what the folder's `chemspec.json` says.
        template: the text that the model reads, with `{query}` for the SMILES; "" takes that of `chemspec.json`, or the
            bare query.
        name: to call it by; "" takes the folder's.

    Raises:
        CheckpointError: for a model that cannot be used, saying what could be done.
        ModuleNotFoundError: without the extra `hf`.
    """
    library = _library()
    _check_kind(folder)
    own = _own_settings(folder)
    task = task or own.get("task")
    if task is None:
        raise CheckpointError(
            f"{folder}: a Hugging Face model does not say what it is for; add --task forward or --task retro "
            f'(or a file {OWN} with {{"task": "retro"}} to the folder)'
        )
    template = template or own.get("template") or HOLE
    template = TEMPLATES.get(template, template)
    _check_files(folder)
    network = _network(library, folder)
    inner = _tokenizer(library, folder, network.config.model_type)
    try:
        model, tokenizer = _assemble(network, inner, template)
    except ValueError as error:
        raise CheckpointError(f"{folder}: {error}") from error
    _check_agreement(model, model, folder)
    return HfCheckpoint(
        name=name or folder.name,
        task=task,
        tokenizer=tokenizer,
        config=model.config,
        folder=folder,
        digest=_digest(folder, template),
        backend=partial(_backend, model),
        notes=(*_notes(network.generation_config), *tokenizer.lost_blank()),
        found=_described(network, tokenizer),
        save=partial(_save, folder, {"task": task, "template": template}),
        model=model,
    )


def _library() -> Any:
    extras.require("transformers", what="this is a Hugging Face model")
    import transformers

    return transformers


def _check_kind(folder: Path) -> None:
    kind = json.loads((folder / "config.json").read_text(encoding="utf-8"))["model_type"]
    if kind not in FAMILIES:
        raise CheckpointError(
            f"{folder}: model_type {kind!r} is not supported; encoder-decoders of the types {', '.join(FAMILIES)} are "
            "(models with an encoder or a decoder alone do not turn one SMILES into another here)"
        )


def _own_settings(folder: Path) -> dict[str, Any]:
    file = folder / OWN
    if not file.is_file():
        return {}
    try:
        values = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{file} is no JSON text: {error}") from error
    if not isinstance(values, dict) or not all(isinstance(one, str) for one in values.values()):
        raise CheckpointError(f"{file} must hold an object of texts")
    if unknown := sorted(set(values) - {"task", "template"}):
        raise CheckpointError(f"{file}: {unknown[0]!r} is not task or template")
    try:
        tasks.checked(values.get("task", "forward"))
    except ValueError as error:
        raise CheckpointError(f"{file}: {error}") from error
    return values


def _check_files(folder: Path) -> None:
    """Refuse what transformers would take without a word: pickles, and folders without a tokenizer."""
    names = {file.name for file in folder.iterdir()}
    if not names & {"model.safetensors", "model.safetensors.index.json"}:
        pickled = sorted(name for name in names if name.endswith((".bin", ".pt", ".ckpt", ".h5")))
        if not pickled:
            raise CheckpointError(f"{folder}: model.safetensors is missing")
        raise CheckpointError(
            f"{folder}: its weights are in {pickled[0]}, which can hold code and is not opened. If you trust where it "
            'comes from, convert it once: python -c "from transformers import AutoModelForSeq2SeqLM as M; '
            f"M.from_pretrained('{folder}').save_pretrained('{folder}')\""
        )
    if not names & set(TOKENIZER_FILES) and _tokenizer_class(folder) != "ByT5Tokenizer":
        raise CheckpointError(
            f"{folder} has no tokenizer: none of {', '.join(TOKENIZER_FILES)} is there; copy the files of the "
            "tokenizer that the model was trained with"
        )


def _tokenizer_class(folder: Path) -> str:
    try:
        values = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
        return str(values.get("tokenizer_class", ""))
    except (OSError, ValueError, AttributeError, RecursionError):
        return ""


@contextmanager
def _quiet(library: Any) -> Iterator[None]:
    """Silence progress bars and advice of transformers while a model is read; what matters is checked here."""
    logging = library.utils.logging
    shown, loudness = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(loudness)
        if shown:
            logging.enable_progress_bar()


@contextmanager
def _reading(folder: Path, what: str) -> Iterator[None]:
    """Let transformers read something; whatever it raises becomes a message."""
    try:
        yield
    except Exception as error:  # there is no telling which
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise CheckpointError(f"{folder}: {what} cannot be read: {first}") from error


def _network(library: Any, folder: Path) -> Any:
    with _reading(folder, "the model"), _quiet(library):
        network, info = library.AutoModelForSeq2SeqLM.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False, use_safetensors=True, output_loading_info=True
        )
    if missing := sorted(info["missing_keys"]):
        raise CheckpointError(f"{folder}: {missing[0]} is missing from its weights")
    network = network.float().eval().requires_grad_(False)
    for name, tensor in network.state_dict().items():
        if not torch.isfinite(tensor).all():
            raise CheckpointError(f"{folder}: {name} holds infinite or undefined numbers")
    return network


def _tokenizer(library: Any, folder: Path, kind: str) -> Any:
    """Return the tokenizer, from its own file where transformers 5 would build another one.

    Of T5 it takes the vocabulary alone and drops what `tokenizer.json` says about normalising and splitting: ReactionT5
    then loses the blank after its `REAGENT:`.
    """
    file = folder / "tokenizer.json"
    with _reading(folder, "the tokenizer"):
        if FAMILIES[kind] != "t5" or not file.is_file():
            return library.AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        names = {"eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
        for beside in ("special_tokens_map.json", "tokenizer_config.json"):
            said = json.loads((folder / beside).read_text(encoding="utf-8")) if (folder / beside).is_file() else {}
            for name in names:
                token = said.get(name)
                names[name] = (token.get("content") if isinstance(token, dict) else token) or names[name]
        return library.PreTrainedTokenizerFast(tokenizer_file=str(file), **names)


def _save(source: Path, own: Mapping[str, str], folder: Path, card: str) -> None:
    """Copy the files that are read here, and say what the model is for."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in source.iterdir():
        if file.is_file() and file.suffix in (".safetensors", ".json", ".model", ".txt"):
            shutil.copyfile(file, folder / file.name)
    (folder / OWN).write_text(json.dumps(own), encoding="utf-8")
    (folder / "card.md").write_text(card, encoding="utf-8")


def _described(network: Any, tokenizer: HfTokenizer) -> dict[str, str]:
    config = network.config
    depth = [getattr(config, name, None) for name in ("num_layers", "encoder_layers")]
    written = [getattr(config, name, None) for name in ("num_decoder_layers", "decoder_layers")]
    layers = " + ".join(str(next((one for one in both if one), "?")) for both in (depth, written))
    return {
        "format": f"Hugging Face, {config.model_type}",
        "layers": f"{layers}, width {config.d_model}",
        "parameters": f"{sum(weight.numel() for weight in network.parameters()):,}",
        "vocabulary": f"{len(tokenizer)} tokens",
        "reads": repr(tokenizer.template),
    }


def _assemble(network: Any, inner: Any, template: str) -> tuple[HfModel, HfTokenizer]:
    """Return model and tokenizer with chemspec's ids.

    Raises:
        ValueError: for special tokens that are missing, or a tokenizer of another model.
    """
    config, rules = network.config, network.generation_config

    def special(name: str) -> Any:
        found = getattr(rules, name, None)
        return getattr(config, name, None) if found is None else found

    size = network.get_output_embeddings().weight.shape[0]
    start, eos, first = (special(f"{name}_token_id") for name in ("decoder_start", "eos", "forced_bos"))
    start = special("bos_token_id") if start is None else start
    if isinstance(eos, list) and len(eos) == 1:
        eos = eos[0]
    if not isinstance(start, int) or not isinstance(eos, int):
        raise ValueError(f"decoder_start_token_id is {start} and eos_token_id {eos}; both must be one number")
    if len(inner) > size:
        raise ValueError(f"its tokenizer has {len(inner)} tokens, the model only {size}")
    used = {"decoder_start_token_id": start, "eos_token_id": eos, "forced_bos_token_id": first}
    for name, token in used.items():
        if token is not None and not 0 <= token < size:
            raise ValueError(f"{name} is {token}, but the model has {size} tokens")
    numbers = IdMap.of(size, start=start, eos=eos, pad=special("pad_token_id"), unk=inner.unk_token_id)
    tokenizer = HfTokenizer(inner, numbers, template)
    return HfModel(network, numbers, around=tokenizer.around, first=first), tokenizer


def _check_agreement(model: HfModel, own: HfModel | Transformer, folder: Path) -> None:
    """Compare a few logits with those of transformers: a release or an option unknown to us must not pass unnoticed.

    Args:
        model: what transformers computes with its own code.
        own: what computes them here, of its layers or of ours.
        folder: where the model lies.

    Raises:
        CheckpointError: if they differ by more than rounding does.
    """
    numbers, (before, after) = model.numbers, model.around
    source, text = numbers.written[-3:], (BOS, *numbers.written[-4:])
    read, begun = ([numbers.theirs[token] for token in ids] for ids in (source, text))
    with torch.inference_mode():
        theirs = model.model(
            input_ids=torch.tensor([[*before, *read, *after]]), decoder_input_ids=torch.tensor([begun]), use_cache=False
        )
        wanted = theirs.logits[0]
        if isinstance(own, Transformer):
            found = own(torch.tensor([own.config.read(source)]), torch.tensor([text]))[0]
            rows = slice(int(own.config.forced_first >= 0), None)  # the first token may be no choice
            found = found[rows, numbers.written]
            wanted = wanted[rows, [numbers.theirs[token] for token in numbers.written]]
        else:
            memory, source_mask = own.encode([source])
            keys, depths = own.memory_cache(memory), torch.arange(len(text))[None]
            causal_mask = (depths[:, :, None] >= depths[:, None, :])[:, None]
            (found,), _ = own.step(torch.tensor([begun]), depths, causal_mask, keys[:, :, :, :, :0], keys, source_mask)
    worst = float((found - wanted).abs().max())
    if not worst <= 1e-3 * (1 + float(wanted.abs().max())):
        version = _library().__version__
        raise CheckpointError(
            f"{folder}: our logits differ from those of transformers {version} by {worst:.2g}; the checkpoint uses an "
            "option, or this release a layout, that chemspec does not know. Please report it"
        )


def _notes(rules: Any) -> tuple[str, ...]:
    """Return what the checkpoint tells `generate` to do and chemspec does not do."""
    found = {name: getattr(rules, name, None) for name in UNUSED}
    told = [f"{name}={value}" for name, value in found.items() if value not in (None, UNUSED[name], [])]
    return (f"not applied, though the checkpoint asks for it: {', '.join(told)}",) if told else ()


# What chemspec puts there.
MEASURED = {"confidence.json", "drafting.json", "drafting.safetensors", "evaluation.json", "familiarity.json"}


def _digest(folder: Path, template: str) -> str:
    """Return a digest of weights, config, tokenizer and template, which names caches, jobs and measurements."""
    digest = hashlib.sha256(template.encode())
    for file in sorted(folder.iterdir()):
        is_its_own = file.suffix in (".safetensors", ".json", ".model", ".txt") and file.name not in MEASURED
        if is_its_own and file.is_file():
            with file.open("rb") as content:
                digest.update(hashlib.file_digest(content, "sha256").digest())
    return digest.hexdigest()[:16]


def load_as(folder: Path, options: LoadOptions) -> LoadedModel:
    """Read a model as `load` does, with what a caller said."""
    return load(folder, task=options.task, template=options.template, name=options.name)
