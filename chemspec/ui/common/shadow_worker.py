"""A thread that decodes some questions of the app again without drafts while the machine is idle."""

from __future__ import annotations

from threading import Event, Thread
from time import sleep

from chemspec.engine.engine import Engine
from chemspec.io.shadow import Shadow
from chemspec.settings import DecodeSettings
from chemspec.system.fair_queue import BusyError, FairQueue
from chemspec.types import DecodeResult

IDLE_SECONDS = 2.0  # without any question before a repetition, so that it does not fall between the runs of a race


class ShadowWorker:
    """Runs a shadow measurement in the queue that all visitors share, behind everybody.

    Attributes:
        shadow: the measurement.
    """

    def __init__(self, shadow: Shadow, queue: FairQueue, *, idle: float = IDLE_SECONDS) -> None:
        """Start the thread; it repeats a question once there was none for `idle` seconds."""
        self.shadow, self._queue, self._idle = shadow, queue, idle
        self._offered = Event()
        Thread(target=self._run, daemon=True, name="shadow measurement").start()

    def offer(self, engine: Engine, query: str, settings: DecodeSettings, served: DecodeResult) -> None:
        """Offer an answered question for a repetition."""
        if self.shadow.offer(engine, query, settings, served, streamed=True):
            self._offered.set()

    def _run(self) -> None:
        while True:
            self._offered.wait()
            self._offered.clear()
            while self.shadow.pending:
                self._wait_until_idle()
                try:
                    with self._queue.wait_for_turn(patient=True):
                        self.shadow.run_next(lambda: len(self._queue) > 1)  # its own turn counts
                except BusyError:
                    continue

    def _wait_until_idle(self) -> None:
        step = self._idle / 10
        quiet = 0
        while quiet < 10:
            sleep(step)
            quiet = 0 if len(self._queue) else quiet + 1
