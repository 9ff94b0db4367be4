"""Files that are no checkpoints are refused by what they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from chemspec.importers.pickled import CheckpointError, explain_unrecognised


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ("version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 3\n", "git lfs pull"),
        ("<!DOCTYPE html><html><body>404</body></html>", "a web page"),
        ("abc", "neither a model folder nor a torch checkpoint"),
    ],
)
def test_a_file_that_is_no_checkpoint_is_named(tmp_path: Path, content: str, what: str) -> None:
    (tmp_path / "model.pt").write_text(content)
    with pytest.raises(CheckpointError, match=what):
        explain_unrecognised(tmp_path / "model.pt")
