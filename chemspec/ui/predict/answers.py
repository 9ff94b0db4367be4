"""Answers as cards: a scheme, how sure the model is, what is wrong if anything, and what to do next."""

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
from chemspec.chem.formats import name_list
from chemspec.chem.formats.short_names import set_apart
from chemspec.chem.salts import pair
from chemspec.chem.strategy import Strategy, families, family_of
from chemspec.engine.engine import Engine
from chemspec.evaluation.roundtrip import HOW
from chemspec.io import spreadsheets
from chemspec.metrics import numbers
from chemspec.types import DecodeResult, Hypothesis, to_json
from chemspec.ui.collect import keep
from chemspec.ui.collect.store import Kept
from chemspec.ui.common import nav, question, queued_engine, scheme, theme, view3d
from chemspec.ui.common.buyable import marks
from chemspec.ui.common.web_files import web_file
from chemspec.ui.predict import ask, guiding, precedents, proposed, schemes, why, written
from chemspec.ui.predict.verdicts import (
    AnswerCard,
    Check,
    chance,
    measured,
    opinion,
    order,
    own_chance,
    percent,
    spoiled,
    troubles,
    warning,
    word,
)
from chemspec.ui.speed import timing
from chemspec.ui.speed.race_settings import race_against_standard

CSS = web_file("answers.css")
FOOTNOTE = {
    "forward": "Chance: of validation reactions with such an answer, so many were right; together 100 % at most. "
    "Shaded: atoms that change; bold: bonds that are made; both are guessed by comparing structures.",
    "retro": "Percent: how often such answers matched the route recorded in a patent; another route may be as good. "
    "Forward model: asked what forms from the reactants, alone or with usual or proposed reagents; a doubt, no proof. "
    "What it doubts counts a fifth in the order. Class, shading and bold bonds are guessed by comparing structures.",
}
CHECKED = 8  # ideas that the forward model is asked about
MOST = 500  # steps of which a session remembers opinions
LONGEST_NAME = 32  # characters below a drawing
SMALLEST = 4  # characters of a molecule worth asking about next
Opinions = dict[tuple[str, str], tuple[Check, ...]]  # of steps: target, reactants


# --- before drawing ------------------------------------------------------------------------------


def checked(asked: ask.Asked, found: Sequence[AnswerCard], forward: Engine) -> list[AnswerCard]:
    """Return the cards with the forward model's opinion of the first few, in their new order.

    Where it is not sure to get the target back from the reactants alone, it is asked again with the conditions of the
    nearest precedents, or with the usual reagents of the class; and then with those that a model proposes.
    """
    kept: Opinions = st.session_state.setdefault("predict_checks", {})
    heads = {(asked.smiles, card.best.canonical): card for card in found[:CHECKED] if card.best.valid}
    _ask_forward(forward, dict.fromkeys(heads, ""), kept)
    proposed.propose(asked, [*heads.values()])
    for reagents in (_usual, proposed.first):
        more = {step: reagents(asked, card) for step, card in heads.items() if not _best(kept[step]).sure}
        _ask_forward(forward, {step: added for step, added in more.items() if added}, kept)
    queued_engine.forget(kept, MOST)
    with_opinions = [
        replace(card, check=_best(kept[step]) if (step := (asked.smiles, card.best.canonical)) in kept else None)
        for card in found
    ]
    return order(asked.task, asked.smiles, with_opinions)


def _usual(asked: ask.Asked, card: AnswerCard) -> str:
    return precedents.conditions(asked, card) or (card.change.reagents if card.change else "")


def _ask_forward(forward: Engine, questions: dict[tuple[str, str], str], kept: Opinions) -> None:
    """Ask, once, what forms from the reactants of steps (target, reactants) with added reagents; keep the opinions."""
    new = {step: added for step, added in questions.items() if all(one.added != added for one in kept.get(step, ()))}
    texts = [".".join(filter(None, (reactants, added))) for (_, reactants), added in new.items()]
    results = queued_engine.decode_many(forward, texts, HOW) if texts else []
    for (step, added), result in zip(new.items(), results, strict=True):
        kept[step] = (*kept.get(step, ()), opinion(step[0], result, added))


def _best(opinions: Sequence[Check]) -> Check:
    """Return the surest that agrees; else the last with a product: reagents may hold what the model cannot read."""
    return max(reversed(opinions), key=lambda one: (one.agrees, one.chance if one.agrees else bool(one.product)))


# --- drawing -------------------------------------------------------------------------------------


