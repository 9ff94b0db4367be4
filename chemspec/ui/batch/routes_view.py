"""The targets of a job that plans routes: their table, and what they share. Uploaded text is shown as plain text."""

from collections.abc import Callable, Sequence
from typing import Any

import streamlit as st
from streamlit import column_config as column

from chemspec.chem.reading.names.reagents import name_of
from chemspec.depict import canvas
from chemspec.depict.molecules import svg_data_uri
from chemspec.jobs import rows
from chemspec.jobs.job_queue import JobView
from chemspec.jobs.jobs import Job
from chemspec.review.suggestions import format_percent
from chemspec.ui.batch import job_view
from chemspec.ui.batch.job_view import PAGE, molecule_cell, table_with_drawings
from chemspec.ui.common import nav, scheme, theme
from chemspec.ui.common.escaping import plain_text, tag

VIEWS = ("Targets", "Shared intermediates")
STYLE = """<style>
.cs-library {columns: 340px; column-gap: 1.2rem}
.cs-library img {display: block; max-width: 100%; margin: 0 auto 1rem; break-inside: avoid}
</style>"""
STATUSES = {
    "solved": "✓ route from stock",
    "open": "✗ no route from stock",
    "refused": "✗ not accepted",
    "failed": "✗ failed",
}
Row = dict[str, Any]


def _has_route(row: Row) -> bool:
    return "steps" in row


# By name the key of a row; smaller comes first, and rows without a route come last.
ORDERS: dict[str, Callable[[Row], Any]] = {
    "as in the file": lambda _: 0,
    "probability": lambda row: (row["status"] != "solved", -row["probability"]),
    "steps": lambda row: (row["status"] != "solved", row["steps"]),
    "weakest step": lambda row: (row["status"] != "solved", -row["weakest_step"]),
    "price": lambda row: (not row["price"], float(row["price"] or 0)),
    "what no list has": lambda row: len(row["not_in_stock"].split()),
    "shared intermediates": lambda row: -len(row["shared"].split(" ")) if row["shared"] else 0,
}


