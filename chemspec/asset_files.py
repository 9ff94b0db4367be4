"""Locate the files that ship with the program: models, examples, the app's pages and its JavaScript."""

from __future__ import annotations

from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parent


def assets_folder() -> Path:
    """Return the assets folder: inside an installed package, or beside the package in a clone."""
    inside = PACKAGE / "assets"
    return inside if inside.is_dir() else PACKAGE.parent / "assets"


def app_script() -> Path:
    """Return the file that Streamlit runs."""
    inside = PACKAGE / "assets" / "app" / "app.py"
    return inside if inside.is_file() else PACKAGE.parent / "app.py"


@cache
def bench_queries(task: str) -> tuple[str, ...]:
    """Return the 200 test queries of a task that come with the program."""
    path = assets_folder() / "examples" / f"bench_{task}.smi"
    return tuple(path.read_text(encoding="utf-8").split())
