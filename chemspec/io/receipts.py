"""Receipts of predictions: what they were computed from, so that they can be decoded again and compared.

A receipt is a JSON object in the row of the prediction: program version, model and digest of its weights, precision,
runtime, all settings that predictions depend on, number of forward passes, and the smallest log-prob gap between the
best two tokens. Its `sha256` covers the receipt and the prediction, so later edits show. It is no signature: who can
write the file can write a new hash.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from chemspec.io.readers import FileError
from chemspec.settings import DecodeSettings, check_range
from chemspec.types import DecodeResult, Progress, ignore
from chemspec.version import __version__

if TYPE_CHECKING:  # slow imports
    from chemspec.engine.engine import Engine

# Differences of a log-prob, in nats, that rounding may cause, by the precision to which predictions are exact.
TOLERANCES = {"to the last bit": 0.0, "up to ties": 1e-4, "up to rounding": 0.05}
COVERED = ("query", "status", "hypotheses")  # fields of a row that the hash covers, with the receipt


def add_receipt(row: dict[str, Any], result: DecodeResult, engine: Engine, stamp: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row with a receipt."""
    searches = (result, *(result.distinct.earlier if result.distinct else ()))
    smallest = min((step.margin for search in searches for step in search.trace.passes), default=float("inf"))
    receipt = {
        "chemspec": __version__,
        "model": engine.name,
        "digest": stamp["model"],
        "dtype": stamp["dtype"],
        "runtime": result.trace.settings.get("runtime"),
        "settings": {name: value for name, value in stamp.items() if name not in ("model", "dtype")},
        "passes": row["passes"],
        "margin": smallest if smallest < float("inf") else None,
    }
    return {**row, "receipt": {**receipt, "sha256": hash_row(row, receipt)}}


def hash_row(row: Mapping[str, Any], receipt: Mapping[str, Any]) -> str:
    """Return the SHA-256 of what a receipt covers of a row."""
    covered = {name: row.get(name) for name in COVERED} | {"receipt": receipt}
    text = json.dumps(covered, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class ReceiptRow:
    """A row of a file with receipts."""

    number: int  # line in the file, from 1
    row: dict[str, Any]  # the parsed line


def _read_settings(given: Mapping[str, Any]) -> DecodeSettings:
    """Return stored settings, without drafts if these change nothing; ValueError for one that this version lacks."""
    names = {field.name for field in fields(DecodeSettings)}
    if unknown := sorted(given.keys() - names):
        raise ValueError(f"unknown settings {', '.join(unknown)}: written by another version of chemspec?")
    plain = DecodeSettings(**{**given, "drafter": "auto"})  # a plug-in's drafter may be unknown here
    return replace(plain, drafter="none", batch_size=1) if plain.guarantee == "exact" else DecodeSettings(**given)


def read_receipts(path: Path, sample: int = 0, seed: int = 0) -> list[ReceiptRow]:
    """Return the rows of a `.jsonl` file, or `sample` random ones (0: all) in the order of the file.

    FileError if it is no text or has no rows, or a row has no receipt.
    """
    check_range("sample", sample, 0)
    try:
        with path.open(encoding="utf-8") as lines:
            rows = [_parse_row(number, line, path) for number, line in enumerate(lines, 1) if line.strip()]
    except UnicodeDecodeError as error:
        raise FileError(f"{path} cannot be read as a .jsonl file with receipts: {error}") from error
    if not rows:
        raise FileError(f"{path} has no rows")
    if sample and sample < len(rows):
        chosen = sorted(Random(seed).sample(range(len(rows)), sample))
        return [rows[index] for index in chosen]
    return rows


def _parse_row(number: int, line: str, path: Path) -> ReceiptRow:
    try:
        row = json.loads(line)
        receipt = row["receipt"]
        complete = isinstance(row["query"], str) and isinstance(receipt["settings"], dict) and receipt["digest"]
    except (ValueError, KeyError, TypeError, RecursionError):
        complete = False
    if not complete:
        raise FileError(f"{path}: row {number} has no receipt; write the file with `chemspec predict --receipts`")
    return ReceiptRow(number, row)


def verify_receipts(
    rows: Sequence[ReceiptRow], model: str = "", *, threads: int = 0, progress: Progress = ignore
) -> Iterator[tuple[ReceiptRow, str]]:
    """Decode rows again by standard decoding, one query at a time; yield those that differ, and what differs.

    The model is by default the installed one that a receipt names, else ValueError: a file does not choose what is
    loaded. `progress` is called with the number of rows done and in total.
    """
    from chemspec.engine.engine import Engine
    from chemspec.engine.registry import installed_models

    installed = {folder.name for folder in installed_models()}

    @cache
    def load(name: str, dtype: str, runtime: str) -> Engine:
        if not model and name not in installed:
            raise ValueError(f"model {name!r}, which wrote these rows, is not installed; choose it with --model")
        return Engine.load(model or name, dtype=dtype, runtime=runtime, threads=threads)

    for done, row in enumerate(rows):
        progress(done, len(rows))
        if reason := _describe_difference(row.row, load):
            yield row, reason
    progress(len(rows), len(rows))


def _describe_difference(row: Mapping[str, Any], load: Callable[[str, str, str], Engine]) -> str:
    """Return how the repetition of a row differs from it; empty for no more than rounding."""
    from chemspec.model.manifest import is_digest_of

    receipt = dict(row["receipt"])
    if receipt.pop("sha256", None) != hash_row(row, receipt):
        return "the row was changed after it was written"
    engine = load(str(receipt.get("model")), str(receipt.get("dtype")), str(receipt.get("runtime") or "auto"))
    if not is_digest_of(receipt["digest"], engine.full_digest):
        same_weights = receipt["digest"].partition("-")[0] == engine.digest
        part = "another vocabulary" if same_weights else "other weights"
        return f"the installed model {engine.name} has {part} ({engine.full_digest}, not {receipt['digest']})"
    try:
        result = engine.predict(row["query"], _read_settings(receipt["settings"]))
    except (ValueError, TypeError) as error:
        return f"its settings cannot be used: {error}"
    if result.status != row["status"]:
        return f"status {result.status}, not {row['status']}"
    stated, repeated = row["hypotheses"], result.hypotheses
    if len(stated) != len(repeated):
        return f"{len(repeated)} predictions, not {len(stated)}"
    tolerance = TOLERANCES[engine.runtime_config.exactness]
    for rank, (old, new) in enumerate(zip(stated, repeated, strict=True), 1):
        if old["smiles"] != new.smiles:
            return f"prediction {rank} is {new.smiles}, not {old['smiles']}"
        if abs(old["log_prob"] - new.log_prob) > tolerance:
            return f"prediction {rank} has log-prob {new.log_prob!r}, not {old['log_prob']!r}"
    return ""
