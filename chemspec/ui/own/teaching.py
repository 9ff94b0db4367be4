"""Own reactions on the page Your chemistry: a table becomes precedents, and a fine-tuned model."""

from contextlib import suppress
from typing import Any

import streamlit as st

from chemspec.engine.registry import model_folder
from chemspec.io.columns import find_query_columns, query_of_row
from chemspec.io.readers import FileError
from chemspec.jobs import jobs, uploads
from chemspec.jobs.jobs import Job
from chemspec.jobs.store import StoreError
from chemspec.jobs.uploads import Sheet
from chemspec.model.checkpoint import full_digest_of_folder
from chemspec.precedents import own
from chemspec.precedents.own import OwnTable
from chemspec.settings import DecodeSettings, Task
from chemspec.system import extras
from chemspec.tasks import about_reactions
from chemspec.train import fine_tuned
from chemspec.train.settings import FINE_TUNED, FineTuneSettings
from chemspec.ui.batch import job_view
from chemspec.ui.common import escaping, queued_engine, widgets
from chemspec.ui.common.login import is_local_only
from chemspec.ui.common.query_box import TASK_LABELS
from chemspec.ui.own import runs

EXAMPLE = (
    "id,reactants,product\nELN-1,4-bromoanisole.phenylboronic acid,COc1ccc(-c2ccccc2)cc1\n"
    "ELN-2,O=C(O)c1ccccc1.NCc1ccccc1,O=C(NCc1ccccc1)c1ccccc1\n"
)
MAX_FAULTS = 200  # rows of the table of faults
_cached_sheet = st.cache_data(max_entries=4, ttl=600, show_spinner=False)(uploads.read_upload)


def show_teaching() -> None:
    """Draw the upload, what becomes of it, the runs and the models."""
    st.markdown(
        "Your own reactions, as a table, become **precedents** at once, and in minutes a **fine-tuned model** that "
        "predicts your kind of chemistry better. All of it stays on this computer."
    )
    if not is_local_only():
        st.info(
            "This app serves other computers, too, and what is kept here would be everybody's. Whoever runs the server "
            "uses the commands `chemspec precedents add` and `chemspec train fine-tune`."
        )
        return
    given = st.file_uploader(
        "Table of reactions", type=list(uploads.ENDINGS), max_upload_size=uploads.MAX_MB, key="own_file"
    )
    if given is None:
        with st.container(horizontal=True, vertical_alignment="center"):
            st.caption(
                "CSV, XLSX, RDF, ...: a reaction in each row, as reactants>>product in one column, or a column for "
                "each side; SMILES or names. A column such as id or ELN names the rows."
            )
            st.download_button("Example", EXAMPLE, "reactions.csv", "text/csv", on_click="ignore", type="tertiary")
    elif table := _read_table(given.name, given.getvalue()):
        _show_table(table, given.name)
    runs.show_runs()
    runs.show_models()
    _show_kept()


def _read_table(name: str, raw: bytes) -> OwnTable | None:
    try:
        sheet = _cached_sheet(raw, name)
    except FileError as error:
        st.error(f"**{escaping.plain_text(name)}** cannot be used: {escaping.plain_text(str(error))}.")
        return None
    return queued_engine.session_cached("_own_read", (name, sheet), lambda: _read_sheet(sheet), most=3)


def _read_sheet(sheet: Sheet) -> OwnTable:
    bar = st.progress(0.0, "Reading the reactions")
    indices = find_query_columns(sheet.columns, about_reactions())
    chosen = indices or (uploads.guess_query_column(sheet.columns, sheet.rows[:50]),)
    texts = [query_of_row(row, chosen) for row in sheet.rows]
    labels = own.find_labels(sheet.columns, sheet.rows)

    def report(done: int, total: int) -> None:
        if done % 20 == 0:
            bar.progress(done / total, "Reading the reactions")

    read = own.read_reactions(texts, labels, progress=report)
    bar.empty()
    return read


