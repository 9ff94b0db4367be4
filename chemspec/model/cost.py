"""What a pass costs on this machine: seconds against nodes, measured once and cached on disk."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from chemspec.model.session import Backend, NodeBatch, Runner, Session
from chemspec.system import cache, host
from chemspec.tokenizer import BOS, SPECIALS
from chemspec.types import Prefix

# Beside powers of two, what tells a staircase: tile instructions compute 16 rows for the price of one.
SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 17, 32, 33, 64)
# On a GPU a batch of many queries is a size of its own: (queries, new nodes of each).
BATCHES = ((32, 16), (128, 16), (256, 32))
QUERIES = (1, 2, 4, 8, 16, 32, 64, 128, 256)  # batches among which `fastest_batch` chooses
QUIET = 0.75  # a load per core at which times are to be trusted
SOURCE, WRITTEN = 40, 24  # a typical query, half an answer
# How often a pass is timed: those of few nodes more often, for there a mistake of 0.1 ms decides.
SMALL, REPEATS = 16, (4, 2)
# Passes of a trial, of which the fastest counts: the first ones grow the KV cache and read the weights from memory,
# where a query's later passes find them in the processor's cache; small passes take several until they do.
BRANCHES, SMALL_BRANCHES = 3, 10
LOOP_SECONDS = 5e-6  # of the compiled loop's own work in a pass


@dataclass(frozen=True)
class CostCurve:
    """Seconds of a pass by its number of new nodes: straight lines between measured points, and on beyond the last.

    Attributes:
        nodes: sizes measured, rising.
        seconds: of the model, for each.
    """

    nodes: tuple[int, ...]
    seconds: tuple[float, ...]

    def __post_init__(self) -> None:
        rising = all(one < other for one, other in pairwise(self.nodes))
        if len(self.nodes) < 2 or len(self.nodes) != len(self.seconds) or not rising:
            raise ValueError("a cost curve needs two or more sizes, rising, and a time for each")

    @cached_property
    def _known(self) -> dict[float, float]:
        return {}  # a drafter asks for the same few numbers at every pass

    def __call__(self, count: float) -> float:
        """Return the seconds of a pass with so many new nodes."""
        seconds = self._known.get(count)
        if seconds is None:
            seconds = self._known[count] = self._between(count)
        return seconds

    def _between(self, count: float) -> float:
        upper = min(max(bisect_left(self.nodes, count), 1), len(self.nodes) - 1)
        (x0, x1), (y0, y1) = self.nodes[upper - 1 : upper + 1], self.seconds[upper - 1 : upper + 1]
        return max(y0 + (y1 - y0) * (count - x0) / (x1 - x0), 1e-9)


def measure(
    backend: Backend,
    vocab_size: int,
    max_positions: int,
    clock: Callable[[], float],
    *,
    batches: Sequence[tuple[int, int]] = (),
) -> CostCurve:
    """Time passes of every size in `SIZES` for one query; takes under a second on two cores.

    Args:
        backend: the model.
        vocab_size: its tokens.
        max_positions: most tokens of a source or an answer.
        clock: seconds.
        batches: larger passes to time too, rising: (queries, new nodes of each).
    """
    written = max(0, min(WRITTEN, max_positions - 4))
    shapes = [(1, size) for size in SIZES] + list(batches)
    shapes = [(queries, size) for queries, size in shapes if size <= 2 or written + size < max_positions]
    tokens = range(len(SPECIALS), vocab_size)
    source = [tokens[i % len(tokens)] for i in range(max(1, min(SOURCE, max_positions - 2)))]
    base: Prefix = (BOS, *(tokens[i % len(tokens)] for i in range(written)))

    def once(queries: int, size: int) -> float:
        session = Session(backend, [source] * queries, top_k=2)
        session.score([[base]] * queries)
        seconds = []
        branches = SMALL_BRANCHES if queries * size <= SMALL // 2 else BRANCHES
        for branch in range(min(branches, len(tokens))):
            grown = base + tuple(tokens[(branch + i) % len(tokens)] for i in range(size))
            nodes, _ = session.new_nodes([[grown]] * queries)
            run = _ready(session.runner, nodes)
            began = clock()
            run()
            seconds.append(clock() - began)
        return min(seconds)

    for shape in shapes if batches else shapes[-1:]:  # a GPU records each size when it comes again
        for _ in range(2 if batches else 1):
            once(*shape)
    sizes = [queries * size for queries, size in shapes]
    # The fastest, because whatever else the machine does can only slow a pass down; all sizes in turn, because it
    # may do so for longer than it takes to time one of them.
    seconds = [float("inf")] * len(sizes)
    for turn in range(max(REPEATS)):
        for index, shape in enumerate(shapes):
            if turn < REPEATS[sizes[index] > SMALL]:
                seconds[index] = min(seconds[index], once(*shape))
    # Noise must not make a larger pass look cheaper than a smaller one.
    for index in range(1, len(seconds)):
        seconds[index] = max(seconds[index], seconds[index - 1] * 1.0001)
    return CostCurve(tuple(sizes), tuple(seconds))


def fastest_batch(
    backend: Backend, vocab_size: int, max_positions: int, clock: Callable[[], float], *, rows: int
) -> int:
    """Return with how many queries at a time a query takes least, or up to a thirtieth more; takes some seconds.

    Args:
        backend: the model.
        vocab_size: its tokens.
        max_positions: most tokens of a source or an answer.
        clock: seconds.
        rows: new nodes of a query in a pass: the width of a beam.
    """
    tokens = range(len(SPECIALS), vocab_size)
    rows = min(rows, len(tokens))
    source = [tokens[i % len(tokens)] for i in range(max(1, min(SOURCE, max_positions - 2)))]
    passes = max(1, min(WRITTEN, max_positions - 4))

    def once(queries: int) -> float:
        """Return seconds of a query, encoded and written with so many others."""
        began = clock()
        session = Session(backend, [source] * queries, top_k=2)
        beams: list[Prefix] = [(BOS,)]
        session.score([beams] * queries)
        beams = [(BOS, tokens[beam]) for beam in range(rows)]
        for step in range(passes):
            nodes, _ = session.new_nodes([beams] * queries)
            _ready(session.runner, nodes)()
            beams = [(*beam, tokens[step % len(tokens)]) for beam in beams]
        return (clock() - began + passes * LOOP_SECONDS) / queries

    seconds = dict.fromkeys(QUERIES, float("inf"))
    for _ in range(2):  # the faster one counts; the first makes room in the cache
        best = float("inf")
        for queries in QUERIES:
            seconds[queries] = min(seconds[queries], once(queries))
            best = min(best, seconds[queries])
            if seconds[queries] > 1.25 * best:  # and larger ones will be slower still
                break
    return next(queries for queries in QUERIES if seconds[queries] <= min(seconds.values()) * 31 / 30)


def _ready(runner: Runner, nodes: NodeBatch) -> Callable[[], object]:
    """Return what runs a pass, as the loop that suits the runner does it."""
    run_at = getattr(runner, "run_at", None)
    if run_at is None:
        return lambda: runner.run(nodes)
    columns = np.array((nodes.queries, nodes.tokens, nodes.depths, nodes.parents), dtype=np.int32)
    return lambda: run_at(columns.ctypes.data, columns.shape[1])


def cached(key: str, make: Callable[[], CostCurve], *, load: Callable[[], float] = host.load_per_core) -> CostCurve:
    """Return the curve measured earlier, or a new one; what a busy machine gave is measured again on a quiet one.

    Args:
        key: of model, runtime and machine; names the file in the cache.
        make: measures.
        load: how busy the machine is: programs that want to run, per core.
    """
    content, now = cache.read(f"{key}.cost.json"), load()
    if content is not None:
        try:
            stored = json.loads(content)
            curve = CostCurve(tuple(stored["nodes"]), tuple(stored["seconds"]))
            if stored["load"] <= QUIET or now > QUIET:
                return curve
        except (ValueError, KeyError, TypeError):
            pass  # damaged: measure again
    curve = make()
    found = {"nodes": curve.nodes, "seconds": curve.seconds, "load": now}
    cache.write(f"{key}.cost.json", json.dumps(found).encode())
    return curve


def cached_number(name: str, make: Callable[[], int]) -> int:
    """Return the number found earlier, or a new one."""
    content = cache.read(f"{name}.json")
    if content is not None:
        with suppress(ValueError):  # damaged: measure again
            return int(content)
    number = make()
    cache.write(f"{name}.json", str(number).encode())
    return number
