"""The form of the page Batch that makes a job from a file. Uploaded text is shown as plain text."""

import re
from collections import Counter
from contextlib import suppress
from typing import Any, Literal

import streamlit as st
from streamlit import column_config as column

from chemspec.asset_files import assets_folder
from chemspec.chem import formats
from chemspec.chem.molecules.salts import group_salts
from chemspec.engine.queries import MAX_CHARS, MAX_TOKENS
from chemspec.engine.registry import model_folder
from chemspec.io.readers import FileError
from chemspec.jobs import jobs, uploads
from chemspec.jobs.jobs import JOBS
from chemspec.jobs.store import StoreError
from chemspec.jobs.uploads import Sheet
from chemspec.model.checkpoint import full_digest_of_folder
from chemspec.settings import DecodeSettings, Task
from chemspec.ui.batch import job_view
from chemspec.ui.batch.job_view import count_rows, molecule_cell, table_with_drawings
from chemspec.ui.common import escaping, queued_engine, stock_menu, widgets
from chemspec.ui.predict.options import DEFAULT_ANSWERS, search_width

Question = Task | Literal["routes"]
ROUTES: Literal["routes"] = "routes"
QUESTIONS: dict[Question, str] = {  # what each means
    "forward": "What forms? A row holds all of the reaction mixture.",
    "retro": "From what, in one step? A row holds the molecule to make.",
    ROUTES: "How, from building blocks, in several steps? A row holds the molecule to make.",
}
MAX_ANSWERS = 20
PREVIEW_ROWS = 5
SAMPLED_ROWS = 50  # rows by which the column and the task are guessed
SAMPLE = "batch_sample.csv"
MISFITS: dict[Task, tuple[str, str]] = {  # rows that suit the other question, and what becomes of them
    "forward": ("molecule", "hold one molecule, with nothing to react with. For molecules to make choose Retro."),
    "retro": ("mixture", "hold several molecules, which Retro takes for one target. For reactants choose Forward."),
}
_cached_sheet = st.cache_data(max_entries=4, ttl=600, show_spinner=False)(uploads.read_upload)


def choose_file() -> tuple[str, bytes] | None:
    """Return the visitor's file, or the sample: its name and what it holds."""
    given = st.file_uploader(
        "File with one query per row", type=list(uploads.ENDINGS), max_upload_size=uploads.MAX_MB, key="batch_file"
    )
    st.caption(
        f"{uploads.LIMITS}. A query may have {MAX_CHARS:,} characters and {MAX_TOKENS} tokens; a row that has more, or "
        "cannot be read, gets a message; the other rows are predicted."
    )
    if given:
        return given.name, given.getvalue()
    sample = (assets_folder() / "examples" / SAMPLE).read_bytes()
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        used = st.toggle("Use the sample file", key="batch_sample")
        st.download_button("Download the sample", sample, SAMPLE, "text/csv", on_click="ignore", type="tertiary")
    if not used:
        _show_example(sample)
    return (SAMPLE, sample) if used else None


def _show_example(sample: bytes) -> None:
    """Show what goes in and what comes out, before there is a file."""
    rows = [line.split(",") for line in sample.decode().splitlines()[: PREVIEW_ROWS + 1]]
    left, right = st.columns(2, gap="large")
    with left:
        st.markdown("**A file with one molecule, name or reaction per row**")
        st.dataframe([dict(zip(rows[0], row, strict=True)) for row in rows[1:]], hide_index=True, alt="A sample file")
    with right:
        st.markdown("**becomes a table with these columns for each answer**")
        about = ("the answer as SMILES and drawing", "its probability, in percent", "the reaction class",
                 "what the forward model says", "whether precursors can be bought", "conditions and patents",
                 "problems and hazards")  # fmt: skip
        st.markdown("\n".join(f"- {text}" for text in about))
        st.caption("Download it as CSV, XLSX or SDF, while the job runs and after it.")


def read_sheet(name: str, raw: bytes) -> Sheet | None:
    """Return the rows of a file, or a message that says what is wrong with it."""
    try:
        with st.spinner("Reading the file …"):
            return _cached_sheet(raw, name)
    except FileError as error:
        st.error(f"**{escaping.plain_text(name)}** cannot be used: {escaping.plain_text(str(error))}.")
        return None


def choose_question(sheet: Sheet) -> Question | None:
    """Return the chosen question, by default what the column's name or its rows suggest; None without a model."""
    tasks: list[Task] = [task for task in ("forward", "retro") if queued_engine.model_names(task)]
    if not tasks:
        st.info("No model is installed yet; the page Models says how to add one.")
        return None
    questions: list[Question] = [*tasks, ROUTES] if "retro" in tasks else [*tasks]
    guess, reason = guess_task(sheet)
    word = st.query_params.get("task") or guess
    chosen = widgets.segmented_choice(
        "What to predict",
        questions,
        default=word if word in questions else questions[0],
        format_func=str.capitalize,
        key=f"batch_task_{word}",
    )
    st.caption(QUESTIONS[chosen])
    if guess:
        st.caption(f"{guess.capitalize()} is proposed: {escaping.plain_text(reason)}.")
    return chosen


