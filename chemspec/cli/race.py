"""The commands `race` and `replay`: decode a query with and without drafts, and show both runs side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chemspec.cli import options as opt
from chemspec.cli import show
from chemspec.cli.base import command
from chemspec.io import tables
from chemspec.settings import DecodeSettings
from chemspec.types import DecodeResult

if TYPE_CHECKING:
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


TaskOption = Annotated[str, opt.option("Task; default: retro for one molecule, forward for several.", "--task", "-t")]
MoleculesArgument = Annotated[str, typer.Argument(help="SMILES of one molecule, or of several joined by dots.")]


@command("race", "Answers")
def race_decoders(
    smiles: MoleculesArgument,
    task: TaskOption = "",
    model: opt.ModelOption = "",
    n: Annotated[int, opt.option("Number of predictions: 1 decodes greedily, more use beam search.", "--n", "-n")] = 1,
    drafter: opt.DrafterOption = opt.DEFAULT.drafter,
    *,
    runtime: opt.Runtime,
    as_json: opt.JsonOption = False,
) -> None:
    """Race standard against speculative decoding; both runs are replayed in the terminal."""
    engine = _load_model(task, model, smiles, runtime)
    rounds = _run_race(engine, smiles, drafter, n)
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
    show.print_table(tables.terminal(COLUMNS, race_statistics(rounds)))
    show.print_sentence(race_conclusion(rounds))


@command("replay", "Answers")
def write_replay(
    smiles: MoleculesArgument,
    out: Annotated[Path, opt.option("Picture: .svg, .webp or .gif.", "--out", "-o")],
    task: TaskOption = "",
    model: opt.ModelOption = "",
    drafter: opt.DrafterOption = opt.DEFAULT.drafter,
    dark: Annotated[bool, opt.option("Colours for a dark page.", "--dark")] = False,
    *,
    runtime: opt.Runtime,
) -> None:
    """Write a replay of a race as an animated picture: standard and speculative greedy decoding in ten seconds."""
    from chemspec.replay import picture

    if out.suffix.lower() not in picture.FORMATS:
        raise ValueError(f"{out}: the ending must be one of {', '.join(picture.FORMATS)}")
    opt.check_parent_folders(out)
    engine = _load_model(task, model, smiles, runtime)
    rounds = _run_race(engine, smiles, drafter)
    result, conclusion = rounds[0][0], race_conclusion(rounds)
    drawn = picture.build_picture(
        median_lanes(rounds),
        title=f"{engine.name}: standard and speculative decoding",
        query=result.smiles,
        answer=result.hypotheses[0].canonical,
        conclusion=conclusion,
        dark=dark,
    )
    picture.write_replay(drawn, out)
    show.print_note(f"{out}: {conclusion}")


def _load_model(task: str, model: str, smiles: str, runtime: opt.Runtime) -> Engine:
    return runtime.load(task or ("" if model else "forward" if "." in smiles else "retro"), model)


def _run_race(engine: Engine, smiles: str, drafter: str, n: int = 1) -> list[list[DecodeResult]]:
    """Return the results of both decoding modes; exits with a message if there is no answer."""
    settings = opt.build_decode_settings("auto", n, exact=True, drafter=drafter)
    rounds = alternate_runs(engine, smiles, settings)
    for result in (results[0] for results in rounds if results[0].status != "ok"):
        show.print_result(result)
        raise typer.Exit(1)
    return rounds


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
