"""How it works: an answer in three depths, charts of measurements, drafters, words, papers, questions."""

import streamlit as st

from chemspec.ui.common import escaping, nav, queued_engine, widgets
from chemspec.ui.learn import lessons, question, story


def show_idea() -> None:
    """Draw the part Idea: an answer in three depths, what the scroll leaves out, and measurements.

    A depth is imported and drawn where it is open.
    """
    chosen = question.choose_question(queued_engine.model_names())
    for name, heading in question.DEPTHS.items():
        depth = st.expander(heading, key=f"learn_{name}", on_change="rerun")
        if depth.open:
            with depth:
                show_depth(name, chosen)
    if not st.session_state.learn_idea:
        return
    st.subheader("What this leaves out")
    sections = lessons.text_sections("then")
    for column, (title, text) in zip(st.columns(2, gap="medium") * 2, sections, strict=True):
        with column.container(border=True):
            st.markdown(f"**{title}**\n\n{text}")
    show_charts()


def show_depth(name: str, chosen: question.Asked | None) -> None:
    """Draw one depth of what was asked, or of the recorded example."""
    if name == "idea":
        story.show_story(chosen)
        return
    if chosen is None and story.recorded_story().model not in queued_engine.model_names():
        st.info("No model is installed yet. The page Models says how to add one.")
        return
    model, query = chosen or story.recorded_story().asked
    if name == "step":
        from chemspec.ui.step import passes, search_form

        search_form.show_examples(question.set_question, query)
        passes.show_passes(model, query, search_form.choose_search(model, question.write_search))
    else:
        from chemspec.ui.speed import race_page

        race_page.show_race_page(queued_engine.require_engine(model), query)


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
    # The default is given each time: a script that runs again before its end would leave the control without a choice.
    PARTS[widgets.segmented_choice("Part", PARTS, key="part", bind="query-params", hidden=True, default="Idea")]()


PARTS = {"Idea": show_idea, "Drafters": show_drafters, "Words": show_words, "Papers": show_papers}
nav.run_page(draw_page)
