"""The command `make`: what can be made from an inventory."""

from pathlib import Path
from typing import Any

from chemspec.cli import options as opt
from chemspec.cli.base import command
from chemspec.terminal import console

MAX_SHOWN = 20  # products printed


@command("make", "Answers")
def make_from_stock(
    kind: str = "",
    stock: list[str] | None = None,
    using: str = "",
    pairs: int = 300,
    out: Path | None = None,
    *,
    runtime: opt.Hardware,
) -> dict[str, Any]:
    """What can be made from an inventory: products of pairs by a kind of reaction, ranked; without KIND how many pairs.

    Options:
        kind KIND: kind of reaction, such as amide, suzuki or "reductive amination".
        stock -s: inventory: a table or SDF with a column of shelves; repeatable; default: those in CHEMSPEC_HOME.
        using: SMILES or name of a molecule that takes part.
        pairs: pairs that are predicted, chosen at random if there are more; 0: all.
        out -o: output file: .csv with all products.
    """
    from chemspec.chem import formats
    from chemspec.evaluation.loading import load_fastest
    from chemspec.plan import cupboard
    from chemspec.stock.lists import load_chosen_stock

    opt.check_parent_folders(out)
    chosen = cupboard.find_kind(kind) if kind else None
    read = formats.read_input(using, task="retro") if using else None
    if using and not isinstance(read, formats.Input):
        raise ValueError(f"--using {using!r}: {read.message if read else ''}")
    listed = load_chosen_stock(stock or [])
    have = cupboard.bottles(listed)
    if not have:
        raise ValueError("there is no inventory; give one with --stock FILE, with SMILES or names in a column")
    if chosen is None:
        counts = cupboard.count_pairs(have)
        rows = [
            {
                "kind": each.name,
                "pairs": f"{count:,}",
                "of": f"{first} × {each.partners[0]}, {second} × {each.partners[1]}",
            }
            for each, first, second, count in counts
        ]
        console.print_rows(rows, right=("pairs",))
        console.print_note(f"{len(have):,} molecules; chemspec make KIND predicts the products")
        return {"molecules": len(have), "kinds": rows}
    every = cupboard.find_pairs(chosen, have, read.smiles if isinstance(read, formats.Input) else "")
    tried = cupboard.choose_pairs(every, pairs)
    forward = load_fastest(opt.chosen_model("forward", ""), **runtime.loading)
    with console.progress_bar("pairs") as report:
        made = cupboard.make(chosen, tried, forward, listed, progress=report)
    rows = cupboard.made_rows(made)
    console.print_line(f"{chosen.title}: {len(made):,} products of {len(tried):,} pairs, of {len(every):,}", "bold")
    console.print_rows(rows[:MAX_SHOWN], right=("probability",))
    if out:
        out.write_text(cupboard.rows_as_csv(rows), encoding="utf-8")
    elif len(rows) > MAX_SHOWN:
        console.print_line(f"  {len(rows) - MAX_SHOWN} more; -o FILE.csv has all", "dim")
    return {"kind": chosen.name, "pairs": len(every), "tried": len(tried), "products": rows}
