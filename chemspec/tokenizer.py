"""Tokenizer: SMILES to token ids and back; raises an error for text that it cannot restore exactly."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from chemspec.system.files import write_text_atomic
from chemspec.system.untrusted import read_untrusted_json

PAD, BOS, EOS, UNK = 0, 1, 2, 3
SPECIALS = ("<pad>", "<bos>", "<eos>", "<unk>")

# The atom-wise pattern of Schwaller et al. (2019), the standard of the field: bracket atoms are one token, as are
# two-letter halogens and two-digit ring labels.
_ATOM_WISE = re.compile(
    r"\[[^\]]+\]|Br?|Cl?|N|O|S|P|F|I|b|c|n|o|s|p|\(|\)|\.|=|#|-|\+|\\|/|:|~|@|\?|>|\*|\$|%[0-9]{2}|[0-9]"
)

HOLE = "{query}"
MERGE_DROPOUT = 0.1
T = TypeVar("T", str, int)
NO_MARKS = r"(?!)"  # matches nothing


class TokenError(ValueError):
    """A string does not split into known tokens; `start` and `end` are the character span of the error in it."""

    def __init__(self, message: str, start: int, end: int) -> None:
        super().__init__(message)
        self.start = start
        self.end = end


def split_smiles(smiles: str) -> list[str]:
    """Split a SMILES into atom-wise tokens, which joined restore the string.

    Raises TokenError at the first character that starts no token (other programs drop it silently).
    """
    tokens = _ATOM_WISE.findall(smiles)
    if sum(map(len, tokens)) == len(smiles):
        return tokens
    position = 0  # find the first skipped character
    while match := _ATOM_WISE.match(smiles, position):
        position = match.end()
    raise TokenError(f"character {smiles[position]!r} at position {position + 1} is not SMILES", position, position + 1)


@dataclass(frozen=True)
class PromptFormat:
    """Prompt format of a model trained by another program; chemspec's own models have none.

    Queries may also contain spaces between tokens and start with special tokens such as <RX_1>.
    """

    template: str = HOLE  # input of the model, with `{query}` in place of the SMILES
    unread: tuple[str, ...] = ()  # tokens that occur in outputs only
    # Replace unknown tokens by unk, as the other program does, instead of raising an error.
    unknown_as_unk: bool = False

    def __post_init__(self) -> None:
        if self.template.count(HOLE) != 1:
            raise ValueError(f"template {self.template!r} must hold {HOLE} once, where the SMILES goes")


@dataclass(frozen=True)
class Tokenizer:
    """Tokenizer with a fixed vocabulary: `tokens[i]` is the text of id i; the first four are pad, bos, eos and unk.

    With `merges`, neighbouring tokens are joined in this order of preference, as byte-pair encoding (Sennrich et al.,
    2016) joins characters: atoms, brackets and ring labels are never cut, and no token crosses a dot.
    """

    tokens: tuple[str, ...]
    prompt_format: PromptFormat | None = None
    merges: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        vocabulary = set(self.tokens)
        for pair in self.merges:
            if "." in pair or not {*pair, "".join(pair)} <= vocabulary or not _joins_symbols(*pair, vocabulary):
                raise ValueError(f"the merge of {pair[0]!r} and {pair[1]!r} joins no tokens of the vocabulary to one")
        if self.tokens[: len(SPECIALS)] != SPECIALS:
            raise ValueError(f"a vocabulary starts with {SPECIALS}, this one with {self.tokens[: len(SPECIALS)]}")
        if len(set(self.tokens)) != len(self.tokens):
            twice = [token for token, count in Counter(self.tokens).items() if count > 1]
            raise ValueError(f"the vocabulary lists {twice[0]!r} twice")
        if unseen := [token for token in self.tokens if not token.isprintable()]:
            raise ValueError(f"token {unseen[0]!a} of the vocabulary cannot be printed")
        if "" in self.tokens:
            raise ValueError(f"token {self.tokens.index('')} of the vocabulary is empty")

    @classmethod
    def build(cls, smiles: Iterable[str], *, min_count: int = 1, first: Sequence[str] = ()) -> Tokenizer:
        """Return a tokenizer with all tokens that occur at least `min_count` times, sorted, after those in `first`."""
        counts = Counter(token for text in smiles for token in split_smiles(text))
        known_tokens = tuple(first) or SPECIALS
        new = {token for token, count in counts.items() if count >= min_count}.difference(known_tokens)
        return cls(known_tokens + tuple(sorted(new)))

    @classmethod
    def load(cls, path: Path) -> Tokenizer:
        """Load a `vocab.json`, the list of tokens by id; raises ValueError, naming the file, if it is damaged."""
        try:
            values = read_untrusted_json(path)
        except ValueError as error:
            raise ValueError(f"{path} is no JSON text: {error}") from error
        tokens = values.get("tokens") if isinstance(values, dict) else values
        if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
            raise ValueError(f"{path} is not a list of tokens")
        more = values if isinstance(values, dict) else {}
        try:
            return cls(tuple(tokens), _parse_prompt_format(more.get("reading")), _parse_merges(more.get("merges", [])))
        except (TypeError, ValueError) as error:
            raise ValueError(f"{path}: {error}") from error

    def save(self, path: Path) -> None:
        """Save the vocabulary as a JSON list, or as an object if there are merges or a prompt format."""
        more: dict[str, Any] = {}
        if self.prompt_format is not None:
            more["reading"] = asdict(self.prompt_format)
        if self.merges:
            more["merges"] = list(self.merges)
        tokens = list(self.tokens)
        write_text_atomic(path, json.dumps({"tokens": tokens, **more} if more else tokens, ensure_ascii=False))

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def smiles_tokens(self) -> tuple[str, ...]:
        """Tokens by id, by which drafters find ring labels."""
        return self.tokens

    @cached_property
    def _token_ids(self) -> dict[str, int]:
        return {token: index for index, token in enumerate(self.tokens)}

    @cached_property
    def _readable_ids(self) -> dict[str, int]:
        """Ids of the tokens that a query may contain."""
        unread = () if self.prompt_format is None else self.prompt_format.unread
        return {token: index for token, index in self._token_ids.items() if token not in unread}

    @cached_property
    def _mark_pattern(self) -> re.Pattern[str]:
        """Pattern of the tokens that are not SMILES, such as reaction classes, <RX_1>."""
        other = [token for token in self.tokens[len(SPECIALS) :] if token not in self._merged_tokens]
        marks = [token for token in other if len(token) > 2 and not _ATOM_WISE.fullmatch(token)]
        longest = sorted(marks, key=len, reverse=True)
        return re.compile("|".join(map(re.escape, longest)) or NO_MARKS)

    @cached_property
    def has_marks(self) -> bool:
        """Whether queries may begin with special tokens of the vocabulary, such as <RX_1>."""
        return self.prompt_format is not None and self._mark_pattern.pattern != NO_MARKS

    @cached_property
    def prompt_length(self) -> int:
        """Number of tokens of the prompt before the SMILES."""
        return (
            0 if self.prompt_format is None else len(self._split_marked(self.prompt_format.template.partition(HOLE)[0]))
        )

    def split_prompt(self, text: str) -> tuple[str, str]:
        """Split a query as entered into its leading special tokens and the SMILES."""
        if self.prompt_format is None:
            return "", text
        words = text.split()
        if len(words) > 1 and all(word in self._token_ids for word in words):  # the format of OpenNMT files
            text = "".join(words)
        end = 0
        while mark := self._mark_pattern.match(text, end):
            end = mark.end()
        return text[:end], text[end:].lstrip() if end else text

    def _split_marked(self, text: str) -> list[str]:
        """Split a text that may contain special tokens."""
        pieces, position = [], 0
        for mark in self._mark_pattern.finditer(text):
            pieces += [*self._split(text[position : mark.start()]), mark.group()]
            position = mark.end()
        return pieces + self._split(text[position:])

    @cached_property
    def _merge_ranks(self) -> dict[tuple[str, str], int]:
        return {pair: rank for rank, pair in enumerate(self.merges)}

    @cached_property
    def _joined_pairs(self) -> list[str]:
        return ["".join(pair) for pair in self.merges]

    def _split(self, smiles: str, random: Random | None = None) -> list[str]:
        """Split a SMILES into tokens: atom-wise, then joined by the merges, without some of them if `random`."""
        tokens, ranks = split_smiles(smiles), self._merge_ranks
        if random is not None:
            ranks = {pair: rank for pair, rank in ranks.items() if random.random() >= MERGE_DROPOUT}
        return join_pairs(tokens, ranks, self._joined_pairs)

    def encode(self, smiles: str) -> tuple[int, ...]:
        """Return the token ids of a SMILES, without bos and eos; TokenError if it is none, or has an unknown token."""
        if self.prompt_format is None:
            return self.encode_answer(smiles)
        tokens = self._split_marked(self.prompt_format.template.replace(HOLE, smiles))
        return self._look_up(tokens, self._readable_ids, unknown_as_unk=self.prompt_format.unknown_as_unk)

    def encode_answer(self, smiles: str) -> tuple[int, ...]:
        """Return the token ids of a SMILES as a model writes it, without a prompt; TokenError likewise."""
        return self._look_up(self._split(smiles), self._token_ids)

    def _look_up(
        self, tokens: Sequence[str], known_ids: Mapping[str, int], *, unknown_as_unk: bool = False
    ) -> tuple[int, ...]:
        ids = tuple(map(known_ids.get, tokens))
        if None not in ids:
            return ids  # type: ignore[return-value]
        if unknown_as_unk:
            return tuple(UNK if index is None else index for index in ids)
        first = ids.index(None)
        token, start = tokens[first], sum(map(len, tokens[:first]))
        raise TokenError(f"the model has never seen {token!r} (position {start + 1})", start, start + len(token))

    def encode_or_unk(self, smiles: str, random: Random | None = None) -> tuple[int, ...]:
        """Return token ids for training, with unk for rare tokens.

        With `random`, every merge is left out with a probability of `MERGE_DROPOUT`, after the BPE dropout of Provilkov
        et al. (2020), so that a model reads a text however it is cut.
        """
        return tuple(self._token_ids.get(token, UNK) for token in self._split(smiles, random))

    def with_merges(self, merges: Sequence[tuple[str, str]]) -> Tokenizer:
        """Return this tokenizer with merges, whose tokens are added at the end of the vocabulary."""
        joined = dict.fromkeys(map("".join, merges))
        new = tuple(token for token in joined if token not in self._token_ids)
        return replace(self, tokens=self.tokens + new, merges=(*self.merges, *merges))

    def token_parts(self, token: int) -> tuple[int, ...]:
        """Return the ids of the atom-wise tokens of a token: itself, unless it is a merged one."""
        text = self.tokens[token]
        if text not in self._merged_tokens:
            return (token,)
        return tuple(self._token_ids[part] for part in split_smiles(text))

    @cached_property
    def _merged_tokens(self) -> frozenset[str]:
        return frozenset(map("".join, self.merges))

    def symbol_texts(self, ids: Sequence[int]) -> list[str]:
        """Return the text of ids up to the first eos in symbols: the parts of merged tokens."""
        texts, merged = self.token_texts(ids), self._merged_tokens
        return [symbol for text in texts for symbol in (split_smiles(text) if text in merged else (text,))]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids up to the first eos, without special tokens."""
        return "".join(self.token_texts(ids))

    def token_texts(self, ids: Sequence[int]) -> list[str]:
        """Return the text of each id up to the first eos, without special tokens."""
        end, first = ids.index(EOS) if EOS in ids else len(ids), len(SPECIALS)
        return [self.tokens[index] for index in ids[:end] if index >= first or index == UNK]


