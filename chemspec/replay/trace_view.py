"""A trace as values for drawing: the drafts of every pass with their fate, the answers with their origin.

A draft may be relabelled when it is copied (the ring `2` of the query becomes the ring `1` of the answer), so the
origin of a token is its position in the copied span, never its text.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from math import exp
from typing import Literal

from chemspec import chem
from chemspec.metrics import speed_numbers
from chemspec.replay.prefix_tree import DrawnTree, build_tree
from chemspec.tokenizer import TokenError, split_smiles
from chemspec.types import DRAFTED, REQUESTED, DecodeResult, Draft, Hypothesis, Pass, Trace

MAX_DRAFTS = 25  # shown of a pass
END = "end"  # shown in place of the end-of-sequence token

Origin = Literal["copied", "ahead", "own"]


@dataclass(frozen=True)
class TokenView:
    """One token of an answer."""

    text: str
    origin: Origin  # copied from the query, drafted otherwise, or the model's own
    pass_number: int  # the pass, from 1, that wrote it
    atom: int | None = None  # index of its atom in the drawing, if it has one
    source: int | None = None  # position in the query from which it was copied
    run: int | None = None  # number of its copied run: adjacent copies with the same offset between answer and query
    probability: float | None = None  # the model's, given what stands before; None where the trace does not have it
    instead: tuple[str, float] | None = None  # the model's first choice, if a relaxed search let this stand
    number: int = 0  # place of the token in the answer, from 0
    whole: str = ""  # the token that this is a symbol of, if it has others (`symbols.view_symbols`)


@dataclass(frozen=True)
class AnswerView:
    """An answer with the origin of its tokens; the last token is the end mark, unless the answer was cut."""

    smiles: str
    probability: float
    tokens: tuple[TokenView, ...]


@dataclass(frozen=True)
class DraftView:
    """A draft and its fate after its pass."""

    tokens: tuple[str, ...]
    start: int | None  # position in the query from which it was copied
    accepted: int  # tokens from the first on that were accepted
    right: int  # tokens up to which the model wrote the same, the last of them itself
    waiting: int  # tokens up to which nothing speaks against it yet; the rest is rejected
    # what the model wrote where it left the draft, with its probability and that of the drafted token, if known
    correction: tuple[str, float | None, float | None] | None = None
    numbers: tuple[int, ...] = ()  # number of the token that each entry of `tokens` is (a symbol of), from 0


@dataclass(frozen=True)
class PassView:
    """One pass: its drafts, the best first and `hidden` more not shown, its counts, its time."""

    emitted: int
    accepted: int
    computed: int
    drafted: int
    written: int  # tokens written up to the end of this pass,
    copied: int  # those of them from drafts,
    offered: int  # tokens drafted,
    saved: int  # and passes saved
    drafts: tuple[DraftView, ...]
    hidden: int
    summary: str
    ms: float


@dataclass(frozen=True)
class TraceView:
    """A result, pass by pass."""

    query: tuple[str, ...]
    atoms: tuple[int | None, ...]  # index in the drawing of every query token's atom, if it has one
    passes: tuple[PassView, ...]
    answers: tuple[AnswerView, ...]
    several: bool  # whether the search followed several hypotheses, so that a step is one of all of them
    uneven: bool  # whether these grow by steps of their own (SBS), so that tokens of the longest one are counted
    relaxed: bool  # whether drafts can change the answers
    tree: DrawnTree | None  # the tree of prefixes, if it was recorded
    merged: bool = False  # whether tokens may have several symbols, in which positions in the query are counted


TokenProbs = Sequence[Mapping[str, float]]  # the most probable tokens at every position of the best answer


def view_trace(result: DecodeResult, probs: TokenProbs = ()) -> TraceView:
    """Return a result's trace as values for drawing; ValueError if it holds no answer with passes of its own."""
    trace = result.trace
    if result.variants:
        raise ValueError("its answers are merged from several SMILES variants, each with passes of its own")
    if result.status != "ok" or not result.hypotheses or not trace.passes:
        raise ValueError("it holds no answer with the passes that made it")
    tree = build_tree(trace, [hypothesis.tokens for hypothesis in result.hypotheses])
    ends = list(accumulate(step.emitted for step in trace.passes))
    answers = tuple(_view_answer(hypothesis, trace, tree, ends) for hypothesis in result.hypotheses)
    relaxed = trace.settings.get("exact") is False
    if relaxed and probs:
        answers = (_with_first_choices(answers[0], probs), *answers[1:])
    passes = tuple(_view_pass(number, trace, answers[0], tree, ends, probs) for number in range(len(trace.passes)))
    return TraceView(
        query=trace.query,
        atoms=chem.atom_tokens(trace.query),
        passes=passes,
        answers=answers,
        several=_has_several(trace),
        uneven=_is_uneven(trace),
        relaxed=relaxed,
        tree=tree,
        merged=_is_merged(trace),
    )


