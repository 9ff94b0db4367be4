"""Low-margin positions of a prediction, and the predictions that the second-best tokens there lead to.

All prefixes of the prediction are scored again in one forward pass; from a low-margin position, decoding continues
greedily after the second-best token.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import exp

import chemspec.chem as chem
from chemspec.engine.engine import Engine
from chemspec.engine.scoring import score_prefixes, token_text
from chemspec.model.session import Session
from chemspec.tokenizer import BOS, EOS
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
    longest = min(2 * len(path) + 20, engine.config.max_positions)
    molecules, forks = {answer.canonical}, []
    with _open_session(engine, query, 2) as session:
        (seen,) = score_prefixes(session, [path])
        doubtful = sorted(range(len(seen)), key=lambda position: token_log_prob(seen[position], path[position + 1]))
        for position in doubtful[:TRIED]:
            written, scores = path[position + 1], seen[position]
            other = next(int(token) for token in scores.ids if token != written)
            prefix = (*path[: position + 1], other)
            while prefix[-1] != EOS and len(prefix) < longest:
                prefix = (*prefix, int(session.score([[prefix]])[0][prefix].ids[0]))
            text = chem.canonical(engine.tokenizer.decode(prefix[1:]))
            if text and text not in molecules:
                molecules.add(text)
                odds = [exp(token_log_prob(scores, token)) for token in (written, other)]
                pieces = _token_texts(engine, (written, other))
                forks.append(Fork(position, pieces[0], odds[0], pieces[1], odds[1], text))
    return forks[:most]


def token_alternatives(engine: Engine, query: str, answer: Hypothesis) -> list[dict[str, float]]:
    """Return the best tokens at every position of a prediction, eos included, with their probabilities."""
    path = _answer_prefix(engine, query, answer)
    with _open_session(engine, query, min(CHOICES, len(engine.tokenizer))) as session:
        (seen,) = score_prefixes(session, [path])
    return [
        dict(zip(reversed(_token_texts(engine, scores.ids)), map(exp, reversed(scores.log_probs)), strict=True))
        for scores in seen
    ]


def score_drafts(
    engine: Engine, query: str, answer: Hypothesis, drafts: Sequence[tuple[int, Prefix]], *, most: int = 3
) -> list[list[dict[str, float]]]:
    """Return the best tokens after every prefix of drafts of a prediction, the empty one first, with probabilities.

    A draft is the number of tokens of the prediction before it, and its token ids. All are scored in one forward pass,
    also what stands behind a token that the model rejects.
    """
    path = _answer_prefix(engine, query, answer)
    prefixes = [[(*path[: start + 1], *ids[:length]) for length in range(len(ids) + 1)] for start, ids in drafts]
    with _open_session(engine, query, most) as session:
        (scores,) = session.score([list(dict.fromkeys(prefix for along in prefixes for prefix in along))])
    return [
        [
            dict(zip(_token_texts(engine, scores[prefix].ids), map(exp, scores[prefix].log_probs), strict=True))
            for prefix in along
        ]
        for along in prefixes
    ]


def _answer_prefix(engine: Engine, query: str, answer: Hypothesis) -> Prefix:
    """Return the token ids of a prediction, bos and eos included."""
    ids: dict[str, list[int]] = {}
    for number, text in enumerate(engine.tokenizer.tokens):
        ids.setdefault(text, []).append(number)
    path: Prefix = (BOS,)
    with _open_session(engine, query, len(engine.tokenizer)) as session:
        for text, log_prob in zip(answer.tokens, answer.token_log_probs, strict=False):
            token = ids[text][0]
            if len(ids[text]) > 1:  # models of other programs: one token with a blank before it, one without
                scores = session.score([[path]])[0][path]
                differences = {each: abs(token_log_prob(scores, each) - log_prob) for each in ids[text]}
                token = min(differences, key=differences.__getitem__)
            path = (*path, token)
    return (*path, EOS)


@contextmanager
def _open_session(engine: Engine, query: str, top_k: int) -> Iterator[Session]:
    """Open a session of one query; raises ValueError for an invalid one."""
    ready = engine.prepare(query)
    ready.ensure_valid()
    with engine.runtime_config.torch_scope():
        yield Session(engine.backend, [ready.ids], top_k=top_k)


def token_log_prob(scores: Scores, token: int) -> float:
    """Return the log-prob of a token; for one that is not among the candidates, that of the last candidate."""
    log_probs = dict(zip(map(int, scores.ids), map(float, scores.log_probs), strict=True))
    return log_probs.get(token, min(log_probs.values()))


def _token_texts(engine: Engine, ids: Sequence[int]) -> list[str]:
    return [token_text(int(token), engine.tokenizer.tokens) for token in ids]
