"""Fast, lossless decoding of SMILES-to-SMILES transformers, and a look at how it is done.

    import chemspec

    engine = chemspec.load("retro")
    for answer in engine.predict("CC(=O)Nc1ccc(O)cc1", n=10).hypotheses:
        print(answer.canonical, answer.probability)

Everything is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chemspec import plugins

if TYPE_CHECKING:
    from pathlib import Path

    from chemspec.engine.engine import Engine
    from chemspec.plugins import DECODERS, DRAFTERS
    from chemspec.settings import DecodeSettings
    from chemspec.types import DecodeResult, Hypothesis, Trace

    __version__: str

plugins.BUILT_IN.update(drafter="chemspec.draft.registry", decoder="chemspec.decode.registry")
_HOMES = {
    "__version__": "chemspec.version",
    "Engine": "chemspec.engine.engine",
    "DecodeSettings": "chemspec.settings",
    "DecodeResult": "chemspec.types",
    "Hypothesis": "chemspec.types",
    "Trace": "chemspec.types",
    "DRAFTERS": "chemspec.plugins",
    "DECODERS": "chemspec.plugins",
}


def load(name: str | Path, **options: Any) -> Engine:
    """Load a model.

    Args:
        name: an installed model ("retro", "forward"), a model folder, or the id of a Hugging Face model fetched before.
        options: of `Engine.load`: device, dtype, threads, runtime, task, template.

    Returns:
        An engine: immutable, and safe to share between threads.

    Raises:
        ValueError: if there is no such model, or the device, precision or runtime cannot be had; the message says what
            to do.
    """
    from chemspec.engine.engine import Engine

    return Engine.load(name, **options)


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for."""
    if name in _HOMES:
        from importlib import import_module

        value: Any = getattr(import_module(_HOMES[name]), name)
    else:
        raise AttributeError(f"module 'chemspec' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


__all__ = [
    "DECODERS",
    "DRAFTERS",
    "DecodeResult",
    "DecodeSettings",
    "Engine",
    "Hypothesis",
    "Trace",
    "__version__",
    "load",
]
