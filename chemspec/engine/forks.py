"""Low-margin positions of a prediction, and the predictions that the second-best tokens there lead to.

All prefixes of the prediction are scored again in one forward pass; from a low-margin position, decoding continues
greedily after the second-best token.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp

import chemspec.chem as chem
from chemspec.decode.generate import open_decoding
from chemspec.decode.protocol import START, Decoder, finish_sequence
from chemspec.engine.engine import Engine
from chemspec.tokenizer import EOS
from chemspec.types import Hypothesis, Prefix, Scores

TRIED = 6  # number of positions that are followed
CHOICES = 50  # number of tokens per position whose probabilities are returned


@dataclass(frozen=True)
class Fork:
    """A low-margin position of a prediction."""

    position: int  # index of the token in the prediction, from 0
    token: str  # the predicted token
    probability: float
    alternative: str  # the best other token
    alternative_probability: float
    smiles: str  # canonical SMILES of the prediction with that token


def find_forks(engine: Engine, query: str, answer: Hypothesis, *, most: int = 2) -> list[Fork]:
    """Return the least certain positions that lead to other molecules, least certain first."""
    path = _answer_prefix(engine, query, answer)
    branches: list[tuple[int, Scores, tuple[int, ...]]] = []
    _run_decoder(engine, query, _follow_alternatives(path, branches), 2)
    seen_molecules = {answer.canonical}
    chosen = []
    for position, scores, branch in branches:
        other = _best_alternative(scores, path[position + 1])
        text = chem.canonical(engine.tokenizer.decode(branch[1:]))
        if text and text not in seen_molecules:
            seen_molecules.add(text)
            probability = exp(_token_log_prob(scores, path[position + 1]))
            pieces = _token_texts(engine, (path[position + 1], other))
            chosen.append(Fork(position, pieces[0], probability, pieces[1], exp(_token_log_prob(scores, other)), text))
    return chosen[:most]


def token_alternatives(engine: Engine, query: str, answer: Hypothesis) -> list[dict[str, float]]:
    """Return the best tokens at every position of a prediction, eos included, with their probabilities."""
    path = _answer_prefix(engine, query, answer)
    seen: list[Scores] = []
    _run_decoder(engine, query, _score_prefixes(path, seen), min(CHOICES, len(engine.tokenizer)))
    return [
        dict(zip(reversed(_token_texts(engine, scores.ids)), map(exp, reversed(scores.log_probs)), strict=True))
        for scores in seen
    ]


def _answer_prefix(engine: Engine, query: str, answer: Hypothesis) -> Prefix:
    """Return the token ids of a prediction, bos and eos included."""
    ids: dict[str, list[int]] = {}
    for number, text in enumerate(engine.tokenizer.tokens):
        ids.setdefault(text, []).append(number)
    path = [*([token] for token in START), *(ids[text] for text in answer.tokens), [EOS]]
    if any(len(tokens) > 1 for tokens in path):  # with and without a blank before it, in models of other programs
        _run_decoder(engine, query, _choose_tokens(path, answer.token_log_probs), len(engine.tokenizer))
    return tuple(tokens[0] for tokens in path)


def _choose_tokens(path: list[list[int]], log_probs: Sequence[float]) -> Decoder:
    """Decoder that leaves of the tokens at each position the one whose log-prob is that of the prediction."""
    prefix = START
    for position, log_prob in enumerate(log_probs, 1):
        (scores,) = yield (prefix,)
        nearest = {token: abs(_token_log_prob(scores, token) - log_prob) for token in path[position]}
        path[position] = [min(nearest, key=nearest.__getitem__)]
        prefix = (*prefix, *path[position])
    return [finish_sequence(prefix, [])]


def _run_decoder(engine: Engine, query: str, decoder: Decoder, top_k: int) -> None:
    """Run a decoder on the model's scores for a query; raises ValueError for an invalid query."""
    ready = engine.prepare(query)
    if ready.refusal:
        raise ValueError(ready.refusal.message)
    with engine.runtime_config.torch_scope():
        open_decoding(
            engine.backend,
            [ready.ids],
            [decoder],
            top_k=top_k,
            max_len=engine.config.max_positions - 1,
            vocab_size=engine.config.vocab_size,
        ).run_to_end()


def _score_prefixes(path: Prefix, seen: list[Scores]) -> Decoder:
    """Decoder that requests every prefix of a path and stores the scores in `seen`."""
    seen += yield tuple(path[: end + 1] for end in range(len(path) - 1))
    return [finish_sequence(path, [])]


def _follow_alternatives(path: Prefix, branches: list[tuple[int, Scores, tuple[int, ...]]]) -> Decoder:
    """Decoder that scores a path, then continues greedily after the best alternatives of its least certain tokens."""
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
    """Return the best token other than the predicted one."""
    return next(int(token) for token in scores.ids if token != written)


def _token_log_prob(scores: Scores, token: int) -> float:
    """Return the log-prob of a token; for one that is not among the candidates, that of the last candidate."""
    log_probs = dict(zip(map(int, scores.ids), map(float, scores.log_probs), strict=True))
    return log_probs.get(token, min(log_probs.values()))


def _token_texts(engine: Engine, ids: Sequence[int]) -> list[str]:
    return ["end" if token == EOS else engine.tokenizer.tokens[int(token)] for token in ids]
