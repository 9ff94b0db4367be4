"""Drafters that predict with a network, in one batched call per forward pass of the target.

`spec_drafter` is a non-autoregressive model that fills masks (Xia et al. 2023, section 3.1). `blockwise` and `medusa`
are extra prediction heads on the target's last hidden state. The last computed state belongs to the token before the
newest one, which was predicted from it. The heads predict the tokens after the newest one without having seen it.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from heapq import heappop, heappush
from itertools import islice
from math import exp
from typing import Any

from chemspec.draft.base import Drafter, check_draft_size
from chemspec.draft.learned.small import SourcePrefix
from chemspec.model.session import Session
from chemspec.tokenizer import BOS, EOS, PAD, UNK
from chemspec.types import Draft, Prefix

Filled = tuple[Sequence[int], Sequence[float]]  # the tokens of the masks after a prefix, and their log-probs
# Predicts the tokens after every (source, prefix) in one forward pass.
Fill = Callable[[Sequence[tuple[Sequence[int], Prefix]]], Sequence[Filled]]
# Returns the last hidden state (D,) of a query's prefix; None if it has not been computed.
ReadState = Callable[[tuple[int, ...], Prefix], Any]
# Returns the best tokens of each head for each state and their log-probs, best first: (states, heads, candidates) each.
Predict = Callable[[Sequence[Any], int], tuple[Sequence[Sequence[Sequence[int]]], Sequence[Sequence[Sequence[float]]]]]
NEVER = (PAD, BOS, UNK)
MIN_PROBABILITY = 0.02  # minimum joint probability of a draft's tokens
Predicted = Sequence[Sequence[tuple[int, float]]]  # the best tokens of each head and their log-probs


class LearnedDrafter(Drafter):
    """Drafts after all requested prefixes of a pass at once; create one per run."""

    has_hooks = True

    def __init__(self, name: str) -> None:
        self.name = name
        self._drafts: Mapping[SourcePrefix, Sequence[Draft]] = {}  # drafts behind the prefixes of the last `prepare`

    @abstractmethod
    def predict(self, requested: Mapping[SourcePrefix, int]) -> Mapping[SourcePrefix, Sequence[Draft]]:
        """Return the drafts after requested prefixes, each given with its `max_new_tokens`, which is at least 1."""

    def prepare(self, requested: Sequence[tuple[Sequence[int], Prefix, int]]) -> None:
        """Draft after all prefixes of a pass; see `Drafter.prepare`."""
        self._drafts = self.predict({(tuple(source), prefix): room for source, prefix, room in requested if room > 0})

    def propose(self, source: Sequence[int], prefix: Prefix, max_new_tokens: int) -> Sequence[Draft]:
        """Return drafts for one prefix; see `Drafter.propose`."""
        return self._drafts.get((tuple(source), prefix), ())


class SpecDrafter(LearnedDrafter):
    """One draft per prefix: the tokens of up to `length` masks, up to a minimum joint probability."""

    def __init__(self, fill: Fill, *, masks: int, length: int = 0) -> None:
        """Draft at most `length` tokens (0: one per mask) with a model that fills `masks` masks at once, not more."""
        super().__init__("spec_drafter")
        self.fill, self.length = fill, length or masks
        check_draft_size(self.length, 1)
        if self.length > masks:
            message = f"draft length {length}; this drafter was trained to fill {masks} tokens at once, and no more"
            raise ValueError(message)

    def predict(self, requested: Mapping[SourcePrefix, int]) -> Mapping[SourcePrefix, Sequence[Draft]]:
        """Return at most one draft after every prefix; see `LearnedDrafter.predict`."""
        self.calls += bool(requested)
        filled = self.fill(list(requested)) if requested else ()
        return {
            key: sequential_draft(tokens[: min(self.length, room)], log_probs, self.name)
            for (key, room), (tokens, log_probs) in zip(requested.items(), filled, strict=True)
        }


class HeadDrafts(LearnedDrafter):
    """Base class of drafters with extra heads; its `calls` are evaluations of the heads."""

    reads_states = True
    CANDIDATES = 4  # tokens per head; three of them may be special tokens, which are not drafted
    NAME = ""

    def __init__(self, predict_heads: Predict, *, heads: int, length: int = 0) -> None:
        """Draft with a model's heads, at most `length` tokens (0: one per head); raises ValueError for more."""
        super().__init__(self.NAME)
        self.predict_heads, self.length = predict_heads, length or heads
        check_draft_size(self.length, 1)
        if self.length > heads:
            raise ValueError(f"draft length {length}; this drafter has {heads} heads, one a token")
        self.read_state: ReadState = lambda *_: None  # replaced as soon as there is a session

    def watch(self, session: Session) -> None:
        """Read the hidden states from this session."""
        self.read_state = session.hidden_state

    @abstractmethod
    def drafts_of(self, predicted: Predicted) -> Sequence[Draft]:
        """Return the drafts that follow from the predictions of the heads after one prefix."""

    def predict(self, requested: Mapping[SourcePrefix, int]) -> Mapping[SourcePrefix, Sequence[Draft]]:
        """Evaluate the heads after all prefixes whose last state is known; see `LearnedDrafter.predict`."""
        read = [(key, self.read_state(key[0], key[1][:-1])) for key in requested]
        states = {key: state for key, state in read if state is not None}
        if not states:
            return {}
        self.calls += 1
        ids, log_probs = self.predict_heads(list(states.values()), self.CANDIDATES)
        return {
            key: self.drafts_of(
                [
                    [pair for pair in zip(*head, strict=True) if pair[0] not in NEVER]
                    for head in islice(zip(tokens, scores, strict=True), min(self.length, requested[key]))
                ]
            )
            for key, tokens, scores in zip(states, ids, log_probs, strict=True)
        }


