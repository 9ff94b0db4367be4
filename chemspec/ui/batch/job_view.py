"""A job on the page Batch: progress and answers. Uploaded text is shown as plain text."""

import re
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import streamlit as st
from streamlit import column_config as column

from chemspec import chem
from chemspec.chem import formats
from chemspec.depict.molecules import Depiction
from chemspec.engine.queries import MAX_CHARS
from chemspec.engine.registry import model_folder
from chemspec.jobs import exports, job_queue, jobs, rows
from chemspec.jobs.job_queue import JobView
from chemspec.jobs.job_stock import UPLOADED
from chemspec.jobs.jobs import JOBS, Job
from chemspec.jobs.store import StoreError
from chemspec.model.checkpoint import full_digest_of_folder
from chemspec.review.suggestions import format_percent
from chemspec.settings import Task
from chemspec.ui.common import escaping, nav, theme
from chemspec.ui.common.query_box import TASK_LABELS
from chemspec.ui.predict.options import SEARCH_NOTES

PAGE = 10  # rows of a page of answers
REFRESH_SECONDS = 1.0
MAX_SEEN = 8  # jobs of a visit whose lines are not counted again
ROW = 92  # pixels
# The tables' own download holds pictures, and cells as they came; ours are made for reading elsewhere.
_DOWNLOAD = '[data-testid="stElementToolbarButton"]:has([aria-label^="Download"])'
STYLE = f'<style>[class*="st-key-batch_"] {_DOWNLOAD} {{display: none}}</style>'
STATES: dict[str, tuple[str, Any]] = {  # words and colours
    "waiting": ("Waiting", "gray"),
    "running": ("Running", "blue"),
    "stopped": ("Stopped", "orange"),
    "done": ("Done", "green"),
    "failed": ("Failed", "red"),
}
ABOUT_CHANCE = {
    "forward": "Probability: how often products with this score were right, in validation reactions",
    "retro": "Probability: how often answers with this score were the recorded route, in validation reactions",
}
ANSWER_LABELS = {  # columns of an answer
    "class": "Class",
    "forward_model": "Forward model",
    "stock": "Stock",
    "conditions": "Conditions",
    "patents": "Patents",
    "alike": "The same strategy",
}
ShowRows = Callable[[JobView, rows.GrowingLines], None]
STATUSES = {"ok": "✓ answered", "invalid": "✗ not accepted", "too_long": "✗ too long", "failed": "✗ failed"}


@st.cache_resource(show_spinner=False, ttl=20)
def start_pending_jobs() -> None:
    """Continue waiting jobs, whose runner may have been killed, and remove old ones; every 20 seconds at most."""
    with suppress(StoreError):  # a full store matters when a job is made
        JOBS.make_room()
    with suppress(StoreError, OSError):
        job_queue.ensure_runner()


def submit_to_queue(job: Job) -> None:
    """Put a job into the queue; raises ValueError if its model cannot be found, or the queue refuses it."""
    job_queue.submit_job(job.id, full_digest_of_folder(model_folder(job.model)))


def show_job(name: str, show_targets: ShowRows) -> None:
    """Show a job by its id: how far it is, what can be done with it, its answers or, by `show_targets`, its routes."""
    try:
        view = job_queue.view_job(name)
    except StoreError as error:
        _show_heading("No job")
        st.error(f"This job cannot be opened: {escaping.plain_text(str(error))}.")
        return
    st.session_state.setdefault("batch_jobs", set()).add(name)  # those of this visit
    _show_heading(escaping.plain_text(view.job.file))
    st.caption(_job_facts(view.job))
    st.fragment(run_every=REFRESH_SECONDS if view.active else None)(_show_progress)(
        name, view.active, show_targets if view.job.within else _show_answers
    )


def _show_heading(title: str) -> None:
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        st.subheader(title, anchor=False, width="content")
        if st.button("← New batch", key="batch_back"):
            del st.query_params["job"]
            st.rerun()


def _job_facts(job: Job) -> str:
    column, n = job.columns[job.column], job.cards
    question = f"Routes within {job.within:g} s each" if job.within else TASK_LABELS[job.task]
    each = f"{n} answer{'s' * (n != 1)} a row, {'exact' if job.settings.exact else 'relaxed'}"
    facts = [
        count_rows(job.total),
        f"column {escaping.plain_text(column)}" if column else "",
        question + (f", model {escaping.plain_text(job.model)}" if job.model != job.task else ""),
        f"stock {escaping.plain_text(', '.join(stock_names(job)))}" if job.within else each,
        f"started {time.strftime('%d %b %Y, %H:%M', time.gmtime(job.created))} UTC",
    ]
    return " · ".join(filter(None, facts))


