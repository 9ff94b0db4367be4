"""How it works: short explanations with pictures, the wall-time model to play with, definitions, papers, questions."""

import streamlit as st

from chemspec.metrics import speed_numbers
from chemspec.ui.common import nav, queued_engine, widgets
from chemspec.ui.learn import curves, lesson_figures, lessons, walltime
from chemspec.ui.models import cards


def idea() -> None:
    """Draw the part Idea: texts beside pictures of recorded runs."""
    for number, ((title, text), draw) in enumerate(zip(lessons.sections("idea"), lesson_figures.IDEA, strict=True), 1):
        st.subheader(f"{number}  {title}")
        wide = draw is lesson_figures.storyboard
        words, picture = (st.container(), st.container()) if wide else st.columns([5, 7], gap="medium")
        words.markdown(lessons.filled(text))
        with picture:
            draw()
        if wide and st.button("Step through this example", key="learn_step"):
            nav.go("step", task="forward", smi=lessons.example("boc-copy").query)


def faster() -> None:
    """Draw the part Speed-up: the wall-time model with sliders."""
    st.markdown(lessons.sections("faster")[0][1])
    names = [card.name for card in cards.cards() if not card.problem]
    left, right = st.columns([2, 3], gap="large")
    with left:
        alpha = st.slider("α: chance that a drafted token is right", 0.0, 0.99, 0.8, 0.01)
        gamma = st.slider("γ: tokens in a draft", 0, walltime.MOST, 5)
        c = st.slider("c: cost of drafting a token, in passes", 0.0, 1.0, 0.05, 0.01)
        measured = names and st.toggle("Wide passes cost what was measured on this machine")
        name = st.selectbox("Model", names) if measured else None
    cost = walltime.relative(queued_engine.need(name, here=True).cost()) if name else walltime.flat
    best = walltime.best_gamma(alpha, c, cost)
    now, top = (walltime.improvement(alpha, g, c, cost) for g in (gamma, best))
    with left:
        tokens = f"{walltime.expected_tokens(alpha, gamma):.2f}"
        gains = [(f"{now:.2f}×", f"as fast, γ = {gamma}"), (f"{top:.2f}×", f"at best, γ = {best}")]
        widgets.figures([(tokens, "tokens per pass"), *gains])
    text = lessons.verdict(alpha, gamma, c, cost)
    right.altair_chart(curves.gain(alpha, gamma, c, cost), alt=text)
    right.markdown(text)
    for title, body in lessons.sections("faster")[1:]:
        st.subheader(title)
        words, chart = st.columns([2, 3], gap="large")
        words.markdown(body)
        chart.altair_chart(curves.optimum(c, cost), alt="The best draft length rises with α and falls with c.")


KINDS = {"greedy B=1": "Greedy, one query", "greedy B=32": "Greedy, 32 queries at once", "beam 5": "Beam of 5"}


def drafters() -> None:
    """Draw the part Drafters: what they do and what was measured."""
    for title, text in lessons.sections("drafters"):
        st.subheader(title)
        st.markdown(text)
    st.subheader("Measured")
    report = lessons.measured()
    if not report:
        st.info("No comparison is stored here; `chemspec bench papers` makes one.")
        return
    with st.container(horizontal=True):
        task = widgets.choice("Task", ("retro", "forward"), key="learn_task")
        kind = widgets.choice("Decoding", KINDS, key="learn_kind", format_func=KINDS.__getitem__)
    rows = lessons.compared(task, kind)
    st.altair_chart(
        curves.drafters(rows), alt="; ".join(f"{row['drafter']}: {row['median_ms']:.1f} ms" for row in rows)
    )
    st.dataframe(lessons.table(rows), hide_index=True)
    machine = report["machine"]
    st.caption(
        f"Medians over {rows[0]['queries']} {report.get('queries', 'queries')}, recorded {machine['date']} on "
        f"{machine['cpu']}, {machine['threads']} threads, by "
        "`chemspec bench papers`. The answers of all rows are the same."
    )


def figures() -> None:
    """Draw the part Figures: what is counted, and the glossary."""
    words, picture = st.columns([5, 7], gap="medium")
    words.markdown("Everything is counted in passes like this one. Times are measured beside it.")
    with picture:
        lesson_figures.one_pass()
    st.subheader("Every figure")
    st.markdown(
        "Counts come from the trace of an answer; every rate follows from them. "
        "The last column is the worked example of the part *Idea*."
    )
    st.markdown(lesson_figures.definitions(speed_numbers([lessons.example("boc-copy").trace])))
    st.subheader("Words")
    st.markdown(lessons.page("glossary"))


def papers() -> None:
    """Draw the part Papers: published speed-ups, papers, questions."""
    st.altair_chart(curves.published(), alt="Speed-ups of the papers, from 0.45 to 5.1 times")
    st.caption("As published: other models, machines and baselines; not to be compared with each other.")
    for title, text in lessons.sections("papers"):
        st.subheader(title)
        st.markdown(text)
    st.subheader("Questions")
    for title, text in lessons.sections("faq"):
        st.expander(title).markdown(text)


def body() -> None:
    """Draw the page."""
    st.title("How it works")
    st.markdown(
        "How a model writes molecules, why that is slow, and how drafts speed it up without changing the answer. "
        "Every example is a recorded run of a shipped model."
    )
    PARTS[widgets.choice("Part", PARTS, key="part", bind="query-params", hidden=True)]()


PARTS = {"Idea": idea, "Speed-up": faster, "Drafters": drafters, "Figures": figures, "Papers": papers}
nav.page(body)
