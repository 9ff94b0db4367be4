"""The manifest of a model folder: SHA-256 of the files that predictions and their confidence depend on.

A folder without one loads too. Whoever writes a file into a folder with a manifest refreshes it (`refresh_manifest`).
"""

import hashlib
import json
import re
from pathlib import Path

from chemspec.model.weights import CheckpointError
from chemspec.system.files import write_text_atomic
from chemspec.system.untrusted import read_untrusted_json

MANIFEST = "manifest.json"
WEIGHTS, CONFIG, VOCABULARY = "model.safetensors", "config.json", "vocab.json"
# Not what only people read: the card and the measurements.
LISTED = (WEIGHTS, CONFIG, VOCABULARY, "confidence.json", "familiarity.json", "drafting.json", "drafting.safetensors")

_FULL = re.compile(r"[0-9a-f]{16}-[0-9a-f]{8}")


def checked_digest(folder: Path) -> str:
    """Compare a folder with its manifest, if it has one, and return the digest of its weights and config.

    Raises CheckpointError, naming the file, if one is missing, or is not the one in the manifest.
    """
    weights, digest = hash_model(folder)
    for name, expected in _read_manifest(folder).items():
        if name != WEIGHTS and not (folder / name).is_file():
            raise CheckpointError(f"{folder / name} is missing, which {MANIFEST} lists; install the model again")
        if (weights if name == WEIGHTS else _sha256(folder / name)) != expected:
            raise CheckpointError(
                f"{folder / name} is damaged or was changed: its SHA-256 is not the one in {MANIFEST}; install the "
                f"model again, or remove {MANIFEST} if you changed the file"
            )
    return digest


def hash_model(folder: Path) -> tuple[str, str]:
    """Return the SHA-256 of a folder's weights, and the digest of weights and config."""
    weights = hashlib.sha256((folder / WEIGHTS).read_bytes())
    whole = weights.copy()
    whole.update((folder / CONFIG).read_bytes())
    return weights.hexdigest(), whole.hexdigest()[:16]


def hash_vocabulary(folder: Path) -> str:
    """Return the digest of a folder's vocabulary; empty if it has none of its own."""
    file = folder / VOCABULARY
    return _sha256(file)[:8] if file.is_file() else ""


def join_digests(digest: str, vocabulary: str) -> str:
    """Return the full digest of a model: of weights and config, and behind a hyphen of the vocabulary if it has one."""
    return f"{digest}-{vocabulary}" if vocabulary else digest


def is_digest_of(stored: str, full: str) -> bool:
    """Return whether a stored digest is that of a model with this full one; earlier ones have no vocabulary."""
    return stored == full or bool(_FULL.fullmatch(full) and stored == full[:16])


def write_manifest(folder: Path) -> None:
    """Write the manifest of the files that are there."""
    hashes = {name: _sha256(folder / name) for name in LISTED if (folder / name).is_file()}
    write_text_atomic(folder / MANIFEST, json.dumps({"sha256": hashes}, indent=1) + "\n")


def refresh_manifest(folder: Path) -> None:
    """Write the manifest of a folder that has one again, after one of its files was replaced on purpose."""
    if (folder / MANIFEST).exists():
        write_manifest(folder)


def _read_manifest(folder: Path) -> dict[str, str]:
    file = folder / MANIFEST
    if not file.exists():
        return {}
    try:
        hashes = read_untrusted_json(file)["sha256"]
        if not isinstance(hashes, dict) or not hashes.keys() <= set(LISTED) or not hashes.keys() >= {WEIGHTS, CONFIG}:
            raise ValueError(f"it does not list {WEIGHTS}, {CONFIG} and files like them alone")
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{file} is damaged ({error}); install the model again") from error
    return hashes


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
