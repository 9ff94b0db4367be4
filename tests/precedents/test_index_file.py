"""Only what `build` wrote is opened."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from helpers.precedents_index import make
from safetensors.numpy import save_file

from chemspec.precedents import BUILD_COMMAND, Precedents, installed, user_index_path
from chemspec.precedents import index_file as files


@pytest.fixture
def index(tmp_path: Path) -> Path:
    return make(tmp_path)[0].path


def test_any_changed_byte_is_found(index: Path) -> None:
    whole = index.read_bytes()
    for place in np.linspace(0, len(whole) - 1, 60).astype(int):
        index.write_bytes(whole[:place] + bytes([whole[place] ^ 0x20]) + whole[place + 1 :])
        with pytest.raises(ValueError, match="is not an index of precedents"):
            Precedents(index)


@pytest.mark.parametrize("share", [0, 0.001, 0.3, 0.99])
def test_a_file_that_is_cut_off_is_refused(index: Path, share: float) -> None:
    whole = index.read_bytes()
    index.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(
        ValueError, match=r"index\.safetensors is not an index of precedents.*chemspec precedents build"
    ):
        Precedents(index)


def test_other_files_are_refused(tmp_path: Path) -> None:
    other = tmp_path / "weights.safetensors"
    save_file({"weight": np.zeros((2, 2))}, other)
    with pytest.raises(ValueError, match="its format is 'unknown'"):
        Precedents(other)
    other.write_bytes(b"PK\x03\x04 not at all")
    with pytest.raises(ValueError, match="is not an index"):
        Precedents(other)
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(ValueError, match=r"is not a file; build an index: chemspec precedents build"):
            Precedents(path)


def arrays(index: Path) -> files.Arrays:
    return {name: np.array(array) for name, array in files.read_index(index)[0].items()}


RETRO = {"files": ["retro_train"]}


def empty(own: files.Arrays) -> files.Arrays:
    return {name: array[:0] for name, array in own.items()} | {"starts": np.zeros(1), "blocks": np.zeros(1)}


@pytest.mark.parametrize(
    ("change", "about", "why"),
    [
        (lambda own: {"starts": own["starts"] + 1}, RETRO, "is not an index of precedents"),
        (lambda own: {"starts": own["starts"][:-1]}, RETRO, "is not an index of precedents"),
        (lambda own: {"blocks": own["blocks"] * 2}, RETRO, "is not an index of precedents"),
        (lambda own: {"blocks": own["blocks"][:0]}, RETRO, "is not an index of precedents"),
        (lambda own: {"flags": own["flags"][:-1]}, RETRO, "is not an index of precedents"),
        (lambda own: {"prints": own["prints"].ravel()}, RETRO, "is not an index of precedents"),
        (lambda _: {}, {}, "is not an index of precedents"),
        (lambda _: {}, {"files": [1]}, "is not an index of precedents"),
        (lambda _: {}, {"files": None}, "is not an index of precedents"),
        (empty, {"files": []}, "do not fit together"),
    ],
)
def test_parts_that_do_not_fit_are_refused(index: Path, change, about, why: str) -> None:  # type: ignore[no-untyped-def]
    """Sums can be right, and the file made by somebody who wants to lead a look-up astray."""
    own = arrays(index)
    files.write_index(index, own | change(own), about)
    with pytest.raises(ValueError, match=why):
        Precedents(index)


@pytest.mark.parametrize("text", [b"no zlib", b""])
def test_texts_that_cannot_be_unpacked_are_told(index: Path, text: bytes) -> None:
    own = arrays(index)
    changed = own | {"text": np.frombuffer(text, np.uint8), "blocks": np.array([0, len(text)])}
    files.write_index(index, changed, {"files": ["retro_train", "forward_train"]})
    with pytest.raises(ValueError, match="is damaged"):
        Precedents(index).find("CC(=O)Cl.Nc1ccccc1", "CC(=O)Nc1ccccc1")


def test_the_users_own_index_is_found_and_opened_once(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CHEMSPEC_PRECEDENTS", raising=False)
    monkeypatch.setenv("CHEMSPEC_HOME", str(tmp_path / "home"))
    user_index_path().parent.mkdir()
    index.rename(user_index_path())
    first = installed()
    assert first is not None and first.path == user_index_path() and installed() is first


def test_a_named_index_must_be_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHEMSPEC_PRECEDENTS", str(tmp_path / "none"))
    with pytest.raises(ValueError, match=BUILD_COMMAND):
        installed()


def test_without_any_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CHEMSPEC_PRECEDENTS", raising=False)
    monkeypatch.setenv("CHEMSPEC_HOME", str(tmp_path))
    monkeypatch.setattr("chemspec.precedents.installation.assets_folder", lambda: tmp_path)
    assert installed() is None
