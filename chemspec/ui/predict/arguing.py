"""A visitor's answer compared with the model's: where it leaves the model's path, what is recorded, what flips it."""

from math import exp

import streamlit as st

from chemspec import chem
from chemspec.chem import formats
from chemspec.chem.checks.flask_parts import split_flask
from chemspec.chem.reactions.step_class import classify_step
from chemspec.depict.molecules import MAX_ATOMS, Depiction
from chemspec.depict.schemes import CHANGED
from chemspec.engine.scoring import END
from chemspec.precedents import installed_if_usable
from chemspec.review.argument import Argument, argue, format_odds
from chemspec.review.reaction_check import judge_predictions
from chemspec.review.suggestions import describe_check, format_percent
from chemspec.ui.common import query_box, queued_engine, scheme, theme, web_files
from chemspec.ui.common.escaping import Html, join, plain_text, tag
from chemspec.ui.predict import reviewing, sketcher
from chemspec.ui.predict.details import Answer, show_precedent
from chemspec.ui.predict.query_panel import Question

LABELS = {"forward": "I think the product is", "retro": "I would start from"}
PLACEHOLDERS = {"forward": "a name or SMILES", "retro": "names or SMILES, with commas between them"}
SHARED = theme.SPANS[0]  # behind atoms that both answers have
MAX_PROPOSED = 2  # reagent sets of the reagents model to try
MAX_CHARS = 1000


def show_own_answer(answer: Answer) -> None:
    """Draw the field for the visitor's own answer, and what the model makes of it."""
    question, key = answer.question, f"{answer.key}_own"
    if drawn := st.session_state.pop(f"{key}_drawn", None):
        st.session_state[key] = drawn
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        text = st.text_input(
            LABELS[question.task], placeholder=PLACEHOLDERS[question.task], key=key, max_chars=MAX_CHARS
        )
        if st.button("Draw", key=f"{key}_pen", type="tertiary"):
            _draw_dialog(text.strip() or answer.card.best.canonical, key)
    if not text.strip():
        st.caption(
            "You draft an answer, the model verifies it: one forward pass says which of its atoms it would have "
            "written, where it would not, and what would change its mind."
        )
        return
    read = formats.read_input(text, task="retro" if question.task == "forward" else "forward")
    if isinstance(read, chem.Fault):
        st.html(query_box.fault_html(text, read))
        return
    try:
        argument = _argue(question, read.ordered)
    except ValueError as error:
        st.warning(plain_text(f"This cannot be scored: {error}."))
        return
    show_argument(argument)


@st.dialog("Draw your answer", width="large")
def _draw_dialog(shown: str, key: str) -> None:
    if reason := web_files.missing_reason("ketcher"):
        st.info(f"No sketcher here, text only: {reason}.")
        return
    drawn = sketcher.show_sketcher(shown, key=f"{key}_sketcher")
    if st.button("Use this drawing", type="primary", key=f"{key}_use"):
        st.session_state[f"{key}_drawn"] = drawn
        st.rerun()


def _argue(question: Question, proposed: str) -> Argument:
    """Compare a visitor's answer with the model's, or return the session's cached comparison."""
    engine = queued_engine.load_engine(question.model)
    result = queued_engine.cached_prediction(engine, question.smiles, question.settings)
    conditions = _proposed_reagents(question.smiles, proposed) if question.task == "forward" else ()

    def compare() -> Argument:
        check = judge_predictions(question.task, question.smiles, proposed, result)
        with queued_engine.hold_turn():
            return argue(engine, check, installed_if_usable(), conditions=conditions)

    key = (engine.digest, engine.dtype, question.smiles, question.settings, proposed)
    return queued_engine.session_cached("_arguments", key, compare, most=20)


def _proposed_reagents(flask: str, product: str) -> tuple[str, ...]:
    """Return the reagents that the reagents model proposes for a product of a flask, likeliest first."""
    step = classify_step(flask, product)
    if step is None:
        return ()
    checker, pair = reviewing.session_checker(), (product, ".".join(split_flask(flask, step)[0]))
    checker.propose([pair])
    return tuple(reagents for reagents, _ in checker.proposed_sets(pair) or ())[:MAX_PROPOSED]