def stock_names(job: Job) -> list[str]:
    """Return the names of the lists of a job."""
    return [*job.stock, *([UPLOADED] if jobs.prices_file(job).is_file() else [])]


def _show_progress(name: str, was_active: bool, show_rows_of: ShowRows) -> None:
    """Show progress, buttons and answers; redrawn now and then while a job runs."""
    start_pending_jobs()
    try:
        view = job_queue.view_job(name)  # before the lines are read: a job that is done then has them all
        lines = _lines_of(rows.answer_lines(view.job))
    except (StoreError, OSError, ValueError) as error:
        st.error(f"This job cannot be read: {escaping.plain_text(str(error))}.")
        return
    if view.active != was_active:
        st.rerun()
    # Always the same containers in the same order: so nothing jumps when a job begins or ends.
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        word, color = STATES[view.state]
        st.badge(word, color=color)
        st.markdown(progress_line(view, lines), width="content")
    with st.container():
        if view.state != "done":
            st.progress(min(1.0, len(lines) / max(1, view.job.total)))
        if view.active:
            st.caption("You can close this page: the job continues on the server.")
        if view.state == "failed":
            st.error(f"{as_sentence(view.job.message)} Completed rows are saved.")
    _job_buttons(view)
    st.caption(f"The address of this page leads back to the job; with it anyone can see or delete it. {jobs.KEEPING}")
    with st.container():
        show_rows_of(view, lines)


def as_sentence(text: str) -> str:
    """Return a message as a sentence of plain text."""
    return escaping.plain_text(text[:1].upper() + text[1:]) + "."


def _lines_of(unread: rows.GrowingLines) -> rows.GrowingLines:
    """Return the lines of a file of a job; of one that this visit has seen before only what is new is read."""
    cached: dict[str, rows.GrowingLines] = st.session_state.setdefault("batch_lines", {})
    if len(cached) >= 2 * MAX_SEEN and str(unread.path) not in cached:
        cached.clear()
    return cached.setdefault(str(unread.path), unread).refresh()


def uploaded_lines(job: Job) -> rows.GrowingLines:
    """Return the lines of the uploaded rows of a job."""
    return _lines_of(rows.GrowingLines(jobs.uploaded_file(job)))


def progress_line(view: JobView, lines: rows.GrowingLines) -> str:
    """Return in words how far a job is."""
    bad, total = len(lines.failed), view.job.total
    if view.job.within:
        text = f"**{len(lines):,}** of {total:,} target{'s' * (total != 1)}"
        text += f", **{len(lines) - bad:,}** with a route from stock" if len(lines) else ""
    else:
        text = f"**{len(lines):,}** of {count_rows(total)}" + (f", **{bad:,}** with an error" if bad else "")
    if view.state == "waiting":
        text += f"; {view.ahead} job{'s' * (view.ahead != 1)} before this one"
    return text


def count_rows(number: int) -> str:
    """Return a number of rows in words."""
    return f"{number:,} row{'s' * (number != 1)}"


def _job_buttons(view: JobView) -> None:
    job = view.job
    with st.container(horizontal=True, gap="small"):
        about = "Rows that are answered stay; the job can be resumed."
        if view.active and st.button("Cancel", key="batch_cancel", help=about):
            _try_action(lambda: job_queue.stop_job(job.id))
        if not view.active and view.state != "done" and st.button("Resume", key="batch_resume", type="primary"):
            _try_action(lambda: submit_to_queue(job))
        part = "" if view.state == "done" else " so far"
        stem = re.sub(r"[^A-Za-z0-9-]+", "_", job.file.split(".")[0])[:40].strip("_") or "batch"
        for kind in exports.formats_of(job):
            st.download_button(
                kind.upper() + part,
                partial(exports.export_job, job, kind),  # made on click
                f"{stem}_{'routes' if job.within else 'answers'}.{kind}",
                key=f"batch_{kind}",
                on_click="ignore",
                icon=":material/download:",
            )
        with st.popover("Delete"):
            st.markdown("Delete this job with all its answers? This cannot be undone.")
            if st.button("Delete it", key="batch_delete", type="primary"):
                _try_action(lambda: _delete_job(job.id))


def _try_action(action: Callable[[], None]) -> None:
    try:
        action()
    except (ValueError, OSError) as error:
        st.error(as_sentence(str(error)))
        return
    st.rerun()


def _delete_job(name: str) -> None:
    job_queue.delete_job(name)
    st.query_params.pop("job", None)


