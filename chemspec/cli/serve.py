"""The commands `app` and `serve`: the web app and the HTTP service."""

import os
from dataclasses import replace
from pathlib import Path

from chemspec.asset_files import app_script
from chemspec.cli.base import command
from chemspec.cli.options import Runtime
from chemspec.service.limits import Endpoint, Limits, Replicas
from chemspec.system import extras, files
from chemspec.terminal import console


@command("app", "Answers")
def launch_app(
    port: int = 8501,
    host: str = "127.0.0.1",
    allowed_host: list[str] | None = None,
    headless: bool = False,
    window: bool = False,
    install_shortcut: bool = False,
    watch: bool = False,
) -> None:
    """Open the app in a browser.

    Options:
        port: port to listen on.
        host: address to listen on; 0.0.0.0 accepts other machines (see the docs on login).
        headless: do not open a browser.
        window: open a window of its own (by Chrome, Chromium, Edge or Brave), and end when it is closed.
        install_shortcut --install-shortcut: add chemspec to the menu of programs, and exit.
        watch: rerun pages when a source file changes, for developers.
    """
    extras.require_packages("streamlit", "altair", "pandas", "pyarrow", what="the app")
    from chemspec.system.host_check import AllowedHosts

    Endpoint(port=port)  # refuses a port out of range
    allowed = AllowedHosts.of(host, allowed_host or [])
    if warning := files.permission_warning():
        console.print_note(f"warning: {warning}")
    os.chdir(app_script().parent)  # where the settings of Streamlit are
    from chemspec.ui.launch import window as desktop

    if install_shortcut:
        console.print_line(f"chemspec is in the menu of programs: {desktop.install_shortcut()}")
        return
    if window:
        port = desktop.free_port(port)
        desktop.open_with_server(port)
    from chemspec.ui.launch.server import run_server

    run_server(allowed, host=host, port=port, headless=headless or window, watch=watch)


@command("serve", "Answers")
def serve_models(
    *,
    endpoint: Endpoint,
    model: list[str] | None = None,
    runtime: Runtime,
    limits: Limits,
    keys: Path | None = None,
    replicas: Replicas,
) -> None:
    """Serve predictions over HTTP until SIGTERM or Ctrl-C; OpenAPI document at /openapi.json.

    Options:
        model -m: model folder or installed name; repeatable; default: all installed models.
        keys: file of API keys, a line each; also CHEMSPEC_API_KEYS, with commas.
    """
    extras.require_packages("fastapi", "uvicorn", "prometheus_client", what="the service")
    from chemspec.service import server
    from chemspec.service.service import Service

    limits = replace(limits, api_keys=server.read_keys(keys))
    models = server.folders_by_name(model or [])
    address = f"{', '.join(models)} on {endpoint.address}"
    if not replicas.ray:
        service = Service(server.load_engines(models, **runtime.loading), limits)
        console.print_note(f"serving {address}; Ctrl-C ends it")
        server.run_service(service, endpoint)
        return
    extras.require_packages("ray", what="--ray")
    from chemspec.cluster import service_on_ray

    console.print_note(f"serving {address} by engines on Ray; Ctrl-C ends it")
    service_on_ray.run_on_ray(models, limits, endpoint, replicas, **runtime.loading)
