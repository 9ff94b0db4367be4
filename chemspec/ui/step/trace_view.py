"""What happened at every pass, as plain values that a browser can draw without knowing anything about models.

A draft may be relabelled when it is copied (the ring `2` of the query becomes the ring `1` of the answer), so where a
token
came from is told by its position in the copied span, never by its text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Literal

from chemspec import chem
from chemspec.metrics import SpeedNumbers, numbers
from chemspec.types import AHEAD, ASKED, DecodeResult, Draft, Hypothesis, Pass, Trace
from chemspec.ui.step.prefix_tree import NEVER, Tree, tree

END = "end"  # how end-of-sequence is shown
MOST_DRAFTS = 25  # shown of a pass

Made = Literal["copied", "ahead", "own"]


@dataclass(frozen=True)
class Piece:
    """One token of an answer.

    Attributes:
        atom: its atom in the drawing, if it has one.
        made: copied from the query, drafted otherwise, or the model's own.
        source: the place in the query from which it was copied.
        step: the pass, from 1, that wrote it.
        run: number of the copied run that it belongs to.
    """

    text: str
    atom: int | None
    made: Made
    source: int | None
    step: int
    run: int | None


@dataclass(frozen=True)
class Answer:
    """An answer with the origin of its tokens; the last piece is the end mark, unless the answer was cut."""

    smiles: str
    valid: bool
    probability: float
    pieces: tuple[Piece, ...]


@dataclass(frozen=True)
class Proposal:
    """A draft and its fate after its pass.

    Attributes:
        start: place in the query from which it was copied.
        accepted: tokens from the first on that were accepted.
        right: tokens up to which the model wrote the same, the last of them itself.
        waiting: tokens up to which nothing speaks against it yet; the rest is rejected.
        held: tokens that were accepted in the end, in this pass or (in a beam) a later one.
    """

    tokens: tuple[str, ...]
    drafter: str
    start: int | None
    accepted: int
    right: int
    waiting: int
    held: int


@dataclass(frozen=True)
class Step:
    """One pass: what was proposed, what came of it, and the counts up to here."""

    written: int
    emitted: int
    accepted: int
    computed: int
    drafted: int
    proposals: tuple[Proposal, ...]
    hidden: int
    so_far: SpeedNumbers
    says: str


@dataclass(frozen=True)
class TraceView:
    """A result, told pass by pass.

    Attributes:
        atoms: of every query token its atom in the drawing, if it has one.
        several: whether the search followed several hypotheses, so that a step is one of all of them.
        grove: the tree of prefixes, if it was recorded.
    """

    query: tuple[str, ...]
    atoms: tuple[int | None, ...]
    steps: tuple[Step, ...]
    answers: tuple[Answer, ...]
    several: bool
    grove: Tree | None


def story(result: DecodeResult) -> TraceView:
    """Tell how an answer was made.

    Raises:
        ValueError: if there is no answer or no pass, or if the parts of the trace do not fit together.
    """
    trace = result.trace
    if result.spellings:
        raise ValueError("its answers are merged from several spellings, each with passes of its own")
    if result.status != "ok" or not result.hypotheses or not trace.passes:
        raise ValueError("it holds no answer with the passes that made it")
    grove = tree(trace, [item.tokens for item in result.hypotheses])
    ends = list(accumulate(item.emitted for item in trace.passes))
    answers = tuple(_answer(item, trace, grove, ends) for item in result.hypotheses)
    steps = tuple(_step(number, trace, answers[0], grove, ends) for number in range(len(trace.passes)))
    atoms = chem.atom_tokens(trace.query)
    return TraceView(trace.query, atoms, steps, answers, _several(trace), grove)


def _several(trace: Trace) -> bool:
    return bool(trace.settings.get("decoder", "greedy") != "greedy")


def _answer(item: Hypothesis, trace: Trace, grove: Tree | None, ends: Sequence[int]) -> Answer:
    texts = (*item.tokens, END) if item.ended == "eos" else item.tokens
    atoms = (*chem.atom_tokens(item.tokens), None)
    sources = _from_tree(item, grove) if grove and _several(trace) else _from_spans(item, trace)
    pieces: list[Piece] = []
    step, run = 0, -1
    for place, text in enumerate(texts):
        while step < len(ends) - 1 and ends[step] <= place:
            step += 1
        made, source = sources.get(place, ("own", None))
        last = pieces[-1] if pieces else None
        if source is None:
            number = None
        else:
            joins = last is not None and last.source == source - 1
            run += not joins
            number = run
        pieces.append(Piece(text, atoms[place], made, source, step + 1, number))
    return Answer("".join(item.tokens), item.valid, item.probability, tuple(pieces))


Sources = dict[int, tuple[Made, int | None]]  # place in the answer -> how made, place in the query


def _from_spans(item: Hypothesis, trace: Trace) -> Sources:
    """Origins by what the passes say was accepted; they tell of the hypothesis that led at the time, hence the
    check."""
    found: Sources = {}
    for step in trace.passes:
        for span in step.spans:
            for offset in range(min(span.length, len(item.tokens) - span.start)):
                place, source = span.start + offset, None
                if span.span is not None and span.span[0] + offset < len(trace.query):
                    source = span.span[0] + offset
                    if not _alike(trace.query[source], item.tokens[place]):
                        continue
                found[place] = ("ahead", None) if source is None else ("copied", source)
    return found


def _from_tree(item: Hypothesis, grove: Tree) -> Sources:
    """Origins by the tree: what had been computed before it was asked for had been drafted."""
    path = next((own for own in grove.answers if [grove.texts[node] for node in own[1:]] == list(item.tokens)), ())
    found: Sources = {}
    for place, node in enumerate(path[1:]):
        source = grove.sources[node]
        if source != ASKED:
            found[place] = ("copied", source) if source > AHEAD else ("ahead", None)
    return found


def _alike(one: str, other: str) -> bool:
    """Whether two tokens are equal, ring labels being interchangeable."""
    return one == other or (_is_ring(one) and _is_ring(other))


def _is_ring(text: str) -> bool:
    return text.isdigit() or text.startswith("%")


def _step(number: int, trace: Trace, best: Answer, grove: Tree | None, ends: Sequence[int]) -> Step:
    item = trace.passes[number]
    several = _several(trace)
    if grove and several:
        proposals = _chains(number + 1, trace, grove)
    else:
        start, texts = ends[number] - item.emitted, [piece.text for piece in best.pieces]
        proposals = [_proposal(draft, texts, start, item, trace) for draft in item.drafts]
    proposals.sort(key=lambda one: (-one.accepted, -one.waiting))  # stable: else as drafted
    so_far = numbers([replace(trace, passes=trace.passes[: number + 1])])
    return Step(
        written=ends[number],
        emitted=item.emitted,
        accepted=item.accepted,
        computed=item.computed,
        drafted=item.drafted,
        proposals=tuple(proposals[:MOST_DRAFTS]),
        hidden=max(0, len(proposals) - MOST_DRAFTS),
        so_far=so_far,
        says=_says(number, item, proposals, so_far, len(trace.passes), several),
    )


def _text(draft: Draft, place: int, trace: Trace) -> str:
    """The text of a draft's token; without a vocabulary, that of the query at its position."""
    token = draft.tokens[place]
    if 0 <= token < len(trace.vocabulary):
        text = trace.vocabulary[token]
        return END if text == "<eos>" else text
    copied = draft.source(place)
    source = -1 if copied is None else copied
    if source == len(trace.query):
        return END
    return trace.query[source] if 0 <= source < len(trace.query) else f"#{token}"


