"""Optional packages, and the extra of the distribution that installs each.

The core (numpy, torch, RDKit, safetensors, typer, rich, msgspec, urllib3) suffices for predictions; other packages are
imported where they are used.
"""

from importlib.util import find_spec

_PACKAGES = {  # of each extra
    "app": "streamlit altair pandas py3Dmol",
    "files": "pyarrow openpyxl",
    "compiler": "ziglang",
    "train": "lightning tqdm",
    "hf": "transformers sentencepiece",
    "plan": "syntheseus apted",
    "serve": "fastapi uvicorn prometheus_client",
    "ray": "ray",
    "bench": "ctranslate2 vl_convert",
}
EXTRAS = {package: extra for extra, packages in _PACKAGES.items() for package in packages.split()}


class MissingExtraError(ModuleNotFoundError):
    """A package of an extra is not installed; the message says which one to install."""


def require_packages(*packages: str, what: str) -> None:
    """Raise an error if a package of an extra is missing."""
    for package in packages:
        if not is_installed(package):
            name, command = EXTRAS[package], f"pip install 'chemspec[{EXTRAS[package]}]'"
            message = f"{what}: the package {package} of the extra {name} is not installed"
            raise MissingExtraError(f"{message}; {command}", name=package)


def is_installed(package: str) -> bool:
    """Return whether a package can be imported, without importing it."""
    try:
        return find_spec(package) is not None
    except (ImportError, ValueError):  # ValueError: put into sys.modules by hand
        return False