def _has_several(trace: Trace) -> bool:
    return bool(trace.settings.get("decoder", "greedy") != "greedy")


def _is_uneven(trace: Trace) -> bool:
    return bool(trace.settings.get("decoder") == "sbs")


def _is_merged(trace: Trace) -> bool:
    return trace.settings.get("merged") is True


def symbols_of(token: str, *, merged: bool) -> tuple[str, ...]:
    """Return the symbols of a token's text: the text itself, unless it is a merged one."""
    try:
        return tuple(split_smiles(token)) if merged and token != END else (token,)
    except TokenError:  # such as <unk>
        return (token,)


def _view_answer(hypothesis: Hypothesis, trace: Trace, tree: DrawnTree | None, ends: Sequence[int]) -> AnswerView:
    texts = (*hypothesis.tokens, END) if hypothesis.ended == "eos" else hypothesis.tokens
    atoms = (*chem.atom_tokens(hypothesis.tokens), None)
    log_probs = dict(enumerate(hypothesis.token_log_probs))
    path = _path_in_tree(hypothesis, tree) if tree else ()
    if _has_several(trace):
        origins = _origins_from_tree(path, tree) if tree else {}
    else:
        origins = _origins_from_spans(hypothesis, trace)
    if tree and path and _is_uneven(trace):
        written = _passes_by_tree(path, tree, len(texts), len(ends))
    else:  # all hypotheses are of one length after each pass
        written = [1 + min(bisect_right(ends, position), len(ends) - 1) for position in range(len(texts))]
    tokens: list[TokenView] = []
    run, distance, start = -1, None, 0  # start: of the token, in symbols
    for position, (text, step) in enumerate(zip(texts, written, strict=True)):
        origin, source = origins.get(position, ("own", None))
        if source is not None:
            run += distance != start - source
            distance = start - source
        number = None if source is None else run
        probability = exp(min(0.0, log_probs[position])) if position in log_probs else None
        tokens.append(TokenView(text, origin, step, atoms[position], source, number, probability, number=position))
        start += len(symbols_of(text, merged=_is_merged(trace)))
    return AnswerView("".join(hypothesis.tokens), hypothesis.model_probability, tuple(tokens))


def _passes_by_tree(path: Sequence[int], tree: DrawnTree, count: int, passes: int) -> list[int]:
    """Return the pass that wrote each of `count` tokens into this hypothesis, by the tree."""
    written = [tree.accepted[node] for node in path[1:]]
    last = min(tree.ends[path[-1]], passes)  # pass of the token after those computed: the end, or a cut
    return [*written, *[last] * (count - len(written))]


def _with_first_choices(answer: AnswerView, probs: TokenProbs) -> AnswerView:
    tokens = list(answer.tokens)
    for position, (token, candidates) in enumerate(zip(tokens, probs, strict=False)):
        best = max(candidates, key=candidates.__getitem__)
        if token.text != best:
            tokens[position] = replace(token, instead=(best, candidates[best]))
    return replace(answer, tokens=tuple(tokens))