def _proposal(draft: Draft, answer: Sequence[str], start: int, item: Pass, trace: Trace) -> Proposal:
    """A draft after the first `start` tokens of the only hypothesis, and what came of it."""
    texts = tuple(_text(draft, place, trace) for place in range(len(draft.tokens)))
    right = 0
    for one, other in zip(texts, answer[start : start + item.emitted], strict=False):
        if not (one == other if trace.vocabulary else _alike(one, other)):
            break
        right += 1
    # The last token of a pass is the model's own, even where the draft had it too.
    accepted = min(right, item.emitted - 1, item.accepted)
    place = draft.span[0] if draft.span else None
    return Proposal(texts, draft.drafter, place, accepted, right, right, accepted)


def _chains(step: int, trace: Trace, grove: Tree) -> list[Proposal]:
    """The pieces of the query that a pass of a beam search computed ahead, wherever in the tree they hang."""
    new = [node for node, born in enumerate(grove.born) if born == step]
    inside, found = set(new), []
    begun: set[int] = set()
    for node in new:
        if grove.sources[node] < 0 or node in begun:
            continue
        chain = [node]
        while True:
            onward = [
                one
                for one in grove.children[chain[-1]]
                if one in inside and grove.sources[one] == grove.sources[chain[-1]] + 1
            ]
            if not onward:
                break
            chain.append(onward[0])
        begun.update(chain)
        alive = [one for one in chain if grove.dies[one] > step]
        accepted = sum(grove.kept[one] <= step for one in alive)
        found.append(
            Proposal(
                tuple(grove.texts[one] for one in chain),
                str(trace.settings.get("drafter", "")),
                grove.sources[node],
                accepted,
                accepted,
                len(alive),
                sum(grove.kept[one] < NEVER for one in chain),
            )
        )
    return found


def _says(
    number: int, item: Pass, proposals: Sequence[Proposal], so_far: SpeedNumbers, passes: int, several: bool
) -> str:
    """A pass in words, for those who listen instead of looking."""
    head, tail = f"Pass {number + 1} of {passes}. ", f"; {_count(so_far.emitted, 'token')} so far."
    if several:
        ahead = f"{item.asked} prefixes asked for, {item.drafted} computed ahead. "
        return f"{head}{ahead}The beam grew by {_count(item.emitted, 'token')}{tail}"
    draft = "Nothing was drafted. "
    if proposals:
        first = proposals[0]
        count = "A draft of " if len(proposals) == 1 else f"{len(proposals)} drafts, the best has "
        place = "" if first.start is None else f" copied from query token {first.start + 1} on"
        draft = f"{count}{_count(len(first.tokens), 'token')}{place}; {first.accepted} accepted. "
    own = item.emitted - item.accepted
    return f"{head}{draft}The model added {_count(own, 'token')} of its own{tail}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def by_offset(told: TraceView) -> list[tuple[int, int, int]]:
    """How far drafts hold: (offset, passes, accepted), offsets from 1.

    `passes` counts the passes in which some draft had a token at this offset, `accepted` those in which some draft was
    right up to and including it.
    """
    longest = [max((len(one.tokens) for one in step.proposals), default=0) for step in told.steps]
    held = [max((one.held for one in step.proposals), default=0) for step in told.steps]
    return [
        (offset, sum(one >= offset for one in longest), sum(one >= offset for one in held))
        for offset in range(1, max(longest, default=0) + 1)
    ]
