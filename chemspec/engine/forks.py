"""Where a model hesitated while it wrote an answer, and how it would have gone on otherwise.

The answer is scored once more, all its prefixes in one pass; from a place of doubt on the model then writes greedily
after its other choice.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from math import exp

import chemspec.chem as chem
from chemspec.decode.decoding import Decoding
from chemspec.decode.protocol import START, Decoder, finish_sequence
from chemspec.draft.none import NoDrafts
from chemspec.engine.engine import Engine
from chemspec.model.session import Session
from chemspec.tokenizer import EOS
from chemspec.types import Hypothesis, Prefix, Scores

TRIED = 6  # places of doubt that are followed, until there are enough that lead to other molecules
CHOICES = 50  # best tokens of a place whose probabilities are told


@dataclass(frozen=True)
class Fork:
    """A place where the model might have written something else.

    Attributes:
        place: of the token in the answer, from 0.
        token, odds: what it wrote there, and with which probability.
        other, other_odds: its other choice.
        smiles: canonical, what it would have written then.
    """

    position: int
    token: str
    probability: float
    alternative: str
    alternative_probability: float
    smiles: str


def find_forks(engine: Engine, query: str, answer: Hypothesis, *, most: int = 2) -> list[Fork]:
    """Return the places where the model hesitated most, most doubtful first; only those that lead to other molecules.

    Args:
        engine: whose answer it is.
        query: SMILES as it was asked.
        answer: what the model wrote.
        most: places wanted.
    """
    path = _answer_prefix(engine, answer)
    branches: list[tuple[int, Scores, tuple[int, ...]]] = []
    _run_decoder(engine, query, _follow_alternatives(path, branches), 2)
    seen_molecules = {answer.canonical}
    chosen = []
    for position, scores, branch in branches:
        other = _best_alternative(scores, path[position + 1])
        text = chem.canonical(engine.tokenizer.decode(branch[1:]))
        if text and text not in seen_molecules:
            seen_molecules.add(text)
            odds = exp(_token_log_prob(scores, path[position + 1]))
            pieces = _token_texts(engine, (path[position + 1], other))
            chosen.append(Fork(position, pieces[0], odds, pieces[1], exp(_token_log_prob(scores, other)), text))
    return chosen[:most]


def token_alternatives(engine: Engine, query: str, answer: Hypothesis) -> list[dict[str, float]]:
    """Return of every token of an answer, end included, what might have stood there, by text with its probability."""
    path = _answer_prefix(engine, answer)
    seen: list[Scores] = []
    _run_decoder(engine, query, _score_prefixes(path, seen), min(CHOICES, len(engine.tokenizer)))
    return [
        {text: exp(odds) for text, odds in zip(_token_texts(engine, scores.ids), scores.log_probs, strict=True)}
        for scores in seen
    ]


def _answer_prefix(engine: Engine, answer: Hypothesis) -> Prefix:
    """Return the ids that were written, bos and eos included; a tokenizer would read the text as a query's."""
    ids = {text: number for number, text in enumerate(engine.tokenizer.tokens)}
    return (*START, *(ids[piece] for piece in answer.tokens), EOS)


def _run_decoder(engine: Engine, query: str, decoder: Decoder, top_k: int) -> None:
    """Answer the prefixes that a decoder asks about; ValueError where the query cannot be asked."""
    ready = engine.prepare(query)
    if ready.refusal:
        raise ValueError(ready.refusal.message)
    with engine.runtime_config.torch_scope():
        session = Session(engine.backend, [ready.ids], top_k=top_k)
        room = engine.config.max_positions - 1
        began = time.perf_counter()
        Decoding(
            [ready.ids],
            [decoder],
            session,
            NoDrafts(),
            max_len=room,
            budget=0,
            clock=lambda: time.perf_counter() - began,
            vocab_size=engine.config.vocab_size,
        ).run_to_end()


def _score_prefixes(path: Prefix, seen: list[Scores]) -> Decoder:
    """Ask about every prefix of a path."""
    seen += yield tuple(path[: end + 1] for end in range(len(path) - 1))
    return [finish_sequence(path, [])]


def _follow_alternatives(path: Prefix, branches: list[tuple[int, Scores, tuple[int, ...]]]) -> Decoder:
    """Ask about a path, then write on greedily after the other choice where its tokens were least sure."""
    seen: list[Scores] = []
    yield from _score_prefixes(path, seen)
    doubtful = sorted(range(len(seen)), key=lambda position: _token_log_prob(seen[position], path[position + 1]))
    for position in doubtful[:TRIED]:
        prefix = (*path[: position + 1], _best_alternative(seen[position], path[position + 1]))
        while prefix[-1] != EOS and len(prefix) < 2 * len(path) + 20:
            (scores,) = yield (prefix,)
            prefix = (*prefix, int(scores.ids[0]))
        branches.append((position, seen[position], prefix[:-1] if prefix[-1] == EOS else prefix))
    return [finish_sequence(path, [])]


def _best_alternative(scores: Scores, written: int) -> int:
    """Return the best token that was not written."""
    return next(int(token) for token in scores.ids if token != written)


def _token_log_prob(scores: Scores, token: int) -> float:
    """Return the log-prob of a token; of one that is not among the best, no more than the last of these."""
    log_probs = {
        int(candidate): float(log_prob) for candidate, log_prob in zip(scores.ids, scores.log_probs, strict=True)
    }
    return log_probs.get(token, min(log_probs.values()))


def _token_texts(engine: Engine, ids: Sequence[int]) -> list[str]:
    return ["end" if token == EOS else engine.tokenizer.tokens[int(token)] for token in ids]