Origins = dict[int, tuple[Origin, int | None]]  # position in the answer -> origin, position in the query


def _origins_from_spans(hypothesis: Hypothesis, trace: Trace) -> Origins:
    """Return origins by the accepted spans, which are of the only hypothesis."""
    origins: Origins = {}
    for step in trace.passes:
        for span in step.spans:
            for offset in range(min(span.length, len(hypothesis.tokens) - span.start)):
                source = None if span.span is None else span.span[0] + offset
                copied = source is not None and source < len(trace.query)
                origins[span.start + offset] = ("copied", source) if copied else ("ahead", None)
    return origins


def _origins_from_tree(path: Sequence[int], tree: DrawnTree) -> Origins:
    """Return origins by the tree: a node computed before it was requested had been drafted."""
    sources = {index: tree.sources[node] for index, node in enumerate(path[1:]) if tree.sources[node] != REQUESTED}
    return {index: ("copied", source) if source > DRAFTED else ("ahead", None) for index, source in sources.items()}


def _path_in_tree(hypothesis: Hypothesis, tree: DrawnTree) -> tuple[int, ...]:
    """Return an answer's nodes from bos on; the last token of one that was cut need not have been computed."""
    texts = list(hypothesis.tokens)
    if hypothesis.ended == "length" and texts:
        texts.pop()
    return next((path for path in tree.answers if [tree.texts[node] for node in path[1:]][: len(texts)] == texts), ())


def _view_pass(
    number: int, trace: Trace, best: AnswerView, tree: DrawnTree | None, ends: Sequence[int], probs: TokenProbs
) -> PassView:
    step = trace.passes[number]
    several = _has_several(trace)
    if tree and several:
        drafts = _drafted_chains(number + 1, tree, merged=_is_merged(trace))
    else:
        start = ends[number] - step.emitted
        texts = [token.text for token in best.tokens[start : ends[number]]]
        drafts = [_with_correction(_view_draft(draft, texts, step, trace), start, best, probs) for draft in step.drafts]
        drafts = [draft for draft in drafts if draft.tokens]
    drafts.sort(key=lambda draft: (-draft.accepted, -draft.waiting))  # stable: else as drafted
    so_far = speed_numbers([replace(trace, passes=trace.passes[: number + 1])])
    return PassView(
        emitted=step.emitted,
        accepted=step.accepted,
        computed=step.computed,
        drafted=step.drafted,
        written=so_far.emitted,
        copied=so_far.accepted,
        offered=so_far.drafted,
        saved=so_far.emitted - so_far.passes,
        drafts=tuple(drafts[:MAX_DRAFTS]),
        hidden=max(0, len(drafts) - MAX_DRAFTS),
        summary=_describe_pass(number, trace, best, drafts, so_far.emitted),
        ms=1000 * (step.draft_seconds + step.model_seconds),
    )


def _draft_token(draft: Draft, position: int, trace: Trace) -> str:
    """Return the text of a draft's token; without a vocabulary, that of the query at its position."""
    token = draft.tokens[position]
    if 0 <= token < len(trace.vocabulary):
        text = trace.vocabulary[token]
        return END if text == "<eos>" else text
    copied = draft.query_position(position)
    source = -1 if copied is None else copied
    if source == len(trace.query):
        return END
    return trace.query[source] if 0 <= source < len(trace.query) else f"#{token}"


def _view_draft(draft: Draft, written: Sequence[str], step: Pass, trace: Trace) -> DraftView:
    """Return a draft after the only hypothesis, and what came of it; `written` are the tokens of its pass.

    A drafted end is left out, as in the counts of a trace: nothing follows it, so it is not computed.
    """
    texts = tuple(_draft_token(draft, position, trace) for position in range(len(draft.tokens)))
    texts = texts[:-1] if texts[-1:] == (END,) else texts
    right = 0
    for drafted, token in zip(texts, written, strict=False):
        if not (drafted == token if trace.vocabulary else chem.is_same_token(drafted, token)):
            break
        right += 1
    # The last token of a pass is the model's own, even where the draft had it too.
    accepted = min(right, step.emitted - 1, step.accepted)
    numbers = tuple(range(len(texts)))
    return DraftView(texts, _start_of_copy(draft, texts, trace), accepted, right, right, numbers=numbers)


