"""Resources of drafters: cost curve, calibration, and learned drafters of a model, with their installation.

torch is imported only if a drafter needs it.
"""

import shutil
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import Any, get_args

from chemspec.decode.draft_history import DraftHistories
from chemspec.decode.parking import ParkingGaps
from chemspec.draft.calibration import DrafterCalibration, default_table
from chemspec.draft.learned.small import DraftModel
from chemspec.importers.base import LoadedModel
from chemspec.importers.model_formats import load_native
from chemspec.model import checkpoint
from chemspec.model.checkpoint import TRAINING, DrafterCheckpoint, drafter_folder, load_drafter
from chemspec.model.cost import CostCurve
from chemspec.model.manifest import write_manifest
from chemspec.model.probe import probe
from chemspec.model.runner import Backend
from chemspec.model.runtime import RuntimeConfig
from chemspec.settings import NetworkKind
from chemspec.system.extras import require_packages
from chemspec.system.untrusted import read_untrusted_json
from chemspec.tokenizer import Tokenizer

MORE = "chemspec-smiles-more"  # the distribution with drafters of the shipped models
SMALL_MODELS = ("ar", "medium")  # ordinary models that draft for a larger one with the same vocabulary
FILES = ("config.json", "model.safetensors", "vocab.json", "card.md")


class DrafterResources:
    """Resources for drafting with one loaded model, loaded on first use; thread-safe."""

    def __init__(self, loaded: LoadedModel, backend: Backend, runtime_config: RuntimeConfig) -> None:
        # `loaded` itself is not stored, because it contains a second copy of the weights.
        self.name, self.task, self.folder = loaded.name, loaded.task, loaded.folder
        self.digest, self.tokenizer = loaded.digest, loaded.tokenizer
        self.config = loaded.config
        self.backend, self.runtime_config = backend, runtime_config
        self._making = Lock()
        self.measured_curve: CostCurve | None = None
        self.loaded_calibration: DrafterCalibration | None = None
        self._loaded: dict[str, Any] = {}  # learned drafters by kind
        learned = runtime_config.cache_name(self.digest)
        self.histories, self.gaps = DraftHistories(f"{learned}.drafts.json"), ParkingGaps(f"{learned}.parking.json")

    def cost_curve(self) -> CostCurve:
        """Return the cost curve of a forward pass; measured on first use and cached on disk."""
        with self._making:
            if self.measured_curve is None:
                self.measured_curve = self.runtime_config.curve(self.digest, self.backend, self.config)
            return self.measured_curve

    def calibration(self) -> DrafterCalibration:
        """Return the calibration of the model's drafters, with the task's default edit table if it has none.

        Loaded on first use; raises ValueError, naming the file, if it is damaged.
        """
        with self._making:
            if self.loaded_calibration is None:
                calibration = DrafterCalibration.load(self.folder, vocab_size=self.config.vocab_size)
                # The default table is one of single symbols.
                if calibration.edit_table is None and not self.tokenizer.merges:
                    table = default_table(self.task, self.tokenizer.smiles_tokens)
                    calibration = replace(calibration, edit_table=table)
                self.loaded_calibration = calibration
            return self.loaded_calibration

    def learned_drafter(self, kind: str) -> Any:
        """Return the learned drafter of a kind, on the model's device; loaded on first use.

        For "ar" and "medium" a `DraftModel` on the same runtime; otherwise a `DrafterCheckpoint` in torch, or for
        "spec_drafter" in the native kernel if it supports it. Raises ValueError if there is none that fits the model.
        """
        with self._making:
            if kind not in self._loaded:
                folder = drafter_folder(self.folder, kind)
                is_network = kind in get_args(NetworkKind)
                # For a Hugging Face model `_load_network` raises a more specific error.
                if not folder.is_dir() and (isinstance(self.tokenizer, Tokenizer) or not is_network):
                    raise ValueError(
                        f"there is no drafter {kind!r} for model {self.name!r} ({folder} is missing); those that are "
                        f"shipped come with `pip install {MORE}` (of a clone: `pip install ./more`). Or train one: "
                        f"{training_command(self.task, kind, self.folder)}, installed with `chemspec train "
                        f"install-drafter RUN --kind {kind} --model {self.folder}`, or choose another drafter"
                    )
                self._loaded[kind] = (self._load_network if is_network else self._load_small_model)(kind, folder)
            return self._loaded[kind]

    def _load_network(self, kind: str, folder: Path) -> DrafterCheckpoint:
        require_packages("torch", what=f"the drafter {kind}")
        from chemspec.model.transformer import Transformer

        if not isinstance(self.tokenizer, Tokenizer):
            raise ValueError(
                f"model {self.name} is a Hugging Face model, for which there is no drafter {kind!r}; choose another"
            )
        network = load_drafter(folder, tokenizer=self.tokenizer, target=self.digest)
        network.model.to(self.runtime_config.device, self.runtime_config.precision)
        if self.runtime_config.runtime != "native":
            return network
        if isinstance(network.model, Transformer):
            from chemspec.model.runners.native.runner import NativeBackend, NoKernelError

            with suppress(NoKernelError):  # torch is used for unsupported shapes
                backend = NativeBackend(network.model, threads=self.runtime_config.threads)
                probe(backend, network.model.config, where=str(folder))
                return replace(network, backend=backend)
        return network

    def _load_small_model(self, kind: str, folder: Path) -> DraftModel:
        loaded = load_native(folder)
        if loaded.tokenizer != self.tokenizer:
            raise ValueError(
                f"the drafter {folder} has another vocabulary than model {self.name}; "
                "train it on data prepared with the model's vocab.json"
            )
        backend, runtime = loaded.backend(self.runtime_config)
        resources = DrafterResources(loaded, backend, replace(self.runtime_config, runtime=runtime))
        sizes = loaded.config.max_positions, loaded.config.vocab_size
        return DraftModel(backend, *sizes, resources.cost_curve)


