"""The command `config`."""

import os
import platform
import sys
from importlib.metadata import version
from typing import Any

from chemspec.cli.base import command
from chemspec.system import cache, extras, files, gpu, host
from chemspec.terminal import console
from chemspec.version import __version__

VARIABLES = "CHEMSPEC_"
SECRET = ("KEY",)  # parts of names of variables whose values are not shown


@command("config", "Answers")
def show_config() -> dict[str, Any]:
    """Show folders, models, kernel, processor and extras: what to send with a question."""
    from chemspec import precedents
    from chemspec.engine.registry import describe_installed_models, models_dir

    own_index = precedents.user_index_path()
    sections = {
        "program": {
            "chemspec": __version__,
            "python": f"{platform.python_version()} ({sys.executable})",
            "rdkit": version("rdkit"),
            "numpy": version("numpy"),
            "system": platform.platform(),
            "processor": f"{host.processor_name()}, {os.cpu_count()} cores",
            "kernel": _kernel_state(),
            "GPU": gpu.unused_gpu_message() or f"{gpu.gpu_count()} used" if gpu.device_count() else "none",
        },
        "folders": {
            "models": str(models_dir()),
            "home": str(files.home_folder()),
            "cache": str(cache.cache_dir()),
            "precedents": str(own_index if own_index.is_file() else "shipped"),
        },
        "models": {row["name"]: f"{row['task']}, {row['mb']} MB" for row in describe_installed_models()},
        "extras": extras.installed_extras(),
        "variables": {
            name: "(set)" if any(part in name for part in SECRET) else value
            for name, value in sorted(os.environ.items())
            if name.startswith(VARIABLES)
        },
    }
    for title, values in sections.items():
        if values:
            console.print_rows([{"name": name, "value": value} for name, value in values.items()], title)
    return sections


def _kernel_state() -> str:
    """Return which kernel computes on the CPU, in words."""
    from chemspec.model.runners.native.build import load_kernel
    from chemspec.system.compiled import NoKernelError

    try:
        return f"compiled code, {load_kernel()._name}"
    except NoKernelError as error:
        fallback = "torch" if extras.is_installed("torch") else "nothing: install the extra torch or compiler"
        return f"{fallback} ({error})"
