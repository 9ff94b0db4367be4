"""The HTTP service on a Ray cluster: a Ray Serve deployment whose replicas hold an engine and the service's own routes.

A replica is `chemspec.service` as it stands, behind Ray Serve's proxy instead of a port: its scheduler makes the
batches, its application checks keys and answers. Ray starts replicas where there is room, more of them under load, and
replaces those that die; what a dead one had taken gets status 500, after which `chemspec.client` asks again.
"""

from __future__ import annotations

import logging
import signal
import socket
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import prometheus_client

from chemspec.cluster import engines
from chemspec.cluster.dispatch import ClusterError
from chemspec.service import api, server
from chemspec.service.guard import LOG
from chemspec.service.limits import Limits
from chemspec.service.service import Service
from chemspec.system.host_check import AllowedHosts, HostCheck

ATTEMPTS = 3  # to start a replica before it is said that it cannot be started
UP, DOWN = 10.0, 300.0  # seconds of load, or without, after which there are more replicas, or fewer
MARGIN = 15.0  # seconds beyond the service's own limit after which Ray gives a request up
NAME = "chemspec"


class Replica:
    """One engine a model, and the application that asks them, in a process of its own."""

    def __init__(
        self, models: Mapping[str, Path], device: str, options: Any, limits: Limits, names: AllowedHosts
    ) -> None:
        """Load the models; requests come when this returns.

        Args:
            models: folders by name.
            device: of the engines.
            options: of `Engine.load`.
            limits: of the service.
            names: under which the service is reached.
        """
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]
        loaded = server.load(models, [device], **options)
        self._service, self._names = Service(lambda: loaded, limits), names

    def __serve_build_asgi_app__(self) -> Any:
        """Return the application; Ray Serve calls this and runs its lifespan."""
        return HostCheck(
            api.create(self._service),
            self._names,
            links=False,
            refused=lambda reason: self._service.metrics.refused.labels(reason).inc(),
        )

    def check_health(self) -> None:
        """Let Ray replace the replica where a restart helps."""
        if not self._service.healthy:
            raise RuntimeError(self._service.broken)


def run(
    models: Mapping[str, Path],
    limits: Limits,
    *,
    address: str,
    host: str,
    port: int,
    allowed: Sequence[str] = (),
    device: str = "auto",
    threads: int = 0,
    fewest: int = 1,
    most: int = 0,
    log: bool = True,
    **options: Any,
) -> None:
    """Serve until SIGTERM or Ctrl-C, then finish what was accepted.

    Args:
        models: folders by name; a path must be there on every machine.
        limits: of every replica.
        address: of the cluster, as for `engines.cluster`.
        host: the address that Ray's proxy listens on, on the machine of this command.
        port: 0 takes one that is free.
        allowed: names of this server besides its own, as for `AllowedHosts.of`.
        device: "cpu", "cuda" (a GPU each) or "auto" (a GPU each if any machine has one).
        threads: cores of a replica; 0: one.
        fewest: replicas that are kept when nobody asks.
        most: replicas under load; 0: as many as there is room for.
        log: whether to log on standard error.
        options: of `Engine.load`.

    Raises:
        ClusterError: if there is no cluster, no room on it, Ray is too old, or the replicas could not be started.
    """
    server.log_as_json(log)
    stop = threading.Event()
    with engines.cluster(address) as ray:
        from ray import serve
        from ray.serve.handle import DeploymentHandle

        logging.getLogger("ray.serve").setLevel(logging.ERROR)  # the lines here are JSON
        if not hasattr(DeploymentHandle, "broadcast"):
            raise ClusterError(f"Ray {ray.__version__} is too old for the service; it wants 2.60")
        gpu, threads = engines.gets_gpu(ray, device), threads or 1
        fewest, most = _range(fewest, most, engines.room_for(ray, gpu, threads), gpu=gpu, threads=threads)
        port = port or _free_port(host)
        deployment = serve.deployment(
            serve.ingress()(Replica),
            name=NAME,
            ray_actor_options={"num_cpus": threads, "num_gpus": int(gpu)},
            max_ongoing_requests=limits.queue,
            max_queued_requests=limits.queue,
            graceful_shutdown_timeout_s=limits.grace,
            max_constructor_retry_count=ATTEMPTS,
            autoscaling_config={
                "min_replicas": fewest,
                "initial_replicas": fewest,
                "max_replicas": most,
                "target_ongoing_requests": limits.batch_size,
                "upscale_delay_s": UP,
                "downscale_delay_s": DOWN,
            },
        )
        how = {"threads": threads, **options}
        bound = deployment.bind(dict(models), "cuda" if gpu else "cpu", how, limits, AllowedHosts.of(host, allowed))
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        http = {"host": host, "port": port, "request_timeout_s": limits.timeout + MARGIN}
        serve.start(proxy_location="HeadOnly", http_options=http)
        try:
            serve.run(bound, name=NAME, route_prefix="/")
        except RuntimeError as error:
            raise ClusterError(f"the replicas could not be started: {error}") from error
        LOG.info("ready", extra={"told": {"port": port, "models": sorted(models)}})
        stop.wait()
        serve.delete(NAME)


def _range(fewest: int, most: int, room: int, *, gpu: bool, threads: int) -> tuple[int, int]:
    """Return the least and the most replicas, where there is room for so many.

    Raises:
        ValueError: if these are no range.
        ClusterError: if there is no room for the least.
    """
    most = most or max(room, fewest)
    if not 1 <= fewest <= most:
        raise ValueError(f"from {fewest} to {most} engines is no range; give --min-engines from 1 to --engines")
    if fewest > room:
        each = "a GPU" if gpu else f"{threads} cores"
        raise ClusterError(f"there is room for {room} engines of {each} on this cluster, not for {fewest}")
    return fewest, most


def _free_port(host: str) -> int:
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])
