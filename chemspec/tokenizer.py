"""Tokenizer: SMILES to token ids and back; raises an error for text that it cannot restore exactly."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

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
    """Tokenizer with a fixed vocabulary: `tokens[i]` is the text of id i; the first four are pad, bos, eos and unk."""

    tokens: tuple[str, ...]
    prompt_format: PromptFormat | None = None

    def __post_init__(self) -> None:
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
        try:
            return cls(tuple(tokens), _parse_prompt_format(values.get("reading")) if isinstance(values, dict) else None)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{path}: {error}") from error

    def save(self, path: Path) -> None:
        """Save the vocabulary as a JSON list, or as an object if there is a prompt format."""
        values: Any = list(self.tokens)
        if self.prompt_format is not None:
            values = {"tokens": values, "reading": asdict(self.prompt_format)}
        write_text_atomic(path, json.dumps(values, ensure_ascii=False))

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def smiles_tokens(self) -> tuple[str, ...]:
        """Tokens by id, if each is one SMILES symbol; used by drafters to find ring labels."""
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
        marks = [token for token in self.tokens[len(SPECIALS) :] if len(token) > 2 and not _ATOM_WISE.fullmatch(token)]
        longest = sorted(marks, key=len, reverse=True)
        return re.compile("|".join(map(re.escape, longest)) or r"(?!)")

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
            pieces += [*split_smiles(text[position : mark.start()]), mark.group()]
            position = mark.end()
        return pieces + split_smiles(text[position:])

    def encode(self, smiles: str) -> tuple[int, ...]:
        """Return the token ids of a SMILES, without bos and eos; TokenError if it is none, or has an unknown token."""
        tokens = (
            split_smiles(smiles)
            if self.prompt_format is None
            else self._split_marked(self.prompt_format.template.replace(HOLE, smiles))
        )
        ids = tuple(map(self._readable_ids.get, tokens))
        if None not in ids:
            return ids  # type: ignore[return-value]
        if self.prompt_format is not None and self.prompt_format.unknown_as_unk:
            return tuple(UNK if index is None else index for index in ids)
        first = ids.index(None)
        token, start = tokens[first], sum(map(len, tokens[:first]))
        raise TokenError(f"the model has never seen {token!r} (position {start + 1})", start, start + len(token))

    def encode_or_unk(self, smiles: str) -> tuple[int, ...]:
        """Return token ids for training, with unk for rare tokens."""
        return tuple(self._token_ids.get(token, UNK) for token in split_smiles(smiles))

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids up to the first eos, without special tokens."""
        return "".join(self.token_texts(ids))

    def token_texts(self, ids: Sequence[int]) -> list[str]:
        """Return the text of each id up to the first eos, without special tokens."""
        end, first = ids.index(EOS) if EOS in ids else len(ids), len(SPECIALS)
        return [self.tokens[index] for index in ids[:end] if index >= first or index == UNK]


def _parse_prompt_format(values: Any) -> PromptFormat | None:
    if values is None:
        return None
    if not isinstance(values, dict) or set(values) - {field.name for field in fields(PromptFormat)}:
        raise ValueError("its reading has keys this version does not know")
    unread = values.get("unread", ())
    if not isinstance(unread, (list, tuple)) or not all(isinstance(token, str) for token in unread):
        raise ValueError("its reading does not list unread tokens")
    return PromptFormat(**{**values, "unread": tuple(unread)})
