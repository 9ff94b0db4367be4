"""Say whether there is a GPU and which, and settle what torch leaves open on it."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path


def available() -> bool:
    """Whether torch can use a GPU; without a GPU's driver torch is not imported to answer that."""
    if "torch" not in sys.modules and not _driver():
        return False
    import torch

    return torch.cuda.is_available()


def count() -> int:
    """Return how many GPUs torch can use."""
    if not available():
        return 0
    import torch

    return torch.cuda.device_count()


def _driver() -> bool:
    try:
        ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError:
        return Path("/dev/kfd").exists()  # of AMD's, which torch takes for CUDA
    return True


def memory_errors(*others: type[Exception]) -> tuple[type[Exception], ...]:
    """Return `others`, and what is raised where memory does not suffice, a GPU's included if torch is in use."""
    torch = sys.modules.get("torch")
    return (*others, MemoryError, torch.cuda.OutOfMemoryError) if torch else (*others, MemoryError)


def empty_cache() -> None:
    """Give back what torch keeps of a GPU's memory."""
    if torch := sys.modules.get("torch"):
        torch.cuda.empty_cache()


def avoid_cudnn_attention() -> None:
    """Keep torch from computing attention with cuDNN, in the whole process.

    From 2.11 on, torch on a Hopper GPU prefers cuDNN in half precision, which makes a plan of tens of milliseconds for
    every new shape, and here nearly every pass and every batch has one; NaN gradients have been reported too. The other
    kernels know no plans.
    """
    import torch

    torch.backends.cuda.enable_cudnn_sdp(False)


def name_of(device: str) -> str:
    """Return the name of a CUDA device, such as "NVIDIA H100"; of a CPU, nothing."""
    if not device.startswith("cuda"):
        return ""
    import torch

    return torch.cuda.get_device_name(device)
