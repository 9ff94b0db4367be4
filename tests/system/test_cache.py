"""The cache: what comes back is what was kept, whole, whatever happened to the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from chemspec.system import cache


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CHEMSPEC_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.parametrize("content", [b"", b"x", b"\0" * 100_000])
def test_what_is_kept_comes_back(folder: Path, content: bytes) -> None:
    assert cache.read_cached("a") is None
    cache.write_cached("a", content)
    assert cache.read_cached("a") == content
    assert [file.name for file in folder.iterdir()] == ["a"]


@pytest.mark.parametrize("left", [0, 1, 15, 16, 17, 999, 1015])
def test_a_damaged_file_is_as_good_as_none_and_is_made_anew(folder: Path, left: int) -> None:
    cache.write_cached("a", b"x" * 1000)
    whole = (folder / "a").read_bytes()
    for damaged in (whole[:left], whole[:left] + b"?" + whole[left + 1 :]):
        (folder / "a").write_bytes(damaged)
        assert cache.read_cached("a") is None
    cache.write_cached("a", b"y")
    assert cache.read_cached("a") == b"y"


def test_a_folder_that_cannot_be_made_costs_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHEMSPEC_CACHE", "/proc/nowhere")
    cache.write_cached("a", b"x")
    assert cache.read_cached("a") is None
