"""The settings of a job that plans routes, on the page Batch, and its start."""

import streamlit as st

from chemspec.jobs import jobs
from chemspec.jobs.uploads import Sheet
from chemspec.settings import DecodeSettings
from chemspec.system import extras
from chemspec.ui.batch import job_form, job_view
from chemspec.ui.common import queued_engine, stock_menu, widgets

TIMES = (1, 2, 5, 15)  # seconds for each target
DEFAULT = 5
MAX_PROPOSALS = 20


def show_start(sheet: Sheet, *, file: str, column: int) -> str:
    """Draw the settings and the button that starts the job; return the chosen model, empty if none can plan."""
    if not all(map(extras.is_installed, ("syntheseus", "apted"))):
        st.info(f"Planning needs two more packages: `{extras.install_command('plan')}`, then start the app again.")
        return ""
    from chemspec.plan.workers import choose_workers  # slow import

    total = len(sheet.rows)
    with st.expander("Options"):
        model = st.selectbox("Model", queued_engine.model_names("retro"), key="batch_model_routes")
        n = int(st.number_input("Proposals for a molecule", 1, MAX_PROPOSALS, 10, key="batch_n_routes"))
    stock_menu.show_stock_menu()
    times = [seconds for seconds in TIMES if not jobs.planning_problem(total, seconds)]
    if not times:
        st.error(job_view.as_sentence(jobs.planning_problem(total, TIMES[0])))
        return model
    within = widgets.segmented_choice(
        "Time for each target",
        times,
        default=DEFAULT if DEFAULT in times else times[-1],
        format_func="{} s".format,
        help="The best routes that are found by then. On a busy computer less is found in the same time.",
        key=f"batch_within_{len(times)}",
    )
    st.caption(f"{_in_words(total * within / choose_workers(total))} at most. Jobs run one after the other.")
    lists, uploaded = stock_menu.visitor_lists()
    if not lists and not uploaded:
        st.warning("No building-block stock selected. Choose a list or upload your own.")
        return model
    if st.button(f"Plan {total:,} target{'s' * (total != 1)}", type="primary", width="stretch", key="batch_start"):
        settings = DecodeSettings(n=n)
        job_form.start_job(
            sheet, file=file, column=column, model=model, task="retro", settings=settings, cards=1, within=float(within)
        )
    return model


def _in_words(seconds: float) -> str:
    """Return a time for people, rounded up."""
    minutes = max(1, -int(-seconds // 60))
    if minutes > 90:
        return f"About {minutes / 60:.1f} hours"
    return f"About {minutes} minute{'s' * (minutes > 1)}"
