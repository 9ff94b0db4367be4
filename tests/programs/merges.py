"""Larger tokens (`merges`): their number against length, accuracy and time, for models trained with them.

    python tests/programs/merges.py lengths retro_train.csv.gz --task retro
    python tests/programs/merges.py accuracy --model retro --model runs/merges-128/model --file retro_test.csv.gz
    python tests/programs/merges.py times --model retro --model runs/merges-128/model --file retro_test.csv.gz
    python tests/programs/merges.py plans --model retro --model runs/merges-128/model --file retro_test.csv.gz

Times are processor time of one thread by turns: of every query or batch the minimum of the repeats. Train such a model
with `chemspec data` and `chemspec train` by a recipe whose data have `merges` (assets/docs/models.md).
"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from helpers.scripts import _Command, option
from programs.by_turns import timed_by_turns

from chemspec.chem import canonical
from chemspec.cli import options as opt
from chemspec.data.reactions import canonical_pair
from chemspec.data.shards import read_rows
from chemspec.engine.engine import Engine
from chemspec.evaluation.accuracy import (
    KnownReaction,
    predict_to_file,
    rank_of_truth,
    read_known_reactions,
    score_predictions,
)
from chemspec.evaluation.calibration import collect_outcomes, fit_calibration
from chemspec.plan.expand import Expander
from chemspec.plan.search import plan
from chemspec.plan.settings import PlanSettings
from chemspec.settings import DecodeSettings, Task
from chemspec.stock.lists import PAROUTES, load_stock
from chemspec.terminal import console
from chemspec.tokenizer import Tokenizer, learn_merges, split_smiles

LONG, RARE = 0.9, 0.01  # share of shorter queries; share of the queries that have a rare symbol
COUNTS = (16, 32, 64, 128, 256, 512)
Models = Annotated[list[str], option("A name or a folder; several may be given, the first to compare with.")]
File = Annotated[Path, option("CSV with test reactions.")]
Width = Annotated[int, option("Number of answers: the width of the beam.", "-n")]
Limit = Annotated[int, option("Number of reactions, sampled at random (seed 0).")]

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command(cls=_Command)
def lengths(
    file: Annotated[Path, typer.Argument(help="CSV with training reactions.")],
    task: str = "retro",
    learn: Annotated[int, option("Reactions from which merges are learned, the first.")] = 5000,
    measure: Annotated[int, option("Reactions behind these whose length is measured.")] = 1000,
    width: Annotated[int, option("Width of the model, for the size of its embedding.")] = 256,
) -> None:
    """Print the share of atom-wise tokens that is left, and the size of vocabulary and embedding, by merges."""
    chosen: Task = "retro" if task == "retro" else "forward"
    rows = list(read_rows(file))[: learn + measure]
    texts = [[text for text in canonical_pair(row, chosen) if text] for row in rows]
    taught, held = ([text for pair in part for text in pair] for part in (texts[:learn], texts[learn:]))
    single = Tokenizer.build([*taught, *held])
    merges = learn_merges(taught, max(COUNTS))
    total = sum(len(single.encode(text)) for text in held)
    table = []
    for count in COUNTS:
        merged = single.with_merges(merges[:count])
        left = sum(len(merged.encode(text)) for text in held)
        size = f"{len(merged) * width / 1e6:.3f}"
        table.append({"merges": count, "tokens": f"{left / total:.3f}", "vocabulary": len(merged), "M numbers": size})
    console.print_rows(table)


@app.command(cls=_Command)
def accuracy(
    model: Models,
    file: File,
    limit: Limit = 1000,
    n: Width = 10,
    out: Annotated[Path, option("Folder for the predictions; resumable.")] = Path("runs/merges"),
) -> None:
    """Print accuracy, faults, calibration, and accuracy on long queries and on those with rare symbols."""
    table = []
    for name in model:
        engine = opt.load_engine("", name, threads=1)
        reactions = read_known_reactions(file, engine.task, limit=limit)
        label = f"{name.strip('/').replace('/', '-')}-{engine.digest[:6]}"
        settings = DecodeSettings(n=n, batch_size=16)
        results = predict_to_file(engine, reactions, out / f"{label}-{limit}-{n}.jsonl", settings)
        table.append({"model": name, **accuracy_row(reactions, results)})
    console.print_rows([{key: row[key] for key in row} for row in table])
    console.print_json(table)


def accuracy_row(reactions: Sequence[KnownReaction], results: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return a row of the table: shares in per cent, the loss of the first answer's probability in nats."""
    scored = score_predictions(reactions, results)
    ranks = [rank_of_truth(item.answer, result["hypotheses"]) for item, result in zip(reactions, results, strict=True)]
    row = {f"top-{k}": f"{100 * value['value']:.1f}" for k, value in scored["top"].items()}
    row |= {key: f"{100 * scored[key]['value']:.1f}" for key in ("invalid", "repeated")}
    answered = list(filter(None, collect_outcomes(reactions, results)))
    numbers = fit_calibration(answered)["table"]["sequence"] if len(answered) > 1 else {}
    row |= {f"{way} {key}": f"{values[f'first: {key}']:.3f}" for way, values in numbers.items() for key in SHOWN}
    for name, chosen in groups_of(reactions).items():
        own = [ranks[index] for index in chosen]
        for k in (1, n_of(results)):
            share = sum(0 < rank <= k for rank in own) / max(1, len(own))
            row[f"{name} ({len(own)}) top-{k}"] = f"{100 * share:.1f}"
    return row


