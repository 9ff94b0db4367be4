"""Seconds of a forward pass on this machine by number of nodes, measured once and cached on disk."""

import json
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import cycle, islice, pairwise

from chemspec.model.runner import Backend
from chemspec.model.session import Session
from chemspec.settings import ModelConfig, ModelDims
from chemspec.system import cache, host
from chemspec.tokenizer import BOS, SPECIALS
from chemspec.types import Prefix

# Powers of two, and sizes that show the steps of tile instructions, which compute 16 rows for the price of one.
SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 17, 32, 33, 64)
# Batches measured on a GPU besides single queries: (queries, new nodes of each). Their passes are recorded at loading.
BATCHES = ((8, 16), (64, 8), (64, 16))
QUIET = 0.75  # load per core up to which timings are trusted
SOURCE, WRITTEN = 40, 24  # tokens of a typical query, and of half an output
# Repetitions: passes of few nodes are timed more often, since an error of 0.1 ms matters there.
SMALL, REPEATS = 16, (4, 2)
# Passes per trial, of which the fastest counts: the first ones grow the KV cache and read the weights from memory,
# which later passes of a query find in the processor's cache; small passes take several until they do.
BRANCHES, SMALL_BRANCHES = 3, 10
QUICK = (1, 2, 16, 64)  # sizes timed, twice each, where a pass takes long: a first answer must not wait for seconds
LARGE = 400  # width of a model from which on it does
Dimensions = ModelConfig | ModelDims


@dataclass(frozen=True)
class CostCurve:
    """Seconds of a forward pass by its number of new nodes, interpolated linearly between measured, ascending sizes."""

    nodes: tuple[int, ...]
    seconds: tuple[float, ...]
    measured: bool = False  # measured here: the times of a run's passes correct it (`draft_planner.PassCosts`)

    def __post_init__(self) -> None:
        rising = all(size < next_size for size, next_size in pairwise(self.nodes))
        if len(self.nodes) < 2 or len(self.nodes) != len(self.seconds) or not rising:
            raise ValueError("a cost curve needs two or more sizes, rising, and a time for each")

    def __call__(self, count: float) -> float:
        """Return the seconds of a pass with `count` new nodes."""
        upper = min(max(bisect_left(self.nodes, count), 1), len(self.nodes) - 1)
        (x0, x1), (y0, y1) = self.nodes[upper - 1 : upper + 1], self.seconds[upper - 1 : upper + 1]
        return max(y0 + (y1 - y0) * (count - x0) / (x1 - x0), 1e-9)


def measure_cost_curve(
    backend: Backend,
    config: Dimensions,
    clock: Callable[[], float],
    *,
    batches: Sequence[tuple[int, int]] = (),
    quick: bool = False,
) -> CostCurve:
    """Time passes of every size in `SIZES` for one query; takes under a second on two cores.

    `batches` are larger passes to time too, ascending: (queries, new nodes of each). `clock` returns seconds. With
    `quick`, few sizes are timed, each twice.
    """
    tokens = range(len(SPECIALS), config.vocab_size)
    source = list(islice(cycle(tokens), max(1, min(SOURCE, config.max_positions - 2))))
    written = max(0, min(WRITTEN, config.max_positions - 4))
    shapes = [(1, size) for size in (QUICK if quick else SIZES)] + list(batches)
    shapes = [(queries, size) for queries, size in shapes if size <= 2 or written + size < config.max_positions]
    base: Prefix = (BOS, *islice(cycle(tokens), written))

    def time_once(queries: int, size: int) -> float:
        session = Session(backend, [source] * queries, top_k=2)
        session.score([[base]] * queries)
        seconds = []
        branches = 2 if quick else SMALL_BRANCHES if queries * size <= SMALL // 2 else BRANCHES
        for branch in range(min(branches, len(tokens))):
            grown = base + tuple(islice(cycle(tokens), branch, branch + size))
            nodes, _ = session.new_nodes([[grown]] * queries)
            kernel = session.runner.kernel_pass
            run = kernel.prepare(nodes) if kernel else partial(session.runner.run, nodes)
            began = clock()
            run()
            seconds.append(clock() - began)
        return min(seconds)

    for shape in shapes if batches else shapes[-1:]:  # CUDA graphs are recorded when a size first comes
        for _ in range(2 if batches else 1):
            time_once(*shape)
    sizes = [queries * size for queries, size in shapes]
    # Take the fastest, because other load can only slow a pass down; cycle through the sizes, because that load
    # may last longer than timing one of them.
    seconds = [float("inf")] * len(sizes)
    for turn in range(1 if quick else max(REPEATS)):
        for index, shape in enumerate(shapes):
            if turn < REPEATS[sizes[index] > SMALL]:
                seconds[index] = min(seconds[index], time_once(*shape))
    # Noise must not make a larger pass look cheaper than a smaller one.
    for index in range(1, len(seconds)):
        seconds[index] = max(seconds[index], seconds[index - 1] * 1.0001)
    return CostCurve(tuple(sizes), tuple(seconds), measured=True)


def cached_curve(
    key: str, make: Callable[[], CostCurve], *, load: Callable[[], float] = host.load_per_core
) -> CostCurve:
    """Return the cached cost curve, or a new one; a curve measured under load is replaced on a quiet machine."""
    content, now = cache.read_cached(f"{key}.cost.json"), load()
    if content is not None:
        try:
            stored = json.loads(content)
            curve = CostCurve(tuple(stored["nodes"]), tuple(stored["seconds"]), stored["measured"])
            if stored["load"] <= QUIET or now > QUIET:
                return curve
        except (ValueError, KeyError, TypeError):
            pass  # damaged: measure again
    curve = make()
    entry = {"nodes": curve.nodes, "seconds": curve.seconds, "measured": curve.measured, "load": now}
    cache.write_cached(f"{key}.cost.json", json.dumps(entry).encode())
    return curve
