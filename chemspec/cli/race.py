"""The command `race`: one query answered the standard way and with drafts, and both runs replayed side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chemspec.cli import options as opt
from chemspec.cli import show
from chemspec.cli.base import app
from chemspec.settings import DecodeSettings
from chemspec.types import DecodeResult

if TYPE_CHECKING:
    from rich.table import Table

    from chemspec.engine.engine import Engine

ROUNDS = 5  # timed runs of each way
NAMES = ("standard", "speculative")
COLUMNS = {
    "": "{name}",
    "passes": "{passes}",
    "tokens a pass": "{tokens_per_pass:.1f}",
    "ms": "{median_ms:.1f}",
    "its quartiles": "{q1_ms:.1f} to {q3_ms:.1f}",
}
command = partial(app.command, rich_help_panel="Answers")


@command()
def race(
    smiles: Annotated[str, typer.Argument(help="One molecule, or a flask: SMILES with dots.")],
    task: Annotated[
        str, opt.option("Which question; default: retro for one molecule, forward for a flask.", "--task", "-t")
    ] = "",
    model: opt.ModelOption = "",
    n: Annotated[int, opt.option("Answers; 1 is greedy decoding, more a beam.", "--n", "-n")] = 1,
    drafter: opt.DrafterOption = opt.DEFAULT.drafter,
    dtype: opt.DtypeOption = "auto",
    device: opt.DeviceOption = "auto",
    threads: opt.ThreadsOption = 0,
    runtime: opt.RuntimeOption = "auto",
    as_json: opt.JsonOption = False,
) -> None:
    """Race standard against speculative decoding, and watch."""
    settings = opt.decode_settings("auto", n, exact=True, drafter=drafter)
    how: dict[str, Any] = {"dtype": dtype, "device": device, "threads": threads, "runtime": runtime}
    engine = opt.load(task or ("" if model else "forward" if "." in smiles else "retro"), model, **how)
    rounds = by_turns(engine, smiles, settings)
    for result in (results[0] for results in rounds if results[0].status != "ok"):
        show.result(result)
        raise typer.Exit(1)
    if as_json:
        identical = identity(rounds)
        show.document({"model": engine.name, "query": smiles, "identical": identical, "lanes": figures(rounds)})
        return
    if show.answers.is_terminal:
        from chemspec.cli import lanes

        show.sentence(f"{engine.task}: {smiles}")
        lanes.replay(show.answers, recorded(rounds))
        show.line("")
    show.table(table(rounds))
    show.sentence(verdict(rounds))


def by_turns(engine: Engine, query: str, settings: DecodeSettings) -> list[list[DecodeResult]]:
    """Return of both ways their timed results, standard first; they take turns, after a run of each to warm up."""
    ways = replace(settings, drafter="none"), settings
    rounds: list[list[DecodeResult]] = [[], []]
    for turn in range(ROUNDS + 1):
        order = (0, 1) if turn % 2 else (1, 0)
        for way in order:
            result = engine.predict(query, ways[way])
            if turn or result.status != "ok":
                rounds[way].append(result)
    return rounds


def recorded(rounds: Sequence[Sequence[DecodeResult]]) -> list[Any]:
    """Return a lane of each way: the run whose time is the median."""
    from chemspec.cli.lanes import Lane
    from chemspec.ui.speed import timing

    return [Lane.of(name, timing.typical(results)) for name, results in zip(NAMES, rounds, strict=True)]


def figures(rounds: Sequence[Sequence[DecodeResult]]) -> list[dict[str, Any]]:
    """Return of each way its passes, tokens (steps of a beam) a pass, and quartiles of ms over its runs."""
    from chemspec.metrics import Spread, speed_numbers
    from chemspec.ui.speed import timing

    rows = []
    for name, results in zip(NAMES, rounds, strict=True):
        counted, times = speed_numbers([results[0].trace]), Spread.from_values(timing.milliseconds(results))
        row = {"name": name, "passes": counted.passes, "tokens": counted.emitted}
        row |= {"tokens_per_pass": counted.tokens_per_pass, "runs": times.runs}
        rows.append({**row, "median_ms": times.median, "q1_ms": times.low, "q3_ms": times.high})
    return rows


def table(rounds: Sequence[Sequence[DecodeResult]]) -> Table:
    """Return the closing table."""
    from chemspec.io import tables

    return tables.terminal(COLUMNS, figures(rounds))


def identity(rounds: Sequence[Sequence[DecodeResult]]) -> str:
    """Return whether all runs gave the answers of the first, by their tokens and by the bits of their log-probs."""
    found = {tuple((answer.tokens, answer.ended) for answer in result.hypotheses) for one in rounds for result in one}
    scores = {tuple(answer.token_log_probs for answer in result.hypotheses) for one in rounds for result in one}
    if len(found) > 1:
        return "no"
    return "yes, to the last bit" if len(scores) == 1 else "yes, with scores that differ in their last digits"


def verdict(rounds: Sequence[Sequence[DecodeResult]]) -> str:
    """Return the closing sentence."""
    from chemspec.ui.speed import timing

    standard, drafted = figures(rounds)
    gain = timing.times(standard["median_ms"] / drafted["median_ms"])
    fewer = f"{timing.passes(drafted['passes'])} instead of {standard['passes']}"
    return f"identical: {identity(rounds)}; {fewer}; {gain} (medians of {standard['runs']} warm runs by turns)"
