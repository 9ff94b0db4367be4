"""A greedy answer explained pass by pass, as JSON values that `assets/web/explain.js` draws.

Exact decoding accepts a drafted token exactly where the answer has the same one. So what any draft would have gained
follows from a recorded answer (`replay_lengths`), and no model runs again.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import accumulate
from typing import Any

from chemspec import chem
from chemspec.chem.molecules.parsing import mol_from_smiles
from chemspec.depict.molecules import Bonds, Depiction
from chemspec.draft.copy import Copy, TokenClasses
from chemspec.metrics import speed_numbers
from chemspec.replay.choices import describe_choices, name_reacting_choices, token_roles
from chemspec.replay.symbols import view_symbols
from chemspec.replay.trace_view import DraftView, TraceView, view_trace
from chemspec.settings import DecodeSettings
from chemspec.tokenizer import BOS, EOS
from chemspec.types import DecodeResult, Prefix, Trace, to_json

DRAFT_LENGTH = 8  # tokens of the drafts of an explained answer
SETTINGS = DecodeSettings(
    decoder="greedy", n=1, drafter="copy", draft_length=DRAFT_LENGTH, drafting="fixed", record=True
)
MAX_DRAFT = 24  # tokens of the longest draft whose gain is replayed; the drafter `auto` goes no further
MAX_NODES = 65  # nodes of a pass up to which a clock has costs

Counts = tuple[int, int, int]  # tokens drafted, accepted and written in a pass
Choices = Sequence[Sequence[Mapping[str, float]]]  # tokens after each prefix of a pass's draft, best first


@dataclass(frozen=True)
class Clock:
    """What a pass costs somewhere."""

    name: str
    about: str  # a sentence below the race
    cost: Callable[[int], float]  # cost of a pass by its number of nodes; only ratios count


def _linear(extra: float) -> Callable[[int], float]:
    return lambda nodes: 1 + extra * (nodes - 1)


CLOCKS = (
    Clock("passes", "Every pass counts as one, however many tokens it checks.", _linear(0)),
    Clock("an H100", "There a pass over fifty tokens takes 18 % longer than one.", _linear(0.18 / 49)),
    Clock("a small core", "With AVX2 a pass over four tokens takes 2.7 times as long as one.", _linear(1.7 / 3)),
)


def explain_answer(
    result: DecodeResult, task: str, *, choices: Choices = (), clocks: Sequence[Clock] = CLOCKS
) -> dict[str, Any]:
    """Return the first answer of a greedy search as JSON values; ValueError if its trace cannot be shown.

    `choices` are the model's best tokens along the drafts (`engine.forks.score_drafts`), those that it rejected too.
    """
    view = view_trace(result)
    if view.several or view.relaxed:
        raise ValueError("the explanation shows exact greedy decoding, token by token")
    answer, numbers, sizes = view.answers[0], speed_numbers([result.trace]), range(1, MAX_NODES + 1)
    return {
        "id": sha256(to_json(result).encode()).hexdigest()[:16],
        "model": str(result.trace.settings.get("model", "")),
        "lead": name_reacting_choices(view, task) or _count_choices(view),
        "sentence": describe_choices(view, task),
        "query": {"smiles": "".join(view.query), "tokens": view.query, "atoms": view.atoms},
        "answer": {"smiles": answer.smiles, "probability": answer.probability, "tokens": _tokens(view, task)},
        **_draw_sides(view, task),
        "passes": _passes(view, result.trace, choices),
        "lengths": replay_lengths(result),
        "alpha": numbers.alpha,
        "clocks": [
            {"name": clock.name, "about": clock.about, "cost": [round(clock.cost(n), 9) for n in sizes]}
            for clock in clocks
        ],
    }


def drafts_of(result: DecodeResult) -> list[tuple[int, Prefix]]:
    """Return, for each pass, how many tokens were written before it, and the ids of its best draft."""
    view, trace = view_trace(result), result.trace
    starts = accumulate((step.emitted for step in trace.passes[:-1]), initial=0)
    return [(start, _draft_ids(number, view, trace)) for number, start in enumerate(starts)]


def _draft_ids(number: int, view: TraceView, trace: Trace) -> Prefix:
    for shown in view.passes[number].drafts[:1]:
        for draft in trace.passes[number].drafts:
            ids = draft.tokens[: len(shown.tokens)]
            if not trace.vocabulary or tuple(trace.vocabulary[token] for token in ids) == shown.tokens:
                return ids
    return ()


def _count_choices(view: TraceView) -> str:
    tokens = view.answers[0].tokens
    return f"The model chose {sum(token.origin == 'own' for token in tokens)} of {len(tokens)} tokens itself"


def _tokens(view: TraceView, task: str) -> list[dict[str, Any]]:
    atoms: dict[int, list[int]] = {}
    for symbol in view_symbols(view).answers[0].tokens:
        atoms.setdefault(symbol.number, []).extend([] if symbol.atom is None else [symbol.atom])
    return [
        {
            "text": token.text,
            "own": token.origin == "own",
            "pass": token.pass_number,
            "atoms": atoms.get(number, []),
            "source": token.source,
            "run": token.run,
            "p": token.probability,
            "role": role,
        }
        for number, (token, role) in enumerate(zip(view.answers[0].tokens, token_roles(view, task), strict=True))
    ]


def _passes(view: TraceView, trace: Trace, choices: Choices) -> list[dict[str, Any]]:
    rows, done = [], 0
    for number, (step, record) in enumerate(zip(view.passes, trace.passes, strict=True)):
        draft = step.drafts[0] if step.drafts else DraftView((), None, 0, 0, 0)
        match = max((each.match for each in record.drafts if each.span and each.span[0] == draft.start), default=0)
        row: dict[str, Any] = {"draft": draft.tokens, "start": draft.start, "match": match, "accepted": draft.accepted}
        row |= {"written": step.emitted, "done": done, "nodes": step.computed}
        row["others"] = len(step.drafts) + step.hidden - bool(step.drafts)
        best = choices[number] if number < len(choices) else ()
        row["choices"] = [[(text, round(p, 4)) for text, p in list(after.items())[:3]] for after in best]
        rows.append(row)
        done += step.emitted
    return rows


# --- drawings --------------------------------------------------------------------------------------


def _draw_sides(view: TraceView, task: str) -> dict[str, list[dict[str, Any]]]:
    """Return the molecules of query and answer, those on the side of the reactants in the pose of the product."""
    tokens = view_symbols(view).answers[0].tokens
    atoms = [view.atoms[token.source] if token.source is not None else None for token in tokens]
    pairs = [(atom, token.atom) for atom, token in zip(atoms, tokens, strict=True) if None not in (atom, token.atom)]
    query, answer = "".join(view.query), view.answers[0].smiles
    if task == "retro":
        turned = [(there, here) for here, there in pairs]
        return {"left": _draw(query), "right": _draw(answer, query, turned)}
    return {"left": _draw(query, answer, pairs), "right": _draw(answer)}


def _draw(smiles: str, like: str = "", pairs: Sequence[tuple[Any, Any]] = ()) -> list[dict[str, Any]]:
    """Return the molecules of a SMILES: drawings, and the index of the first atom of each."""
    parts, first = [], 0
    pieces = smiles.split(".")
    if not all(map(chem.is_valid, pieces)):  # a ring that is closed in another molecule
        pieces = [smiles] if chem.is_valid(smiles) else []
    for piece in pieces:
        count = mol_from_smiles(piece).GetNumAtoms()
        here: Bonds = tuple((atom - first, there) for atom, there in pairs if 0 <= atom - first < count)
        svg = Depiction(piece, tags=True, like=(like, here) if len(here) > 2 else None).svg
        parts += [{"first": first, "smiles": piece, "svg": svg}] if svg else []
        first += count
    return parts


# --- drafts of other lengths -----------------------------------------------------------------------


def replay_lengths(result: DecodeResult) -> list[list[Counts]]:
    """Return the passes of the same answer with copied drafts of 0 to `MAX_DRAFT` tokens, from the recorded answer.

    Empty where the trace has no vocabulary, or the replay does not give the recorded passes.
    """
    trace, best = result.trace, result.hypotheses[0]
    ids = {text: number for number, text in reversed([*enumerate(trace.vocabulary)])}
    if trace.settings.get("merged") or best.ended != "eos" or not {*trace.query, *best.tokens} <= ids.keys():
        return []
    source, answer = [ids[text] for text in trace.query], (*(ids[text] for text in best.tokens), EOS)
    classes = TokenClasses.from_tokens(trace.vocabulary)
    runs = [_replay(source, answer, length, classes) for length in range(MAX_DRAFT + 1)]
    recorded = [(step.drafted, step.accepted, step.emitted) for step in trace.passes]
    return runs if recorded in runs else []


def _replay(source: Sequence[int], answer: Prefix, length: int, classes: TokenClasses) -> list[Counts]:
    drafter = Copy(length, token_classes=classes) if length else None
    passes, done = list[Counts](), 0
    while done < len(answer):
        drafts = drafter.propose(source, (BOS, *answer[:done]), len(answer) + length) if drafter else ()
        draft = drafts[0].tokens if drafts else ()
        draft = draft[: draft.index(EOS)] if EOS in draft else draft  # nothing follows an end
        accepted = next((k for k, token in enumerate(draft) if token != answer[done + k]), len(draft))
        passes.append((len(draft), accepted, accepted + 1))
        done += accepted + 1
    return passes
