"""Tokenizers of Hugging Face transformers with the interface of `chemspec.tokenizer.Tokenizer`."""

import re
from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Any, ClassVar

from chemspec.importers.hf_weights import IdMap
from chemspec.tokenizer import BOS, EOS, PAD, TokenError

PLACEHOLDER = "{query}"
BLANKS = re.compile("[▁Ġ]")  # blanks in sentencepiece and byte-level BPE tokens


class HfTokenizer:
    """A tokenizer of transformers with the interface of `chemspec.tokenizer.Tokenizer` and chemspec's ids.

    `tokens` has the text of every id, without blanks; `prompt_length` is approximate and used by drafters only. For a
    model without an encoder the last token of the filled template is not part of the source: it is its bos.
    """

    smiles_tokens: ClassVar[tuple[str, ...]] = ()  # since a token may span several atoms
    merges: ClassVar[tuple[tuple[str, str], ...]] = ()
    has_marks = False  # they come from the template

    def __init__(self, inner: Any, numbers: IdMap, template: str = PLACEHOLDER, *, causal: bool = False) -> None:
        if template.count(PLACEHOLDER) != 1:
            raise ValueError(f"template {template!r} must hold {PLACEHOLDER} once, where the SMILES goes")
        self.inner, self.numbers, self.template, self.causal = inner, numbers, template, causal
        size = len(inner)
        texts = [BLANKS.sub("", token or "") for token in inner.convert_ids_to_tokens(list(range(size)))]
        self.tokens = tuple(texts[token] if token < size else f"<{token}>" for token in numbers.theirs)
        added = getattr(inner, "added_tokens_decoder", {})
        self._silent = {*inner.all_special_ids, *(number for number, token in added.items() if token.special)}
        self._unknown = inner.unk_token_id
        head = template[: template.index(PLACEHOLDER)]
        self.prompt_length = len(self._token_ids(head)) if head.strip() else 0

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def around(self) -> tuple[list[int], list[int]]:
        """The ids that the tokenizer adds before and after a text; raises ValueError if it changes texts otherwise."""
        bare, whole = self._token_ids("C"), list(self.inner("C")["input_ids"])
        for start in range(len(whole) - len(bare) + 1):
            if bare and whole[start : start + len(bare)] == bare:
                return whole[:start], whole[start + len(bare) :]
        raise ValueError(f"its tokenizer reads 'C' as {whole}, which does not contain {bare}")

    def split_prompt(self, text: str) -> tuple[str, str]:
        """Return a query unchanged: its prompt comes from the template."""
        return "", text

    def encode(self, smiles: str) -> tuple[int, ...]:
        """Return ids of the filled template; raises TokenError if decoding the tokens does not restore the text."""
        ids = self._encode(self.template.replace(PLACEHOLDER, smiles), smiles)
        if not self.causal:
            return ids
        if self.numbers.theirs[ids[-1]] != self.numbers.theirs[BOS]:
            end = self.inner.decode([self.numbers.theirs[ids[-1]]])
            raise TokenError(
                f"the model's tokenizer joins the end of the template to the query: {end!r}", 0, len(smiles)
            )
        return ids[:-1]

    def encode_answer(self, smiles: str) -> tuple[int, ...]:
        """Return ids of a SMILES alone; raises TokenError likewise."""
        return self._encode(smiles, smiles)

    def _encode(self, text: str, smiles: str) -> tuple[int, ...]:
        ids = self._token_ids(text)
        if self._unknown in ids:
            raise self._unknown_error(smiles)
        restored = self.inner.decode(ids, clean_up_tokenization_spaces=False)
        if _without_blanks(restored) != _without_blanks(text):
            message = f"the model's tokenizer reads {text!r} as {restored!r}, so there is no prediction for it"
            raise TokenError(message, 0, len(smiles))
        return tuple(self.numbers.ours[token] for token in ids)

    def decode(self, ids: Sequence[int]) -> str:
        """Return the SMILES of an output up to the first eos, without special tokens, blanks and a final dot."""
        theirs = [self.numbers.theirs[token] for token in _until_eos(ids)]
        visible = [token for token in theirs if token not in self._silent and token < len(self.inner)]
        return _without_blanks(self.inner.decode(visible, clean_up_tokenization_spaces=False)).rstrip(".")

    def token_texts(self, ids: Sequence[int]) -> list[str]:
        """Return the text of each id, up to the first eos, without pad and bos."""
        return [self.tokens[token] for token in _until_eos(ids) if token not in (PAD, BOS)]

    def symbol_texts(self, ids: Sequence[int]) -> list[str]:
        """Return the text of each id, since nothing is known of symbols within tokens."""
        return self.token_texts(ids)

    def lost_blank_note(self) -> tuple[str, ...]:
        """Return a note if the template ends in a blank that the tokenizer drops."""
        filled = self.template.replace(PLACEHOLDER, "C")
        if filled == filled.rstrip() or self._token_ids(filled) != self._token_ids(filled.rstrip()):
            return ()
        return ("its tokenizer drops the blank at the end of the template; use the tokenizer.json of its authors",)

    def _token_ids(self, text: str) -> list[int]:
        return list(self.inner(text, add_special_tokens=False, verbose=False)["input_ids"])

    def _unknown_error(self, smiles: str) -> TokenError:
        """Return an error for the first unknown token of a text, or for all of it."""
        read = self.inner(smiles, add_special_tokens=False, return_offsets_mapping=self.inner.is_fast)
        for token, (start, end) in zip(read["input_ids"], read.get("offset_mapping", ()), strict=False):
            if token == self._unknown:
                return TokenError(f"the model has never seen {smiles[start:end]!r} (position {start + 1})", start, end)
        return TokenError("the model has no tokens for this text", 0, len(smiles))


def _without_blanks(text: str) -> str:
    """Remove blanks, which tokenizers may add between tokens."""
    return "".join(text.split())


def _until_eos(ids: Sequence[int]) -> Iterator[int]:
    return takewhile(lambda token: token != EOS, ids)
