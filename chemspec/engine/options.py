"""Keyword options of `Engine.load` and of predictions, for type checkers and completion."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, TypedDict

from chemspec.settings import DecodeSettings, Task, ineffective_fields, lists_distinct, with_overrides


class LoadingOptions(TypedDict, total=False):
    """Options of `chemspec.load`, see `Engine.load`."""

    device: str
    dtype: str
    threads: int
    runtime: str
    task: Task | None
    template: str
    vocab: str | Path


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
    applied = with_overrides(settings, distinct | dict(options))
    if not options:
        return applied
    for name, cause in ineffective_fields(applied).items():
        if name in options:
            warnings.warn(f"{name} has no effect with {cause}", stacklevel=3)
    return applied
