"""The pictures of the page Learn, as HTML text; drawn from recorded traces by pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from math import exp

from chemspec import chem
from chemspec.metrics import SpeedNumbers, numbers
from chemspec.types import DecodeResult
from chemspec.ui.common import draw, look
from chemspec.ui.learn import lessons
from chemspec.ui.learn.chips import figure, key, label, picture, row, token
from chemspec.ui.learn.lesson_trees import lists, passes, tree
from chemspec.ui.learn.lessons import Step, copied, example, steps, written

KEPT, OWN, LOST = (("kept", "copied and kept"), ("own", "the model's own"), ("lost", "drafted, thrown away"))


def reaction(result: DecodeResult, dark: bool, colored: bool = False) -> str:
    """Query and first answer as drawings; coloured: the atoms of each copied fragment, here and there."""
    answer, query = result.hypotheses[0].tokens, result.trace.query
    there: dict[int, str] = {}
    here: dict[int, str] = {}
    if colored:
        of_query, of_answer = chem.atom_tokens(query), chem.atom_tokens(answer)
        for piece in copied(result):
            for k in range(piece.length):
                color = look.span_color(piece.fragment)
                for atoms, place, fills in ((of_query, piece.source + k, there), (of_answer, piece.start + k, here)):
                    atom = atoms[place] if place < len(atoms) else None
                    if atom is not None:
                        fills[atom] = color
    left = draw.molecule("".join(query), width=360, height=230, dark=dark, fills=there)
    right = draw.molecule("".join(answer), width=270, height=170, dark=dark, fills=here)
    parts = (picture(left, "query"), "<b aria-hidden=true>→</b>", picture(right, "answer"))
    return f'<div class="cl-reaction">{"".join(parts)}</div>'


def writing(result: DecodeResult, dark: bool) -> str:
    """A query, its answer, and how sure the model was of every token."""
    best, bars = result.hypotheses[0], ""
    for text, log_prob in zip(written(result), best.token_log_probs, strict=True):
        sure = exp(log_prob)
        low = sure < 0.97
        note = f"{100 * sure:.0f}%" if low else ""
        bars += (
            f'<span class="cl-bar {"low" if low else ""}"><em>{note}</em>'
            f'<i style="height:{2 + 46 * sure:.0f}px"></i>{token(text)}</span>'
        )
    alt = f"The query {''.join(result.trace.query)} becomes {best.smiles}; a bar over each of its tokens shows the model's probability."
    body = reaction(result, dark) + label("the answer, token by token, and how sure the model was")
    return figure(f'{body}<div class="cl-bars">{bars}</div>', alt)


def lanes(standard: DecodeResult, drafted: DecodeResult, play: int) -> str:
    """The same answer pass by pass: a box is one pass. It plays once; `play` tells one showing from the next."""

    def lane(name: str, result: DecodeResult) -> str:
        boxes, answer = "", written(result)
        for number, step in enumerate(steps(result)):
            inside = [token(text, "kept", 0) for text in answer[step.start : step.start + step.kept]]
            inside += [token(step.own, "own")] if step.own else []
            style = f"animation:cl-show .25s {0.3 + 0.32 * number:.2f}s both"
            boxes += f'<span class="cl-pass" data-play="{play}" style="{style}">{"".join(inside)}</span>'
        count = f"<small>{len(result.trace.passes)} passes</small>"
        return f'<div class="cl-lane"><b>{name}{count}</b><div class="cl-passes">{boxes}</div></div>'

    alt = f"The standard way writes one token in each of {len(standard.trace.passes)} passes; with drafts {len(drafted.trace.passes)} passes suffice."
    body = lane("Standard", standard) + lane("With drafts", drafted) + key(KEPT, OWN)
    # A fresh name for the animation's element makes the browser play it again.
    return figure(f'<div id="cl-lanes-{play}">{body}</div>', alt)


def provenance(result: DecodeResult, dark: bool) -> str:
    """Which pieces of the query the answer was copied from."""
    here: dict[int, int] = {}
    there: dict[int, int] = {}
    for piece in copied(result):
        for k in range(piece.length):
            here[piece.start + k] = there[piece.source + k] = piece.fragment
    body = reaction(result, dark, colored=True)
    body += label("query") + row(result.trace.query, lambda k: ("kept", there[k]) if k in there else ("", 0))
    body += label("answer") + row(written(result), lambda k: ("kept", here[k]) if k in here else ("own", 0))
    alt = f"{len(here)} of the answer's {len(written(result))} tokens are copied from the query, in {len(set(here.values()))} fragments."
    return figure(body + key(("kept", "copied (one colour a fragment)"), OWN), alt)


def storyboard(result: DecodeResult, dark: bool) -> str:
    """Every pass of a greedy answer: the draft, lit in the query, and what became of it."""
    answer, found = written(result), steps(result)
    cards = "".join(_card(result, answer, step, number, dark) for number, step in enumerate(found))
    alt = "; ".join(
        f"pass {number}: {step.kept} of {len(step.draft)} drafted tokens kept, then {step.own or 'none'} by the model"
        for number, step in enumerate(found, 1)
    )
    body = f'<div class="cl-cards">{cards}</div>' + key(KEPT, OWN, LOST, ("before", "written before"))
    return figure(body, alt)


def _card(result: DecodeResult, answer: Sequence[str], step: Step, number: int, dark: bool) -> str:
    query, span = result.trace.query, step.span or (0, 0)
    atoms = chem.atom_tokens(query)
    fills = {
        atom: look.span_color(number) if k < span[0] + step.kept else "#9aa5a3"
        for k in range(*span)
        if (atom := atoms[k]) is not None
    }
    drawing = draw.molecule("".join(query), width=400, height=190, dark=dark, fills=fills)
    drafted = row(step.draft, lambda k: ("kept", number) if k < step.kept else ("lost", 0))
    now = step.start + step.kept

    def mark(k: int) -> tuple[str, int]:
        return ("before", 0) if k < step.start else ("kept", number) if k < now else ("own", 0)

    total = step.kept + bool(step.own)
    verdict = {0: "Nothing fits.", len(step.draft): "All of it fits."}.get(
        step.kept, f"{step.kept} of {len(step.draft)} fit."
    )
    verdict += f" The model adds {step.own}." if step.own and step.own != "end" else ""
    verdict += " The model says: finished." if step.own == "end" else ""
    head = f'<div class="cl-head">Pass {number + 1}<small>{total} token{"s" if total > 1 else ""}</small></div>'
    return (
        f'<div class="cl-card">{head}{picture(drawing, "query, the draft lit")}{label("draft")}{drafted}'
        f'<div class="cl-verdict">{escape(verdict)}</div>{label("written so far")}{row(answer[: now + bool(step.own)], mark)}</div>'
    )


def check(result: DecodeResult, number: int) -> str:
    """One pass as the model sees it: draft and own choice side by side, up to the first difference."""
    step = steps(result)[number]
    own = (*written(result)[step.start : step.start + step.kept], step.own)
    width = len(own)
    cells: dict[str, list[str]] = {"draft": [], "model": [], "": []}
    for k, text in enumerate(step.draft):
        kept = k < step.kept
        cells["draft"].append(token(text, "kept" if kept else "lost", number))
        cells["model"].append(token(own[k], "kept" if kept else "own", number) if k < width else "")
        cells[""].append("✓" if kept else "✗" if k == step.kept else "")
    names = {"draft": "the draft", "model": "the model's choice", "": "equal?"}
    rows = "".join(
        f"<tr><th>{names[name]}</th>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for name, row in cells.items()
    )
    written_now = " ".join(own)
    body = f'<div tabindex="0" class="cl-scroll"><table class="cl-check">{rows}</table></div>'
    body += f'<div class="cl-verdict">Pass {number + 1} of the example. Written: <b>{escape(written_now)}</b>. Behind the ✗ nothing counts: the model was asked about a text that does not exist.</div>'
    alt = f"Draft {' '.join(step.draft)}; the model would write {written_now}; kept up to the first difference."
    return figure(body, alt)


def counted(result: DecodeResult) -> str:
    """The counts of a greedy answer, pass by pass, and the rates that follow."""
    found = numbers([result.trace])
    rows = "".join(
        f'<tr><td class="n">{number}</td><td class="n">{item.drafted}</td><td class="n">{item.accepted}</td><td class="n">{item.emitted}</td></tr>'
        for number, item in enumerate(result.trace.passes, 1)
    )
    head = "".join(f'<th class="n">{name}</th>' for name in ("pass", "drafted", "accepted", "written"))
    head = f"<tr>{head}</tr>"
    total = f'<tr><td class="n"><b>{found.passes}</b></td><td class="n"><b>{found.drafted}</b></td><td class="n"><b>{found.accepted}</b></td><td class="n"><b>{found.emitted}</b></td></tr>'
    rates = (
        ("tokens per pass", f"{found.emitted} / {found.passes}", f"{found.tokens_per_pass:.2f}"),
        ("acceptance rate", f"{found.accepted} / {found.emitted}", f"{found.acceptance_rate:.0%}"),
        ("draft hit rate", f"{found.accepted} / {found.drafted}", f"{found.draft_hit_rate:.0%}"),
        ("acceptance length", f"{found.accepted} / {found.passes} + 1", f"{found.acceptance_length:.2f}"),
    )
    right = "".join(
        f'<tr><td>{name}</td><td class="n">{how}</td><td class="n"><b>{value}</b></td></tr>'
        for name, how, value in rates
    )
    body = f'<div class="cl-two"><table>{head}{rows}{total}</table><table>{right}</table></div>'
    alt = "; ".join(f"{name} {how} = {value}" for name, how, value in rates)
    return figure(body, alt)


def anatomy(result: DecodeResult, number: int) -> str:
    """What is counted in one pass, place by place."""
    item, step, answer = result.trace.passes[number], steps(result)[number], written(result)
    last = token(answer[step.start - 1]) if step.start else token("start", "end")
    kept = [token(text, "kept", number) for text in step.draft[: step.kept]]
    drafted = kept + [token(text, "lost") for text in step.draft[step.kept :]]
    lines = (
        (
            "computed",
            item.computed,
            [last, *drafted],
            "places the model looks at: the last token written, and the draft",
        ),
        ("drafted", item.drafted, ["", *drafted], "guessed"),
        ("accepted", item.accepted, ["", *kept], "guessed right, up to the first mistake"),
        ("written", item.emitted, ["", *kept, token(step.own, "own")], "accepted, and one token of the model's own"),
    )
    rows = ""
    for name, count, cells, meaning in lines:
        inside = "".join(f"<td>{cell}</td>" for cell in cells)
        inside += f'<td colspan="{1 + item.computed - len(cells)}"></td>'
        rows += f"<tr><th>{name} <b>{count}</b></th>{inside}</tr>"
        rows += f'<tr class="why"><td></td><td colspan="{1 + item.computed}">{escape(meaning)}</td></tr>'
    alt = "; ".join(f"{name} {count}: {meaning}" for name, count, _, meaning in lines)
    return figure(f'<div tabindex="0" class="cl-scroll"><table class="cl-check">{rows}</table></div>', alt)


SECONDS = ("draft_seconds", "model_seconds", "waited_seconds", "seconds", "host_share")


def definitions(found: SpeedNumbers) -> str:
    """All figures of `metrics.Numbers` with their meaning, and their value in an example; times are left out there."""
    rows = ""
    for name, meaning in lessons.definitions().items():
        value = getattr(found, name)
        text = "" if name in SECONDS else f"{value:.2f}".rstrip("0").rstrip(".")
        title = escape(name.replace("_", " "))
        rows += f'<tr><td><b>{title}</b></td><td>{escape(meaning)}</td><td class="n">{text}</td></tr>'
    head = '<tr><th>figure</th><th>meaning</th><th class="n">example</th></tr>'
    return f'<div class="cl"><table style="width:100%">{head}{rows}</table></div>'


def idea(dark: bool, play: int = 0) -> tuple[str, ...]:
    """One picture for every section of assets/learn/idea.md, in its order."""
    drafted, standard = example("boc-copy"), example("boc-none")
    beam, ahead, relaxed = (example("amide-beam-none"), example("amide-beam-copy"), example("amide-sbs"))
    return (
        writing(drafted, dark),
        lanes(standard, drafted, play),
        provenance(drafted, dark),
        storyboard(drafted, dark),
        check(drafted, 1),
        tree(beam, dark) + passes(beam, ahead),
        lists(beam, relaxed),
        counted(drafted),
    )
