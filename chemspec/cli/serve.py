"""The command `serve`: the HTTP service."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from chemspec.cli import options as opt
from chemspec.cli import show
from chemspec.cli.base import command
from chemspec.service.limits import Limits, RequestLimits
from chemspec.system import extras


@command("serve", "Answers")
def serve_models(
    host: Annotated[
        str, opt.help_option("Address to listen on; 0.0.0.0: all addresses of this machine.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0: any free one.")] = 8000,
    model: Annotated[
        list[str] | None,
        opt.help_option("Model folder or installed name; repeatable; default: all installed models.", "--model", "-m"),
    ] = None,
    device: Annotated[
        list[str] | None, opt.help_option("Device: auto, cpu, cuda:0, cuda:all; repeatable, with one engine each.")
    ] = None,
    dtype: opt.DtypeOption = "auto",
    threads: opt.ThreadsOption = 0,
    runtime: opt.RuntimeOption = "auto",
    *,
    limits: RequestLimits,
    keys: Annotated[
        Path | None, opt.help_option("File with API keys, one per line; also CHEMSPEC_API_KEYS, separated by commas.")
    ] = None,
    shadow: opt.ShadowOption = 0.0,
    allowed_host: opt.AllowedHostOption = None,
    ray: Annotated[
        str, opt.help_option("Run the engines as replicas on a Ray cluster: local, auto or HOST:PORT (extra ray).")
    ] = "",
    engines: Annotated[int, opt.help_option("With --ray: maximum number of engines; 0: as many as fit.")] = 0,
    min_engines: Annotated[int, opt.help_option("With --ray: number of engines that stay up without requests.")] = 1,
    log: Annotated[bool, opt.help_option("Log requests on standard error.", "--log/--quiet")] = True,
) -> None:
    """Serve predictions over HTTP until SIGTERM or Ctrl-C; OpenAPI document at /openapi.json."""
    extras.require_packages("fastapi", "uvicorn", "prometheus_client", what="the service")
    from chemspec.service import server
    from chemspec.service.service import Service

    all_limits = Limits(**vars(limits), keys=server.read_keys(keys))
    models = server.folders_by_name(model or [])
    devices = device or ["auto"]
    if ray and shadow:
        raise ValueError("--shadow is for engines in this process; leave out --ray")
    if ray:
        extras.require_packages("ray", what="--ray")
        from chemspec.cluster import service_on_ray

        if len(devices) > 1:
            raise ValueError("with --ray every engine gets a device of its own; give --device once: cuda, cpu or auto")
        show.print_note(f"serving {', '.join(models)} on http://{host}:{port} by engines on Ray; Ctrl-C ends it")
        service_on_ray.run_on_ray(
            models,
            all_limits,
            address=ray,
            host=host,
            port=port,
            allowed=allowed_host or [],
            device=devices[0],
            threads=threads,
            fewest=min_engines,
            most=engines,
            log=log,
            dtype=dtype,
            runtime=runtime,
        )
        return
    if engines or min_engines != 1:
        raise ValueError("--engines and --min-engines go with --ray")
    service = Service(
        lambda: server.load_engines(models, devices, dtype=dtype, threads=threads, runtime=runtime),
        all_limits,
        shadow=shadow,
    )
    show.print_note(f"serving {', '.join(models)} on http://{host}:{port}; Ctrl-C ends it")
    server.run_service(service, host=host, port=port, allowed=allowed_host or [], log=log)
