"""Fast, lossless decoding of SMILES-to-SMILES transformers, and a look at how it is done."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("chemspec")
except PackageNotFoundError:  # run from a source tree that was never installed
    __version__ = "0+unknown"