def _joins_symbols(left: str, right: str, vocabulary: set[str]) -> bool:
    """Return whether two texts joined have the symbols of both, which the vocabulary has too."""
    try:
        symbols = split_smiles(left + right)
        return [*split_smiles(left), *split_smiles(right)] == symbols and vocabulary.issuperset(symbols)
    except TokenError:
        return False


def _join_pair(tokens: Sequence[str], pair: tuple[str, str]) -> list[str]:
    """Join every occurrence of a pair of neighbours, from the left."""
    joined: list[str] = []
    position = 0
    while position < len(tokens):
        size = 2 if tuple(tokens[position : position + 2]) == pair else 1
        joined.append("".join(tokens[position : position + size]))
        position += size
    return joined


def join_pairs(tokens: Sequence[T], ranks: Mapping[tuple[T, T], int], joined: Sequence[T]) -> list[T]:
    """Return tokens with neighbours joined in the order of their ranks, each pair from the left (byte-pair encoding).

    `joined` has the token that a pair of every rank becomes.
    """
    tokens, none = list(tokens), len(joined)
    after = [ranks.get(pair, none) for pair in pairwise(tokens)]  # rank of every token with the next one
    while after and (best := min(after)) < none:
        token, at = joined[best], 0
        while best in after:
            at = after.index(best, at)
            tokens[at : at + 2] = [token]
            del after[at]
            if at:
                after[at - 1] = ranks.get((tokens[at - 1], token), none)
            if at < len(after):
                after[at] = ranks.get((token, tokens[at + 1]), none)
    return tokens


