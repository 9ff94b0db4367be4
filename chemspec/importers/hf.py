"""Load models of Hugging Face transformers from a folder or from the local cache.

T5, mT5, BART, mBART, Marian and Pegasus, and without an encoder GPT-2, LLaMA, Mistral and Qwen2, are converted to
`Transformer` (`importers.hf_weights`), for every runtime.
Nothing is downloaded: a model that is not on this machine raises an error with the command that downloads it. No code
is executed: weights are read from safetensors, or from a pickle by `importers.pickled`, and custom code of a checkpoint
is never run. Needs the extra `hf`.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

import msgspec
import torch

import chemspec.tasks as tasks
from chemspec.importers import pickled
from chemspec.importers.base import TEMPLATES, LoadedModel, LoadOptions, read_json_object
from chemspec.importers.hf_causal import find_start
from chemspec.importers.hf_tokenizer import PLACEHOLDER, HfTokenizer
from chemspec.importers.hf_weights import FAMILIES, HfNetwork, IdMap, convert_weights
from chemspec.importers.unread import explain_unread_format
from chemspec.model.checkpoint import Checkpoint, CheckpointError
from chemspec.model.runner import Backend
from chemspec.model.runtime import RuntimeConfig
from chemspec.model.transformer import Transformer
from chemspec.settings import ModelConfig
from chemspec.system import extras
from chemspec.tokenizer import BOS, Tokenizer

SETTINGS_FILE = "chemspec.json"  # optional file in a model folder: {"task": ..., "template": ...}
PICKLE = "pytorch_model.bin"  # name of pickled weights
TOKENIZER_FILES = ("tokenizer.json", "spiece.model", "sentencepiece.bpe.model", "tokenizer.model", "vocab.json")

# Options of `generate` that change log-probs and are not applied here, with their neutral values.
UNUSED = read_json_object(Path(__file__).with_name("hf_unused.json"))


def _open_converted(model: Checkpoint, runtime: RuntimeConfig) -> tuple[Backend, str]:
    if runtime.dtype == "fp16" and model.config.relative_positions > 0:
        raise ValueError("T5 overflows in fp16; use bf16 or fp32")
    return runtime.backend(model)


def recognises(folder: Path) -> bool:
    """Return whether a folder is a model of transformers."""
    return "model_type" in read_json_object(folder / "config.json")


def find(name: str) -> Path | None:
    """Return the folder of an id `org/model`, or None; raises CheckpointError, with a command, if not in the cache."""
    parts = name.split("/")
    if len(parts) != 2 or not all(part.strip(".") for part in parts) or "\\" in name:
        return None
    general = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    home = Path(os.environ.get("HF_HOME") or general / "huggingface")
    stored = Path(os.environ.get("HF_HUB_CACHE") or home / "hub") / ("models--" + name.replace("/", "--"))
    with suppress(OSError):
        revision = (stored / "refs" / "main").read_text(encoding="utf-8").strip()
        if revision and (snapshot := stored / "snapshots" / revision).is_dir():
            return snapshot
    raise CheckpointError(
        f"{name!r} is neither a folder nor in the local cache of Hugging Face, and chemspec does not download "
        f"models; get it with `hf download {name}` (a command of the extra hf)"
    )


# --- loading ---------------------------------------------------------------------------------------


def load(folder: Path, options: LoadOptions = LoadOptions()) -> LoadedModel:
    """Load a model of transformers, converted to `Transformer`.

    Task and template default to those of the folder's `chemspec.json`, else the template is the bare query. Raises
    CheckpointError for an unusable model, with a remedy, or ModuleNotFoundError without the extra `hf`.
    """
    if options.vocab or options.unknown_as_unk:
        raise CheckpointError(f"{folder}: a Hugging Face model has its own tokenizer; leave out --vocab and --unknown")
    extras.require_packages("transformers", what="this is a Hugging Face model")
    import transformers as library

    kind = read_json_object(folder / "config.json")["model_type"]
    if kind not in FAMILIES:
        raise CheckpointError(
            f"{folder}: model_type {kind!r} is not supported; models of the types {', '.join(FAMILIES)} are "
            "(those with an encoder alone write no text)"
        )
    folder_settings = _folder_settings(folder)
    task = options.task or folder_settings.get("task")
    if task is None:
        raise CheckpointError(
            f"{folder}: a Hugging Face model does not state its task; add --task forward or --task retro "
            f'(or a file {SETTINGS_FILE} with {{"task": "retro"}} to the folder)'
        )
    template = options.template or folder_settings.get("template") or PLACEHOLDER
    template = TEMPLATES.get(template, template)
    _check_files(folder)
    network, tokenizer = load_network(library, folder, template)
    try:
        weights = convert_weights(network)
    except ValueError as error:
        raise CheckpointError(f"{folder}: chemspec does not support this architecture: {error}") from error
    _check_agreement(network, Transformer.of(weights), folder)
    name, digest = options.name or folder.name, _digest_of_folder(folder, template)
    notes = (*_ignored_options_note(network.model.generation_config), *tokenizer.lost_blank_note())
    converted = Checkpoint(name, task, weights, cast(Tokenizer, tokenizer), folder, digest, notes)
    return LoadedModel.of(
        converted,
        backend=partial(_open_converted, converted),
        details=_describe(network.model, weights.config, tokenizer) | {"digest": digest},
        save=partial(_save_copy, folder, {"task": task, "template": template}),
    )


def _folder_settings(folder: Path) -> dict[str, Any]:
    file = folder / SETTINGS_FILE
    if not file.is_file():
        return {}
    try:
        values = msgspec.json.decode(file.read_bytes(), type=dict[str, str])
        if unknown := sorted(set(values) - {"task", "template"}):
            raise ValueError(f"{unknown[0]!r} is not task or template")
        tasks.check_task(values.get("task", "forward"))
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{file}: {error}") from error
    return values


def _check_files(folder: Path) -> None:
    """Refuse folders that transformers accepts silently: pickled weights, or no tokenizer."""
    names = {file.name for file in folder.iterdir()}
    if not names & {"model.safetensors", "model.safetensors.index.json", PICKLE}:
        explain_unread_format(folder)
        others = sorted(name for name in names if name.endswith((".bin", ".pt", ".ckpt", ".h5")))
        if not others:
            raise CheckpointError(f"{folder}: model.safetensors is missing")
        raise CheckpointError(
            f"{folder}: its weights are in {others[0]}, which is not read ({PICKLE} is). If you trust its source, "
            'convert it once: python -c "from transformers import AutoModelForSeq2SeqLM as M; '
            f"M.from_pretrained('{folder}').save_pretrained('{folder}')\""
        )
    kind = read_json_object(folder / "tokenizer_config.json").get("tokenizer_class")
    if not names & set(TOKENIZER_FILES) and kind != "ByT5Tokenizer":  # ByT5 reads bytes
        raise CheckpointError(
            f"{folder} has no tokenizer: none of {', '.join(TOKENIZER_FILES)} is there; copy the files of the "
            "tokenizer that the model was trained with"
        )


@contextmanager
def _silence(library: Any) -> Iterator[None]:
    """Disable progress bars and warnings of transformers while a model is loaded; the loaded model is checked here."""
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
def _wrap_errors(folder: Path, what: str) -> Iterator[None]:
    """Convert any error of transformers to CheckpointError."""
    try:
        yield
    except Exception as error:  # transformers raises errors of many types
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise CheckpointError(f"{folder}: {what} cannot be read: {first}") from error


def load_network(library: Any, folder: Path, template: str = PLACEHOLDER) -> tuple[HfNetwork, HfTokenizer]:
    """Load network and tokenizer with `library`, the module `transformers`."""
    model = _load_model(library, folder)
    inner = _load_tokenizer(library, folder, model.config.model_type)
    try:
        return _add_ids(model, inner, template)
    except ValueError as error:
        raise CheckpointError(f"{folder}: {error}") from error


def _load_model(library: Any, folder: Path) -> Any:
    causal = FAMILIES[read_json_object(folder / "config.json")["model_type"]] == "causal"
    auto = library.AutoModelForCausalLM if causal else library.AutoModelForSeq2SeqLM
    where = {"local_files_only": True, "trust_remote_code": False}
    if not any(folder.glob("*.safetensors")):
        network, info = _load_pickled_model(library, auto, folder, where)
    else:
        with _wrap_errors(folder, "the model"), _silence(library):
            network, info = auto.from_pretrained(folder, use_safetensors=True, output_loading_info=True, **where)
    if missing := sorted(info["missing_keys"]):
        raise CheckpointError(f"{folder}: {missing[0]} is missing from its weights")
    network = network.float().eval().requires_grad_(False)
    for name, tensor in network.state_dict().items():
        if not torch.isfinite(tensor).all():
            raise CheckpointError(f"{folder}: {name} holds infinite or undefined numbers")
    return network


def _load_pickled_model(library: Any, auto: Any, folder: Path, where: dict[str, bool]) -> tuple[Any, dict[str, Any]]:
    """Load a network from a pickle, read without executing code in it (`pickled`)."""
    state = pickled.read_checkpoint(folder / PICKLE)
    if odd := next((name for name, value in state.items() if not isinstance(value, torch.Tensor)), ""):
        raise CheckpointError(f"{folder / PICKLE}: {odd!r:.80} is no tensor")
    with _wrap_errors(folder, "the model"), _silence(library):
        config = library.AutoConfig.from_pretrained(folder, **where)
        kind = type(auto.from_config(config))
        network, info = kind.from_pretrained(None, config=config, state_dict=state, output_loading_info=True)
        if (folder / "generation_config.json").is_file():
            network.generation_config = library.GenerationConfig.from_pretrained(folder, local_files_only=True)
    return network, info


def _load_tokenizer(library: Any, folder: Path, kind: str) -> Any:
    # For T5, transformers 5 ignores the rules of `tokenizer.json`: ReactionT5 then loses the blank after `REAGENT:`.
    file = folder / "tokenizer.json"
    with _wrap_errors(folder, "the tokenizer"):
        if FAMILIES[kind] == "bart" or not file.is_file():
            return library.AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        names = {"eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"} if FAMILIES[kind] == "t5" else {}
        for file_name in ("special_tokens_map.json", "tokenizer_config.json"):
            settings = read_json_object(folder / file_name)
            for name in ("eos_token", "pad_token", "unk_token"):
                token = settings.get(name)
                if text := token.get("content") if isinstance(token, dict) else token:
                    names[name] = text
        return library.PreTrainedTokenizerFast(tokenizer_file=str(file), **names)


def _save_copy(source: Path, folder_settings: Mapping[str, str], folder: Path, card: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for file in source.iterdir():
        if file.is_file() and _is_of_model(file):
            shutil.copyfile(file, folder / file.name)
    (folder / SETTINGS_FILE).write_text(json.dumps(folder_settings), encoding="utf-8")
    (folder / "card.md").write_text(card, encoding="utf-8")


def _describe(network: Any, config: ModelConfig, tokenizer: HfTokenizer) -> dict[str, str]:
    return {
        "format": f"Hugging Face, {network.config.model_type}",
        "layers": f"{config.encoder_layers} + {config.decoder_layers}, width {config.d_model}",
        "parameters": f"{sum(weight.numel() for weight in network.parameters()):,}",
        "vocabulary": f"{len(tokenizer)} tokens",
        "reads": repr(tokenizer.template),
    }


def _add_ids(network: Any, inner: Any, template: str) -> tuple[HfNetwork, HfTokenizer]:
    config, rules = network.config, network.generation_config

    def special(name: str) -> Any:
        value = getattr(rules, name, None)
        return getattr(config, name, None) if value is None else value

    size = network.get_output_embeddings().weight.shape[0]
    start, eos, first = (special(f"{name}_token_id") for name in ("decoder_start", "eos", "forced_bos"))
    start = special("bos_token_id") if start is None else start
    causal = FAMILIES[config.model_type] == "causal"
    if causal:
        start, first = find_start(inner, template, PLACEHOLDER), None
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
    tokenizer = HfTokenizer(inner, numbers, template, causal=causal)
    return HfNetwork(network, numbers, around=tokenizer.around, first=first), tokenizer


def _check_agreement(network: HfNetwork, converted: Transformer, folder: Path) -> None:
    """Compare a few logits with those of transformers, to detect unknown options and releases."""
    numbers, (before, after) = network.numbers, network.around
    source, text = numbers.written[-3:], (BOS, *numbers.written[-4:])
    source_ids, decoder_ids = ([numbers.theirs[token] for token in ids] for ids in (source, text))
    with torch.inference_mode():
        if network.is_causal:
            theirs = network.model(
                input_ids=torch.tensor([[*before, *source_ids, *decoder_ids]]), use_cache=False
            ).logits
            theirs = theirs[:, -len(decoder_ids) :]
        else:
            theirs = network.model(
                input_ids=torch.tensor([[*before, *source_ids, *after]]),
                decoder_input_ids=torch.tensor([decoder_ids]),
                use_cache=False,
            ).logits
        logits = converted(torch.tensor([converted.config.encoder_ids(source)]), torch.tensor([text]))[0]
    rows = slice(int(converted.config.forced_first >= 0), None)  # the first token may be forced
    logits = logits[rows, numbers.written]
    expected = theirs[0][rows, [numbers.theirs[token] for token in numbers.written]]
    worst = float((logits - expected).abs().max())
    if not worst <= 1e-3 * (1 + float(expected.abs().max())):
        raise CheckpointError(
            f"{folder}: our logits differ from those of transformers {version('transformers')} by {worst:.2g}; the "
            "checkpoint uses an option, or this release a layout, that chemspec does not support. Please report it"
        )


def _ignored_options_note(rules: Any) -> tuple[str, ...]:
    """Return a note on generation options of the checkpoint that chemspec does not apply."""
    options = {name: getattr(rules, name, None) for name in UNUSED}
    active = [f"{name}={value}" for name, value in options.items() if value not in (None, UNUSED[name], [])]
    return (f"options of the checkpoint that are not applied: {', '.join(active)}",) if active else ()


# Files that chemspec adds to a model folder.
ADDED_FILES = {"confidence.json", "drafting.json", "drafting.safetensors", "evaluation.json", "familiarity.json"}


def _is_of_model(file: Path) -> bool:
    """Return whether a file is part of a model: weights, settings or vocabulary."""
    return file.suffix in (".safetensors", ".json", ".model", ".txt") or file.name == PICKLE


def _digest_of_folder(folder: Path, template: str) -> str:
    """Return a digest of weights, config, tokenizer and template, the key of caches, jobs and measurements."""
    digest = hashlib.sha256(template.encode())
    for file in sorted(folder.iterdir()):
        is_its_own = _is_of_model(file) and file.name not in ADDED_FILES
        if is_its_own and file.is_file():
            with file.open("rb") as content:
                digest.update(hashlib.file_digest(content, "sha256").digest())
    return digest.hexdigest()[:16]
