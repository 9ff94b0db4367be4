"""All that a GPU is wanted for, in eight minutes: `python tests/programs/gpu.py --out gpu.jsonl`.

Sections run in the order of their importance, each within its share of the time; every result is a line of the file as
soon as it is there. Needs torch and numpy; molecules are read by RDKit only in the last section, which is left out
without it. `--device cpu` runs all of it on a processor (`--runtime torch` too), to try it beforehand.

Times are of token ids: reading SMILES and writing answers are not part of them. `recordings` are CUDA graphs that were
captured in the timed part; where it is not 0, the times of the row are void.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from itertools import cycle, islice
from pathlib import Path
from typing import Any, TextIO

sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parents[2])]

import torch

from chemspec import asset_files
from chemspec.decode import registry as decoders
from chemspec.decode.decoding import Decoded
from chemspec.decode.draft_history import DraftHistories
from chemspec.decode.generate import BatchDecoder, open_decoding
from chemspec.decode.protocol import LoopOptions
from chemspec.draft.copy import Copy
from chemspec.draft.inputs import DrafterInputs
from chemspec.engine.drafter_resources import DrafterResources
from chemspec.importers import model_formats
from chemspec.importers.base import LoadOptions
from chemspec.model.runner import NodeBatch
from chemspec.model.runners.cuda_graphs import GraphBackend
from chemspec.model.runtime import RuntimeConfig
from chemspec.model.session import Session
from chemspec.model.transformer import Transformer
from chemspec.settings import DecodeSettings, ModelConfig
from chemspec.system import gpu
from chemspec.tokenizer import BOS, SPECIALS, TokenError
from chemspec.version import __version__

Row = dict[str, Any]
WRITTEN = 24  # nodes in the KV cache before a timed pass
TIMINGS = 50  # passes per size
GREEDY = DecodeSettings(decoder="greedy", n=1)
SEARCHES = {"greedy": GREEDY, "beam of 5": DecodeSettings(n=5), "beam of 10": DecodeSettings(n=10)}
LEARNED = ("ar", "medusa", "blockwise", "spec_drafter", "hierarchy")
MARKS = (1.0, 2.0, 5.0, 15.0)  # seconds of planning, as in Andronova et al. (2026)


@dataclass(frozen=True)
class Ids:
    """A query as token ids."""

    ids: tuple[int, ...]


@dataclass
class Bench:
    """A model on the device, its queries, and the file of results."""

    folder: Path
    device: str
    runtime: str
    out: TextIO
    queries: int
    seconds: Mapping[str, float]  # by section
    clock: Callable[[], float] = time.perf_counter
    recordings: int = 0
    decoder: BatchDecoder = field(init=False)
    sources: list[Ids] = field(init=False)

    def write(self, section: str, **row: Any) -> None:
        """Write a result, which is on disk when this returns."""
        print(json.dumps({"section": section, **row}), file=self.out, flush=True)

    def load(self) -> None:
        """Load the model, record its graphs, and read the queries."""
        began = self.clock()
        loaded = model_formats.load(self.folder, LoadOptions())
        config = RuntimeConfig.find(device=self.device, dtype="fp32", runtime=self.runtime, threads=0)
        backend, runtime = loaded.backend(config)
        after = self.clock()
        resources = DrafterResources(loaded, backend, config)
        tokens = loaded.tokenizer.smiles_tokens
        more = resources.calibration, resources.learned_drafter, 0, loaded.tokenizer.merges
        inputs = DrafterInputs(resources.cost_curve, tokens, *more)
        self.decoder = BatchDecoder(
            backend, loaded.config.vocab_size, loaded.config.max_positions, inputs, DraftHistories()
        )
        curve = resources.cost_curve()
        self.sources = []
        for text in asset_files.bench_queries(loaded.task):
            with suppress(TokenError):  # of a model with a small vocabulary
                self.sources.append(Ids(loaded.tokenizer.encode(text)))
        self.sources = self.sources[: self.queries]
        self._count_recordings()
        memory = torch.cuda.memory_allocated() / 1e6 if self.device != "cpu" else None
        self.write(
            "load",
            version=__version__,
            model=loaded.name,
            digest=loaded.digest,
            runtime=runtime,
            machine=gpu.device_name(self.device) or "cpu",
            torch=torch.__version__,
            seconds=after - began,
            curve_seconds=self.clock() - after,
            megabytes=memory,
            curve=list(zip(curve.nodes, curve.seconds, strict=True)),
        )

    def _count_recordings(self) -> None:
        record = getattr(self.decoder.backend, "record", None)
        if record is None:
            return

        def counted(*given: Any) -> Any:
            self.recordings += 1
            return record(*given)

        self.decoder.backend.record = counted  # type: ignore[attr-defined]

    def until(self, section: str, share: float = 1.0) -> Callable[[], bool]:
        """Return a function that says whether a share of the section's time, from now on, is over."""
        end = self.clock() + share * self.seconds[section]
        return lambda: self.clock() >= end

    def decode(self, sources: Sequence[Ids], settings: DecodeSettings) -> tuple[list[Decoded], float]:
        """Decode a batch; returns the answers of each query, and the seconds of all."""
        began = self.clock()
        outcomes = self.decoder.generate([[source] for source in sources], [settings], size=len(sources))
        seconds = self.clock() - began
        for outcome in outcomes:
            if isinstance(outcome, Exception):
                raise outcome
        return [outcome[0] for outcome in outcomes], seconds  # type: ignore[index]


