"""Answers as cards: a scheme, how sure the model is, what is wrong if anything, and what to do next."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from html import escape
from math import exp
from typing import Any
from urllib.parse import urlencode
from zlib import crc32

import streamlit as st

from chemspec import chem
from chemspec.chem import formats
from chemspec.chem.names import name_list
from chemspec.chem.names.short_names import split_drawn_and_named
from chemspec.chem.salts import group_salts
from chemspec.chem.strategy import Strategy, families, family_of
from chemspec.io import spreadsheets
from chemspec.types import DecodeResult, Hypothesis, to_json
from chemspec.ui.collect import keep
from chemspec.ui.collect.store import Kept
from chemspec.ui.common import scheme, theme, view3d
from chemspec.ui.common.buyable import marks
from chemspec.ui.common.web_files import web_file
from chemspec.ui.predict import (
    ask,
    atom_colours,
    guiding,
    origins,
    picture,
    precedents,
    proposed,
    schemes,
    why,
    written,
)
from chemspec.ui.predict.picture import Picture
from chemspec.ui.predict.verdicts import (
    AnswerCard,
    cards,
    chance,
    measured,
    own_chance,
    percent,
    spoiled,
    troubles,
    warning,
    word,
)

CSS = web_file("answers.css")
FOOTNOTE = {
    "forward": "Chance: of validation reactions with such an answer, so many were right; together 100 % at most. "
    "Shaded: atoms that change; bold: bonds that are made; both are guessed by comparing structures.",
    "retro": "Percent: how often such answers matched the route recorded in a patent; another route may be as good. "
    "Forward model: asked what forms from the reactants, alone or with usual or proposed reagents; a doubt, no proof. "
    "What it doubts counts a fifth in the order. Class, shading and bold bonds are guessed by comparing structures.",
}
LONGEST_NAME = 32  # characters below a drawing
SMALLEST = 4  # characters of a molecule worth asking about next

# --- drawing -------------------------------------------------------------------------------------


def show(
    asked: ask.Asked,
    result: DecodeResult,
    found: Sequence[AnswerCard],
    first: DecodeResult | None = None,
    *,
    still: bool = False,
) -> None:
    """Draw heading, warning, cards, and what was left out.

    Args:
        asked: the question.
        result: the answer.
        found: its cards.
        first: the first answer, decoded greedily: the card that has it shows its passes.
        still: without buttons; for an example.
    """
    shown = list(found[: asked.cards])
    drawn = picture.of(first, shown)
    if asked.expected:
        st.html(written.banner(asked, result))
    if told := warning(asked.task, asked.smiles, result, shown):
        st.html(f'<div class="cs-banner" role="alert">⚠ {escape(told)}</div>')
    if not still:
        guiding.told(result, asked.smiles)
        why.remember(found)
    wide = shown if asked.task == "retro" else shown[:1]
    for card in wide:
        _card(asked, card, drawn, wide=True, still=still)
    rest = shown[len(wide) :]
    for start in range(0, len(rest), 2):
        for place, card in zip(st.columns(2, gap="small"), rest[start : start + 2], strict=False):
            with place:
                _card(asked, card, drawn, wide=False, still=still)
    if not still:
        _left_out(asked, result, found[asked.cards :])
        st.caption(f"{FOOTNOTE[asked.task]} {precedents.footnote()}")


def preview(asked: ask.Asked, first: DecodeResult) -> None:
    """Draw the answer that was decoded greedily, while the search for several goes on."""
    found = cards(asked.task, asked.smiles, first) if first.status == "ok" else []
    if drawn := picture.of(first, found):
        st.html("<h2>The first answer; alternatives follow</h2>")
        _card(replace(asked, cards=1), found[0], drawn, wide=True, still=True)


def heading(asked: ask.Asked, found: Sequence[AnswerCard]) -> str:
    """Return how many answers there are, in words."""
    count = min(asked.cards, len(found))
    if asked.task == "forward":
        return f"{count} product{'s' * (count != 1)}"
    answers = sum(len(card.members) for card in found[:count])
    strategies = f"{count} strateg{'y' if count == 1 else 'ies'}"
    return strategies if answers == count else f"{strategies}, {answers} answers"


def _card(asked: ask.Asked, card: AnswerCard, drawn: Picture | None, *, wide: bool, still: bool) -> None:
    best, name = card.best, f"predict_{'still_' * still}{card.rank}"
    own = drawn if drawn and drawn.rank == card.rank else None
    with st.container(border=True, gap=None, key=f"{name}_card", height="content" if wide else "stretch"):
        coloured = own if still or atom_colours.wanted() else None
        st.html(head(asked, card) + drawing(asked, card, coloured, wide=wide))
        with _row(f"{name}_foot"):
            st.html(foot(asked, card), width="stretch")
            if best.valid and not still:
                with _row(f"{name}_foot_buttons", width="content"):
                    _actions(asked, card, name)
        if own:
            picture.show(own, asked, name, still=still)
        elif not still:
            st.code(best.canonical or best.smiles, language=None)


def _row(key: str, **more: Any) -> Any:
    return st.container(horizontal=True, vertical_alignment="center", gap="small", key=key, **more)


def head(asked: ask.Asked, card: AnswerCard) -> str:
    """Rank, class and chance, as safe HTML."""
    odds = chance(card)
    known = measured(card)
    title = card.name if asked.task == "retro" or card.change is None else card.change.name
    about = f' title="{escape(card.change.sentence, quote=True)}"' if card.change else ""
    if asked.task == "retro":
        told = "match the recorded route" if known else "by the model, not measured"
    else:
        told = "by the model, not measured" if not known else word(odds) if card.rank == 1 or odds > 0.3 else "unlikely"
    also = f'<span class="cs-also">{escape(card.also)}</span>' if card.also else ""
    also += written.tag(asked, card)
    buy = ""
    if asked.task == "retro" and card.best.valid:
        stocked = [mark for mark in marks(card.best.canonical) if mark]
        buy = '<span class="cs-ok">● all to buy</span>' if stocked and all("buy" in mark for mark in stocked) else ""
    return (
        f'<header class="cs-head"><b class="cs-rank" tabindex="-1" aria-label="answer {card.rank}">{card.rank}</b>'
        f'<h3{about}>{escape(title)}</h3>{also}{buy}<span class="cs-odds">'
        f'<i class="cs-bar" style="--p:{100 * odds:.0f}%" aria-hidden="true"></i>'
        f"<b>{percent(odds)}</b> {told}</span></header>"
    )


def drawing(asked: ask.Asked, card: AnswerCard, coloured: Picture | None = None, *, wide: bool) -> str:
    """The scheme of an answer, as safe HTML: of a retro answer its reactants, of further products the product.

    `coloured` puts the colours of the passes on the atoms.
    """
    best = card.best
    if not best.valid:
        return '<p class="cs-hint">There is nothing to draw.</p>'
    dark = theme.dark()
    if asked.task == "retro":
        left, _ = schemes.sides(best.canonical, asked.smiles, card.change)
        arrow = _retro_arrow(*precedents.over_arrow(asked, card))
        marks_on_atoms = origins.on_answer(coloured.view, best.canonical) if coloured else None
        inside = scheme.side(replace(left, labels=_captions(best.canonical), origins=marks_on_atoms), dark=dark)
        return f'<div class="cs-scheme cs-tight">{arrow}{inside}</div>'
    left, right = schemes.sides(asked.smiles, best.canonical, card.change)
    if coloured:
        left = replace(left, origins=origins.on_query(coloured.view, asked.smiles))
        right = replace(right, origins=origins.on_answer(coloured.view, best.canonical))
    if wide:
        return scheme.reaction(left, right, dark=dark, apart=True)
    return f'<div class="cs-scheme cs-tight">{scheme.side(right, dark=dark)}</div>'


def _captions(reactants: str) -> tuple[str, ...]:
    """Return for each precursor its name, if it has a common one, and below whether it can be bought."""
    parts, bought = reactants.split("."), marks(reactants)
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


def foot(asked: ask.Asked, card: AnswerCard) -> str:
    """What is wrong, what the forward model says, which reagents are usual, precedents; as safe HTML."""
    parts = []
    check = card.check
    wrong = troubles(asked.task, asked.smiles, card)
    for text in (words.removeprefix("the ") for words in wrong):
        if check and not check.agrees and check.product and text.startswith("forward model"):
            figure = scheme.side(scheme.Side(check.product), dark=theme.dark())
            said = f"⚠ {escape(text)} ({percent(check.chance)})"
            parts.append(f'<details class="cs-warn"><summary>{said}</summary>{figure}</details>')
        else:
            parts.append(f'<span class="cs-warn">⚠ {escape(text)}</span>')
    if check and check.sure:
        names = _named(check.added)
        given = f" with {names}" if names else " with the usual reagents" if check.added else ""
        shown = not check.added or check.added == precedents.likeliest(asked, card)[0]  # over the arrow
        parts.append(
            f'<span class="cs-ok" title="Asked{escape(given or " with the reactants alone", quote=True)}">'
            f"✓ forward model agrees{'' if shown else escape(given)} ({percent(check.chance)})</span>"
        )
    if (
        asked.task == "retro"
        and card.change
        and (names := _named(card.change.reagents))
        and not (check and check.added)
        and not precedents.over_arrow(asked, card)[0]
    ):
        parts.append(f"<span>usual: {escape(names)}</span>")
    if (vote := card.best.vote) is not None:
        times = f"{vote.spellings} spelling{'s' * (vote.spellings > 1)} of the query gave it"
        parts.append(f"<span>{times}</span>")
    parts.append(precedents.line(asked, card))
    return f'<div class="cs-foot">{"".join(parts)}</div>'


def _named(reagents: str) -> str:
    """Return reagents as chemists write them; empty unless all have a name."""
    parts = reagents.split(".") if reagents else []
    drawn, names = (
        split_drawn_and_named([*parts, "C" * 30]) if parts else ((), ())
    )  # a molecule without name, lest all be drawn
    return ", ".join(names) if len(drawn) == 1 else ""


def tokens_html(answer: Hypothesis) -> str:
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


def _left_out(asked: ask.Asked, result: DecodeResult, more: Sequence[AnswerCard]) -> None:
    """Show one line for what is not on the page."""
    if more:
        st.button(
            f"Show {len(more)} more",
            key="predict_more",
            type="tertiary",
            on_click=lambda: st.session_state.update(predict_cards=asked.cards + len(more)),
        )
    aside = result.distinct.aside if result.distinct else ()
    if aside:
        rows = "".join(
            f"<li><code>{escape(one.smiles)}</code>: {'gives the query back' if one.valid else 'no molecule'} "
            f"({percent(one.probability)})</li>"
            for one in aside
        )
        count = f"{len(aside)} answer{'s' * (len(aside) > 1)} left out: the query again, or no molecule"
        st.html(f'<details class="cs-aside"><summary>{count}</summary><ul>{rows}</ul></details>')


# --- what to do with an answer ---------------------------------------------------------------------


def _actions(asked: ask.Asked, card: AnswerCard, name: str) -> None:
    parts = [part for part in dict.fromkeys(card.best.canonical.split(".")) if len(part) >= SMALLEST]
    # A key of its own for each question: the popover of the question before would stay open.
    key = f"{name}_back_{crc32(asked.smiles.encode()):x}"
    back = st.popover("Go back", on_change="rerun", key=key, type="tertiary", help="What is this made from?")
    if back.open:
        with back:
            for number, part in enumerate(parts):
                st.html(scheme.side(scheme.Side(part), dark=theme.dark()))
                st.button(
                    "What is this made from?",
                    key=f"{name}_next_{number}",
                    on_click=ask.put,
                    args=(part, "retro"),
                    width="stretch",
                )
    near = st.popover(
        "Precedents",
        on_change="rerun",
        key=f"{name}_near",
        type="tertiary",
        help="The nearest patent reactions and their conditions",
        width="content",
    )
    if near.open:
        with near:
            precedents.drawer(asked, card, name)
    keep.popover(_kept(asked, card), key=f"{name}_keep")
    why.popover(asked.model, asked.smiles, card, key=f"{name}_why")
    more = st.popover("More", on_change="rerun", key=f"{name}_more", type="tertiary")
    if more.open:
        with more:
            _more(asked, card, name)


def _kept(asked: ask.Asked, card: AnswerCard) -> Kept:
    return Kept("", asked.task, asked.model, asked.smiles, card.best.canonical, card.name, chance(card))


def _more(asked: ask.Asked, card: AnswerCard, name: str) -> None:
    best = card.best
    if card.change:
        st.caption(card.change.sentence)
        if asked.task == "retro" and (family := family_of(card.change)) in families():
            label = f"Only this class: {families()[family]}"
            st.button(label, key=f"{name}_only", on_click=guiding.only, args=(asked.smiles, family))
    if card.twins:
        rows = "".join(
            f"<li>{percent(own_chance(twin))} <code>{escape(twin.canonical)}</code>{_harm(change)}</li>"
            for twin, change in card.twins
        )
        st.html(f'<div class="cs-aside">The same idea:<ul>{rows}</ul></div>')
    st.html(f'<div class="cs-aside">Token by token:{tokens_html(best)}</div>')
    with st.container(horizontal=True, gap="small"):
        if st.button("3-D view", key=f"{name}_3d"):
            _three_d(best.canonical)
        _save(asked, card)


def _harm(change: Strategy | None) -> str:
    return " ⚠ stereochemistry changes" if change and spoiled(change) else ""


@st.dialog("3-D view", width="medium")
def _three_d(smiles: str) -> None:
    parts = sorted(set(smiles.split(".")), key=lambda part: -len(part))
    part = parts[0]
    if len(parts) > 1:
        part = st.selectbox("Molecule", parts)
    view3d.show(part, height=360, key="predict_3d")
    st.caption("One conformer from RDKit's force field, not a prediction of the model.")


def _save(asked: ask.Asked, card: AnswerCard) -> None:
    name = f"answer-{card.rank}"
    left, right = precedents.sides(asked, card)
    over = ""  # a flask has its own
    if asked.task == "retro":
        over, whose = precedents.over_arrow(asked, card)
        over += " (proposed)" * (whose == precedents.PROPOSED)
    _file("SVG", schemes.to_svg(left, right, card.change, over), f"{name}.svg", "image/svg+xml")
    _file("PNG", schemes.to_png(left, right, card.change, over), f"{name}.png", "image/png")
    _file("RXN", formats.to_rxn(left, right), f"{name}.rxn", "chemical/x-mdl-rxnfile")
    _file("SDF", formats.to_sdf([row(asked, card)]), f"{name}.sdf", "chemical/x-mdl-sdfile")
    _file("CDXML", schemes.to_cdxml(left, right, card.change, over), f"{name}.cdxml", "chemical/x-cdxml")


def share(asked: ask.Asked, found: Sequence[AnswerCard], result: DecodeResult) -> None:
    """Draw the files of all answers, and the link."""
    base = (st.context.url or "").split("?")[0]
    st.caption("A link to this question")
    st.code(f"{base}?{urlencode(ask.address())}", language=None)
    rows = [row(asked, card) for card in found if card.best.valid]
    _file("CSV", schemes.to_csv(rows), "answers.csv", "text/csv")
    _file("XLSX", schemes.to_xlsx(rows), "answers.xlsx", spreadsheets.MIME)
    _file("SDF", formats.to_sdf(rows), "answers.sdf", "chemical/x-mdl-sdfile")
    _file(
        "RDF, as reactions",
        formats.to_rdf(rows, time.strftime("%m/%d/%y %H:%M")),
        "answers.rdf",
        "chemical/x-mdl-rdfile",
    )
    _file("JSON, with every pass", to_json(result), "answers.json", "application/json")


def _file(label: str, content: str | bytes, name: str, mime: str) -> None:
    if content:
        st.download_button(label, content, name, mime, key=f"predict_file_{name}", on_click="ignore")


def row(asked: ask.Asked, card: AnswerCard) -> dict[str, object]:
    """Return an answer as a record of a file."""
    left, right = precedents.sides(asked, card)
    check, found = card.check, precedents.find(asked, card)
    return {
        "query": asked.smiles,
        "rank": card.rank,
        "smiles": card.best.canonical,
        "class": card.change.name if card.change else "",
        "chance": f"{chance(card):.4g}" if measured(card) else "",
        "model_probability": f"{card.best.probability:.6g}",
        "alike": " ; ".join(twin.canonical for twin, _ in card.twins),
        "stock": "; ".join(filter(None, marks(card.best.canonical))) if asked.task == "retro" else "",
        "forward_model": "" if check is None else "agrees" if check.agrees else f"gives {check.product}",
        "patent_reactions": "" if found is None else found.close,
        "conditions": found.conditions[0].text if found and found.conditions else "",
        "proposed_reagents": proposed.first(asked, card),
        "patents": "; ".join(filter(None, (one.source for one in found.nearest))) if found else "",
        "trouble": "; ".join(troubles(asked.task, asked.smiles, card)),
        "reaction": f"{left}>>{right}",
    }