def training_command(task: str, kind: str, target: Path) -> str:
    """Return the words for a message on how to train a drafter of a kind, by its built-in recipe if there is one."""
    if task not in ("retro", "forward"):
        return f"with {TRAINING}"
    start = "" if kind == "ar" else f" --start {target}"
    command = f"chemspec train --recipe {task}-{kind.replace('_', '-')} --data data/{task}-distilled{start}"
    return f"`{command}` (minutes of a core, after `chemspec train distil`)"


def trained_drafter(folder: Path, kind: str = "") -> tuple[Path, str]:
    """Return the folder and the kind of a trained drafter, given its folder or the run folder of its training.

    For an ordinary model the kind, "ar" or "medium", must be given. Raises ValueError for none of this kind.
    """
    kinds = get_args(NetworkKind)
    for candidate in (folder, *(folder / name for name in ("model", *kinds))):
        if not (candidate / "config.json").is_file() or not (candidate / "model.safetensors").is_file():
            continue
        config = read_untrusted_json(candidate / "config.json")
        is_kind: str | None = config.get("kind") if isinstance(config, dict) else None
        if is_kind is None and kind not in SMALL_MODELS:
            names = ", ".join(SMALL_MODELS)
            raise ValueError(f"{candidate} is a model; say with --kind which drafter it is to be: {names}")
        if is_kind is not None and (is_kind not in kinds or kind not in ("", is_kind)):
            raise ValueError(f"{candidate} holds a drafter of kind {is_kind!r}, not {kind!r}")
        return candidate, is_kind or kind
    raise ValueError(f"{folder} holds no trained drafter: give what `chemspec train` printed, or its run folder")


def install_drafter(folder: Path, kind: str, target: Path) -> Path:
    """Copy a drafter into a model's folder, replacing one of its kind; returns the new folder.

    Raises ValueError if the drafter does not fit the model; nothing is changed then.
    """
    loaded = checkpoint.load(target)
    if kind in SMALL_MODELS:
        small = load_native(folder)
        if small.tokenizer != loaded.tokenizer:
            raise ValueError(f"{folder} has another vocabulary than model {loaded.name}")
    else:
        load_drafter(folder, tokenizer=loaded.tokenizer, target=loaded.digest)
    final = target / "drafters" / kind
    partial = final.with_name(f"{kind}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    for name in FILES:
        if (folder / name).is_file():
            shutil.copyfile(folder / name, partial / name)
    write_manifest(partial)
    shutil.rmtree(final, ignore_errors=True)
    partial.rename(final)
    return final


class ClosedEngine:
    """In place of the backend and the resources of a closed engine; raises ValueError if they are used."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        raise ValueError(f"the engine of model {self._name!r} is closed; load the model again")
