"""Forced decoding: how probable a model finds a given answer, token by token.

All prefixes of the answer are scored in one forward pass, as a draft would be that is the whole answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import exp
from typing import Protocol

import chemspec.chem as chem
from chemspec.chem.reactions.atom_maps import guess_maps
from chemspec.chem.reactions.isotopes import strip_labels
from chemspec.chem.reactions.root_align import align_forward, align_retro
from chemspec.engine.queries import PreparedQuery
from chemspec.importers.base import TextTokenizer
from chemspec.model.runner import Backend
from chemspec.model.runtime import RuntimeConfig
from chemspec.model.session import Session
from chemspec.settings import ModelConfig, ModelDims, Task
from chemspec.tokenizer import BOS, EOS, TokenError
from chemspec.types import Prefix, Scores

BATCH = 64  # queries of one forward pass
END = "end"  # text of the end-of-sequence token


@dataclass(frozen=True)
class ScoredToken:
    """A token of a scored answer.

    Attributes:
        text: the token; "end" for end-of-sequence.
        log_prob: its log-prob after the tokens before it, in nats.
        rank: its rank among all tokens, 1 for the model's own choice.
        best: the model's own choice.
        best_log_prob: log-prob of that.
    """

    text: str
    log_prob: float
    rank: int
    best: str
    best_log_prob: float


@dataclass(frozen=True)
class ScoredAnswer:
    """An answer as scored by a model.

    Attributes:
        smiles: the most probable of the SMILES variants that were scored.
        tokens: its tokens with end-of-sequence.
        variants: number of SMILES variants that were scored.
    """

    smiles: str
    tokens: tuple[ScoredToken, ...]
    variants: int = 1

    @property
    def log_prob(self) -> float:
        """Log-prob of the answer given the query, in nats."""
        return sum(token.log_prob for token in self.tokens)

    @property
    def model_probability(self) -> float:
        """The model's probability of this SMILES, as `Hypothesis.model_probability`."""
        return exp(self.log_prob)

    @property
    def departure(self) -> int | None:
        """Index of the first token that is not the model's own choice; None for the greedy answer."""
        return next((index for index, token in enumerate(self.tokens) if token.rank > 1), None)


class ScoringModel(Protocol):
    """As much of an engine as scoring needs."""

    @property
    def task(self) -> Task: ...  # noqa: D102
    @property
    def tokenizer(self) -> TextTokenizer: ...  # noqa: D102
    @property
    def config(self) -> ModelConfig | ModelDims: ...  # noqa: D102
    @property
    def backend(self) -> Backend: ...  # noqa: D102
    @property
    def runtime_config(self) -> RuntimeConfig: ...  # noqa: D102

    def prepare(self, text: str) -> PreparedQuery: ...  # noqa: D102


def score_pairs(engine: ScoringModel, queries: str | Sequence[str], answers: str | Sequence[str]) -> list[ScoredAnswer]:
    """Score the answer to each query, `BATCH` of them in one forward pass; see `Engine.score`.

    Raises ValueError for lists of unequal length, and naming its number for a pair that cannot be scored.
    """
    single = isinstance(queries, str) and isinstance(answers, str)
    if single:
        queries, answers = [str(queries)], [str(answers)]
    if isinstance(queries, str) or isinstance(answers, str) or len(queries) != len(answers):
        raise ValueError("give one answer to every query: two SMILES, or two lists of one length")
    encoded = []
    for number, (query, answer) in enumerate(zip(queries, answers, strict=True), 1):
        try:
            encoded.append(_encode_pair(engine, query, answer))
        except ValueError as error:
            raise (error if single else ValueError(f"pair {number}: {error}")) from None
    scored = []
    for start in range(0, len(encoded), BATCH):
        batch = encoded[start : start + BATCH]
        with engine.runtime_config.torch_scope():
            session = Session(engine.backend, [ids for ids, _ in batch], top_k=engine.config.vocab_size)
            scored += score_answers(session, [variants for _, variants in batch], engine.tokenizer.tokens)
    return [max(variants, key=lambda each: each.log_prob) for variants in scored]


