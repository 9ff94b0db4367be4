"""The texts of the page How it works, and its two charts of measurements."""

import re
from functools import cache
from typing import TYPE_CHECKING, Any

from chemspec.asset_files import assets_folder

if TYPE_CHECKING:
    import pandas as pd


@cache
def text_sections(name: str) -> tuple[tuple[str, str], ...]:
    """Return the sections of a text in assets/learn as (title, Markdown)."""
    parts = re.split(r"^## +(.+)$", read_text(name), flags=re.MULTILINE)[1:]
    return tuple(zip(parts[::2], (body.strip() for body in parts[1::2]), strict=True))


@cache
def read_text(name: str) -> str:
    """Return a text in assets/learn that has no sections."""
    return (assets_folder() / "learn" / f"{name}.md").read_text(encoding="utf-8")


# --- charts ----------------------------------------------------------------------------------------

DRAFTERS = {"none": "without drafts", "auto": "auto", "mixed": "mixed", "copy": "copy"}
COLORS = {"without drafts": "#7a8683", "auto": "#0b8f84", "mixed": "#D55E00", "copy": "#0072B2"}
SHAPES = ("square", "circle", "triangle-up", "diamond")


def read_table(name: str) -> "pd.DataFrame":
    """Return a table of assets/learn, which `assets/docs/learn_tables.py` makes of the measurements."""
    import pandas as pd

    return pd.read_csv(assets_folder() / "learn" / f"{name}.csv", skiprows=1)


def table_note(name: str) -> str:
    """Return what a table of assets/learn is, from its first line."""
    with (assets_folder() / "learn" / f"{name}.csv").open(encoding="utf-8") as file:
        return file.readline().removeprefix("# ").strip()


def _encode_drafter(names: list[str]) -> dict[str, Any]:
    import altair as alt

    colors = alt.Scale(domain=names, range=[COLORS[name] for name in names])
    legend = alt.Legend(orient="top", title=None)
    return {
        "color": alt.Color("drafts:N", scale=colors, legend=legend),
        "shape": alt.Shape("drafts:N", scale=alt.Scale(domain=names, range=SHAPES[: len(names)]), legend=legend),
    }


def latency_chart() -> Any:
    """Return the chart of latency against throughput, a point for each number of queries at once."""
    import altair as alt

    table = read_table("latency")
    table["drafts"] = table["drafter"].map(DRAFTERS)
    base = alt.Chart(table).encode(
        x=alt.X(
            "latency:Q",
            scale=alt.Scale(type="log", nice=False, padding=20),
            axis=alt.Axis(values=[5, 10, 20, 50, 100, 200, 500]),
            title="milliseconds until a query is answered",
        ),
        y=alt.Y("throughput:Q", scale=alt.Scale(zero=False), title="queries a second"),
        tooltip=["drafts", "batch", "latency", "throughput"],
        **_encode_drafter(list(dict.fromkeys(table["drafts"]))),
    )
    labels = base.mark_text(dy=-11, fontSize=11).encode(text="batch:Q", shape=alt.Undefined)
    return (
        base.mark_line(strokeWidth=1.5).encode(shape=alt.Undefined) + base.mark_point(filled=True, size=70) + labels
    ).properties(height=320)


def speedup_chart() -> Any:
    """Return the chart of the passes saved by query, a line for each drafter over the queries, best first."""
    import altair as alt

    table = read_table("speedups").melt(id_vars=["task", "query"], var_name="drafter", value_name="fewer")
    table["drafts"] = table["drafter"].map(DRAFTERS)
    table["share"] = 100 * table.groupby("drafts")["fewer"].rank(method="first", ascending=False, pct=True)
    return (
        alt.Chart(table)
        .mark_point(filled=True, size=26, opacity=0.75)
        .encode(
            x=alt.X("share:Q", title="percent of the queries, the most copied first"),
            y=alt.Y(
                "fewer:Q",
                scale=alt.Scale(type="log", nice=False),
                axis=alt.Axis(values=[1, 2, 3, 5, 10, 20, 50]),
                title="times fewer passes",
            ),
            tooltip=["drafts", "task", "query", alt.Tooltip("fewer:Q", format=".1f")],
            **_encode_drafter(list(dict.fromkeys(table["drafts"]))),
        )
        .properties(height=320)
    )


def describe_latency() -> str:
    """Return in words what the chart of latency shows."""
    parts = []
    for name, rows in read_table("latency").groupby("drafter", sort=False):
        first, last = rows.iloc[0], rows.iloc[-1]
        parts.append(
            f"{DRAFTERS[str(name)]}: {first['latency']:.1f} ms and {first['throughput']:.0f} queries a second one at a "
            f"time, {last['latency']:.0f} ms and {last['throughput']:.0f} with {last['batch']} at once"
        )
    return "; ".join(parts) + "."


def describe_speedups() -> str:
    """Return in words what the chart of queries shows."""
    table = read_table("speedups")
    parts = []
    for name in ("copy", "mixed"):
        low, middle, high = table[name].quantile([0.1, 0.5, 0.9])
        about = f"{middle:.1f} times fewer passes for the middle one, {low:.1f} to {high:.1f} for eight of ten"
        parts.append(f"{DRAFTERS[name]}: {about}")
    return "; ".join(parts) + "."
