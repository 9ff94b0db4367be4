"""Locate the files that ship with the program: models, examples, the app's pages and its JavaScript."""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).parent


def assets() -> Path:
    """Return the assets folder: inside an installed package, or beside the package in a clone."""
    inside = PACKAGE / "assets"
    return inside if inside.is_dir() else PACKAGE.parent / "assets"


def app_script() -> Path:
    """Return the file that Streamlit runs."""
    inside = PACKAGE / "assets" / "app" / "app.py"
    return inside if inside.is_file() else PACKAGE.parent / "app.py"
