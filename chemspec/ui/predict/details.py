"""The parts of a card: header, scheme, footer, and one of its details, such as precedents or why it was predicted."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import exp
from pathlib import Path

import streamlit as st

from chemspec import chem, precedents
from chemspec.chem import formats
from chemspec.chem.checks.flask_check import hazards, missing_or_conflicting
from chemspec.chem.molecules.salts import group_salts
from chemspec.chem.reactions.step_class import classify_step
from chemspec.chem.reading.names.reagents import name_in_list
from chemspec.chem.reading.names.short_names import split_drawn_and_named, without_subscripts
from chemspec.depict.schemes import Side, scheme_sides, scheme_to_cdxml, scheme_to_png, scheme_to_svg
from chemspec.engine.forks import Fork, find_forks
from chemspec.replay.choices import describe_choices
from chemspec.review.conditions import PROPOSED_BY_MODEL
from chemspec.review.forward_check import gives_target
from chemspec.review.rows import suggestion_cells, suggestion_document
from chemspec.review.suggestions import Suggestion, confidence_word, describe_check, format_percent, spoils_stereo
from chemspec.settings import DecodeSettings
from chemspec.stock.lists import all_marks
from chemspec.types import Hypothesis
from chemspec.ui.common import nav, queued_engine, scheme
from chemspec.ui.common.escaping import Html, join, plain_text, tag
from chemspec.ui.common.queued_engine import QueuedEngine
from chemspec.ui.models.cards import read_accuracy
from chemspec.ui.predict import query_panel, reviewing, view3d
from chemspec.ui.predict.query_panel import Question
from chemspec.ui.predict.token_origins import Picture
from chemspec.ui.step.trace_player import Frame, show_figure

MAX_NAME = 32  # characters below a drawing
MAX_CONDITIONS_CHARS = 60  # characters of conditions over an arrow
MIN_CHARS = 4  # characters of a molecule worth asking about next
CHECK_SETTINGS = DecodeSettings(n=5, distinct=True)  # settings of the forward model with typed conditions


def card_header(question: Question, card: Suggestion) -> Html:
    """Return rank, class and probability, as safe HTML."""
    odds, step = card.probability, card.step
    if not card.calibrated:
        caption = "probability by the model, not measured"
    elif question.task == "retro":
        caption = "probability of the recorded route"
    elif card.by_rule:
        caption = "by the model, first by rule"
    elif step and (step.unlawful or step.inverted_centres):
        caption = "by the model, against the rule"
    elif missing_or_conflicting(question.smiles, card.best.canonical):
        caption = "probability with the right reagents"
    else:
        caption = confidence_word(odds) if card.rank == 1 or odds > 0.3 else "probability"
    listed = all_marks(card.stock) if question.task == "retro" and card.best.valid else ""
    typed = ""
    if question.expected and reviewing.is_typed_reaction(question, card):
        typed = f"your {'product' if question.task == 'forward' else 'reactants'}"
    marks = ((".cs-also", card.also), (".cs-ok", typed), (".cs-ok", listed))
    return tag(
        "header.cs-head",
        tag("b.cs-rank", str(card.rank), tabindex="-1", aria_label=f"answer {card.rank}"),
        tag(
            "h3", card.name if question.task == "retro" or not step else step.name, title=step.sentence if step else ""
        ),
        *(tag(f"span{kind}", text, title=text) for kind, text in marks if text),
        tag(
            "span.cs-odds",
            tag("i.cs-bar", style=f"--p:{100 * odds:.0f}%", aria_hidden="true"),
            tag("b", format_percent(odds)),
            f" {caption}",
        ),
    )


def card_drawing(question: Question, card: Suggestion, *, wide: bool) -> Html:
    """Return the scheme of an answer as safe HTML: of a retro answer the reactants, of further products the product."""
    best = card.best
    if not best.valid:
        return tag("p.cs-hint", "There is nothing to draw.")
    if question.task == "retro":
        left, _ = scheme_sides(best.canonical, question.smiles, card.step)
        drawn = scheme.side_html(replace(left, labels=_precursor_captions(card)))
        return tag("div.cs-scheme.cs-tight", _retro_arrow(*conditions_over_arrow(card)), drawn)
    left, right = scheme_sides(question.smiles, best.canonical, card.step)
    if wide:
        return scheme.reaction_html(left, right, apart=True)
    return tag("div.cs-scheme.cs-tight", scheme.side_html(right))


def conditions_over_arrow(card: Suggestion) -> tuple[str, str]:
    """Return the likeliest conditions in words, shortened, and their source; empty if there are none."""
    reagents, source = card.reagents
    text = precedents.in_words(reagents, formulas=True) if reagents else ""
    return text if len(text) <= MAX_CONDITIONS_CHARS else text[: MAX_CONDITIONS_CHARS - 1] + "…", source


def _retro_arrow(conditions: str, source: str) -> Html:
    if not conditions:
        return tag("span.cs-retro", "⇒", aria_label="is made from")
    arrow = tag("span", "⇒", aria_label="is made from")
    return tag("span.cs-retro.cs-given", tag("small", conditions), arrow, tag("small", source))


def _precursor_captions(card: Suggestion) -> tuple[str, ...]:
    """Return for each precursor its name, if it has a common one, and below whether it can be bought."""
    parts = card.best.canonical.split(".")
    bought = card.stock or ("",) * len(parts)
    named = [""] * len(parts)
    for salt in group_salts(parts):
        name = name_in_list(str(chem.canonical(".".join(parts[ion] for ion in salt))))
        named[salt[0]] = name if len(name) <= MAX_NAME else ""
    return tuple(" · ".join(filter(None, both)) for both in zip(named, bought, strict=True))


def card_footer(question: Question, card: Suggestion) -> str:
    """Return what is wrong, what the forward model says, which reagents are usual, and precedents, as Markdown."""
    check, badges, parts = card.check, [], [*map(plain_text, card.notes)]
    for text in (problem.removeprefix("the ") for problem in card.problems):
        chance = ""
        if check and check.verdict == "differs" and check.product and text.startswith("forward model"):
            chance = f" ({format_percent(check.probability)})"
        badges.append(_badge("orange", f"⚠ {text}{chance}"))
    if card.best.valid and (question.task == "retro" or card.rank == 1):  # once for a flask
        badges += [_badge("orange", f"Hazard: {sentence}") for sentence in hazards(*card.sides)]
    conditions = conditions_over_arrow(card)[0]
    if check and check.confirmed:
        given = " with these conditions" if check.added else ""
        badges.append(_badge("green", f"✓ forward model agrees{given} ({format_percent(check.probability)})"))
    usual = _reagent_names(card.step.reagents) if question.task == "retro" and card.step else ""
    if usual and not (check and check.added) and not conditions:
        parts.append(plain_text(f"usual: {usual}"))
    if (vote := card.best.vote) is not None:
        parts.append(f"from {vote.variants} SMILES variant{'s' * (vote.variants > 1)} of the query")
    line = plain_text(precedents_line(card))
    count = line.replace(" ", "\u00a0") if line.startswith("no ") else line  # kept together behind a badge
    words = " · ".join(filter(None, (*parts, count)))
    return " ".join(filter(None, (*badges, words)))  # a dot behind a badge could begin a line


def _badge(color: str, text: str) -> str:
    return f":{color}-badge[{plain_text(text)}]"


def _reagent_names(reagents: str) -> str:
    """Return reagents as chemists write them; empty unless all have a name."""
    if not reagents:
        return ""
    drawn, names = split_drawn_and_named([*reagents.split("."), "C" * 30])  # the last is nameless, or all are drawn
    return ", ".join(names) if len(drawn) == 1 else ""


def precedents_line(card: Suggestion) -> str:
    """Return the number of precedents; empty without an index."""
    matches = card.precedents
    if matches is None:
        return ""
    text = f"{matches.close:,} precedent{'s' * (matches.close > 1)}"
    if not matches.close:
        text = f"no close precedent ({matches.wide:,} make the same bonds)" if matches.wide else "no precedent found"
    if matches.seen_by(card.task):
        return f"this very reaction is in the training data; {text}"
    if not matches.same:
        return text
    return f"this very reaction is {'one of yours' if matches.same.own else 'in a patent'}; {text}"


# --- details ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Answer:
    """An answer of the page, with what its details refer to."""

    question: Question
    card: Suggestion
    others: Sequence[Suggestion]  # all answers of the page
    picture: Picture | None  # its greedy decoding, if this answer is the first one
    key: str  # a prefix for the keys of widgets


def show_precursors(answer: Answer) -> None:
    """Draw each molecule of an answer with a button that asks how to make it."""
    parts = [part for part in dict.fromkeys(answer.card.best.canonical.split(".")) if len(part) >= MIN_CHARS]
    with st.container(horizontal=True, vertical_alignment="bottom"):
        for number, part in enumerate(parts):
            with st.container(width="content", horizontal_alignment="center"):
                st.html(tag("div.cs-scheme.cs-tight", scheme.side_html(Side(part))))
                key, ask = f"{answer.key}_next_{number}", (part, "retro")
                if st.button("Find precursors", key=key, on_click=query_panel.submit_text, args=ask):
                    st.rerun()  # the whole page, not this card alone


def precedents_footnote() -> str:
    """Return which precedent index is installed, or how to build one, as one sentence of Markdown."""
    try:
        matches = precedents.installed()
    except (ValueError, OSError) as error:
        return f"No precedents: {plain_text(str(error))}."
    if matches is None:
        return f"No index of patent reactions is installed; `{precedents.BUILD_COMMAND}` makes one."
    return f"Precedents and conditions: from {len(matches):,} reactions of US patents (Lowe's text mining, CC0)."


def show_precedents(answer: Answer) -> None:
    """Draw the nearest precedents, and the form that tries conditions."""
    card, matches = answer.card, answer.card.precedents
    if card.task == "retro" and (names := queued_engine.model_names("forward")):
        _try_conditions(card, names[0], answer.key)
    if matches is None:
        st.caption(precedents_footnote())
        return
    target = f" The target is the product of {matches.product}." if card.task == "retro" and matches.product else ""
    text = f"{matches.in_words}, counted by the atoms that change and what they are bonded to.{target}"
    st.caption(plain_text(text[:1].upper() + text[1:]))
    for precedent in matches.nearest:
        show_precedent(precedent)


def show_precedent(precedent: precedents.Precedent) -> None:
    """Draw a patent reaction, with its similarity, patent and reagents."""
    change = classify_step(precedent.reactants, precedent.product)
    left, right = scheme_sides(precedent.reactants, precedent.product, change)
    kind = "the same reaction" if precedent.same else f"similarity {precedent.similarity:.2f}"
    facts = [kind, *([] if precedent.close else ["other neighbours"]), precedent.source or "patent not known"]
    facts.append(precedent.text or "reagents not recorded")
    st.html(tag("div.cs-precedent", scheme.reaction_html(left, right, over=precedent.text)))
    st.caption(plain_text(" · ".join(facts)))


def offered_conditions(card: Suggestion, proposed: Sequence[tuple[str, float]]) -> dict[str, str]:
    """Return conditions to choose from and their labels: recorded ones, `proposed` reagents with chances, none."""
    offered: dict[str, str] = {}
    for conditions in card.precedents.conditions if card.precedents else ():
        text = without_subscripts(conditions.text)
        offered[text] = f"{text} (recorded with {conditions.count} of the nearest precedents)"
    for reagents, chance in proposed:
        text = without_subscripts(precedents.in_words(reagents))
        offered.setdefault(text, f"{text} (proposed by a model, {format_percent(chance)})")
    return offered | {"": "no reagents"}


def _try_conditions(card: Suggestion, model: str, key: str) -> None:
    checker = reviewing.session_checker()
    checker.propose([card.reaction])
    offered = offered_conditions(card, checker.proposed_sets(card.reaction) or ())
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        written = st.selectbox(
            "Conditions: choose, or type names or SMILES such as K2CO3, DMF",
            list(offered),
            format_func=lambda text: offered.get(text, text),
            accept_new_options=True,
            key=f"{key}_conditions",
        )
        pressed = st.button("Check with the forward model", key=f"{key}_check")
    if pressed:
        with st.spinner("Running the forward model"):
            st.caption(forward_opinion(model, card.best.canonical, (written or "")[:1000], card.query))


def forward_opinion(model: str, reactants: str, written: str, target: str) -> str:
    """Return the forward model's prediction for reactants with conditions, as one sentence of Markdown."""
    added = ""
    if written.strip():
        read = formats.read_input(written, task="forward")
        if isinstance(read, chem.Fault):
            return f"These conditions cannot be read: {plain_text(str(read))}"
        added = read.smiles
    flask = ".".join(filter(None, (reactants, added)))
    if (engine := queued_engine.engine_or_message(model)) is None:
        return ""
    result = QueuedEngine(engine).predict([flask], CHECK_SETTINGS)[0]
    if result.status != "ok":
        return f"The forward model cannot answer this: {plain_text(result.message)}."
    given = f"With {plain_text(precedents.in_words(added))}" if added else "Without reagents"
    for rank, answer in enumerate(result.hypotheses, 1):
        if answer.valid and gives_target(target, answer.canonical):
            position = "its first answer" if rank == 1 else f"its answer {rank}"
            chance = format_percent(answer.model_probability)
            return f"{given}, the forward model gives the target as {position}, with {chance}."
    first = next((answer.canonical for answer in result.hypotheses if answer.valid), "")
    instead = f", but `{first}` ({format_percent(result.hypotheses[0].model_probability)})" if first else ""
    return f"{given}, the target is not among the forward model's {len(result.hypotheses)} answers{instead}."


