"""The file of a model folder that stores what was measured of the model."""

from collections.abc import Iterable, Mapping
from datetime import date
from pathlib import Path
from typing import Any

import msgspec

from chemspec.system.files import write_bytes_atomic

MEASUREMENTS_FILE = "evaluation.json"
MAX_ACCURACY_LOSS = 0.002  # accepted loss of top-k accuracy, at any k, of a faster precision
MIN_FOR_ONE = 200  # reactions of which one more or less says nothing


def require_folder(model: Path) -> None:
    """Raise ValueError for a model that is a checkpoint of another program: it has no folder to store numbers in."""
    if not model.is_dir():
        raise ValueError(f"{model} is not a folder to write to; `chemspec import` the model first")


def read_measurements(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the measurements stored in a model folder, by name ("accuracy", "classes", ...); empty without a file.

    Each has `command`, `date`, `digest` (of the measured weights, see `Engine.digest`) and its numbers. Raises
    ValueError if the file is damaged.
    """
    file = folder / MEASUREMENTS_FILE
    try:
        return msgspec.json.decode(file.read_bytes(), type=dict[str, dict[str, Any]])
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"{file} cannot be read: {error}; remove it and measure again") from error


def store_measurements(
    folder: Path,
    names: Iterable[str],
    measured: Mapping[str, Any],
    *,
    digest: str,
    command: str,
    today: date | None = None,
) -> None:
    """Store a measurement in the model folder under each name, replacing older ones of these names."""
    measurements, day = read_measurements(folder), today or date.today()
    stamped = {"command": command, "date": day.isoformat(), "digest": digest, **measured}
    measurements |= dict.fromkeys(names, stamped)
    write_bytes_atomic(folder / MEASUREMENTS_FILE, msgspec.json.format(msgspec.json.encode(measurements), indent=1))


def int8_is_usable(folder: Path) -> bool:
    """Return whether int8 loses at most `MAX_ACCURACY_LOSS` at every k, on the same reactions and weights as fp32.

    Of `MIN_FOR_ONE` reactions or more it may lose one, which says no more than none.

    The page Models reports a model card that is damaged.
    """
    try:
        measurements = read_measurements(folder)
        exact, fast = measurements["accuracy"], measurements["int8"]
        if any(exact[key] != fast[key] for key in ("digest", "file", "reactions")):
            return False
        # Shares of the same number of reactions: a difference of exactly the limit must not fail by rounding.
        losses = [top["value"] - fast["top"][k]["value"] for k, top in exact["top"].items()]
        share = 1 / exact["reactions"] if exact["reactions"] >= MIN_FOR_ONE else 0.0
        return max(losses, default=0.0) <= max(MAX_ACCURACY_LOSS, share) + 1e-9
    except (KeyError, TypeError, ValueError):
        return False