def guess_task(sheet: Sheet) -> tuple[str, str]:
    """Return the task that suits a file, by the name of its column or else by its rows, and why; empty if unknown.

    A flask holds several molecules, a target is one.
    """
    index = uploads.guess_query_column(sheet.columns, sheet.rows[:SAMPLED_ROWS])
    heading = sheet.columns[index]
    for task, words in (("retro", "product|target"), ("forward", "reactant|reagent|flask|substrate")):
        if ">" not in heading and re.search(words, heading, re.I):
            return task, f"the column is named {heading[:60]}"
    kinds = count_kinds(sheet, index)
    several = kinds["mixture"] + kinds["reaction"]
    rows = f"of the first {count_rows(len(sheet.rows[:SAMPLED_ROWS]))}"
    if kinds["molecule"] > several:
        return "retro", f"one molecule in {kinds['molecule']} {rows}"
    return ("forward", f"several molecules, or a reaction, in {several} {rows}") if several else ("", "")


def count_kinds(sheet: Sheet, query_column: int) -> Counter[str]:
    """Count the first rows that hold one "molecule" (or salt), a "mixture" of several, or a "reaction"."""
    kinds: Counter[str] = Counter()
    for row in sheet.rows[:SAMPLED_ROWS]:
        read = formats.read_input(row[query_column], task="forward", max_chars=MAX_CHARS)
        if isinstance(read, formats.Input):
            single = len(group_salts(read.smiles.split("."))) == 1
            kinds["reaction" if read.other else "molecule" if single else "mixture"] += 1
    return kinds


def choose_column(sheet: Sheet, task: Task | None) -> int:
    """Return the chosen column of queries, by default one whose name suits the task."""
    if sheet.columns == ("",):
        return 0
    guess = uploads.guess_query_column(sheet.columns, sheet.rows[:50], task)
    return st.selectbox(
        "Column with the molecules",
        range(len(sheet.columns)),
        index=guess,
        format_func=lambda index: sheet.columns[index][:60] or f"(column {index + 1})",
        key=f"batch_column_{task}_{hash(sheet.columns)}",
    )


def choose_model(task: Task) -> tuple[str, DecodeSettings, int]:
    """Return the chosen model, decode settings, and how many answers a row gets."""
    able = queued_engine.model_names(task)
    with st.expander("Options"):
        model = st.selectbox("Model", able, key=f"batch_model_{task}")
        cards = int(st.number_input("Answers a row", 1, MAX_ANSWERS, DEFAULT_ANSWERS, key=f"batch_n_{task}"))
    if task == "retro":
        stock_menu.show_stock_menu()
    n = search_width(task, cards)
    return model, DecodeSettings(decoder="greedy" if n == 1 else "beam", n=n, distinct=True), cards


def show_preview(sheet: Sheet, query_column: int, task: Task, model: str) -> None:
    """Show the first rows, the queries in one of their columns drawn, and checked as the model will."""
    engine = queued_engine.engine_or_message(model) if model else None
    kind, advice = MISFITS[task]
    if model and (count := count_kinds(sheet, query_column)[kind]):
        st.warning(f"{count} of the first {count_rows(len(sheet.rows[:SAMPLED_ROWS]))} {advice}")
    shown = []
    for number, row in enumerate(sheet.rows[:PREVIEW_ROWS], 1):
        check = ""
        if engine:
            query = engine.prepare(row[query_column])
            check = f"✗ {query.refusal.message}" if query.refusal else f"✓ {'; '.join(query.notes) or 'readable'}"
        shown.append(
            {
                "row": number,
                "check": check[:300],
                "drawing": molecule_cell(task, row[query_column], 210),
                "query": row[query_column][:1000],
                **{f"own_{other}": cell[:200] for other, cell in enumerate(row) if other != query_column},
            }
        )
    columns = {
        "row": column.NumberColumn("Row", width=45),
        "check": column.TextColumn("Check", width=125),
        "drawing": column.ImageColumn("Query", width=210),
        "query": column.TextColumn(sheet.columns[query_column] or "SMILES", width=230),
        **{f"own_{other}": column.TextColumn(name) for other, name in enumerate(sheet.columns)},
    }
    table_with_drawings(shown, columns, f"The first {count_rows(len(shown))} of the file", key="batch_preview")
    st.caption(f"The first {len(shown)} of {count_rows(len(sheet.rows))}.")


def start_job(sheet: Sheet, *, model: str, **facts: Any) -> None:
    """Store a job, put it into the queue and open it; for the facts see `jobs.create_job`."""
    stock, uploaded = stock_menu.visitor_lists()
    facts |= {"model": model, "stock": stock, "prices": uploaded and uploaded.prices}
    try:
        job = jobs.create_job(sheet, digest=full_digest_of_folder(model_folder(model)), **facts)
        job_view.submit_to_queue(job)
    except (ValueError, OSError) as error:
        st.error(f"The job could not be started: {escaping.plain_text(str(error))}.")
        return
    open_job(job.id)


def open_job(name: str) -> None:
    """Show a job."""
    st.query_params["job"] = name
    st.rerun()


def show_own_jobs() -> None:
    """Offer the jobs that this visit began or opened."""
    names = st.session_state.get("batch_jobs", [])
    with suppress(StoreError):
        files = {name: job.file[:80] for name, job in JOBS.all().items() if name in names}
        label = "Jobs of this browser tab"
        if files and (name := st.selectbox(label, [*files], None, format_func=files.__getitem__, key="batch_own")):
            open_job(name)
