"""Copies of the program, into which tests put faults."""

from __future__ import annotations

import shutil
from pathlib import Path

from helpers.paths import ROOT


def copy_program(folder: Path) -> Path:
    """Copy what a test run needs; returns the folder."""
    for name in ("chemspec", "tests", "pages", ".streamlit"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("app.py", "pyproject.toml", "hatch_build.py", "hatch_kernels.py", "README.md", ".gitignore"):
        shutil.copy(ROOT / name, folder)
    (folder / "assets").symlink_to(ROOT / "assets")
    return folder
