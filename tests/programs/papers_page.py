"""Page and charts of `chemspec bench papers`: `python tests/programs/papers_page.py runs/papers/papers.json`."""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from helpers.scripts import script
from programs.charts import charts, svg

from chemspec.bench.papers import FIGURES, MIN_QUERIES, NO_TRUTH, display_row
from chemspec.io import tables
from chemspec.metrics import Spread

BEGIN, END = "<!-- chemspec bench papers: begin -->", "<!-- end -->"


def main(
    file: Annotated[Path, typer.Argument(help="What `chemspec bench papers` wrote (papers.json).")],
    out: Annotated[Path, typer.Option(help="Folder of measurements.md, one section of which is written anew.")] = Path(
        "assets/docs"
    ),
) -> None:
    """Draw the charts into OUT/charts, copy the numbers there, and put the tables into OUT/measurements.md.

    Only what stands between the two marks of that page is replaced; without marks it goes to the end.
    """
    report = json.loads(file.read_text(encoding="utf-8"))
    folder, page = out / "charts", out / "measurements.md"
    text = page.read_text(encoding="utf-8") if page.exists() else ""
    drawn = charts(report)
    text = _put(text, section(report, {name: words for name, (_, words) in drawn.items()}), page)
    folder.mkdir(parents=True, exist_ok=True)
    for name, (chart, _) in drawn.items():
        (folder / f"{name}.svg").write_text(svg(chart), encoding="utf-8")
    for numbers in (file, file.with_suffix(".csv")):
        shutil.copy(numbers, folder)
    page.write_text(text, encoding="utf-8")


def _put(text: str, content: str, page: Path) -> str:
    whole = f"{BEGIN}\n{content}\n{END}"
    if BEGIN not in text:
        return f"{text.rstrip()}\n\n{whole}\n" if text.strip() else whole + "\n"
    before, _, rest = text.partition(BEGIN)
    if END not in rest:
        raise ValueError(f"{page} has the line {BEGIN!r}, but no {END!r} after it; put one there")
    return before + whole + rest.partition(END)[2]


def section(report: Mapping[str, Any], alts: Mapping[str, str]) -> str:
    """Return the section of the page, without its marks.

    Args:
        report: of `chemspec bench papers`.
        alts: what each chart shows, by name.
    """
    columns = FIGURES["columns"]
    kinds = {"forward": "speed", "retro": "speed"}
    drawn = {name: _table(columns[kinds.get(name, name)], report[name]) for name in FIGURES["titles"]}
    if not report["accuracy"]:
        drawn["accuracy"] = NO_TRUTH if NO_TRUTH in report["notes"] else f"No row has {MIN_QUERIES} queries."
    counted = [f"`{row['command']}` ({row['date']})" for row in report["cards"] if "command" in row]
    template = Path(__file__).with_suffix(".md").read_text(encoding="utf-8").rstrip()
    text = template.format(
        **drawn,
        command=report["command"],
        machine=", ".join(f"{name} {value}" for name, value in report["machine"].items() if value is not None),
        models=" and ".join(f"{name} {digest}" for name, digest in report["models"].items()),
        queries=report["queries"],
        limit=report["suite"]["limit"],
        seconds=report["suite"]["seconds"],
        notes=" ".join(note for note in report["notes"] if note != NO_TRUTH),
        counted="; ".join(counted) or "nothing, for these weights",
        single=tables.markdown(columns["single"], [_single(*pair) for pair in report["speedups"].items()]),
        chart={name: f"![{words}](charts/{name}.svg)" for name, words in alts.items()},
    )
    return "\n\n".join(map(_wrapped, text.split("\n\n")))


def _wrapped(block: str) -> str:
    """Wrap prose at 120 characters; tables, headings and pictures stay as they are."""
    if block.startswith(("|", "#", "!")):
        return block
    return textwrap.fill(block, 120, break_long_words=False, break_on_hyphens=False)


def _table(columns: tables.Columns, rows: Iterable[Mapping[str, Any]]) -> str:
    return tables.markdown(columns, map(display_row, rows))


def _single(name: str, pairs: Sequence[tuple[float, float]]) -> dict[str, Any]:
    time, passes = (Spread.from_values(pair[place] for pair in pairs) for place in (0, 1))
    every = [pair[0] for pair in pairs]
    return {"name": name, "time": time, "passes": passes, "least": min(every), "most": max(every)}


app = script(main)
if __name__ == "__main__":
    app()
