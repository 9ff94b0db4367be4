"""Groups of test files that do not run by default: each needs something heavy, or tests what users do not run."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from helpers.paths import TESTS

GROUPS = {
    "train": ("train",),
    "browser": ("browser",),
    "hf": ("importers/test_hf.py", "importers/test_hf_causal.py"),
    "ray": ("cluster/test_on_ray.py", "cluster/test_plans_on_ray.py", "cluster/test_service_on_ray.py"),
    "emulated": ("model/test_cuda_graphs.py", "test_gpu.py"),
    "programs": ("programs",),
    "weights": ("evaluation/test_lossless_weights.py", "evaluation/test_passes.py"),
}
DEFAULT = f"not ({' or '.join(['slow', *GROUPS])})"  # what `pytest` alone selects


@cache  # for each of thousands of tests
def group_of(path: Path) -> str:
    """The group that a file belongs to, or an empty text."""
    for group, members in GROUPS.items():
        if any(path == TESTS / member or TESTS / member in path.parents for member in members):
            return group
    return ""
