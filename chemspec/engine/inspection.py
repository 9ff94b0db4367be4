"""What a model makes of a query inside: states of the encoder, and where the last decoder layer looks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self, Unpack, overload

import numpy as np

from chemspec.engine.options import LoadingOptions
from chemspec.engine.queries import PreparedQuery, list_queries
from chemspec.engine.scoring import token_text
from chemspec.importers.base import TextTokenizer
from chemspec.model.runner import Backend
from chemspec.model.runners.numpy_runner import NumpyBackend
from chemspec.tokenizer import BOS, EOS

if TYPE_CHECKING:
    from pathlib import Path

Array = np.ndarray[Any, np.dtype[np.float32]]


@dataclass(frozen=True, eq=False)
class Embedding:
    """The encoder's last states of a query.

    Attributes:
        tokens: what the encoder reads, with the tokens that it adds.
        vectors: a vector for each of them, (tokens, width), in fp32.
    """

    tokens: tuple[str, ...]
    vectors: Array

    @property
    def mean(self) -> Array:
        """The mean of the vectors, one vector for the molecule."""
        mean: Array = self.vectors.mean(axis=0)
        return mean


@dataclass(frozen=True, eq=False)
class AttentionMap:
    """Where the last decoder layer looks in the query, for each token of an answer.

    Attributes:
        query_tokens: what the encoder reads, with the tokens that it adds.
        answer_tokens: the tokens of the answer with "end"; each is predicted with the weights of its row.
        heads: weights (heads, answer tokens, query tokens), which sum to 1 over the query tokens.
    """

    query_tokens: tuple[str, ...]
    answer_tokens: tuple[str, ...]
    heads: Array

    @property
    def weights(self) -> Array:
        """The mean over the heads (answer tokens, query tokens)."""
        mean: Array = self.heads.mean(axis=0)
        return mean


class Inspection:
    """Methods of an engine that show what the model computes; it runs in numpy for them, in fp32 on the CPU."""

    if TYPE_CHECKING:
        tokenizer: TextTokenizer
        backend: Backend
        loaded_from: tuple[str | Path, LoadingOptions] | None

        @classmethod
        def load(cls, name: str | Path, **options: Unpack[LoadingOptions]) -> Self: ...  # noqa: D102
        def prepare(self, text: str) -> PreparedQuery: ...  # noqa: D102

    @overload
    def embed(self, queries: str) -> Embedding: ...  # type: ignore[overload-overlap]

    @overload
    def embed(self, queries: Iterable[str]) -> list[Embedding]: ...

    def embed(self, queries: str | Iterable[str]) -> Embedding | list[Embedding]:
        """Return the encoder's last states of a query, or of several, in fp32 from numpy.

        Raises:
            ValueError: for a query that cannot be read, or a model that does not run in numpy.
        """
        if not isinstance(queries, str):
            return [self.embed(query) for query in list_queries(queries)]
        backend, ids = self._in_numpy, self._read_query(queries)
        return Embedding(self._token_texts(backend.config.encoder_ids(ids)), backend.encoder_states(ids))

    def attention(self, query: str, answer: str) -> AttentionMap:
        """Return where the last decoder layer looks in the query for each token of an answer, in fp32 from numpy.

        Args:
            query: as for `predict`.
            answer: SMILES as the model writes it, such as `Hypothesis.smiles`; it need not be one of its predictions.

        Raises:
            ValueError: for a query or an answer that cannot be read, or a model that does not run in numpy.
        """
        backend, ids, tokens = self._in_numpy, self._read_query(query), self.tokenizer.encode_answer(answer)
        if len(tokens) >= backend.config.max_positions:
            raise ValueError(f"the answer has {len(tokens)} tokens; there may be {backend.config.max_positions - 1}")
        heads = backend.source_attention(ids, (BOS, *tokens))
        texts = self._token_texts(backend.config.encoder_ids(ids)), self._token_texts((*tokens, EOS))
        return AttentionMap(*texts, heads)

    @cached_property
    def _in_numpy(self) -> NumpyBackend:
        """The model in numpy, loaded again if the engine runs elsewhere."""
        backend = self.backend
        _ = backend.open  # raises ValueError if the engine is closed
        if not isinstance(backend, NumpyBackend) and self.loaded_from is not None:
            name, options = self.loaded_from
            in_numpy: LoadingOptions = {**options, "device": "cpu", "dtype": "fp32", "runtime": "numpy"}
            backend = self.load(name, **in_numpy).backend
        if not isinstance(backend, NumpyBackend):
            raise ValueError("this model does not run in numpy, so its states are not at hand")
        return backend

    def _read_query(self, query: str) -> tuple[int, ...]:
        ready = self.prepare(query)
        ready.ensure_valid()
        return ready.ids

    def _token_texts(self, ids: Sequence[int]) -> tuple[str, ...]:
        return tuple(token_text(index, self.tokenizer.tokens) for index in ids)