def show_origins(answer: Answer) -> None:
    """Draw query and answer, with the atoms that were copied in colours."""
    if answer.picture:
        parts = ("pictures", "query", "answer", "hint", "legend")
        frame, name = Frame(parts, style="wide", whole=True), f"{answer.key}_origins"
        show_figure([answer.picture.result], [frame], alt="The atoms that were copied", key=name)
        if words := describe_choices(answer.picture.view, answer.question.task):
            st.caption(plain_text(f"{words}."))
        if st.button("How it was written, pass by pass", key=f"{answer.key}_story", type="tertiary"):
            nav.open_page("learn", task=answer.question.model, smi=answer.question.smiles)


def show_why(answer: Answer) -> None:
    """Explain an answer: the product that the forward model expects, and the positions of least certainty."""
    card, question = answer.card, answer.question
    if check := card.check:
        added = precedents.in_words(check.added) if check.added else "the reactants alone"
        st.caption(plain_text(f"Forward model with {added}: {describe_check(check)}."))
        if check.verdict == "differs" and check.product:
            st.html(tag("div.cs-scheme.cs-tight", scheme.side_html(Side(check.product))))
    engine = queued_engine.load_engine(question.model)

    def look() -> list[Fork]:
        with queued_engine.hold_turn():
            return find_forks(engine, question.smiles, card.best)

    key = (engine.full_digest, engine.dtype, question.smiles, card.best.smiles)
    ranks = {other.canonical: suggestion.rank for suggestion in answer.others for other in suggestion.members}
    st.html(forks_html(card.best, queued_engine.session_cached("_forks", key, look), ranks))
    if accuracy := describe_class_accuracy(engine.folder, card):
        st.caption(accuracy)