def show(asked: ask.Asked, result: DecodeResult, found: Sequence[AnswerCard], *, still: bool = False) -> None:
    """Draw heading, warning, cards, and what was left out.

    Args:
        asked: the question.
        result: the answer.
        found: its cards.
        still: without buttons; for an example.
    """
    shown = list(found[: asked.cards])
    if asked.expected:
        st.html(written.banner(asked, result))
    if told := warning(asked.task, asked.smiles, result, shown):
        st.html(f'<div class="cs-banner" role="alert">⚠ {escape(told)}</div>')
    if not still:
        guiding.told(result, asked.smiles)
        why.remember(found)
    wide = shown if asked.task == "retro" else shown[:1]
    for card in wide:
        _card(asked, card, wide=True, still=still)
    rest = shown[len(wide) :]
    for first in range(0, len(rest), 2):
        for place, card in zip(st.columns(2, gap="small"), rest[first : first + 2], strict=False):
            with place:
                _card(asked, card, wide=False, still=still)
    if not still:
        _left_out(asked, result, found[asked.cards :])
        st.caption(f"{FOOTNOTE[asked.task]} {precedents.footnote()}")


def heading(asked: ask.Asked, found: Sequence[AnswerCard]) -> str:
    """Return how many answers there are, in words."""
    count = min(asked.cards, len(found))
    if asked.task == "forward":
        return f"{count} product{'s' * (count != 1)}"
    answers = sum(len(card.members) for card in found[:count])
    strategies = f"{count} strateg{'y' if count == 1 else 'ies'}"
    return strategies if answers == count else f"{strategies}, {answers} answers"


def _card(asked: ask.Asked, card: AnswerCard, *, wide: bool, still: bool) -> None:
    best, name = card.best, f"predict_{'still_' * still}{card.rank}"
    with st.container(border=True, gap=None, key=f"{name}_card", height="content" if wide else "stretch"):
        st.html(head(asked, card) + drawing(asked, card, wide=wide))
        with _row(f"{name}_foot"):
            st.html(foot(asked, card), width="stretch")
            if best.valid and not still:
                with _row(f"{name}_foot_buttons", width="content"):
                    _actions(asked, card, name)
        if not still:
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


def drawing(asked: ask.Asked, card: AnswerCard, *, wide: bool) -> str:
    """The scheme of an answer, as safe HTML: of a retro answer its reactants, of further products the product."""
    best = card.best
    if not best.valid:
        return '<p class="cs-hint">There is nothing to draw.</p>'
    dark = theme.dark()
    if asked.task == "retro":
        left, _ = schemes.sides(best.canonical, asked.smiles, card.change)
        arrow = _retro_arrow(*precedents.over_arrow(asked, card))
        inside = scheme.side(replace(left, labels=_captions(best.canonical)), dark=dark)
        return f'<div class="cs-scheme cs-tight">{arrow}{inside}</div>'
    left, right = schemes.sides(asked.smiles, best.canonical, card.change)
    if wide:
        return scheme.reaction(left, right, dark=dark, apart=True)
    return f'<div class="cs-scheme cs-tight">{scheme.side(right, dark=dark)}</div>'


def _captions(reactants: str) -> tuple[str, ...]:
    """Return for each precursor its name, if it has a common one, and below whether it can be bought."""
    parts, bought = reactants.split("."), marks(reactants)
    named = [""] * len(parts)
    for salt in pair(parts):
        name = name_list.name_of(str(chem.canonical(".".join(parts[ion] for ion in salt))))
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
    drawn, names = set_apart([*parts, "C" * 30]) if parts else ((), ())  # a molecule without name, lest all be drawn
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
    back = st.popover("Go back", on_change="rerun", key=f"{name}_back", type="tertiary", help="What is this made from?")
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


def details(asked: ask.Asked, result: DecodeResult) -> None:
    """Say last and small what the decoder did, and where to see more of it."""
    counts = numbers([result.trace])
    told = f"{counts.emitted} tokens in {timing.passes(counts.passes)} ({counts.tokens_per_pass:.1f} a pass), "
    told += timing.ms(1000 * counts.seconds)
    told = "; ".join(filter(None, [told, result.trace.settings.get("exactness")]))  # older files say nothing
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="predict_speed"):
        st.html(f'<div class="cs-strip">Speed details: {told}</div>')
        about = "Race this question, with drafts and without, on the page Speed"
        if st.button("Measure the saving", key="predict_measure", type="tertiary", help=about):
            race_against_standard(asked.settings)
            nav.go("speed", task=asked.model, smi=asked.smiles)
        width = result.distinct.widths[-1] if result.distinct else asked.settings.n
        can_be_stepped = asked.settings.decoder in question.STEPPED and width <= question.MOST_STEPPED
        if can_be_stepped and st.button("How was this made?", key="predict_step", type="tertiary"):
            how: dict[str, Any] = {"decoder": asked.settings.decoder, "n": str(width), "drafts": asked.settings.drafter}
            nav.go("step", task=asked.model, smi=asked.smiles, **how)
