"""Queries as a model reads them: parsed, canonicalised and tokenised, also as several SMILES variants."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isnan
from random import Random

import chemspec.chem as chem
from chemspec.chem import formats
from chemspec.chem.reactions import root_align
from chemspec.chem.reactions.isotopes import NOTE as LABELS_NOTE
from chemspec.chem.reactions.isotopes import strip_labels
from chemspec.chem.reading.respell import hydrides_as_ions
from chemspec.engine.familiarity import Familiarity
from chemspec.importers.base import TextTokenizer
from chemspec.settings import DecodeSettings, Task
from chemspec.tokenizer import TokenError
from chemspec.types import DecodeResult

ADVICE = "give a SMILES, or a list or column of them"
MAX_CHARS = 1000
_MARK = re.compile(r"\s*(<[^<>\s]+>)")
MAX_TOKENS = 400  # maximum query length; models are trained on up to 200, and time grows quadratically


@dataclass(frozen=True)
class PreparedQuery:
    """A tokenised query, or the result that explains why it is invalid."""

    text: str  # the query as entered
    ids: tuple[int, ...] = ()  # input of the model
    tokens: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()  # notes for the result
    lead: str = ""  # the model's special tokens entered before the SMILES, such as a reaction class
    smiles: str = ""  # canonical, with isotope labels
    unlabelled: str = ""  # what the model reads, if that lacks isotope labels (`chem.reactions.isotopes`); else empty
    refusal: DecodeResult | None = None  # the result, if the query is invalid

    def ensure_valid(self) -> None:
        """Raise ValueError with the reason if the query is invalid."""
        if self.refusal:
            raise ValueError(self.refusal.message)


@dataclass(frozen=True, eq=False)
class QueryReader:
    """Reads queries for one model, of at most `longest` tokens; the caveats are notes that are added to every query."""

    task: Task
    tokenizer: TextTokenizer
    longest: int
    caveats: tuple[str, ...]
    familiarity: Familiarity | None

    def read(self, text: str) -> PreparedQuery:
        """Parse, canonicalise and tokenise one query; an invalid one gets a `refusal`."""
        if not isinstance(text, str):
            raise TypeError(f"{text!r:.50} is not a query; {ADVICE}")
        text = text.encode("utf-8", "replace").decode()  # lone surrogates cannot be encoded
        lead, bare = self.tokenizer.split_prompt(text)
        query = formats.read_input(bare, task=self.task, max_chars=MAX_CHARS)
        if lead == "" and self.tokenizer.has_marks and (mark := _MARK.match(bare)):
            message = f"the model has no special token {mark[1]}"
            return PreparedQuery(text, refusal=DecodeResult(text, "invalid", message))
        if isinstance(query, chem.Fault):
            status = "too_long" if query.kind == "length" else "invalid"
            return PreparedQuery(text, refusal=DecodeResult(text, status, str(query)))  # type: ignore[arg-type]
        refused = DecodeResult(text, "invalid", "", notes=query.notes, smiles=query.smiles)
        plain = strip_labels(query.smiles)
        if plain != query.smiles:
            unlabelled = self.read(lead + plain)
            notes = (*query.notes, LABELS_NOTE, *unlabelled.notes)
            refusal = unlabelled.refusal and replace(unlabelled.refusal, query=text, notes=notes, smiles=query.smiles)
            return replace(unlabelled, text=text, notes=notes, smiles=query.smiles, unlabelled=plain, refusal=refusal)
        try:
            ids = self.tokenizer.encode(lead + query.smiles)
        except TokenError as error:
            smiles, changes = hydrides_as_ions(query.smiles)
            if changes:
                ions, notes = self.read(lead + smiles), (*query.notes, *changes)
                refusal = ions.refusal and replace(ions.refusal, query=text, notes=notes)
                return replace(ions, text=text, notes=(*notes, *ions.notes), refusal=refusal)
            return PreparedQuery(text, refusal=replace(refused, message=f"{error} in {query.smiles}"))
        if len(ids) > self.longest:
            message = f"{len(ids)} tokens; queries may have at most {self.longest}"
            return PreparedQuery(text, refusal=replace(refused, status="too_long", message=message))
        tokens = tuple(self.tokenizer.symbol_texts(ids))
        likeness = self.familiarity.nearest_similarity(query.smiles) if self.familiarity else None
        unlike = self.familiarity.unfamiliarity_notes(tokens, likeness) if self.familiarity else ()
        return PreparedQuery(text, ids, tokens, (*query.notes, *self.caveats, *unlike), lead, query.smiles)

    def variants(self, query: PreparedQuery, settings: DecodeSettings) -> list[PreparedQuery]:
        """Return the SMILES variants of a query that the model can read, the canonical one first."""
        if settings.augment == 1:
            return [query]
        read = query.unlabelled or query.smiles
        rng = Random(f"{settings.seed}/{read}")  # independent of other queries
        rows = [replace(query, text=query.smiles, notes=())]
        smiles, unlabelled = (query.smiles, read) if query.unlabelled else ("", "")
        for text in root_align.smiles_variants_of_query(read, settings.augment, rng)[1:]:
            try:
                ids = self.tokenizer.encode(query.lead + text)
            except TokenError:  # the vocabulary may have too few ring labels
                continue
            if len(ids) <= self.longest:
                tokens = tuple(self.tokenizer.symbol_texts(ids))
                rows.append(PreparedQuery(text, ids, tokens, smiles=smiles, unlabelled=unlabelled))
        return rows


def list_queries(queries: object) -> list[str]:
    """Return the queries of a list, a column or a generator, with an empty text for missing values (None, NaN).

    Raises TypeError for anything else, such as a table or bytes.
    """
    if not isinstance(queries, Iterable) or isinstance(queries, (bytes, Mapping)):
        raise TypeError(f"{queries!r:.50} is not a query; {ADVICE}")
    if hasattr(queries, "columns") and not isinstance(queries, Sequence):
        raise TypeError(
            f"a table is no list of queries; {ADVICE}, such as table[{next(iter(queries), 'smiles')!r:.50}]"
        )
    texts = ["" if _is_missing(query) else query for query in queries]
    for number, query in enumerate(texts):
        if not isinstance(query, str):
            raise TypeError(f"query {number} is {query!r:.50}, no text; {ADVICE}")
    return texts


def _is_missing(value: object) -> bool:
    """Return whether a cell of a table is empty, as pandas has it."""
    return value is None or type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and isnan(value))
