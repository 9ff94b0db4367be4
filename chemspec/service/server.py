"""Run the service: load the models behind an open port, log one JSON line a request, stop without losing anything."""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

import prometheus_client
import uvicorn

from chemspec.engine.engine import Engine
from chemspec.engine.registry import installed, model_folder
from chemspec.service import api
from chemspec.service.guard import LOG
from chemspec.service.service import Service
from chemspec.settings import DecodeSettings
from chemspec.system import connections, gpu
from chemspec.system.host_check import AllowedHosts, HostCheck


def read_keys(file: Path | None) -> frozenset[str]:
    """Return the keys of a file, one a line, and of CHEMSPEC_API_KEYS, separated by commas.

    Raises:
        ValueError: if a file was given and holds none: that would let everybody in.
    """
    found = {key.strip() for key in os.environ.get("CHEMSPEC_API_KEYS", "").split(",")} - {""}
    if file is not None:
        own = {line.strip() for line in file.read_text(encoding="utf-8").splitlines()} - {""}
        if not own:
            raise ValueError(f"{file} holds no key; write one a line, or leave --keys out to let everybody ask")
        found |= own
    return frozenset(found)


def names_of(models: Sequence[str]) -> dict[str, Path]:
    """Return the folders of the models that will answer, by the names under which they are asked.

    Args:
        models: paths or names; all installed ones without.

    Raises:
        ValueError: if there is none, or two have one name.
    """
    folders = [model_folder(name) for name in models] or installed()
    if not folders:
        raise ValueError("there is no model to serve; give --model FOLDER")
    found: dict[str, Path] = {}
    for folder in folders:
        if found.setdefault(folder.name, folder) != folder:
            raise ValueError(f"two models are called {folder.name}: {found[folder.name]} and {folder}")
    return found


def load(models: Mapping[str, Path], devices: Sequence[str], **options: Any) -> list[dict[str, Engine]]:
    """Load every model on every device, and let each answer once, so that the first client waits for nothing.

    Args:
        models: folders by name.
        devices: as for `Engine.load`; "cuda:all" stands for all GPUs.
        options: of `Engine.load`.
    """
    wanted = [
        device
        for name in devices
        for device in ([f"cuda:{one}" for one in range(gpu.count())] if name == "cuda:all" else [name])
    ]
    if not wanted:
        raise ValueError("there is no usable GPU on this machine; use --device cpu")
    found = []
    for device in wanted:
        engines = {name: Engine.load(folder, device=device, **options) for name, folder in models.items()}
        for engine in engines.values():
            engine.cost()  # measured once a machine, then read from disk
            for decoder in ("greedy", "beam"):
                engine.predict(["CCO"], DecodeSettings(decoder=decoder, n=1 + (decoder == "beam"), max_len=8))
        found.append(engines)
    return found


class _Server(uvicorn.Server):
    """A server that tells the service at once when it is asked to stop."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._service.stopping = True
        super().handle_exit(sig, frame)


def run(service: Service, *, host: str, port: int, allowed: Sequence[str] = (), log: bool = True) -> None:
    """Serve until SIGTERM or Ctrl-C, then finish what was accepted.

    Args:
        service: that answers.
        host: the address to listen on.
        port: 0 takes one that is free.
        allowed: names of this server besides its own, as for `AllowedHosts.of`.
        log: whether to log on standard error that the models are loaded, and every request.

    Raises:
        ValueError: if the models could not be loaded.
        OSError: if the port cannot be had.
    """
    log_as_json(log)
    prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]
    holder: list[_Server] = []

    def loaded() -> None:
        if service.problem is not None:
            holder[0].should_exit = True
        else:
            LOG.info("ready", extra={"told": {"port": _port(holder[0]), "models": sorted(service.models)}})

    config = configured(service, api.create(service, loaded), host=host, port=port, allowed=allowed)
    holder.append(_Server(config, service))
    # uvicorn raises a signal once more when it is done; a stop that was asked for is no failure.
    with suppress(ValueError):  # not in the main thread
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: None)
    try:
        holder[0].run()
    except SystemExit as error:  # of uvicorn, where it cannot begin
        raise OSError(f"cannot listen on {host}:{port}; another program may have the port") from error
    if service.problem is not None:
        raise ValueError(str(service.problem)) from service.problem


def configured(
    service: Service, app: Any, *, host: str = "127.0.0.1", port: int = 0, allowed: Sequence[str] = ()
) -> uvicorn.Config:
    """Return how to put an application behind a port, with all that stands between the port and its routes."""

    def refused(reason: str) -> None:
        service.metrics.refused.labels(reason).inc()
        log(reason)

    log = connections.Refusals(lambda counts: LOG.warning("refused", extra={"told": dict(counts)}))
    return uvicorn.Config(
        HostCheck(app, AllowedHosts.of(host, allowed), links=False, refused=refused),
        host=host,
        port=port,
        http=connections.limited_protocol(refused, connections.most_connections()),
        backlog=connections.BACKLOG,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=int(service.limits.grace) + 1,
        timeout_keep_alive=75,
        ws="none",
    )


def _port(server: uvicorn.Server) -> int:
    return int(server.servers[0].sockets[0].getsockname()[1])


class _Json(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        told = getattr(record, "told", {})
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        what = {"time": f"{stamp}.{int(record.msecs):03d}Z", "level": record.levelname.lower()}
        # One line: what asyncio says of an exception has its message, which may hold a query, in further ones.
        return json.dumps({**what, "event": record.getMessage().partition("\n")[0], **told})


def log_as_json(wanted: bool) -> None:
    """Log one JSON object a line on standard error; only warnings, if nothing else is wanted."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json())
    logging.getLogger("uvicorn.access").disabled = True  # it would tell addresses, which may hold a query
    for name in (LOG.name, "uvicorn", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.INFO if wanted else logging.WARNING)