def show_argument(argument: Argument) -> None:
    """Draw where an answer leaves the model's path, its rank, the nearest records of both, and what flips it."""
    st.html(join(drawings_html(argument), tokens_html(argument)))
    st.caption(plain_text(f"{argument.path_sentence}. {argument.rank_sentence}."))
    if problem := argument.check.problem:
        st.warning(plain_text(f"As written: {problem}."))
    if argument.check.task == "retro":
        pair = argument.check.query, argument.scored.smiles
        (verdict,) = reviewing.session_checker().check([pair])
        if verdict:
            st.caption(plain_text(f"Forward model, from your precursors: {describe_check(verdict)}."))
    if argument.variations:
        st.html(variations_html(argument))
    for words, records in zip(("yours", "the model's"), argument.records, strict=True):
        if records is None or (words != "yours" and argument.departure is None):
            continue
        st.caption(plain_text(f"Records of {words}: {records.in_words}."))
        for precedent in records.nearest[:1]:
            show_precedent(precedent)


def drawings_html(argument: Argument) -> Html:
    """Return both answers, drawn alike: what they share, and the atoms where they part, as safe HTML."""
    departure, dark = argument.departure, theme.is_dark()
    if departure is None:
        drawing = Depiction(argument.scored.smiles, dark=dark, fills=_fills(MAX_ATOMS))
        return tag("div.cs-argue", _figure(drawing, "Yours, and the model's"))
    shared = departure.shared
    pairs = tuple((atom, atom) for atom in range(shared))
    texts = argument.scored.smiles, argument.first.smiles
    yours = Depiction(texts[0], dark=dark, fills=_fills(shared, departure.atom))
    other = Depiction(texts[1], dark=dark, fills=_fills(shared, departure.model_atom), like=(texts[0], pairs))
    odds = [exp(each) for each in (departure.token.log_prob, departure.token.best_log_prob)]
    return tag(
        "div.cs-argue",
        _figure(yours, "Yours", f"{format_percent(odds[0])} at the orange atom"),
        _figure(other, "The model's", f"{format_percent(odds[1])} there"),
    )


def _fills(shared: int, parting: int = -1) -> tuple[tuple[int, str], ...]:
    """Return the colours behind the atoms: of those that both answers have, and of the one where they part."""
    return (
        *((atom, SHARED) for atom in range(shared) if atom != parting),
        *([(parting, CHANGED)] if parting >= 0 else []),
    )


def _figure(drawing: Depiction, title: str, note: str = "") -> Html:
    alt = f"{title}: {drawing.smiles}"
    picture = scheme.picture_html(drawing.data_uri, alt) or tag("code", drawing.smiles)
    return tag("figure", picture, tag("figcaption", tag("b", title), f" {note}"))


def tokens_html(argument: Argument) -> Html:
    """Return the visitor's answer token by token, with the model's probabilities and what it chose instead."""
    cells = []
    for number, token in enumerate(argument.scored.tokens):
        percent = 100 * exp(token.log_prob)
        leaves = ".cs-leaves" * (argument.departure is not None and number == argument.departure.position)
        instead = (
            f", the model chose {token.best} ({format_percent(exp(token.best_log_prob))})" if token.rank > 1 else ""
        )
        text = tag("b", "end" if token.text == END else token.text), tag("i", f"{percent:.0f}")
        chosen = [tag("s", token.best)] if token.rank > 1 else []
        title = f"{token.text}: {format_percent(percent / 100)}{instead}"
        cells.append(tag(f"span.cs-token{leaves}", *text, *chosen, style=f"--doubt:{100 - percent:.0f}%", title=title))
    hint = "Your answer, token by token: percent given the tokens before; below, what the model chose instead."
    return join(tag("p.cs-hint", hint), tag("div.cs-strip-tokens", *cells))


def variations_html(argument: Argument) -> Html:
    """Return what flips the model: each change of the query, and the answer to it, as safe HTML."""
    flips = any(variation.agrees for variation in argument.variations)
    rows = []
    for variation in sorted(argument.variations, key=lambda each: not each.agrees):
        sure = format_percent(variation.first_probability)
        if variation.agrees:
            answer = tag("b.cs-ok", f"yours ({sure})")
        elif variation.first == argument.first.canonical:
            answer = tag("span", f"as before ({sure})")
        else:
            answer = tag("code", f"{variation.first or 'no molecule'} ({sure})")
        scored = variation.probability is not None and not variation.agrees
        given = f"yours {format_odds(variation.probability or 0.0)}" if scored else ""
        rows.append(tag("tr", tag("td", variation.change), tag("td", answer), tag("td", given)))
    heading = "What flips it" if flips else "What does not flip it"
    return join(tag("p.cs-flips-head", tag("b", heading)), tag("table.cs-flips", *rows))