def _encode_pair(engine: ScoringModel, query: str, answer: str) -> tuple[tuple[int, ...], Variants]:
    """Return the token ids of a query, and the variants of its answer."""
    ready = engine.prepare(query)
    ready.ensure_valid()
    if ready.unlabelled:  # the model reads and writes no isotope labels
        answer = strip_labels(answer)
    read, longest = ready.unlabelled or ready.smiles, engine.config.max_positions - 2
    return ready.ids, encode_variants(engine.tokenizer, engine.task, read, answer, longest)


Variants = list[tuple[str, tuple[int, ...]]]  # SMILES of one answer, with token ids


def encode_variants(tokenizer: TextTokenizer, task: Task, query: str, answer: str, longest: int) -> Variants:
    """Return the SMILES variants of an answer that a model can write, with token ids; `longest` is their maximum.

    Raises ValueError if there is none, or the answer is no valid SMILES.
    """
    variants, problem = [], ""
    for text in answer_variants(task, query, answer):
        try:
            ids = tokenizer.encode_answer(text)
        except TokenError as error:
            problem = f"the answer {text} cannot be scored: {error}"
            continue
        if len(ids) <= longest:
            variants.append((text, ids))
        else:
            problem = f"the answer has {len(ids)} tokens; there may be {longest}"
    if not variants:
        raise ValueError(problem)
    return variants


def answer_variants(task: Task, query: str, answer: str) -> list[str]:
    """Return SMILES of an answer: as given, canonical, and in the atom order of the query, as models are trained.

    Raises ValueError if the answer is no valid SMILES.
    """
    molecules = chem.canonical(answer)
    if not molecules:
        raise ValueError(f"{answer!r} is no valid SMILES, so it has no probability")
    aligned = _ALIGN[task](query, molecules) if task in _ALIGN else None
    variants = dict.fromkeys((answer, molecules))
    if aligned and chem.canonical(aligned) == molecules:
        variants[aligned] = None
    return list(variants)


def _align_reactants(product: str, reactants: str) -> str | None:
    maps = guess_maps(reactants, product)
    pair = align_retro(maps[0]) if maps else None
    return pair[1] if pair else None


def _align_product(precursors: str, product: str) -> str | None:
    maps = guess_maps(precursors, product)
    pair = align_forward(*maps) if maps else None
    return pair[1] if pair else None


_ALIGN: dict[Task, Callable[[str, str], str | None]] = {"retro": _align_reactants, "forward": _align_product}


def score_prefixes(session: Session, paths: Sequence[Prefix]) -> list[list[Scores]]:
    """Return the scores of every proper prefix of some paths of a session's only query, in one forward pass."""
    prefixes = [[path[: end + 1] for end in range(len(path) - 1)] for path in paths]
    scores = session.score([[prefix for each in prefixes for prefix in each]])[0]
    return [[scores[prefix] for prefix in each] for each in prefixes]


def score_answers(session: Session, answers: Sequence[Variants], vocabulary: Sequence[str]) -> list[list[ScoredAnswer]]:
    """Score the variants of an answer to each query of a session, whose `top_k` is the size of the vocabulary."""
    paths = [[(BOS, *ids, EOS) for _, ids in variants] for variants in answers]
    prefixes = [[path[: end + 1] for path in each for end in range(len(path) - 1)] for each in paths]
    result = []
    for variants, each, scores in zip(answers, paths, session.score(prefixes), strict=True):
        scored = []
        for (smiles, _), path in zip(variants, each, strict=True):
            steps = enumerate(path[1:], 1)
            tokens = tuple(_score_token(scores[path[:end]], token, vocabulary) for end, token in steps)
            scored.append(ScoredAnswer(smiles, tokens, len(variants)))
        result.append(scored)
    return result


def _score_token(scores: Scores, token: int, vocabulary: Sequence[str]) -> ScoredToken:
    ids = [int(index) for index in scores.ids]
    index = ids.index(token)
    best, log_probs = token_text(ids[0], vocabulary), scores.log_probs
    return ScoredToken(token_text(token, vocabulary), float(log_probs[index]), index + 1, best, float(log_probs[0]))


def token_text(token: int, vocabulary: Sequence[str]) -> str:
    """Return the text of a token id."""
    return END if token == EOS else vocabulary[token]
