"""A person's answer compared with the model's: where it leaves the model's path, what is recorded, and what flips it.

The model scores the answer in one forward pass, as it scores a draft: what the tokens before are, the person has
drafted, and the model verifies each. Up to the first token that is not its own choice, both answers are one text.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from math import exp, floor, log10
from random import Random
from typing import Any, NamedTuple

from chemspec import chem
from chemspec.chem.checks.flask_media import is_solvent
from chemspec.chem.checks.flask_parts import split_flask
from chemspec.chem.reactions import guide
from chemspec.chem.reactions.root_align import smiles_variants_of_query, write_in_order_of
from chemspec.chem.reactions.step_class import classify_step
from chemspec.engine.engine import Engine
from chemspec.engine.scoring import END, ScoredAnswer, ScoredToken, answer_variants
from chemspec.precedents import Found, Precedents, in_words
from chemspec.review.forward_check import find_precedents
from chemspec.review.reaction_check import ReactionCheck, judge_predictions, matches_expected
from chemspec.review.suggestions import format_percent
from chemspec.settings import DecodeSettings
from chemspec.tasks import TASKS
from chemspec.tokenizer import TokenError, split_smiles
from chemspec.types import Hypothesis

MAX_VARIATIONS = 5
GREEDY = DecodeSettings(decoder="greedy", n=1)
GUIDED = DecodeSettings(decoder="beam", n=5, distinct=True)


class Departure(NamedTuple):
    """The first token of an answer that is not the model's own choice, and the atoms there."""

    position: int  # position of the token, from 0
    token: ScoredToken
    shared: int  # atoms before it, which the model's answer has too, in the same order
    atom: int  # atom of the answer: that of the token, or the last one before it
    model_atom: int  # likewise of the model's answer


class Variation(NamedTuple):
    """The query with one change, and the model's answer to it."""

    change: str  # the change in words, such as "without DMF"
    first: str  # the model's answer, canonical SMILES; empty if it is none
    first_probability: float  # probability of the model
    agrees: bool  # whether this is the person's answer
    probability: float | None  # the model's of the person's answer; None if it was not scored


@dataclass(frozen=True)
class Argument:
    """A person's answer as the model sees it."""

    check: ReactionCheck  # its rank among the predictions
    scored: ScoredAnswer  # its most probable SMILES variant, token by token
    first: Hypothesis  # the model's own answer, decoded greedily
    departure: Departure | None  # where it leaves the model's path; None if it is the model's own answer
    records: tuple[Found | None, Found | None]  # precedents of the person's and of the model's answer
    variations: tuple[Variation, ...]

    @property
    def path_sentence(self) -> str:
        """Where the answer leaves the model's path, what the model chose there, and how probable both are."""
        count = len(self.scored.tokens)
        if self.departure is None:
            return f"The model chooses every one of its {count} tokens itself: it is the model's own first answer"
        index, token, *_ = self.departure
        chosen, written = _token_words(token.best), _token_words(token.text)
        sure, given = format_percent(exp(token.best_log_prob)), format_percent(exp(token.log_prob))
        before = f"Up to token {index} of {count} it is the model's own choice. " if index else ""
        rank = f"its choice number {token.rank}"
        return f"{before}At token {index + 1} the model chose {chosen} ({sure}) and gave {written} {given}, {rank}"

    @property
    def rank_sentence(self) -> str:
        """The rank of the answer among the predictions, and its probability."""
        check, count = self.check, self.scored.variants
        best = f", the highest of {count} SMILES variants" if count > 1 else ""
        of_model = f"the model's probability of it is {format_odds(self.scored.model_probability)}{best}"
        if check.rank:
            return f"It is prediction {check.rank} of {check.answers} ({format_percent(check.probability)}); {of_model}"
        near = f" (prediction {check.near} is {check.nearly})" if check.near else ""
        return f"It is not in the list of {check.answers}{near}; {of_model}"

    @property
    def marked_text(self) -> str:
        """The SMILES as scored, with the token where it leaves the model's path between » and «."""
        texts = [token.text for token in self.scored.tokens]
        if self.departure is not None:
            texts[self.departure.position] = f"»{texts[self.departure.position]}«"
        return "".join(texts).removesuffix(END)

    def document(self) -> dict[str, Any]:
        """Return the argument as a JSON document."""
        departure = self.departure
        return {
            "smiles": self.scored.smiles,
            "variants": self.scored.variants,
            "model_probability": self.scored.model_probability,
            "log_prob": self.scored.log_prob,
            "tokens": [vars(token) for token in self.scored.tokens],
            "departure": departure and departure.position,
            "atom": departure and departure.atom,
            "first": self.first.canonical or self.first.smiles,
            "path": self.path_sentence,
            "rank": self.rank_sentence,
            "records": [records and records.close for records in self.records],
            "variations": [variation._asdict() for variation in self.variations],
        }


