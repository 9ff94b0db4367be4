"""A trace in symbols, atoms, bonds and ring labels, of which a merged token has several, so that strips show text."""

from collections.abc import Sequence
from dataclasses import replace

from chemspec import chem
from chemspec.replay.trace_view import END, AnswerView, DraftView, TraceView, symbols_of


def view_symbols(view: TraceView) -> TraceView:
    """Return a view with a symbol in place of every token of answers and drafts; as it is without merged tokens.

    Symbols of one token have its `number`; counts of a draft are of symbols then, those of a pass of tokens.
    """
    if not view.merged:
        return view
    passes = (replace(each, drafts=tuple(map(_split_draft, each.drafts))) for each in view.passes)
    return replace(view, passes=tuple(passes), answers=tuple(map(_split_answer, view.answers)))


def _split_answer(answer: AnswerView) -> AnswerView:
    parts = []
    for token in answer.tokens:
        symbols = symbols_of(token.text, merged=True)
        whole = token.text if len(symbols) > 1 else ""
        for offset, symbol in enumerate(symbols):
            source = None if token.source is None else token.source + offset
            parts.append(replace(token, text=symbol, source=source, whole=whole))
    written = [part.text for part in parts if part.text != END]
    atoms = (*chem.atom_tokens(written), *[None] * (len(parts) - len(written)))  # the end mark is the last one
    return replace(answer, tokens=tuple(replace(part, atom=atom) for part, atom in zip(parts, atoms, strict=True)))


def _split_draft(draft: DraftView) -> DraftView:
    split = [symbols_of(token, merged=True) for token in draft.tokens]

    def count(tokens: int) -> int:
        return sum(map(len, split[:tokens]))

    return replace(
        draft,
        tokens=tuple(symbol for symbols in split for symbol in symbols),
        accepted=count(draft.accepted),
        right=count(draft.right),
        waiting=count(draft.waiting),
        numbers=_repeat_numbers(split),
    )


def _repeat_numbers(split: Sequence[Sequence[str]]) -> tuple[int, ...]:
    return tuple(number for number, symbols in enumerate(split) for _ in symbols)
