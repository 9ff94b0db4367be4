"""Other people's models: `import`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from chemspec.cli import options as opt
from chemspec.cli import show
from chemspec.cli.base import app


@app.command(name="import", rich_help_panel="Answers")
def import_(
    path: Annotated[Path, typer.Argument(help="Checkpoint, or folder with one: OpenNMT-py, Chemformer, ...")],
    out: Annotated[Path, opt.option("Folder to write.", "--out", "-o")],
    vocab: Annotated[Path | None, opt.option("File of its vocabulary, where that lies apart.")] = None,
    task: opt.TaskOption = "",
    template: opt.TemplateOption = "",
    license_text: Annotated[str, opt.option("Its licence, to be written down.", "--license")] = "",
    unknown: Annotated[str, opt.option("Tokens that it never saw: refuse, or unk as it was trained with.")] = "refuse",
    as_json: opt.JsonOption = False,
) -> None:
    """Turn another program's checkpoint into a model folder; nothing in it is executed."""
    from chemspec.importers import registry
    from chemspec.importers.base import LoadOptions
    from chemspec.importers.card import write_imported_model

    if not path.exists():
        raise ValueError(f"{path} is missing")
    if unknown not in ("refuse", "unk"):
        raise ValueError(f"--unknown {unknown!r} is not refuse or unk")
    options = LoadOptions(opt.as_task(task) if task else None, template, "", vocab, unknown == "unk")
    loaded = registry.load(path, options)
    write_imported_model(loaded, path, out, license_text=license_text, command=opt.command_line())
    for name, value in loaded.details.items():
        show.line(f"{name}: {value}")
    for note in loaded.notes:
        show.note(note)
    show.note(f"{out}: a {loaded.task} model; chemspec predict --model {out} ...")
    if as_json:
        show.document({"out": str(out), "task": loaded.task, "digest": loaded.digest, "found": dict(loaded.details)})