def argue(
    engine: Engine, check: ReactionCheck, index: Precedents | None = None, *, conditions: Sequence[str] = ()
) -> Argument:
    """Compare the expected side of a reaction with the model's own answer.

    Args:
        engine: the model of the check.
        check: a check of the reaction (`check_reaction`).
        index: precedents, whose conditions are tried too.
        conditions: reagents to try in place of the flask's, joined SMILES.

    Raises:
        ValueError: if the expected side cannot be scored, as one with a token that the vocabulary lacks.
    """
    answer = _without_agents(check)
    result = engine.predict(check.query, GREEDY)
    if result.status != "ok":
        raise ValueError(result.message)
    first = result.hypotheses[0]
    listed = [each for each in check.result.hypotheses if each.valid][max(0, check.rank - 1) : check.rank]
    scored = _score(engine, check.query, answer, [write_in_order_of(answer, first.smiles), *(e.smiles for e in listed)])
    agrees = first.valid and matches_expected(check.task, check.query, check.expected, first.canonical)
    departure = None if agrees else find_departure(scored, first)
    records = _find_records(check, answer, first, index)
    variations = _vary(engine, replace(check, expected=answer), records[0], conditions)
    return Argument(check, scored, first, departure, records, variations)


def format_odds(probability: float) -> str:
    """Return a probability in percent, a small one as "1 in 4,200"."""
    if probability >= 0.01:
        return format_percent(probability)
    if probability < 1e-9:
        return "less than 1 in a billion"
    digits = floor(log10(1 / probability)) - 1
    return f"1 in {round(1 / probability, -digits):,.0f}"


def _score(engine: Engine, query: str, answer: str, variants: Sequence[str | None]) -> ScoredAnswer:
    """Score an answer in one forward pass, also as those of the SMILES `variants` that are the same molecules."""
    same = [text for text in variants if text and chem.canonical(text) == chem.canonical(answer)]
    scored = engine.score([query] * (len(same) + 1), [answer, *same])
    different = {*answer_variants(engine.task, query, answer), *same}
    return replace(max(scored, key=lambda each: each.log_prob), variants=len(different))


def find_departure(scored: ScoredAnswer, first: Hypothesis) -> Departure | None:
    """Return where a scored answer leaves the path of the greedy one; None if it does not."""
    index = scored.departure
    if index is None:
        return None
    texts = [token.text for token in scored.tokens if token.text != END]
    shared, atom = _atoms_at(texts, index)
    _, model_atom = _atoms_at(first.tokens, index)
    return Departure(index, scored.tokens[index], shared, atom, model_atom)


def _atoms_at(tokens: Sequence[str], index: int) -> tuple[int, int]:
    """Return the number of atoms before a token, and the index of its atom, else of the last one before it."""
    symbols = [_symbols_of(token) for token in tokens]
    atoms = chem.atom_tokens([symbol for texts in symbols for symbol in texts])
    starts = [*accumulate(map(len, symbols), initial=0)]
    before = sum(atom is not None for atom in atoms[: starts[min(index, len(tokens))]])
    symbol_atoms = (
        [atom for atom in atoms[starts[index] : starts[index + 1]] if atom is not None] if index < len(tokens) else []
    )
    return before, symbol_atoms[0] if symbol_atoms else max(0, before - 1)


def _symbols_of(token: str) -> list[str]:
    """Return the symbols of a token, several of a merged one."""
    try:
        return split_smiles(token)
    except TokenError:  # such as <unk>
        return [token]


def _token_words(text: str) -> str:
    return {END: "the end", "(": "a branch", ")": "the end of a branch", ".": "another molecule"}.get(text, f"“{text}”")


def _without_agents(check: ReactionCheck) -> str:
    """Return the expected side; of reactants only those that give the target atoms, as a retro model writes them."""
    step = classify_step(check.expected, check.query) if check.task == "retro" else None
    return ".".join(split_flask(check.expected, step)[0]) if step else check.expected


def _find_records(
    check: ReactionCheck, answer: str, first: Hypothesis, index: Precedents | None
) -> tuple[Found | None, Found | None]:
    if TASKS.lookup(check.task).whole:
        return None, None
    sides = [TASKS[check.task].sides(check.query, text) for text in (answer, first.canonical) if text]
    records = [find_precedents(index, (product, flask)) for flask, product in sides]
    return records[0], records[1] if len(records) > 1 else None


