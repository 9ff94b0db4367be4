"""SMILES to token ids and back; refuses what it cannot restore exactly."""

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
    """A string that does not split into known tokens; says where.

    Attributes:
        start, end: the character span of the fault in the string given.
    """

    def __init__(self, message: str, start: int, end: int) -> None:
        super().__init__(message)
        self.start = start
        self.end = end


def split(smiles: str) -> list[str]:
    """The atom-wise tokens of a SMILES; joined, they give the string back.

    Raises:
        TokenError: at the first character that starts no token (other programs drop it silently).
    """
    tokens = _ATOM_WISE.findall(smiles)
    if sum(map(len, tokens)) == len(smiles):
        return tokens
    position = 0  # something was skipped: where?
    while match := _ATOM_WISE.match(smiles, position):
        position = match.end()
    raise TokenError(f"character {smiles[position]!r} at position {position + 1} is not SMILES", position, position + 1)


@dataclass(frozen=True)
class Reading:
    """How a model that another program trained reads a query; models of our own have none.

    Its queries may also be split at blanks already, and begin with marks of its vocabulary such as <RX_1>.

    Attributes:
        template: the text that it reads, with `{query}` where the SMILES goes.
        unread: tokens that it writes and does not read.
        unknown_as_unk: read unknown tokens as unk, as the other program does, instead of refusing them.
    """

    template: str = HOLE
    unread: tuple[str, ...] = ()
    unknown_as_unk: bool = False

    def __post_init__(self) -> None:
        if self.template.count(HOLE) != 1:
            raise ValueError(f"template {self.template!r} must hold {HOLE} once, where the SMILES goes")


@dataclass(frozen=True)
class Tokenizer:
    """A fixed vocabulary: `tokens[i]` is the text of id i; the first four are pad, bos, eos and unk."""

    tokens: tuple[str, ...]
    reading: Reading | None = None

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
        """A vocabulary of all tokens seen at least `min_count` times, in alphabetical order; after those of another."""
        counts = Counter(token for text in smiles for token in split(text))
        known = tuple(first) or SPECIALS
        new = {token for token, count in counts.items() if count >= min_count}.difference(known)
        return cls(known + tuple(sorted(new)))

    @classmethod
    def load(cls, path: Path) -> Tokenizer:
        """Read a `vocab.json`: the list of tokens by id.

        Raises:
            ValueError: naming the file and its fault.
        """
        try:
            values = read_untrusted_json(path)
        except ValueError as error:
            raise ValueError(f"{path} is no JSON text: {error}") from error
        tokens = values.get("tokens") if isinstance(values, dict) else values
        if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
            raise ValueError(f"{path} is not a list of tokens")
        try:
            return cls(tuple(tokens), _reading(values.get("reading")) if isinstance(values, dict) else None)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{path}: {error}") from error

    def save(self, path: Path) -> None:
        """Write the vocabulary as a JSON list, or with how it is read if that is not as in our own models."""
        values: Any = list(self.tokens)
        if self.reading is not None:
            values = {"tokens": values, "reading": asdict(self.reading)}
        write_text_atomic(path, json.dumps(values, ensure_ascii=False))

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def alphabet(self) -> tuple[str, ...]:
        """The tokens, if each is one symbol of SMILES: what drafters look for marks in."""
        return self.tokens

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {token: index for index, token in enumerate(self.tokens)}

    @cached_property
    def _read(self) -> dict[str, int]:
        """The ids of what a query may hold."""
        unread = () if self.reading is None else self.reading.unread
        return {token: index for token, index in self._ids.items() if token not in unread}

    @cached_property
    def _marks(self) -> re.Pattern[str]:
        """Matches the tokens that are no SMILES, such as the class of a reaction, <RX_1>; nothing if there are none."""
        marks = [token for token in self.tokens[len(SPECIALS) :] if len(token) > 2 and not _ATOM_WISE.fullmatch(token)]
        longest = sorted(marks, key=len, reverse=True)
        return re.compile("|".join(map(re.escape, longest)) or r"(?!)")

    @cached_property
    def prompt_length(self) -> int:
        """How many tokens of a query come before its SMILES."""
        return 0 if self.reading is None else len(self._marked(self.reading.template.partition(HOLE)[0]))

    def lead(self, text: str) -> tuple[str, str]:
        """Split a query as typed into the marks that it begins with and its SMILES, which is none of the model's."""
        if self.reading is None:
            return "", text
        words = text.split()
        if len(words) > 1 and all(word in self._ids for word in words):  # as files of OpenNMT are written
            text = "".join(words)
        end = 0
        while mark := self._marks.match(text, end):
            end = mark.end()
        return text[:end], text[end:].lstrip() if end else text

    def _marked(self, text: str) -> list[str]:
        """The tokens of a text that may hold marks."""
        pieces, position = [], 0
        for mark in self._marks.finditer(text):
            pieces += [*split(text[position : mark.start()]), mark.group()]
            position = mark.end()
        return pieces + split(text[position:])

    def encode(self, smiles: str) -> tuple[int, ...]:
        """Token ids without bos and eos.

        Raises:
            TokenError: naming position and token, where the text is not SMILES or the model never saw the token.
        """
        tokens = split(smiles) if self.reading is None else self._marked(self.reading.template.replace(HOLE, smiles))
        ids = tuple(map(self._read.get, tokens))
        if None not in ids:
            return ids  # type: ignore[return-value]
        if self.reading is not None and self.reading.unknown_as_unk:
            return tuple(UNK if index is None else index for index in ids)
        first = ids.index(None)
        token, position = tokens[first], sum(map(len, tokens[:first]))
        message = f"the model has never seen {token!r} (position {position + 1}); it cannot answer for it"
        raise TokenError(message, position, position + len(token))

    def encode_or_unk(self, smiles: str) -> tuple[int, ...]:
        """Token ids for training data, where a rare token may become unk."""
        return tuple(self._ids.get(token, UNK) for token in split(smiles))

    def decode(self, ids: Sequence[int]) -> str:
        """The text of the ids, up to the first eos, without special tokens."""
        return "".join(self.pieces(ids))

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The text of each id, up to the first eos, without special tokens."""
        end, first = ids.index(EOS) if EOS in ids else len(ids), len(SPECIALS)
        return [self.tokens[index] for index in ids[:end] if index >= first or index == UNK]


def _reading(values: Any) -> Reading | None:
    if values is None:
        return None
    if not isinstance(values, dict) or set(values) - {field.name for field in fields(Reading)}:
        raise ValueError("its reading has keys this version does not know")
    unread = values.get("unread", ())
    if not isinstance(unread, (list, tuple)) or not all(isinstance(token, str) for token in unread):
        raise ValueError("its reading does not list unread tokens")
    return Reading(**{**values, "unread": tuple(unread)})