# --- sections ------------------------------------------------------------------------------------


def time_passes(bench: Bench) -> None:
    """Milliseconds of a pass by queries and new nodes of each: by the wall clock, and on a GPU by its events."""
    late, backend = bench.until("passes"), bench.decoder.backend
    tokens = range(len(SPECIALS), bench.decoder.vocab_size)
    source = list(islice(cycle(tokens), 40))
    written = (BOS, *islice(cycle(tokens), WRITTEN))
    for rows in (1, 64):
        for nodes in (1, 2, 8, 16, 64, 128):
            if late() or (rows > 1 and nodes > 16):
                continue
            wall: list[float] = []
            device: list[float] = []
            before = bench.recordings
            for timing in range(TIMINGS + 3):  # the first ones are not counted
                session = Session(backend, [source] * rows, top_k=10)
                first, _ = session.new_nodes([[written]] * rows)
                session.runner.run(first)
                grown, _ = session.new_nodes([[(*written, *islice(cycle(tokens), nodes))]] * rows)
                began, events = bench.clock(), _events(bench.device)
                session.runner.run(grown)
                if timing >= 3:
                    wall.append(bench.clock() - began)
                    device += [_elapsed(events)] if events else []
                elif timing == 2:
                    before = bench.recordings
                if late():
                    break
            if wall:
                bench.write(
                    "passes",
                    queries=rows,
                    nodes=nodes,
                    wall_ms=1000 * statistics.median(wall),
                    device_ms=statistics.median(device) if device else None,
                    timings=len(wall),
                    recordings=bench.recordings - before,
                )


def _events(device: str) -> tuple[Any, Any] | None:
    if device == "cpu":
        return None
    events = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    events[0].record()
    return events


def _elapsed(events: tuple[Any, Any]) -> float:
    events[1].record()
    events[1].synchronize()
    return float(events[0].elapsed_time(events[1]))


def time_host(bench: Bench) -> None:
    """Microseconds of processor time on the host by pass: graphs whose replay computes nothing, and no wait.

    `runner`: the inputs of the pass, copies and results. `loop`: these, drafting and the search.
    """
    config = model_formats.load(bench.folder, LoadOptions()).config
    if not isinstance(config, ModelConfig):
        bench.write("host", skipped="graphs compute no model of this format")
        return
    model = Transformer(config).to(device=torch.device(bench.device)).eval().requires_grad_(False)
    backend = GraphBackend(model, record=lambda *_: lambda: None, wait=lambda: None)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for queries, nodes in ((1, 1), (1, 64), (64, 1), (64, 16)):
            _write_host(bench, "runner", queries, nodes, _runner_passes(backend, queries, nodes))
        for queries, drafter in ((1, Copy(length=16, count=4)), (64, Copy(length=16, count=1))):
            _write_host(bench, "loop", queries, *_loop_passes(backend, queries, drafter))
    finally:
        torch.set_num_threads(threads)


def _write_host(bench: Bench, part: str, queries: int, nodes: float, spent: Sequence[int]) -> None:
    row = {"least_us": min(spent) / 1000, "median_us": statistics.median(spent) / 1000, "passes": len(spent)}
    bench.write("host", part=part, queries=queries, nodes=nodes, **row)


def _runner_passes(backend: GraphBackend, queries: int, nodes: int) -> list[int]:
    """Return nanoseconds of processor time of passes over `nodes` new nodes of each query."""
    session = Session(backend, [[len(SPECIALS)] * 40] * queries, top_k=10)
    written = (BOS, *[len(SPECIALS)] * WRITTEN)
    session.score([[written]] * queries)
    spent = []
    for _ in range(TIMINGS):
        lists, _ = session.new_nodes([[(*written, *[len(SPECIALS)] * nodes)]] * queries)
        batch = NodeBatch(*(array("i", each) for each in (lists.queries, lists.tokens, lists.depths, lists.parents)))
        began = time.process_time_ns()
        session.runner.run(batch)
        spent.append(time.process_time_ns() - began)
        for query, tree in session.trees.items():
            if (kept := tree.compact([(*written, BOS)])) is not None:  # a prefix of which nothing is there yet
                session.runner.compact(query, kept)
    return spent


