"""Version of the installed package, determined on import."""

from importlib.metadata import PackageNotFoundError, version

from chemspec.system.extras import DISTRIBUTION

try:
    __version__ = version(DISTRIBUTION)
except PackageNotFoundError:  # run from a source tree that was never installed
    __version__ = "0+unknown"
