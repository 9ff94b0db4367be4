"""Make a task's default table of edits, for models with other vocabularies, of the table of a shipped model.

python tests/programs/share_edits.py retro --out assets/drafting/retro.safetensors
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from helpers.scripts import option, script

from chemspec.cli import options as opt
from chemspec.draft.tree.table_file import save_shared_table
from chemspec.terminal import console


def main(
    model: Annotated[str, typer.Argument(help="Model whose table is shared.")],
    out: Annotated[Path, option("Output file.")],
    deepest: Annotated[int, option("Maximum number of entries of a context; longer ones are left out.")] = 7,
) -> None:
    """Export a model's edit table for models with other vocabularies, matched by the text of tokens."""
    engine = opt.load_engine("", model, threads=1)
    calibration = engine.resources.calibration()
    if calibration.edit_table is None:
        raise ValueError(f"model {engine.name} has no edit table; create one with `chemspec train calibrate`")
    made = f"{calibration.made}; {opt.command_line()}"
    save_shared_table(out, calibration.edit_table, engine.tokenizer.smiles_tokens, deepest=deepest, made=made)
    console.print_note(f"{out}: {out.stat().st_size / 1e6:.2f} MB")


app = script(main)
if __name__ == "__main__":
    app()
