"""The version of the installed package, which is looked up when it is first asked for."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("chemspec")
except PackageNotFoundError:  # run from a source tree that was never installed
    __version__ = "0+unknown"
