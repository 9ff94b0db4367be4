"""A real Ray of several nodes on this machine, for all tests that want one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from helpers.paths import ROOT

NODE = {"num_cpus": 1, "object_store_memory": 80_000_000}


@pytest.fixture(scope="package")
def nodes() -> Iterator[Any]:
    """A cluster with a head that answers nothing and two nodes with a core each."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")  # on the loopback address only
        patch.setenv("RAY_memory_monitor_refresh_ms", "0")  # else a machine whose memory is full kills engines
        patch.setenv("PYTHONPATH", str(ROOT))
        from ray.cluster_utils import Cluster

        head = {**NODE, "num_cpus": 0, "include_dashboard": False}
        cluster = Cluster(initialize_head=True, head_node_args=head, shutdown_at_exit=True)
        try:
            for _ in range(2):
                cluster.add_node(**NODE)
            yield cluster
        finally:
            cluster.shutdown()