SHOWN = ("loss", "ece by mass")


def n_of(results: Sequence[Mapping[str, Any]]) -> int:
    """Return the number of answers of the longest list."""
    return max(len(result["hypotheses"]) for result in results)


def groups_of(reactions: Sequence[KnownReaction]) -> dict[str, list[int]]:
    """Return the numbers of reactions with long queries, rare symbols, and stereochemistry."""
    split = [split_smiles(canonical(item.query) or item.query) for item in reactions]
    seen = Counter(symbol for symbols in split for symbol in set(symbols))
    longest = sorted(map(len, split))[int(LONG * len(split))]
    rare = {symbol for symbol, count in seen.items() if count < RARE * len(split) and symbol[0] in "[BCFINOPS"}
    return {
        "long": [index for index, symbols in enumerate(split) if len(symbols) >= longest],
        "rare": [index for index, symbols in enumerate(split) if rare & set(symbols)],
        "stereo": [index for index, item in enumerate(reactions) if {"@", "/", "\\"} & set(item.query)],
    }


@app.command(cls=_Command)
def times(
    model: Models,
    file: File,
    limit: Limit = 16,
    widths: Annotated[str, option("Beam widths; 1: greedy.")] = "1,5,10,20",
    batches: Annotated[str, option("Batch sizes.")] = "1,16",
    augment: Annotated[int, option("SMILES variants of a last row of greedy decoding; 0: none.")] = 20,
    repeats: int = 3,
    dtype: str = "fp32",
) -> None:
    """Print processor time and passes a query without drafts and with them, of each model by turns."""
    engines = {name: opt.load_engine("", name, threads=1, dtype=dtype) for name in model}
    task = engines[model[0]].task
    queries = [item.query for item in read_known_reactions(file, task, limit=limit)]
    for settings in ways_to_time(list(map(int, widths.split(","))), list(map(int, batches.split(","))), augment):
        for name, line in time_models(engines, queries, settings, repeats).items():
            console.print_line(f"{describe(settings)}; {name}: {line}")


def ways_to_time(widths: Sequence[int], batches: Sequence[int], augment: int) -> Iterator[DecodeSettings]:
    """Yield the settings to time, each without drafts and with them."""
    for drafter in ("none", "auto"):
        for batch_size in batches:
            for n in widths:
                yield DecodeSettings(decoder="beam" if n > 1 else "greedy", n=n, batch_size=batch_size, drafter=drafter)
        if augment:
            yield DecodeSettings(decoder="greedy", n=1, batch_size=augment, drafter=drafter, augment=augment)


def describe(settings: DecodeSettings) -> str:
    """Return settings in a few words."""
    search = "greedy" if settings.decoder == "greedy" else f"beam of {settings.n}"
    more = f", {settings.augment} variants" if settings.augment > 1 else f", batch of {settings.batch_size}"
    return f"{search}{more}, {'without drafts' if settings.drafter == 'none' else settings.drafter}"


def time_models(
    engines: Mapping[str, Engine], queries: Sequence[str], settings: DecodeSettings, repeats: int
) -> dict[str, str]:
    """Return a line for each model: milliseconds and passes a query, and its share of the first model's time."""
    seconds, passes = dict.fromkeys(engines, 0.0), dict.fromkeys(engines, 0)
    size = 1 if settings.augment > 1 else settings.batch_size
    for start in range(0, len(queries), size):
        group = list(queries[start : start + size])
        calls: list[Callable[[], Any]] = [partial(engine.predict, group, settings) for engine in engines.values()]
        best, results = timed_by_turns(calls, repeats, time.process_time)
        for name, used, found in zip(engines, best, results, strict=True):
            seconds[name] += used
            passes[name] += sum(len(result.trace.passes) for result in found)
    first, count = next(iter(seconds.values())), len(queries)
    return {
        name: f"{1e3 * used / count:.2f} ms, {passes[name] / count:.1f} passes, {used / first:.2f} of the time"
        for name, used in seconds.items()
    }


@app.command(cls=_Command)
def plans(
    model: Models,
    file: File,
    limit: Limit = 8,
    within: Annotated[str, option("Seconds of processor time of a search.")] = "1,2,5",
    n: Width = 10,
) -> None:
    """Print the expansions and the targets with a route within some seconds of processor time, by model."""
    stock, forward = load_stock(PAROUTES), opt.load_engine("forward", "", threads=1)
    task: Task = "retro"
    rows = read_known_reactions(file, task)
    targets = [item.query for item in random.Random(1).sample(rows, min(limit, len(rows)))]
    for seconds in map(float, within.split(",")):
        for name in model:
            retro = opt.load_engine("", name, threads=1)
            counts = [search(retro, forward, stock, target, seconds, n) for target in targets]
            solved = sum(found for _, found in counts)
            expansions = sum(count for count, _ in counts) / len(counts)
            console.print_line(f"{seconds:g} s; {name}: {expansions:.1f} expansions, {solved} of {len(counts)} solved")


def search(retro: Engine, forward: Engine, stock: Any, target: str, seconds: float, n: int) -> tuple[int, bool]:
    """Return the molecules expanded within some seconds of processor time, and whether there is a route."""
    expander = Expander(retro, forward, DecodeSettings(n=n), keep=False)
    found = plan(target, expander, stock, PlanSettings(seconds=seconds), clock=time.process_time)
    return found.expansions, found.status == "solved"


if __name__ == "__main__":
    app()
