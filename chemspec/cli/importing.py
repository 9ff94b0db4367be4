"""The command `import`: convert another program's checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from chemspec.cli import options as opt
from chemspec.cli import show
from chemspec.cli.base import command


@command("import", "Answers")
def import_checkpoint(
    path: Annotated[Path, typer.Argument(help="Checkpoint, or folder with one: OpenNMT-py, Chemformer, ...")],
    out: Annotated[Path, opt.option("Folder to write.", "--out", "-o")],
    vocab: Annotated[Path | None, opt.option("Vocabulary file, if it is separate from the checkpoint.")] = None,
    task: opt.TaskOption = "",
    template: opt.TemplateOption = "",
    license_text: Annotated[str, opt.option("Licence of the checkpoint, for its model card.", "--license")] = "",
    unknown: Annotated[str, opt.option("Tokens outside its vocabulary: refuse the query, or map to unk.")] = "refuse",
    as_json: opt.JsonOption = False,
) -> None:
    """Convert another program's checkpoint to a model folder: no code in it is executed."""
    from chemspec.importers import registry
    from chemspec.importers.base import LoadOptions
    from chemspec.importers.card import write_imported_model

    if not path.exists():
        raise ValueError(f"{path} is missing")
    if unknown not in ("refuse", "unk"):
        raise ValueError(f"--unknown {unknown!r} is not refuse or unk")
    options = LoadOptions(opt.parse_task(task) if task else None, template, "", vocab, unknown == "unk")
    loaded = registry.load(path, options)
    write_imported_model(loaded, path, out, license_text=license_text, command=opt.command_line())
    for name, value in loaded.details.items():
        show.print_line(f"{name}: {value}")
    for note in loaded.notes:
        show.print_note(note)
    show.print_note(f"{out}: a {loaded.task} model; chemspec predict --model {out} ...")
    if as_json:
        show.print_json({"out": str(out), "task": loaded.task, "digest": loaded.digest, "found": dict(loaded.details)})
