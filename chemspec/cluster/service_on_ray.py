"""The HTTP service on a Ray cluster: a Ray Serve deployment whose replicas hold an engine and the service's own routes.

A replica is an unchanged `chemspec.service` behind Ray Serve's proxy instead of a port. Ray starts more of them under
load and replaces dead ones; requests to those get status 500, after which `chemspec.client` retries.
"""

import logging
import signal
import socket
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import prometheus_client

from chemspec.cluster import engines
from chemspec.cluster.dispatch import ClusterError
from chemspec.service import api, server
from chemspec.service.guard import LOG
from chemspec.service.limits import Endpoint, Limits, Replicas
from chemspec.service.service import Service
from chemspec.system.host_check import AllowedHosts, HostCheck

ATTEMPTS = 3  # starts of a replica before giving up
UP, DOWN = 10.0, 300.0  # seconds of load or idleness after which replicas are added or removed
MARGIN = 15.0  # seconds added to the service's limit for Ray's request timeout
NAME = "chemspec"


class Replica:
    """One engine per model, and the service's application, in a separate process."""

    def __init__(self, models: Mapping[str, Path], options: Any, limits: Limits, names: AllowedHosts) -> None:
        """Load the models; requests arrive after this returns."""
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]
        self._service, self._names = Service(server.load_engines(models, **options), limits), names

    def __serve_build_asgi_app__(self) -> Any:
        """Return the application; Ray Serve calls this and runs its lifespan."""
        return HostCheck(
            api.create_app(self._service),
            self._names,
            links=False,
            refused=lambda reason: self._service.metrics.refused.labels(reason).inc(),
        )

    def check_health(self) -> None:
        """Raise if a restart of the replica would help."""
        if self._service.broken:
            raise RuntimeError(self._service.broken)


def run_on_ray(
    models: Mapping[str, Path],
    limits: Limits,
    endpoint: Endpoint,
    replicas: Replicas,
    *,
    device: str = "auto",
    threads: int = 0,
    **options: Any,
) -> None:
    """Serve until SIGTERM or Ctrl-C, then finish what was accepted.

    Paths of models must exist on every machine. Ray's proxy listens on this machine. Each replica has a GPU or
    `threads` cores (0: one). `options` are those of `Engine.load`. ClusterError if there is no cluster, too few
    resources, Ray is too old, or the replicas do not start.
    """
    server.log_as_json(endpoint.log)
    stop = threading.Event()
    with engines.connect_cluster(replicas.ray) as ray:
        from ray import serve
        from ray.serve.handle import DeploymentHandle

        logging.getLogger("ray.serve").setLevel(logging.ERROR)  # the lines here are JSON
        if not hasattr(DeploymentHandle, "broadcast"):
            raise ClusterError(f"Ray {ray.__version__} is too old for the service, which needs 2.60")
        gpu, threads = engines.engines_get_gpu(ray, device), threads or 1
        fewest, room = replicas.min_engines, engines.count_fitting_engines(ray, gpu, threads)
        if fewest > room:
            each = "a GPU" if gpu else f"{threads} cores"
            raise ClusterError(f"only {room} engines of {each} fit on this cluster, not {fewest}")
        port = endpoint.port or _free_port(endpoint.host)
        deployment = serve.deployment(
            serve.ingress()(Replica),
            name=NAME,
            **_deployment_options(limits, gpu, threads, fewest, replicas.engines or room),
        )
        engine_options = {"device": "cuda" if gpu else "cpu", "threads": threads, **options}
        names = AllowedHosts.of(endpoint.host, endpoint.allowed_host or ())
        bound = deployment.bind(dict(models), engine_options, limits, names)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        http = {"host": endpoint.host, "port": port, "request_timeout_s": limits.timeout + MARGIN}
        serve.start(proxy_location="HeadOnly", http_options=http)
        try:
            serve.run(bound, name=NAME, route_prefix="/")
        except RuntimeError as error:
            raise ClusterError(f"the replicas could not be started: {error}") from error
        level = logging.INFO if endpoint.port else logging.WARNING  # a free port is named with --quiet too
        LOG.log(level, "ready", extra={"log_fields": {"port": port, "models": sorted(models)}})
        stop.wait()
        serve.delete(NAME)


def _deployment_options(limits: Limits, gpu: bool, threads: int, fewest: int, most: int) -> dict[str, Any]:
    return {
        "ray_actor_options": {"num_cpus": threads, "num_gpus": int(gpu)},
        "max_ongoing_requests": limits.queue,
        "max_queued_requests": limits.queue,
        "graceful_shutdown_timeout_s": limits.grace,
        "max_constructor_retry_count": ATTEMPTS,
        "autoscaling_config": {
            "min_replicas": fewest,
            "initial_replicas": fewest,
            "max_replicas": most,
            "target_ongoing_requests": limits.batch_size,
            "upscale_delay_s": UP,
            "downscale_delay_s": DOWN,
        },
    }


def _free_port(host: str) -> int:
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])
