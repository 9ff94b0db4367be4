"""GPU detection and torch settings for GPUs."""

import ctypes
import sys
from functools import lru_cache
from pathlib import Path

from chemspec.system import cache, extras

NOTICE = "unused-gpu"  # name in the cache of the mark that the user was told


def gpu_count() -> int:
    """Return the number of GPUs that torch can use, 0 without torch, which is not imported without a GPU."""
    if not sys.modules.get("torch") and not (extras.is_installed("torch") and device_count()):
        return 0
    import torch

    return torch.cuda.device_count() if torch.cuda.is_available() else 0


@lru_cache(maxsize=1)
def device_count() -> int:
    """Return the number of GPUs that the driver lists, whether torch can use them or not; 1 for any number of AMD's."""
    try:
        driver = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError:
        return int(Path("/dev/kfd").exists())  # AMD's driver, which torch treats as CUDA
    count = ctypes.c_int(0)
    return count.value if driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 else 0


def unused_gpu_message() -> str:
    """Return why a GPU of this machine is not used and what to install, if there is one; else an empty text."""
    if not device_count() or gpu_count():
        return ""
    if extras.is_installed("torch"):
        return "this machine has a GPU, but the installed torch is a build for CPUs: install a build of torch for CUDA"
    command = extras.install_command("torch")
    return f"this machine has a GPU, which is used with the extra torch only: {command} (a build of torch for CUDA)"


def first_gpu_notice() -> str:
    """Return `unused_gpu_message` the first time on this machine; afterwards an empty text."""
    if cache.read_cached(NOTICE) is not None or not (message := unused_gpu_message()):
        return ""
    cache.write_cached(NOTICE, b"told")
    return message


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