def show_targets(view: JobView, lines: rows.GrowingLines) -> None:
    """Show what is planned so far: the table of the targets, or the diagram of what they share."""
    from chemspec.plan import library  # slow import

    if not len(lines):
        if view.active:
            st.skeleton(height=200)
        return
    planned = _rows_so_far(view.job, lines)
    with st.container(horizontal=True, vertical_alignment="center"):
        name = f"batch_view_{view.job.id}"
        chosen = st.segmented_control("View", VIEWS, default=VIEWS[0], key=name, label_visibility="collapsed")
        order = "as in the file"
        if chosen != VIEWS[1]:
            order = st.selectbox(
                "Order",
                [*ORDERS],
                format_func="Order: {}".format,
                key=f"batch_order_{view.job.id}",
                label_visibility="collapsed",
                width=260,
            )
    if chosen == VIEWS[1]:
        _show_shared(planned)
        return
    filled = [row | {"shared": text} for row, text in zip(planned, library.shared_texts(planned), strict=True)]
    numbers = sorted_numbers(filled, order)
    pages = -(-len(numbers) // PAGE)
    above = st.container(key="batch_answers")
    page = st.pagination(pages, key=f"batch_page_{view.job.id}_{order}") if pages > 1 else 1
    with above:
        _show_page(
            view.job, filled, numbers[(page - 1) * PAGE : page * PAGE], f"batch_table_{view.job.id}_{order}_{page}"
        )


def sorted_numbers(planned: Sequence[Row], order: str) -> list[int]:
    """Return the numbers of rows in an order of `ORDERS`; in all but that of the file those without a route last."""
    if order == "as in the file":
        return [*range(len(planned))]
    with_route = [number for number, row in enumerate(planned) if _has_route(row)]
    others = [number for number, row in enumerate(planned) if not _has_route(row)]
    return [*sorted(with_route, key=lambda number: ORDERS[order](planned[number])), *others]


def _rows_so_far(job: Job, lines: rows.GrowingLines) -> list[Row]:
    """Return the rows of the library's table; of the job that this visit has seen last only new ones are read."""
    from chemspec.jobs import planned  # slow import

    name, read = st.session_state.get("batch_planned", ("", []))
    if name != job.id or len(read) > len(lines):
        read = []
    read = [*read, *planned.library_rows(lines.read(range(len(read), len(lines))))]
    st.session_state.batch_planned = (job.id, read)
    return read


def _show_page(job: Job, planned: Sequence[Row], numbers: Sequence[int], key: str) -> None:
    """Show some targets with their best routes; a tick at one leads to all of its routes."""
    given = rows.parse_rows(job_view.uploaded_lines(job).read(numbers))
    others, shown = rows.other_columns(job), []
    for number, cells in zip(numbers, given, strict=True):
        row = planned[number]
        has_route = _has_route(row)
        shown.append(
            {
                "row": number + 1,
                "drawing": molecule_cell("retro", row["smiles"], 185),
                "status": _status(row),
                "steps": row.get("steps"),
                "weakest": format_percent(row["weakest_step"]) if has_route and row["steps"] else None,
                "price": float(row["price"]) if row.get("price") else None,
                "blocks": _names(row.get("building_blocks", "")),
                "lacking": _names(row.get("not_in_stock", "")),
                "shared": row["shared"],
                **{f"own_{position}": cells[position][:200] for position in others},
                "text": row["target"][:1000],
            }
        )
    columns = {
        "row": column.NumberColumn("Row", width=45),
        "drawing": column.ImageColumn("Target", width=185),
        "status": column.TextColumn("Best route", width=215),
        "steps": column.NumberColumn("Steps", width=60),
        "weakest": column.TextColumn("Weakest step", width=100, help="The lowest probability of a step, not a yield"),
        "price": column.NumberColumn(
            "Price", width=80, format="%.2f", help="Sum of the building blocks' listed prices"
        ),
        "blocks": column.TextColumn("Building blocks", width=260),
        "lacking": column.TextColumn("In no list", width=160),
        "shared": column.TextColumn("Shared intermediates (routes)", width=260),
        **{f"own_{position}": column.TextColumn(job.columns[position]) for position in others},
        "text": column.TextColumn("Target, text", width=240),
    }
    alt = "Targets with their best routes"
    event = table_with_drawings(shown, columns, alt, on_select="rerun", selection_mode="single-row", key=key)
    st.caption("Tick a row to open it in Plan, with all of its routes. Shared: in the best routes of how many targets.")
    picked = [position for position in event.selection.rows if position < len(numbers)]
    if picked and st.button(f"Open row {numbers[picked[0]] + 1} in Plan", key="batch_plan"):
        nav.open_page("plan", smi=planned[numbers[picked[0]]]["smiles"])


def _status(row: Row) -> str:
    """Return how the plan of a target ended; why, unless its closest route says it."""
    message = "" if _has_route(row) else row.get("message", "")[:500]
    return ": ".join(filter(None, (STATUSES[row["status"]], message)))


def _names(molecules: str) -> str:
    """Return molecules, SMILES with blanks between them, by their names where they have one."""
    return " + ".join(name_of(smiles) or smiles for smiles in molecules.split())


def _show_shared(planned: Sequence[Row]) -> None:
    """Show the diagram of shared intermediates, in as many columns as there is room for, and offer it as a file."""
    from chemspec.plan import library, library_diagram  # slow import

    shared = library.shared_intermediates(planned)
    st.caption(plain_text(library_diagram.summarize(planned, shared)))
    if not shared:
        return
    blocks = library_diagram.draw_blocks(planned, shared, dark=theme.is_dark())
    pictures = [scheme.picture_html(svg_data_uri(canvas.to_svg(block)), block.description) for block in blocks]
    st.html(STYLE + tag("div.cs-library", *pictures))

    def whole() -> str:
        picture = library_diagram.draw_library(planned)
        return canvas.to_svg(picture) if picture else ""

    st.download_button(
        "Diagram as SVG", whole, "shared.svg", key="batch_shared", on_click="ignore", icon=":material/download:"
    )
