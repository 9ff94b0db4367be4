"""Measurements of models: accuracy, calibration; and the file of a model folder that keeps them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

import msgspec

FILE = "evaluation.json"
LOSS = 0.002  # of top-k accuracy, at any k, that a faster precision may cost


def read(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the measurements that a model folder keeps, by name ("accuracy", "classes", ...); none without a file.

    Each holds `command`, `date` and `digest` (of the weights that were measured, see `Engine.digest`) and its numbers.

    Raises:
        ValueError: naming the file, if it is damaged.
    """
    file = folder / FILE
    try:
        return msgspec.json.decode(file.read_bytes(), type=dict[str, dict[str, Any]])
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"{file} cannot be read: {error}; remove it and measure again") from error


def keep(folder: Path, name: str, measured: Mapping[str, Any], *, digest: str, command: str, today: date) -> None:
    """Put a measurement into the model folder, in the place of an older one of this name.

    Args:
        folder: of the model.
        name: what was measured.
        measured: its numbers, as JSON values.
        digest: of the weights, as `Engine.digest`.
        command: that gave the numbers.
        today: the date to note.
    """
    measurements = read(folder)
    measurements[name] = {"command": command, "date": today.isoformat(), "digest": digest, **measured}
    partial = folder / (FILE + ".partial")
    partial.write_bytes(msgspec.json.format(msgspec.json.encode(measurements), indent=1))
    partial.replace(folder / FILE)


def precisions(folder: Path) -> tuple[str, ...]:
    """Return what a model can compute in, the default first: int8 where its card shows that it is as good.

    That is for the compiled kernel on a CPU; elsewhere fp32 is the default all the same.
    """
    try:
        measurements = read(folder)
        if "int8" not in measurements:
            return ("fp32",)
        return ("int8", "fp32") if int8_is_as_good(measurements) else ("fp32", "int8")
    except (KeyError, TypeError, ValueError):
        return ("fp32",)  # the page Models says what is wrong with the measurements


def int8_is_as_good(measurements: Mapping[str, Mapping[str, Any]]) -> bool:
    """Return whether int8 was measured to cost at most `LOSS` at every k, on the reactions and weights of fp32."""
    exact, fast = measurements.get("accuracy"), measurements.get("int8")
    if not exact or not fast or any(exact[key] != fast[key] for key in ("digest", "file", "reactions")):
        return False
    # Shares of the same number of reactions: a difference of just LOSS may not fall to the arithmetic.
    return all(top["value"] - fast["top"][k]["value"] <= LOSS + 1e-9 for k, top in exact["top"].items())
