"""How it works: short explanations with pictures, the wall-time model to play with, definitions, papers, questions."""

import streamlit as st

from chemspec.metrics import speed_numbers
from chemspec.ui.common import nav, queued_engine, widgets
from chemspec.ui.learn import lesson_figures, lessons, walltime
from chemspec.ui.models import cards


def show_idea() -> None:
    """Draw the part Idea: texts with pictures of recorded runs."""
    for number, ((title, text), draw) in enumerate(
        zip(lessons.text_sections("idea"), lesson_figures.IDEA, strict=True), 1
    ):
        st.subheader(f"{number}  {title}")
        wide = draw is lesson_figures.draw_storyboard
        words, picture = (st.container(), st.container()) if wide else st.columns([5, 7], gap="medium")
        words.markdown(lessons.fill_numbers(text))
        with picture:
            draw()
        if wide and st.button("Step through this example", key="learn_step"):
            nav.open_page("step", task="forward", smi=lessons.recorded_example("boc-copy").query)


def show_speedup() -> None:
    """Draw the part Speed-up: the wall-time model with sliders."""
    st.markdown(lessons.text_sections("faster")[0][1])
    names = [card.name for card in cards.list_model_cards() if not card.problem]
    left, right = st.columns([2, 3], gap="large")
    with left:
        alpha = st.slider("α: probability that a drafted token is accepted", 0.0, 0.99, 0.8, 0.01)
        gamma = st.slider("γ: tokens in a draft", 0, walltime.MAX_GAMMA, 5)
        c = st.slider("c: cost of drafting a token, in passes", 0.0, 1.0, 0.05, 0.01)
        measured = names and st.toggle("Wide passes cost what was measured on this machine")
        name = st.selectbox("Model", names) if measured else None
    cost = walltime.relative_cost(queued_engine.require_engine(name).cost()) if name else walltime.flat_cost
    best = walltime.best_gamma(alpha, c, cost)
    now, top = (walltime.expected_speedup(alpha, g, c, cost) for g in (gamma, best))
    with left:
        tokens = f"{walltime.expected_tokens(alpha, gamma):.2f}"
        gains = [(f"{now:.2f}×", f"as fast, γ = {gamma}"), (f"{top:.2f}×", f"at best, γ = {best}")]
        widgets.show_figures([(tokens, "tokens per pass"), *gains])
    text = lessons.describe_setting(alpha, gamma, c, cost)
    right.altair_chart(lesson_figures.speedup_chart(alpha, gamma, c, cost), alt=text)
    right.markdown(text)
    for title, body in lessons.text_sections("faster")[1:]:
        st.subheader(title)
        st.markdown(body)


COLUMNS = {
    "drafter": "drafter",
    "median_ms": st.column_config.NumberColumn("ms a query", format="%.2f"),
    "speedup": st.column_config.NumberColumn("times as fast", format="%.2f"),
    "passes_per_query": st.column_config.NumberColumn("passes", format="%.2f"),
    "calls_per_query": st.column_config.NumberColumn("own runs", format="%.2f"),
    "tokens_per_pass": st.column_config.NumberColumn("tokens a pass", format="%.2f"),
    "nodes_per_pass": st.column_config.NumberColumn("nodes a pass", format="%.2f"),
    "weights_mb": st.column_config.NumberColumn("own weights, MB", format="%.1f"),
}
KINDS = {"greedy B=1": "Greedy, one query", "greedy B=32": "Greedy, 32 queries at once", "beam 5": "Beam of 5"}


def show_drafters() -> None:
    """Draw the part Drafters: what they do and what was measured."""
    for title, text in lessons.text_sections("drafters"):
        st.subheader(title)
        st.markdown(text)
    st.subheader("Measured")
    report = lessons.papers_report()
    if not report:
        st.info("No comparison is stored here; `chemspec bench papers` makes one.")
        return
    with st.container(horizontal=True):
        task = widgets.segmented_choice("Task", ("retro", "forward"), key="learn_task")
        kind = widgets.segmented_choice("Decoding", KINDS, key="learn_kind", format_func=KINDS.__getitem__)
    rows = lessons.drafter_rows(task, kind)
    st.dataframe(rows, hide_index=True, column_order=list(COLUMNS), column_config=COLUMNS)
    machine = report["machine"]
    st.caption(
        f"Medians over {rows[0]['queries']} {report.get('queries', 'queries')}, recorded {machine['date']} on "
        f"{machine['cpu']}, {machine['threads']} threads, by "
        "`chemspec bench papers`. The answers of all rows are the same."
    )


def show_counts() -> None:
    """Draw the part Figures: what is counted, and the glossary."""
    st.subheader("Every figure")
    st.markdown(
        "Counts come from the trace of an answer; every rate follows from them. "
        "The last column is the worked example of the part *Idea*."
    )
    st.markdown(lesson_figures.definitions_table(speed_numbers([lessons.recorded_example("boc-copy").trace])))
    st.subheader("Words")
    st.markdown(lessons.read_text("glossary"))


def show_papers() -> None:
    """Draw the part Papers: the papers, and questions."""
    for title, text in lessons.text_sections("papers"):
        st.subheader(title)
        st.markdown(text)
    st.subheader("Questions")
    for title, text in lessons.text_sections("faq"):
        st.expander(title).markdown(text)


def draw_page() -> None:
    """Draw the page."""
    st.title("How it works")
    st.markdown(
        "How a model writes molecules, why that is slow, and how drafts speed it up without changing the answer. "
        "Every example is a recorded run of a shipped model."
    )
    PARTS[widgets.segmented_choice("Part", PARTS, key="part", bind="query-params", hidden=True)]()


PARTS = {
    "Idea": show_idea,
    "Speed-up": show_speedup,
    "Drafters": show_drafters,
    "Figures": show_counts,
    "Papers": show_papers,
}
nav.run_page(draw_page)