def learn_merges(texts: Iterable[str], count: int) -> tuple[tuple[str, str], ...]:
    """Return the `count` merges that byte-pair encoding learns from SMILES: each joins the most frequent neighbours.

    Dots are never joined. Ties are broken by the text of the pair, so that the order of the texts does not matter.
    """
    words = Counter(tuple(split_smiles(part)) for text in texts for part in text.split("."))
    merges: list[tuple[str, str]] = []
    while len(merges) < count:
        pairs: Counter[tuple[str, str]] = Counter()
        for word, times in words.items():
            for pair in pairwise(word):
                pairs[pair] += times
        if not pairs:
            break
        best = max(pairs, key=lambda pair: (pairs[pair], pair))
        merges.append(best)
        joined: Counter[tuple[str, ...]] = Counter()
        for word, times in words.items():
            joined[tuple(_join_pair(word, best)) if best[0] in word else word] += times
        words = joined
    return tuple(merges)


def _parse_merges(values: Any) -> tuple[tuple[str, str], ...]:
    pairs: list[Any] = values if isinstance(values, list) else [None]
    if not all(isinstance(pair, list) and [*map(type, pair)] == [str, str] for pair in pairs):
        raise ValueError("its merges are no list of pairs of tokens")
    return tuple((left, right) for left, right in pairs)


def _parse_prompt_format(values: Any) -> PromptFormat | None:
    if values is None:
        return None
    if not isinstance(values, dict) or set(values) - {field.name for field in fields(PromptFormat)}:
        raise ValueError("its reading has keys this version does not know")
    unread = values.get("unread", ())
    if not isinstance(unread, (list, tuple)) or not all(isinstance(token, str) for token in unread):
        raise ValueError("its reading does not list unread tokens")
    return PromptFormat(**{**values, "unread": tuple(unread)})