def _show_answers(view: JobView, lines: rows.GrowingLines) -> None:
    if not len(lines):
        if view.active:
            st.skeleton(height=200)
        return
    errors = lines.failed
    only = bool(errors) and st.toggle("Only rows with errors", key=f"batch_errors_{view.job.id}")
    chosen = errors if only else range(len(lines))
    pages = -(-len(chosen) // PAGE)
    above = st.container(key="batch_answers")
    page = st.pagination(pages, key=f"batch_page_{view.job.id}_{only}") if pages > 1 else 1
    numbers = [*chosen[(page - 1) * PAGE : page * PAGE]]
    with above:
        show_rows(view.job, numbers, rows.parse_rows(lines.read(numbers)), f"batch_table_{view.job.id}_{only}_{page}")


def show_rows(job: Job, numbers: list[int], answers: list[Any], key: str) -> None:
    """Show some rows with their best answers; a tick at one leads to all of its answers."""
    given = rows.parse_rows(uploaded_lines(job).read(numbers))
    others, shown = rows.other_columns(job), []
    for number, cells, row in zip(numbers, given, answers, strict=True):
        best = next(iter(rows.answer_cells(job, row)), {})
        reading = [note for note in row["message"][:500].split("; ") if not note.startswith(SEARCH_NOTES)]
        notes = [str(note).rstrip(".") for note in (rows.warning_of(row), best.get("note"), *reading) if note]
        sign = "⚠ answered" if rows.warning_of(row) or best.get("note") else STATUSES["ok"]
        status = [sign if row["status"] == "ok" else STATUSES.get(row["status"], row["status"]), "; ".join(notes)]
        shown.append(
            best
            | {
                "row": number + 1,
                "query": molecule_cell(job.task, row["query"], 185),
                "best": molecule_cell(job.task, str(best["smiles"]), 205) if best else None,
                "probability": format_share(best),
                "status": ": ".join(filter(None, status)),
                **{f"own_{position}": cells[position][:200] for position in others},
                "text": row["query"][:1000],
            }
        )
    about = f"{ABOUT_CHANCE[job.task]}; of a model without calibration, its own probability."
    columns = {
        "row": column.NumberColumn("Row", width=45),
        "query": column.ImageColumn("Query", width=185),
        "best": column.ImageColumn("Best answer", width=205),
        "probability": column.TextColumn(about.partition(":")[0], help=about, width=130),
        "status": column.TextColumn("Status", width=215),
        **{name: column.TextColumn(label, width=140) for name, label in ANSWER_LABELS.items()},
        **{f"own_{position}": column.TextColumn(job.columns[position]) for position in others},
        "smiles": column.TextColumn("Best answer, SMILES", width=240),
        "text": column.TextColumn("Query, text", width=240),
    }
    alt = f"Answers of rows {numbers[0] + 1} to {numbers[-1] + 1}" if numbers else "No rows"
    event = table_with_drawings(shown, columns, alt, on_select="rerun", selection_mode="single-row", key=key)
    st.caption(f"Tick a row to open it in Predict, with all of its answers. {ABOUT_CHANCE[job.task]}.")
    picked = [position for position in event.selection.rows if position < len(answers)]
    if picked and st.button(f"Open row {numbers[picked[0]] + 1} in Predict", key="batch_predict"):
        nav.open_page("predict", task=job.task, smi=answers[picked[0]]["query"][:2000])


def format_share(cells: dict[str, Any]) -> str | None:
    """Return the probability of an answer in words; None if there is none."""
    probability = cells.get("probability", "")
    return None if probability == "" else format_percent(probability)


def table_with_drawings(shown: list[dict[str, Any]], columns: dict[str, Any], alt: str, **more: Any) -> Any:
    """Show those columns of a table that are not empty, with rows high enough for drawings."""
    filled = [name for name in columns if any(row.get(name) not in (None, "") for row in shown)]
    looks: Any = {"hide_index": True, "row_height": ROW, "height": ROW * min(len(shown), PAGE) + 38, "placeholder": "–"}
    return st.dataframe(shown, column_config=columns, column_order=filled, alt=alt, **looks, **more)


def molecule_cell(task: Task, smiles: str, width: int) -> str | None:
    """Return a drawing for a cell; nothing where the text cannot be read."""
    query = formats.read_input(smiles, task=task, max_chars=MAX_CHARS)
    if isinstance(query, chem.Fault):
        return None
    return Depiction(query.smiles, width - 16, ROW - 8, dark=theme.is_dark()).data_uri or None
