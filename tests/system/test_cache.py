"""The cache: what comes back is what was kept, whole, whatever happened to the file."""

from __future__ import annotations

import threading
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
def test_a_truncated_file_is_as_good_as_none_and_is_made_anew(folder: Path, left: int) -> None:
    cache.write_cached("a", b"x" * 1000)
    (folder / "a").write_bytes((folder / "a").read_bytes()[:left])
    assert cache.read_cached("a") is None
    cache.write_cached("a", b"y")
    assert cache.read_cached("a") == b"y"


def test_a_changed_file_is_as_good_as_none(folder: Path) -> None:
    cache.write_cached("a", b"x" * 1000)
    raw = bytearray((folder / "a").read_bytes())
    raw[500] ^= 1
    (folder / "a").write_bytes(raw)
    assert cache.read_cached("a") is None


def test_threads_that_keep_the_same_do_not_mix(folder: Path) -> None:
    texts = [bytes([letter]) * 200_000 for letter in b"abcd"]
    threads = [
        threading.Thread(target=lambda text=text: [cache.write_cached("a", text) for _ in range(20)]) for text in texts
    ]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        assert cache.read_cached("a") in (None, *texts)
        threads[0].join(0.001)
    assert cache.read_cached("a") in texts
    assert [file.name for file in folder.iterdir()] == ["a"]


def test_a_folder_that_cannot_be_made_costs_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHEMSPEC_CACHE", "/proc/nowhere")
    cache.write_cached("a", b"x")
    assert cache.read_cached("a") is None
