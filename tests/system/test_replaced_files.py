"""Files that are replaced while another program has them open, as Windows refuses for a while."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from chemspec.system import files


@pytest.mark.parametrize(
    ("platform", "refusals", "fails"), [("win32", 3, False), ("win32", 99, True), ("linux", 1, True)]
)
def test_replacing_is_tried_again_on_windows(
    platform: str, refusals: int, fails: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, left, replace = tmp_path / "cached", [refusals], Path.replace
    target.write_text("old")

    def refuse(self: Path, to: Path) -> Path:
        left[0] -= 1
        if left[0] >= 0:
            raise PermissionError(13, "Access is denied", str(to))
        return replace(self, to)

    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(files, "REPLACE_WAITS", (0.0,) * 5)
    monkeypatch.setattr(Path, "replace", refuse)
    if fails:
        with pytest.raises(PermissionError):
            files.write_text_atomic(target, "new")
    else:
        files.write_text_atomic(target, "new")
    assert target.read_text() == ("old" if fails else "new")
    assert [path.name for path in tmp_path.iterdir()] == ["cached"], "nothing is left behind"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such permissions")
def test_only_private_files_are_hidden_from_others(tmp_path: Path) -> None:
    expected = 0o666 & ~umask()
    for private in (False, True):
        files.write_bytes_atomic(path := tmp_path / str(private), b"x", private=private)
        assert path.stat().st_mode & 0o777 == (0o600 if private else expected)
    files.write_bytes_atomic(tmp_path / "bytes", b"x")
    files.write_text_atomic(tmp_path / "text", "x")
    assert {(tmp_path / name).stat().st_mode & 0o777 for name in ("bytes", "text")} == {expected}


def umask() -> int:
    before = os.umask(0o022)
    os.umask(before)
    return before