def forks_html(answer: Hypothesis, forks: Sequence[Fork], ranks: dict[str, int]) -> Html:
    """Return low-margin positions as safe HTML, each with its alternative drawn; `ranks` are of the answers shown."""
    if not forks:
        return tag("p.cs-hint", "No low-margin choices: no alternative token leads to another molecule.")
    parts = [tag("p", "The answer is written token by token. The least certain choices that lead to another molecule:")]
    for fork in forks:
        tokens, position = [*answer.tokens, "end"], fork.position
        after = tokens[position + 1 : -1]
        written = tag("code", *tokens[:position], tag("mark", tokens[position]), *after)
        token, other = ("the end" if text == "end" else text for text in (fork.token, fork.alternative))
        rank, same_card = ranks.get(fork.smiles), ranks.get(fork.smiles) == ranks.get(answer.canonical)
        shown = " a similar answer of this card" if same_card else f" answer {rank} of this page"
        where = shown if rank else ""
        chances = map(format_percent, (fork.probability, fork.alternative_probability))
        sentence = f" {next(chances)}, ", tag("b", other), f" {next(chances)}. {other} would give{where}:"
        drawn = tag("div.cs-scheme.cs-tight", scheme.side_html(Side(fork.smiles)))
        parts.append(tag("section.cs-fork", written, tag("p", tag("b", token), *sentence), drawn))
    return join(*parts)