def _loop_passes(backend: GraphBackend, queries: int, drafter: Copy) -> tuple[float, list[int]]:
    """Return nodes of a query in a greedy pass, and nanoseconds of processor time of each pass."""
    first, kinds, settings = len(SPECIALS), backend.model.config.vocab_size - len(SPECIALS), replace(GREEDY, max_len=40)
    sources = [tuple(first + place * (query + 1) % kinds for place in range(40)) for query in range(queries)]
    spent: list[int] = []
    nodes = 0.0
    for _ in range(3):
        chosen = [decoders.build_decoder(source, settings, drafter) for source in sources]
        options = LoopOptions(max_len=40, budget=64 if queries == 1 else 16)
        run = open_decoding(backend, sources, chosen, options, drafter, top_k=2)
        while not run.is_finished:
            began = time.process_time_ns()
            run.run_passes()
            spent.append(time.process_time_ns() - began)
        nodes = statistics.mean(event.computed for event in run.take_result(0).passes)
    return nodes, spent


def compare_bits(bench: Bench) -> None:
    """Drafted against standard decoding: lists that differ, and log-probs that differ in any bit."""
    for name, settings in SEARCHES.items():
        late = bench.until("bits", 1 / len(SEARCHES))
        counts = dict.fromkeys(("queries", "lists_differ", "bits_differ"), 0)
        largest = 0.0
        for source in bench.sources:
            if late():
                break
            (standard,), (drafted,) = (
                bench.decode([source], replace(settings, drafter=drafter))[0] for drafter in ("none", "auto")
            )
            counts["queries"] += 1
            pairs = list(zip(standard.answers, drafted.answers, strict=True))
            same = all(ours.tokens == theirs.tokens for ours, theirs in pairs)
            counts["lists_differ"] += not same
            counts["bits_differ"] += any(ours.log_probs != theirs.log_probs for ours, theirs in pairs)
            if same:
                gaps = (abs(a - b) for x, y in pairs for a, b in zip(x.log_probs, y.log_probs, strict=True))
                largest = max(largest, *gaps, 0.0)
        bench.write("bits", search=name, largest_difference=largest, **counts)


def race(
    bench: Bench,
    section: str,
    share: float,
    search: str,
    settings: DecodeSettings,
    drafters: Sequence[str],
    batch: int = 1,
) -> None:
    """Time drafters by turns, batch by batch, after a round that is not counted; writes milliseconds a query.

    `share` is that of the section's time.
    """
    late = bench.until(section, share)
    times: dict[str, list[float]] = {name: [] for name in drafters}
    counts = {name: [0, 0] for name in drafters}  # passes and computed nodes
    batches = [bench.sources[start : start + batch] for start in range(0, len(bench.sources), batch)]
    before, refused = bench.recordings, dict[str, str]()
    for number, sources in enumerate([batches[0], *batches]):
        if late() and number > 1:
            break
        for name in [name for name in drafters if name not in refused]:
            try:
                decoded, seconds = bench.decode(sources, replace(settings, drafter=name))
            except ValueError as error:  # the model has no such drafter
                refused[name] = str(error)
                continue
            if number:
                times[name].append(1000 * seconds / len(sources))
                counts[name][0] += max(len(each.passes) for each in decoded)
                counts[name][1] += sum(event.computed for each in decoded for event in each.passes)
        if number == 0:
            before = bench.recordings
    for name in drafters:
        row: Row = {"search": search, "drafter": name, "batch": batch, "batches": (runs := len(times[name]))}
        if name in refused:
            row["refused"] = refused[name]
        elif runs:
            ratios = [none / own for none, own in zip(times.get("none", []), times[name], strict=False)]
            row |= {
                "ms_a_query": statistics.mean(times[name]),
                "median_ms": statistics.median(times[name]),
                "passes": counts[name][0] / runs,
                "nodes": counts[name][1] / runs,
                "times_as_fast": statistics.median(ratios) if ratios else None,
                "recordings": bench.recordings - before,
                "each_ms": [round(each, 4) for each in times[name]],
            }
        bench.write(section, **row)


def race_searches(bench: Bench) -> None:
    """One query at a time: greedy decoding and beams, without drafts and with them."""
    for name, settings in SEARCHES.items():
        race(bench, "single", 1 / len(SEARCHES), name, settings, ("none", "auto"))


