"""The answers to a question: predicted with progress, drawn as cards, shared as files; and how the searches went."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any
from urllib.parse import urlencode

import streamlit as st

from chemspec.chem import formats
from chemspec.depict.molecules import Depiction, svg_size
from chemspec.depict.schemes import Side
from chemspec.engine.engine import Engine
from chemspec.io import spreadsheets
from chemspec.replay.savings import describe_savings, sum_savings, summary_line
from chemspec.review.review import MAX_CHECKED
from chemspec.review.selectivity import Selectivity, find_selectivity
from chemspec.review.suggestions import Suggestion, doubt_warning, format_percent, recorded_rank
from chemspec.settings import DecodeSettings
from chemspec.types import DecodeResult, to_json
from chemspec.ui.collect import collections_view
from chemspec.ui.collect.answers import SavedAnswer
from chemspec.ui.common import asked_text, nav, query_box, queued_engine, scheme, theme
from chemspec.ui.common.escaping import Html, join, plain_text, tag
from chemspec.ui.common.login import is_local_only
from chemspec.ui.common.web_files import web_file
from chemspec.ui.predict import arguing, details, query_panel, query_view, reviewing, token_origins
from chemspec.ui.predict.details import (
    Answer,
    answer_record,
    card_drawing,
    card_footer,
    card_header,
    download_button,
    precedents_footnote,
)
from chemspec.ui.predict.options import SEARCH_NOTES
from chemspec.ui.predict.query_panel import Question
from chemspec.ui.predict.token_origins import Picture, card_of_greedy_answer, greedy_settings

CSS = web_file("answers.css")
FOOTNOTE = {
    "forward": "Percentages: calibrated probability that the product is correct, measured on validation reactions. "
    "Temperature, time and equivalents are not read. "
    "Shaded: atoms that change; bold: bonds that are made; both are inferred by comparing structures.",
    "retro": "Percentages: how often predictions with this score matched the recorded patent route, all similar "
    "answers of the card (under More) together; other routes may work equally well. ✓ or ⚠: whether the forward model "
    f"predicts the target from these precursors, with or without reagents; the likeliest {MAX_CHECKED} cards are "
    "checked, and unconfirmed answers are ranked as if five times less likely. "
    "Class, shading and bold bonds are inferred by comparing structures.",
}
VIEWS = {**details.VIEWS, "I think …": arguing.show_own_answer}
SURE = 0.985  # probability of the first answer from which the others are folded
MIN_PROBABILITY = 0.01  # probability below which all other answers are folded, too
SITE = "#56B4E9"  # behind the atoms that get the new bond
SCALE = 1.35  # scale of the drawing with percentages, so that its numbers are as large as the text next to it


def predict_with_progress(
    model: Engine, question: Question, slot: Any
) -> tuple[DecodeResult, DecodeResult | None] | None:
    """Predict, with progress and a stop button in `slot` if it takes a moment; None if the visitor stopped.

    Also returns the greedy answer, whose passes a card shows; the slot shows it until the caller empties it.
    """
    if st.session_state.get("predict_stopped") == question:
        st.info("Stopped. Submit the query again to restart.")
        return None
    greedy = token_origins.greedy_settings(question.settings)
    first: DecodeResult | None = None
    drawn: list[Any] = []  # the line of progress, and until it is filled the container of the first answer

    def report(text: str) -> None:
        if not drawn:
            with slot.container():
                with st.container(horizontal=True, vertical_alignment="center"):
                    drawn.append(st.empty())
                    stop = partial(st.session_state.update, predict_stopped=question)
                    st.button("Stop", key="predict_stop", on_click=stop)
                drawn.append(st.empty())
                drawn[-1].skeleton(height=240)
        if first and len(drawn) == 2:
            _preview_answer(question, first, drawn.pop())
        drawn[0].caption(text)

    if greedy:
        first = queued_engine.cached_prediction(model, question.smiles, greedy, report=report)
    if first and greedy == question.settings:
        result = first
    else:
        result = queued_engine.cached_prediction(model, question.smiles, question.settings, report=report)
    return result, first


def _preview_answer(question: Question, first: DecodeResult, slot: Any) -> None:
    cards = reviewing.review_answers(replace(question, cards=1), first, described=1, models=False).suggestions
    if picture := token_origins.picture_of_greedy(first, cards):
        with slot.container():
            st.html("<h2>The first answer; alternatives follow</h2>")
            show_still_card(question, cards[0], picture)


def answers_heading(question: Question, cards: Sequence[Suggestion]) -> str:
    """Return how many answers there are, in words."""
    count = len(cards)
    if question.task == "forward":
        count = min(question.cards, count)
        return f"{count} product{'s' * (count != 1)}"
    answers = sum(len(card.members) for card in cards)
    strategies = f"{count} strateg{'y' if count == 1 else 'ies'}"
    return strategies if answers == count else f"{strategies}, {answers} sets of precursors"


def show_answers(
    question: Question, result: DecodeResult, cards: Sequence[Suggestion], first: DecodeResult | None
) -> None:
    """Draw warnings, cards, and the predictions left out; the card of the greedy answer `first` shows its passes."""
    shown = list(cards[: question.cards])
    picture = token_origins.picture_of_greedy(first, shown)
    if question.expected:
        reviewing.show_reaction_verdict(question, result, cards)
    if text := doubt_warning(question.task, question.smiles, result, shown):
        st.warning(plain_text(text), icon="⚠️")
    _show_repairs(shown)
    if notes := "; ".join(note for note in result.notes if not note.startswith(SEARCH_NOTES)):
        st.caption(plain_text(f"Note: {notes}."))
    if (rank := recorded_rank(shown) or 1) > 1:
        st.info(f"A patent records answer {rank} for this very query.")
    query_view.show_guide_effect(result, question.smiles)
    for choice in find_selectivity(question.smiles, cards):
        show_selectivity(choice)
    recorded = recorded_rank(shown) or 1
    fold = len(shown) > 1 and recorded == 1 and not question.expected and are_noise(shown)
    with card_container(str(shown[0].rank)) if shown else nullcontext():
        if shown:
            show_card(question, shown[0], cards, picture, wide=True)
    _show_next_step(question, shown)
    with st.expander(f"{len(shown) - 1} less probable answers", key="predict_fold") if fold else st.container():
        _show_further_cards(question, shown[1:], cards, picture)
    if more := len(cards) - len(shown):
        show_all = query_panel.show_more_cards
        st.button(f"Show {more} more", key="predict_more", type="tertiary", on_click=show_all, args=(len(cards),))
    if omitted := result.distinct.omitted if result.distinct else ():
        texts = plain_text(", ".join(answer.smiles for answer in omitted))
        st.caption(f"Left out, as already in the query or not a molecule: {texts}.")
    st.caption(f"{FOOTNOTE[question.task]} {precedents_footnote()}")


def are_noise(shown: Sequence[Suggestion]) -> bool:
    """Return whether all cards but the first are too improbable to look at, and none is sounder than the first."""
    first, *others = shown
    if first.problems and any(len(card.problems) < len(first.problems) for card in others):
        return False
    return first.probability >= SURE or (
        first.probability > 0.5 and all(card.probability < MIN_PROBABILITY for card in others)
    )


def _show_further_cards(
    question: Question, shown: Sequence[Suggestion], cards: Sequence[Suggestion], picture: Picture | None
) -> None:
    """Draw the cards after the first: of a retro question one below the other, of products in two columns."""
    if question.task == "retro":
        for card in shown:
            with card_container(str(card.rank)):
                show_card(question, card, cards, picture, wide=True)
        return
    for start in range(0, len(shown), 2):
        for column, card in zip(st.columns(2, gap="small"), shown[start : start + 2], strict=False):
            with column, card_container(str(card.rank), height="stretch"):
                show_card(question, card, cards, picture, wide=False)


def _show_repairs(shown: Sequence[Suggestion]) -> None:
    """Draw what solvents do to the reagents of a flask, before any product, with a button for each repaired flask."""
    repairs = shown[0].flask_report.repairs if shown else ()
    if not repairs:
        return
    with st.container(key="predict_flask"):
        report = shown[0].flask_report
        lines = [sentence[:1].upper() + sentence[1:] for sentence, _, _ in repairs]
        show = st.info if all(sentence in report.remarks for sentence, _, _ in repairs) else st.warning
        show(plain_text(f"This flask: {'. '.join(lines)}."), icon="⚠️" if show is st.warning else None)
        with st.container(horizontal=True, gap="small"):
            for number, (words, flask) in enumerate(dict.fromkeys((words, flask) for _, words, flask in repairs)):
                key, put = f"predict_repair_{number}", query_panel.submit_text
                st.button(f"Try {words}", key=key, on_click=put, args=(flask, "forward"))


def _show_next_step(question: Question, shown: Sequence[Suggestion]) -> None:
    """Draw a button that predicts the next of several steps, with the first product of this one."""
    if not question.steps or not shown:
        return
    flask = "; ".join((shown[0].best.canonical, "; then ".join(question.steps)))
    words = plain_text(f"Next step: this product with {question.steps[0]}")
    st.button(words, key="predict_next_step", on_click=query_panel.submit_text, args=(flask, "forward"))


def show_selectivity(choice: Selectivity) -> None:
    """Draw a reactant with its percentages at the atoms that compete for the new bond."""
    sites = choice.shown
    drawing = Depiction(
        choice.reactant,
        dark=theme.is_dark(),
        fills=tuple((atom, SITE) for site in sites for atom in site.equivalent),
        labels=tuple((site.atom, format_percent(site.probability)) for site in sites),
    )
    width = f"{SCALE * svg_size(drawing.svg)[0]:.0f}" if drawing.svg else ""
    alt = f"Drawing with percentages at its atoms: {choice.text}"
    rows = [
        f"**{format_percent(site.probability)}** answer{'s' * (len(site.ranks) > 1)} {', '.join(map(str, site.ranks))}"
        for site in sites
    ]
    same = " Atoms that are alike share one percentage." if any(len(site.equivalent) > 1 for site in sites) else ""
    name = f"predict_site_{sites[0].atom}_card"
    with st.container(border=True, horizontal=True, vertical_alignment="center", key=name):
        st.html(scheme.picture_html(drawing.data_uri, alt, width=width) or join(choice.reactant), width="content")
        text = f"{choice.meaning[:1].upper()}{choice.meaning[1:]}.{same}"
        st.caption(f"**Where the model puts the new bond:** {', '.join(rows)}\n\n{text}", width="stretch")


def card_container(name: str, **options: Any) -> Any:
    """Return the frame of a card."""
    return st.container(border=True, gap=None, key=f"predict_{name}_card", **options)


@st.fragment
def show_card(
    question: Question, card: Suggestion, cards: Sequence[Suggestion], picture: Picture | None, *, wide: bool
) -> None:
    """Draw a card, and the detail of it that the visitor chose; choosing another draws this card alone again."""
    name, best = f"predict_{card.rank}", card.best
    own_picture = picture if picture and picture.rank == card.rank else None
    st.html(join(card_header(question, card), card_drawing(question, card, wide=wide)))
    view = None
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key=f"{name}_foot"):
        st.caption(card_footer(question, card), width="stretch")
        if best.valid:
            if st.button("Save", key=f"{name}_save", type="tertiary"):
                answer = SavedAnswer(
                    question="",
                    task=card.task,
                    model=question.model,
                    query=question.smiles,
                    answer=best.canonical,
                    label=card.name,
                    chance=card.probability,
                )
                collections_view.save_dialog(answer)
            view = st.segmented_control(
                "Details",
                [label for label in VIEWS if own_picture or label != "Copied atoms"],
                key=f"{name}_{question.key}_details",
                label_visibility="collapsed",
            )
    by_rule = (card.step.lawful or card.step.completed) if card.task == "forward" and card.step else ""
    if by_rule and all(by_rule != other.best.canonical for other in cards):
        st.html(scheme_of_lawful(by_rule))
    if own_picture:
        with st.container(horizontal=True, gap=None, key=f"{name}_text"):
            st.html(token_origins.runs_html(own_picture.view), width="stretch")
            st.code(own_picture.canonical, language=None, width="content")
        st.html(token_origins.passes_line(own_picture))
    else:
        st.code(best.canonical or best.smiles, language=None)
    if view:
        with st.container(gap="small", key=f"{name}_view"):
            VIEWS[view](Answer(question, card, cards, own_picture, f"{name}_{question.key}"))


def scheme_of_lawful(smiles: str) -> Html:
    """Return the drawn isomer that the law of a reaction gives, as safe HTML."""
    words = tag("p.cs-hint", f"By rule, not by the model: {smiles}")
    return tag("div.cs-scheme.cs-tight", scheme.side_html(Side(smiles)), words)


def show_still_card(question: Question, card: Suggestion, picture: Picture | None) -> None:
    """Draw a card with nothing to click; for previews and examples."""
    own_picture = picture if picture and picture.rank == card.rank else None
    with card_container(f"still_{card.rank}"):
        st.html(join(card_header(question, card), card_drawing(question, card, wide=True)))
        st.caption(card_footer(question, card))
        if own_picture:
            line = token_origins.passes_line(own_picture, legend=True)
            st.html(join(token_origins.runs_html(own_picture.view), line))


@st.dialog("Save or share")
def share_dialog(question: Question, result: DecodeResult) -> None:
    """Show the question as a text, and the files of all answers, with proposed reagents, too."""
    query = question.model, question.task, question.text
    asked_text.show_text(asked_text.prediction_text(*query, question.cards, question.settings))
    if not is_local_only():  # elsewhere the address of this machine leads nowhere
        st.caption("A link to it, for those who can reach this server")
        st.code(f"{(st.context.url or '').split('?')[0]}?{urlencode(question.link)}", language=None, wrap_lines=True)
    cards = reviewing.review_answers(question, result).suggestions
    if question.task == "retro":
        reactions = [card.reaction for card in cards[:MAX_CHECKED] if card.best.valid]
        reviewing.session_checker().propose(reactions)
        cards = reviewing.review_answers(question, result).suggestions
    rows = [answer_record(card) for card in cards if card.best.valid]
    with st.container(horizontal=True, gap="small"):
        download_button("CSV", spreadsheets.rows_to_csv(rows), "answers.csv", "text/csv")
        download_button("XLSX", spreadsheets.rows_to_xlsx(rows), "answers.xlsx", spreadsheets.MIME)
        download_button("SDF", formats.to_sdf(rows), "answers.sdf", "chemical/x-mdl-sdfile")
        download_button("JSON, with every pass", to_json(result), "answers.json", "application/json")


def show_title(question: Question, result: DecodeResult, cards: Sequence[Suggestion]) -> None:
    """Draw how many answers there are, and the button that shares them."""
    with st.container(horizontal=True, vertical_alignment="center", key="predict_title"):
        st.html(tag("div", tag("h2", answers_heading(question, cards)), role="status"), width="stretch")
        if st.button("Save or share", key="predict_share", type="tertiary"):
            share_dialog(question, result)


def show_searches(
    question: Question, result: DecodeResult, first: DecodeResult | None, cards: Sequence[Suggestion]
) -> None:
    """Draw a line on the forward passes of each search and of the page, and buttons for How it works."""
    shown = card_of_greedy_answer(first, cards[: question.cards])
    lines = [f"**{_search_name(result)}:** {plain_text(summary_line(result, terminal=False))}."]
    earlier = [] if first is None or first is result else [first]  # where the search is greedy, it is the same
    if first and earlier and first.status == "ok":
        other = "" if shown else " It gives another first prediction than the beam, so no card shows its passes."
        lines.insert(0, f"**First answer, greedy:** {plain_text(summary_line(first, terminal=False))}.{other}")
    if question.task == "retro":
        total = sum_savings([*earlier, result])
        total += reviewing.session_checker().savings(card.reaction for card in cards)
        words = plain_text(describe_savings(total, queries="the queries"))
        lines.append(f"**All searches of this page, forward checks and proposed reagents included:** {words}.")
    with st.container(horizontal=True, vertical_alignment="top", gap="small", key="predict_speed"):
        st.caption("  \n".join(lines), width="stretch")
        search = displayed_search(question, result, first if shown else None)
        if st.button("Race it", key="predict_measure", type="tertiary"):
            from chemspec.ui.speed.race_page import race_against_standard  # its pictures take a while to import

            race_against_standard(search)
            nav.open_page("learn", depth="speed", task=question.model, smi=question.smiles)
        if st.button("How it was written", key="predict_story", type="tertiary"):
            nav.open_page("learn", task=question.model, smi=question.smiles)
        stepped = search.decoder in query_box.STEPPED_DECODERS and search.n <= query_box.MAX_STEPPED_BEAM
        if stepped and st.button("Step through", key="predict_step", type="tertiary"):
            parameters = {"decoder": search.decoder, "n": str(search.n), "drafts": search.drafter}
            nav.open_page("learn", depth="step", task=question.model, smi=question.smiles, **parameters)


def _search_name(result: DecodeResult) -> str:
    decoder = str(result.trace.settings.get("decoder", "beam"))
    widths = result.distinct.widths if result.distinct else (int(result.trace.settings.get("n", 1)),)
    return f"Beam of {', then '.join(map(str, widths))}" if decoder == "beam" else decoder.capitalize()


def displayed_search(question: Question, result: DecodeResult, first: DecodeResult | None) -> DecodeSettings:
    """Return the search for the depths Speed and Step through: the greedy one if a card shows it, else the beam."""
    if first is not None and (search := greedy_settings(question.settings)):
        return search
    width = result.distinct.widths[-1] if result.distinct else question.settings.n
    return replace(question.settings, n=width)
