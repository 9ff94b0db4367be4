"""Runs that fine-tune a model, and the models that they made, on the page Your chemistry."""

import shutil

import streamlit as st

from chemspec.engine.registry import choose_model, default_model, own_models_dir
from chemspec.io import tables
from chemspec.jobs import job_queue, jobs
from chemspec.jobs.job_queue import JobView
from chemspec.jobs.jobs import JOBS
from chemspec.jobs.store import StoreError
from chemspec.settings import Task
from chemspec.train import fine_tuned
from chemspec.train.settings import FINE_TUNED
from chemspec.ui.batch import job_view
from chemspec.ui.common import escaping
from chemspec.ui.common.query_box import TASK_LABELS

REFRESH_SECONDS = 2.0
SHARES = {"reading": 0.02, "before": 0.05, "training": 0.1, "after": 0.9, "done": 1.0}  # of a run when a stage begins


def show_runs() -> None:
    """Show the runs that are not done, the newest first, each with its progress."""
    try:
        names = [job.id for job in JOBS.all('"fine_tune": "').values() if job.fine_tune and job.state != "done"]
        views = [job_queue.view_job(name) for name in reversed(names)]
    except StoreError as error:
        st.error(f"The runs cannot be read: {escaping.plain_text(str(error))}.")
        return
    if views:
        st.subheader("Training", anchor=False)
    for view in views:
        with st.container(border=True, key=f"own_run_{view.job.id}"):
            st.fragment(run_every=REFRESH_SECONDS if view.active else None)(_show_run)(view.job.id, view.state)


def _show_run(run: str, state: str) -> None:
    job_view.start_pending_jobs()
    try:
        view = job_queue.view_job(run)
    except StoreError:
        st.rerun()
    if view.state != state:
        st.rerun()
    job = view.job
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        word, color = job_view.STATES[view.state]
        st.badge(word, color=color)
        text = (
            f"**{escaping.plain_text(job.fine_tune)}**, from {escaping.plain_text(job.model)}, {job.total:,} reactions"
        )
        st.markdown(text, width="content")
    share, words = describe_progress(view)
    if view.state != "failed":
        st.progress(share, words)
    else:
        st.error(job.message[:1].upper() + escaping.plain_text(job.message[1:]) + ".")
    if view.active:
        st.caption("You can close this page: training goes on, at low priority.")
    _show_buttons(view)


def describe_progress(view: JobView) -> tuple[float, str]:
    """Return how far a run is, as a share and in words."""
    stage, done, total = fine_tuned.read_progress(jobs.work_folder(view.job))
    share = SHARES.get(stage, 0.0)
    if view.state == "waiting":
        return share, f"{view.ahead} job{'s' * (view.ahead != 1)} before this one"
    words = fine_tuned.STAGES.get(stage, "starting")
    if stage == "training" and total:
        share += (SHARES["after"] - share) * min(1.0, done / total)
        words += f": step {done:,} of {total:,}"
    return share, words[:1].upper() + words[1:]


def _show_buttons(view: JobView) -> None:
    name = view.job.id
    with st.container(horizontal=True, gap="small"):
        if view.active and st.button("Cancel", key=f"own_cancel_{name}", help="It can be resumed."):
            job_queue.stop_job(name)
            st.rerun()
        if not view.active and st.button("Resume", key=f"own_resume_{name}", type="primary"):
            try:
                job_view.submit_to_queue(view.job)
            except (ValueError, OSError) as error:
                st.error(escaping.plain_text(str(error)))
                return
            st.rerun()
        if not view.active and st.button("Delete", key=f"own_delete_{name}", type="tertiary"):
            job_queue.delete_job(name)
            st.rerun()


def show_models() -> None:
    """Show the fine-tuned models with what they learned and forgot, and which model predicts by default."""
    models = fine_tuned.own_models()
    if not models:
        return
    st.subheader("Your models", anchor=False)
    for task in FINE_TUNED:
        if names := [name for name, report in models.items() if report.get("task") == task]:
            _show_switch(task, names)
    for name, report in reversed(models.items()):
        with st.container(border=True, key=f"own_model_{name}"):
            _show_model(name, report)


def _show_switch(task: Task, names: list[str]) -> None:
    offered = [task, *names]
    now = default_model(task)

    def switch() -> None:
        choose_model(task, st.session_state[f"own_default_{task}"])

    st.radio(
        f"{TASK_LABELS[task]} Predict with",
        offered,
        offered.index(now) if now in offered else 0,
        format_func=lambda name: f"{name} (shipped)" if name == task else name,
        key=f"own_default_{task}",
        horizontal=True,
        on_change=switch,
        help="The model of every page and command where none is named, and of a service that is started then. Each is "
        "there by its name, too.",
    )


def _show_model(name: str, report: dict[str, object]) -> None:
    st.markdown(f"**{escaping.plain_text(name)}**")
    made = f"from {report.get('start')}, {report.get('reactions')} reactions, {report.get('steps')} steps"
    st.caption(escaping.plain_text(f"{report.get('date')}: {made}"))
    rows = fine_tuned.report_rows(report)
    st.markdown(tables.lines([("", "before", "after", "change"), *rows]))
    st.caption(fine_tuned.describe_calibration(report))
    with st.popover("Delete", type="tertiary"):
        st.markdown("Delete this model? This cannot be undone.")
        home = own_models_dir()
        if st.button("Delete it", key=f"own_remove_{name}", type="primary") and home:
            shutil.rmtree(home / name, ignore_errors=True)
            st.rerun()