def race_batches(bench: Bench) -> None:
    """Batches of 64 queries."""
    for name in ("greedy", "beam of 5"):
        race(bench, "batches", 1 / 2, name, SEARCHES[name], ("none", "auto"), min(64, len(bench.sources)))


def race_papers(bench: Bench) -> None:
    """The drafters of the papers, with fixed drafting, and speculative beam search (SBS), also with Medusa (2026)."""
    fixed, sbs = replace(GREEDY, drafting="fixed"), DecodeSettings(decoder="sbs", n=5)
    races: dict[str, tuple[DecodeSettings, tuple[str, ...]]] = {
        "greedy, drafts of 10": (replace(fixed, draft_length=10), ("none", "windows", "copy", "mixed")),
        "greedy, learned": (fixed, ("none", *LEARNED)),
        "greedy, drafts of 7": (replace(fixed, draft_length=7), ("none", "ar", "hierarchy")),
        "greedy, trees of 100": (replace(fixed, draft_nodes=100), ("none", "mixed", "medusa")),
        "sbs, n = 5": (replace(sbs, draft_length=10), ("windows",)),
        "sbs, n = 5, Medusa": (sbs, ("medusa",)),
        "beam of 5, exact": (DecodeSettings(n=5, drafting="fixed"), ("none", "medusa")),
    }
    for search, (settings, drafters) in races.items():
        race(bench, "papers", 1 / len(races), search, settings, drafters)


def plan_routes(bench: Bench) -> None:
    """Share of targets with a route within some seconds, with and without drafts."""
    missing = [name for name in ("rdkit", "syntheseus") if find_spec(name) is None]
    if missing:
        bench.write("planning", skipped=f"{', '.join(missing)} is not installed")
        return
    from programs import anytime

    from chemspec.engine.engine import Engine
    from chemspec.stock.lists import PAROUTES, load_stock

    late, engine = bench.until("planning"), Engine.load(bench.folder, device=bench.device, runtime=bench.runtime)
    stock = load_stock(PAROUTES)
    for number, target in enumerate(asset_files.bench_queries("retro")[: bench.queries]):
        for drafter in ("none", "auto"):
            if late():
                return
            solved = anytime.plan_until_solved({"retro": engine}, stock, target, drafter, MARKS[-1], 10)
            marks = [mark for mark in MARKS if solved["solved"] is not None and solved["solved"] <= mark]
            bench.write("planning", target=number, drafter=drafter, within=marks, **solved)


# Sections by importance, with their share of the time.
SECTIONS: dict[str, tuple[float, Callable[[Bench], None]]] = {
    "passes": (0.10, time_passes),
    "bits": (0.10, compare_bits),
    "single": (0.30, race_searches),
    "batches": (0.15, race_batches),
    "host": (0.02, time_host),
    "papers": (0.15, race_papers),
    "planning": (0.18, plan_routes),
}


def run(arguments: argparse.Namespace) -> None:
    """Run the sections; one that fails is written with its error, and the next follows."""
    if arguments.device != "cpu" and not torch.cuda.is_available():
        raise SystemExit("no GPU here; --device cpu tries the program")
    total = 60 * arguments.minutes
    with arguments.out.open("a", encoding="utf-8") as file:
        shares = {name: total * share for name, (share, _) in SECTIONS.items()}
        bench = Bench(arguments.model, arguments.device, arguments.runtime, file, arguments.queries, shares)
        bench.load()
        for name in arguments.only or SECTIONS:
            try:
                SECTIONS[name][1](bench)
            except Exception as error:  # what comes later counts too
                bench.write(name, failed=f"{type(error).__name__}: {error}")


def read_results(file: Path) -> Iterator[Row]:
    """Yield the rows of a file of results."""
    for line in file.read_text(encoding="utf-8").splitlines():
        yield json.loads(line)


def parse(given: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=asset_files.assets_folder() / "models" / "retro")
    parser.add_argument("--out", type=Path, default=Path("gpu.jsonl"), help="results, to which lines are added")
    parser.add_argument("--minutes", type=float, default=8.0, help="time for all sections, without loading")
    parser.add_argument("--queries", type=int, default=100, help="built-in queries")
    parser.add_argument("--device", default="cuda", help="cuda, cuda:1 or cpu")
    parser.add_argument("--runtime", default="auto", help="auto, graphs, torch or native")
    parser.add_argument("--only", nargs="+", choices=sorted(SECTIONS), help="run these sections only")
    return parser.parse_args(given)


if __name__ == "__main__":
    run(parse())
