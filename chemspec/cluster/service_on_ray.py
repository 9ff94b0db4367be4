"""The HTTP service on a Ray cluster: a Ray Serve deployment whose replicas hold an engine and the service's own routes.

A replica is `chemspec.service` as it stands, without a port: its scheduler makes the batches, its application the
answers. Ray starts replicas where there is room, more of them under load, and notices their deaths; `door` is what
clients talk to.
"""

from __future__ import annotations

import asyncio
import logging
import platform
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import prometheus_client

from chemspec.cluster import engines
from chemspec.cluster.dispatch import ClusterError
from chemspec.cluster.door import TOLD, Answer, Door, Replicas
from chemspec.service import api, server
from chemspec.service.dropins.rxn import Tasks
from chemspec.service.dropins.tasks import Journal
from chemspec.service.guard import Message
from chemspec.service.limits import Limits
from chemspec.service.service import Service

ATTEMPTS = 3  # to start a replica before it is said that it cannot be started
UP, DOWN = 10.0, 300.0  # seconds of load, or without, after which there are more replicas, or fewer
METRICS = 5.0  # seconds in which replicas must tell their numbers
DEPLOYMENT = "Replica"


class Replica:
    """One engine a model, and the application that asks them, in a process of its own."""

    async def __init__(  # type: ignore[misc]  # Ray Serve awaits it
        self, models: Mapping[str, Path], device: str, options: Any, limits: Limits, kept: Any
    ) -> None:
        """Load the models; requests come when this returns.

        Args:
            models: folders by name.
            device: of the engines.
            options: of `Engine.load`.
            limits: of the service.
            kept: the actor with the journal of questions that have a number.
        """
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]
        self._service = Service(lambda: server.load(models, [device], **options), limits)
        loaded = asyncio.Event()
        self._app = api.create(self._service, Tasks(_Remote(kept)), loaded.set)
        self._life = self._app.router.lifespan_context(self._app)
        await self._life.__aenter__()
        await loaded.wait()
        if self._service.problem is not None:
            raise self._service.problem

    async def __del__(self) -> None:  # Ray Serve calls it when the last request is answered, and awaits it
        if hasattr(self, "_life"):
            await self._life.__aexit__(None, None, None)

    async def check_health(self) -> None:
        """Let Ray replace it where a restart helps."""
        if not self._service.healthy:
            raise RuntimeError(self._service.broken)

    async def answer(self, scope: Message, body: bytes) -> AsyncIterator[Message]:
        """Yield the application's messages, and before the first and after the last what its log would say."""
        messages: asyncio.Queue[Message | None] = asyncio.Queue()
        gone = asyncio.Event()
        parts = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> Message:
            if parts:
                return parts.pop()
            await gone.wait()
            return {"type": "http.disconnect"}

        async def run() -> None:
            try:
                await self._app(scope, receive, messages.put)  # type: ignore[arg-type]
            finally:
                messages.put_nowait(None)

        def told() -> Message:
            route = getattr(scope.get("route"), "path", "unknown")
            return {"type": TOLD, "route": route, "told": dict(scope["state"]["told"])}

        running = asyncio.create_task(run())
        try:
            while (message := await messages.get()) is not None:
                if message["type"] == "http.response.start":
                    yield told()
                yield message
            await running
            yield told()
        finally:
            gone.set()

    async def metrics(self) -> tuple[str, bytes]:
        """Return its name and its numbers for Prometheus."""
        from ray import serve

        return str(serve.get_replica_context().replica_id.unique_id), self._service.metrics.text()


class _Remote(Journal):
    """The journal of all replicas, kept by an actor on the machine of the door."""

    def __init__(self, actor: Any) -> None:
        import ray

        self._ray, self._actor = ray, actor

    def add(self, question: Any) -> str:
        return str(self._ray.get(self._actor.add.remote(question)))

    def answer(self, number: str, answer: Any) -> None:
        self._ray.get(self._actor.answer.remote(number, answer))

    def read(self, number: str) -> Any:
        return self._ray.get(self._actor.read.remote(number))

    def open(self) -> Any:
        return self._ray.get(self._actor.open.remote())

    def close(self) -> None:
        """Leave it open for the others."""


