"""The command `serve`: the HTTP service."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from chemspec.cli import options as opt
from chemspec.cli import show
from chemspec.cli.base import command
from chemspec.service.limits import Limits, RequestLimits
from chemspec.system import extras


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """Where the service listens.

    Attributes:
        host: address to listen on; 0.0.0.0: all addresses of this machine.
    """

    host: str = "127.0.0.1"
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0: any free one.")] = 8000
    allowed_host: opt.AllowedHostOption = None
    log: Annotated[bool, opt.option("Log requests on standard error.", "--log/--quiet")] = True

    def options(self) -> dict[str, Any]:
        """Return the options of a server."""
        return {"host": self.host, "port": self.port, "allowed": self.allowed_host or [], "log": self.log}


@dataclass(frozen=True, kw_only=True)
class ServedEngines:
    """Which models run where and how.

    Attributes:
        device: device: auto, cpu, cuda, cuda:0, ...; repeatable, with one engine each.
    """

    model: Annotated[
        list[str] | None,
        opt.option("Model folder or installed name; repeatable; default: all installed models.", "--model", "-m"),
    ] = None
    device: list[str] | None = None
    dtype: opt.DtypeOption = "auto"
    threads: opt.ThreadsOption = 0
    runtime: opt.RuntimeOption = "auto"


@dataclass(frozen=True, kw_only=True)
class Replicas:
    """Replicas of the engines on a Ray cluster.

    Attributes:
        ray: run the engines as replicas on a Ray cluster: local, auto or HOST:PORT (extra ray).
        engines: with --ray: maximum number of engines; 0: as many as fit.
        min_engines: with --ray: number of engines that stay up without requests.
    """

    ray: str = ""
    engines: int = 0
    min_engines: int = 1

    def __post_init__(self) -> None:
        if not self.ray and (self.engines or self.min_engines != 1):
            raise ValueError("--engines and --min-engines go with --ray")


@command("serve", "Answers")
def serve_models(
    *,
    endpoint: Endpoint,
    served: ServedEngines,
    limits: RequestLimits,
    keys: Annotated[
        Path | None, opt.option("File of API keys, a line each; also CHEMSPEC_API_KEYS, with commas.")
    ] = None,
    shadow: opt.ShadowOption = 0.0,
    replicas: Replicas,
) -> None:
    """Serve predictions over HTTP until SIGTERM or Ctrl-C; OpenAPI document at /openapi.json."""
    extras.require_packages("fastapi", "uvicorn", "prometheus_client", what="the service")
    from chemspec.service import server
    from chemspec.service.service import Service

    all_limits = Limits(**vars(limits), keys=server.read_keys(keys))
    models, devices = server.folders_by_name(served.model or []), served.device or ["auto"]
    opt.check_devices(*devices)
    options: dict[str, Any] = {"dtype": served.dtype, "threads": served.threads, "runtime": served.runtime}
    address = f"{', '.join(models)} on http://{endpoint.host}:{endpoint.port}"
    if not replicas.ray:
        service = Service(lambda: server.load_engines(models, devices, **options), all_limits, shadow=shadow)
        show.print_note(f"serving {address}; Ctrl-C ends it")
        server.run_service(service, **endpoint.options())
        return
    extras.require_packages("ray", what="--ray")
    from chemspec.cluster import service_on_ray

    if shadow:
        raise ValueError("--shadow is for engines in this process; leave out --ray")
    if len(devices) > 1:
        raise ValueError("with --ray every engine gets a device of its own; give --device once: cuda, cpu or auto")
    show.print_note(f"serving {address} by engines on Ray; Ctrl-C ends it")
    service_on_ray.run_on_ray(
        models,
        all_limits,
        address=replicas.ray,
        device=devices[0],
        fewest=replicas.min_engines,
        most=replicas.engines,
        **endpoint.options(),
        **options,
    )
