"""The parts of a card as text: header, scheme and footer."""

from dataclasses import replace

from chemspec import chem, precedents
from chemspec.chem.flask_check import hazards, missing_or_conflicting
from chemspec.chem.names.reagents import name_in_list
from chemspec.chem.names.short_names import split_drawn_and_named
from chemspec.chem.salts import group_salts
from chemspec.depict.schemes import scheme_sides
from chemspec.plan.stock import all_marks
from chemspec.review.suggestions import Suggestion, confidence_word, format_percent
from chemspec.ui.common import scheme
from chemspec.ui.common.escaping import Html, plain_text, tag
from chemspec.ui.predict import reviewing
from chemspec.ui.predict.query_panel import Question

LONGEST_NAME = 32  # characters below a drawing
MAX_CONDITIONS_CHARS = 60  # characters of conditions over an arrow


def card_header(question: Question, card: Suggestion) -> Html:
    """Return rank, class and probability, as safe HTML."""
    odds, step = card.probability, card.step
    if not card.calibrated:
        caption = "by the model, not measured"
    elif question.task == "retro":
        caption = "probability of the recorded route"
    elif missing_or_conflicting(question.smiles, card.best.canonical):
        caption = "probability with the right reagents"
    else:
        caption = confidence_word(odds) if card.rank == 1 or odds > 0.3 else "unlikely"
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
    text = precedents.in_words(reagents) if reagents else ""
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
        named[salt[0]] = name if len(name) <= LONGEST_NAME else ""
    return tuple(" · ".join(filter(None, both)) for both in zip(named, bought, strict=True))


def card_footer(question: Question, card: Suggestion) -> str:
    """Return what is wrong, what the forward model says, which reagents are usual, and precedents, as Markdown."""
    check, badges, parts = card.check, [], [*map(plain_text, card.notes)]
    for text in (problem.removeprefix("the ") for problem in card.problems):
        chance = ""
        if check and check.verdict == "differs" and check.product and text.startswith("forward model"):
            chance = f" ({format_percent(check.probability)})"
        badges.append(_badge("orange", f"⚠ {text}{chance}"))
    if card.best.valid and (question.task == "retro" or card.rank == 1):  # of a flask once
        badges += [_badge("orange", f"Hazard: {sentence}") for sentence in hazards(*card.sides)]
    conditions = conditions_over_arrow(card)[0]
    if check and check.confirmed:
        over_arrow = not check.added or check.added == card.reagents[0]
        given = "" if over_arrow else f", {_reagent_names(check.added) or 'usual reagents'} added"
        badges.append(_badge("green", f"✓ forward model agrees{given} ({format_percent(check.probability)})"))
    usual = _reagent_names(card.step.reagents) if question.task == "retro" and card.step else ""
    if usual and not (check and check.added) and not conditions:
        parts.append(plain_text(f"usual: {usual}"))
    if (vote := card.best.vote) is not None:
        parts.append(f"from {vote.spellings} SMILES variant{'s' * (vote.spellings > 1)} of the query")
    words = " · ".join(filter(None, (*parts, plain_text(precedents_line(card)))))
    return " ".join(filter(None, (*badges, words)))  # a dot behind a badge could begin a line


def _badge(color: str, text: str) -> str:
    return f":{color}-badge[{plain_text(text)}]"


def _reagent_names(reagents: str) -> str:
    """Return reagents as chemists write them; empty unless all have a name."""
    if not reagents:
        return ""
    drawn, names = split_drawn_and_named([*reagents.split("."), "C" * 30])  # with a nameless one, or all are drawn
    return ", ".join(names) if len(drawn) == 1 else ""


def precedents_line(card: Suggestion) -> str:
    """Return the number of precedents; empty without an index."""
    matches = card.precedents
    if matches is None:
        return ""
    count = matches.close or matches.wide
    kind = "" if matches.close else " of this kind"
    text = f"{count:,} precedent{'s' * (count > 1)}{kind}" if count else "no precedent found"
    if matches.seen_by(card.task):
        return f"this very reaction is in the training data; {text}"
    return f"this very reaction is in a patent; {text}" if matches.same else text
