"""Draw cards: scheme, probability, problems, and actions."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from html import escape
from math import exp
from typing import Any
from urllib.parse import urlencode

import streamlit as st

from chemspec import chem
from chemspec.chem import formats
from chemspec.chem.flask_check import missing_or_conflicting
from chemspec.chem.hazards import hazards
from chemspec.chem.names import name_list
from chemspec.chem.names.short_names import split_drawn_and_named, without_subscripts
from chemspec.chem.salts import group_salts
from chemspec.chem.strategy import families, family_of
from chemspec.depict.schemes import Side, scheme_sides, scheme_to_cdxml, scheme_to_png, scheme_to_svg
from chemspec.io import spreadsheets
from chemspec.plan.stock import all_marks
from chemspec.review.selectivity import find_selectivity
from chemspec.review.suggestions import (
    PROPOSED_BY_MODEL,
    Suggestion,
    answer_probability,
    confidence_word,
    describe_check,
    doubt_warning,
    format_percent,
    recorded_rank,
    spoils_stereo,
)
from chemspec.types import DecodeResult, Hypothesis, to_json
from chemspec.ui.collect import collections_view
from chemspec.ui.collect.answers import SavedAnswer
from chemspec.ui.common import escaping, scheme
from chemspec.ui.common.web_files import web_file
from chemspec.ui.predict import (
    hesitation_view,
    precedents,
    query_panel,
    query_view,
    reviewing,
    selectivity_view,
    token_origins,
    view3d,
)
from chemspec.ui.predict.token_origins import Picture

CSS = web_file("answers.css")
FOOTNOTE = {
    "forward": "Percentages: calibrated probability that the product is correct, measured on validation reactions. "
    "Temperature, time and equivalents are not read. "
    "Shaded: atoms that change; bold: bonds that are made; both are inferred by comparing structures.",
    "retro": "Percentages: how often predictions with this score matched the recorded patent route; other routes may "
    "work equally well. ✓ or ⚠: whether the forward model predicts the target from these precursors, with or without "
    "reagents; unconfirmed answers are ranked as if five times less likely. Class, shading and bold bonds are inferred "
    "by comparing structures.",
}
LONGEST_NAME = 32  # characters below a drawing
SMALLEST = 4  # characters of a molecule worth asking about next

# --- drawing -------------------------------------------------------------------------------------


def show_answers(
    question: query_panel.Question,
    result: DecodeResult,
    cards: Sequence[Suggestion],
    first: DecodeResult | None = None,
    *,
    still: bool = False,
) -> None:
    """Draw warning, cards, and the predictions left out.

    Args:
        question: what was asked.
        result: the answer.
        cards: the answers as cards.
        first: the first answer, decoded greedily: the card that has it shows its passes.
        still: without buttons; for an example.
    """
    shown = list(cards[: question.cards])
    drawn = token_origins.picture_of_greedy(first, shown)
    if question.expected:
        st.html(reviewing.reaction_banner(question, result))
    if text := doubt_warning(question.task, question.smiles, result, shown):
        st.html(f'<div class="cs-banner" role="alert">⚠ {escape(text)}</div>')
    if (rank := recorded_rank(shown) or 1) > 1:
        st.html(f'<div class="cs-banner" role="status">A patent records answer {rank} for this very query.</div>')
    if not still:
        query_view.show_guide_effect(result, question.smiles)
        selectivity_view.show_selectivity(find_selectivity(question.smiles, cards))
    wide = shown if question.task == "retro" else shown[:1]
    for card in wide:
        _show_card(question, card, cards, drawn, wide=True, still=still)
    rest = shown[len(wide) :]
    for start in range(0, len(rest), 2):
        for column, card in zip(st.columns(2, gap="small"), rest[start : start + 2], strict=False):
            with column:
                _show_card(question, card, cards, drawn, wide=False, still=still)
    if not still:
        _show_left_out(question, result, cards[question.cards :])
        st.caption(f"{FOOTNOTE[question.task]} {precedents.precedents_footnote()}")


def preview_answer(question: query_panel.Question, first: DecodeResult) -> None:
    """Draw the greedy prediction while the beam search is running."""
    cards = reviewing.review_unchecked(replace(question, cards=1), first).suggestions
    if drawn := token_origins.picture_of_greedy(first, cards):
        st.html("<h2>The first answer; alternatives follow</h2>")
        _show_card(replace(question, cards=1), cards[0], cards, drawn, wide=True, still=True)


def answers_heading(question: query_panel.Question, cards: Sequence[Suggestion]) -> str:
    """Return how many answers there are, in words."""
    count = min(question.cards, len(cards))
    if question.task == "forward":
        return f"{count} product{'s' * (count != 1)}"
    answers = sum(len(card.members) for card in cards[:count])
    strategies = f"{count} strateg{'y' if count == 1 else 'ies'}"
    return strategies if answers == count else f"{strategies}, {answers} answers"


def _show_card(
    question: query_panel.Question,
    card: Suggestion,
    cards: Sequence[Suggestion],
    drawn: Picture | None,
    *,
    wide: bool,
    still: bool,
) -> None:
    best, name = card.best, f"predict_{'still_' * still}{card.rank}"
    own_picture = drawn if drawn and drawn.rank == card.rank else None
    with st.container(border=True, gap=None, key=f"{name}_card", height="content" if wide else "stretch"):
        coloured = own_picture if still or token_origins.colours_enabled() else None
        st.html(card_header(question, card) + card_drawing(question, card, coloured, wide=wide))
        with _button_row(f"{name}_foot"):
            st.html(card_footer(question, card), width="stretch")
            if best.valid and not still:
                with _button_row(f"{name}_foot_buttons", width="content"):
                    _card_actions(question, card, cards, name)
        if own_picture:
            token_origins.show_picture(own_picture, question.task, name, still=still)
        elif not still:
            st.code(best.canonical or best.smiles, language=None)


def _button_row(key: str, **more: Any) -> Any:
    return st.container(horizontal=True, vertical_alignment="center", gap="small", key=key, **more)


def card_header(question: query_panel.Question, card: Suggestion) -> str:
    """Rank, class and chance, as safe HTML."""
    odds = card.probability
    calibrated = card.calibrated
    title = card.name if question.task == "retro" or card.step is None else card.step.name
    about = f' title="{escape(card.step.sentence, quote=True)}"' if card.step else ""
    if question.task == "retro":
        caption = "match the recorded route" if calibrated else "by the model, not measured"
    else:
        caption = (
            "by the model, not measured"
            if not calibrated
            else "if the flask were right"
            if missing_or_conflicting(question.smiles, card.best.canonical)
            else confidence_word(odds)
            if card.rank == 1 or odds > 0.3
            else "unlikely"
        )
    also = f'<span class="cs-also">{escape(card.also)}</span>' if card.also else ""
    also += reviewing.reaction_tag(question, card)
    listed = all_marks(card.stock) if question.task == "retro" and card.best.valid else ""
    listed = f'<span class="cs-ok">{listed}</span>' if listed else ""
    return (
        f'<header class="cs-head"><b class="cs-rank" tabindex="-1" aria-label="answer {card.rank}">{card.rank}</b>'
        f'<h3{about}>{escape(title)}</h3>{also}{listed}<span class="cs-odds">'
        f'<i class="cs-bar" style="--p:{100 * odds:.0f}%" aria-hidden="true"></i>'
        f"<b>{format_percent(odds)}</b> {caption}</span></header>"
    )


def card_drawing(
    question: query_panel.Question, card: Suggestion, coloured: Picture | None = None, *, wide: bool
) -> str:
    """The scheme of an answer, as safe HTML: of a retro answer its reactants, of further products the product.

    `coloured` puts the colours of the passes on the atoms.
    """
    best = card.best
    if not best.valid:
        return '<p class="cs-hint">There is nothing to draw.</p>'
    if question.task == "retro":
        left, _ = scheme_sides(best.canonical, question.smiles, card.step)
        arrow = _retro_arrow(*precedents.conditions_over_arrow(card))
        marks_on_atoms = token_origins.answer_colouring(coloured.view, best.canonical) if coloured else None
        inside = scheme.side_html(replace(left, labels=_precursor_captions(card), origins=marks_on_atoms))
        return f'<div class="cs-scheme cs-tight">{arrow}{inside}</div>'
    left, right = scheme_sides(question.smiles, best.canonical, card.step)
    if coloured:
        left = replace(left, origins=token_origins.query_colouring(coloured.view, question.smiles))
        right = replace(right, origins=token_origins.answer_colouring(coloured.view, best.canonical))
    if wide:
        return scheme.reaction_html(left, right, apart=True)
    return f'<div class="cs-scheme cs-tight">{scheme.side_html(right)}</div>'


def _precursor_captions(card: Suggestion) -> tuple[str, ...]:
    """Return for each precursor its name, if it has a common one, and below whether it can be bought."""
    parts = card.best.canonical.split(".")
    bought = card.stock or ("",) * len(parts)
    named = [""] * len(parts)
    for salt in group_salts(parts):
        name = name_list.name_in_list(str(chem.canonical(".".join(parts[ion] for ion in salt))))
        named[salt[0]] = name if len(name) <= LONGEST_NAME else ""
    return tuple(" · ".join(filter(None, both)) for both in zip(named, bought, strict=True))


def _retro_arrow(conditions: str, whose: str) -> str:
    if not conditions:
        return '<span class="cs-retro" aria-label="is made from">⇐</span>'
    return (
        f'<span class="cs-retro cs-given"><small>{escape(conditions)}</small>'
        f'<span aria-label="is made from">⇐</span><small>{escape(whose)}</small></span>'
    )


def card_footer(question: query_panel.Question, card: Suggestion) -> str:
    """What is wrong, what the forward model says, which reagents are usual, precedents; as safe HTML."""
    parts = []
    check = card.check
    wrong = card.problems
    for text in (words.removeprefix("the ") for words in wrong):
        if check and check.verdict == "differs" and check.product and text.startswith("forward model"):
            figure = scheme.side_html(Side(check.product))
            summary = f"⚠ {escape(text)} ({format_percent(check.probability)})"
            parts.append(f'<details class="cs-warn"><summary>{summary}</summary>{figure}</details>')
        else:
            parts.append(f'<span class="cs-warn">⚠ {escape(text)}</span>')
    if card.best.valid and (question.task == "retro" or card.rank == 1):  # of a flask once
        parts += [f'<span class="cs-warn">Hazard: {escape(sentence)}</span>' for sentence in hazards(*card.sides)]
    parts += [f"<span>{escape(note)}</span>" for note in card.notes]
    if check and check.confirmed:
        names = _reagent_names(check.added)
        given = f" with {names}" if names else " with the usual reagents" if check.added else ""
        shown = not check.added or check.added == card.reagents[0]  # over the arrow
        parts.append(
            f'<span class="cs-ok" title="Asked{escape(given or " with the reactants alone", quote=True)}">'
            f"✓ forward model agrees{'' if shown else escape(given)} ({format_percent(check.probability)})</span>"
        )
    if (
        question.task == "retro"
        and card.step
        and (names := _reagent_names(card.step.reagents))
        and not (check and check.added)
        and not precedents.conditions_over_arrow(card)[0]
    ):
        parts.append(f"<span>usual: {escape(names)}</span>")
    if (vote := card.best.vote) is not None:
        times = f"{vote.spellings} spelling{'s' * (vote.spellings > 1)} of the query gave it"
        parts.append(f"<span>{times}</span>")
    parts.append(precedents.precedents_line(card))
    return f'<div class="cs-foot">{"".join(parts)}</div>'


def _reagent_names(reagents: str) -> str:
    """Return reagents as chemists write them; empty unless all have a name."""
    if not reagents:
        return ""
    drawn, names = split_drawn_and_named([*reagents.split("."), "C" * 30])  # with a nameless one, or all are drawn
    return ", ".join(names) if len(drawn) == 1 else ""


def token_probabilities_html(answer: Hypothesis) -> str:
    """Return the answer token by token, each with its probability, as safe HTML."""
    cells = []
    for token, log_prob in zip((*answer.tokens, "end"), answer.token_log_probs, strict=False):
        odds = exp(log_prob)
        cells.append(
            f'<span class="cs-token" style="--doubt:{100 * (1 - odds):.0f}%"><b>{escape(token)}</b>'
            f"<i>{100 * odds:.0f}</i></span>"
        )
    return (
        f'<div class="cs-strip-tokens">{"".join(cells)}</div>'
        '<p class="cs-hint">Percent: the model\'s probability of each token after those before it. Darker: less '
        "sure.</p>"
    )


def _show_left_out(question: query_panel.Question, result: DecodeResult, more: Sequence[Suggestion]) -> None:
    """Show one line for what is not on the page."""
    if more:
        st.button(
            f"Show {len(more)} more",
            key="predict_more",
            type="tertiary",
            on_click=query_panel.show_more_cards,
            args=(question.cards + len(more),),
        )
    aside = result.distinct.aside if result.distinct else ()
    if aside:
        rows = "".join(
            f"<li><code>{escape(answer.smiles)}</code>: {'gives the query back' if answer.valid else 'no molecule'} "
            f"({format_percent(answer.probability)})</li>"
            for answer in aside
        )
        count = f"{len(aside)} answer{'s' * (len(aside) > 1)} left out: the query again, or no molecule"
        st.html(f'<details class="cs-aside"><summary>{count}</summary><ul>{rows}</ul></details>')


# --- what to do with an answer ---------------------------------------------------------------------


def _card_actions(question: query_panel.Question, card: Suggestion, cards: Sequence[Suggestion], name: str) -> None:
    parts = [part for part in dict.fromkeys(card.best.canonical.split(".")) if len(part) >= SMALLEST]
    menu = f"{name}_{question.key}"
    back = st.popover("Go back", on_change="rerun", key=f"{menu}_back", type="tertiary", help="Find precursors")
    if back.open:
        with back:
            for number, part in enumerate(parts):
                st.html(scheme.side_html(Side(part)))
                st.button(
                    "Find precursors",
                    key=f"{name}_next_{number}",
                    on_click=query_panel.submit_text,
                    args=(part, "retro"),
                    width="stretch",
                )
    near = st.popover(
        "Precedents",
        on_change="rerun",
        key=f"{menu}_near",
        type="tertiary",
        help="The nearest patent reactions and their conditions",
        width="content",
    )
    if near.open:
        with near:
            precedents.show_precedents(card, name)
    collections_view.show_save_popover(_saved_answer(question, card), key=f"{menu}_keep")
    hesitation_view.show_why_popover(question.model, question.smiles, card, cards, key=f"{menu}_why")
    more = st.popover("More", on_change="rerun", key=f"{menu}_more", type="tertiary")
    if more.open:
        with more:
            _more_details(question, card, name)


def _saved_answer(question: query_panel.Question, card: Suggestion) -> SavedAnswer:
    return SavedAnswer(
        "", question.task, question.model, question.smiles, card.best.canonical, card.name, card.probability
    )


def _more_details(question: query_panel.Question, card: Suggestion, name: str) -> None:
    best = card.best
    if card.step:
        st.caption(card.step.sentence)
        if question.task == "retro" and (family := family_of(card.step)) in families():
            label = f"Only this class: {families()[family]}"
            only = replace(query_view.current_guide(question.smiles), only=(family,))
            st.button(label, key=f"{name}_only", on_click=query_view.set_guide, args=(question.smiles, only))
    if card.alternatives:
        rows = "".join(
            f"<li>{format_percent(answer_probability(twin))} <code>{escape(twin.canonical)}</code>"
            f"{' ⚠ stereochemistry changes' if change and spoils_stereo(change) else ''}</li>"
            for twin, change in card.alternatives
        )
        st.html(f'<div class="cs-aside">Similar answers:<ul>{rows}</ul></div>')
    st.html(f'<div class="cs-aside">Token by token:{token_probabilities_html(best)}</div>')
    with st.container(horizontal=True, gap="small"):
        if st.button("3-D view", key=f"{name}_3d"):
            _show_3d_dialog(best.canonical)
        _answer_downloads(question, card)


@st.dialog("3-D view", width="medium")
def _show_3d_dialog(smiles: str) -> None:
    parts = sorted(set(smiles.split(".")), key=lambda part: -len(part))
    part = parts[0]
    if len(parts) > 1:
        part = st.selectbox("Molecule", parts)
    view3d.show_3d_model(part, height=360, key="predict_3d")
    st.caption("One conformer from RDKit's force field, not a prediction of the model.")


def _answer_downloads(question: query_panel.Question, card: Suggestion) -> None:
    name = f"answer-{card.rank}"
    left, right = card.sides
    over = ""  # a flask has its own
    if question.task == "retro":
        over, whose = precedents.conditions_over_arrow(card)
        over += " (proposed)" * (whose == PROPOSED_BY_MODEL)
    _download_button("SVG", scheme_to_svg(left, right, card.step, over), f"{name}.svg", "image/svg+xml")
    _download_button("PNG", scheme_to_png(left, right, card.step, over), f"{name}.png", "image/png")
    _download_button("RXN", formats.to_rxn(left, right), f"{name}.rxn", "chemical/x-mdl-rxnfile")
    _download_button("SDF", formats.to_sdf([answer_record(question, card)]), f"{name}.sdf", "chemical/x-mdl-sdfile")
    _download_button("CDXML", scheme_to_cdxml(left, right, card.step, over), f"{name}.cdxml", "chemical/x-cdxml")


def share_answers(question: query_panel.Question, cards: Sequence[Suggestion], result: DecodeResult) -> None:
    """Draw the files of all answers, and the link."""
    base = (st.context.url or "").split("?")[0]
    st.caption("A link to this question")
    st.code(f"{base}?{urlencode(question.link)}", language=None)
    rows = [answer_record(question, card) for card in cards if card.best.valid]
    _download_button("CSV", escaping.rows_to_csv(rows), "answers.csv", "text/csv")
    _download_button("XLSX", escaping.rows_to_xlsx(rows), "answers.xlsx", spreadsheets.MIME)
    _download_button("SDF", formats.to_sdf(rows), "answers.sdf", "chemical/x-mdl-sdfile")
    _download_button(
        "RDF, as reactions",
        formats.to_rdf(rows, time.strftime("%m/%d/%y %H:%M")),
        "answers.rdf",
        "chemical/x-mdl-rdfile",
    )
    _download_button("JSON, with every pass", to_json(result), "answers.json", "application/json")


def _download_button(label: str, content: str | bytes, name: str, mime: str) -> None:
    if content:
        st.download_button(label, content, name, mime, key=f"predict_file_{name}", on_click="ignore")


def answer_record(question: query_panel.Question, card: Suggestion) -> dict[str, object]:
    """Return an answer as a record of a file."""
    left, right = card.sides
    check, matches = card.check, card.precedents
    return {
        "query": question.smiles,
        "rank": card.rank,
        "smiles": card.best.canonical,
        "class": card.step.name if card.step else "",
        "chance": f"{card.probability:.4g}" if card.calibrated else "",
        "model_probability": f"{card.best.probability:.6g}",
        "alike": " ; ".join(twin.canonical for twin, _ in card.alternatives),
        "stock": "; ".join(filter(None, card.stock)),
        "forward_model": describe_check(check),
        "patent_reactions": "" if matches is None else matches.close,
        "conditions": without_subscripts(matches.conditions[0].text) if matches and matches.conditions else "",
        "proposed_reagents": next((reagents for reagents, _ in card.proposed), ""),
        "patents": "; ".join(filter(None, (match.source for match in matches.nearest))) if matches else "",
        "trouble": "; ".join(card.problems),
        "reaction": f"{left}>>{right}",
    }
