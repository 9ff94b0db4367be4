"""The page Batch: predictions or routes for a whole file."""

import streamlit as st

from chemspec.settings import Task
from chemspec.ui.batch import job_form, job_view, routes_form, routes_view
from chemspec.ui.common import nav


def draw_page() -> None:
    """Draw the page."""
    st.title("Batch", anchor=False)
    st.html(job_view.STYLE)
    job_view.start_pending_jobs()
    if name := st.query_params.get("job"):
        job_view.show_job(name, routes_view.show_targets)
        return
    st.markdown(
        "Predict, or plan routes, for a whole file. The job goes on when you close the page. Its address (link) brings "
        "you back: keep it as a bookmark, since this page lists only jobs opened in this browser tab."
    )
    show_new_job()
    job_form.show_own_jobs()


def show_new_job() -> None:
    """Show the form of a new job."""
    given = job_form.choose_file()
    sheet = job_form.read_sheet(*given) if given else None
    if given is None or sheet is None:
        return
    left, right = st.columns([2, 3], gap="large")
    model = ""
    with left:
        st.subheader("Settings", anchor=False)
        question = job_form.choose_question(sheet)
        task: Task | None = "retro" if question == job_form.ROUTES else question
        column = job_form.choose_column(sheet, task)
        if question == job_form.ROUTES:
            model = routes_form.show_start(sheet, file=given[0], column=column)
        elif task:
            model, settings, cards = job_form.choose_model(task)
            if st.button(
                f"Predict {job_view.count_rows(len(sheet.rows))}", type="primary", width="stretch", key="batch_start"
            ):
                job_form.start_job(
                    sheet, file=given[0], column=column, model=model, task=task, settings=settings, cards=cards
                )
    with right:
        st.subheader("Preview", anchor=False)
        job_form.show_preview(sheet, column, task or "forward", model)


nav.run_page(draw_page)
