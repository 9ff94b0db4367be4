"""Routes: `plan`."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from chemspec.cli import options as opt
from chemspec.cli import show
from chemspec.cli.base import app
from chemspec.settings import DecodeSettings
from chemspec.system import extras
from chemspec.system.files import write_whole, write_whole_bytes

if TYPE_CHECKING:
    from chemspec.engine.engine import Engine
    from chemspec.plan.routes import Evidence, Plan, Route

command = partial(app.command, rich_help_panel="Answers")
SHOWN = 5  # routes
ENDINGS = (".json", ".md", ".svg", ".png")


@command(name="plan")
def plan_(
    targets: Annotated[list[str], typer.Argument(help="SMILES, or one file of them (.csv .smi .parquet ...).")],
    stock: Annotated[
        list[str] | None,
        opt.option(
            "What can be bought: a file of SMILES or InChIKeys, with prices or not, or a built-in list; repeatable.",
            "--stock",
            "-s",
        ),
    ] = None,
    out: Annotated[
        list[Path] | None,
        opt.option(
            "File to write: .json (all routes), .md (text), .svg or .png (the best one); repeatable.", "--out", "-o"
        ),
    ] = None,
    algorithm: Annotated[str, opt.option("retro-star, mcts or breadth-first.")] = "retro-star",
    seconds: Annotated[float, opt.option("Most time for a target.")] = 60.0,
    expansions: Annotated[int, opt.option("Most molecules expanded for a target.")] = 200,
    depth: Annotated[int, opt.option("Most steps one after the other.")] = 6,
    routes: Annotated[int, opt.option("Most routes kept.")] = 20,
    n: Annotated[int, opt.option("Proposals asked for a molecule.", "--n", "-n")] = 10,
    ahead: Annotated[
        int, opt.option("Open molecules decoded along with the one that is asked for; -1: 7 on a GPU, 0 on a CPU.")
    ] = -1,
    check: Annotated[
        bool, opt.option("Ask the forward model whether each step leads to its product.", "--check/--no-check")
    ] = True,
    column: opt.ColumnOption = "",
    drafter: opt.DrafterOption = opt.DEFAULT.drafter,
    model: opt.ModelOption = "",
    threads: opt.ThreadsOption = 0,
    device: opt.DeviceOption = "auto",
    dtype: Annotated[
        str, opt.option("fp32, int8, ...; auto: on a CPU int8 where the model's card shows that it is as good.")
    ] = "auto",
    as_json: opt.JsonOption = False,
) -> None:
    """Search routes from molecules to things that one can buy; Ctrl-C ends the search and shows what it found.

    Files are written after each target. Exit code 1 if some target has no route that starts from stock alone.
    """
    extras.require("syntheseus", "apted", what="planning")
    from chemspec.plan import draw
    from chemspec.plan import routes as values
    from chemspec.plan.expand import Expander
    from chemspec.plan.search import PlanSettings, plan
    from chemspec.plan.stock import BUILT_IN, load_stock
    from chemspec.precedents import installed

    for file in out or ():
        if file.suffix not in ENDINGS:
            raise ValueError(f"{file}: give a file that ends in one of {', '.join(ENDINGS)}")
    opt.check_folders(*out or ())
    settings = PlanSettings(
        algorithm=algorithm, seconds=seconds, expansions=expansions, depth=depth, routes=routes, ahead=max(0, ahead)
    )
    asked = _targets(targets, column)
    can_buy, index = load_stock(stock or BUILT_IN), installed()
    retro = _load("retro", model, device=device, dtype=dtype, threads=threads)
    if ahead < 0 and retro.device != "cpu":
        settings = replace(settings, ahead=7)
    forward = _load("forward", "", device=device, dtype=dtype, threads=threads) if check else None
    beside = _load("reagents", "", device=device, dtype=dtype, threads=threads) if _is_installed("reagents") else None
    expander = Expander(retro, forward, DecodeSettings(n=n, drafter=drafter), reagents=beside)
    is_kept = as_json or any(file.suffix in (".json", ".md") for file in out or ())
    texts: list[str] = []
    documents: list[dict[str, Any]] = []
    best: Route | None = None
    for target in asked:
        with show.progress("expanding") as report:
            found = plan(target, expander, can_buy, settings, lambda now: report(now.expansions, expansions))
        known = values.find_evidence(found.routes if is_kept else found.routes[:SHOWN], index)
        if not as_json:
            _show(found, known)
        documents.append(values.plan_document(found, known))
        texts.append(values.plan_to_markdown(found, known))
        best = best or next(iter(found.routes), None)
        for file in out or ():  # after each target, so that what ends the run early costs the one it was at
            if file.suffix == ".json":
                write_whole(file, json.dumps(documents if len(asked) > 1 else documents[0], indent=1))
            elif file.suffix == ".md":
                write_whole(file, "\n".join(texts))
            elif best is not None:
                write_whole_bytes(file, draw.to_png(best) if file.suffix == ".png" else draw.to_svg(best).encode())
        if found.interrupted:
            break
    for file in out or ():
        if file.suffix in (".svg", ".png") and best is None:
            show.note(f"{file} is not written: there is no route to draw")
    if as_json:
        print(json.dumps({"plans": documents}))
    raise typer.Exit(130 if found.interrupted else 0 if all(one["status"] == "solved" for one in documents) else 1)


def _load(task: str, model: str, *, device: str, dtype: str, threads: int) -> Engine:
    """Load a model as the app does: where its card allows int8, and a compiled kernel is there for it, with that."""
    from chemspec import evaluation
    from chemspec.engine.registry import model_folder
    from chemspec.model.runtime import RuntimeConfig

    on_cpu = RuntimeConfig.find(device=device, dtype="auto", runtime="auto", threads=threads).device == "cpu"
    if dtype == "auto" and on_cpu and evaluation.precisions(model_folder(model or task))[0] == "int8":
        loaded = opt.load(task, model, device=device, dtype="int8", threads=threads)
        if loaded.runtime == "native":
            return loaded
    return opt.load(task, model, device=device, dtype=dtype, threads=threads)


def _is_installed(model: str) -> bool:
    from chemspec.engine.registry import installed

    return any(folder.name == model for folder in installed())


def _targets(given: list[str], column: str) -> list[str]:
    from chemspec.io import readers

    if len(given) == 1 and readers.looks_like_file(given[0]):
        given = [text for text in readers.read_queries(Path(given[0]), column, "retro", show.note) if text.strip()]
        if not given:
            raise ValueError("there is no target in the file")
    return [_smiles(text) for text in given]


def _smiles(text: str) -> str:
    """Return the target in a text as SMILES, with a note on what was read; unreadable text as it is."""
    from chemspec import chem
    from chemspec.chem import formats

    read = formats.read_any(text, task="retro")
    if isinstance(read, chem.Fault):
        return text  # the search says what is wrong
    if read.notes or read.smiles != chem.canonical(text):
        show.note(f"{show.name_of(text)}: {'; '.join((read.smiles, *read.notes))}")
    return read.smiles


def _show(plan: Plan, known: Evidence) -> None:
    from chemspec.plan.routes import step_table

    show.line(plan.target, "bold")
    show.line(f"  {plan.message}", "" if plan.status == "solved" else "yellow")
    for rank, route in enumerate(plan.routes[:SHOWN], 1):
        content = Table(box=None, header_style="dim", title_justify="left", title_style="")
        content.title = f"route {rank}: {len(route.steps)} steps, score {route.score:.3g}, group {route.group}"
        lines = step_table(route, known)
        for name in lines[0]:
            content.add_column(name, overflow="fold")
        for row in lines:
            content.add_row(*map(escape, row.values()))
        show.table(content)
    if len(plan.routes) > SHOWN:
        show.line(f"  {len(plan.routes) - SHOWN} more routes; -o FILE.json has all", "dim")
    counts = plan.counts
    rate = f", {counts.tokens / counts.passes:.2f} tokens a pass" if counts.passes else ""
    show.line(f"  {counts.molecules} molecules decoded in {counts.calls} calls of the models{rate}", "dim")
