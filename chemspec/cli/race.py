"""The command `race`: decode one query with and without drafts, and replay both runs side by side."""

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

ROUNDS = 5  # timed runs per decoding mode
NAMES = ("standard", "speculative")
COLUMNS = {
    "": "{name}",
    "passes": "{passes}",
    "tokens a pass": "{tokens_per_pass:.1f}",
    "ms": "{median_ms:.1f}",
    "its quartiles": "{q1_ms:.1f} to {q3_ms:.1f}",
}
command = partial(app.command, rich_help_panel="Answers")


@command(name="race")
def race_decoders(
    smiles: Annotated[str, typer.Argument(help="SMILES of one molecule, or of several joined by dots.")],
    task: Annotated[
        str, opt.help_option("Task; default: retro for one molecule, forward for several.", "--task", "-t")
    ] = "",
    model: opt.ModelOption = "",
    n: Annotated[
        int, opt.help_option("Number of predictions: 1 decodes greedily, more use beam search.", "--n", "-n")
    ] = 1,
    drafter: opt.DrafterOption = opt.DEFAULT.drafter,
    dtype: opt.DtypeOption = "auto",
    device: opt.DeviceOption = "auto",
    threads: opt.ThreadsOption = 0,
    runtime: opt.RuntimeOption = "auto",
    as_json: opt.JsonOption = False,
) -> None:
    """Race standard against speculative decoding; both runs are replayed in the terminal."""
    settings = opt.build_decode_settings("auto", n, exact=True, drafter=drafter)
    loading: dict[str, Any] = {"dtype": dtype, "device": device, "threads": threads, "runtime": runtime}
    engine = opt.load_engine(task or ("" if model else "forward" if "." in smiles else "retro"), model, **loading)
    rounds = alternate_runs(engine, smiles, settings)
    for result in (results[0] for results in rounds if results[0].status != "ok"):
        show.print_result(result)
        raise typer.Exit(1)
    if as_json:
        identical = compare_answers(rounds)
        show.print_json(
            {"model": engine.name, "query": smiles, "identical": identical, "lanes": race_statistics(rounds)}
        )
        return
    if show.answers.is_terminal:
        from chemspec.cli import lanes

        show.print_sentence(f"{engine.task}: {smiles}")
        lanes.replay_lanes(show.answers, median_lanes(rounds))
        show.print_line("")
    show.print_table(race_table(rounds))
    show.print_sentence(race_conclusion(rounds))


def alternate_runs(engine: Engine, query: str, settings: DecodeSettings) -> list[list[DecodeResult]]:
    """Decode a query alternately with and without drafts, after a warm-up run of each; returns both lists."""
    modes = replace(settings, drafter="none"), settings
    rounds: list[list[DecodeResult]] = [[], []]
    for turn in range(ROUNDS + 1):
        order = (0, 1) if turn % 2 else (1, 0)
        for index in order:
            result = engine.predict(query, modes[index])
            if turn or result.status != "ok":
                rounds[index].append(result)
    return rounds


def median_lanes(rounds: Sequence[Sequence[DecodeResult]]) -> list[Any]:
    """Return one lane per decoding mode: the run with the median time."""
    from chemspec.replay import timing
    from chemspec.replay.lanes import Lane

    return [Lane.from_result(name, timing.median_run(results)) for name, results in zip(NAMES, rounds, strict=True)]


def race_statistics(rounds: Sequence[Sequence[DecodeResult]]) -> list[dict[str, Any]]:
    """Return passes, tokens (beam: steps) per pass, and quartiles of milliseconds for each decoding mode."""
    from chemspec.metrics import Spread, speed_numbers
    from chemspec.replay import timing

    rows = []
    for name, results in zip(NAMES, rounds, strict=True):
        counted, times = speed_numbers([results[0].trace]), Spread.from_values(timing.run_milliseconds(results))
        row = {"name": name, "passes": counted.passes, "tokens": counted.emitted}
        row |= {"tokens_per_pass": counted.tokens_per_pass, "runs": times.runs}
        rows.append({**row, "median_ms": times.median, "q1_ms": times.low, "q3_ms": times.high})
    return rows


def race_table(rounds: Sequence[Sequence[DecodeResult]]) -> Table:
    """Return the table printed after a race."""
    from chemspec.io import tables

    return tables.terminal(COLUMNS, race_statistics(rounds))


def compare_answers(rounds: Sequence[Sequence[DecodeResult]]) -> str:
    """Compare the answers of all runs: by tokens, and by the bits of their log-probs."""
    answers = {
        tuple((answer.tokens, answer.ended) for answer in result.hypotheses) for results in rounds for result in results
    }
    scores = {tuple(answer.token_log_probs for answer in result.hypotheses) for results in rounds for result in results}
    if len(answers) > 1:
        return "no"
    return "yes, to the last bit" if len(scores) == 1 else "yes, with scores that differ in their last digits"


def race_conclusion(rounds: Sequence[Sequence[DecodeResult]]) -> str:
    """Return the sentence printed after a race."""
    from chemspec.replay import timing

    standard, drafted = race_statistics(rounds)
    gain = timing.format_speedup(standard["median_ms"] / drafted["median_ms"])
    fewer = f"{timing.format_passes(drafted['passes'])} instead of {standard['passes']}"
    return f"identical: {compare_answers(rounds)}; {fewer}; {gain} (medians of {standard['runs']} warm runs by turns)"