# --- what flips it ---------------------------------------------------------------------------------


def _vary(
    engine: Engine, check: ReactionCheck, records: Found | None, conditions: Sequence[str]
) -> tuple[Variation, ...]:
    if check.task == "forward":
        return _vary_flask(engine, check, records, conditions)
    return _vary_target(engine, check) if check.task == "retro" else ()


def _vary_flask(
    engine: Engine, check: ReactionCheck, records: Found | None, conditions: Sequence[str]
) -> tuple[Variation, ...]:
    """Answer and score with other reagents, all flasks in one batch."""
    flasks: dict[str, str] = {}  # what changes, by flask
    given = chem.canonical(check.query)
    for change, flask in _other_flasks(check.query, check.expected, records, conditions):
        text = chem.canonical(flask)
        if text and text != given and engine.prepare(text).refusal is None:
            flasks.setdefault(text, change)
    texts = [*flasks][:MAX_VARIATIONS]
    results = engine.predict(texts, GREEDY)
    scores = engine.score(texts, [check.expected] * len(texts))
    variations = []
    for text, result, scored in zip(texts, results, scores, strict=True):
        first = result.hypotheses[0]
        agrees = first.valid and matches_expected("forward", text, check.expected, first.canonical)
        odds = first.model_probability, agrees, scored.model_probability
        variations.append(Variation(flasks[text], first.canonical, *odds))
    return tuple(variations)


def _other_flasks(
    flask: str, product: str, records: Found | None, conditions: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """Yield changes in words, and flasks: with recorded, given and usual reagents, and without those that are there."""
    step = classify_step(flask, product)
    if step is None:
        return
    givers, agents = split_flask(flask, step)
    recorded = [conditions.reagents for conditions in records.conditions[:2]] if records else []
    sources = [
        (recorded, "recorded for such a change"),
        (conditions, "proposed by a model"),
        ([step.reagents], "usual for the class"),
    ]
    solvents = [agent for agent in agents if is_solvent(agent)]
    others = [agent for agent in agents if agent not in solvents]
    swaps = [(f"with {in_words(each)} ({why})", each) for texts, why in sources for each in texts if each]
    yield from ((words, ".".join((*givers, each))) for words, each in swaps[:3])
    if solvents and others:
        yield f"without {in_words('.'.join(solvents))}", ".".join((*givers, *others))
    if len(others) > 1 or (others and solvents):
        yield f"without {in_words('.'.join(others))}", ".".join((*givers, *solvents))
    if agents:
        yield "the reactants alone", ".".join(givers)
    yield from ((words, ".".join((*givers, each))) for words, each in swaps[3:])


def _vary_target(engine: Engine, check: ReactionCheck) -> tuple[Variation, ...]:
    """Answer where a bond of the person's choice must break, and for the target written from other atoms."""
    target = check.query
    step = classify_step(check.expected, target)
    names = {pair: name for name, pair in guide.bonds_by_name(target).items()}
    variations = []
    if step and (cut := [names[pair] for pair in step.made if pair in names]):
        result = engine.predict(target, replace(GUIDED, guide=str(guide.Guide(cut=tuple(cut)))))
        broken = judge_predictions("retro", target, check.expected, result)
        words = f"if {' or '.join(cut)} must break" + f" (yours is {broken.rank} of {broken.answers})" * (
            broken.rank > 1
        )
        variations += [
            _variation(check, words, answer.canonical, answer.model_probability) for answer in result.hypotheses[:1]
        ]
    spellings = smiles_variants_of_query(target, MAX_VARIATIONS, Random(0))[1:]
    rows = [ids for text in spellings if (ids := _encode(engine, text))]
    firsts: dict[str, list[float]] = {}
    for answers in engine.generate_ids(rows, GREEDY):
        first = chem.canonical(engine.tokenizer.decode(answers[0].tokens)) or ""
        firsts.setdefault(first, []).append(exp(answers[0].log_prob))
    for first, odds in firsts.items():
        change = f"written from another atom ({len(odds)} of {len(rows)})"
        variations.append(_variation(check, change, first, max(odds)))
    return tuple(variations)


def _variation(check: ReactionCheck, change: str, first: str, probability: float) -> Variation:
    agrees = bool(first) and matches_expected(check.task, check.query, check.expected, first)
    return Variation(change, first, probability, agrees, None)


def _encode(engine: Engine, text: str) -> tuple[int, ...]:
    """Return the token ids of a SMILES variant; none if the vocabulary lacks one, or it is too long."""
    try:
        ids = engine.tokenizer.encode(text)
    except TokenError:
        return ()
    return tuple(ids) if len(ids) <= engine.longest_query else ()