def _show_table(table: OwnTable, file: str) -> None:
    count, faults = len(table.reactions), table.faults
    rows = job_view.count_rows(count + len(faults))
    (st.success if count else st.error)(f"{count:,} of {rows} can be used.")
    if faults:
        with st.expander(f"{job_view.count_rows(len(faults))} cannot be used", expanded=not count):
            shown = [{"Row": row, "What is wrong": text} for row, text in faults[:MAX_FAULTS]]
            widths = {
                "Row": st.column_config.NumberColumn(width=60),
                "What is wrong": st.column_config.TextColumn(width=700),
            }
            st.dataframe(shown, column_config=widths, hide_index=True, alt="Rows that cannot be used")
            st.caption("Rows are counted without the header.")
    if not count:
        return
    stem = own.table_name(file.partition(".")[0])
    left, right = st.columns(2, gap="large")
    with left, st.container(border=True):
        st.markdown("**As precedents, at once**")
        st.caption("On every card they count, and come first, before the patent reactions that make the same change.")
        if st.button("Use as precedents", key="own_keep"):
            _keep(stem, table)
    with right, st.container(border=True):
        st.markdown("**As a fine-tuned model, in minutes**")
        _show_form(table, stem, file)


def _keep(name: str, table: OwnTable) -> None:
    try:
        with st.spinner("Indexing the reactions …"):
            own.keep_reactions(name, table.reactions)
    except (ValueError, OSError) as error:
        st.error(f"They cannot be kept: {escaping.plain_text(str(error))}.")
        return
    st.success(f"{len(table.reactions):,} reactions are precedents now.")


def _show_form(table: OwnTable, stem: str, file: str) -> None:
    if not extras.is_installed("torch"):
        st.caption(f"Training needs one more package: `{extras.install_command('train')}`, then start the app again.")
        return
    if len(table.reactions) < fine_tuned.MIN_REACTIONS:
        st.caption(f"At least {fine_tuned.MIN_REACTIONS} usable reactions are needed, better 200 of one kind.")
        return
    st.caption(
        "A fifth of the products is held out. You see how many of them are right before and after, and what was "
        "forgotten on public test reactions. The shipped model stays as it is."
    )
    tasks = [task for task in FINE_TUNED if queued_engine.model_names(task)]
    task: Task = widgets.segmented_choice("Question", tasks, key="own_task", format_func=TASK_LABELS.__getitem__)
    name = st.text_input("Name of the model", stem, max_chars=40, key=f"own_name_{stem}")
    start = widgets.offered_choice(
        "Begin with", {each: each for each in queued_engine.model_names(task)}, key="own_start"
    )
    if st.button("Fine-tune", type="primary", key="own_train"):
        try:
            FineTuneSettings(name=name, task=task, start=start)
            job = _create_job(table, name, task, start, file)
            job_view.submit_to_queue(job)
        except (ValueError, OSError) as error:
            st.error(f"It cannot be started: {escaping.plain_text(str(error))}.")
            return
        st.rerun()


def _create_job(table: OwnTable, name: str, task: Task, start: str, file: str) -> Job:
    sheet = Sheet(own.COLUMNS, tuple(tuple(reaction.cells.values()) for reaction in table.reactions))
    facts: dict[str, Any] = {"file": file, "column": 2, "model": start, "task": task, "fine_tune": name}
    return jobs.create_job(sheet, digest=full_digest_of_folder(model_folder(start)), settings=DecodeSettings(), **facts)


def _show_kept() -> None:
    with suppress(OSError, StoreError):
        stored = own.kept_tables()
        if not stored:
            return
        st.subheader("Your precedents", anchor=False)
        for name, count in stored.items():
            with st.container(horizontal=True, vertical_alignment="center"):
                st.markdown(f"**{escaping.plain_text(name)}**: {count:,} reactions", width="content")
                if st.button("Remove", key=f"own_forget_{name}", type="tertiary"):
                    own.forget_table(name)
                    st.rerun()
