"""Measure what the loop itself costs: runs on a model that takes no time and never says anything else."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from chemspec.decode.beam import beam_search
from chemspec.decode.compiled.build import library
from chemspec.decode.compiled.structures import Still
from chemspec.decode.decoding import Decoding
from chemspec.decode.greedy import greedy
from chemspec.decode.protocol import Decoder
from chemspec.draft.base import Drafter, HostCost
from chemspec.draft.mixed import Mixed
from chemspec.draft.none import NoDrafts
from chemspec.draft.tree.edit_ngrams import COPY_ONLY
from chemspec.model.session import SPARSE, Floats, Ints, KernelPass, NodeBatch, Runner, Session

PASSES, BEAM_PASSES, WIDTH = 24, 8, 10  # of a run
TIMES = 5  # the fastest counts: what else the machine does can only slow it down
FEW, MANY = 2, 18  # nodes of a draft
SOURCE = tuple(range(40, 80))  # a query that has nothing of what the model says
MOST = 4096  # nodes of a pass
WEIGHTS = 1 << 20


class _Still:
    """A backend, and its runner: after every prefix the same tokens, of which none ends it.

    A pass reads as much memory as a model would: what follows finds the caches cold.
    """

    compaction_threshold = SPARSE
    attention: Floats | None = None
    hidden_states: Any = None

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock, self._spent = clock, 0.0
        self._weights = np.zeros(WEIGHTS, dtype=np.int32)
        self._pass = Still(0, 0, self._weights.ctypes.data, WEIGHTS)  # of compiled code
        self.kernel_pass: KernelPass | None = None

    @property
    def seconds(self) -> float:
        """What was spent in passes."""
        return self._spent + float(self._pass.seconds)

    def open(self, sources: Sequence[Sequence[int]], *, top_k: int) -> Runner:
        """Start anew."""
        self.top_k = top_k
        self._ids = np.tile(np.arange(4, 4 + top_k), (MOST, 1)).astype(np.int32)
        self._log_probs = np.tile(-0.1 - 3 * np.arange(top_k), (MOST, 1)).astype(np.float32)
        self._pass.ids, self._pass.log_probs = self._ids.ctypes.data, self._log_probs.ctypes.data
        if (code := library()) is not None:
            function = ctypes.cast(code.chemspec_still, ctypes.c_void_p).value or 0
            self.kernel_pass = KernelPass(function, ctypes.addressof(self._pass), top_k)
        return self

    def run(self, nodes: NodeBatch) -> tuple[Ints, Floats]:
        """Return the tokens; see `session.Runner`."""
        began, count = self._clock(), len(nodes.tokens)
        self._weights.max()
        self._spent += self._clock() - began
        return self._ids[:count], self._log_probs[:count]  # type: ignore[return-value]

    def release(self, query: int) -> None:
        """Keep nothing."""

    def compact(self, query: int, slots: Ints) -> None:
        """Keep nothing."""


def loop_that_runs() -> str:
    """Return the name of the loop that is used here."""
    return "python" if library() is None else "compiled"


def measure(loop: str, clock: Callable[[], float] = time.perf_counter) -> HostCost:
    """Time the loop of a name; takes some hundredths of a second, of the loop in Python some tenths.

    Args:
        loop: "compiled" or "python".
        clock: seconds; passes in compiled code are on the monotonic clock that `time.perf_counter` reads, so the
            compiled loop needs this one.
    """

    def seconds(decoder: Callable[[], Decoder], drafter: Callable[[], Drafter], passes: int) -> tuple[float, float]:
        """Return seconds and drafted nodes of a pass."""
        best, nodes = float("inf"), 0
        for _ in range(TIMES):
            still = _Still(clock)
            session = Session(still, [SOURCE], top_k=WIDTH + 1)
            run = Decoding(
                [SOURCE],
                [decoder()],
                session,
                drafter(),
                max_len=200,
                budget=256,
                clock=lambda: 0.0,
                compiled=loop == "compiled",
            )
            began = clock()
            run.run_to_end()
            best = min(best, clock() - began - still.seconds)
            nodes = sum(one.drafted for one in run.passes[0])
        return best / passes, nodes / passes

    def drafts(nodes: int) -> Callable[[], Drafter]:
        return lambda: Mixed(COPY_ONLY, nodes=nodes)

    alone, _ = seconds(lambda: greedy(max_len=PASSES), NoDrafts, PASSES)
    few, some = seconds(lambda: greedy(max_len=PASSES), drafts(FEW), PASSES)
    many, others = seconds(lambda: greedy(max_len=PASSES), drafts(MANY), PASSES)
    beam, _ = seconds(lambda: beam_search(width=WIDTH, max_len=BEAM_PASSES), NoDrafts, BEAM_PASSES)
    ahead, looked = seconds(lambda: beam_search(width=WIDTH, max_len=BEAM_PASSES), drafts(MANY), BEAM_PASSES)
    node = max(0.0, many - few) / max(1.0, others - some)
    return HostCost(
        start=alone,
        tree=max(0.0, few - alone - node * some),
        node=node,
        ahead=max(0.0, ahead - beam) / max(1.0, looked),
    )