class _OnRay:
    """The deployment, by its handle."""

    def __init__(self, handle: Any) -> None:
        from ray.exceptions import RayActorError
        from ray.serve.exceptions import BackPressureError, DeploymentUnavailableError

        self.died: tuple[type[BaseException], ...] = (RayActorError, DeploymentUnavailableError)
        self.full: tuple[type[BaseException], ...] = (BackPressureError,)
        self._ask = handle.options(method_name="answer", stream=True)
        self._handle = handle

    def ask(self, scope: Message, body: bytes) -> Answer:
        answer: Answer = self._ask.remote(scope, body)
        return answer

    async def metrics(self) -> Sequence[tuple[str, bytes]]:
        told = await self._handle.broadcast("metrics").results_async(timeout_s=METRICS, return_exceptions=True)
        return [one for one in told if not isinstance(one, Exception)]


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
    state: Path | None = None,
    log: bool = True,
    **options: Any,
) -> None:
    """Serve until SIGTERM or Ctrl-C, then finish what was accepted.

    Args:
        models: folders by name; a path must be there on every machine.
        limits: of every replica.
        address: of the cluster, as for `engines.cluster`.
        host: the address to listen on.
        port: 0 takes one that is free.
        allowed: names of this server besides its own, as for `AllowedHosts.of`.
        device: "cpu", "cuda" (a GPU each) or "auto" (a GPU each if any machine has one).
        threads: cores of a replica; 0: one.
        fewest: replicas that are kept when nobody asks.
        most: replicas under load; 0: as many as there is room for.
        state: where questions with a number are kept, on this machine.
        log: whether to log on standard error.
        options: of `Engine.load`.

    Raises:
        ClusterError: if there is no cluster, no room on it, or Ray is too old.
        ValueError: if the models could not be loaded.
        OSError: if the port cannot be had.
    """
    with engines.cluster(address) as ray:
        from ray import serve
        from ray.serve.handle import DeploymentHandle

        logging.getLogger("ray.serve").setLevel(logging.ERROR)  # the lines here are JSON
        if not hasattr(DeploymentHandle, "broadcast"):
            raise ClusterError(f"Ray {ray.__version__} is too old for the service; it wants 2.60")
        gpu, threads = engines.gets_gpu(ray, device), threads or 1
        room = engines.room_for(ray, gpu, threads)
        most = most or max(room, fewest)
        if not 1 <= fewest <= most:
            raise ValueError(f"from {fewest} to {most} engines is no range; give --min-engines from 1 to --engines")
        if fewest > room:
            each = "a GPU" if gpu else f"{threads} cores"
            raise ClusterError(f"there is room for {room} engines of {each} on this cluster, not for {fewest}")
        name = f"chemspec-{platform.node()}-{port}"
        here = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
            ray.get_runtime_context().get_node_id(), soft=False
        )
        path = state or server.journal(port)
        Journal(path).close()  # says here what is wrong with it
        # Not a replica's: several may answer one question's number, and some of them are on other machines.
        kept = ray.remote(Journal).options(num_cpus=0, scheduling_strategy=here).remote(path)
        deployment = serve.deployment(
            Replica,
            name=DEPLOYMENT,
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
        bound = deployment.bind(dict(models), "cuda" if gpu else "cpu", how, limits, kept)

        def deploy() -> Replicas:
            serve.start(proxy_location="Disabled")
            return _OnRay(serve.run(bound, name=name, route_prefix=None))

        door = Door(list(models), limits, deploy, lambda: serve.delete(name))
        server.listen(door, door.create, host=host, port=port, allowed=allowed, log=log)
