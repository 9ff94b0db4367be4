"""GPU detection and torch settings for GPUs."""

import ctypes
import sys
from pathlib import Path


def gpu_count() -> int:
    """Return the number of GPUs that torch can use; torch is not imported without a GPU driver."""
    if "torch" not in sys.modules and not _driver_installed():
        return 0
    import torch

    return torch.cuda.device_count() if torch.cuda.is_available() else 0


def _driver_installed() -> bool:
    try:
        ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError:
        return Path("/dev/kfd").exists()  # AMD's driver, which torch treats as CUDA
    return True


def memory_errors(*others: type[Exception]) -> tuple[type[Exception], ...]:
    """Return `others` and the out-of-memory errors, including torch's if it is imported."""
    torch = sys.modules.get("torch")
    return (*others, MemoryError, torch.cuda.OutOfMemoryError) if torch else (*others, MemoryError)


def empty_gpu_cache() -> None:
    """Release GPU memory cached by torch."""
    if torch := sys.modules.get("torch"):
        torch.cuda.empty_cache()


def avoid_cudnn_attention() -> None:
    """Disable cuDNN attention in the whole process.

    From 2.11 on, torch prefers cuDNN in half precision on Hopper GPUs, which spends tens of milliseconds on a plan for
    every new shape; here nearly every pass has a new shape. NaN gradients have been reported, too.
    """
    import torch

    torch.backends.cuda.enable_cudnn_sdp(False)


def device_name(device: str) -> str:
    """Return the name of a CUDA device, such as "NVIDIA H100"; empty for a CPU."""
    if not device.startswith("cuda"):
        return ""
    import torch

    return torch.cuda.get_device_name(device)
