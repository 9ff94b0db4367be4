"""Keyword options of `Engine.load` and of predictions, for type checkers and completion."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, TypedDict

from chemspec.plugins import DECODERS, DRAFTERS
from chemspec.settings import DecodeSettings, Task, ineffective_fields, lists_distinct


class LoadingOptions(TypedDict, total=False):
    """Options of `chemspec.load`, see `Engine.load`."""

    device: str
    dtype: str
    threads: int
    runtime: str
    task: Task | None
    template: str
    vocab: str | Path


def loading_options(settings: object) -> dict[str, Any]:
    """Return the fields of settings that are options of `Engine.load`."""
    names = ("dtype", "device", "threads", "runtime", "template")
    return {name: getattr(settings, name) for name in names if hasattr(settings, name)}


class DecodingOptions(TypedDict, total=False):
    """Fields of `DecodeSettings`, which says what they mean."""

    decoder: str
    n: int
    drafter: str
    draft_length: int
    draft_count: int
    draft_nodes: int
    dilation: int
    max_len: int
    batch_size: int
    node_budget: int
    drafting: Literal["planned", "fixed"]
    length_penalty: float
    rules: str
    beta: int
    tau: float
    temperature: float
    top_p: float
    seed: int
    augment: int
    distinct: bool
    guide: str
    prefix: str
    record: bool


def apply_options(settings: DecodeSettings | None, options: Mapping[str, Any]) -> DecodeSettings:
    """Return settings with other values of some fields; warns of options that have no effect.

    Without settings a list is of distinct molecules by default (`settings.lists_distinct`).

    Raises TypeError for an unknown option, naming those of a similar name.
    """
    fields = DecodingOptions.__annotations__
    for name in options:
        if name not in fields:
            raise TypeError(
                f"no option {name!r}; there is {', '.join(get_close_matches(name, fields) or sorted(fields))}"
            )
    distinct = {"distinct": lists_distinct(options)} if settings is None else {}
    applied = _with_overrides(settings, distinct | dict(options))
    if not options:
        return applied
    for name, cause in ineffective_fields(applied).items():
        if name in options:
            warnings.warn(f"{name} has no effect with {cause}", stacklevel=3)
    return applied


def _with_overrides(settings: DecodeSettings | None, overrides: dict[str, Any]) -> DecodeSettings:
    """Return settings with other values of some fields; a drafter or decoder may be "module:NAME" or "file.py:NAME".

    Loading one runs its code, so never pass fields that came over a network.
    """
    settings = DecodeSettings() if settings is None else settings
    if not isinstance(settings, DecodeSettings):
        raise TypeError(f"{settings!r:.50} are no settings; give chemspec.DecodeSettings(...), or its fields by name")
    for name, registry in (("drafter", DRAFTERS), ("decoder", DECODERS)):
        if ":" in str(overrides.get(name, "")):
            overrides[name] = registry.load(overrides[name])
    return replace(settings, **overrides) if overrides else settings
