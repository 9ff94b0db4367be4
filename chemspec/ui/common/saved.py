"""Saved results: written as they are, and read with suspicion, for a file may come from anywhere."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence

import msgspec

from chemspec.types import DecodeResult, Trace, result_from_json

MOST_BYTES = 5_000_000
MOST_PASSES = 1000
MOST_TOKENS = 3000  # of the query, and of an answer
MOST_ANSWERS = 100
MOST_DRAFTED = 200_000  # tokens of all drafts together
MOST_NODES = 20_000  # of the tree, and the beams together
LONGEST = 60  # characters of a token
LONGEST_TEXT = 4000  # characters of any other text
MOST_NUMBER = 10**9


class SavedError(ValueError):
    """A file that cannot be opened; the message says why, in words of ours only."""


def read(raw: bytes) -> DecodeResult:
    """Return the result that a saved file holds.

    Raises:
        SavedError: if the file is too large, no such file, or its numbers make no sense.
    """
    check_size(len(raw))
    try:
        text = raw.decode("utf-8")
        json.loads(text, parse_constant=_refuse)
        result = result_from_json(text)
    except RecursionError:
        raise SavedError("The file is nested too deeply to be a trace.") from None
    except ValueError:
        raise SavedError(
            "This is not a trace saved by chemspec. Open a .json file that this page, or "
            "“Download JSON” on the page Predict, has written."
        ) from None
    try:  # a dataclass takes any value; what was read must be of the types that its fields say
        result = msgspec.convert(msgspec.to_builtins(result), DecodeResult)
    except (msgspec.ValidationError, TypeError, RecursionError):
        raise SavedError("The file looks like a trace, but holds values of a wrong kind.") from None
    if not all(isinstance(value, str | int | float | bool | None) for value in result.trace.settings.values()):
        raise SavedError("The file holds settings of a wrong kind.")
    _check(result)
    return result


def check_size(number: int) -> None:
    """Refuse a file of so many bytes, if they are too many.

    Raises:
        SavedError: if they are.
    """
    if number > MOST_BYTES:
        raise SavedError(f"The file has {number / 1e6:.1f} MB; a saved trace may have {MOST_BYTES // 1_000_000}.")


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _check(result: DecodeResult) -> None:
    """Sizes and ranges; what is drawn from a trace that passes here can neither be huge nor fail.

    Raises:
        SavedError: naming what is out of bounds.
    """
    trace = result.trace
    _most(len(trace.passes), MOST_PASSES, "passes")
    _most(len(trace.query), MOST_TOKENS, "tokens in the query")
    _most(len(trace.vocabulary), 10_000, "words in the vocabulary")
    _most(len(trace.settings), 100, "settings")
    _most(len(result.hypotheses), MOST_ANSWERS, "answers")
    for item in result.hypotheses:
        _most(len(item.tokens), MOST_TOKENS, "tokens in an answer")
        _texts(item.tokens, LONGEST)
        _texts((item.smiles, item.canonical), LONGEST_TEXT)
        if not 0 <= item.probability <= 1.001:
            raise SavedError("The file holds a probability that is none.")
    _most(len(result.spellings), MOST_ANSWERS, "spellings")
    for spelling in result.spellings:
        if spelling.spellings:
            raise SavedError("The file holds spellings of spellings.")
        _check(spelling)
    _texts((*trace.query, *trace.vocabulary), LONGEST)
    settings = [str(part) for pair in trace.settings.items() for part in pair]
    _texts((result.query, result.message, *result.notes, *settings), LONGEST_TEXT)
    drafts = [draft for item in trace.passes for draft in item.drafts]
    grown = [item.grown for item in trace.passes if item.grown]
    _most(sum(len(draft.tokens) + 1 for draft in drafts), MOST_DRAFTED, "drafted tokens")
    _most(sum(len(item.parents) for item in grown), MOST_NODES, "nodes in the tree")
    _most(sum(len(item.beam) for item in grown), 5 * MOST_NODES, "hypotheses in the beams")
    _passes(trace)


def _passes(trace: Trace) -> None:
    times = [trace.seconds]
    for item in trace.passes:
        counts = (item.asked, item.computed, item.drafted, item.emitted, item.accepted, item.width)
        if not all(0 <= number <= MOST_NUMBER for number in counts) or item.width < 1:
            raise SavedError("A pass of the file counts what cannot be counted.")
        times += [item.draft_seconds, item.model_seconds]
        _texts([draft.drafter for draft in item.drafts], LONGEST)
        spans = [one.span for one in item.spans if one.span]
        spans += [one.span for one in item.drafts if one.span]
        spans += [(one.start, one.start + one.length) for one in item.spans]
        spans += [(max(place, 0),) * 2 for one in item.drafts for place in one.places]
        if not all(0 <= start <= end <= 2 * MOST_TOKENS for start, end in spans):
            raise SavedError("A span of the file lies outside of its query.")
    if not all(math.isfinite(time) and 0 <= time < MOST_NUMBER for time in times):
        raise SavedError("The file holds a time that is none.")


def _most(number: int, most: int, what: str) -> None:
    if number > most:
        raise SavedError(f"The file has {number:,} {what}; {most:,} can be shown.")


def _texts(texts: Sequence[str], longest: int) -> None:
    if any(len(text) > longest for text in texts):
        raise SavedError(f"The file holds a text of more than {longest} characters where none is.")