def describe_class_accuracy(folder: Path, card: Suggestion) -> str:
    """Return how often a model was right on test reactions of an answer's class; empty if that was not measured."""
    for name, count, shares in read_accuracy(folder)[1]:
        if card.step is not None and name == card.name and shares:
            return (
                f"{plain_text(name)}: of {count} test reactions {shares[0][1]:.0f} % had the recorded answer first "
                "([all classes](/models))."
            )
    return ""


def show_more(answer: Answer) -> None:
    """Draw what the class means, similar answers, the probability of each token, 3-D view and files."""
    question, card = answer.question, answer.card
    if card.step:
        st.caption(plain_text(card.step.sentence))
    if card.alternatives:
        rows = []
        for twin, change in ((card.best, card.step), *card.alternatives):
            warning = " ⚠ stereochemistry changes" * bool(change and spoils_stereo(change))
            rows.append(f"- {format_percent(twin.probability)} `{twin.canonical}`{warning}")
        st.caption("Similar answers, each with its own percentage:\n\n" + "\n".join(rows))
    st.caption("The probability of each token after those before it, in percent; the more orange, the less sure.")
    st.html(token_probabilities_html(card.best))
    with st.container(horizontal=True, gap="small"):
        if st.button("3-D view", key=f"{answer.key}_3d"):
            _show_3d_dialog(card.best.canonical)
        left, right = card.sides
        over = ""  # a flask has its own
        if question.task == "retro":
            over, source = conditions_over_arrow(card)
            over += " (proposed)" * (source == PROPOSED_BY_MODEL)
        name, drawn = f"answer-{card.rank}", (left, right, card.step, over)
        download_button("SVG", scheme_to_svg(*drawn), f"{name}.svg", "image/svg+xml")
        download_button("PNG", scheme_to_png(*drawn), f"{name}.png", "image/png")
        download_button("RXN", formats.to_rxn(left, right), f"{name}.rxn", "chemical/x-mdl-rxnfile")
        download_button("SDF", formats.to_sdf([answer_record(card)]), f"{name}.sdf", "chemical/x-mdl-sdfile")
        download_button("CDXML", scheme_to_cdxml(*drawn), f"{name}.cdxml", "chemical/x-cdxml")