def _start_of_copy(draft: Draft, texts: Sequence[str], trace: Trace) -> int | None:
    """Return the position in the query from which a draft was copied in one piece, or None."""
    if draft.span or not _is_merged(trace):
        return draft.span[0] if draft.span else None
    counts = accumulate((len(symbols_of(text, merged=True)) for text in texts), initial=0)
    starts = {position - count for position, count in zip(draft.positions, counts, strict=False)}
    return draft.positions[0] if len(starts) == 1 and draft.positions[0] >= 0 else None


def _with_correction(draft: DraftView, start: int, best: AnswerView, probs: TokenProbs) -> DraftView:
    position = start + draft.right
    if draft.right >= len(draft.tokens) or position >= len(best.tokens):
        return draft
    correction = best.tokens[position]
    drafted = probs[position].get(draft.tokens[draft.right], 0.0) if position < len(probs) else None
    return replace(draft, correction=(correction.text, correction.probability, drafted))


def _drafted_chains(number: int, tree: DrawnTree, *, merged: bool) -> list[DraftView]:
    """Return the pieces of the query that a pass of a beam search computed ahead, wherever in the tree they hang."""
    new = {node: None for node, born in enumerate(tree.born) if born == number}
    chains: list[DraftView] = []
    seen: set[int] = set()
    for head in new:
        if tree.sources[head] < 0 or head in seen:
            continue
        chain, node = [head], head
        while node >= 0:
            onward = (child for child in tree.children[node] if child in new)
            end = tree.sources[node] + len(symbols_of(tree.texts[node], merged=merged))
            node = next((child for child in onward if tree.sources[child] == end), -1)
            chain += [node] if node >= 0 else []
        seen.update(chain)
        alive = [node for node in chain if tree.dies[node] > number]
        accepted = sum(tree.accepted[node] <= number for node in alive)
        texts = tuple(tree.texts[node] for node in chain)
        numbers = tuple(range(len(texts)))
        chains.append(DraftView(texts, tree.sources[head], accepted, accepted, len(alive), numbers=numbers))
    return chains


def _describe_pass(number: int, trace: Trace, answer: AnswerView, drafts: Sequence[DraftView], written: int) -> str:
    step = trace.passes[number]
    head, tail = f"Pass {number + 1} of {len(trace.passes)}. ", f"; {_count_noun(written, 'token')} so far."
    if _is_uneven(trace):
        live = _count_noun(len(step.grown.beam) if step.grown else step.requested, "unfinished answer")
        ahead = f"{live}, {_count_noun(step.drafted, 'partial answer')} along their drafts computed. "
        return f"{head}{ahead}The longest text grew by {_count_noun(step.emitted, 'token')}{tail}"
    if _has_several(trace):
        ahead = f"{_count_noun(step.requested, 'partial answer')} requested, {step.drafted} computed ahead. "
        return f"{head}{ahead}The beam grew by {_count_noun(step.emitted, 'token')}{tail}"
    middle = "Nothing was drafted. "
    if drafts:
        best = drafts[0]
        count = "A draft of " if len(drafts) == 1 else f"{len(drafts)} drafts, the best has "
        unit = "symbol" if _is_merged(trace) else "token"
        position = "" if best.start is None else f" copied from query {unit} {best.start + 1} on"
        middle = f"{count}{_count_noun(len(best.tokens), 'token')}{position}; {best.accepted} accepted. "
    lesser = sum(token.instead is not None and token.pass_number == number + 1 for token in answer.tokens)
    middle += f"{_count_noun(lesser, 'token')} not the model's first choice. " * bool(lesser)
    added = step.emitted - step.accepted
    return f"{head}{middle}The model added {_count_noun(added, 'token')} of its own{tail}"


def _count_noun(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"
