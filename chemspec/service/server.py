"""Run the service: load models, log one JSON line per request, shut down gracefully."""

import json
import logging
import os
import re
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from socket import socket
from threading import Timer
from types import FrameType
from typing import Any, Unpack

import prometheus_client
import uvicorn

from chemspec.engine.engine import Engine
from chemspec.engine.options import LoadingOptions
from chemspec.engine.registry import installed_models, model_folder
from chemspec.evaluation.loading import warm_up
from chemspec.service import api
from chemspec.service.guard import LOG, locate_error
from chemspec.service.limits import Endpoint
from chemspec.service.service import Service
from chemspec.system import connections
from chemspec.system.host_check import AllowedHosts, HostCheck

_COMMENT = re.compile(r"(^|\s)#.*|^\s*(;|//).*")
SWITCH_SECONDS = 0.0005  # time of a thread that reads before one that decodes or answers goes on (Python: 0.005)
LAST_RESORT = 5.0  # seconds after the grace in which a stop that hangs ends the process


def read_keys(file: Path | None) -> frozenset[str]:
    """Return the API keys of a file, one per line, and of CHEMSPEC_API_KEYS, separated by commas.

    Lines that begin with # (or ; or //), and what follows a blank and # behind a key, are comments.
    Raises ValueError for a file without keys, which would allow access without a key.
    """
    keys = {key.strip() for key in os.environ.get("CHEMSPEC_API_KEYS", "").split(",")} - {""}
    if file is not None:
        lines = file.read_text(encoding="utf-8-sig").splitlines()
        file_keys = {_COMMENT.sub("", line).strip() for line in lines} - {""}
        if not file_keys:
            raise ValueError(f"{file} has no key; write one per line, or omit --keys to allow requests without a key")
        keys |= file_keys
    return frozenset(keys)


def folders_by_name(models: Sequence[str]) -> dict[str, Path]:
    """Return folders by model name, all installed ones by default; raises ValueError for none, or two of one name."""
    folders = [model_folder(name) for name in models] or installed_models()
    if not folders:
        raise ValueError("there is no model to serve; give --model FOLDER")
    by_name: dict[str, Path] = {}
    for folder in folders:
        if by_name.setdefault(folder.name, folder) != folder:
            raise ValueError(f"two models have the name {folder.name}: {by_name[folder.name]} and {folder}")
    return by_name


def load_engines(models: Mapping[str, Path], **options: Unpack[LoadingOptions]) -> dict[str, Engine]:
    """Load models and warm them up, so that the first request is not delayed; options are those of `Engine.load`."""
    engines = {name: Engine.load(folder, **options) for name, folder in models.items()}
    for engine in engines.values():
        warm_up(engine)
    return engines


class _Server(uvicorn.Server):
    """A server that logs its start, and informs the service of a stop immediately."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service

    async def startup(self, sockets: list[socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            port = self.servers[0].sockets[0].getsockname()[1]
            level = logging.INFO if self.config.port else logging.WARNING  # a free port is named with --quiet too
            LOG.log(level, "ready", extra={"log_fields": {"port": port, "models": sorted(self._service.engines)}})

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if not self._service.stopping:
            self._service.begin_stop()
            last_resort = Timer(self._service.limits.grace + LAST_RESORT, os._exit, (1,))
            last_resort.daemon = True
            last_resort.start()
        super().handle_exit(sig, frame)


def run_service(service: Service, endpoint: Endpoint) -> None:
    """Serve until SIGTERM or Ctrl-C, then finish what was accepted; OSError if the port is not available."""
    log_as_json(endpoint.log)
    sys.setswitchinterval(SWITCH_SECONDS)
    prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]
    server = _Server(build_server_config(service, api.create_app(service), endpoint), service)
    # uvicorn raises a signal again at the end; a requested stop is not a failure.
    with suppress(ValueError):  # not in the main thread
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: None)
    try:
        server.run()
    except SystemExit as error:  # uvicorn could not start
        raise OSError(f"cannot listen on {endpoint.address}: the port is in use or the host unusable") from error


def build_server_config(service: Service, app: Any, endpoint: Endpoint) -> uvicorn.Config:
    """Return the uvicorn configuration of an application, including host checks and connection limits."""

    def refused(reason: str) -> None:
        service.metrics.refused.labels(reason).inc()
        log(reason)

    log = connections.Refusals(lambda counts: LOG.warning("refused", extra={"log_fields": dict(counts)}))
    return uvicorn.Config(
        HostCheck(app, AllowedHosts.of(endpoint.host, endpoint.allowed_host or ()), links=False, refused=refused),
        host=endpoint.host,
        port=endpoint.port,
        http=connections.limited_protocol(refused),
        backlog=connections.BACKLOG,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=max(1, int(service.limits.grace)),
        timeout_keep_alive=75,
        ws="none",
    )


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        extra = getattr(record, "log_fields", {})
        if record.exc_info and record.exc_info[1] is not None:
            extra = extra | locate_error(record.exc_info[1])
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        basic = {"time": f"{stamp}.{int(record.msecs):03d}Z", "level": record.levelname.lower()}
        # First line only: asyncio adds the message of an exception, which may contain a query, in further ones.
        return json.dumps({**basic, "event": record.getMessage().partition("\n")[0], **extra})


def log_as_json(requests: bool) -> None:
    """Log one JSON object per line on standard error; warnings only unless `requests` is set."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonFormatter())
    logging.captureWarnings(True)  # such as on a stock list that cannot be used
    logging.getLogger("uvicorn.access").disabled = True  # it would log URLs, which may contain queries
    for name in (LOG.name, "uvicorn", "asyncio", "py.warnings"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.INFO if requests else logging.WARNING)