class Blockwise(HeadDrafts):
    """One draft of each head's best token (Stern et al. 2018), up to a minimum joint probability."""

    NAME = "blockwise"

    def drafts_of(self, predicted: Predicted) -> Sequence[Draft]:
        """Return one draft, or none if the first token is improbable; see `HeadDrafts.drafts_of`."""
        best = [head[0] for head in predicted]
        return sequential_draft([token for token, _ in best], [p for _, p in best], self.name)


class Medusa(HeadDrafts):
    """A tree of the heads' best tokens, most probable combinations first (Cai et al. 2024).

    The probability of a path is the product of its tokens' probabilities, as if the heads were independent. The authors
    use one tree for all prefixes, chosen by average probabilities; here each prefix has its own tree.
    """

    NAME = "medusa"

    def __init__(self, predict_heads: Predict, *, heads: int, length: int = 0, count: int = 0, nodes: int = 24) -> None:
        """Draft at most `count` paths (0 for no limit) of a tree of at most `nodes` nodes; see `HeadDrafts`."""
        super().__init__(predict_heads, heads=heads, length=length)
        self.count, self.nodes = count, nodes

    def drafts_of(self, predicted: Predicted) -> Sequence[Draft]:
        """Return the leaves of the tree; see `HeadDrafts.drafts_of`."""
        paths = self._likeliest_paths(predicted)
        inner = {path[:-1] for path in paths}
        leaves = [path for path in paths if path not in inner][: self.count or None]
        return [
            Draft(
                tuple(token for token, _ in path),
                self.name,
                probabilities=tuple(probability for _, probability in path),
            )
            for path in leaves
        ]

    def _likeliest_paths(self, predicted: Predicted) -> list[tuple[tuple[int, float], ...]]:
        """Return the most probable paths of (token, probability), sorted, so parents come before children."""
        heap: list[tuple[float, int, tuple[tuple[int, float], ...]]] = [(-1.0, 0, ())]
        paths: list[tuple[tuple[int, float], ...]] = []
        made = 0  # breaks ties: the path created first goes first
        while heap and len(paths) < self.nodes:
            negative, _, path = heappop(heap)
            if path:
                paths.append(path)
                if path[-1][0] == EOS:
                    continue
            for token, log_prob in predicted[len(path)] if len(path) < len(predicted) else ():
                probability = exp(log_prob)
                if -negative * probability >= MIN_PROBABILITY:
                    made += 1
                    heappush(heap, (negative * probability, made, (*path, (token, probability))))
        return paths


def sequential_draft(tokens: Sequence[int], log_probs: Sequence[float], drafter: str) -> tuple[Draft, ...]:
    """Return one draft of the tokens up to eos or a joint probability below `MIN_PROBABILITY`; none if it is empty."""
    probs: list[float] = []
    joint_probability = 1.0
    for token, log_prob in zip(tokens, log_probs, strict=False):
        probability = exp(log_prob)
        joint_probability *= probability
        if joint_probability < MIN_PROBABILITY:
            break
        probs.append(probability)
        if token == EOS:
            break
    return (Draft(tuple(tokens[: len(probs)]), drafter, probabilities=tuple(probs)),) if probs else ()
