"""The service: `serve`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from chemspec.cli import options as opt
from chemspec.cli import show
from chemspec.cli.base import app
from chemspec.system import extras


@app.command(rich_help_panel="Answers")
def serve(
    host: Annotated[str, opt.option("Address to listen on; 0.0.0.0 for all of this machine's.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on this machine; 0: any that is free.")] = 8000,
    model: Annotated[
        list[str] | None, opt.option("Model folder or installed name; may be repeated; default all.", "--model", "-m")
    ] = None,
    device: Annotated[
        list[str] | None, opt.option("auto, cpu, cuda:0, cuda:all; may be repeated: one engine each.")
    ] = None,
    dtype: opt.DtypeOption = "auto",
    threads: opt.ThreadsOption = 0,
    runtime: opt.RuntimeOption = "auto",
    batch_size: Annotated[int, opt.option("Most queries of a batch.")] = 16,
    queue: Annotated[int, opt.option("Most queries that wait; beyond it clients are told to come back.")] = 1024,
    each: Annotated[
        int, opt.option("Most queries that wait of one client (a key, or an address); 0: half of the queue.")
    ] = 0,
    queries: Annotated[int, opt.option("Most queries of a request.")] = 256,
    answers: Annotated[int, opt.option("Most answers of a query.")] = 100,
    body: Annotated[int, opt.option("Most bytes of a request.")] = 2_000_000,
    timeout: Annotated[float, opt.option("Most seconds of a request.")] = 60.0,
    grace: Annotated[float, opt.option("Seconds that a stop waits for what was accepted.")] = 60.0,
    hang: Annotated[float, opt.option("Seconds in one forward pass after which /healthz says 503.")] = 300.0,
    keys: Annotated[
        Path | None, opt.option("File with API keys, one a line; also CHEMSPEC_API_KEYS, separated by commas.")
    ] = None,
    allowed_host: opt.AllowedHostOption = None,
    ray: Annotated[
        str, opt.option("Engines on a Ray cluster, one a replica: local, auto or HOST:PORT (extra ray).")
    ] = "",
    engines: Annotated[int, opt.option("With --ray: most engines; 0: as many as there is room for.")] = 0,
    min_engines: Annotated[int, opt.option("With --ray: engines that are kept when nobody asks.")] = 1,
    log: Annotated[bool, opt.option("Log requests on standard error.", "--log/--quiet")] = True,
) -> None:
    """Answer over HTTP until SIGTERM or Ctrl-C; OpenAPI at /openapi.json."""
    extras.require("fastapi", "uvicorn", "prometheus_client", what="the service")
    from chemspec.service import server
    from chemspec.service.limits import Limits
    from chemspec.service.service import Service

    limits = Limits(
        batch_size=batch_size,
        queue=queue,
        each=each,
        queries=queries,
        answers=answers,
        body=body,
        timeout=timeout,
        grace=grace,
        hang=hang,
        keys=server.read_keys(keys),
    )
    models = server.folders_by_name(model or [])
    devices = device or ["auto"]
    if ray:
        extras.require("ray", what="--ray")
        from chemspec.cluster import service_on_ray

        if len(devices) > 1:
            raise ValueError("with --ray every engine gets a device of its own; give --device once: cuda, cpu or auto")
        show.note(f"serving {', '.join(models)} on http://{host}:{port} by engines on Ray; Ctrl-C ends it")
        service_on_ray.run_on_ray(
            models,
            limits,
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
        lambda: server.load_engines(models, devices, dtype=dtype, threads=threads, runtime=runtime), limits
    )
    show.note(f"serving {', '.join(models)} on http://{host}:{port}; Ctrl-C ends it")
    server.run_service(service, host=host, port=port, allowed=allowed_host or [], log=log)
