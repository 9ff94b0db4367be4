"""Settle what torch leaves open on a GPU, and say which GPU it is."""

from __future__ import annotations


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
    import torch

    return torch.cuda.get_device_name(device) if device.startswith("cuda") else ""
