"""Reaction prediction and retrosynthesis with SMILES transformers and lossless speculative decoding.

    import chemspec

    engine = chemspec.load("retro")
    for prediction in engine.predict("CC(=O)Nc1ccc(O)cc1", n=10).hypotheses:
        print(prediction.canonical, prediction.probability)

Submodules are imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from chemspec import plugins

if TYPE_CHECKING:
    from pathlib import Path

    from chemspec.decode.constrained import constrained_decoder as constrained_decoder
    from chemspec.decode.protocol import START as START
    from chemspec.decode.protocol import ScoreRequest as ScoreRequest
    from chemspec.decode.protocol import finish_sequence as finish_sequence
    from chemspec.decode.registry import DecoderSpec as DecoderSpec
    from chemspec.draft.base import Drafter as Drafter
    from chemspec.draft.inputs import DrafterInputs as DrafterInputs
    from chemspec.draft.registry import DrafterSpec as DrafterSpec
    from chemspec.draft.registry import drafter as drafter
    from chemspec.engine.engine import Engine as Engine
    from chemspec.engine.options import LoadingOptions
    from chemspec.importers.base import Importer as Importer
    from chemspec.importers.base import LoadedModel as LoadedModel
    from chemspec.importers.base import LoadOptions as LoadOptions
    from chemspec.plugins import DECODERS as DECODERS
    from chemspec.plugins import DRAFTERS as DRAFTERS
    from chemspec.settings import DecodeSettings as DecodeSettings
    from chemspec.tokenizer import EOS as EOS
    from chemspec.tokenizer import split_smiles as split_smiles
    from chemspec.types import DecodeResult as DecodeResult
    from chemspec.types import Draft as Draft
    from chemspec.types import FinishedSequence as FinishedSequence
    from chemspec.types import Hypothesis as Hypothesis
    from chemspec.types import Pass as Pass
    from chemspec.types import Scores as Scores
    from chemspec.types import Trace as Trace

    __version__: str

plugins.BUILT_IN.update(drafter="chemspec.draft.registry", decoder="chemspec.decode.registry")
_NAMES = {
    "chemspec.version": "__version__",
    "chemspec.engine.engine": "Engine",
    "chemspec.settings": "DecodeSettings",
    "chemspec.types": "DecodeResult Hypothesis Trace Pass Draft Scores FinishedSequence",
    "chemspec.plugins": "DRAFTERS DECODERS",
    # For authors of drafters, decoders and model formats.
    "chemspec.draft.registry": "drafter DrafterSpec",
    "chemspec.draft.base": "Drafter",
    "chemspec.draft.inputs": "DrafterInputs",
    "chemspec.decode.registry": "DecoderSpec",
    "chemspec.decode.constrained": "constrained_decoder",
    "chemspec.decode.protocol": "ScoreRequest START finish_sequence",
    "chemspec.importers.base": "Importer LoadedModel LoadOptions",
    "chemspec.tokenizer": "EOS split_smiles",
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}


def load(name: str | Path, **options: Unpack[LoadingOptions]) -> Engine:
    """Load a model; returns an engine, which is immutable and thread-safe.

    Args:
        name: an installed model ("retro", "forward"), a model folder, a checkpoint of another program, or the id of a
            downloaded Hugging Face model.
        options: options of `Engine.load`: device, dtype, threads, runtime, task, template, vocab.

    Raises:
        ValueError: if there is no such model, device, precision or runtime; the message names a remedy.
    """
    import sys

    from chemspec.engine.engine import Engine

    if "IPython" in sys.modules:  # otherwise without the time to import what draws
        from chemspec.engine.notebook import show_results_in_notebook

        show_results_in_notebook()
    return Engine.load(name, **options)


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module 'chemspec' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


__all__ = ["load", *_HOMES]
