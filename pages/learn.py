"""How it works: short explanations with pictures, the wall-time model to play with, words, papers, questions."""

import streamlit as st

from chemspec.draft.learned.gamma import best_draft_length, expected_tokens, wall_time_improvement
from chemspec.ui.common import nav, widgets
from chemspec.ui.learn import lessons


def show_idea() -> None:
    """Draw the part Idea: texts with pictures of recorded runs."""
    for number, ((title, text), draw) in enumerate(zip(lessons.text_sections("idea"), lessons.IDEA, strict=True), 1):
        st.subheader(f"{number}  {title}")
        wide = draw is lessons.draw_storyboard
        words, picture = (st.container(), st.container()) if wide else st.columns([5, 7], gap="medium")
        explanation, _, table = text.partition("\n---\n")
        words.markdown(explanation)
        with picture:
            draw() if draw else st.markdown(table)
        if wide and st.button("Step through this example", key="learn_step"):
            nav.open_page("step", task="forward", smi=lessons.recorded_example("boc-copy").query)


def show_speedup() -> None:
    """Draw the part Speed-up: the wall-time model with sliders."""
    st.markdown(lessons.text_sections("faster")[0][1])
    left, right = st.columns([2, 3], gap="large")
    with left:
        alpha = st.slider("α: probability that a drafted token is accepted", 0.0, 0.99, 0.8, 0.01)
        gamma = st.slider("γ: tokens in a draft", 0, lessons.MAX_GAMMA, 5)
        c = st.slider("c: cost of drafting a token, in passes", 0.0, 1.0, 0.05, 0.01)
    best = best_draft_length(alpha, c, longest=lessons.MAX_GAMMA)
    now, top = (wall_time_improvement(alpha, g, c) for g in (gamma, best))
    with left:
        tokens = f"{expected_tokens(alpha, gamma):.2f}"
        gains = [(f"{now:.2f}×", f"as fast, γ = {gamma}"), (f"{top:.2f}×", f"at best, γ = {best}")]
        for column, (value, label) in zip(st.columns(3), [(tokens, "tokens per pass"), *gains], strict=True):
            column.metric(label, value)
    text = f"Speed-up by the length of drafts: {now:.2f} times at {gamma} tokens, at best {top:.2f} times at {best}."
    gains_by_length = [wall_time_improvement(alpha, length, c) for length in range(lessons.MAX_GAMMA + 1)]
    rows = [{"γ": length, "with drafts": gain, "without drafts": 1} for length, gain in enumerate(gains_by_length)]
    right.line_chart(rows, x="γ", x_label="draft length γ", y_label="times as fast as standard", height=340, alt=text)
    for title, body in lessons.text_sections("faster")[1:]:
        st.subheader(title)
        st.markdown(body)


def show_drafters() -> None:
    """Draw the part Drafters: what they do and which to take."""
    for title, text in lessons.text_sections("drafters"):
        st.subheader(title)
        st.markdown(text)


def show_words() -> None:
    """Draw the part Words: the glossary."""
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
    "Words": show_words,
    "Papers": show_papers,
}
nav.run_page(draw_page)
