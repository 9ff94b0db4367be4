"""How it works: one answer explained as a scroll, charts of measurements, drafters, words, papers, questions."""

import streamlit as st

from chemspec.ui.common import escaping, nav, widgets
from chemspec.ui.learn import lessons, story


def show_idea() -> None:
    """Draw the part Idea: the scroll of an answer, what it leaves out, and measurements."""
    if current := story.choose_story():
        story.show_story(current)
    st.subheader("What this leaves out")
    sections = lessons.text_sections("then")
    for column, (title, text) in zip(st.columns(2, gap="medium") * 2, sections, strict=True):
        with column.container(border=True):
            st.markdown(f"**{title}**\n\n{text}")
    show_charts()


def show_charts() -> None:
    """Draw the two charts of measurements, each with its table."""
    st.subheader("Measured")
    charts = (
        ("Latency against throughput", "latency", lessons.latency_chart, lessons.describe_latency),
        ("Speed-up by query", "speedups", lessons.speedup_chart, lessons.describe_speedups),
    )
    for column, (title, name, draw, describe) in zip(st.columns(2, gap="large"), charts, strict=True):
        with column:
            st.markdown(f"**{title}**")
            st.altair_chart(draw(), alt=f"{title}. {describe()}")
            st.caption(escaping.plain_text(describe()))
            with st.expander("Table"):
                st.dataframe(lessons.read_table(name), hide_index=True, alt=title)
                st.caption(lessons.table_note(name))


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
    PARTS[widgets.segmented_choice("Part", PARTS, key="part", bind="query-params", hidden=True)]()


PARTS = {"Idea": show_idea, "Drafters": show_drafters, "Words": show_words, "Papers": show_papers}
nav.run_page(draw_page)