@st.dialog("3-D view", width="medium")
def _show_3d_dialog(smiles: str) -> None:
    parts = sorted(set(smiles.split(".")), key=lambda part: -len(part))
    view3d.show_3d_model(st.selectbox("Molecule", parts) if len(parts) > 1 else parts[0], height=360, key="predict_3d")
    st.caption("One conformer from RDKit's force field, not a prediction of the model.")


def token_probabilities_html(answer: Hypothesis) -> Html:
    """Return the answer token by token, each with its probability, as safe HTML."""
    cells = []
    for token, log_prob in zip((*answer.tokens, "end"), answer.token_log_probs, strict=False):
        percent = 100 * exp(log_prob)
        text = tag("b", token), tag("i", f"{percent:.0f}")
        cells.append(tag("span.cs-token", *text, style=f"--doubt:{100 - percent:.0f}%"))
    return tag("div.cs-strip-tokens", *cells)


def download_button(label: str, content: str | bytes, name: str, mime: str) -> None:
    """Draw the button of a file, unless it is empty."""
    if content:
        st.download_button(label, content, name, mime, key=f"predict_file_{name}", on_click="ignore")


def answer_record(card: Suggestion) -> dict[str, object]:
    """Return an answer as a record of a file, in the columns of Batch's results."""
    left, right = card.sides
    return {
        "query": card.query,
        "rank": card.rank,
        "smiles": card.best.canonical,
        **suggestion_cells(card.task, suggestion_document(card, {})),
        "model_probability": float(f"{card.best.model_probability:.6g}"),
        "proposed_reagents": next((reagents for reagents, _ in card.proposed), ""),
        "reaction": f"{left}>>{right}",
    }


VIEWS: dict[str, Callable[[Answer], None]] = {
    "One step back": show_precursors,
    "Precedents": show_precedents,
    "Why?": show_why,
    "More": show_more,
    "Copied atoms": show_origins,
}
